#pragma once

#include <pthread.h>
#include <stdbool.h>

struct engine;
struct engine_watch;
struct err;
struct image_pull;
struct shared_pull;

/* The pulls that run. */
struct pulls {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    struct shared_pull *first; /* those that can be joined */
    unsigned running;          /* threads */
    bool stop;
};

void pulls_init(struct pulls *p);
void pulls_done(struct pulls *p);
/* reference must be whole: it is what pulls are shared by. */
int pulls_run(struct engine *e, const struct image_pull *what, const struct engine_watch *watch,
              struct err *err);
void pulls_stop(struct engine *e);
