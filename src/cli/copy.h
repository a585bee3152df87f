#pragma once

#include <stdbool.h>
#include <stddef.h>

struct api;
struct err;

/* The two directions of `cay cp`, for files and whole directories. One file goes through the API
 * for files; a directory goes through `tar` in the sandbox, which keeps links, modes, times and
 * names that are no text, or file by file where there is none (copy_in.c, copy_out.c; copy_tree.c).
 * What is neither file, directory nor link is skipped with a warning. */
struct cp {
    struct api *api;
    const char *id;
    size_t files, skipped; /* so far */
    bool contents;         /* of a folder, into one that is there and keeps its mode and time */
};

/* A path in the sandbox to a path here; "-" is stdout, as a tar stream. */
int copy_out(struct cp *c, const char *from, const char *to, struct err *err);
/* A path here to one in the sandbox; "-" is stdin, a tar stream. */
int copy_in(struct cp *c, const char *from, const char *to, struct err *err);

/* A directory of the sandbox (or a link there) as name in dirfd; its contents into dirfd itself. */
int tree_out(struct cp *c, const char *from, int dirfd, const char *name, struct err *err);
/* The directory at fd into that one of the sandbox, which is made. */
int tree_in(struct cp *c, int fd, const char *to, struct err *err);

/* dir/name, where "." is the sandbox's own working folder. */
char *remote_join(const char *dir, const char *name);

/* For a folder: says what is lost when files go one by one. */
void copy_without_tar(void);

/* Says what is not copied, and counts it. */
void copy_skip(struct cp *c, const char *path, const char *what);
