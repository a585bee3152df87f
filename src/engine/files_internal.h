#pragma once

#include <stddef.h>

#include "engine/files.h"
#include "proto/call.h"

struct sandbox;

/* "-rw-r--r--" */
void file_permissions(uint32_t mode, char ret[11]);

/* Fills err with why a call failed; an agent that does not know it is "agent_too_old". Returns -1.
 */
int file_call_failed(const struct err *why, struct err *err);
/* files_begin(), and the absolute form of a path in it; free that. */
int file_target(struct engine *e, const char *id, struct file_path path, struct sandbox **ret_sb,
                char **ret_path, struct err *err);
/* As engine_file_read() and engine_file_write(), for a path that is absolute and may be anywhere.
 */
int file_read(struct engine *e, struct sandbox *sb, const char *path, struct buf *out,
              struct err *err);
int file_write(struct engine *e, struct sandbox *sb, const char *path, const void *data, size_t len,
               struct err *err);
/* A call that goes on with data and is answered with OK. */
int file_send(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
              const void *data, size_t len, struct err *err);
