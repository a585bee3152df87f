#pragma once

#include <pthread.h>
#include <stdbool.h>

struct box;
struct engine;
struct err;
struct sandbox;
struct write_job;

/* Rows go to the store in the order in which they were handed over, several in one transaction when
 * they come together. A row that is stored outlives this process and, unless said otherwise, a
 * power cut. */
struct writer;

/* Keys of the stored config, beside those of the spec. */
#define SANDBOX_UNFINISHED "unfinished"
#define SANDBOX_PASSING    "passing"
#define SANDBOX_DRAINING   "draining"
#define SANDBOX_STOPPED_AT "stoppedAt" /* of a stopped one: Unix milliseconds */
#define SANDBOX_TENANT     "tenant"    /* struct sandbox_maker */

struct writer *writer_new(void);
void writer_free(struct writer *w);
int writer_start(struct engine *e, struct err *err);
void writer_stop(struct engine *e); /* after everything handed over is stored */
/* Hands over the row of sb as it is now. The job goes to writer_wait() or writer_leave(). */
struct write_job *writer_put(struct engine *e, struct sandbox *sb);
/* The same when nothing has changed but that it runs, or is paused: a power cut ends every box and
 * makes it stopped whatever its row says, so this one need not outlive that and waits for no disk.
 */
struct write_job *writer_put_state(struct engine *e, struct sandbox *sb);
/* The row of one that is being created and whose box is up: it says that it runs, and the caller
 * makes it so when that is stored. */
struct write_job *writer_put_up(struct engine *e, struct sandbox *sb);
/* Has it stored by another thread, while the caller does something else and then waits. */
void writer_begin(struct engine *e, struct write_job *job);
/* The same, but returns when it outlives this process (or cannot be stored). */
void writer_write(struct engine *e, struct write_job *job);
/* Waits until it is stored; -1 when it could not be. */
int writer_wait(struct engine *e, struct write_job *job, struct err *err);
/* Does not wait: a failure is logged, and recovery finds its way without that write. */
void writer_leave(struct engine *e, struct write_job *job);
/* The row of a box that is prepared and no sandbox yet; waits until it is stored. */
int writer_put_box(struct engine *e, const struct box *box, struct err *err);
/* Of a box that is gone: takes its note away at once, and its row a little later, when no power cut
 * can bring the disk and the note back. Who starts before that finds what it was, and nothing to
 * remove. */
void writer_delete(struct engine *e, const char *id);
/* One more of that counter, whose name is a literal. Stored with the row that the caller hands over
 * next. */
void writer_count(struct engine *e, const char *name);
