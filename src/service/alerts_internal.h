#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct engine_load;

/* What a sandbox uses, as alerts judge it. */
struct alert_values {
    double cpu, memory, pids, disk; /* percent, but for pids; < 0 = not known now */
};

/* Of two looks; elapsed_ns 0 = this is the first. */
void alert_values(const struct engine_load *now, uint64_t cpu_before, int64_t elapsed_ns,
                  struct alert_values *ret);

enum alert_verdict { ALERT_SAME, ALERT_FIRES, ALERT_RESOLVES };

/* What an Alert makes of the values: it is changed accordingly. *ret_value: what it judged. */
enum alert_verdict alert_judge(json_t *alert, const struct alert_values *v, int64_t time_ms,
                               double *ret_value);
