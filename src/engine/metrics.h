#pragma once

#include <jansson.h>
#include <stdbool.h>

struct engine;
struct err;

int engine_sandbox_metrics(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_metrics(struct engine *e, json_t **ret, struct err *err);
/* Is the host's disk so low that sandboxes that write are paused? */
bool engine_disk_low(struct engine *e);
