#pragma once

#include <stdbool.h>

struct agent_call;
struct err;

#define WALK_PATH_MAX 4096

/* All regular files below a directory, in no order; links are not followed, but for the directory
 * itself. Ends the process when the caller has gone. */
struct walk {
    struct agent_call *call;
    /* One of them, name being the end of path and what dirfd calls it: 0, 1 = enough, or -1. */
    int (*file)(struct walk *w, int dirfd, const char *path, const char *name, struct err *err);
    /* A directory that is to be left out, with all that is below; NULL = none is. */
    bool (*skips)(struct walk *w, const char *path);
};

int walk_tree(struct walk *w, const char *path, struct err *err);
