#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/sandbox.h"

struct engine;
struct err;

int engine_sandbox_metrics(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_metrics(struct engine *e, json_t **ret, struct err *err);

/* How many sandboxes are in each state. */
void engine_count_states(struct engine *e, unsigned ret[SANDBOX_STATES]);

/* What a sandbox that has a box has used until now. */
struct engine_usage {
    const char *id; /* until the call returns */
    uint64_t cpu_ns, memory_bytes, pids, rx_bytes, tx_bytes;
};

/* Looks at every one that has a box, newest first, and calls each; one that cannot be looked at is
 * left out. No lock is held meanwhile. */
void engine_each_usage(struct engine *e, void (*each)(const struct engine_usage *u, void *arg),
                       void *arg);
/* How much a sandbox uses of what it may. */
struct engine_load {
    bool runs;       /* it is neither paused nor stopped: then nothing below is known but limits */
    bool knows_disk; /* nobody is at it just now */
    uint64_t cpu_ns, memory_bytes, pids, disk_bytes;
    struct sandbox_limits limits;
};
int engine_load(struct engine *e, const char *id, struct engine_load *ret, struct err *err);

/* MB that it may use: as engine_sandbox_metrics() fails. */
int engine_memory_limit(struct engine *e, const char *id, uint32_t *ret_mb, struct err *err);
