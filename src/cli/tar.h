#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct err;

/* The tar format as far as `cay cp` needs it: written as ustar with GNU's long names, which GNU tar
 * and busybox read; read with those, and with the paths, links, sizes of pax headers. Names are
 * bytes.
 */

enum tar_type {
    TAR_FILE = '0',
    TAR_HARD_LINK = '1',
    TAR_LINK = '2',
    TAR_DIR = '5',
    TAR_OTHER = '?', /* a device, a pipe, something newer */
};

struct tar_entry {
    char *name; /* "a/b", without a slash at the end */
    char *link; /* of both kinds of links, else NULL */
    enum tar_type type;
    mode_t mode;
    int64_t size; /* of files, else 0 */
    int64_t mtime;
};
void tar_entry_done(struct tar_entry *e);

/* Appends the header; after it the caller sends size bytes and tar_padding() zeros. */
void tar_put(struct buf *out, const struct tar_entry *e);
size_t tar_padding(int64_t size);
#define TAR_HEADER_MAX (3 * (4096u + 1024u))
#define TAR_END_SIZE   1024u /* two blocks of zeros end an archive */

/* An archive that is being read; start with only fd set. */
struct tar_reader {
    int fd;         /* borrowed */
    int64_t left;   /* of the current entry's data */
    size_t padding; /* after it */
    bool ended;     /* the archive's own end was seen, and not only that of the descriptor */
};

/* The next entry: 1, 0 at the end, -1. What is left of the one before is passed over. */
int tar_next(struct tar_reader *r, struct tar_entry *ret, struct err *err);
/* Data of the entry: bytes, 0 at its end, -1. */
ssize_t tar_read(struct tar_reader *r, void *data, size_t len, struct err *err);
