#pragma once

#include <jansson.h>

struct engine;
struct err;

int engine_sandbox_metrics(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_metrics(struct engine *e, json_t **ret, struct err *err);
