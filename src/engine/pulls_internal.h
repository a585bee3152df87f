#pragma once

#include <pthread.h>
#include <stdbool.h>

struct engine;
struct engine_watch;
struct err;
struct image_pull;
struct shared_pull;

/* The pulls that run. */
struct pulls;

struct pulls *pulls_new(void);
void pulls_free(struct pulls *p);
/* reference must be whole: it is what pulls are shared by. */
int pulls_run(struct engine *e, const struct image_pull *what, const struct engine_watch *watch,
              struct err *err);
void pulls_stop(struct engine *e);
