#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/function.h"
#include "functions/input.h"
#include "functions/reach.h"
#include "iii/lane_internal.h"

/* What happens to sandboxes. One call of stream::events for all who want to know, in the daemon's
 * own name: who is told what is decided here, by what the maker of a binding reaches. The call goes
 * on where it was: what is not read yet is not lost, but for what the daemon itself no longer
 * keeps, of which a binding is told too.
 *
 * Nobody waits with empty hands for another. While a connection is behind with what its functions
 * were told, nothing more is read, so that it misses nothing, unless a function of another
 * connection could be called at once. Then reading goes on, and who has no room for more of it
 * misses it, until he has answered what he has; then he is told how much it was. A function that
 * does not answer at all is not waited for by the others of its connection either. */

#define TOPICS     "sandbox.*,events.lost"
#define BEHIND_MAX 1000  /* of one connection that are not answered; then it is behind */
#define WAIT_MAX   16384 /* the same of all */
#define RETRY_NS   1000000000
#define PAGES      1000

static const struct lane_rules rules = {.at_once = 32, .attempts = 1};

enum event {
    CREATED,
    READY,
    STARTED,
    STOPPED,
    PAUSED,
    RESUMED,
    REMOVED,
    LOST,
    FAILED,
    DRAINING,
    RENEWED,
    UPDATED,
    RESTORED,
    SNAPSHOT,
    CLONED,
    ADOPTED,
    EXEC_ENDED,
    MISSED,
    EVENTS,
    NONE = EVENTS,
};

static const char *const words[EVENTS] = {
    "created",  "ready",    "started", "stopped",  "paused",     "resumed",
    "removed",  "lost",     "error",   "draining", "renewed",    "updated",
    "restored", "snapshot", "cloned",  "adopted",  "exec_ended", "missed",
};

/* Topics of the daemon, and what else they may be called in a configuration. */
static const struct {
    const char *topic;
    enum event event, also;
} topics[] = {
    {"created", CREATED, READY},  {"started", STARTED, READY},  {"stopped", STOPPED, NONE},
    {"paused", PAUSED, NONE},     {"resumed", RESUMED, NONE},   {"killed", REMOVED, NONE},
    {"expired", REMOVED, NONE},   {"lost", LOST, NONE},         {"error", FAILED, NONE},
    {"draining", DRAINING, NONE}, {"renewed", RENEWED, NONE},   {"updated", UPDATED, NONE},
    {"restored", RESTORED, NONE}, {"snapshot", SNAPSHOT, NONE}, {"cloned", CLONED, NONE},
    {"adopted", ADOPTED, NONE},   {"exec", EXEC_ENDED, NONE},
};

/* Unless it is asked for: these come with every command. */
#define BY_DEFAULT (((1u << EVENTS) - 1) & ~(1u << EXEC_ENDED))

struct follow {
    struct sink sink; /* first: the sink's functions get it */
    struct work work;
    struct iii_triggers *t;
    struct call call;
    struct caller caller;
    char last_id[ID_SIZE]; /* of the event that was read last */
    json_t *read;          /* a block of events, and which of them is to be told next */
    size_t next;
};

/* ---- rows ---- */

static void call_init(const struct iii_triggers *t, struct call *call, const struct caller *caller,
                      json_t *in, struct sink *sink)
{
    *call = (struct call){
        .engine = t->hub->config.engine,
        .services = t->hub->config.services,
        .about = t->hub->config.about,
        .caller = caller,
        .in = in,
        .sink = sink,
        .events = true,
        .gone_fd = -1,
    };
}

static int call_begin(const struct function *f, struct call *call, struct err *err)
{
    json_t *params = json_object();
    int r;

    function_begin(f, call);
    r = input_check(call->in, f->fields, params, err);
    json_decref(params);
    return r < 0 ? -1 : function_run(f, call, err);
}

/* ---- who is told what ---- */

static bool has_label(const struct caller *caller, const json_t *data)
{
    const json_t *labels = json_object_get(data, "metadata");

    return json_object_get(labels, caller->label_key) &&
           strcmp(json_text(labels, caller->label_key), caller->label_value) == 0;
}

static bool reaches(const struct iii_triggers *t, const struct caller *caller, const char *id)
{
    return t->hub->config.engine && caller_reaches(caller, t->hub->config.engine, id);
}

/* Who has a label is told of what becomes of those that had it when they were last looked at: of
 * one that is gone nobody can say whether it has it. */
static bool knows(const struct iii_triggers *t, struct bound *b, const char *id, enum event event,
                  const json_t *data)
{
    const struct caller *caller = &b->asker->caller;
    bool has = (event == CREATED && has_label(caller, data)) || reaches(t, caller, id);

    if (has)
        (void)json_object_set_new(b->known, id, json_true());
    else if (event == UPDATED)
        (void)json_object_del(b->known, id);
    has = json_object_get(b->known, id);
    if (event == REMOVED)
        (void)json_object_del(b->known, id);
    return has;
}

static bool may_know(const struct iii_triggers *t, struct bound *b, const char *id,
                     enum event event, const json_t *data)
{
    const struct caller *caller = &b->asker->caller;

    if (!caller_is_restricted(caller))
        return true;
    if (!*id)
        return event == MISSED;
    if (caller->sandbox_id[0] && strcmp(caller->sandbox_id, id) != 0)
        return false;
    return !caller->label_key[0] || knows(t, b, id, event, data);
}

static json_t *payload(enum event event, const char *id, const json_t *e)
{
    static const struct {
        const char *from, *to;
    } members[] = {{"name", "name"},
                   {"image", "image"},
                   {"status", "status"},
                   {"reason", "reason"},
                   {"error", "error"},
                   {"code", "code"},
                   {"execId", "exec_id"},
                   {"exitCode", "exit_code"},
                   {"snapshotId", "snapshot_id"},
                   {"from", "from"},
                   {"to", "to"},
                   {"lost", "lost"}};
    const json_t *data = json_object_get(e, "data");
    int64_t ms = json_int(e, "timestamp");
    char at[TIME_TEXT], uuid[UUID_SIZE];
    json_t *out;

    time_text(at, ms / 1000, ms % 1000 * 1000000);
    out = json_pack("{s:s, s:s, s:s, s:I, s:s}", "trigger", "sandbox", "event", words[event], "at",
                    at, "timestamp", (json_int_t)ms, "event_id", json_text(e, "id"));
    if (*id) {
        iii_uuid_of_id(id, uuid);
        (void)json_object_set_new(out, "sandbox_id", json_string(uuid));
        (void)json_object_set_new(out, "id", json_string(id));
    }
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        json_t *value = json_object_get(data, members[i].from);

        if (value && !json_is_null(value))
            (void)json_object_set(out, members[i].to, value);
    }
    return out;
}

static void put(struct iii_triggers *t, struct bound *b, json_t *data)
{
    t->told++;
    b->speaker->share->told++;
    lane_tell(t, b->lane, data, 0);
}

void follow_told(struct iii_triggers *t, const struct bound *b)
{
    t->told--;
    b->speaker->share->told--;
}

/* Would its function be called at once, if there was something to tell? */
static bool is_ready(const struct bound *b)
{
    return lane_pending(b->lane) < rules.at_once;
}

/* One that could be called has it in any case; for what waits there is the rule of share.h. Who has
 * begun to miss goes on until he is told how much. */
static bool has_room(const struct iii_triggers *t, const struct bound *b)
{
    return is_ready(b) ||
           (b->missed == 0 && t->told < WAIT_MAX && b->speaker->share->told < WAIT_MAX - t->told);
}

static void tell_missed(struct iii_triggers *t, struct bound *b)
{
    json_t *e = json_pack("{s:I, s:{s:I}}", "timestamp", (json_int_t)now_ms(), "data", "lost",
                          (json_int_t)b->missed);

    b->missed = 0;
    put(t, b, payload(MISSED, "", e));
    json_decref(e);
}

static void miss(struct bound *b)
{
    if (b->missed++ == 0)
        log_warn("a function is too slow and misses what happens to sandboxes", "trigger",
                 b->given_id, "function", b->function_id);
}

static void tell(struct iii_triggers *t, struct bound *b, enum event event, const char *id,
                 const json_t *e)
{
    if (event == NONE || !(b->events & (1u << event)))
        return;
    if (!has_room(t, b)) {
        miss(b);
        return;
    }
    if (b->missed > 0)
        tell_missed(t, b);
    put(t, b, payload(event, id, e));
}

static bool is_behind(const struct bound *b)
{
    return b->kind == &sandbox_trigger && b->speaker->share->told >= BEHIND_MAX;
}

/* *ret_own: is there somebody who waits for another function of his own? */
static bool must_pause(const struct iii_triggers *t, bool *ret_own)
{
    bool behind = false, others = false;

    *ret_own = false;
    if (t->told < BEHIND_MAX)
        return false;
    for (const struct bound *b = t->all; b; b = b->next) {
        if (b->kind != &sandbox_trigger)
            continue;
        behind |= is_behind(b);
        others |= !is_behind(b) && is_ready(b);
        *ret_own |= is_behind(b) && is_ready(b);
    }
    return behind && !others;
}

/* It was asked and does not answer: it is told no more of what it has not been told. One that we
 * did not come to ask yet keeps all. */
static void drop_stalled(struct iii_triggers *t)
{
    int64_t since = mono_ns() - t->stall_ns;

    for (struct bound *b = t->all; b; b = b->next) {
        if (!is_behind(b) || b->lane->running == 0 || b->answered_ns > since)
            continue;
        b->missed += lane_empty(t, b->lane);
        log_warn("a function does not answer and misses what happens to sandboxes", "trigger",
                 b->given_id, "function", b->function_id);
    }
}

static void tell_all(struct iii_triggers *t, const json_t *e, enum event event, enum event also)
{
    const json_t *data = json_object_get(e, "data");
    const char *id = json_text(e, "sandboxId");

    for (struct bound *b = t->all; b; b = b->next) {
        if (b->kind != &sandbox_trigger ||
            (b->sandbox_id[0] && *id && strcmp(b->sandbox_id, id) != 0) ||
            !may_know(t, b, id, event, data))
            continue;
        tell(t, b, event, id, e);
        tell(t, b, also, id, e);
    }
}

/* The next of what was read. */
static void tell_next(struct follow *f)
{
    const json_t *e = json_array_get(f->read, f->next++);
    const char *topic = json_text(e, "topic");
    enum event event = NONE, also = NONE;

    if (json_is_true(json_object_get(e, "published")))
        topic = ""; /* a caller's own: anybody may say that a sandbox is gone */
    if (strcmp(topic, "events.lost") == 0)
        event = MISSED;
    for (size_t i = 0; str_starts(topic, "sandbox.") && i < ARRAY_LEN(topics); i++)
        if (strcmp(topics[i].topic, topic + strlen("sandbox.")) == 0) {
            event = topics[i].event;
            also = topics[i].also;
        }
    if (event != NONE) {
        triggers_lock(f->t);
        tell_all(f->t, e, event, also);
        triggers_unlock(f->t);
        triggers_wake(f->t);
    }
    if (f->next == json_array_size(f->read)) {
        (void)json_array_clear(f->read);
        f->next = 0;
    }
}

static int on_event(struct sink *sink, json_t *e)
{
    struct follow *f = (struct follow *)sink;

    if (!e)
        return 0;
    (void)snprintf(f->last_id, sizeof(f->last_id), "%s", json_text(e, "id"));
    (void)json_array_append_new(f->read, e);
    return 0;
}

static int on_bytes(struct sink *sink, enum channel channel, const void *data, size_t len)
{
    (void)sink;
    (void)channel;
    (void)data;
    (void)len;
    return 0;
}

static const struct sink_ops sink_ops = {.event = on_event, .bytes = on_bytes};

/* ---- following ---- */

static int follow_begin(struct follow *f, struct err *err)
{
    const struct function *events = function_find("stream::events");
    json_t *in = json_pack("{s:s}", "topic", TOPICS);

    if (f->last_id[0])
        (void)json_object_set_new(in, "lastEventId", json_string(f->last_id));
    call_init(f->t, &f->call, &f->caller, in, &f->sink);
    if (call_begin(events, &f->call, err) < 0 || !f->call.task)
        return -1;
    json_decref(f->call.in);
    f->call.in = NULL;
    return 0;
}

static void follow_end(struct follow *f, const struct err *err)
{
    if (f->call.function)
        function_end(&f->call, -1, err);
    call_done(&f->call);
    f->call = (struct call){0};
}

static void follow_free(struct follow *f)
{
    json_decref(f->read);
    triggers_unref(f->t);
    free(f);
}

/* Is there nobody any more who wants to know? Then t has forgotten it. *ret_full: those who do have
 * not been told enough. */
static bool is_over(struct follow *f, bool stops, bool *ret_full)
{
    struct iii_triggers *t = f->t;
    bool over, own;

    triggers_lock(t);
    over = stops || t->stops || t->watchers == 0;
    if (!over && must_pause(t, &own) && own)
        drop_stalled(t);
    *ret_full = must_pause(t, &own);
    if (over && t->follow == f)
        t->follow = NULL;
    triggers_unlock(t);
    return over;
}

/* The row has failed, which it should not: it is called again, behind what it told last. */
static void begin_again(struct follow *f, struct err *err)
{
    log_warn("what happens to sandboxes is not told for a moment", "error", err->text);
    follow_end(f, err);
    *err = (struct err){0};
    if (follow_begin(f, err) < 0)
        follow_end(f, err);
}

static void run_follow(struct work *w)
{
    struct follow *f = (struct follow *)((char *)w - offsetof(struct follow, work));
    struct runner *runner = f->t->hub->runner;
    bool stops = runner_stops(runner), full = false, over;
    struct err err = {0};
    struct task *task;
    int r = TASK_AGAIN;

    while (!(over = is_over(f, stops, &full)) && !full) {
        if (json_array_size(f->read) > 0)
            tell_next(f);
        else if (r == TASK_AGAIN && f->call.task)
            r = f->call.task->ops->step(f->call.task, &f->call, &err);
        else
            break;
    }
    if (over) {
        (void)err_code(&err, ERR_CONFLICT, "cancelled", "nobody is to be told any more");
        follow_end(f, &err);
        follow_free(f);
        return;
    }
    if (!f->call.task || r <= 0)
        begin_again(f, &err);
    task = f->call.task;
    if (full)
        runner_wait(runner, w, -1, 0, mono_ns() + RETRY_NS);
    else if (!task || r <= 0)
        runner_wait(runner, w, -1, 0, mono_ns() + RETRY_NS);
    else
        runner_wait(runner, w, task->events ? task->fd : -1, task->events, task->until_ns);
}

void follow_wake(struct iii_triggers *t)
{
    if (t->follow)
        runner_wake(t->hub->runner, &t->follow->work);
}

static int follow_start(struct iii_triggers *t, struct err *err)
{
    struct follow *f = xcalloc(1, sizeof(*f));

    f->sink.ops = &sink_ops;
    f->read = json_array();
    f->work.run = run_follow;
    f->t = triggers_ref(t);
    f->caller =
        (struct caller){.face = "iii", .name = "iii-triggers", .scopes = SCOPES_ALL, .admin = true};
    if (follow_begin(f, err) < 0) {
        follow_end(f, err);
        follow_free(f);
        return -1;
    }
    t->follow = f;
    runner_add(t->hub->runner, &f->work);
    return 0;
}

/* ---- bindings ---- */

static int event_bit(const char *word, unsigned *ret)
{
    if (str_starts(word, "sandbox."))
        word += strlen("sandbox.");
    if (strcmp(word, "*") == 0) {
        *ret |= (1u << EVENTS) - 1;
        return 0;
    }
    for (unsigned i = 0; i < EVENTS; i++)
        if (strcmp(words[i], word) == 0) {
            *ret |= 1u << i;
            return 0;
        }
    for (size_t i = 0; i < ARRAY_LEN(topics); i++)
        if (strcmp(topics[i].topic, word) == 0) {
            *ret |= 1u << topics[i].event;
            return 0;
        }
    return -1;
}

static int read_events(const json_t *config, unsigned *ret, struct err *err)
{
    const json_t *list = json_object_get(config, "events");
    unsigned bits = 1u << MISSED;
    json_t *word;
    size_t i;

    *ret = BY_DEFAULT;
    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return err_set(err, ERR_INVALID, "events: a list of names, such as created and removed");
    json_array_foreach(list, i, word) if (
        !json_is_string(word) ||
        event_bit(json_string_value(word), &bits) <
            0) return err_set(err, ERR_INVALID,
                              "events: created, ready, started, stopped, paused, resumed, removed, "
                              "lost, error, exec_ended and others; not %.60s",
                              json_is_string(word) ? json_string_value(word) : "that");
    *ret = bits;
    return 0;
}

static int read_sandbox(const json_t *config, char ret[ID_SIZE], struct err *err)
{
    const char *id;

    if (config_text(config, "sandbox_id", &id, err) < 0)
        return -1;
    if (!id)
        return 0;
    if (!iii_uuid_valid(id) && strlen(id) < ID_SIZE) {
        (void)snprintf(ret, ID_SIZE, "%s", id);
        return 0;
    }
    return iii_id_of_uuid(id, ret, err);
}

static int sandbox_bind(struct iii_triggers *t, struct bound *b, const json_t *config,
                        struct err *err)
{
    const struct function *events = function_find("stream::events");

    (void)t;
    if (read_events(config, &b->events, err) < 0 || read_sandbox(config, b->sandbox_id, err) < 0)
        return -1;
    if (b->asker->caller.label_key[0])
        b->known = json_object();
    return function_check(events, &b->asker->caller, err);
}

/* Those that are there already, of one who has a label. */
static int list_known(const struct iii_triggers *t, struct bound *b, struct err *err)
{
    const struct function *list = function_find("sandbox::list");
    json_int_t cursor = 0;
    int r = 0;

    for (int page = 0; r == 0 && page < PAGES && (page == 0 || cursor > 0); page++) {
        json_t *in = json_pack("{s:i}", "pageSize", 200), *item;
        struct sink sink = {.ops = &sink_ops};
        struct call call;
        size_t i;

        if (cursor > 0)
            (void)json_object_set_new(in, "cursor", json_integer(cursor));
        call_init(t, &call, &b->asker->caller, in, &sink);
        r = call_begin(list, &call, err);
        json_array_foreach(json_object_get(call.out, "items"), i, item)(void)
            json_object_set_new(b->known, json_text(item, "id"), json_true());
        cursor = json_int(call.out, "nextCursor");
        function_end(&call, r, err);
        call_done(&call);
    }
    return r;
}

/* First it is followed, then looked at what is there: so nothing falls between. */
static int sandbox_enter(struct iii_triggers *t, struct bound *b, const struct bound *old,
                         struct err *err)
{
    (void)old;
    if (!t->follow && follow_start(t, err) < 0)
        return -1;
    t->watchers++;
    if (b->known && t->hub->config.engine && list_known(t, b, err) < 0) {
        t->watchers--;
        follow_wake(t);
        return -1;
    }
    lane_open(t, b, &rules);
    return 0;
}

static void sandbox_leave(struct iii_triggers *t, struct bound *b)
{
    lane_leave(t, b);
    t->watchers--;
    follow_wake(t);
}

const struct trigger_kind sandbox_trigger = {
    "sandbox",
    "Calls a function when something happens to a sandbox",
    "{\"type\": \"object\", \"properties\": {\"events\": {\"type\": \"array\", \"items\": "
    "{\"type\": \"string\"}, \"description\": \"created, ready, started, stopped, paused, resumed, "
    "removed, lost, error, exec_ended …; all but exec_ended when it is not given\"}, "
    "\"sandbox_id\": {\"type\": \"string\"}, \"condition_function_id\": {\"type\": \"string\"}}}",
    "{\"type\": \"object\", \"required\": [\"trigger\", \"event\", \"at\"], \"properties\": "
    "{\"trigger\": {\"const\": \"sandbox\"}, \"event\": {\"type\": \"string\"}, \"sandbox_id\": "
    "{\"type\": \"string\"}, \"id\": {\"type\": \"string\"}, \"name\": {\"type\": \"string\"}, "
    "\"image\": {\"type\": \"string\"}, \"reason\": {\"type\": \"string\"}, \"at\": {\"type\": "
    "\"string\", \"format\": \"date-time\"}, \"timestamp\": {\"type\": \"integer\"}}}",
    sandbox_bind,
    sandbox_enter,
    sandbox_leave,
};
