#pragma once

#include <jansson.h>
#include <pthread.h>

#include "base/budget.h"
#include "base/id.h"

/* What the interpreter keeps between calls: how much of outputs may wait to be answered, who makes
 * contexts at this moment, and runs whose callers have gone (cancelled.h). The contexts themselves
 * their sandbox's agent knows. */

#define EXECUTION_MEMORY (64u << 20)
#define CONTEXTS_MAX     16 /* of a sandbox */

struct making {
    char sandbox_id[ID_SIZE], exec_id[ID_SIZE];
};

struct cancelled;
struct err;

struct interpreter {
    struct cancelled *cancelled;
    int64_t stop_ns; /* time that an interrupted run has to end; then its context is ended */
    struct budget memory;
    pthread_mutex_t lock;
    struct making *making;
    size_t n;
};

/* stop_ms: milliseconds that an interrupted run has to end; 0 = 2000. */
struct interpreter *interpreter_new(uint32_t stop_ms);
int interpreter_start(struct interpreter *i, struct err *err);
void interpreter_stop(struct interpreter *i);
void interpreter_free(struct interpreter *i);

/* A context with that exec is being made: gives an object whose keys are the execs of all that are
 * for its sandbox, it among them. To be left again. Both are fine with NULL. */
json_t *interpreter_enter(struct interpreter *i, const char *sandbox_id, const char *exec_id);
void interpreter_leave(struct interpreter *i, const char *exec_id);
