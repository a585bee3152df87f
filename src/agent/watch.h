#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* The directories that a caller of CALL_WATCH looks at, each with a watch of inotify. A directory
 * knows the one above it and its name there, so that a rename is one change however much is below.
 *
 * The kernel's memory for a watch, and for the directory that it holds, is the agent's, whose limit
 * is small; so all callers of a box together have WATCH_DIRS_MAX. */

#define WATCH_CALLS_MAX 8
#define WATCH_DIRS_MAX  8192
#define WATCH_PATH_MAX  4096

struct watch_dir {
    struct watch_dir *next;    /* with the same hash of wd */
    struct watch_dir *above;   /* NULL = the top */
    struct watch_dir *pending; /* the next one of those that are to be read */
    int wd;                    /* -1 = none yet */
    uint32_t at;               /* its place in the list of all */
    unsigned tries;            /* that it was not at its place */
    char name[];
};

struct watch_tree {
    int fd; /* of inotify; -1 = none */
    const char *top;
    uint32_t mask; /* of what inotify tells */
    bool recursive;
    char *const *ignore; /* globs; NULL-terminated */
    struct watch_dir *all[WATCH_DIRS_MAX], *by_wd[1024];
    uint32_t n;
    struct watch_dir *pending, *late; /* to be read now; when more is known of where they are */
    uint64_t unwatched; /* directories that there was no place for since this was set to 0, */
    char unwatched_path[WATCH_PATH_MAX]; /* one of them */

    /* Is told what is found while a directory is read; NULL = nobody. */
    void (*found)(struct watch_dir *dir, const char *name, bool is_dir, void *arg);
    void *arg;
};

/* A new instance with nothing but the top in it, and, if it is recursive, all that is below.
 * "watch_limit" when the kernel has none to give; for more directories than may be see unwatched.
 */
int watch_tree_build(struct watch_tree *t, struct err *err);
void watch_tree_done(struct watch_tree *t);

struct watch_dir *watch_tree_find(struct watch_tree *t, int wd);
struct watch_dir *watch_tree_child(struct watch_tree *t, const struct watch_dir *above,
                                   const char *name);
/* A directory that is there since a moment, with all that is below: found() is told of that. */
void watch_tree_add(struct watch_tree *t, struct watch_dir *above, const char *name);
/* Reads those that were not at their place: something above them was renamed, of which inotify may
 * have told by now. */
void watch_tree_retry(struct watch_tree *t);
/* Is it top, or somewhere in it? */
bool watch_tree_is_below(const struct watch_dir *d, const struct watch_dir *top);
/* With all below. The top stays. */
void watch_tree_drop(struct watch_tree *t, struct watch_dir *dir);
/* The same directory at another place, which is not in itself; it is another object then. */
void watch_tree_move(struct watch_tree *t, struct watch_dir *dir, struct watch_dir *above,
                     const char *name);

/* False when it is longer than WATCH_PATH_MAX. name NULL = dir itself. */
bool watch_tree_path(const struct watch_tree *t, const struct watch_dir *dir, const char *name,
                     char ret[WATCH_PATH_MAX]);
/* A name that a file has only while a call writes, moves or removes it. */
bool watch_is_passing(const char *name);
/* Such names, and those that the caller does not want. */
bool watch_tree_ignores(const struct watch_tree *t, const char *name);
