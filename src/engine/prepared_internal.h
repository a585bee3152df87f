#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct box;
struct engine;
struct err;
struct sandbox_limits;

/* Boxes that are prepared ahead of the creates that will take them. */
struct prepared;

struct prepared *prepared_new(void);
void prepared_free(struct prepared *p);
int prepared_start(struct engine *e, struct err *err);
void prepared_stop(struct engine *e); /* and removes what was ready */
/* An id that is prepared now. */
int prepared_make(struct engine *e, const struct sandbox_limits *limits, struct box *ret,
                  struct err *err);
/* A prepared id, or one prepared now. */
int prepared_take(struct engine *e, struct box *ret, struct err *err);
