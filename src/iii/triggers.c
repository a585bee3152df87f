#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/callers.h"
#include "functions/input.h"
#include "iii/trigger_internal.h"

/* What calls functions by itself: bindings of functions to what happens. Requests of HTTP go their
 * own way (trigger_http.c); all else becomes jobs in lanes (trigger_queue.c), which the clock, one
 * piece of work for all, has asked for when they are due.
 *
 * Nothing of this outlives the daemon. Clients of iii register their triggers again when they
 * connect again; times that pass meanwhile are not made up for, and what waits in queues is lost.
 * Who needs jobs that last uses the daemon's own queue (queue::*). */

#define LATE_MS  60000               /* a time that was missed by more is passed over */
#define LOOK_NS  (60 * 1000000000ll) /* how often the wall's clock is read, as it may be set */
#define CALM_NS  50000000            /* that changes of functions are gathered, */
#define AGAIN_NS 1000000000          /* and how often they are told */
#define HTTP_NS  (30 * 1000000000ll)
#define STALL_NS (60 * 1000000000ll)
#define NEWS_MAX 64 /* of workers that one function has not been told yet */

#define METADATA_MAX (32u << 10) /* bytes that those of a binding take in memory */

/* ---- texts ---- */

void time_text(char ret[TIME_TEXT], int64_t s, int64_t ns)
{
    time_t at = s;
    struct tm tm = {0};
    int n;

    (void)gmtime_r(&at, &tm);
    n = snprintf(ret, TIME_TEXT, "%04d-%02d-%02dT%02d:%02d:%02d", tm.tm_year + 1900, tm.tm_mon + 1,
                 tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
    if (ns > 0)
        n += snprintf(ret + n, TIME_TEXT - (size_t)n, ".%09d", (int)(ns % 1000000000));
    (void)snprintf(ret + n, TIME_TEXT - (size_t)n, "+00:00");
}

int config_text(const json_t *config, const char *key, const char **ret, struct err *err)
{
    const json_t *value = json_object_get(config, key);

    *ret = NULL;
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_string(value) || json_string_length(value) == 0 ||
        json_string_length(value) > ROUTE_MAX ||
        strlen(json_string_value(value)) != json_string_length(value))
        return err_set(err, ERR_INVALID, "%s: a text of 1 to %d bytes", key, ROUTE_MAX);
    *ret = json_string_value(value);
    return 0;
}

/* ---- cron ---- */

/* Two may be unanswered: the one that runs does not put off the next, but those behind that. */
static const struct lane_rules cron_rules = {.at_once = 2, .attempts = 1};

static int cron_bind(struct iii_triggers *t, struct bound *b, const json_t *config, struct err *err)
{
    const char *text;

    (void)t;
    if (config_text(config, "expression", &text, err) < 0)
        return -1;
    if (!text && config_text(config, "cron", &text, err) < 0)
        return -1;
    if (!text)
        return err_set(err, ERR_INVALID, "expression is required for cron triggers");
    if (cron_read(text, &b->cron, err) < 0)
        return -1;
    if (cron_next(&b->cron, now_ms() / 1000) < 0)
        return err_code(err, ERR_INVALID, "bad_cron", "expression: there is no such time any more");
    return 0;
}

static int cron_enter(struct iii_triggers *t, struct bound *b, const struct bound *old,
                      struct err *err)
{
    (void)old;
    (void)err;
    lane_open(t, b, &cron_rules);
    b->due_s = cron_next(&b->cron, now_ms() / 1000);
    t->cron_due_ms = 0; /* to be looked at */
    return 0;
}

static void cron_fire(struct iii_triggers *t, struct bound *b)
{
    char scheduled[TIME_TEXT], actual[TIME_TEXT];
    struct timespec now;

    if (lane_pending(b->lane) >= cron_rules.at_once) {
        log_warn("a function is still at work, its time is passed over", "trigger", b->given_id,
                 "function", b->function_id);
        return;
    }
    (void)clock_gettime(CLOCK_REALTIME, &now);
    time_text(scheduled, b->due_s, 0);
    time_text(actual, now.tv_sec, now.tv_nsec);
    lane_tell(t, b->lane,
              json_pack("{s:s, s:s, s:s, s:s}", "trigger", "cron", "job_id", b->given_id,
                        "scheduled_time", scheduled, "actual_time", actual),
              0);
}

/* A clock that was set back has times come again, one that was set ahead passes over some. */
static void cron_look(struct iii_triggers *t, struct bound *b, int64_t now, bool set_back)
{
    if (set_back)
        b->due_s = cron_next(&b->cron, now / 1000);
    if (b->due_s < 0 || b->due_s * 1000 > now)
        return;
    if (now - b->due_s * 1000 <= LATE_MS)
        cron_fire(t, b);
    else
        log_warn("a time was missed and is passed over", "trigger", b->given_id, "function",
                 b->function_id);
    b->due_s = cron_next(&b->cron, now / 1000);
}

/* ---- what changes at the hub ---- */

static const struct lane_rules news_rules = {.at_once = 32, .attempts = 1};
static const struct lane_rules one_rules = {.at_once = 1, .attempts = 1};

static int no_config(struct iii_triggers *t, struct bound *b, const json_t *config, struct err *err)
{
    (void)t;
    (void)b;
    (void)config;
    (void)err;
    return 0;
}

static int functions_enter(struct iii_triggers *t, struct bound *b, const struct bound *old,
                           struct err *err)
{
    (void)old;
    (void)err;
    lane_open(t, b, &one_rules);
    return 0;
}

static int workers_enter(struct iii_triggers *t, struct bound *b, const struct bound *old,
                         struct err *err)
{
    (void)old;
    (void)err;
    lane_open(t, b, &news_rules);
    return 0;
}

/* ---- types ---- */

#define CONDITION                                                                                  \
    "\"condition_function_id\": {\"type\": \"string\", \"description\": \"a function that is "     \
    "asked first: when it says false, nothing more is done\"}"

static const struct trigger_kind cron_trigger = {
    "cron",
    "Calls a function at times that a cron expression tells, in UTC",
    "{\"type\": \"object\", \"required\": [\"expression\"], \"properties\": {\"expression\": "
    "{\"type\": \"string\", \"description\": \"sec min hour day month weekday, and maybe a year; 1 "
    "is Sunday\"}, " CONDITION "}}",
    "{\"type\": \"object\", \"required\": [\"trigger\", \"job_id\", \"scheduled_time\", "
    "\"actual_time\"], \"properties\": {\"trigger\": {\"const\": \"cron\"}, \"job_id\": {\"type\": "
    "\"string\"}, \"scheduled_time\": {\"type\": \"string\", \"format\": \"date-time\"}, "
    "\"actual_time\": {\"type\": \"string\", \"format\": \"date-time\"}}}",
    cron_bind,
    cron_enter,
    lane_leave,
};

static const struct trigger_kind functions_trigger = {
    "engine::functions-available",
    "Calls a function when functions have come or gone",
    "{\"type\": \"object\"}",
    "{\"type\": \"object\", \"properties\": {\"event\": {\"const\": \"functions_changed\"}, "
    "\"functions\": {\"type\": \"array\"}}}",
    no_config,
    functions_enter,
    lane_leave,
};

static const struct trigger_kind workers_trigger = {
    "engine::workers-available",
    "Calls a function when a worker has come, gone or said more of itself",
    "{\"type\": \"object\"}",
    "{\"type\": \"object\", \"properties\": {\"event\": {\"enum\": [\"worker_connected\", "
    "\"worker_disconnected\", \"worker_metadata_updated\"]}, \"worker_id\": {\"type\": "
    "\"string\"}}}",
    no_config,
    workers_enter,
    lane_leave,
};

static const struct trigger_kind *const kinds[] = {
    &http_trigger,      &api_trigger,     &cron_trigger,      &queue_trigger,   &durable_trigger,
    &subscribe_trigger, &sandbox_trigger, &functions_trigger, &workers_trigger,
};

static const struct trigger_kind *kind_of(const char *type)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i]->id, type) == 0)
            return kinds[i];
    return NULL;
}

bool iii_trigger_is_ours(const char *type)
{
    return kind_of(type);
}

json_t *iii_trigger_types(void)
{
    json_t *all = json_array();

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        (void)json_array_append_new(
            all,
            json_pack("{s:s, s:s, s:o, s:o}", "id", kinds[i]->id, "description", kinds[i]->help,
                      "trigger_request_format", json_loads(kinds[i]->config, 0, NULL),
                      "call_request_format", json_loads(kinds[i]->payload, 0, NULL)));
    return all;
}

/* ---- bindings ---- */

struct bound *bound_ref(struct bound *b)
{
    atomic_fetch_add(&b->refs, 1);
    return b;
}

void bound_unref(struct bound *b)
{
    if (!b || atomic_fetch_sub(&b->refs, 1) != 1)
        return;
    iii_asker_unref(b->asker);
    iii_asker_unref(b->speaker);
    json_decref(b->metadata);
    json_decref(b->known);
    strv_free(b->middleware);
    free(b->id);
    free(b->given_id);
    free(b->function_id);
    free(b->namespace);
    free(b->condition_id);
    free(b->topic);
    free(b->method);
    free(b->path);
    free(b->shown);
    free(b);
}

bool bound_lives(const struct iii_triggers *t, const struct bound *b)
{
    const struct caller *caller = &b->asker->caller;

    if (atomic_load(&b->asker->gone))
        return false;
    return !caller->token_id[0] || !t->hub->config.services ||
           caller_token_live(t->hub->config.services, caller->token_id);
}

static struct bound *bound_new(const struct iii_binding *from, const struct trigger_kind *kind)
{
    struct bound *b = xcalloc(1, sizeof(*b));

    atomic_init(&b->refs, 1);
    b->kind = kind;
    b->id = xstrdup(from->id);
    b->given_id = xstrdup(from->given_id ? from->given_id : from->id);
    b->function_id = xstrdup(from->function_id);
    b->namespace = xstrdup(from->namespace ? from->namespace : III_NAMESPACE);
    b->metadata = from->metadata ? json_deep_copy(from->metadata) : NULL;
    b->asker = iii_asker_ref(from->asker);
    b->speaker = iii_asker_for(b->asker);
    b->due_s = -1;
    return b;
}

static struct bound *find(const struct iii_triggers *t, const char *id)
{
    for (struct bound *b = t->all; b; b = b->next)
        if (strcmp(b->id, id) == 0)
            return b;
    return NULL;
}

void bound_remove(struct iii_triggers *t, struct bound *b)
{
    b->kind->leave(t, b);
    if (b->prev)
        b->prev->next = b->next;
    else
        t->all = b->next;
    if (b->next)
        b->next->prev = b->prev;
    t->n--;
    b->next = t->garbage;
    t->garbage = b;
}

/* An id is its maker's: who connects again may have it, nobody else. */
static bool is_anothers(const struct iii_triggers *t, const struct bound *old,
                        const struct bound *b)
{
    return old && old->asker != b->asker && bound_lives(t, old) &&
           strcmp(old->asker->caller.name, b->asker->caller.name) != 0;
}

static int enter(struct iii_triggers *t, struct bound *b, struct err *err)
{
    struct bound *old = find(t, b->id);

    if (t->stops)
        return err_set(err, ERR_UNAVAILABLE, "the daemon is about to end");
    if (is_anothers(t, old, b))
        return err_code(err, ERR_CONFLICT, "trigger_taken", "the trigger %s is another's", b->id);
    if (!old && t->n >= BINDINGS_MAX)
        return err_code(err, ERR_LIMIT, "trigger_limit", "there are %d triggers, as many as may be",
                        BINDINGS_MAX);
    if (b->kind->enter(t, b, old, err) < 0)
        return -1;
    if (old)
        bound_remove(t, old);
    b->next = t->all;
    if (b->next)
        b->next->prev = b;
    t->all = b;
    t->n++;
    return 0;
}

/* They stay as long as the binding does, as a value, which may be much more than its text. */
static int check_metadata(const json_t *metadata, struct err *err)
{
    auto_free char *text = metadata ? json_dumps(metadata, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    size_t len = text ? strlen(text) : 0;

    if (len == 0 || len + input_weight(text, len) <= METADATA_MAX)
        return 0;
    return err_set(err, ERR_INVALID, "metadata: at most %u KiB in memory, which is %u values",
                   METADATA_MAX >> 10, METADATA_MAX / INPUT_VALUE_SIZE);
}

int iii_trigger_bind(struct iii_triggers *t, const struct iii_binding *from, struct err *err)
{
    const struct trigger_kind *kind = kind_of(from->type);
    const char *condition;
    struct bound *b;
    int r;

    if (!kind)
        return err_set(err, ERR_NOT_FOUND, "there is no trigger type %s here", from->type);
    if (from->config && !json_is_object(from->config))
        return err_set(err, ERR_INVALID, "config: an object");
    if (config_text(from->config, "condition_function_id", &condition, err) < 0 ||
        check_metadata(from->metadata, err) < 0 ||
        iii_may_bind(from->asker, from->namespace, from->function_id, err) < 0 ||
        (condition && iii_may_bind(from->asker, from->namespace, condition, err) < 0))
        return -1;
    b = bound_new(from, kind);
    b->condition_id = condition ? xstrdup(condition) : NULL;
    r = kind->read(t, b, from->config, err);
    if (r == 0) {
        triggers_lock(t);
        r = enter(t, b, err);
        triggers_unlock(t);
    }
    if (r < 0)
        bound_unref(b);
    else
        triggers_wake(t);
    return r;
}

void iii_trigger_unbind(struct iii_triggers *t, const char *id)
{
    struct bound *b;

    triggers_lock(t);
    b = find(t, id);
    if (b)
        bound_remove(t, b);
    triggers_unlock(t);
}

/* ---- what is told ---- */

static void tell_functions(struct iii_triggers *t, struct bound *b)
{
    int64_t at = mono_ns() + CALM_NS;

    if (lane_waiting(b->lane) > 0)
        return; /* which will ask for what there is then */
    if (b->told_ns && b->told_ns + AGAIN_NS > at)
        at = b->told_ns + AGAIN_NS;
    b->told_ns = at;
    lane_tell(t, b->lane, NULL, at);
}

static void tell_workers(struct iii_triggers *t, struct bound *b, const char *event,
                         const char *worker_id)
{
    if (lane_pending(b->lane) >= NEWS_MAX)
        log_warn("a function does not answer and is not told of a worker", "trigger", b->given_id,
                 "function", b->function_id);
    else
        lane_tell(t, b->lane, json_pack("{s:s, s:s?}", "event", event, "worker_id", worker_id), 0);
}

void iii_triggers_changed(struct iii_triggers *t, const char *event, const char *worker_id)
{
    bool any = false;

    triggers_lock(t);
    for (struct bound *b = t->all; b && !t->stops; b = b->next) {
        if (!event && b->kind == &functions_trigger)
            tell_functions(t, b);
        else if (event && b->kind == &workers_trigger)
            tell_workers(t, b, event, worker_id);
        else
            continue;
        any = true;
    }
    triggers_unlock(t);
    if (any)
        triggers_wake(t);
}

/* ---- the clock ---- */

static int64_t sooner(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

static int64_t cron_until(const struct iii_triggers *t, int64_t now, int64_t now_ns)
{
    int64_t left = t->cron_due_ms - now;

    if (t->cron_due_ms == INT64_MAX)
        return 0;
    if (left > LOOK_NS / 1000000)
        return now_ns + LOOK_NS;
    return now_ns + (left > 0 ? left * 1000000 : 0);
}

/* When to look again (mono_ns); 0 = not. */
static int64_t cron_tick(struct iii_triggers *t, int64_t now_ns)
{
    int64_t now = now_ms(), next = INT64_MAX;
    bool set_back = now < t->seen_ms;

    t->seen_ms = now;
    if (!set_back && now < t->cron_due_ms)
        return cron_until(t, now, now_ns);
    for (struct bound *b = t->all; b; b = b->next) {
        if (b->kind != &cron_trigger)
            continue;
        cron_look(t, b, now, set_back);
        if (b->due_s >= 0 && b->due_s * 1000 < next)
            next = b->due_s * 1000;
    }
    t->cron_due_ms = next;
    return cron_until(t, now, now_ns);
}

/* Hubs unbind what a connection leaves behind; tokens end by themselves. */
static void drop_gone(struct iii_triggers *t, int64_t now)
{
    if (now < t->look_ns)
        return;
    t->look_ns = now + LOOK_NS;
    for (struct bound *b = t->all, *next; b; b = next) {
        next = b->next;
        if (!bound_lives(t, b))
            bound_remove(t, b);
    }
}

static int64_t tick(struct iii_triggers *t)
{
    int64_t now = mono_ns(), until = sooner(cron_tick(t, now), lanes_tick(t, now));

    drop_gone(t, now);
    return sooner(until, t->all ? t->look_ns : 0);
}

static void run_clock(struct work *w)
{
    struct iii_triggers *t =
        (struct iii_triggers *)((char *)w - offsetof(struct iii_triggers, clock));
    bool stops = runner_stops(t->hub->runner);
    int64_t until = 0;

    do {
        triggers_lock(t);
        stops |= t->stops;
        if (!stops)
            until = tick(t);
        triggers_unlock(t);
    } while (!stops && lanes_run(t));
    if (!stops)
        runner_wait(t->hub->runner, &t->clock, -1, 0, until);
}

void triggers_wake(struct iii_triggers *t)
{
    runner_wake(t->hub->runner, &t->clock);
}

/* ---- all of them ---- */

struct iii_triggers *triggers_ref(struct iii_triggers *t)
{
    atomic_fetch_add(&t->refs, 1);
    return t;
}

void triggers_unref(struct iii_triggers *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1)
        return;
    budget_done(&t->room);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

void triggers_lock(struct iii_triggers *t)
{
    (void)pthread_mutex_lock(&t->lock);
}

void triggers_unlock(struct iii_triggers *t)
{
    struct bound *bounds = steal_ptr(t->garbage);
    struct job *jobs = steal_ptr(t->garbage_jobs);

    (void)pthread_mutex_unlock(&t->lock);
    while (bounds) {
        struct bound *next = bounds->next;

        bound_unref(bounds);
        bounds = next;
    }
    while (jobs) {
        struct job *next = job_garbage_next(jobs);

        job_unref(t, jobs);
        jobs = next;
    }
}

struct iii_triggers *iii_triggers_new(struct iii_hub *hub)
{
    struct iii_triggers *t = xcalloc(1, sizeof(*t));

    atomic_init(&t->refs, 1);
    (void)pthread_mutex_init(&t->lock, NULL);
    t->hub = hub;
    t->clock.run = run_clock;
    t->http_ns = HTTP_NS;
    t->stall_ns = STALL_NS;
    t->active_end = &t->active;
    budget_init(&t->room, JOBS_MAX);
    return t;
}

int iii_triggers_start(struct iii_triggers *t, struct err *err)
{
    (void)err;
    runner_add(t->hub->runner, &t->clock);
    return 0;
}

void iii_triggers_stop(struct iii_triggers *t)
{
    triggers_lock(t);
    t->stops = true;
    while (t->all)
        bound_remove(t, t->all);
    lanes_drop(t);
    triggers_unlock(t);
}

void iii_triggers_free(struct iii_triggers *t)
{
    if (!t)
        return;
    iii_triggers_stop(t);
    triggers_unref(t);
}
