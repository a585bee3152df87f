#include "service/webhooks.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/event.h"
#include "policy/targets.h"
#include "service/events.h"
#include "service/webhooks_internal.h"
#include "store/documents.h"

#define SECRET_BYTES 24

_Static_assert(WEBHOOK_DELIVERIES_MAX == WEBHOOK_DELIVERIES, "what is kept can be asked for");

/* ---- a hook ---- */

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static bool is_webhook(json_t *o)
{
    return text_of(o, "url") && text_of(o, "topics") && text_of(o, "secret") &&
           json_is_integer(json_object_get(o, "place"));
}

static json_t *document_of(const struct hook *h, int64_t place)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s*, s:b, s:I, s:I}", "id", h->id, "url", h->url,
                     "topics", h->topics, "secret", h->secret, "sandboxId", h->sandbox_id, "active",
                     h->active, "createdAt", (json_int_t)h->created_ms, "place", (json_int_t)place);
}

static struct hook *hook_of(const json_t *o)
{
    struct hook *h = xcalloc(1, sizeof(*h));
    const char *sandbox = text_of(o, "sandboxId");

    (void)snprintf(h->id, sizeof(h->id), "%s", text_of(o, "id"));
    h->url = xstrdup(text_of(o, "url"));
    h->topics = xstrdup(text_of(o, "topics"));
    h->secret = xstrdup(text_of(o, "secret"));
    h->sandbox_id = sandbox ? xstrdup(sandbox) : NULL;
    h->active = !json_is_false(json_object_get(o, "active"));
    h->created_ms = json_integer_value(json_object_get(o, "createdAt"));
    return h;
}

void hook_free(struct hook *h)
{
    if (!h)
        return;
    events_unsubscribe(h->reader);
    events_block_unref(h->block);
    for (unsigned i = 0; i < h->n; i++)
        free(h->slots[i].body);
    if (h->secret)
        explicit_bzero(h->secret, strlen(h->secret));
    free(h->secret);
    free(h->url);
    free(h->topics);
    free(h->sandbox_id);
    free(h);
}

struct hook *hook_find(struct webhooks *w, const char *id)
{
    struct hook *h;

    TAILQ_FOREACH(h, &w->hooks, link)
    if (strcmp(h->id, id) == 0)
        return h;
    return NULL;
}

static struct hook *find_or_fail(struct webhooks *w, const char *id, struct err *err)
{
    struct hook *h = hook_find(w, id);

    if (!h)
        (void)err_code(err, ERR_NOT_FOUND, "webhook_not_found", "Webhook not found: %.60s", id);
    return h;
}

/* place: 0 = what happens from now on. */
static int hook_subscribe(struct webhooks *w, struct hook *h, int64_t place, struct err *err)
{
    const struct events_from from = {
        .topics = h->topics, .sandbox_id = h->sandbox_id, .after = place};

    if (events_subscribe(w->events, &from, &h->reader, err) < 0)
        return -1;
    h->last_seq = h->saved = events_reader_place(h->reader);
    return 0;
}

/* ---- open, start, stop, close ---- */

static void take_last(const struct delivery *d, void *arg)
{
    struct hook *h = arg;

    h->last = *d;
}

static int load_one(struct webhooks *w, const json_t *o, struct err *err)
{
    struct hook *h = hook_of(o);
    int64_t place = 0;

    h->number = ++w->last_number;
    TAILQ_INSERT_TAIL(&w->hooks, h, link);
    w->n++;
    if (webhook_store_place(w->store, h->id, &place, err) < 0 ||
        webhook_store_deliveries(w->store, h->id, 1, take_last, h, err) < 0)
        return -1;
    if (place == 0)
        place = json_integer_value(json_object_get(o, "place"));
    return hook_subscribe(w, h, place, err);
}

static int load(struct webhooks *w, struct err *err)
{
    json_t *all = documents_all(w->documents), *o;
    size_t i;
    int r = 0;

    json_array_foreach(all, i, o)
    {
        r = load_one(w, o, err);
        if (r < 0)
            break;
    }
    json_decref(all);
    return r;
}

int webhooks_open(const char *data_dir, const struct webhooks_config *config, struct events *events,
                  struct courier *courier, struct webhooks **ret, struct err *err)
{
    struct webhooks *w = xcalloc(1, sizeof(*w));

    w->config = *config;
    w->events = events;
    w->courier = courier;
    w->opened_ms = now_ms();
    w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->wake < 0)
        abort();
    pthread_mutex_init(&w->change, NULL);
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->landed_lock, NULL);
    TAILQ_INIT(&w->hooks);
    STAILQ_INIT(&w->landed);
    if (targets_parse(config->allow, &w->targets, err) < 0 ||
        documents_open(data_dir, "webhooks", is_webhook, &w->documents, err) < 0 ||
        webhook_store_open(data_dir, &w->store, err) < 0 || load(w, err) < 0) {
        webhooks_close(w);
        return -1;
    }
    *ret = w;
    return 0;
}

int webhooks_start(struct webhooks *w, struct err *err)
{
    int r = pthread_create(&w->thread, NULL, webhooks_run, w);

    if (r != 0)
        return err_sys(err, r, "start the webhooks' thread");
    w->running = true;
    return 0;
}

void webhooks_wake(struct webhooks *w)
{
    uint64_t one = 1;

    (void)write_all(w->wake, &one, sizeof(one));
}

void webhooks_stop(struct webhooks *w)
{
    if (!w || !w->running)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_mutex_unlock(&w->lock);
    webhooks_wake(w);
    (void)pthread_join(w->thread, NULL);
    w->running = false;
}

void webhooks_close(struct webhooks *w)
{
    struct flight *f;
    struct hook *h;

    if (!w)
        return;
    while ((h = TAILQ_FIRST(&w->hooks))) {
        TAILQ_REMOVE(&w->hooks, h, link);
        hook_free(h);
    }
    while ((f = STAILQ_FIRST(&w->landed))) {
        STAILQ_REMOVE_HEAD(&w->landed, link);
        if (f->test)
            webhook_test_unref(f->test);
        free(f);
    }
    webhook_store_close(w->store);
    if (w->documents)
        documents_close(w->documents);
    targets_free(w->targets);
    close_fd(&w->wake);
    free(w->rows);
    pthread_mutex_destroy(&w->landed_lock);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->change);
    free(w);
}

/* ---- as JSON ---- */

static json_t *text_or_null(const char *text)
{
    return text && text[0] ? json_string(text) : json_null();
}

static json_t *number_or_null(int64_t n)
{
    return n ? json_integer(n) : json_null();
}

static json_t *topics_json(const char *topics)
{
    json_t *array = json_array();

    while (*topics) {
        size_t len = strcspn(topics, ",");

        (void)json_array_append_new(array, json_stringn(topics, len));
        topics += len + (topics[len] == ',');
    }
    return array;
}

static json_t *hook_json(const struct hook *h)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:b, s:I, s:I, s:o, s:o, s:o, s:o}", "id", h->id, "url",
                     h->url, "topics", topics_json(h->topics), "sandboxId",
                     text_or_null(h->sandbox_id), "active", h->active, "createdAt",
                     (json_int_t)h->created_ms, "failures", (json_int_t)h->failures, "lastStatus",
                     number_or_null(h->last.status), "lastError", text_or_null(h->last.error),
                     "lastAttemptAt", number_or_null(h->last.at_ms), "nextAttemptAt",
                     number_or_null(h->failures ? h->last.next_ms : 0));
}

json_t *delivery_json(const struct delivery *d)
{
    static const char *const states[] = {[DELIVERY_RETRYING] = "retrying",
                                         [DELIVERY_DELIVERED] = "delivered",
                                         [DELIVERY_FAILED] = "failed"};

    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:o}", "id", d->id,
                     "eventId", d->event, "topic", d->topic, "state", states[d->state], "attempts",
                     (json_int_t)d->attempts, "status", number_or_null(d->status), "error",
                     text_or_null(d->error), "message", text_or_null(d->message), "address",
                     text_or_null(d->address), "duration", (json_int_t)d->took_ms, "timestamp",
                     (json_int_t)d->at_ms, "nextAttemptAt", number_or_null(d->next_ms));
}

/* ---- create ---- */

static int check_secret(const char *secret, struct err *err)
{
    size_t len = strlen(secret);

    for (const char *c = secret; *c; c++)
        if (*c < '!' || *c > '~')
            return err_code(err, ERR_INVALID, "bad_webhook",
                            "secret must be of visible ASCII characters");
    if (len < WEBHOOK_SECRET_MIN || len > WEBHOOK_SECRET_MAX)
        return err_code(err, ERR_INVALID, "bad_webhook", "secret must have %d to %d characters",
                        WEBHOOK_SECRET_MIN, WEBHOOK_SECRET_MAX);
    return 0;
}

static char *new_secret(void)
{
    unsigned char bytes[SECRET_BYTES];
    char hex[2 * SECRET_BYTES + 1];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        abort();
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    return xasprintf("whsec_%s", hex);
}

/* With commas between them; free it. NULL with err. */
static char *join_topics(const json_t *topics, struct err *err)
{
    struct buf all;
    json_t *topic;
    size_t i;

    if (json_array_size(topics) == 0)
        return xstrdup("*");
    buf_init(&all, TOPICS_MAX);
    json_array_foreach(topics, i, topic)
    {
        const char *text = json_string_value(topic);

        if (!text || strchr(text, ',') || !topics_valid(text)) {
            (void)err_code(err, ERR_INVALID, "bad_webhook",
                           "topics[%zu] must be a topic, the beginning of one as exec.*, or *", i);
            buf_done(&all);
            return NULL;
        }
        if (i >= WEBHOOK_TOPICS_MAX || (i > 0 && buf_add_str(&all, ",") < 0) ||
            buf_add_str(&all, text) < 0) {
            (void)err_code(err, ERR_INVALID, "bad_webhook", "topics has too many: at most %d",
                           WEBHOOK_TOPICS_MAX);
            buf_done(&all);
            return NULL;
        }
    }
    return buf_steal(&all);
}

static struct hook *make_hook(struct webhooks *w, const struct webhook_request *q, struct err *err)
{
    auto_free char *topics = NULL;
    struct hook *h;

    if (webhook_check_url(w->targets, q->url, err) < 0 ||
        (q->secret && check_secret(q->secret, err) < 0))
        return NULL;
    topics = join_topics(q->topics, err);
    if (!topics)
        return NULL;
    h = xcalloc(1, sizeof(*h));
    id_new(h->id, "wh");
    h->url = xstrdup(q->url);
    h->topics = steal_ptr(topics);
    h->secret = q->secret ? xstrdup(q->secret) : new_secret();
    h->sandbox_id = q->sandbox_id ? xstrdup(q->sandbox_id) : NULL;
    h->active = true;
    h->created_ms = now_ms();
    return h;
}

/* Under change: nobody else adds one. */
static int add_hook(struct webhooks *w, struct hook *h, json_t **ret, struct err *err)
{
    if (w->n >= w->config.max)
        return err_code(err, ERR_LIMIT, "webhook_limit",
                        "there are %u webhooks, which is as many as there may be "
                        "(CAY_MAX_WEBHOOKS)",
                        w->n);
    if (hook_subscribe(w, h, 0, err) < 0 ||
        documents_put(w->documents, h->id, document_of(h, h->saved), err) < 0)
        return -1;
    *ret = hook_json(h);
    (void)json_object_set_new(*ret, "secret", json_string(h->secret));
    pthread_mutex_lock(&w->lock);
    h->number = ++w->last_number;
    TAILQ_INSERT_TAIL(&w->hooks, h, link);
    w->n++;
    pthread_mutex_unlock(&w->lock);
    return 0;
}

int webhooks_create(struct webhooks *w, const struct webhook_request *request, json_t **ret,
                    struct err *err)
{
    struct hook *h = make_hook(w, request, err);
    int r;

    if (!h)
        return -1;
    pthread_mutex_lock(&w->change);
    r = add_hook(w, h, ret, err);
    pthread_mutex_unlock(&w->change);
    if (r < 0)
        hook_free(h);
    else
        webhooks_wake(w);
    return r;
}

/* ---- the others ---- */

json_t *webhooks_list(struct webhooks *w)
{
    json_t *all = json_array();
    struct hook *h;

    pthread_mutex_lock(&w->lock);
    TAILQ_FOREACH_REVERSE(h, &w->hooks, hooks, link)
    (void)json_array_append_new(all, hook_json(h));
    pthread_mutex_unlock(&w->lock);
    return all;
}

int webhooks_get(struct webhooks *w, const char *id, json_t **ret, struct err *err)
{
    struct hook *h;

    pthread_mutex_lock(&w->lock);
    h = find_or_fail(w, id, err);
    if (h)
        *ret = hook_json(h);
    pthread_mutex_unlock(&w->lock);
    return h ? 0 : -1;
}

/* What is on its way lands nowhere. */
static int remove_hook(struct webhooks *w, const char *id, struct err *err)
{
    struct hook *h;

    pthread_mutex_lock(&w->lock);
    h = find_or_fail(w, id, err);
    pthread_mutex_unlock(&w->lock);
    if (!h || documents_delete(w->documents, id, err) < 0)
        return -1;
    pthread_mutex_lock(&w->lock);
    TAILQ_REMOVE(&w->hooks, h, link);
    w->n--;
    w->flying -= h->flying;
    pthread_mutex_unlock(&w->lock);
    hook_free(h);
    return 0;
}

int webhooks_remove(struct webhooks *w, const char *id, struct err *err)
{
    struct err unkept = {0};
    int r;

    pthread_mutex_lock(&w->change);
    r = remove_hook(w, id, err);
    pthread_mutex_unlock(&w->change);
    if (r < 0)
        return -1;
    webhooks_wake(w);
    if (webhook_store_forget(w->store, id, &unkept) < 0)
        log_warn("cannot forget the deliveries of a webhook, going on", "webhook", id, "why",
                 unkept.text);
    return 0;
}

static void add_delivery(const struct delivery *d, void *arg)
{
    (void)json_array_append_new(arg, delivery_json(d));
}

int webhooks_deliveries(struct webhooks *w, const char *id, unsigned limit, json_t **ret,
                        struct err *err)
{
    json_t *all;
    bool there;

    pthread_mutex_lock(&w->lock);
    there = find_or_fail(w, id, err) != NULL;
    pthread_mutex_unlock(&w->lock);
    if (!there)
        return -1;
    all = json_array();
    if (webhook_store_deliveries(w->store, id, limit, add_delivery, all, err) < 0) {
        json_decref(all);
        return -1;
    }
    *ret = all;
    return 0;
}

static int set_active(struct webhooks *w, const char *id, bool active, json_t **ret,
                      struct err *err)
{
    json_t *document = NULL;
    struct hook *h;

    pthread_mutex_lock(&w->lock);
    h = find_or_fail(w, id, err);
    pthread_mutex_unlock(&w->lock);
    document = h ? documents_get(w->documents, id) : NULL;
    if (!document)
        return -1;
    (void)json_object_set_new(document, "active", json_boolean(active));
    if (documents_put(w->documents, id, document, err) < 0)
        return -1;
    pthread_mutex_lock(&w->lock);
    h->active = active;
    h->retry_ns = 0;
    for (unsigned i = 0; i < h->n; i++)
        h->slots[i].retry_ns = 0;
    *ret = hook_json(h);
    pthread_mutex_unlock(&w->lock);
    return 0;
}

int webhooks_set_active(struct webhooks *w, const char *id, bool active, json_t **ret,
                        struct err *err)
{
    int r;

    pthread_mutex_lock(&w->change);
    r = set_active(w, id, active, ret, err);
    pthread_mutex_unlock(&w->change);
    if (r == 0)
        webhooks_wake(w);
    return r;
}
