#pragma once

#include <stdint.h>

struct buf;
struct call_log;
struct engine;
struct err;
struct sandbox;

/* Reads at most `most` bytes of a log from *cursor on into out (which may be NULL). */
int log_read(struct engine *e, struct sandbox *sb, const char *log_id, uint64_t offset,
             uint64_t most, struct buf *out, struct call_log *ret, struct err *err);
