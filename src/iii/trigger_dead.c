#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "functions/input.h"
#include "functions/reach.h"
#include "iii/lane_internal.h"

/* What is in queues, and what failed there to the last. */

/* Of one that was defined; else NULL. */
static json_t *rules_of(const struct lane *l)
{
    if (!l->definer)
        return NULL;
    return json_pack("{s:s, s:i, s:i, s:I, s:s*}", "type", l->rules.fifo ? "fifo" : "standard",
                     "concurrency", (int)l->rules.at_once, "max_retries", (int)l->rules.attempts,
                     "backoff_ms", (json_int_t)l->rules.backoff_ms, "message_group_field",
                     l->group_field);
}

json_t *iii_queues(struct iii_triggers *t)
{
    json_t *all = json_array();

    triggers_lock(t);
    for (const struct lane *l = t->lanes; l; l = l->next) {
        json_int_t dead = 0;

        if (l->kind == LANE_OWN)
            continue;
        for (const struct job *j = t->dead; j; j = j->next)
            dead += strcmp(j->queue, l->name) == 0;
        (void)json_array_append_new(
            all, json_pack("{s:s, s:s, s:i, s:i, s:I, s:s*, s:o*}", "name", l->name, "broker_type",
                           "builtin", "subscriber_count", (int)l->consumers, "depth",
                           (int)lane_pending(l), "dlq_depth", dead, "function_id", l->function_id,
                           "config", rules_of(l)));
    }
    triggers_unlock(t);
    return all;
}

/* ---- dead letters ---- */

#define PAYLOADS_MAX (16u << 20) /* memory that those of one answer take */

static bool may_see(const struct caller *caller, const struct job *j)
{
    return !caller_is_restricted(caller) || (j->who && strcmp(j->who, caller->name) == 0);
}

static bool is_meant(const struct job *j, const char *queue, const char *id,
                     const struct caller *caller)
{
    return strcmp(j->queue, queue) == 0 && (!id || strcmp(j->id, id) == 0) && may_see(caller, j);
}

json_t *iii_dead_queues(struct iii_triggers *t, const struct caller *caller)
{
    json_t *counts = json_object(), *all = json_array(), *count;
    const char *name;

    triggers_lock(t);
    for (const struct job *j = t->dead; j; j = j->next)
        if (may_see(caller, j))
            (void)json_object_set_new(counts, j->queue,
                                      json_integer(json_int(counts, j->queue) + 1));
    triggers_unlock(t);
    json_object_foreach(counts, name, count)(void)
        json_array_append_new(all, json_pack("{s:s, s:s, s:O}", "topic", name, "broker_type",
                                             "builtin", "message_count", count));
    json_decref(counts);
    return all;
}

/* They are kept as texts: as values all of them would be more than there may be. */
static json_t *payload_of(const struct job *j, size_t *left)
{
    size_t len = strlen(j->data), weight = len + input_weight(j->data, len);

    if (weight > *left)
        return json_null();
    *left -= weight;
    return json_loads(j->data, JOB_LOAD, NULL);
}

json_t *iii_dead_letters(struct iii_triggers *t, const char *queue, size_t offset, size_t limit,
                         const struct caller *caller)
{
    json_t *all = json_array();
    size_t left = PAYLOADS_MAX;

    triggers_lock(t);
    for (const struct job *j = t->dead; j && json_array_size(all) < limit; j = j->next) {
        if (!is_meant(j, queue, NULL, caller) || (offset > 0 && offset--))
            continue;
        (void)json_array_append_new(
            all, json_pack("{s:s, s:o, s:s, s:s, s:I, s:i, s:I}", "id", j->id, "payload",
                           payload_of(j, &left), "function_id", j->function_id, "error", j->error,
                           "failed_at", (json_int_t)j->failed_ms, "retries", (int)j->attempts,
                           "size_bytes", (json_int_t)strlen(j->data)));
    }
    triggers_unlock(t);
    return all;
}

/* Where it would go again; NULL = nobody is there any more. */
static struct lane *lane_again(struct iii_triggers *t, const struct job *j)
{
    struct lane *l = j->asker
                         ? lane_find_queue(t, j->queue)
                         : lane_find_topic(t, j->queue, j->function_id, j->namespace, j->binder);

    return l || !j->asker ? l : lane_new(t, LANE_NAMED, j->queue, &queue_rules);
}

unsigned iii_dead_redrive(struct iii_triggers *t, const char *queue, const char *id,
                          const struct caller *caller)
{
    unsigned n = 0;

    triggers_lock(t);
    for (struct job *j = t->dead, *next; j && !t->stops; j = next) {
        struct lane *l;

        next = j->next;
        if (!is_meant(j, queue, id, caller) || !(l = lane_again(t, j)))
            continue;
        job_leave(t, j);
        free(j->queue);
        free(j->error);
        free(j->binder);
        j->queue = j->error = j->binder = NULL;
        j->attempts = 0;
        j->lane = l;
        job_ready(t, j, false);
        n++;
    }
    triggers_unlock(t);
    if (n > 0)
        triggers_wake(t);
    return n;
}

unsigned iii_dead_discard(struct iii_triggers *t, const char *queue, const char *id,
                          const struct caller *caller)
{
    unsigned n = 0;

    triggers_lock(t);
    for (struct job *j = t->dead, *next; j; j = next) {
        next = j->next;
        if (is_meant(j, queue, id, caller)) {
            job_end(t, j);
            n++;
        }
    }
    triggers_unlock(t);
    return n;
}
