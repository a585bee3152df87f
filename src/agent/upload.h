#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct err;

/* A file that is written anew: the data goes to a temporary file in the same directory, which takes
 * the final name at the end or is removed. */
struct upload {
    char *path;   /* final place, links resolved */
    char *parent; /* its directory, then the name in it */
    const char *name;
    int dir, fd;
    char tmp[64];
    bool exists;
    struct stat old;
    uint32_t mode; /* as for CALL_WRITE */
};

#define UPLOAD_INIT(how)                                                                           \
    {                                                                                              \
        .dir = -1, .fd = -1, .mode = (how)                                                         \
    }

/* Opens fd, to which the data is written. */
int upload_begin(struct upload *u, const char *path, bool parents, struct err *err);
/* With the mode that was asked for, and the owner of the file that was there. */
int upload_commit(struct upload *u, struct err *err);
void upload_done(struct upload *u);
#define auto_upload __attribute__((cleanup(upload_done)))
