#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "functions/callers.h"
#include "functions/input.h"
#include "iii/lane_internal.h"

/* The functions of jobs are asked for: first a condition, or for what there is to say, where a
 * binding has such; then the function itself. Answers come on any thread, and before asking has
 * returned; they only change what a job is, and the clock goes on with the next. */

#define BATCH      64          /* that are asked before the clock is looked at again */
#define SHORT_DATA (64u << 10) /* whose weight is not told */

static const char functions_list_id[] = "engine::functions::list";

enum stage { STAGE_CONDITION, STAGE_LIST, STAGE_FUNCTION };

struct attempt {
    struct iii_triggers *t;
    struct job *job;
    struct bound *bound; /* NULL of a call in a named queue */
    int64_t began_ns;    /* by which an answer that comes too late is told */
    bool last;           /* it is not asked for again, and nothing of it is kept */
    enum stage stage;
};

/* The condition holds, or there is something to say now: it is asked for again, before others. */
static void go_on(struct iii_triggers *t, struct job *j)
{
    job_leave(t, j);
    j->prepared = true;
    job_ready(t, j, true);
}

static void take_list(struct iii_triggers *t, struct job *j, json_t *result)
{
    json_t *functions = json_object_get(result, "functions");
    json_t *data = json_pack("{s:s, s:O?}", "event", "functions_changed", "functions", functions);

    j->data = json_dumps(data, JOB_DUMP);
    json_decref(data);
    go_on(t, j);
}

static void take_answer(struct attempt *a, json_t *result, json_t *error)
{
    struct iii_triggers *t = a->t;
    struct lane *l = a->job->lane;
    bool done =
        a->stage == STAGE_FUNCTION || (a->stage == STAGE_CONDITION && json_is_false(result));

    if (error)
        job_fail(t, a->job, json_text(error, "message"));
    else if (done)
        job_end(t, a->job);
    else if (a->stage == STAGE_LIST)
        take_list(t, a->job, result);
    else
        go_on(t, a->job);
    lane_settle(t, l);
}

static void attempt_free(struct attempt *a)
{
    job_unref(a->t, a->job);
    bound_unref(a->bound);
    triggers_unref(a->t);
    free(a);
}

static void on_answer(void *arg, json_t *result, json_t *error)
{
    struct attempt *a = arg;
    struct iii_triggers *t = a->t;
    bool stops;

    triggers_lock(t);
    stops = t->stops;
    if (a->job->state == JOB_RUNS && a->job->at_ns == a->began_ns)
        take_answer(a, result, error);
    if (a->bound && a->bound->kind == &sandbox_trigger) {
        a->bound->answered_ns = mono_ns();
        follow_wake(t);
    }
    triggers_unlock(t);
    if (!stops)
        triggers_wake(t);
    attempt_free(a);
}

static enum stage stage_of(const struct job *j, const struct bound *b)
{
    if (!j->data)
        return STAGE_LIST;
    return !j->prepared && b && b->condition_id ? STAGE_CONDITION : STAGE_FUNCTION;
}

/* The next that is ready, which then runs. Lanes take turns. */
static struct attempt *begin_next(struct iii_triggers *t)
{
    struct attempt *a;
    struct lane *l;
    struct job *j;

    do {
        l = t->active;
        if (!l || t->stops)
            return NULL;
        lane_disarm(t, l);
    } while (!lane_can_run(l)); /* it could when it was armed */
    j = l->first;
    job_run(t, j);
    a = xcalloc(1, sizeof(*a));
    a->t = triggers_ref(t);
    a->job = j;
    atomic_fetch_add(&j->refs, 1);
    a->bound = l->consumer ? bound_ref(l->consumer) : NULL;
    a->began_ns = j->at_ns;
    a->stage = stage_of(j, l->consumer);
    j->attempts += !j->prepared;
    a->last = j->attempts >= l->rules.attempts && !l->rules.buries;
    lane_arm(t, l);
    return a;
}

static bool is_live(const struct iii_triggers *t, const struct attempt *a)
{
    const char *token = a->job->asker ? a->job->asker->caller.token_id : "";

    if (a->bound)
        return bound_lives(t, a->bound);
    return !*token || !t->hub->config.services || caller_token_live(t->hub->config.services, token);
}

/* A job that is not asked for again needs what it holds no longer: of one that tells of all
 * functions that is much, and a function may take its time. */
static void forget_data(struct job *j)
{
    free(j->data);
    j->data = NULL;
}

/* As if who it is called for had sent a message; when he may not call now, it waits until he may.
 */
static bool must_wait(struct attempt *a, const struct iii_question *q)
{
    struct iii_triggers *t = a->t;
    struct job *j = a->job;
    struct err err = {0};
    struct lane *l;

    if (j->paid || iii_take_rate_of_row(q, &err) == 0) {
        j->paid = false;
        return false;
    }
    triggers_lock(t);
    l = j->lane;
    if (j->state == JOB_RUNS && j->at_ns == a->began_ns) {
        job_wait(t, j, mono_ns() + (err.retry_s > 0 ? err.retry_s : 1) * 1000000000ll);
        lane_settle(t, l);
    }
    triggers_unlock(t);
    return true;
}

/* The answer, which frees the attempt, may come before asking has returned; what the question is
 * made of is there until then. */
static void ask(struct attempt *a)
{
    struct iii_triggers *t = a->t;
    struct job *j = a->job;
    struct bound *b = a->bound;
    json_t *data = a->stage == STAGE_LIST ? json_object() : json_loads(j->data, JOB_LOAD, NULL);
    json_t *metadata = j->metadata ? json_loads(j->metadata, JOB_LOAD, NULL) : NULL;
    struct iii_question q = {
        .asker = b ? b->speaker : j->asker,
        .namespace = b ? b->namespace : j->namespace,
        .function_id = b && a->stage == STAGE_CONDITION ? b->condition_id
                       : a->stage == STAGE_LIST         ? functions_list_id
                       : b                              ? b->function_id
                                                        : j->function_id,
        .data = data,
        .metadata = b ? b->metadata : metadata,
        .traceparent = j->traceparent,
        .baggage = j->baggage,
    };

    if (a->stage == STAGE_LIST)
        q.namespace = NULL;
    else if (strlen(j->data) > SHORT_DATA)
        q.weight = strlen(j->data) + input_weight(j->data, strlen(j->data));
    atomic_fetch_add(&j->refs, 1);
    if (b)
        (void)bound_ref(b);
    if (!is_live(t, a)) {
        json_t *error = json_pack("{s:s, s:s}", "code", "FORBIDDEN", "message",
                                  "in whose name it is to be called is gone");

        on_answer(a, NULL, error);
        json_decref(error);
    } else if (must_wait(a, &q)) {
        attempt_free(a);
    } else {
        if (a->stage == STAGE_FUNCTION && a->last)
            forget_data(j);
        iii_ask(t->hub, &q, on_answer, a);
    }
    json_decref(data);
    json_decref(metadata);
    bound_unref(b);
    job_unref(t, j);
}

bool lanes_run(struct iii_triggers *t)
{
    struct attempt *a;
    int n;

    for (n = 0; n < BATCH; n++) {
        triggers_lock(t);
        a = begin_next(t);
        triggers_unlock(t);
        if (!a)
            break;
        ask(a);
    }
    return n > 0;
}
