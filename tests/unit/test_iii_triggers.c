#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "functions/rates.h"
#include "http/server.h"
#include "iii/channels_internal.h"
#include "iii/lane_internal.h"
#include "service/events.h"
#include "service/services.h"
#include "tap.h"
#include "tmpdir.h"

/* Triggers with a hub that is none: functions are told by their names what they answer. Runner,
 * server of HTTP and events are real. */

/* ---- the hub ---- */

struct asked {
    char function_id[80], namespace[80], who[64], worker_id[UUID_SIZE];
    json_t *data, *metadata;
    iii_answered answered; /* of one that is held */
    void *arg;
};

#define ASKED_MAX 20000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct asked asked[ASKED_MAX];
static unsigned n_asked;
static json_t *gives; /* what "gives" answers */
static struct iii_hub hub;
static struct budget memory, streams;
static struct services services;
static const struct about about = {.prefix = "sandbox"};
static struct iii_triggers *t;

/* hold: not yet; fail: an error; twice: one for two times; no: false; gives: what the test says. */
void iii_ask(struct iii_hub *h, const struct iii_question *q, iii_answered answered, void *arg)
{
    static atomic_int failed;
    json_t *error = json_pack("{s:s, s:s}", "code", "invocation_failed", "message", "it broke");
    json_t *result = NULL;
    struct asked *a;

    CHECK(h == &hub);
    (void)pthread_mutex_lock(&lock);
    CHECK(n_asked < ASKED_MAX);
    a = &asked[n_asked++];
    (void)snprintf(a->function_id, sizeof(a->function_id), "%s", q->function_id);
    (void)snprintf(a->namespace, sizeof(a->namespace), "%s", q->namespace ? q->namespace : "-");
    (void)snprintf(a->who, sizeof(a->who), "%s", q->asker->caller.name);
    (void)snprintf(a->worker_id, sizeof(a->worker_id), "%s", q->asker->worker_id);
    a->data = q->data ? json_deep_copy(q->data) : json_null();
    a->metadata = json_deep_copy(q->metadata);
    if (strncmp(q->function_id, "hold", 4) == 0) {
        a->answered = answered;
        a->arg = arg;
    } else if (strncmp(q->function_id, "fail", 4) == 0 ||
               (strncmp(q->function_id, "twice", 5) == 0 && failed++ < 2)) {
        result = NULL;
    } else if (strncmp(q->function_id, "no", 2) == 0) {
        result = json_false();
    } else if (strcmp(q->function_id, "gives") == 0) {
        result = json_incref(gives);
    } else if (strcmp(q->function_id, "engine::functions::list") == 0) {
        result = json_pack("{s:[{s:s}]}", "functions", "function_id", "a::b");
    } else {
        result = json_true();
    }
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
    if (strncmp(q->function_id, "hold", 4) != 0)
        answered(arg, result, result ? NULL : error);
    json_decref(result);
    json_decref(error);
}

bool iii_engine_has(const char *id)
{
    return strncmp(id, "engine::", 8) == 0;
}

static void asker_free(struct iii_asker *a)
{
    iii_share_unref(a->share);
    free(a);
}

struct iii_asker *iii_asker_ref(struct iii_asker *a)
{
    atomic_fetch_add(&a->refs, 1);
    return a;
}

void iii_asker_unref(struct iii_asker *a)
{
    if (a && atomic_fetch_sub(&a->refs, 1) == 1)
        a->free(a);
}

static struct iii_asker *asker_new(const struct caller *caller, struct rates *rates,
                                   const char *namespace, struct iii_share *share)
{
    struct iii_asker *a = xcalloc(1, sizeof(*a));

    atomic_init(&a->refs, 1);
    a->caller = *caller;
    a->rates = rates;
    a->share = share;
    a->free = asker_free;
    (void)snprintf(a->namespace, sizeof(a->namespace), "%s", namespace);
    return a;
}

struct iii_asker *iii_asker_new(const struct caller *caller, struct rates *rates,
                                const char *namespace)
{
    return asker_new(caller, rates, namespace, iii_share_new(caller));
}

struct iii_asker *iii_asker_for(const struct iii_asker *a)
{
    return asker_new(&a->caller, a->rates, a->namespace, iii_share_ref(a->share));
}

void iii_uuid_new(char ret[UUID_SIZE])
{
    static atomic_uint n;

    (void)snprintf(ret, UUID_SIZE, "00000000-0000-4000-8000-%012u", ++n);
}

bool iii_uuid_valid(const char *text)
{
    return strlen(text) == 36;
}

void iii_uuid_of_id(const char *id, char ret[UUID_SIZE])
{
    (void)snprintf(ret, UUID_SIZE, "uuid-of-%.27s", id);
}

int iii_id_of_uuid(const char *uuid, char ret[ID_SIZE], struct err *err)
{
    (void)uuid;
    (void)ret;
    return err_set(err, ERR_NOT_FOUND, "no such sandbox");
}

/* ---- what tests do ---- */

static struct iii_asker *me;

static void up(void)
{
    static const struct caller caller = {.face = "iii", .name = "me", .scopes = SCOPES_ALL};

    budget_init(&memory, 64u << 20);
    hub = (struct iii_hub){.config = {.about = &about, .memory = &memory, .services = &services}};
    hub.runner = runner_new(8);
    hub.config.streams = &streams;
    budget_init(&streams, 64u << 20);
    hub.channels = iii_channels_new(&hub);
    CHECK_INT(runner_start(hub.runner, NULL), 0);
    hub.triggers = t = iii_triggers_new(&hub);
    CHECK_INT(iii_triggers_start(t, NULL), 0);
    me = iii_asker_new(&caller, NULL, "default");
}

static void answer_held(json_t *result, json_t *error, unsigned most)
{
    for (unsigned i = 0, n = 0; n < most; i++) {
        struct asked a;

        (void)pthread_mutex_lock(&lock);
        if (i >= n_asked) {
            (void)pthread_mutex_unlock(&lock);
            return;
        }
        a = asked[i];
        asked[i].answered = NULL;
        (void)pthread_mutex_unlock(&lock);
        if (a.answered) {
            a.answered(a.arg, result, error);
            n++;
        }
    }
}

static void down(void)
{
    json_t *yes = json_true();

    iii_triggers_stop(t);
    runner_stop(hub.runner);
    answer_held(yes, NULL, UINT32_MAX);
    iii_triggers_free(t);
    iii_channels_free(hub.channels);
    CHECK_INT(streams.used, 0);
    budget_done(&streams);
    runner_free(hub.runner);
    iii_asker_unref(me);
    CHECK_INT(memory.used, 0);
    budget_done(&memory);
    for (unsigned i = 0; i < n_asked; i++) {
        json_decref(asked[i].data);
        json_decref(asked[i].metadata);
    }
    json_decref(gives);
}

static unsigned count(const char *function_id)
{
    unsigned n = 0;

    for (unsigned i = 0; i < n_asked; i++)
        n += strcmp(asked[i].function_id, function_id) == 0;
    return n;
}

/* Until that function was asked n times; the last of them. */
static const struct asked *await(const char *function_id, unsigned n)
{
    struct timespec until;
    const struct asked *found = NULL;
    unsigned seen = 0;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    (void)pthread_mutex_lock(&lock);
    while (count(function_id) < n)
        if (pthread_cond_timedwait(&changed, &lock, &until) != 0)
            TAP_FAIL("%s was asked %u times, not %u", function_id, count(function_id), n);
    for (unsigned i = 0; i < n_asked && seen < n; i++)
        if (strcmp(asked[i].function_id, function_id) == 0) {
            found = &asked[i];
            seen++;
        }
    (void)pthread_mutex_unlock(&lock);
    return found;
}

static unsigned asked_of(const char *function_id)
{
    unsigned n;

    (void)pthread_mutex_lock(&lock);
    n = count(function_id);
    (void)pthread_mutex_unlock(&lock);
    return n;
}

static int bind_as(struct iii_asker *who, const char *id, const char *type, const char *function_id,
                   const char *config, struct err *err)
{
    struct iii_binding b = {.type = type,
                            .function_id = function_id,
                            .namespace = "default",
                            .asker = who,
                            .config = config ? json_loads(config, 0, NULL) : NULL,
                            .metadata = json_pack("{s:s}", "by", id)};
    int r;

    (void)snprintf(b.id, sizeof(b.id), "%s", id);
    CHECK(!config || b.config);
    r = iii_trigger_bind(t, &b, err);
    json_decref(b.config);
    json_decref(b.metadata);
    return r;
}

static void bind_it(const char *id, const char *type, const char *function_id, const char *config)
{
    struct err err = {0};

    if (bind_as(me, id, type, function_id, config, &err) < 0)
        TAP_FAIL("%s: %s", type, err.text);
}

static void check_refused(const char *type, const char *config, enum err_kind kind,
                          const char *word)
{
    struct err err = {0};

    if (bind_as(me, "bad", type, "ok", config, &err) == 0)
        TAP_FAIL("%s %s was bound", type, config);
    CHECK_INT(err.kind, kind);
    if (!strstr(err.text, word))
        TAP_FAIL("%s: %s", config, err.text);
}

static void publish(const char *topic, const char *text)
{
    json_t *data = json_loads(text, JSON_DECODE_ANY, NULL);
    struct err err = {0};

    if (iii_publish(t, topic, data, me, &err) < 0)
        TAP_FAIL("%s", err.text);
    json_decref(data);
}

static int enqueue_as(struct iii_asker *who, const char *queue, const char *function_id,
                      json_t *data, struct err *err)
{
    struct iii_question q = {.asker = who, .function_id = function_id, .data = data};
    char id[UUID_SIZE];
    int r = iii_enqueue(t, queue, &q, id, err);

    if (r == 0)
        CHECK_INT(strlen(id), 36);
    json_decref(data);
    return r;
}

static int enqueue(const char *queue, const char *function_id, json_t *data, struct err *err)
{
    return enqueue_as(me, queue, function_id, data, err);
}

/* Until nothing is left to do, and nothing is done. */
static void settle(void)
{
    for (;;) {
        bool idle;

        triggers_lock(t);
        idle = !t->active && !t->running && !t->delayed;
        triggers_unlock(t);
        if (idle)
            return;
        usleep(1000);
    }
}

/* ---- types ---- */

TEST(types_that_fire_here_are_ours)
{
    json_t *types = iii_trigger_types(), *type;
    size_t i;

    CHECK(iii_trigger_is_ours("http") && iii_trigger_is_ours("cron") &&
          iii_trigger_is_ours("durable:subscriber") && iii_trigger_is_ours("subscribe") &&
          iii_trigger_is_ours("queue") && iii_trigger_is_ours("sandbox") &&
          iii_trigger_is_ours("engine::workers-available"));
    CHECK(!iii_trigger_is_ours("log") && !iii_trigger_is_ours("state") &&
          !iii_trigger_is_ours("stream") && !iii_trigger_is_ours(""));
    CHECK_INT(json_array_size(types), 9);
    json_array_foreach(types, i, type)
    {
        CHECK(*json_text(type, "description"));
        CHECK(json_is_object(json_object_get(type, "trigger_request_format")));
        CHECK(json_is_object(json_object_get(type, "call_request_format")));
    }
    json_decref(types);
}

TEST(as_many_as_may_be_are_bound)
{
    char id[32];
    struct err err = {0};

    up();
    for (int i = 0; i < BINDINGS_MAX; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        bind_it(id, "subscribe", "ok", "{\"topic\": \"t\"}");
    }
    bind_it("t7", "subscribe", "ok", "{\"topic\": \"u\"}"); /* again */
    CHECK_INT(bind_as(me, "more", "subscribe", "ok", "{\"topic\": \"t\"}", &err), -1);
    CHECK_INT(err.kind, ERR_LIMIT);
    iii_trigger_unbind(t, "t8");
    bind_it("more", "subscribe", "ok", "{\"topic\": \"t\"}");
    iii_trigger_unbind(t, "nobody");
    down();
}

TEST(metadata_that_take_much_are_refused)
{
    struct iii_binding b = {.id = "x", .type = "subscribe", .function_id = "ok", .asker = NULL};
    struct err err = {0};

    up();
    b.asker = me;
    b.config = json_pack("{s:s}", "topic", "t");
    b.metadata = json_array();
    for (int i = 0; i < 1000; i++)
        (void)json_array_append_new(b.metadata, json_array());
    CHECK_INT(iii_trigger_bind(t, &b, &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    (void)json_array_clear(b.metadata);
    CHECK_INT(iii_trigger_bind(t, &b, &err), 0);
    json_decref(b.config);
    json_decref(b.metadata);
    down();
}

TEST(an_id_is_its_makers)
{
    static const struct caller other = {.face = "iii", .name = "other", .scopes = SCOPES_ALL};
    struct iii_asker *they;
    struct err err = {0};

    up();
    they = iii_asker_new(&other, NULL, "default");
    bind_it("x", "subscribe", "ok", "{\"topic\": \"t\"}");
    CHECK_INT(bind_as(they, "x", "subscribe", "ok", "{\"topic\": \"t\"}", &err), -1);
    CHECK_INT(err.kind, ERR_CONFLICT);
    atomic_store(&me->gone, true);
    CHECK_INT(bind_as(they, "x", "subscribe", "theirs", "{\"topic\": \"t\"}", &err), 0);
    publish("t", "1");
    (void)await("theirs", 1);
    CHECK_INT(asked_of("ok"), 0);
    iii_trigger_unbind(t, "x");
    iii_asker_unref(they);
    down();
}

/* ---- cron ---- */

/* Has the one cron binding due at that time, and the clock look; when it is due next. */
static int64_t cron_at(int64_t due_s)
{
    int64_t next = due_s;

    triggers_lock(t);
    t->all->due_s = due_s;
    t->cron_due_ms = 0;
    triggers_unlock(t);
    triggers_wake(t);
    while (next == due_s) {
        triggers_lock(t);
        next = t->all->due_s;
        triggers_unlock(t);
    }
    return next;
}

TEST(a_time_that_comes_calls_the_function)
{
    const struct asked *a;

    up();
    (void)snprintf(me->worker_id, sizeof(me->worker_id), "the-worker");
    bind_it("tick", "cron", "ok", "{\"expression\": \"* * * * * *\"}");
    a = await("ok", 1);
    CHECK_STR(a->worker_id, ""); /* no connection asks */
    CHECK_STR(json_text(a->data, "trigger"), "cron");
    CHECK_STR(json_text(a->data, "job_id"), "tick");
    CHECK_INT(strlen(json_text(a->data, "scheduled_time")), 25);
    CHECK(strstr(json_text(a->data, "scheduled_time"), "+00:00"));
    CHECK(strncmp(json_text(a->data, "scheduled_time"), json_text(a->data, "actual_time"), 19) <=
          0);
    CHECK_STR(json_text(a->metadata, "by"), "tick");
    CHECK_STR(a->namespace, "default");
    CHECK_STR(a->who, "me");
    (void)await("ok", 2);
    down();
}

TEST(a_function_that_does_not_answer_has_one_more_call_and_no_third)
{
    json_t *yes = json_true();

    up();
    bind_it("tick", "cron", "hold", "{\"expression\": \"0 0 0 1 1 ?\"}");
    (void)cron_at(now_ms() / 1000);
    (void)await("hold", 1);
    (void)cron_at(now_ms() / 1000);
    (void)await("hold", 2);
    (void)cron_at(now_ms() / 1000); /* passed over */
    CHECK_INT(asked_of("hold"), 2);
    answer_held(yes, NULL, 1);
    (void)cron_at(now_ms() / 1000);
    (void)await("hold", 3);
    down();
}

TEST(times_that_were_missed_are_passed_over_and_a_clock_set_back_is_noticed)
{
    int64_t now = now_ms() / 1000, next;

    up();
    bind_it("tick", "cron", "ok", "{\"expression\": \"0 0 * * * *\"}");
    next = cron_at(now - 3600);
    CHECK(next > now && next <= now + 3700);
    triggers_lock(t);
    t->seen_ms = (now + 86400) * 1000;
    t->all->due_s = now + 86400;
    triggers_unlock(t);
    triggers_wake(t);
    for (next = now + 86400; next == now + 86400;) {
        triggers_lock(t);
        next = t->all->due_s;
        triggers_unlock(t);
    }
    CHECK(next <= now + 3700);
    settle();
    CHECK_INT(asked_of("ok"), 0);
    down();
}

TEST(a_condition_that_says_false_keeps_the_function_from_being_called)
{
    up();
    bind_it("tick", "cron", "ok",
            "{\"expression\": \"0 0 0 1 1 ?\", \"condition_function_id\": \"no\"}");
    (void)cron_at(now_ms() / 1000);
    (void)await("no", 1);
    settle();
    CHECK_INT(asked_of("ok"), 0);
    iii_trigger_unbind(t, "tick");
    bind_it("tick", "cron", "ok",
            "{\"expression\": \"0 0 0 1 1 ?\", \"condition_function_id\": \"fail\"}");
    (void)cron_at(now_ms() / 1000);
    (void)await("fail", 1);
    settle();
    CHECK_INT(asked_of("ok"), 0);
    iii_trigger_unbind(t, "tick");
    bind_it("tick", "cron", "ok",
            "{\"expression\": \"0 0 0 1 1 ?\", \"condition_function_id\": \"yes\"}");
    (void)cron_at(now_ms() / 1000);
    CHECK_STR(json_text(await("ok", 1)->data, "trigger"), "cron");
    down();
}

TEST(cron_lines_that_make_no_sense_are_refused)
{
    up();
    check_refused("cron", "{}", ERR_INVALID, "expression is required");
    check_refused("cron", "{\"expression\": 5}", ERR_INVALID, "expression");
    check_refused("cron", "{\"expression\": \"* * * * * 9\"}", ERR_INVALID, "weekday");
    check_refused("cron", "{\"expression\": \"0 0 0 30 2 ?\"}", ERR_INVALID, "no such time");
    check_refused("cron", NULL, ERR_INVALID, "expression");
    check_refused("log", "{}", ERR_NOT_FOUND, "no trigger type");
    down();
}

TEST(when_the_asker_is_gone_its_bindings_are_dead)
{
    up();
    bind_it("tick", "cron", "ok", "{\"expression\": \"0 0 0 1 1 ?\"}");
    bind_it("sub", "subscribe", "ok", "{\"topic\": \"t\"}");
    atomic_store(&me->gone, true);
    publish("t", "1");
    settle();
    triggers_lock(t);
    t->look_ns = 0;
    triggers_unlock(t);
    triggers_wake(t);
    for (unsigned n = 1; n > 0;) {
        triggers_lock(t);
        n = t->n;
        triggers_unlock(t);
    }
    CHECK_INT(asked_of("ok"), 0);
    while (atomic_load(&me->refs) > 1) /* which follows */
        (void)sched_yield();
    down();
}

/* ---- named queues ---- */

TEST(a_call_that_is_queued_is_made_with_what_it_was_given)
{
    struct iii_question q = {.asker = me, .function_id = "ok", .namespace = "mine"};
    char id[UUID_SIZE] = "";
    const struct asked *a;

    up();
    q.asker = me;
    q.data = json_pack("{s:s%}", "text", "a\0b", (size_t)3);
    q.metadata = json_pack("[i]", 7);
    CHECK_INT(iii_enqueue(t, "work", &q, id, NULL), 0);
    CHECK_INT(strlen(id), 36);
    atomic_store(&me->gone, true); /* it is made all the same */
    a = await("ok", 1);
    CHECK(json_equal(a->data, q.data) && json_equal(a->metadata, q.metadata));
    CHECK_STR(a->namespace, "mine");
    settle();
    CHECK_INT(t->n_queues, 0);
    json_decref(q.data);
    json_decref(q.metadata);
    down();
}

TEST(ten_of_a_queue_run_at_once)
{
    json_t *yes = json_true();

    up();
    for (int i = 0; i < 15; i++)
        CHECK_INT(enqueue("work", "hold", json_integer(i), NULL), 0);
    CHECK_INT(enqueue("other", "ok", json_null(), NULL), 0);
    (void)await("ok", 1); /* another queue is not held up */
    CHECK_INT(json_integer_value(await("hold", 10)->data), 9);
    CHECK_INT(asked_of("hold"), 10);
    answer_held(yes, NULL, 1);
    CHECK_INT(json_integer_value(await("hold", 11)->data), 10);
    down();
}

TEST(a_call_that_fails_three_times_is_a_dead_letter)
{
    struct caller other = {.name = "other", .sandbox_id = "sbx_1"};
    int64_t began = mono_ns();
    json_t *dead, *all;

    up();
    CHECK_INT(enqueue("work", "fail", json_pack("{s:i}", "n", 5), NULL), 0);
    (void)await("fail", 3);
    CHECK(mono_ns() - began >= 3000000000); /* behind one second, and two */
    settle();
    CHECK_INT(asked_of("fail"), 3);
    all = iii_dead_queues(t, &me->caller);
    CHECK_STR(json_text(json_array_get(all, 0), "topic"), "work");
    CHECK_INT(json_int(json_array_get(all, 0), "message_count"), 1);
    json_decref(all);
    dead = iii_dead_letters(t, "work", 0, 10, &me->caller);
    CHECK_INT(json_array_size(dead), 1);
    CHECK_STR(json_text(json_array_get(dead, 0), "error"), "it broke");
    CHECK_INT(json_int(json_array_get(dead, 0), "retries"), 3);
    CHECK_INT(json_int(json_object_get(json_array_get(dead, 0), "payload"), "n"), 5);
    all = iii_dead_letters(t, "work", 0, 10, &other);
    CHECK_INT(json_array_size(all), 0);
    json_decref(all);
    CHECK_INT(iii_dead_redrive(t, "work", NULL, &other), 0);
    CHECK_INT(iii_dead_redrive(t, "elsewhere", NULL, &me->caller), 0);
    CHECK_INT(iii_dead_redrive(t, "work", json_text(json_array_get(dead, 0), "id"), &me->caller),
              1);
    (void)await("fail", 4);
    CHECK_INT(iii_dead_discard(t, "work", NULL, &me->caller), 0); /* it is not dead now */
    json_decref(dead);
    down();
}

TEST(queues_are_bounded_in_calls_and_in_bytes)
{
    static const struct caller other = {.face = "iii", .name = "other", .scopes = SCOPES_ALL};
    struct iii_asker *they = iii_asker_new(&other, NULL, "default");
    struct err err = {0};
    auto_free char *text = NULL;
    char name[32];
    size_t len;

    up();
    for (int i = 0; i < JOBS_MAX / 2; i++)
        CHECK_INT(enqueue("work", "hold", json_null(), NULL), 0);
    CHECK_INT(enqueue("work", "hold", json_null(), &err), -1);
    CHECK_STR(err.code, "queue_full");
    CHECK_INT(err.kind, ERR_LIMIT);
    for (int i = 0; i < JOBS_MAX / 2; i++) /* what one has does not keep out others */
        CHECK_INT(enqueue_as(they, "work", "hold", json_null(), NULL), 0);
    CHECK_INT(enqueue_as(they, "work", "hold", json_null(), &err), -1);
    iii_asker_unref(they);
    down();
    n_asked = 0;

    up();
    len = memory.max / 2 / 3;
    text = xmalloc(len);
    memset(text, 'a', len);
    for (int i = 0; i < 2; i++)
        CHECK_INT(enqueue("work", "hold", json_stringn(text, len), NULL), 0);
    CHECK_INT(enqueue("work", "hold", json_stringn(text, len), &err), -1);
    CHECK_INT(err.kind, ERR_LIMIT);
    down();
    n_asked = 0;

    up();
    CHECK_INT(enqueue("work", "hold", json_null(), NULL), 0);
    triggers_lock(t); /* with who asks */
    CHECK(memory.used > sizeof(struct iii_asker) + JOB_BYTES);
    triggers_unlock(t);
    down();
    n_asked = 0;

    up();
    for (int i = 0; i < QUEUES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "queue %d", i);
        CHECK_INT(enqueue(name, "hold", json_null(), NULL), 0);
    }
    CHECK_INT(enqueue("one more", "hold", json_null(), &err), -1);
    CHECK_INT(enqueue("queue 7", "hold", json_null(), NULL), 0);
    CHECK_INT(enqueue("", "hold", json_null(), &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    down();
}

/* ---- queues that are defined ---- */

static int define_as(const struct caller *who, const char *queue, const char *config,
                     struct err *err)
{
    json_t *value = json_loads(config, JSON_DECODE_ANY, NULL);
    int r;

    CHECK(value);
    r = iii_queue_define(t, queue, value, who, err);
    json_decref(value);
    return r;
}

static void define(const char *queue, const char *config)
{
    struct err err = {0};

    if (define_as(&me->caller, queue, config, &err) < 0)
        TAP_FAIL("%s: %s", config, err.text);
}

static int enqueue_in(const char *group, int n, const char *function_id)
{
    return enqueue("work", function_id, json_pack("{s:s, s:i}", "group", group, "n", n), NULL);
}

static int64_t n_of(const char *function_id, unsigned n)
{
    return json_int(await(function_id, n)->data, "n");
}

TEST(a_queue_follows_the_rules_that_it_was_given_and_then_others)
{
    json_t *yes = json_true(), *all, *config;

    up();
    define("work", "{\"concurrency\": 2, \"max_retries\": 1, \"poll_interval_ms\": 5}");
    for (int i = 0; i < 8; i++)
        CHECK_INT(enqueue("work", "hold", json_integer(i), NULL), 0);
    CHECK_INT(enqueue("other", "ok", json_null(), NULL), 0);
    (void)await("hold", 2);
    (void)await("ok", 1);
    CHECK_INT(asked_of("hold"), 2);
    define("work", "{\"concurrency\": 5, \"max_retries\": 1}");
    (void)await("hold", 5);
    CHECK_INT(asked_of("hold"), 5);
    answer_held(yes, NULL, 5);
    (void)await("hold", 8);
    answer_held(yes, NULL, 3);
    settle();
    all = iii_queues(t); /* it is there though it is empty, and the other is not */
    CHECK_INT(json_array_size(all), 1);
    config = json_object_get(json_array_get(all, 0), "config");
    CHECK_STR(json_text(config, "type"), "standard");
    CHECK_INT(json_int(config, "concurrency"), 5);
    CHECK_INT(json_int(config, "max_retries"), 1);
    CHECK_INT(json_int(config, "backoff_ms"), 1000);
    json_decref(all);
    CHECK_INT(enqueue("work", "fail", json_null(), NULL), 0);
    settle(); /* once is enough */
    CHECK_INT(asked_of("fail"), 1);
    all = iii_dead_letters(t, "work", 0, 10, &me->caller);
    CHECK_INT(json_array_size(all), 1);
    json_decref(all);
    down();
}

#define GROUPED "{\"type\": \"fifo\", \"message_group_field\": \"group\", \"backoff_ms\": 1"

TEST(groups_of_a_fifo_are_each_in_order)
{
    json_t *yes = json_true();

    up();
    define("work", GROUPED "}");
    CHECK_INT(enqueue_in("a", 1, "hold"), 0);
    CHECK_INT(enqueue_in("a", 2, "hold"), 0);
    CHECK_INT(enqueue_in("a", 3, "hold"), 0);
    CHECK_INT(enqueue_in("b", 4, "hold"), 0);
    CHECK_INT(enqueue("work", "hold", json_pack("{s:i}", "n", 5), NULL), 0); /* in no group: */
    CHECK_INT(enqueue("work", "hold", json_integer(6), NULL), 0);            /* in one group */
    CHECK_INT(n_of("hold", 1), 1);
    CHECK_INT(n_of("hold", 2), 4);
    CHECK_INT(n_of("hold", 3), 5);
    CHECK_INT(asked_of("hold"), 3);
    answer_held(yes, NULL, 1);
    CHECK_INT(n_of("hold", 4), 2);
    answer_held(yes, NULL, 2); /* 4, 5 */
    CHECK_INT(json_integer_value(await("hold", 5)->data), 6);
    CHECK_INT(asked_of("hold"), 5);
    answer_held(yes, NULL, 2); /* 2, 6 */
    CHECK_INT(n_of("hold", 6), 3);
    CHECK_INT(enqueue_in("a", 7, "hold"), 0); /* still waits when all of it ends */
    CHECK_INT(enqueue_in("a", 8, "hold"), 0);
    down();
}

TEST(so_many_groups_as_may_be_run_at_once)
{
    up();
    define("work", GROUPED ", \"concurrency\": 2}");
    CHECK_INT(enqueue_in("a", 1, "hold"), 0);
    CHECK_INT(enqueue_in("b", 2, "hold"), 0);
    CHECK_INT(enqueue_in("c", 3, "hold"), 0);
    CHECK_INT(enqueue("other", "ok", json_null(), NULL), 0);
    (void)await("hold", 2);
    (void)await("ok", 1);
    CHECK_INT(asked_of("hold"), 2);
    answer_held(json_true(), NULL, 1);
    CHECK_INT(n_of("hold", 3), 3);
    down();
}

TEST(a_call_that_fails_holds_up_its_group_and_no_other)
{
    json_t *dead;

    up();
    define("work", GROUPED ", \"concurrency\": 1}");
    CHECK_INT(enqueue_in("a", 1, "twice"), 0);
    CHECK_INT(enqueue_in("a", 2, "twice"), 0);
    CHECK_INT(enqueue_in("b", 3, "ok"), 0);
    (void)await("ok", 1);
    for (unsigned i = 1; i <= 3; i++)
        CHECK_INT(n_of("twice", i), 1);
    CHECK_INT(n_of("twice", 4), 2);
    CHECK_INT(enqueue_in("a", 4, "fail"), 0);
    CHECK_INT(enqueue_in("a", 5, "good"), 0);
    CHECK_INT(n_of("good", 1), 5); /* behind one that is dead */
    CHECK_INT(asked_of("fail"), 3);
    settle();
    CHECK_INT(iii_dead_redrive(t, "work", NULL, &me->caller), 1);
    (void)await("fail", 6);
    settle();
    dead = iii_dead_letters(t, "work", 0, 10, &me->caller);
    CHECK_INT(json_array_size(dead), 1);
    json_decref(dead);
    down();
}

TEST(what_a_queue_is_not_given_is_refused)
{
    static const char *const bad[] = {"[]",
                                      "1",
                                      "{\"type\": \"lifo\"}",
                                      "{\"concurrency\": -1}",
                                      "{\"concurrency\": 1e9}",
                                      "{\"max_retries\": \"3\"}",
                                      "{\"backoff_ms\": 3600001}",
                                      "{\"message_group_field\": 1}"};
    struct err err = {0};

    up();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (define_as(&me->caller, "work", bad[i], &err) == 0)
            TAP_FAIL("%s was taken", bad[i]);
        CHECK_INT(err.kind, ERR_INVALID);
    }
    CHECK_INT(define_as(&me->caller, "", "{}", &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    CHECK_INT(t->n_defined, 0);
    down();
}

TEST(queues_that_are_defined_are_bounded_and_ones_own)
{
    struct caller weak = {.name = "weak", .scopes = 1u << SCOPE_EXEC};
    struct err err = {0};
    char name[32];
    int n = 0;

    up();
    do
        (void)snprintf(name, sizeof(name), "q%d", n);
    while (define_as(&me->caller, name, "{}", &err) == 0 && ++n < 1000);
    CHECK_INT(n, DEFINED_MAX / 2);
    CHECK_INT(err.kind, ERR_LIMIT);
    define("q0", "{\"concurrency\": 1}"); /* one that is there may be changed */
    CHECK_INT(define_as(&weak, "q0", "{}", &err), -1);
    CHECK_INT(err.kind, ERR_FORBIDDEN);
    CHECK_INT(define_as(&weak, "its own", "{}", &err), 0);
    CHECK_INT(define_as(&weak, "its own", "{\"concurrency\": 3}", &err), 0);
    CHECK_INT(define_as(&me->caller, "its own", "{}", &err), 0);
    CHECK_INT(enqueue("not defined", "ok", json_null(), NULL), 0); /* they are not in the way */
    (void)await("ok", 1);
    settle();
    CHECK_INT(t->n_queues, 0);
    CHECK_INT(t->n_defined, DEFINED_MAX / 2 + 1);
    down();
}

/* ---- topics ---- */

TEST(what_is_published_goes_to_all_who_are_bound_to_the_topic)
{
    up();
    bind_it("a", "subscribe", "ok", "{\"topic\": \"orders\"}");
    bind_it("b", "durable:subscriber", "ok2", "{\"queue\": \"orders\"}");
    bind_it("c", "queue", "ok2", "{\"topic\": \"orders\"}"); /* the same function: once */
    bind_it("d", "queue", "ok3", "{\"topic\": \"others\"}");
    publish("orders", "{\"id\": 1}");
    CHECK_INT(json_int(await("ok", 1)->data, "id"), 1);
    CHECK_INT(json_int(await("ok2", 1)->data, "id"), 1);
    settle();
    CHECK_INT(asked_of("ok"), 1);
    CHECK_INT(asked_of("ok2"), 1);
    CHECK_INT(asked_of("ok3"), 0);
    iii_trigger_unbind(t, "c"); /* the other stays */
    publish("orders", "2");
    CHECK_INT(json_integer_value(await("ok2", 2)->data), 2);
    down();
}

TEST(what_waits_for_one_is_out_of_anothers_reach)
{
    static const struct caller other = {.face = "iii", .name = "other", .scopes = SCOPES_ALL};
    struct iii_asker *they, *again;
    struct err err = {0};

    up();
    they = iii_asker_new(&other, NULL, "default");
    again = iii_asker_new(&me->caller, NULL, "default"); /* another connection of mine */
    bind_it("a", "queue", "hold", "{\"topic\": \"t\", \"concurrency\": 1, \"max_retries\": 1}");
    publish("t", "1");
    (void)await("hold", 1);
    publish("t", "2"); /* which waits */
    CHECK_INT(bind_as(they, "b", "queue", "hold",
                      "{\"topic\": \"t\", \"condition_function_id\": \"no\"}", &err),
              0);
    publish("t", "3");
    CHECK_INT(json_integer_value(await("no", 1)->data), 3); /* what came when they were there */
    iii_trigger_unbind(t, "a");
    (void)bind_as(again, "c", "queue", "hold", "{\"topic\": \"t\", \"concurrency\": 9}", &err);
    for (unsigned i = 2; i <= 3; i++) {
        const struct asked *a = await("hold", i);

        CHECK_INT(json_integer_value(a->data), i);
        CHECK_STR(a->who, "me");
        CHECK_STR(json_text(a->metadata, "by"), "c");
    }
    CHECK_INT(asked_of("no"), 1);
    iii_trigger_unbind(t, "b");
    iii_trigger_unbind(t, "c");
    iii_asker_unref(they);
    iii_asker_unref(again);
    down();
}

TEST(dead_letters_go_back_to_who_bound_the_function)
{
    static const struct caller other = {.face = "iii", .name = "other", .scopes = SCOPES_ALL};
    struct iii_asker *they;
    struct err err = {0};

    up();
    they = iii_asker_new(&other, NULL, "default");
    bind_it("a", "queue", "fail", "{\"topic\": \"t\", \"max_retries\": 1}");
    publish("t", "1");
    (void)await("fail", 1);
    settle();
    iii_trigger_unbind(t, "a");
    CHECK_INT(bind_as(they, "b", "queue", "fail", "{\"topic\": \"t\"}", &err), 0);
    CHECK_INT(iii_dead_redrive(t, "t", NULL, &other), 0); /* who had it is not there */
    bind_it("a", "queue", "fail", "{\"topic\": \"t\", \"max_retries\": 1}");
    CHECK_INT(iii_dead_redrive(t, "t", NULL, &other), 1);
    CHECK_STR(await("fail", 2)->who, "me");
    settle();
    iii_trigger_unbind(t, "b");
    iii_asker_unref(they);
    down();
}

TEST(who_may_not_call_functions_binds_none)
{
    static const struct caller writer = {
        .face = "iii", .name = "writer", .scopes = 1u << SCOPE_NONE | 1u << SCOPE_WRITE};
    struct iii_asker *they;
    struct err err = {0};

    up();
    they = iii_asker_new(&writer, NULL, "default");
    CHECK_INT(bind_as(they, "a", "queue", "ok", "{\"topic\": \"t\"}", &err), -1);
    CHECK_INT(err.kind, ERR_FORBIDDEN);
    CHECK_STR(err.code, "scope_missing");
    CHECK_INT(bind_as(they, "a", "queue", "sandbox::exec", "{\"topic\": \"t\"}", &err), -1);
    CHECK_INT(err.kind, ERR_FORBIDDEN);
    CHECK_INT(bind_as(they, "a", "queue", "sandbox::create",
                      "{\"topic\": \"t\", \"condition_function_id\": \"ok\"}", &err),
              -1);
    CHECK_INT(err.kind, ERR_FORBIDDEN);
    CHECK_INT(bind_as(they, "a", "queue", "sandbox::create", "{\"topic\": \"t\"}", &err), 0);
    CHECK_INT(t->n, 1);
    iii_trigger_unbind(t, "a");
    iii_asker_unref(they);
    down();
}

TEST(a_subscriber_that_fails_is_tried_again_or_not_as_its_type_says)
{
    json_t *dead;

    up();
    bind_it("a", "durable:subscriber", "twice", "{\"topic\": \"t\", \"backoff_ms\": 1}");
    bind_it("b", "subscribe", "fail", "{\"topic\": \"t\"}");
    bind_it("c", "queue", "fail2",
            "{\"topic\": \"t\", \"queue_config\": {\"maxRetries\": 2, \"backoffDelayMs\": 1}}");
    publish("t", "1");
    (void)await("twice", 3);
    (void)await("fail2", 2);
    settle();
    CHECK_INT(asked_of("twice"), 3);
    CHECK_INT(asked_of("fail"), 1);
    CHECK_INT(asked_of("fail2"), 2);
    dead = iii_dead_letters(t, "t", 0, 10, &me->caller);
    CHECK_INT(json_array_size(dead), 1);
    CHECK_STR(json_text(json_array_get(dead, 0), "function_id"), "fail2");
    json_decref(dead);
    CHECK_INT(iii_dead_redrive(t, "t", NULL, &me->caller), 1);
    (void)await("fail2", 4);
    settle();
    CHECK_INT(iii_dead_discard(t, "t", NULL, &me->caller), 1);
    down();
}

static struct iii_asker *limited_new(struct rates *rates)
{
    static const struct caller limited = {.face = "iii", .name = "limited", .scopes = SCOPES_ALL};

    return iii_asker_new(&limited, rates, "default");
}

/* Jobs that are put off, and whose time has not come. */
static unsigned delayed(void)
{
    unsigned n = 0;

    triggers_lock(t);
    for (const struct job *j = t->delayed; j; j = j->next)
        n += j->at_ns > 0;
    triggers_unlock(t);
    return n;
}

static void await_delayed(unsigned n)
{
    while (delayed() != n)
        (void)sched_yield();
}

/* The time that jobs were put off for is over. */
static void let_pass(void)
{
    triggers_lock(t);
    for (struct job *j = t->delayed; j; j = j->next)
        j->at_ns = 0;
    t->delayed_due_ns = 1;
    triggers_unlock(t);
    triggers_wake(t);
}

TEST(calls_of_the_table_are_limited_as_those_by_message_are)
{
    struct rates *rates =
        rates_new(&(struct rates_config){.caller_rpm = 1, .caller_burst = 3, .exec_pm = 1});
    struct iii_asker *they = limited_new(rates);
    struct err err = {0};
    char id[16];

    up();
    for (int i = 0; i < 5; i++) {
        (void)snprintf(id, sizeof(id), "row%d", i);
        CHECK_INT(bind_as(they, id, "subscribe", "sandbox::create", "{\"topic\": \"t\"}", &err), 0);
        (void)snprintf(id, sizeof(id), "other%d", i);
        CHECK_INT(bind_as(they, id, "subscribe", "ok", "{\"topic\": \"t\"}", &err), 0);
    }
    publish("t", "1");
    (void)await("ok", 5); /* which others offer, and answer for */
    (void)await("sandbox::create", 3);
    await_delayed(2);
    let_pass(); /* and still he may not */
    await_delayed(2);
    CHECK_INT(asked_of("sandbox::create"), 3);
    triggers_lock(t);
    for (struct bound *b = t->all; b; b = b->next)
        b->speaker->rates = NULL; /* a minute later */
    triggers_unlock(t);
    let_pass();
    CHECK_INT(json_integer_value(await("sandbox::create", 5)->data), 1);
    settle();
    for (int i = 0; i < 5; i++) {
        (void)snprintf(id, sizeof(id), "row%d", i);
        iii_trigger_unbind(t, id);
        (void)snprintf(id, sizeof(id), "other%d", i);
        iii_trigger_unbind(t, id);
    }
    down();
    iii_asker_unref(they);
    rates_free(rates);
}

TEST(a_call_that_waits_for_its_rate_has_not_failed)
{
    struct rates *rates =
        rates_new(&(struct rates_config){.caller_rpm = 1, .caller_burst = 1, .exec_pm = 1});
    struct iii_asker *they = limited_new(rates);
    struct iii_question q = {.asker = they, .function_id = "sandbox::create"};
    char id[UUID_SIZE];
    struct err err = {0};

    up();
    CHECK_INT(iii_enqueue(t, "q", &q, id, &err), 0);
    (void)await("sandbox::create", 1);
    settle();
    CHECK_INT(iii_enqueue(t, "q", &q, id, &err), 0);
    for (int i = 0; i < 5; i++) { /* more often than it is tried when it fails */
        await_delayed(1);
        let_pass();
    }
    await_delayed(1);
    CHECK_INT(t->n_dead, 0);
    q.peer = (struct iii_peer *)they; /* a message, which was counted when it came */
    CHECK_INT(iii_enqueue(t, "q", &q, id, &err), 0);
    (void)await("sandbox::create", 2);
    CHECK_INT(delayed(), 1);
    down();
    iii_asker_unref(they);
    rates_free(rates);
}

TEST(dead_letters_are_told_within_a_bound)
{
    json_t *many = json_array(), *dead;

    up();
    bind_it("a", "queue", "fail", "{\"topic\": \"t\", \"max_retries\": 1}");
    for (int i = 0; i < 200000; i++)
        (void)json_array_append_new(many, json_array());
    CHECK_INT(iii_publish(t, "t", many, me, NULL), 0);
    json_decref(many);
    publish("t", "7");
    (void)await("fail", 2);
    settle();
    dead = iii_dead_letters(t, "t", 0, 10, &me->caller);
    CHECK_INT(json_array_size(dead), 2);
    CHECK(json_is_null(json_object_get(json_array_get(dead, 0), "payload")));
    CHECK_INT(json_int(json_array_get(dead, 0), "size_bytes"), 600001);
    CHECK_INT(json_int(json_array_get(dead, 1), "payload"), 7);
    json_decref(dead);
    down();
}

TEST(dead_letters_of_one_do_not_push_out_those_of_another)
{
    static const struct caller other = {.face = "iii", .name = "other", .scopes = SCOPES_ALL};
    struct iii_asker *they = iii_asker_new(&other, NULL, "default");
    json_t *data = json_true(), *dead;

    up();
    bind_it("a", "queue", "fail", "{\"topic\": \"t\", \"max_retries\": 1}");
    CHECK_INT(iii_publish(t, "t", data, they, NULL), 0);
    for (int i = 0; i < DEAD_MAX + 200; i++)
        publish("t", "7");
    (void)await("fail", DEAD_MAX + 201);
    settle();
    CHECK_INT(t->n_dead, DEAD_MAX);
    dead = iii_dead_letters(t, "t", 0, 1, &me->caller);
    CHECK(json_is_true(json_object_get(json_array_get(dead, 0), "payload")));
    json_decref(dead);
    iii_asker_unref(they);
    down();
}

TEST(a_fifo_goes_on_when_its_first_has_ended)
{
    up();
    bind_it("a", "queue", "twice",
            "{\"topic\": \"t\", \"backoff_ms\": 5, \"queue_config\": {\"type\": \"fifo\"}}");
    publish("t", "1");
    publish("t", "2");
    for (unsigned i = 1; i <= 3; i++)
        CHECK_INT(json_integer_value(await("twice", i)->data), 1);
    CHECK_INT(json_integer_value(await("twice", 4)->data), 2);
    down();
}

TEST(a_fifo_that_becomes_another_queue_meanwhile_goes_on)
{
    up();
    bind_it("a", "queue", "twice",
            "{\"topic\": \"t\", \"backoff_ms\": 100, \"queue_config\": {\"type\": \"fifo\"}}");
    publish("t", "1");
    (void)await("twice", 1);
    bind_it("a", "queue", "twice", "{\"topic\": \"t\", \"backoff_ms\": 5}");
    (void)await("twice", 3);
    publish("t", "2");
    CHECK_INT(json_integer_value(await("twice", 4)->data), 2);
    down();
}

TEST(a_topic_waits_for_a_function_that_comes_back)
{
    json_t *queues;

    up();
    bind_it("a", "durable:subscriber", "ok", "{\"topic\": \"t\"}");
    iii_trigger_unbind(t, "a");
    publish("t", "1"); /* nobody had it: it is dropped */
    bind_it("a", "durable:subscriber", "hold", "{\"topic\": \"t\", \"concurrency\": 1}");
    publish("t", "2");
    (void)await("hold", 1);
    publish("t", "3");
    iii_trigger_unbind(t, "a");
    publish("t", "4");
    queues = iii_queues(t);
    CHECK_INT(json_array_size(queues), 1);
    CHECK_INT(json_int(json_array_get(queues, 0), "depth"), 3);
    CHECK_INT(json_int(json_array_get(queues, 0), "subscriber_count"), 0);
    json_decref(queues);
    bind_it("a2", "durable:subscriber", "hold", "{\"topic\": \"t\", \"concurrency\": 9}");
    CHECK_INT(json_integer_value(await("hold", 2)->data), 3);
    CHECK_INT(json_integer_value(await("hold", 3)->data), 4);
    CHECK_INT(asked_of("ok"), 0);
    iii_trigger_unbind(t, "a2");
    triggers_lock(t);
    (void)lanes_tick(t, mono_ns() + LANE_ALONE_NS + 1); /* but not for ever */
    CHECK(!t->lanes);
    triggers_unlock(t);
    CHECK_INT(t->n_jobs, 0);
    down();
}

TEST(a_condition_that_fails_counts_as_the_function)
{
    up();
    bind_it("a", "queue", "ok",
            "{\"topic\": \"t\", \"backoff_ms\": 1, \"condition_function_id\": \"fail\"}");
    bind_it("b", "queue", "twice",
            "{\"topic\": \"t\", \"backoff_ms\": 1, \"condition_function_id\": \"yes\"}");
    publish("t", "1");
    (void)await("fail", 3);
    (void)await("twice", 3);
    settle();
    CHECK_INT(asked_of("fail"), 3);
    CHECK_INT(asked_of("yes"), 3);
    CHECK_INT(asked_of("ok"), 0);
    CHECK_INT(t->n_dead, 1);
    down();
}

TEST(a_function_that_never_answers_is_given_up)
{
    up();
    bind_it("a", "queue", "hold", "{\"topic\": \"t\", \"max_retries\": 1}");
    publish("t", "1");
    (void)await("hold", 1);
    triggers_lock(t);
    (void)lanes_tick(t, mono_ns() + JOB_LIMIT_NS + 1);
    CHECK_INT(t->n_dead, 1);
    CHECK(!t->running);
    triggers_unlock(t);
    down(); /* where it answers after all */
}

TEST(topics_are_to_be_named)
{
    up();
    check_refused("subscribe", "{}", ERR_INVALID, "topic is required");
    check_refused("queue", "{\"topic\": 1}", ERR_INVALID, "topic");
    check_refused("queue", "{\"topic\": \"t\", \"max_retries\": -1}", ERR_INVALID, "max_retries");
    check_refused("queue", "{\"topic\": \"t\", \"queue_config\": {\"type\": \"lifo\"}}",
                  ERR_INVALID, "type");
    CHECK_INT(iii_publish(t, "", NULL, me, NULL), -1);
    publish("nobody", "1");
    down();
}

/* ---- the hub's own ---- */

TEST(changes_of_functions_and_workers_are_told)
{
    const struct asked *a;

    up();
    bind_it("f", "engine::functions-available", "ok", "{}");
    bind_it("w", "engine::workers-available", "ok2", NULL);
    for (int i = 0; i < 100; i++)
        iii_triggers_changed(t, NULL, NULL);
    iii_triggers_changed(t, "worker_connected", "some-id");
    a = await("ok", 1);
    CHECK_STR(json_text(a->data, "event"), "functions_changed");
    CHECK_INT(json_array_size(json_object_get(a->data, "functions")), 1);
    a = await("ok2", 1);
    CHECK_STR(json_text(a->data, "event"), "worker_connected");
    CHECK_STR(json_text(a->data, "worker_id"), "some-id");
    settle();
    CHECK_INT(asked_of("ok"), 1); /* for all of them */
    iii_triggers_changed(t, NULL, NULL);
    (void)await("ok", 2);
    CHECK_INT(asked_of("ok2"), 1);
    down();
}

/* ---- http ---- */

static struct http_server *http;
static int port;
static struct caller caller = {.face = "rest", .name = "anyone", .scopes = SCOPES_ALL};

static void handle(struct http_req *req, void *arg)
{
    (void)arg;
    if (!iii_handle_http(req, &caller, &hub))
        http_reply(req, 404, "text/plain", "none of ours", 12);
}

static void http_up(unsigned workers)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    up();
    limits.workers_max = workers;
    CHECK_INT(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    CHECK_INT(listen(fd, 512), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    port = ntohs(a.sin_port);
    http = http_server_new(&limits, handle, NULL);
    CHECK_INT(http_server_listen(http, fd, true, NULL), 0);
    CHECK_INT(http_server_start(http, NULL), 0);
}

static void http_down(void)
{
    http_server_stop(http, 2000);
    http_server_free(http);
    down();
}

static int dial(const char *first, const char *more, const void *body, size_t len)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char head[16384];
    int n = snprintf(head, sizeof(head),
                     "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n",
                     first, len, more);

    CHECK_INT(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    CHECK_INT(send(fd, head, (size_t)n, MSG_NOSIGNAL), n);
    for (size_t at = 0; at < len;) {
        ssize_t sent = send(fd, (const char *)body + at, len - at, MSG_NOSIGNAL);

        if (sent <= 0)
            break;
        at += (size_t)sent;
    }
    return fd;
}

/* All that is answered; free it. */
static char *hear(int fd)
{
    size_t len = 0, room = 1 << 16;
    char *text = xmalloc(room + 1);
    ssize_t n;

    while ((n = read(fd, text + len, room - len)) > 0) {
        len += (size_t)n;
        if (len == room)
            text = xrealloc(text, (room *= 2) + 1);
    }
    text[len] = '\0';
    (void)close(fd);
    return text;
}

static char *talk(const char *first, const char *more, const char *body)
{
    return hear(dial(first, more, body, strlen(body)));
}

static void check_has(const char *text, const char *word)
{
    if (!strstr(text, word))
        TAP_FAIL("no \"%s\" in: %.600s", word, text);
}

static const char *body_of(const char *text)
{
    const char *body = strstr(text, "\r\n\r\n");

    CHECK(body);
    return body + 4;
}

/* The function that is bound to GET /x answers that; what the client sees. */
static char *given(const char *result)
{
    json_decref(gives);
    gives = json_loads(result, JSON_DECODE_ANY, NULL);
    CHECK(gives);
    return talk("GET /x", "", "");
}

TEST(a_request_becomes_a_call_and_its_result_the_answer)
{
    auto_free char *text = NULL;
    const json_t *d;

    http_up(4);
    bind_it("x", "http", "gives",
            "{\"api_path\": \"/users/:id/posts/:post\", \"http_method\": \"post\"}");
    gives = json_loads("{\"status_code\": 201, \"headers\": {\"X-A\": \"one\", \"Set-Cookie\": "
                       "[\"a=1\", \"b=2\"]}, \"body\": {\"made\": true}}",
                       0, NULL);
    text = talk("POST /users/7%2F8/posts/last?a=1&b=x%20y+z&a=2&c",
                "Content-Type: application/json\r\nX-Thing: Some\r\n", "{\"title\": \"t\"}");
    check_has(text, "HTTP/1.1 201 ");
    check_has(text, "X-A: one\r\n");
    check_has(text, "Set-Cookie: a=1\r\n");
    check_has(text, "Set-Cookie: b=2\r\n");
    check_has(text, "Content-Type: application/json\r\n");
    CHECK_STR(body_of(text), "{\"made\":true}");
    d = await("gives", 1)->data;
    CHECK_STR(json_text(d, "path"), "/users/:id/posts/:post");
    CHECK_STR(json_text(d, "method"), "POST");
    CHECK_STR(json_text(json_object_get(d, "path_params"), "id"), "7%2F8");
    CHECK_STR(json_text(json_object_get(d, "path_params"), "post"), "last");
    CHECK_STR(json_text(json_object_get(d, "query_params"), "a"), "2");
    CHECK_STR(json_text(json_object_get(d, "query_params"), "b"), "x y z");
    CHECK_STR(json_text(json_object_get(d, "query_params"), "c"), "");
    CHECK_STR(json_text(json_object_get(d, "headers"), "x-thing"), "Some");
    CHECK_STR(json_text(json_object_get(d, "body"), "title"), "t");
    CHECK_STR(json_text(json_object_get(d, "trigger"), "type"), "http");
    CHECK_STR(json_text(json_object_get(d, "trigger"), "method"), "POST");
    CHECK_STR(json_text(await("gives", 1)->metadata, "by"), "x");
    http_down();
}

TEST(bodies_are_json_or_text_or_base64)
{
    int fd;

    http_up(4);
    bind_it("x", "http", "ok", "{\"api_path\": \"x\", \"http_method\": \"PUT\"}");
    free(talk("PUT /x", "Content-Type: application/json\r\n", "[1, "));
    CHECK(json_is_null(json_object_get(await("ok", 1)->data, "body")));
    free(talk("PUT /x", "Content-Type: text/plain\r\n", "h\xc3\xa9"));
    CHECK_STR(json_text(await("ok", 2)->data, "body"), "h\xc3\xa9");
    fd = dial("PUT /x", "Content-Type: image/png\r\n", "\xff\x00\xfe", 3);
    free(hear(fd));
    CHECK_STR(json_text(await("ok", 3)->data, "body"), "/wD+");
    CHECK_STR(json_text(await("ok", 3)->data, "body_encoding"), "base64");
    free(talk("PUT /x", "", ""));
    CHECK(json_is_null(json_object_get(await("ok", 4)->data, "body")));
    http_down();
}

TEST(a_long_query_counts_as_the_memory_that_it_becomes)
{
    char first[8192] = "GET /x?";
    json_t *yes = json_true();
    int fd;

    http_up(4);
    bind_it("x", "http", "ok", "{\"api_path\": \"/x\", \"condition_function_id\": \"hold\"}");
    for (size_t i = strlen(first); i + 2 < sizeof(first); i += 2)
        memcpy(first + i, "a&", 3);
    fd = dial(first, "", "", 0);
    (void)await("hold", 1);
    CHECK(memory.used > 500000);
    answer_held(yes, NULL, UINT32_MAX);
    free(hear(fd));
    http_down();
}

TEST(json_of_more_than_a_mebibyte_is_refused)
{
    auto_free char *big = xcalloc(1, (1 << 20) + 1), *text = NULL;

    http_up(4);
    bind_it("x", "http", "ok", "{\"api_path\": \"/x\", \"http_method\": \"POST\"}");
    text = hear(dial("POST /x", "Content-Type: application/json\r\n", big, (1 << 20) + 1));
    check_has(text, "HTTP/1.1 413 ");
    check_has(text, "{\"error\":{\"code\":");
    CHECK_INT(asked_of("ok"), 0);
    http_down();
}

TEST(answers_are_read_as_they_are_there)
{
    char *text;

    http_up(4);
    bind_it("x", "http", "gives", "{\"api_path\": \"/x\"}");
    text = given("{\"headers\": [\"Content-Type: text/xml\", 5, \"none\", \"X-B : two\"], "
                 "\"body\": \"<a/>\"}");
    check_has(text, "HTTP/1.1 200 ");
    check_has(text, "Content-Type: text/xml\r\n");
    check_has(text, "X-B: two\r\n");
    CHECK_STR(body_of(text), "<a/>");
    free(text);
    text = given("{\"body\": \"plain\"}");
    check_has(text, "Content-Type: application/json\r\n");
    CHECK_STR(body_of(text), "\"plain\"");
    free(text);
    text = given("{\"status_code\": 404}");
    check_has(text, "HTTP/1.1 404 ");
    CHECK_STR(body_of(text), "{}");
    free(text);
    text = given("null");
    check_has(text, "HTTP/1.1 200 ");
    CHECK_STR(body_of(text), "{}");
    free(text);
    text = given("{\"status_code\": 99, \"headers\": {\"content-type\": \"text/plain\"}, \"body\": "
                 "[1, 2]}");
    check_has(text, "HTTP/1.1 200 ");
    CHECK_STR(body_of(text), "[1,2]");
    free(text);
    text = given("{\"status_code\": 204}");
    check_has(text, "HTTP/1.1 204 ");
    CHECK_STR(body_of(text), "");
    free(text);
    text = given("{\"status\": 202, \"body\": null}"); /* as old SDKs have it */
    check_has(text, "HTTP/1.1 202 ");
    CHECK_STR(body_of(text), "null");
    free(text);
    http_down();
}

TEST(headers_of_a_function_do_not_reach_into_the_answer)
{
    char *text;

    http_up(4);
    bind_it("x", "http", "gives", "{\"api_path\": \"/x\"}");
    text = given("{\"headers\": {\"X-A\": \"1\\r\\nX-Evil: 1\", \"X B\": \"1\", \"\": \"1\", "
                 "\"Content-Length\": \"999\", \"Transfer-Encoding\": \"chunked\", \"Connection\": "
                 "\"keep-alive\", \"Access-Control-Allow-Origin\": \"*\", \"X-C\": \"fine\"}}");
    check_has(text, "X-C: fine\r\n");
    CHECK(!strstr(text, "Evil") && !strstr(text, "999") && !strstr(text, "chunked") &&
          !strstr(text, "keep-alive") && !strstr(text, "Access-Control") && !strstr(text, "X B"));
    free(text);
    json_decref(gives);
    gives = json_object();
    for (int i = 0; i < 1000; i++) { /* more than there is room for */
        char name[32];

        (void)snprintf(name, sizeof(name), "X-%d", i);
        (void)json_object_set_new(gives, name, json_string("some value that takes room"));
    }
    gives = json_pack("{s:o}", "headers", gives);
    text = talk("GET /x", "", "");
    check_has(text, "HTTP/1.1 200 ");
    CHECK(strlen(text) < 10000);
    free(text);
    http_down();
}

TEST(long_answers_go_through_and_too_long_ones_do_not)
{
    size_t len = 5 << 20;
    auto_free char *big = xmalloc(len + 1);
    char *text;

    http_up(4);
    memset(big, 'a', len);
    big[len] = '\0';
    bind_it("x", "http", "gives", "{\"api_path\": \"/x\"}");
    gives = json_pack("{s:[s], s:s}", "headers", "Content-Type: text/plain", "body", big);
    text = talk("GET /x", "", "");
    CHECK_INT(strlen(body_of(text)), len);
    free(text);
    hub.config.memory = NULL;
    json_decref(gives);
    gives = json_pack("{s:[s,s]}", "body", big, big);
    text = talk("GET /x", "", "");
    check_has(text, "HTTP/1.1 500 ");
    check_has(text, "INTERNAL_ERROR");
    free(text);
    http_down();
}

TEST(errors_are_told_in_an_envelope)
{
    char *text;

    http_up(4);
    bind_it("a", "http", "fail", "{\"api_path\": \"/fail\"}");
    bind_it("b", "http", "ok", "{\"api_path\": \"/no\", \"condition_function_id\": \"no\"}");
    text = talk("GET /fail", "", "");
    check_has(text, "HTTP/1.1 500 ");
    check_has(text, "\"code\":\"invocation_failed\"");
    check_has(text, "\"message\":\"it broke\"");
    check_has(text, "\"error_id\"");
    free(text);
    text = talk("GET /no", "", "");
    check_has(text, "HTTP/1.1 422 ");
    check_has(text, "\"skipped\":true");
    CHECK_INT(asked_of("ok"), 0);
    free(text);
    text = talk("DELETE /no", "", "");
    check_has(text, "HTTP/1.1 405 ");
    check_has(text, "Allow: GET\r\n");
    free(text);
    text = talk("GET /elsewhere", "", "");
    CHECK_STR(body_of(text), "none of ours");
    free(text);
    http_down();
}

TEST(middleware_runs_before_and_may_answer)
{
    char *text;

    http_up(4);
    bind_it("a", "http", "ok",
            "{\"api_path\": \"/a/:id\", \"condition_function_id\": \"yes\", "
            "\"middleware_function_ids\": [\"first\", \"second\"]}");
    bind_it("b", "http", "never",
            "{\"api_path\": \"/b\", \"middleware_function_ids\": [\"gives\", \"second\"]}");
    text = talk("GET /a/5", "", "");
    check_has(text, "HTTP/1.1 200 ");
    free(text);
    CHECK_INT(asked_of("yes") + asked_of("first") + asked_of("second") + asked_of("ok"), 4);
    CHECK_STR(json_text(await("first", 1)->data, "phase"), "preHandler");
    CHECK(!json_object_get(json_object_get(await("first", 1)->data, "request"), "body"));
    gives = json_loads("{\"action\": \"respond\", \"response\": {\"status_code\": 403}}", 0, NULL);
    text = talk("GET /b", "", "");
    check_has(text, "HTTP/1.1 403 ");
    free(text);
    CHECK_INT(asked_of("never"), 0);
    CHECK_INT(asked_of("second"), 1);
    http_down();
}

TEST(a_function_that_does_not_answer_is_a_504)
{
    char *text;

    http_up(4);
    t->http_ns = 50000000;
    bind_it("x", "http", "hold", "{\"api_path\": \"/x\"}");
    text = talk("GET /x", "", "");
    check_has(text, "HTTP/1.1 504 ");
    check_has(text, "TIMEOUT");
    free(text);
    http_down(); /* where it answers after all */
}

TEST(requests_that_wait_hold_no_thread)
{
    json_t *result = json_pack("{s:s}", "body", "late");
    int fds[100];

    http_up(2);
    bind_it("x", "http", "hold", "{\"api_path\": \"/x\"}");
    for (int i = 0; i < 100; i++)
        fds[i] = dial("GET /x", "", "", 0);
    (void)await("hold", 100);
    answer_held(result, NULL, UINT32_MAX);
    for (int i = 0; i < 100; i++) {
        char *text = hear(fds[i]);

        CHECK_STR(body_of(text), "\"late\"");
        free(text);
    }
    json_decref(result);
    http_down();
}

TEST(a_function_that_never_answers_does_not_get_all_calls)
{
    json_t *yes = json_true();
    char *text;

    http_up(2);
    t->http_ns = 1000000;
    bind_it("x", "http", "hold", "{\"api_path\": \"/x\"}");
    bind_it("y", "http", "ok", "{\"api_path\": \"/y\"}");
    for (int i = 0; i < 1024; i++) {
        text = talk("GET /x", "", "");
        check_has(text, "HTTP/1.1 504 ");
        free(text);
    }
    text = talk("GET /x", "", "");
    check_has(text, "HTTP/1.1 503 ");
    free(text);
    CHECK_INT(asked_of("hold"), 1024);
    t->http_ns = 10 * 1000000000ll;
    text = talk("GET /y", "", "");
    check_has(text, "HTTP/1.1 200 ");
    free(text);
    answer_held(yes, NULL, 1);
    t->http_ns = 1000000;
    text = talk("GET /x", "", "");
    check_has(text, "HTTP/1.1 504 ");
    free(text);
    http_down();
}

TEST(a_client_that_goes_leaves_nothing_behind)
{
    json_t *result = json_object();
    struct bound *b;
    int fds[20];

    http_up(4);
    bind_it("x", "http", "hold", "{\"api_path\": \"/x\"}");
    b = bound_ref(t->all);
    for (int i = 0; i < 20; i++)
        fds[i] = dial("GET /x", "", "", 0);
    (void)await("hold", 20);
    for (int i = 0; i < 20; i++)
        (void)close(fds[i]);
    while (http_server_connections(http) > 0)
        usleep(1000);
    answer_held(result, NULL, 10); /* the others when all is over */
    while (atomic_load(&b->refs) > 2 + 10)
        usleep(1000);
    bound_unref(b);
    json_decref(result);
    http_down();
}

TEST(paths_have_one_owner_and_words_come_before_parameters)
{
    struct err err = {0};
    char *text;

    http_up(4);
    (void)snprintf(me->worker_id, sizeof(me->worker_id), "the-worker");
    bind_it("a", "http", "gives", "{\"api_path\": \"/users/:id\"}");
    bind_it("b", "http", "ok", "{\"api_path\": \"/users/me\"}");
    CHECK_INT(bind_as(me, "c", "http", "ok", "{\"api_path\": \"users/:name\"}", &err), -1);
    CHECK_INT(err.kind, ERR_CONFLICT);
    check_has(err.text, "gives");
    check_has(err.text, "the-worker");
    bind_it("c", "http", "ok", "{\"api_path\": \"/users/:name\", \"http_method\": \"POST\"}");
    bind_it("a", "http", "ok2", "{\"api_path\": \"/users/:id\"}"); /* the same binding, anew */
    text = talk("GET /users/me", "", "");
    free(text);
    CHECK_INT(asked_of("ok"), 1);
    text = talk("GET /users/you", "", "");
    free(text);
    CHECK_INT(asked_of("ok2"), 1);
    text = talk("GET /users/", "", "");
    CHECK_STR(body_of(text), "none of ours");
    free(text);
    text = talk("GET /users/a/b", "", "");
    CHECK_STR(body_of(text), "none of ours");
    free(text);
    iii_trigger_unbind(t, "b");
    text = talk("GET /users/me", "", "");
    free(text);
    CHECK_INT(asked_of("ok2"), 2);
    CHECK_INT(asked_of("gives"), 0);
    http_down();
}

TEST(a_head_is_a_get_without_a_body)
{
    char *text;

    http_up(4);
    bind_it("x", "http", "gives", "{\"api_path\": \"/x\"}");
    bind_it("y", "http", "ok", "{\"api_path\": \"/y\", \"http_method\": \"HEAD\"}");
    bind_it("y2", "http", "gives", "{\"api_path\": \"/y\"}");
    gives = json_pack("{s:s}", "body", "text");
    text = talk("HEAD /x", "", "");
    check_has(text, "HTTP/1.1 200 ");
    check_has(text, "Content-Length: 6\r\n");
    CHECK_STR(body_of(text), "");
    free(text);
    CHECK_STR(json_text(await("gives", 1)->data, "method"), "GET");
    free(talk("HEAD /y", "", ""));
    CHECK_STR(json_text(await("ok", 1)->data, "method"), "HEAD");
    CHECK_INT(asked_of("gives"), 1);
    http_down();
}

TEST(paths_of_the_daemon_and_bad_ones_are_refused)
{
    static const char *const own[] = {"/sandbox", "/sandbox/x/:y", "/mcp",          "/docs",
                                      "/health",  "/openapi.json", "/ws/channels/1"};
    static const char *const bad[] = {"/a b", "/a?b", "/{id}", "/*all", "/:", "/:a/:a", "/a#b"};

    up();
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
        auto_free char *config = xasprintf("{\"api_path\": \"%s\"}", own[i]);

        check_refused("http", config, ERR_CONFLICT, "daemon's own");
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        auto_free char *config = xasprintf("{\"api_path\": \"%s\"}", bad[i]);

        check_refused("http", config, ERR_INVALID, "api_path");
    }
    check_refused("http", "{}", ERR_INVALID, "api_path is required");
    check_refused("http", "{\"api_path\": \"/x\", \"http_method\": \"BREW\"}", ERR_INVALID,
                  "http_method");
    check_refused("http", "{\"api_path\": \"/x\", \"middleware_function_ids\": [1]}", ERR_INVALID,
                  "middleware");
    bind_it("root", "http", "ok", "{\"api_path\": \"/\"}");
    bind_it("like", "http", "ok", "{\"api_path\": \"/sandboxes\"}");
    down();
}

TEST(a_token_of_the_daemon_is_not_shown_to_functions)
{
    http_up(4);
    bind_it("x", "http", "ok", "{\"api_path\": \"/x\"}");
    free(talk("GET /x", "Authorization: Bearer app\r\n", ""));
    CHECK_STR(json_text(json_object_get(await("ok", 1)->data, "headers"), "authorization"),
              "Bearer app");
    (void)snprintf(caller.name, sizeof(caller.name), "admin");
    free(talk("GET /x", "Authorization: Bearer daemon\r\n", ""));
    CHECK(!json_object_get(json_object_get(await("ok", 2)->data, "headers"), "authorization"));
    http_down();
}

TEST(who_may_not_call_functions_of_others_has_none_called)
{
    char *text;

    http_up(4);
    bind_it("x", "http", "ok", "{\"api_path\": \"/x\"}");
    caller.scopes = 1u << SCOPE_NONE | 1u << SCOPE_READ;
    text = talk("GET /x", "", "");
    check_has(text, "HTTP/1.1 403 ");
    check_has(text, "scope_missing");
    free(text);
    caller.scopes = SCOPES_ALL;
    (void)snprintf(caller.sandbox_id, sizeof(caller.sandbox_id), "sbx_1");
    text = talk("GET /x", "", "");
    check_has(text, "HTTP/1.1 403 ");
    free(text);
    CHECK_INT(asked_of("ok"), 0);
    http_down();
}

TEST(requests_take_of_the_rate_of_who_bound_the_path)
{
    struct rates *rates =
        rates_new(&(struct rates_config){.caller_rpm = 1, .caller_burst = 1, .exec_pm = 1});
    struct iii_asker *they = limited_new(rates);
    struct err err = {0};
    char *text;

    http_up(4);
    CHECK_INT(bind_as(they, "x", "http", "sandbox::list", "{\"api_path\": \"/x\"}", &err), 0);
    CHECK_INT(bind_as(they, "y", "http", "ok", "{\"api_path\": \"/y\"}", &err), 0);
    text = talk("GET /x", "", "");
    check_has(text, "HTTP/1.1 200 ");
    free(text);
    text = talk("GET /x", "", "");
    check_has(text, "HTTP/1.1 429 ");
    check_has(text, "rate_limited");
    check_has(text, "Retry-After: ");
    free(text);
    text = talk("GET /y", "", "");
    check_has(text, "HTTP/1.1 200 ");
    free(text);
    CHECK_INT(asked_of("sandbox::list"), 1);
    iii_trigger_unbind(t, "x");
    iii_trigger_unbind(t, "y");
    http_down();
    iii_asker_unref(they);
    rates_free(rates);
}

/* ---- http by channels ---- */

/* The function's end of a channel. */
struct far {
    struct channel_holder holder;
    struct iii_channel *channel;
    enum channel_side side;
    atomic_uint woken;
};

static void on_wake(struct channel_holder *h)
{
    atomic_fetch_add(&((struct far *)h)->woken, 1);
}

/* What the n-th call of the function was told of under that name. */
static const json_t *ref_of(const char *function_id, unsigned n, const char *name)
{
    const json_t *ref = json_object_get(await(function_id, n)->data, name);

    CHECK(pipe_is_ref(ref));
    return ref;
}

static void far_open(struct far *f, const char *function_id, unsigned n, const char *name)
{
    const json_t *ref = ref_of(function_id, n, name);

    f->holder.wake = on_wake;
    f->side = strcmp(json_text(ref, "direction"), "read") == 0 ? CHANNEL_READER : CHANNEL_WRITER;
    f->channel =
        channel_find(hub.channels, json_text(ref, "channel_id"), json_text(ref, "access_key"));
    CHECK(f->channel);
    CHECK(channel_claim(f->channel, f->side, &f->holder));
}

static void far_close(struct far *f)
{
    channel_leave(f->channel, f->side);
    channel_unref(f->channel);
}

/* 1 = it is in the channel, -1 = nobody reads it any more. */
static int far_put(struct far *f, bool is_text, const void *data, size_t len)
{
    int r;

    while ((r = channel_room(f->channel, false)) == 0)
        usleep(200);
    if (r > 0)
        channel_put(f->channel, is_text, data, len);
    return r;
}

static void far_say(struct far *f, const char *text)
{
    CHECK_INT(far_put(f, true, text, strlen(text)), 1);
}

static void far_write(struct far *f, const char *text)
{
    CHECK_INT(far_put(f, false, text, strlen(text)), 1);
}

/* The next item; free it. NULL = there is none any more. */
static struct channel_item *far_get(struct far *f)
{
    struct channel_item *i = NULL;
    int r;

    while ((r = channel_get(f->channel, &i)) == 0)
        usleep(200);
    if (r < 0)
        return NULL;
    channel_taken(f->channel, i->len);
    return i;
}

static void bind_hold(const char *method)
{
    auto_free char *config = xasprintf("{\"api_path\": \"/x\", \"http_method\": \"%s\"}", method);

    bind_it("x", "http", "hold", config);
}

/* Reads until that has come; all of it. Free it. */
static char *hear_until(int fd, const char *word)
{
    char *text = xcalloc(1, 1 << 16);
    size_t len = 0;

    while (!strstr(text, word)) {
        ssize_t n = read(fd, text + len, (1 << 16) - 1 - len);

        if (n <= 0)
            TAP_FAIL("it ended before \"%s\": %s", word, text);
        len += (size_t)n;
    }
    return text;
}

static void check_no_channels(void)
{
    while (iii_channels_count(hub.channels) > 0)
        usleep(200);
    CHECK_INT(iii_channels_held(hub.channels), 0);
}

#define STATUS_201 "{\"type\":\"set_status\",\"status_code\":201}"
#define HEADERS(h) "{\"type\":\"set_headers\",\"headers\":{" h "}}"

TEST(what_is_written_to_the_channel_is_the_answer_as_it_comes)
{
    auto_free char *first = NULL, *rest = NULL;
    struct far out = {0};
    int fd;

    http_up(4);
    bind_hold("GET");
    fd = dial("GET /x", "", "", 0);
    far_open(&out, "hold", 1, "response");
    far_say(&out, STATUS_201);
    far_say(&out, HEADERS("\"X-One\": \"1\", \"x-two\": \"2\""));
    far_say(&out, HEADERS("\"x-one\": \"3\", \"Bad\": \"a\\r\\nB: c\", \"n\": 4"));
    far_write(&out, "ab");
    first = hear_until(fd, "ab");
    check_has(first, "HTTP/1.1 201 ");
    check_has(first, "x-one: 3\r\n");
    check_has(first, "x-two: 2\r\n");
    check_has(first, "n: 4\r\n");
    check_has(first, "Transfer-Encoding: chunked\r\n");
    CHECK(!strstr(first, "B: c"));
    far_say(&out, "{\"type\":\"set_status\",\"status_code\":500}"); /* too late */
    far_write(&out, "cd");
    far_close(&out);
    rest = hear(fd);
    CHECK_STR(rest, "2\r\ncd\r\n0\r\n\r\n");
    check_no_channels();
    http_down();
}

TEST(a_head_that_was_said_is_sent_before_there_is_a_body)
{
    auto_free char *first = NULL, *rest = NULL;
    struct far out = {0};
    int fd;

    http_up(4);
    bind_hold("GET");
    fd = dial("GET /x", "", "", 0);
    far_open(&out, "hold", 1, "response");
    far_say(&out, STATUS_201);
    far_say(&out, HEADERS(""));
    first = hear_until(fd, "\r\n\r\n");
    check_has(first, "HTTP/1.1 201 ");
    far_close(&out);
    rest = hear(fd);
    CHECK_STR(rest, "0\r\n\r\n");
    http_down();
}

TEST(a_length_that_was_promised_is_kept_or_the_answer_is_broken)
{
    static const struct {
        const char *words, *body, *want, *end;
    } cases[] = {
        {HEADERS("\"Content-Length\": \"4\""), "abcd", "Content-Length: 4\r\n", "\r\n\r\nabcd"},
        {HEADERS("\"content-length\": 2"), "abcd", "Content-Length: 2\r\n", "\r\n\r\nab"},
        {HEADERS("\"content-length\": \"9\""), "abcd", "Content-Length: 9\r\n", "\r\n\r\nabcd"},
        {HEADERS("\"content-length\": \"-9\""), "abcd", "chunked", "4\r\nabcd\r\n0\r\n\r\n"},
        {HEADERS("\"x\": \"y\""), "", "Content-Length: 0\r\n", "\r\n\r\n"},
        {"{\"type\":\"set_status\",\"status_code\":204}", "abcd", "HTTP/1.1 204 ", "\r\n\r\n"},
        {"{\"type\":\"set_status\",\"status_code\":1000}", "abcd", "HTTP/1.1 200 ", "0\r\n\r\n"},
        {"no words", "abcd", "HTTP/1.1 200 ", "0\r\n\r\n"},
    };

    http_up(4);
    bind_hold("GET");
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        int fd = dial("GET /x", "", "", 0);
        auto_free char *text = NULL;
        struct far out = {0};

        far_open(&out, "hold", i + 1, "response");
        far_say(&out, cases[i].words);
        if (*cases[i].body)
            (void)far_put(&out, false, cases[i].body, strlen(cases[i].body));
        far_close(&out);
        text = hear(fd);
        check_has(text, cases[i].want);
        CHECK_STR(text + strlen(text) - strlen(cases[i].end), cases[i].end);
    }
    check_no_channels();
    http_down();
}

TEST(an_error_after_the_head_breaks_the_answer_off)
{
    json_t *error = json_pack("{s:s, s:s}", "code", "invocation_failed", "message", "it broke");
    auto_free char *first = NULL, *rest = NULL;
    struct far out = {0};
    int fd;

    http_up(4);
    bind_hold("GET");
    fd = dial("GET /x", "", "", 0);
    far_open(&out, "hold", 1, "response");
    far_write(&out, "ab");
    first = hear_until(fd, "ab\r\n");
    answer_held(NULL, error, 1);
    rest = hear(fd);
    CHECK_STR(rest, "");
    CHECK_INT(far_put(&out, false, "cd", 2), -1);
    far_close(&out);
    check_no_channels();
    json_decref(error);
    http_down();
}

TEST(a_writer_that_is_lost_breaks_the_answer_off)
{
    auto_free char *first = NULL, *rest = NULL, *whole = NULL;
    struct far out = {0}, other = {0};
    int fd;

    http_up(4);
    bind_hold("GET");
    fd = dial("GET /x", "", "", 0);
    far_open(&out, "hold", 1, "response");
    far_write(&out, "ab");
    first = hear_until(fd, "ab\r\n");
    channel_lose(out.channel);
    channel_unref(out.channel);
    rest = hear(fd);
    CHECK_STR(rest, "");
    fd = dial("GET /x", "", "", 0);
    far_open(&other, "hold", 2, "response");
    far_say(&other, STATUS_201);
    channel_lose(other.channel);
    channel_unref(other.channel);
    whole = hear(fd);
    check_has(whole, "HTTP/1.1 500 ");
    check_no_channels();
    http_down();
}

TEST(who_closes_the_channel_with_nothing_said_answers_by_the_result)
{
    json_t *result = json_pack("{s:i, s:s}", "status_code", 418, "body", "by result");
    auto_free char *text = NULL;
    struct far out = {0};
    int fd;

    http_up(4);
    bind_hold("GET");
    fd = dial("GET /x", "", "", 0);
    far_open(&out, "hold", 1, "response");
    answer_held(result, NULL, 1);
    far_close(&out);
    text = hear(fd);
    check_has(text, "HTTP/1.1 418 ");
    check_has(text, "by result");
    json_decref(result);
    http_down();
}

TEST(who_has_come_to_write_answers_whatever_the_function_gives_back)
{
    json_t *result = json_pack("{s:i}", "status_code", 418);
    auto_free char *text = NULL;
    struct far out = {0};
    int fd;

    http_up(4);
    bind_hold("GET");
    fd = dial("GET /x", "", "", 0);
    far_open(&out, "hold", 1, "response");
    answer_held(result, NULL, 1);
    far_say(&out, STATUS_201);
    far_close(&out);
    text = hear(fd);
    check_has(text, "HTTP/1.1 201 ");
    json_decref(result);
    http_down();
}

TEST(a_function_that_gives_back_nothing_may_still_write)
{
    json_t *nothing = json_null();
    auto_free char *text = NULL, *without = NULL;
    struct far out = {0};
    int fd;

    http_up(4);
    bind_hold("GET");
    fd = dial("GET /x", "", "", 0);
    (void)await("hold", 1);
    answer_held(nothing, NULL, 1);
    far_open(&out, "hold", 1, "response");
    far_write(&out, "after all");
    far_close(&out);
    text = hear(fd);
    check_has(text, "after all");
    CHECK_INT(atomic_load(&t->all->streams), 1);

    iii_trigger_unbind(t, "x");
    gives = json_null();
    bind_it("x", "http", "gives", "{\"api_path\": \"/x\"}");
    without = talk("GET /x", "", ""); /* it waits a moment */
    check_has(without, "HTTP/1.1 200 ");
    CHECK_STR(body_of(without), "{}");
    CHECK_INT(atomic_load(&t->all->streams), -1);
    http_down();
}

TEST(a_writer_that_says_nothing_does_not_hold_the_request)
{
    auto_free char *text = NULL;
    struct far out = {0};
    int fd;

    http_up(4);
    t->http_ns = 50 * 1000000ll;
    bind_hold("GET");
    fd = dial("GET /x", "", "", 0);
    far_open(&out, "hold", 1, "response");
    text = hear(fd);
    check_has(text, "HTTP/1.1 504 ");
    CHECK_INT(far_put(&out, false, "x", 1), -1);
    far_close(&out);
    check_no_channels();
    http_down();
}

TEST(a_short_body_is_also_in_the_channel)
{
    auto_free char *big = xmalloc(1 << 20), *got = xmalloc(1 << 20), *text = NULL;
    struct far in = {0};
    struct channel_item *i;
    size_t len = 0;
    int fd;

    http_up(4);
    bind_hold("POST");
    for (int n = 0; n < 1 << 20; n++)
        big[n] = (char)(n * 31 + (n >> 8));
    fd = dial("POST /x", "", big, 1 << 20);
    CHECK(json_string_length(json_object_get(await("hold", 1)->data, "body")) > 1 << 20);
    far_open(&in, "hold", 1, "request_body");
    while ((i = far_get(&in))) {
        CHECK(!i->is_text && len + i->len <= 1 << 20);
        memcpy(got + len, i->data, i->len);
        len += i->len;
        free(i);
    }
    CHECK(channel_is_whole(in.channel));
    CHECK_INT(len, 1 << 20);
    CHECK_INT(memcmp(got, big, len), 0);
    far_close(&in);
    check_no_channels();
    answer_held(json_true(), NULL, 1);
    text = hear(fd);
    check_has(text, "HTTP/1.1 200 ");
    http_down();
}

#define LONG_BODY ((size_t)48 << 20)

static void *send_long(void *arg)
{
    char *big = xcalloc(1, LONG_BODY);
    int fd;

    for (size_t n = 0; n < LONG_BODY; n += 4096)
        big[n] = (char)(n >> 12);
    fd = dial("POST /x", "Content-Type: application/octet-stream\r\n", big, LONG_BODY);
    free(big);
    *(char **)arg = hear(fd);
    return NULL;
}

TEST(a_long_body_is_taken_as_it_is_read)
{
    auto_free char *text = NULL;
    struct channel_item *i;
    struct far in = {0};
    pthread_t sender;
    size_t len = 0;

    http_up(4);
    bind_hold("POST");
    CHECK_INT(pthread_create(&sender, NULL, send_long, &text), 0);
    CHECK(json_is_null(json_object_get(await("hold", 1)->data, "body")));
    far_open(&in, "hold", 1, "request_body");
    while ((i = far_get(&in))) {
        CHECK(iii_channels_held(hub.channels) <= CHANNEL_BYTES_MAX + 2 * PIPE_PIECE);
        for (size_t n = (4096 - len % 4096) % 4096; n < i->len; n += 4096)
            CHECK_INT(i->data[n], (char)((len + n) >> 12));
        len += i->len;
        free(i);
    }
    CHECK(channel_is_whole(in.channel));
    CHECK_INT(len, LONG_BODY);
    far_close(&in);
    answer_held(json_true(), NULL, 1);
    (void)pthread_join(sender, NULL);
    check_has(text, "HTTP/1.1 200 ");
    check_no_channels();
    http_down();
}

struct download {
    int fd;
    size_t len;
};

static void *read_all(void *arg)
{
    struct download *d = arg;
    char scrap[8192];
    ssize_t n;

    while ((n = read(d->fd, scrap, sizeof(scrap))) > 0)
        d->len += (size_t)n;
    return NULL;
}

TEST(a_long_answer_is_taken_as_the_client_reads_it)
{
    struct download d = {0};
    auto_free char *piece = xcalloc(1, PIPE_PIECE);
    struct far out = {0};
    size_t len = 0;
    pthread_t reader;
    bool reads = false;

    http_up(4);
    bind_hold("GET");
    d.fd = dial("GET /x", "", "", 0);
    far_open(&out, "hold", 1, "response");
    far_say(&out, HEADERS("\"content-length\": 50331648"));
    while (len < LONG_BODY) {
        int r = channel_room(out.channel, false);

        CHECK(r >= 0);
        if (r == 0 && !reads &&
            len > 1 << 20) { /* it has to wait for a client that does not read */
            CHECK_INT(pthread_create(&reader, NULL, read_all, &d), 0);
            reads = true;
        }
        if (r == 0) {
            usleep(100);
            continue;
        }
        channel_put(out.channel, false, piece, PIPE_PIECE);
        len += PIPE_PIECE;
        CHECK(iii_channels_held(hub.channels) <= CHANNEL_BYTES_MAX + 2 * PIPE_PIECE);
    }
    CHECK(reads);
    far_close(&out);
    (void)pthread_join(reader, NULL);
    CHECK(d.len > LONG_BODY);
    (void)close(d.fd);
    check_no_channels();
    http_down();
}

TEST(a_client_that_goes_ends_both_channels)
{
    auto_free char *big = xcalloc(1, 2 << 20);
    struct far in = {0}, out = {0};
    struct channel_item *i;
    int fd;

    http_up(4);
    bind_hold("POST");
    fd = dial("POST /x", "", big, 2 << 20);
    far_open(&out, "hold", 1, "response");
    far_open(&in, "hold", 1, "request_body");
    i = far_get(&in);
    CHECK(i);
    free(i);
    (void)close(fd);
    while (far_put(&out, false, "x", 1) > 0)
        usleep(200);
    while ((i = far_get(&in)))
        free(i);
    CHECK(atomic_load(&in.woken) > 0);
    far_close(&in);
    far_close(&out);
    check_no_channels();
    http_down();
}

TEST(a_body_that_ends_too_soon_is_not_whole)
{
    struct far in = {0};
    struct channel_item *i;
    int fd;

    http_up(4);
    bind_hold("POST");
    fd = dial("POST /x", "Transfer-Encoding: chunked\r\n", "", 0);
    (void)close(fd); /* refused: two lengths */
    fd = dial("POST /x", "Content-Type: a/b\r\nX: y\r\n", "", 0);
    far_open(&in, "hold", 1, "request_body");
    CHECK(!far_get(&in));
    CHECK(channel_is_whole(in.channel)); /* of nothing that is all */
    far_close(&in);
    (void)close(fd);
    in = (struct far){0};
    {
        auto_free char *part = xcalloc(1, 1 << 20);
        struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        static const char head[] = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n";

        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_INT(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        CHECK_INT(send(fd, head, sizeof(head) - 1, MSG_NOSIGNAL), (int)sizeof(head) - 1);
        CHECK(send(fd, part, 1000, MSG_NOSIGNAL) == 1000);
    }
    far_open(&in, "hold", 2, "request_body");
    i = far_get(&in);
    CHECK(i && i->len == 1000);
    free(i);
    (void)close(fd);
    CHECK(!far_get(&in));
    CHECK(!channel_is_whole(in.channel));
    far_close(&in);
    check_no_channels();
    http_down();
}

TEST(an_answer_ends_what_is_offered_and_nothing_was_made)
{
    auto_free char *text = NULL;
    const json_t *ref;
    int fd;

    http_up(4);
    bind_hold("GET");
    fd = dial("GET /x", "", "", 0);
    ref = ref_of("hold", 1, "response");
    (void)ref_of("hold", 1, "request_body");
    CHECK_INT(iii_channels_count(hub.channels), 0);
    answer_held(json_true(), NULL, 1);
    text = hear(fd);
    CHECK(!channel_find(hub.channels, json_text(ref, "channel_id"), json_text(ref, "access_key")));
    CHECK_INT(iii_channels_count(hub.channels), 0);
    http_down();
}

TEST(a_function_that_streams_is_not_called_when_there_are_too_many_channels)
{
    struct iii_channel *made[III_CHANNELS_MAX];
    auto_free char *text = NULL, *other = NULL;
    struct far out = {0};
    unsigned n = 0;
    int fd;

    http_up(4);
    bind_hold("GET");
    fd = dial("GET /x", "", "", 0);
    far_open(&out, "hold", 1, "response");
    far_write(&out, "x");
    far_close(&out);
    free(hear(fd));
    while (n < III_CHANNELS_MAX && (made[n] = channel_make(hub.channels, 1, me->share, "", NULL)))
        n++;
    CHECK(n > 0 && n < III_CHANNELS_MAX);
    text = talk("GET /x", "", "");
    check_has(text, "HTTP/1.1 503 ");
    CHECK_INT(asked_of("hold"), 1);
    bind_it("y", "http", "ok", "{\"api_path\": \"/y\"}"); /* one that does not is */
    other = talk("GET /y", "", "");
    check_has(other, "HTTP/1.1 200 ");
    while (n > 0)
        channel_unref(made[--n]);
    http_down();
}

TEST(a_wrong_key_does_not_open_the_answer)
{
    auto_free char *text = NULL;
    const json_t *ref;
    int fd;

    http_up(4);
    bind_hold("GET");
    fd = dial("GET /x", "", "", 0);
    ref = ref_of("hold", 1, "response");
    CHECK(!channel_find(hub.channels, json_text(ref, "channel_id"), "another"));
    CHECK_INT(iii_channels_count(hub.channels), 0);
    answer_held(json_true(), NULL, 1);
    text = hear(fd);
    check_has(text, "HTTP/1.1 200 ");
    http_down();
}

TEST(who_had_no_channel_to_write_to_has_not_answered)
{
    struct iii_channel *made[III_CHANNELS_MAX];
    auto_free char *text = NULL;
    const json_t *ref;
    unsigned n = 0;
    int fd;

    http_up(4);
    bind_hold("GET");
    fd = dial("GET /x", "", "", 0);
    ref = ref_of("hold", 1, "response");
    while (n < III_CHANNELS_MAX && (made[n] = channel_make(hub.channels, 1, me->share, "", NULL)))
        n++;
    CHECK(!channel_find(hub.channels, json_text(ref, "channel_id"), json_text(ref, "access_key")));
    answer_held(json_null(), NULL, 1);
    text = hear(fd);
    check_has(text, "HTTP/1.1 503 ");
    while (n > 0)
        channel_unref(made[--n]);
    http_down();
}

/* ---- sandboxes ---- */

static char *dir;

static void events_up(void)
{
    struct events_config config = {.data_dir = dir = dir_new(), .max = 100000, .days = 1};

    CHECK_INT(events_open(&config, &services.events, NULL), 0);
    up();
}

static void events_down(void)
{
    down();
    events_close(services.events);
    services.events = NULL;
    dir_remove(&dir);
}

static void happens(const char *topic, const char *id, const char *more)
{
    json_t *data = json_pack("{s:s, s:s, s:s}", "sandboxId", id, "name", "box", "image", "alpine");
    json_t *other = json_loads(more, 0, NULL);

    CHECK(other);
    (void)json_object_update(data, other);
    json_decref(other);
    events_publish(services.events, topic, id, data);
}

TEST(what_happens_to_a_sandbox_is_told)
{
    json_t *said = NULL;
    const json_t *d;

    events_up();
    bind_it("s", "sandbox", "ok", "{}");
    CHECK_INT(
        events_publish_kept(services.events, "sandbox.killed", "sbx_1", json_object(), &said, NULL),
        0); /* which a caller said, and not the daemon */
    happens("sandbox.created", "sbx_1", "{}");
    happens("exec.finished", "sbx_1", "{}");
    happens("sandbox.exec", "sbx_1", "{}");
    happens("sandbox.killed", "sbx_1", "{\"reason\": \"requested\"}");
    happens("sandbox.expired", "sbx_2", "{\"reason\": \"expired\"}");
    d = await("ok", 1)->data;
    CHECK_STR(json_text(d, "trigger"), "sandbox");
    CHECK_STR(json_text(d, "event"), "created");
    CHECK_STR(json_text(d, "sandbox_id"), "uuid-of-sbx_1");
    CHECK_STR(json_text(d, "id"), "sbx_1");
    CHECK_STR(json_text(d, "name"), "box");
    CHECK_STR(json_text(d, "image"), "alpine");
    CHECK(json_int(d, "timestamp") > 0 && strstr(json_text(d, "at"), "+00:00"));
    CHECK_STR(json_text(await("ok", 2)->data, "event"), "ready");
    CHECK_STR(json_text(await("ok", 3)->data, "event"), "removed");
    CHECK_STR(json_text(await("ok", 3)->data, "reason"), "requested");
    CHECK_STR(json_text(await("ok", 4)->data, "reason"), "expired");
    CHECK_STR(json_text(await("ok", 4)->data, "sandbox_id"), "uuid-of-sbx_2");
    json_decref(said);
    events_down();
}

TEST(a_binding_is_told_what_it_asked_for)
{
    events_up();
    bind_it("a", "sandbox", "ok", "{\"events\": [\"stopped\", \"sandbox.killed\"]}");
    bind_it("b", "sandbox", "ok2", "{\"events\": [\"exec_ended\"], \"sandbox_id\": \"sbx_2\"}");
    bind_it("c", "sandbox", "ok3", "{\"events\": [\"*\"]}");
    happens("sandbox.created", "sbx_1", "{}");
    happens("sandbox.exec", "sbx_1", "{\"execId\": \"exec_1\", \"exitCode\": 0}");
    happens("sandbox.exec", "sbx_2", "{\"execId\": \"exec_2\", \"exitCode\": 3}");
    happens("sandbox.stopped", "sbx_1", "{}");
    happens("sandbox.killed", "sbx_1", "{}");
    (void)await("ok3", 6);
    CHECK_STR(json_text(await("ok", 1)->data, "event"), "stopped");
    CHECK_STR(json_text(await("ok", 2)->data, "event"), "removed");
    CHECK_STR(json_text(await("ok2", 1)->data, "exec_id"), "exec_2");
    CHECK_INT(json_int(await("ok2", 1)->data, "exit_code"), 3);
    settle();
    CHECK_INT(asked_of("ok2"), 1);
    check_refused("sandbox", "{\"events\": [\"exploded\"]}", ERR_INVALID, "exploded");
    check_refused("sandbox", "{\"events\": []}", ERR_INVALID, "events");
    check_refused("sandbox", "{\"events\": \"created\"}", ERR_INVALID, "events");
    events_down();
}

TEST(who_reaches_some_sandboxes_is_told_of_these)
{
    struct caller one = {.name = "one", .scopes = SCOPES_ALL, .sandbox_id = "sbx_1"};
    struct caller some = {
        .name = "some", .scopes = SCOPES_ALL, .label_key = "team", .label_value = "red"};
    struct caller none = {.name = "none", .scopes = 1u << SCOPE_NONE};
    struct iii_asker *a = iii_asker_new(&one, NULL, "default");
    struct iii_asker *b = iii_asker_new(&some, NULL, "default");
    struct iii_asker *c = iii_asker_new(&none, NULL, "default");
    struct err err = {0};

    events_up();
    CHECK_INT(bind_as(a, "a", "sandbox", "ok", "{\"events\": [\"created\", \"removed\"]}", &err),
              0);
    CHECK_INT(bind_as(b, "b", "sandbox", "ok2", "{\"events\": [\"created\", \"removed\"]}", &err),
              0);
    CHECK_INT(bind_as(c, "c", "sandbox", "never", "{}", &err), -1);
    CHECK_INT(err.kind, ERR_FORBIDDEN);
    bind_it("d", "sandbox", "ok3", "{\"events\": [\"created\", \"removed\"]}");
    for (int i = 1; i <= 4; i++) {
        char id[16];

        (void)snprintf(id, sizeof(id), "sbx_%d", i);
        happens("sandbox.created", id,
                i == 2   ? "{\"metadata\": {\"team\": \"red\"}}"
                : i == 3 ? "{\"metadata\": {\"team\": \"blue\"}}"
                         : "{}");
        happens("sandbox.killed", id, "{}");
    }
    (void)await("ok3", 8);
    (void)await("ok", 2);
    (void)await("ok2", 2);
    settle();
    CHECK_INT(asked_of("ok"), 2);
    CHECK_INT(asked_of("ok2"), 2);
    CHECK_STR(json_text(await("ok", 1)->data, "id"), "sbx_1");
    CHECK_STR(json_text(await("ok2", 1)->data, "id"), "sbx_2");
    CHECK_STR(json_text(await("ok2", 2)->data, "event"), "removed");
    iii_asker_unref(a);
    iii_asker_unref(b);
    iii_asker_unref(c);
    events_down();
}

static unsigned readers(void)
{
    struct events_figures f;

    events_figures(services.events, &f);
    return f.readers;
}

TEST(sandboxes_are_followed_by_one_while_somebody_wants_to_know)
{
    events_up();
    CHECK_INT(readers(), 0);
    for (int round = 0; round < 20; round++) {
        bind_it("a", "sandbox", "ok", "{}");
        bind_it("b", "sandbox", "ok", "{}");
        bind_it("a", "sandbox", "ok", "{}"); /* anew */
        CHECK(readers() >= 1 && readers() <= 2);
        iii_trigger_unbind(t, "a");
        iii_trigger_unbind(t, "b");
    }
    while (readers() > 0)
        usleep(1000);
    CHECK(!t->follow);
    bind_it("a", "sandbox", "ok", "{\"events\": [\"paused\"]}");
    happens("sandbox.paused", "sbx_1", "{}");
    (void)await("ok", 1);
    events_down();
}

TEST(nothing_is_missed_however_slow_a_function_is)
{
    json_t *yes = json_true();
    unsigned done = 0;

    events_up();
    bind_it("a", "sandbox", "hold", "{\"events\": [\"paused\"]}");
    for (int i = 0; i < 3000; i++) {
        happens("sandbox.paused", "sbx_1", "{}");
        if (i % 100 == 99)
            usleep(1000);
    }
    (void)await("hold", 32);
    for (;;) {
        triggers_lock(t);
        CHECK(t->told <= 1000);
        triggers_unlock(t);
        answer_held(yes, NULL, UINT32_MAX);
        done = asked_of("hold");
        if (done >= 3000)
            break;
        usleep(200);
    }
    CHECK_INT(done, 3000);
    events_down();
}

static void bind_many(struct iii_asker *who, unsigned n)
{
    struct err err = {0};
    char id[16];

    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(id, sizeof(id), "many%u", i);
        CHECK_INT(bind_as(who, id, "sandbox", "hold", "{\"events\": [\"paused\"]}", &err), 0);
    }
}

static void happen(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        happens("sandbox.paused", "sbx_1", "{}");
}

static unsigned missed(void)
{
    unsigned n = 0;

    triggers_lock(t);
    for (const struct bound *b = t->all; b; b = b->next)
        n += b->missed;
    triggers_unlock(t);
    return n;
}

TEST(one_alone_misses_nothing_however_much_it_has_bound)
{
    json_t *yes = json_true();

    events_up();
    bind_many(me, 20);
    happen(500); /* in all more than may wait */
    while (asked_of("hold") < 20 * 500) {
        CHECK_INT(missed(), 0);
        answer_held(yes, NULL, UINT32_MAX);
    }
    events_down();
}

/* What "hold" was told, and told that it was not. */
static json_int_t heard(unsigned *ret_misses)
{
    json_int_t n = 0;

    *ret_misses = 0;
    (void)pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < n_asked; i++) {
        bool lost = strcmp(json_text(asked[i].data, "event"), "missed") == 0;

        if (strcmp(asked[i].function_id, "hold") != 0)
            continue;
        n += lost ? json_int(asked[i].data, "lost") : 1;
        *ret_misses += lost;
    }
    (void)pthread_mutex_unlock(&lock);
    return n;
}

static unsigned told(void)
{
    unsigned n;

    triggers_lock(t);
    n = t->told;
    triggers_unlock(t);
    return n;
}

TEST(who_is_slow_does_not_hold_up_others_and_is_told_what_it_missed)
{
    static const struct caller slow = {.face = "iii", .name = "slow", .scopes = SCOPES_ALL};
    json_t *yes = json_true();
    struct iii_asker *they;
    unsigned misses;

    events_up();
    t->stall_ns = INT64_MAX / 2; /* and it answers now and then */
    they = iii_asker_new(&slow, NULL, "default");
    bind_many(they, 20);
    bind_it("b", "sandbox", "ok", "{\"events\": [\"paused\"]}");
    for (unsigned i = 1; i <= 30; i++) {
        happen(50);
        (void)await("ok", i * 50);
        answer_held(yes, NULL, 1);
    }
    while (told() > 0)
        answer_held(yes, NULL, UINT32_MAX);
    happen(1); /* with which they hear of it */
    (void)await("ok", 1501);
    while (told() > 0)
        answer_held(yes, NULL, UINT32_MAX);
    CHECK_INT(heard(&misses), 20 * 1501);
    CHECK_INT(misses, 20);
    for (unsigned i = 0; i < 20; i++) {
        char id[16];

        (void)snprintf(id, sizeof(id), "many%u", i);
        iii_trigger_unbind(t, id);
    }
    CHECK_INT(they->share->told, 0);
    iii_asker_unref(they);
    events_down();
}

/* The time that a function has is over, once all others have answered and only wait for it. */
static void let_stall(const char *function_id)
{
    struct bound *b;

    triggers_lock(t);
    for (b = t->all; strcmp(b->function_id, function_id) != 0;)
        b = b->next;
    if (t->told >= 1000 && t->told == lane_pending(b->lane)) {
        b->answered_ns = INT64_MIN;
        follow_wake(t);
    }
    triggers_unlock(t);
}

TEST(who_never_answers_does_not_keep_others_from_being_told)
{
    json_t *yes = json_true();
    unsigned n, misses = 0;
    json_int_t lost = 0;

    events_up();
    t->stall_ns = INT64_MAX / 2; /* time passes when the test says so */
    bind_it("a", "sandbox", "hold", "{\"events\": [\"paused\", \"removed\"]}");
    bind_it("b", "sandbox", "ok", "{\"events\": [\"paused\"]}");
    for (int i = 0; i < 3000; i++)
        happens("sandbox.paused", "sbx_1", "{}");
    while (asked_of("ok") < 3000) {
        let_stall("hold");
        usleep(1000);
    }
    do { /* what it still had */
        answer_held(yes, NULL, UINT32_MAX);
        usleep(1000);
    } while (told() > 0);
    happens("sandbox.killed", "sbx_1", "{}");
    do {
        usleep(1000);
        answer_held(yes, NULL, UINT32_MAX);
        n = asked_of("hold");
    } while (strcmp(json_text(await("hold", n)->data, "event"), "removed") != 0);
    for (unsigned i = 1; i < n; i++) {
        const json_t *data = await("hold", i)->data;

        if (strcmp(json_text(data, "event"), "missed") != 0)
            continue;
        CHECK(json_int(data, "lost") >= 1000);
        lost += json_int(data, "lost");
        misses++;
    }
    CHECK(misses >= 1);
    CHECK(n - misses - 1 + lost >= 3000); /* it was told, or told of */
    CHECK_INT(asked_of("ok"), 3000);
    events_down();
}

TAP_MAIN
