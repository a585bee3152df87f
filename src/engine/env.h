#pragma once

#include <jansson.h>

struct engine;
struct err;

int engine_env_get(struct engine *e, const char *id, const char *key, json_t **ret,
                   struct err *err);
int engine_env_set(struct engine *e, const char *id, const json_t *vars, json_t **ret,
                   struct err *err);
int engine_env_list(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_env_delete(struct engine *e, const char *id, const char *key, json_t **ret,
                      struct err *err);
