#pragma once

#include <stdbool.h>
#include <stdint.h>

struct err;

/* Threads for calls that may block, and a place where those wait that do not. A piece of work runs
 * on one thread at a time.
 *
 * Whose work it is has a queue of his own, and they take turns. Nobody has another thread while he
 * has as many as are free: alone he has half of them, two have a third each, and who comes next
 * finds one. What he wants beyond that waits for his own to end, and not for others'. */

struct runner;
struct runner_share;
struct work;

typedef void (*work_fn)(struct work *w);

/* Part of what it is the work of. */
struct work {
    work_fn run;
    struct runner_share *share; /* whose it is, while it is the runner's; NULL = the daemon's own */
    /* the runner's: */
    struct work *next, *prev, *next_woken;
    int state;
    bool again;
    int fd;
    int64_t until_ns;
};

struct runner_share *runner_share_new(void);
/* Of the last reference when no work is queued. */
void runner_share_unref(struct runner_share *s);

/* At most so many threads; they come when they are needed and leave again. */
struct runner *runner_new(unsigned threads_max);
int runner_start(struct runner *r, struct err *err);
/* Waits until none runs. What is still queued or waits is run once more, so that it finds out that
 * all is over and frees itself: whoever has work asks runner_stops(). */
void runner_stop(struct runner *r);
bool runner_stops(struct runner *r);
void runner_free(struct runner *r);

/* Runs it soon. For work that is neither queued, waiting nor running, and in its own run. */
void runner_add(struct runner *r, struct work *w);
/* The last thing that its own run calls: it is run again when fd (-1 = none) has one of the events,
 * until_ns (0 = no time) has come, or somebody wakes it. */
void runner_wait(struct runner *r, struct work *w, int fd, uint32_t events, int64_t until_ns);
/* Any thread that knows that it has not been freed: what waits is run, and what runs is run once
 * more. */
void runner_wake(struct runner *r, struct work *w);
