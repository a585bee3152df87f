#include "service/interpreter/interpreter.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "service/interpreter/cancelled.h"

struct interpreter *interpreter_new(uint32_t stop_ms)
{
    struct interpreter *i = xcalloc(1, sizeof(*i));

    budget_init(&i->memory, EXECUTION_MEMORY);
    pthread_mutex_init(&i->lock, NULL);
    i->stop_ns = (stop_ms ? stop_ms : 2000) * 1000000ll;
    i->cancelled = cancelled_new(i->stop_ns);
    return i;
}

int interpreter_start(struct interpreter *i, struct err *err)
{
    return cancelled_start(i->cancelled, err);
}

void interpreter_stop(struct interpreter *i)
{
    if (i)
        cancelled_stop(i->cancelled);
}

void interpreter_free(struct interpreter *i)
{
    if (!i)
        return;
    cancelled_free(i->cancelled);
    budget_done(&i->memory);
    pthread_mutex_destroy(&i->lock);
    free(i->making);
    free(i);
}

json_t *interpreter_enter(struct interpreter *i, const char *sandbox_id, const char *exec_id)
{
    json_t *all = json_object();
    struct making *m;

    if (!i)
        return all;
    pthread_mutex_lock(&i->lock);
    /* As many as there are calls, which have a bound. */
    i->making = xrealloc(i->making, (i->n + 1) * sizeof(*i->making));
    m = &i->making[i->n++];
    (void)snprintf(m->sandbox_id, sizeof(m->sandbox_id), "%s", sandbox_id);
    (void)snprintf(m->exec_id, sizeof(m->exec_id), "%s", exec_id);
    for (size_t k = 0; k < i->n; k++)
        if (strcmp(i->making[k].sandbox_id, sandbox_id) == 0)
            (void)json_object_set_new(all, i->making[k].exec_id, json_true());
    pthread_mutex_unlock(&i->lock);
    return all;
}

void interpreter_leave(struct interpreter *i, const char *exec_id)
{
    if (!i)
        return;
    pthread_mutex_lock(&i->lock);
    for (size_t k = 0; k < i->n; k++) {
        if (strcmp(i->making[k].exec_id, exec_id) != 0)
            continue;
        i->making[k] = i->making[--i->n];
        break;
    }
    pthread_mutex_unlock(&i->lock);
}
