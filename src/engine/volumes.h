#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/files.h"

struct engine;
struct err;

/* Volumes: folders of a fixed size that outlive sandboxes and can be shared by several. A word is
 * an id or a name; names may repeat. ERR_NOT_FOUND "volume_not_found", ERR_CONFLICT
 * "name_ambiguous", which lists ids. */

/* size_mb 0 = the default. Gives a Volume; ERR_LIMIT "volume_limit", ERR_UNAVAILABLE "no_space". */
int engine_volume_create(struct engine *e, const char *name, uint32_t size_mb, json_t **ret,
                         struct err *err);
/* {volumes: [Volume]}, the newest first. */
void engine_volume_list(struct engine *e, json_t **ret);
int engine_volume_get(struct engine *e, const char *word, json_t **ret, struct err *err);
/* *ret_id is the caller's. ERR_CONFLICT "volume_in_use" names the sandboxes that have it, also
 * those that are stopped. */
int engine_volume_remove(struct engine *e, const char *word, char **ret_id, struct err *err);

struct volume_attach {
    const char *sandbox_id, *mount_path; /* required */
    const char *sub_path;                /* NULL = all of it */
    bool read_only, noexec;
};

/* Mounts it in a sandbox, at once when that runs or is paused, and from then on whenever it is
 * started. Gives {attached, mountPath, sandboxId, volumeId}. */
int engine_volume_attach(struct engine *e, const char *word, const struct volume_attach *a,
                         json_t **ret, struct err *err);
/* sandbox_id and mount_path may be NULL where there is no choice. While processes have files of it
 * open: ERR_CONFLICT "volume_busy", and *ret is {processes: [{pid, command, path}]}; else
 * {detached, sandboxId, volumeId, mountPath}. */
int engine_volume_detach(struct engine *e, const char *word, const char *sandbox_id,
                         const char *mount_path, json_t **ret, struct err *err);

/* Files of a volume, with no sandbox: paths are in the volume ("/" is its top), and a link in it
 * leads nowhere else. What is no regular file is not opened. Files that are made are root's. */
struct volume_file;
int engine_volume_open_read(struct engine *e, const char *word, const char *path,
                            struct volume_file **ret, uint64_t *ret_size, struct err *err);
/* Up to len bytes; 0 at the end. */
ssize_t engine_volume_read(struct volume_file *f, void *data, size_t len, struct err *err);
/* The file is replaced by engine_volume_write_end(); closing before that leaves the old one. */
int engine_volume_open_write(struct engine *e, const char *word, const char *path, uint32_t mode,
                             struct volume_file **ret, struct err *err);
int engine_volume_write(struct volume_file *f, const void *data, size_t len, struct err *err);
int engine_volume_write_end(struct volume_file *f, struct err *err);
void engine_volume_close(struct volume_file *f);

static inline void cleanup_volume_filep(struct volume_file **f)
{
    engine_volume_close(*f);
}
#define auto_volume_file __attribute__((cleanup(cleanup_volume_filep)))

/* FileInfo of each entry, in no order. */
int engine_volume_files(struct engine *e, const char *word, const char *path, engine_item each,
                        void *arg, struct err *err);
/* FileMeta. */
int engine_volume_file_info(struct engine *e, const char *word, const char *path, json_t **ret,
                            struct err *err);
/* With the folders above it; fine if it is there. */
int engine_volume_mkdir(struct engine *e, const char *word, const char *path, struct err *err);
/* A file or a link, or with recursive a folder with all that is in it. */
int engine_volume_delete(struct engine *e, const char *word, const char *path, bool recursive,
                         struct err *err);
