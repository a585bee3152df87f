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
struct writer;

struct writer *writer_new(void);
void writer_free(struct writer *w);
int writer_start(struct engine *e, struct err *err);
void writer_stop(struct engine *e); /* after everything handed over is stored */
/* Hands over the row of sb as it is now. The job goes to one of the two below. */
struct write_job *writer_put(struct engine *e, struct sandbox *sb);
/* Waits until it is stored; -1 when it could not be. */
int writer_wait(struct engine *e, struct write_job *job, struct err *err);
/* Does not wait: a failure is logged, and recovery finds its way without that write. */
void writer_leave(struct engine *e, struct write_job *job);
/* The row of a box that is prepared and no sandbox yet; waits until it is stored. */
int writer_put_box(struct engine *e, const struct box *box, struct err *err);
/* Waits until the row is gone. */
int writer_delete(struct engine *e, const char *id, struct err *err);
/* One more of that counter, whose name is a literal. Does not wait. */
void writer_count(struct engine *e, const char *name);
