#pragma once

struct engine;
struct err;

/* Work that keeps the thread of its caller for long: pulls, imports, exports, commits, and waiting
 * for a turn behind one of them. Only so many threads may be in it at once, so that it never keeps
 * short calls from being answered: with those that wait for agents (AGENT_THREADS_MAX and
 * AGENT_EXTRA_ALL_MAX) they are fewer than the HTTP server has. ERR_UNAVAILABLE "busy" past that.
 */

#define LONG_WORK_MAX 160

int long_work_begin(struct engine *e, struct err *err);
void long_work_end(struct engine *e);

/* The same for imports, exports and commits, of which each is a process of its own (as are pulls,
 * which are counted in pulls.c). */
#define WORKERS_MAX 16

int worker_begin(struct engine *e, struct err *err);
void worker_end(struct engine *e);
