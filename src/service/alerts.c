#include "service/alerts.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/metrics.h"
#include "engine/sandboxes.h"
#include "model/sandbox.h"
#include "service/alerts_internal.h"
#include "service/events.h"
#include "store/documents.h"

#define NS_PER_SECOND 1000000000ll
#define PENDING       "pending" /* in an alert that has fired: its action has not been done yet */

/* A sandbox that has alerts, or had some. */
struct watched {
    char id[ID_SIZE];
    json_t *doc; /* {id, createdAt, alerts, history: the newest last}, as on the disk */
    uint64_t cpu_ns;
    int64_t look_ns; /* of the look before, while it ran; 0 = there was none */
};

struct alerts {
    struct alerts_config config;
    struct documents *documents;
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock; /* of all that follows; not held while the engine is asked */
    pthread_cond_t wake;
    bool stops;
    struct watched *list;
    size_t n;
};

/* ---- the list ---- */

static struct watched *find(struct alerts *a, const char *id)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->list[i].id, id) == 0)
            return &a->list[i];
    return NULL;
}

/* Takes doc. */
static struct watched *add(struct alerts *a, json_t *doc)
{
    struct watched *w;

    a->list = xrealloc(a->list, (a->n + 1) * sizeof(*a->list));
    w = &a->list[a->n++];
    *w = (struct watched){.doc = doc};
    (void)snprintf(w->id, sizeof(w->id), "%s", json_string_value(json_object_get(doc, "id")));
    return w;
}

static void drop(struct alerts *a, struct watched *w)
{
    json_decref(w->doc);
    *w = a->list[--a->n];
}

static int keep(struct alerts *a, const struct watched *w, struct err *err)
{
    return documents_put(a->documents, w->id, json_deep_copy(w->doc), err);
}

static void forget(struct alerts *a, const char *id)
{
    struct err err = {0};
    struct watched *w;

    pthread_mutex_lock(&a->lock);
    w = find(a, id);
    if (w && documents_delete(a->documents, id, &err) < 0)
        log_warn("alerts of a removed sandbox stay", "sandbox", id, "error", err.text);
    else if (w)
        drop(a, w);
    pthread_mutex_unlock(&a->lock);
}

static json_t *alerts_of(const struct watched *w)
{
    return json_object_get(w->doc, "alerts");
}

/* As others see it. */
static json_t *shown(const json_t *alert)
{
    json_t *copy = json_deep_copy(alert);

    (void)json_object_del(copy, PENDING);
    return copy;
}

/* ---- who asks ---- */

static int check_threshold(const char *metric, double threshold, struct err *err)
{
    bool counts = strcmp(metric, "pids") == 0;

    if (counts ? threshold >= 1 && threshold <= PIDS_MAX : threshold >= 0 && threshold <= 100)
        return 0;
    return err_set(err, ERR_INVALID,
                   counts ? "threshold: of pids it is a number from 1 to %d"
                          : "threshold: it is percent, from 0 to 100",
                   PIDS_MAX);
}

static json_t *new_alert(const char *sandbox_id, const char *metric, double threshold,
                         const char *action)
{
    char id[ID_SIZE];

    id_new(id, "alrt");
    return json_pack("{s:s, s:s, s:s, s:f, s:s, s:b, s:I}", "id", id, "sandboxId", sandbox_id,
                     "metric", metric, "threshold", threshold, "action", action, "triggered", 0,
                     "createdAt", (json_int_t)now_ms());
}

/* With the lock. Takes alert. */
static int add_alert(struct alerts *a, const char *sandbox_id, json_t *alert, struct err *err)
{
    struct watched *w = find(a, sandbox_id);

    if (!w)
        w = add(a, json_pack("{s:s, s:I, s:[], s:[]}", "id", sandbox_id, "createdAt",
                             (json_int_t)now_ms(), "alerts", "history"));
    if (json_array_size(alerts_of(w)) >= ALERTS_MAX) {
        json_decref(alert);
        return err_code(err, ERR_LIMIT, "alert_limit",
                        "the sandbox has as many alerts as it may, %d: delete one first",
                        ALERTS_MAX);
    }
    (void)json_array_append_new(alerts_of(w), alert);
    if (keep(a, w, err) == 0)
        return 0;
    (void)json_array_remove(alerts_of(w), json_array_size(alerts_of(w)) - 1);
    return -1;
}

int alerts_set(struct alerts *a, const char *sandbox_id, const char *metric, double threshold,
               const char *action, json_t **ret, struct err *err)
{
    struct engine_load load;
    json_t *alert;
    int r;

    if (check_threshold(metric, threshold, err) < 0 ||
        engine_load(a->config.engine, sandbox_id, &load, err) < 0)
        return -1;
    alert = new_alert(sandbox_id, metric, threshold, action);
    pthread_mutex_lock(&a->lock);
    r = add_alert(a, sandbox_id, json_incref(alert), err);
    if (r == 0)
        *ret = shown(alert);
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    json_decref(alert);
    return r;
}

int alerts_list(struct alerts *a, const char *sandbox_id, json_t **ret, struct err *err)
{
    struct engine_load load;
    const struct watched *w;
    json_t *list, *alert;
    size_t i;

    if (engine_load(a->config.engine, sandbox_id, &load, err) < 0)
        return -1;
    list = json_array();
    pthread_mutex_lock(&a->lock);
    w = find(a, sandbox_id);
    json_array_foreach(w ? alerts_of(w) : NULL, i, alert)
    {
        (void)json_array_insert_new(list, 0, shown(alert));
    }
    pthread_mutex_unlock(&a->lock);
    *ret = json_pack("{s:o}", "alerts", list);
    return 0;
}

int alerts_history(struct alerts *a, const char *sandbox_id, unsigned limit, json_t **ret,
                   struct err *err)
{
    struct engine_load load;
    const struct watched *w;
    json_t *list, *history;
    size_t n;

    if (engine_load(a->config.engine, sandbox_id, &load, err) < 0)
        return -1;
    list = json_array();
    pthread_mutex_lock(&a->lock);
    w = find(a, sandbox_id);
    history = w ? json_object_get(w->doc, "history") : NULL;
    n = json_array_size(history);
    for (size_t i = n; i > 0 && n - i < limit; i--)
        (void)json_array_append_new(list, json_deep_copy(json_array_get(history, i - 1)));
    pthread_mutex_unlock(&a->lock);
    *ret = json_pack("{s:o, s:I}", "events", list, "total", (json_int_t)n);
    return 0;
}

/* With the lock. Where it is among those of its sandbox; NULL = there is none. */
static struct watched *find_alert(struct alerts *a, const char *alert_id, size_t *ret,
                                  struct err *err)
{
    for (size_t i = 0; i < a->n; i++) {
        json_t *alert;
        size_t k;

        json_array_foreach(alerts_of(&a->list[i]), k, alert)
        {
            if (strcmp(json_string_value(json_object_get(alert, "id")), alert_id) == 0) {
                *ret = k;
                return &a->list[i];
            }
        }
    }
    (void)err_code(err, ERR_NOT_FOUND, "alert_not_found", "Alert not found: %s", alert_id);
    return NULL;
}

int alerts_owner(struct alerts *a, const char *alert_id, char ret[ID_SIZE], struct err *err)
{
    const struct watched *w;
    size_t at;

    pthread_mutex_lock(&a->lock);
    w = find_alert(a, alert_id, &at, err);
    if (w)
        (void)snprintf(ret, ID_SIZE, "%s", w->id);
    pthread_mutex_unlock(&a->lock);
    return w ? 0 : -1;
}

int alerts_delete(struct alerts *a, const char *alert_id, struct err *err)
{
    struct watched *w;
    json_t *alert;
    size_t at;
    int r = -1;

    pthread_mutex_lock(&a->lock);
    w = find_alert(a, alert_id, &at, err);
    if (w) {
        alert = json_incref(json_array_get(alerts_of(w), at));
        (void)json_array_remove(alerts_of(w), at);
        r = keep(a, w, err);
        if (r < 0)
            (void)json_array_insert(alerts_of(w), at, alert);
        json_decref(alert);
    }
    pthread_mutex_unlock(&a->lock);
    return r;
}

/* ---- a look at one sandbox ---- */

static void tell(struct alerts *a, const char *topic, const char *id, json_t *data)
{
    if (a->config.events)
        events_publish(a->config.events, topic, id, data);
    else
        json_decref(data);
}

/* AlertEvent. */
static json_t *alert_event(const json_t *alert, double value, int64_t time_ms)
{
    static const char *const same[] = {"sandboxId", "metric", "threshold", "action"};
    json_t *o = json_pack("{s:O, s:f, s:I}", "alertId", json_object_get(alert, "id"), "value",
                          round(value * 100) / 100, "timestamp", (json_int_t)time_ms);

    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        (void)json_object_set(o, same[i], json_object_get(alert, same[i]));
    return o;
}

static bool is_action(const json_t *alert, const char *word)
{
    return strcmp(json_string_value(json_object_get(alert, "action")), word) == 0;
}

static void note(struct watched *w, json_t *alert, json_t *event)
{
    json_t *history = json_object_get(w->doc, "history");

    (void)json_array_append(history, event);
    if (json_array_size(history) > ALERT_HISTORY_MAX)
        (void)json_array_remove(history, 0);
    if (!is_action(alert, "notify"))
        (void)json_object_set_new(alert, PENDING, json_true());
}

/* With the lock. Says whether something fired or resolved, which is then on the disk and told. */
static void judge_all(struct alerts *a, struct watched *w, const struct alert_values *values)
{
    int64_t now = now_ms();
    json_t *news = json_array(), *alert;
    struct err err = {0};
    size_t i;

    json_array_foreach(alerts_of(w), i, alert)
    {
        double value;
        enum alert_verdict verdict = alert_judge(alert, values, now, &value);
        json_t *event;

        if (verdict == ALERT_SAME)
            continue;
        event = alert_event(alert, value, now);
        if (verdict == ALERT_FIRES)
            note(w, alert, event);
        else
            (void)json_object_del(alert, PENDING);
        (void)json_array_append_new(
            news,
            json_pack("{s:s, s:o}", "topic",
                      verdict == ALERT_FIRES ? "alert.fired" : "alert.resolved", "data", event));
    }
    if (json_array_size(news) > 0 && keep(a, w, &err) < 0)
        log_warn("an alert is not on the disk", "sandbox", w->id, "error", err.text);
    json_array_foreach(news, i, alert)
    {
        tell(a, json_string_value(json_object_get(alert, "topic")), w->id,
             json_incref(json_object_get(alert, "data")));
    }
    json_decref(news);
}

enum deed { DEED_NONE, DEED_PAUSE, DEED_KILL };

/* With the lock: of all that have fired and did nothing yet, what weighs most. */
static enum deed pending(const struct watched *w)
{
    enum deed deed = DEED_NONE;
    json_t *alert;
    size_t i;

    json_array_foreach(alerts_of(w), i, alert)
    {
        if (!json_is_true(json_object_get(alert, PENDING)))
            continue;
        if (is_action(alert, "kill"))
            deed = DEED_KILL;
        else if (deed == DEED_NONE)
            deed = DEED_PAUSE;
    }
    return deed;
}

static void done_all(struct alerts *a, const char *id)
{
    struct err err = {0};
    struct watched *w;
    json_t *alert;
    size_t i;

    pthread_mutex_lock(&a->lock);
    w = find(a, id);
    json_array_foreach(w ? alerts_of(w) : NULL, i, alert)
    {
        (void)json_object_del(alert, PENDING);
    }
    if (w && keep(a, w, &err) < 0)
        log_warn("an alert is not on the disk", "sandbox", id, "error", err.text);
    pthread_mutex_unlock(&a->lock);
}

/* What fails is tried again with the next look, for as long as the value is too high. */
static void act(struct alerts *a, const char *id, enum deed deed)
{
    struct err err = {0};
    json_t *out = NULL;
    int r = 0;

    if (deed == DEED_KILL)
        r = engine_remove(a->config.engine, id, &err);
    else if (deed == DEED_PAUSE)
        r = engine_pause_by_alert(a->config.engine, id, &out, &err);
    else
        return;
    json_decref(out);
    if (r < 0 && err.kind != ERR_NOT_FOUND && err.kind != ERR_CONFLICT) {
        log_warn("an alert could not be acted on", "sandbox", id, "error", err.text);
        return;
    }
    log_info("alert", "sandbox", id, "action", deed == DEED_KILL ? "kill" : "pause");
    if (deed == DEED_KILL)
        forget(a, id);
    else
        done_all(a, id);
}

static enum deed judge(struct alerts *a, const char *id, const struct engine_load *load)
{
    int64_t time_ns = mono_ns();
    enum deed deed = DEED_NONE;
    struct alert_values values;
    struct watched *w;

    pthread_mutex_lock(&a->lock);
    w = find(a, id);
    if (w && load->runs) {
        alert_values(load, w->cpu_ns, w->look_ns ? time_ns - w->look_ns : 0, &values);
        judge_all(a, w, &values);
    }
    if (w) {
        deed = pending(w); /* of one that is paused by now, too: then it is done */
        w->cpu_ns = load->cpu_ns;
        w->look_ns = load->runs ? time_ns : 0;
    }
    pthread_mutex_unlock(&a->lock);
    return deed;
}

static void look_at(struct alerts *a, const char *id)
{
    struct engine_load load;

    if (engine_load(a->config.engine, id, &load, NULL) == 0)
        act(a, id, judge(a, id, &load));
    else if (!engine_has(a->config.engine, id))
        forget(a, id);
}

void alerts_look(struct alerts *a)
{
    auto_strv char **ids = NULL;

    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->n; i++)
        ids = strv_add(ids, a->list[i].id);
    pthread_mutex_unlock(&a->lock);
    for (size_t i = 0; ids && ids[i]; i++)
        look_at(a, ids[i]);
}

/* ---- its life ---- */

static void *run(void *arg)
{
    struct alerts *a = arg;

    pthread_mutex_lock(&a->lock);
    while (!a->stops) {
        int64_t next = mono_ns() + a->config.interval_s * NS_PER_SECOND;
        struct timespec until = {next / NS_PER_SECOND, next % NS_PER_SECOND};

        if (a->n == 0) {
            pthread_cond_wait(&a->wake, &a->lock); /* for the first one */
            continue;
        }
        pthread_mutex_unlock(&a->lock);
        alerts_look(a);
        pthread_mutex_lock(&a->lock);
        while (!a->stops && pthread_cond_timedwait(&a->wake, &a->lock, &until) == 0)
            continue;
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static bool is_one(json_t *o)
{
    const char *id = json_string_value(json_object_get(o, "id"));

    return id && id_valid(id, "sbx") && json_is_array(json_object_get(o, "alerts")) &&
           json_is_array(json_object_get(o, "history"));
}

int alerts_open(const struct alerts_config *config, struct alerts **ret, struct err *err)
{
    struct alerts *a = xcalloc(1, sizeof(*a));
    pthread_condattr_t monotonic;
    json_t *all, *doc;
    size_t i;

    a->config = *config;
    if (documents_open(config->data_dir, "alerts", is_one, &a->documents, err) < 0) {
        free(a);
        return -1;
    }
    pthread_mutex_init(&a->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&a->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    all = documents_all(a->documents);
    json_array_foreach(all, i, doc)
    {
        (void)add(a, json_incref(doc));
    }
    json_decref(all);
    *ret = a;
    return 0;
}

int alerts_start(struct alerts *a, struct err *err)
{
    int r = a->config.interval_s > 0 ? pthread_create(&a->thread, NULL, run, a) : 0;

    if (a->config.interval_s == 0)
        return 0;
    if (r != 0)
        return err_sys(err, r, "start the thread that looks after alerts");
    a->runs = true;
    return 0;
}

void alerts_stop(struct alerts *a)
{
    if (!a || !a->runs)
        return;
    pthread_mutex_lock(&a->lock);
    a->stops = true;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    (void)pthread_join(a->thread, NULL);
    a->runs = false;
}

void alerts_close(struct alerts *a)
{
    if (!a)
        return;
    alerts_stop(a);
    while (a->n > 0)
        drop(a, &a->list[a->n - 1]);
    free(a->list);
    documents_close(a->documents);
    pthread_cond_destroy(&a->wake);
    pthread_mutex_destroy(&a->lock);
    free(a);
}
