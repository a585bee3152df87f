#pragma once

#include <openssl/types.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "layer/layer.h"

struct err;

/* What a stack of layers shows, without mounting it: to find files in it and to copy them into a
 * new layer. Nothing here leaves the stack: links are followed as a process inside would. */

struct stack {
    const int *layers; /* topmost first; not owned */
    size_t n;
};

/* Where the path leads: ret is clean and has no link on the way to it ("" = the root), also when
 * there is nothing (0) instead of something (1), which st is of. last: a link that it ends with is
 * followed too. */
int stack_resolve(const struct stack *s, const char *path, bool last, char ret[LAYER_MAX_PATH + 1],
                  struct stat *st, struct err *err);

/* The names in a folder, by a path that was resolved, sorted. */
int stack_names(const struct stack *s, const char *dir, char ***ret, struct err *err);
/* The first bytes of a file, by a path that was resolved, with a NUL behind them; ERR_TOO_LARGE
 * when it has more than max. Free it. */
int stack_read(const struct stack *s, const char *path, size_t max, char **ret, size_t *ret_len,
               struct err *err);

/* How files are copied from one into a layer on top of another. */
struct stack_copy {
    struct stack from;
    struct stack below; /* what the layer is to be on top of, with the layer itself first */
    struct layer *to;   /* NULL = nothing is written: what is wanted is the digest */
    EVP_MD_CTX *sha;    /* takes names, modes, owners and contents of what is copied */
    int64_t uid, gid;   /* -1 = as they are */
    int64_t mode;       /* -1 = as it is; not that of links */
};

/* A file, or what is in a folder; both paths were resolved. Where there is a link to a folder at
 * the place of a folder, what is in it goes there. Devices, fifos and sockets are left out. */
int stack_copy(struct stack_copy *c, const char *from, const char *to, struct err *err);
