#pragma once

#include <jansson.h>
#include <stdbool.h>

struct engine;

/* What does not work and is being tried again: it stays until it is over, and /health shows it. */

/* It has failed (again): since when and how often is kept. what is a stable word that outlives
 * everything, id a sandbox or "". True when it should be logged: the first time, the second, the
 * fourth and so on. */
bool engine_trouble(struct engine *e, const char *what, const char *id, const char *text);
void engine_trouble_over(struct engine *e, const char *what, const char *id);

/* An array of HealthProblem, the oldest first, at most HEALTH_MAX; NULL when all is well. Without
 * details it names no sandbox and no path. */
#define HEALTH_MAX 100
json_t *engine_problems(struct engine *e, bool details);
