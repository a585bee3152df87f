#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct api;
struct err;

/* `tar` in a sandbox, with its archive on a descriptor here. It runs as root there, as everything
 * does that copies files. */

/* Has the sandbox got one? 1, 0, -1. */
int remote_has_tar(struct api *api, const char *id, struct err *err);

/* Programs with their arguments: packs dir/name, or all of dir when name is empty; unpacks into
 * dir.
 */
json_t *remote_pack_command(const char *dir, const char *name);
json_t *remote_unpack_command(const char *dir);

/* The error of a tar that succeeded without an archive: each has an end, so none is empty. */
int remote_tar_empty(struct err *err);

/* The archive is this process's stdout or, with write, its stdin. command is taken. */
int remote_tar_here(struct api *api, const char *id, json_t *command, bool write, struct err *err);

/* The archive is at fd, to be read or, with write, written. command is taken. */
struct remote_tar {
    pid_t pid;
    int fd;
};
int remote_tar_start(struct remote_tar *t, struct api *api, const char *id, json_t *command,
                     bool write, struct err *err);
/* Closes fd and waits. An error, unless err has one already (r < 0), when tar did not succeed. */
int remote_tar_end(struct remote_tar *t, int r, struct err *err);
