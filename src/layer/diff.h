#pragma once

#include <stdint.h>
#include <sys/stat.h>

#include "layer/stack.h"

struct err;

#define DIFF_ADDED    'A'
#define DIFF_MODIFIED 'M'
#define DIFF_DELETED  'D'

struct stack_diff {
    struct stack old, new;
    uint32_t ids_base; /* of what a sandbox wrote, which may be the first of new; 0 = none is */
    /* path begins with a slash. What is below a folder that was deleted is not told. -1 ends it. */
    int (*found)(void *arg, char kind, const char *path, const struct stat *st, struct err *err);
    void *arg;
};

/* Content is not read: files differ when their size, time, mode or owner does. Folders differ when
 * mode or owner do. In no order. */
int stack_diff(const struct stack_diff *diff, struct err *err);
