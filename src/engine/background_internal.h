#pragma once

#include <stdint.h>

struct buf;
struct call_log;
struct engine;
struct err;
struct sandbox;

/* The state of a log into ret, and at most `most` of its bytes, from offset on, into out (NULL =
 * they are not wanted). log_id is that of a background exec, or "main". */
int log_read(struct engine *e, struct sandbox *sb, const char *log_id, uint64_t offset,
             uint64_t most, struct buf *out, struct call_log *ret, struct err *err);
