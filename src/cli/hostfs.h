#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* Files on this side of `cay cp`. What comes out of a sandbox, and the folder that it is written
 * to, may both be prepared by an attacker: no symbolic link is followed on the way to what is
 * written, and a file appears whole or not at all. */

/* Opens the directory at path, going down one component at a time from the root or the working
 * directory. A component that is a symbolic link is refused. With make, missing ones are made. */
int host_open_dir(const char *path, bool make, int *ret_fd, struct err *err);

/* A directory within dirfd, made if it is missing. */
int host_make_dir(int dirfd, const char *name, int *ret_fd, struct err *err);

/* A file that is being written; host_file_commit() gives it its name. */
struct host_file {
    int dirfd; /* borrowed */
    int fd;
    char *name, *temporary;
    bool nameless; /* the temporary name comes only with the end */
};

/* Refuses a name that is taken by anything but a regular file. */
int host_file_begin(struct host_file *f, int dirfd, const char *name, struct err *err);
/* mtime in Unix seconds; HOST_TIME_NOW leaves the time as it is. */
#define HOST_TIME_NOW INT64_MIN
int host_file_commit(struct host_file *f, mode_t mode, int64_t mtime, struct err *err);
/* Removes what was not committed. */
void host_file_done(struct host_file *f);

/* A symbolic link with that text, which is not looked at; it replaces a file or a link. */
int host_make_link(int dirfd, const char *name, const char *text, int64_t mtime, struct err *err);

/* One more name for a regular file that is here already. */
int host_make_name(int from_dirfd, const char *from, int dirfd, const char *name, struct err *err);

/* Mode and time of a directory, when all in it has been written. */
void host_finish_dir(int fd, mode_t mode, int64_t mtime);

/* Is name one that a listing may use for a new file here? No "/", not "." or "..". */
bool host_name_ok(const char *name);

/* Splits into the directory ("." or "/…") and the last component; both are the caller's. */
void host_split(const char *path, char **ret_dir, char **ret_name);
