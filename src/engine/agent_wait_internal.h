#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct engine;
struct err;
struct sandbox;

/* Waiting for agents: how long, how many at a time, and whether a silent agent or a busy machine
 * is the cause of a silence.
 *
 *  1. A call waits at most waits.agent (engine.h) for the next bytes. When none have come for
 *     waits.look, the waiting thread asks the agent whether it still answers, and again every
 *     waits.silent.
 *  2. The limits count threads that wait for an agent at this moment, not calls: a thread that
 *     reads the answer or sends it on to a client delays no other. A thread that waits has one of
 *     the AGENT_THREADS_MAX places, of which one sandbox has AGENT_WAITS_MAX at most.
 *  3. Callers of a sandbox that come in a burst and find no place are extra: a thread that is
 *     extra waits for the next bytes for waits.silent at most, and longer only if a place is free
 *     then. One without a place that cannot be extra either gets "sandbox_busy". That is looked at
 *     before a call is sent; only threads that look at the same moment get it afterwards.
 *  4. A sandbox that does not answer may hold only AGENT_SILENT_MAX threads, until it answers
 *     anything. */

#define AGENT_WAITS_MAX     16  /* places of one sandbox */
#define AGENT_THREADS_MAX   256 /* places of all sandboxes */
#define AGENT_EXTRA_MAX     192 /* extra threads of one sandbox */
#define AGENT_EXTRA_ALL_MAX 256 /* extra threads of all sandboxes */
#define AGENT_SILENT_MAX    4   /* threads that wait for a sandbox that does not answer */
#define AGENT_TASKS_MAX     512 /* calls on one sandbox that hold no thread while they wait */

struct agent_waits {
    atomic_uint threads, extra, tasks;
    atomic_uint connects; /* threads that wait for a server in it, see dial.c */
    atomic_bool silent;   /* rule 4 */
    /* Held for as long as a judgement takes, waits.silent - waits.look: a caller that comes
     * meanwhile gets the same judgement. Nothing of the engine's is locked under it. */
    pthread_mutex_t judging;
    int64_t judged_ns;
    bool guilty; /* what the last judgement was */
};

void agent_waits_init(struct agent_waits *w);
void agent_waits_done(struct agent_waits *w);

/* May another thread begin to wait? ERR_UNAVAILABLE "sandbox_busy", or "busy" when all sandboxes
 * together have no place. */
int agent_admit(struct sandbox *sb, struct err *err);

/* Waits until fd, a connection to sb, is ready for events (POLLIN, POLLOUT) or has ended: rules 1
 * to 3. */
int agent_await(struct sandbox *sb, int fd, short events, struct err *err);

/* Something came from the agent of sb. agent_await() says so itself. */
void agent_answered(struct sandbox *sb);

/* Probes a silent agent: for a task that has waited for waits.look without a byte; agent_await()
 * calls it itself. An agent that a signal has stopped is continued, and gets a CALL_HELLO. Returns
 * 0 when the task is to wait on: the agent answered the CALL_HELLO, or the machine is slow, or the
 * sandbox is paused. Returns -1 with ERR_UNAVAILABLE "agent_timeout" when the agent is the cause.
 * Takes up to waits.silent - waits.look; returns at once while another thread probes the same
 * sandbox or has just done so. The thread takes a place; without one it probes nothing and returns
 * 0. */
int agent_judge_try(struct engine *e, struct sandbox *sb, struct err *err);

/* Calls that wait without a thread are counted apart from the others: at most AGENT_TASKS_MAX a
 * sandbox, ERR_UNAVAILABLE "sandbox_busy" beyond. Each begin that succeeds needs an end. */
int agent_task_begin(struct sandbox *sb, struct err *err);
void agent_task_end(struct sandbox *sb);
