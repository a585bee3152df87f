#pragma once

#include <pthread.h>
#include <stdbool.h>

struct box;
struct engine;
struct err;
struct sandbox;
struct write_job;

/* Rows go to the store in the order in which they were handed over, several in one transaction when
 * they come together. */
struct writer {
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    struct write_job *head, *tail;
    bool stop, running;
    pthread_t thread;
};

void writer_init(struct writer *w);
void writer_done(struct writer *w);
int writer_start(struct engine *e, struct err *err);
void writer_stop(struct engine *e); /* after everything handed over is stored */
/* The row of sb as it is now. */
struct write_job *writer_put(struct engine *e, struct sandbox *sb);
int writer_wait(struct engine *e, struct write_job *job, struct err *err);
/* Nobody waits: a failure is logged, and recovery finds its way without that write. */
void writer_leave(struct engine *e, struct write_job *job);
int writer_put_box(struct engine *e, const struct box *box, struct err *err); /* PREPARED */
int writer_delete(struct engine *e, const char *id, struct err *err);
void writer_count(struct engine *e, const char *name); /* name is a literal */
