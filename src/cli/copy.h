#pragma once

#include <stdbool.h>
#include <stddef.h>

struct api;
struct err;

/* The two directions of `cay cp`, for files and whole directories. What is neither file nor
 * directory is skipped with a warning. */
struct cp {
    struct api *api;
    const char *id;
    size_t files, skipped; /* so far */
};

/* A path in the sandbox to a path here; "-" is stdout. */
int copy_out(struct cp *c, const char *from, const char *to, struct err *err);
/* A path here to one in the sandbox; "-" is stdin. */
int copy_in(struct cp *c, const char *from, const char *to, struct err *err);

/* dir/name, where "." is the sandbox's own working folder. */
char *remote_join(const char *dir, const char *name);
