#pragma once

#include <stdint.h>

struct agent_call;
struct call_exit;
struct err;

/* What a terminal showed, and when, in <id>.cast of the logs folder: records as CALL_RECORDING has
 * them. At most RECORDING_MAX bytes; of those that have ended the newest stay. When the disk is
 * full it ends early. */

struct recording {
    int file; /* -1 = none */
    uint32_t bytes;
};

/* Without room for it there is none. */
void recording_begin(struct recording *r, const char *id, uint32_t rows, uint32_t cols);
/* started is mono_ns of the start. */
void recording_add(struct recording *r, int64_t started, uint32_t kind, const void *data,
                   size_t len);
void recording_size(struct recording *r, int64_t started, uint32_t rows, uint32_t cols);
void recording_end(struct recording *r, int64_t started, const struct call_exit *end);
/* The command did not start. */
void recording_discard(struct recording *r, const char *id);

int recording_call(struct agent_call *c, struct err *err);
