#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/input.h"
#include "functions/reach.h"
#include "http/server.h"
#include "iii/channels_internal.h"
#include "iii/trigger_internal.h"

/* Functions behind paths of HTTP. A request is taken apart on the thread that read it, and parked
 * while the functions that are asked for it run: its condition, its middleware, then the one it is
 * bound to. What these answer is made into bytes on whatever thread it comes on; the request is
 * woken and answers. `over` says that the request has ended, so that an answer that comes later is
 * nobody's.
 *
 * The function may also answer by a channel (trigger_stream.c). Who has come to write one answers
 * by it, whatever the function gives back; who closes it with nothing said has not. A function that
 * gives back nothing may be one whose channel is about to come: a request waits a moment for it, of
 * a function that has come before as long as for an answer, and of one that never did hardly. */

#define BODY_MAX       (1u << 20)
#define SHORT_ANSWER   (64u << 10)
#define UNANSWERED_MAX 1024            /* questions to the functions of one binding */
#define TURN_NS        (5 * 1000000ll) /* then others have their turn */
#define PATIENCE_MS    (300 * 1000)    /* with a client that takes nothing of a stream */
#define COMES_NS       (2 * 1000000000ll)
#define COMES_NOT_NS   (100 * 1000000ll)

/* ---- what the functions get ---- */

static bool is_json_type(const char *type)
{
    return type && (strcasestr(type, "application/json") || strcasestr(type, "+json"));
}

/* The token that the caller has shown is the daemon's, and none of the function's business. */
static bool is_secret(const char *name, const struct caller *caller)
{
    return (strcasecmp(name, "authorization") == 0 ||
            strcasecmp(name, "sec-websocket-protocol") == 0) &&
           (caller->token_id[0] || strcmp(caller->name, "admin") == 0);
}

static json_t *headers_of(const struct http_req *req, const struct caller *caller)
{
    const struct http_field *f;
    json_t *all = json_object();

    for (unsigned i = 0; (f = http_req_field(req, i)); i++) {
        auto_free char *name = xstrndup(f->name, f->name_len);

        for (char *c = name; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        if (!is_secret(name, caller))
            (void)json_object_set_new(all, name, route_text(f->value, f->value_len));
    }
    return all;
}

/* What cannot be read as JSON is null, as there; other bodies are a text, or base64. */
static json_t *body_of(const char *body, size_t len, const char *type, bool *ret_base64)
{
    auto_buf struct buf out = {0};
    json_t *value;

    if (len == 0)
        return json_null();
    if (is_json_type(type)) {
        value = input_parse(body, len, NULL);
        return value ? value : json_null();
    }
    if (utf8_valid(body, len))
        return json_stringn(body, len);
    *ret_base64 = true;
    buf_init(&out, len / 3 * 4 + 8);
    (void)base64_encode(&out, body, len);
    return json_stringn(out.data, out.len);
}

static json_t *payload_of(const struct http_req *req, const struct bound *b,
                          const struct caller *caller, const char *body, size_t len)
{
    json_t *params = json_object(), *out;
    bool base64 = false;
    const char *path = http_req_path(req);

    (void)route_matches(b->path, path + (*path == '/'), params);
    out = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:{s:s, s:s, s:s}}", "path", b->shown, "method",
                    b->method, "path_params", params, "query_params",
                    route_query(http_req_query(req)), "headers", headers_of(req, caller), "body",
                    body_of(body, len, http_req_header(req, "Content-Type"), &base64), "trigger",
                    "type", b->kind->id, "path", b->shown, "method", b->method);
    if (base64)
        (void)json_object_set_new(out, "body_encoding", json_string("base64"));
    return out;
}

static json_t *before_of(json_t *payload)
{
    json_t *request = json_object();
    static const char *const members[] = {"path_params", "query_params", "headers", "method"};

    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        (void)json_object_set(request, members[i], json_object_get(payload, members[i]));
    return json_pack("{s:s, s:o, s:{}}", "phase", "preHandler", "request", request, "context");
}

/* ---- one request ---- */

static void send_answer(struct http_req *req, const struct trigger_answer *a)
{
    trigger_answer_put_headers(a, req);
    http_reply(req, a->status, NULL, a->body ? a->body : "", a->len);
}

/* What has come of the questions. */
enum outcome {
    OUTCOME_NONE,   /* nothing yet */
    OUTCOME_ANSWER, /* an answer */
    OUTCOME_SILENT, /* the same, but that the function gave back nothing */
    OUTCOME_ERROR,  /* an answer that tells of an error */
};

struct exchange {
    atomic_uint refs; /* the request has one, and each question */
    pthread_mutex_t lock;
    struct http_req *req; /* until over */
    bool over;
    enum outcome outcome;
    struct trigger_answer answer;  /* unless there is no outcome */
    int64_t silent_ns;             /* when it was silent */
    int64_t until_ns;              /* that something has to move */
    struct trigger_stream *stream; /* the request's; NULL = it is over */

    struct iii_triggers *t;
    struct bound *bound;
    struct budget *memory;
    size_t held;     /* of it, for the payload: functions may take longer than the client stays */
    size_t kept;     /* for the body, which may be read as long as the request is there */
    size_t taken;    /* for the answer */
    json_t *payload; /* until the last function was asked */
    char *traceparent;
    int stage; /* -1 = the condition, then middleware, then the function */
};

static void payload_done(struct exchange *x)
{
    json_decref(x->payload);
    x->payload = NULL;
    budget_give(x->memory, x->held);
    x->held = 0;
}

static void exchange_unref(struct exchange *x)
{
    if (atomic_fetch_sub(&x->refs, 1) != 1)
        return;
    budget_give(x->memory, x->taken);
    trigger_answer_done(&x->answer);
    payload_done(x);
    free(x->traceparent);
    bound_unref(x->bound);
    triggers_unref(x->t);
    (void)pthread_mutex_destroy(&x->lock);
    free(x);
}

/* Takes the answer. */
static void finish(struct exchange *x, struct trigger_answer *a, enum outcome outcome)
{
    if (a->len > SHORT_ANSWER && !budget_take(x->memory, a->len)) {
        trigger_answer_done(a);
        trigger_answer_error(a, 503, "busy", "there is no memory for the answer now; try again",
                             false);
    } else if (a->len > SHORT_ANSWER) {
        x->taken = a->len;
    }
    (void)pthread_mutex_lock(&x->lock);
    if (!x->over) {
        x->answer = *a;
        x->outcome = outcome;
        x->silent_ns = mono_ns();
        http_wake(x->req);
    } else {
        trigger_answer_done(a);
    }
    (void)pthread_mutex_unlock(&x->lock);
}

static void ask_next(struct exchange *x);

static const char *function_of(const struct exchange *x)
{
    const struct bound *b = x->bound;
    int n = (int)strv_len(b->middleware);

    if (x->stage < 0)
        return b->condition_id;
    return x->stage < n ? b->middleware[x->stage] : b->function_id;
}

static bool is_last(const struct exchange *x)
{
    return x->stage == (int)strv_len(x->bound->middleware);
}

/* True when the request is answered by it. */
static bool take_before(const struct exchange *x, json_t *result, struct trigger_answer *a)
{
    if (x->stage < 0 && json_is_false(result)) {
        trigger_answer_error(a, 422, "CONDITION_NOT_MET", "Request condition not met", true);
        return true;
    }
    if (x->stage < 0 || strcmp(json_text(result, "action"), "respond") != 0)
        return false;
    trigger_answer_result(a, json_object_get(result, "response"));
    return true;
}

static void on_answer(void *arg, json_t *result, json_t *error)
{
    struct exchange *x = arg;
    struct trigger_answer a = {0};
    enum outcome outcome = OUTCOME_ANSWER;
    bool done = true;

    (void)atomic_fetch_sub(&x->bound->unanswered, 1);
    if (error)
        trigger_answer_error(&a, 500, json_text(error, "code"), json_text(error, "message"), false);
    else if (is_last(x))
        trigger_answer_result(&a, result);
    else
        done = take_before(x, result, &a);
    if (error)
        outcome = OUTCOME_ERROR;
    else if (is_last(x) && json_is_null(result))
        outcome = OUTCOME_SILENT;
    if (done) {
        finish(x, &a, outcome);
    } else {
        x->stage++;
        ask_next(x);
    }
    exchange_unref(x);
}

/* Only the last of them gets these, and whoever looked at the payload before may still do so. */
static void offer_channels(struct exchange *x)
{
    json_t *payload = json_copy(x->payload);

    (void)pthread_mutex_lock(&x->lock);
    if (!x->over)
        trigger_stream_offer(x->stream, payload);
    (void)pthread_mutex_unlock(&x->lock);
    json_decref(x->payload);
    x->payload = payload;
}

/* Who calls has a reference of its own. */
static void ask_next(struct exchange *x)
{
    bool last = is_last(x);
    json_t *before = x->stage >= 0 && !last ? before_of(x->payload) : NULL;
    const struct bound *b = x->bound;
    struct iii_question q = {
        .asker = b->speaker,
        .namespace = b->namespace,
        .function_id = function_of(x),
        .data = before ? before : x->payload,
        .metadata = b->metadata,
        .traceparent = x->traceparent,
        .weight = before ? 0 : x->held,
    };
    struct trigger_answer a = {0};
    struct err err = {0};

    if (iii_take_rate_of_row(&q, &err) < 0) {
        trigger_answer_err(&a, &err);
        finish(x, &a, OUTCOME_ERROR);
        json_decref(before);
        return;
    }
    if (last) {
        offer_channels(x);
        q.data = x->payload;
    }
    atomic_fetch_add(&x->refs, 1);
    (void)atomic_fetch_add(&x->bound->unanswered, 1);
    iii_ask(x->t->hub, &q, on_answer, x);
    json_decref(before);
    if (last)
        payload_done(x);
}

/* The request's own end: nobody else answers it from here on. False when there is no answer. */
static bool close_exchange(struct exchange *x, struct trigger_answer *ret)
{
    struct trigger_stream *stream;
    bool answered;

    (void)pthread_mutex_lock(&x->lock);
    x->over = true;
    answered = x->outcome != OUTCOME_NONE;
    x->outcome = OUTCOME_NONE;
    *ret = x->answer;
    x->answer = (struct trigger_answer){0};
    stream = x->stream;
    x->stream = NULL;
    (void)pthread_mutex_unlock(&x->lock);
    trigger_stream_free(stream);
    budget_give(x->memory, x->kept);
    x->kept = 0;
    return answered;
}

static enum outcome outcome_of(struct exchange *x, int64_t *ret_silent_ns)
{
    enum outcome outcome;

    (void)pthread_mutex_lock(&x->lock);
    outcome = x->outcome;
    *ret_silent_ns = x->silent_ns;
    (void)pthread_mutex_unlock(&x->lock);
    return outcome;
}

/* ---- how a request ends ---- */

enum end {
    END_NOT,    /* it waits */
    END_ANSWER, /* by what the function gave back */
    END_LATE,
    END_BROKEN, /* before anything of a stream was sent */
    END_BUSY,   /* the function had no channel to write to */
    END_STREAM, /* all that there will be has been sent */
};

/* Until when a request waits for the channel of a function that has given back nothing. */
static int64_t comes_until(const struct exchange *x, int64_t silent_ns)
{
    int streams = atomic_load(&x->bound->streams);

    if (streams > 0)
        return x->until_ns;
    return silent_ns + (streams < 0 ? COMES_NOT_NS : COMES_NS);
}

/* Nobody has come to write. */
static enum end judge_unused(struct exchange *x, enum outcome outcome, int64_t silent_ns,
                             int64_t now, int64_t *ret_until_ns)
{
    int unknown = 0;

    if (outcome == OUTCOME_ANSWER)
        return END_ANSWER;
    if (outcome == OUTCOME_NONE)
        return now >= x->until_ns ? END_LATE : END_NOT;
    if (trigger_stream_was_refused(x->stream))
        return END_BUSY;
    *ret_until_ns = comes_until(x, silent_ns);
    if (now < *ret_until_ns)
        return END_NOT;
    (void)atomic_compare_exchange_strong(&x->bound->streams, &unknown, -1);
    return END_ANSWER;
}

/* The outcome is that of before things were moved: who came to write before the function gave
 * something back has come now. END_NOT: *ret_until_ns is when to look again; 0 = when there is
 * news. */
static enum end judge(struct exchange *x, enum outcome outcome, int64_t silent_ns, int64_t now,
                      int64_t *ret_until_ns)
{
    enum stream_state state = trigger_stream_state(x->stream);

    *ret_until_ns = x->until_ns;
    if (state != STREAM_UNUSED)
        atomic_store(&x->bound->streams, 1);
    if (state == STREAM_SENT || (outcome == OUTCOME_ERROR && trigger_stream_has_begun(x->stream)))
        return END_STREAM;
    if (outcome == OUTCOME_ERROR)
        return END_ANSWER;
    switch (state) {
    case STREAM_UNUSED:
        return judge_unused(x, outcome, silent_ns, now, ret_until_ns);
    case STREAM_EMPTY:
        if (outcome != OUTCOME_NONE)
            return END_ANSWER;
        break;
    case STREAM_LOST:
        return trigger_stream_has_begun(x->stream) ? END_STREAM : END_BROKEN;
    case STREAM_BEGUN:
        *ret_until_ns = 0; /* it may be silent as long as it likes */
        return END_NOT;
    case STREAM_OPEN:
    case STREAM_SENT:
        break;
    }
    return now >= x->until_ns ? END_LATE : END_NOT;
}

/* The last of it; the client is there. */
static void end_request(struct http_req *req, struct exchange *x, enum end end)
{
    struct trigger_answer a = {0};
    bool answered = close_exchange(x, &a);

    if (end == END_BROKEN || end == END_BUSY || (end == END_LATE && answered)) {
        trigger_answer_done(&a);
        answered = false;
    }
    if (end == END_BROKEN)
        trigger_answer_error(&a, 500, "INTERNAL_ERROR", "what the function streamed broke off",
                             false);
    else if (end == END_BUSY)
        trigger_answer_error(&a, 503, "busy",
                             "as many channels are open as there may be; try again later", false);
    else if (!answered)
        trigger_answer_error(&a, 504, "TIMEOUT", "the function has not answered in time", false);
    if (end != END_STREAM) {
        if (a.len > SHORT_ANSWER)
            http_unpark(req);
        send_answer(req, &a);
    }
    trigger_answer_done(&a);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

static bool step(struct http_req *req, unsigned news, struct http_wait *wait, void *arg)
{
    struct exchange *x = arg;
    struct trigger_answer a;
    int64_t now = mono_ns(), silent_ns, until;
    enum outcome outcome = outcome_of(x, &silent_ns);
    enum end end;

    if (news & HTTP_GONE) {
        (void)close_exchange(x, &a);
        trigger_answer_done(&a);
        exchange_unref(x);
        return false;
    }
    if (trigger_stream_move(x->stream, now + TURN_NS))
        x->until_ns = mono_ns() + x->t->http_ns;
    end = judge(x, outcome, silent_ns, now, &until);
    if (end == END_NOT) {
        *wait = (struct http_wait){.fd = -1,
                                   .input = trigger_stream_wants_input(x->stream),
                                   .patience_ms = PATIENCE_MS,
                                   .until_ns = sooner(until, trigger_stream_due_ns(x->stream))};
        return true;
    }
    end_request(req, x, end);
    exchange_unref(x);
    return false;
}

/* What was taken of a request before anybody is asked. */
struct taken {
    const char *body; /* NULL = it is still to be taken */
    size_t len;
    size_t held, kept; /* of the memory, for what body and query become and for the body itself */
};

/* Takes the binding and what was taken of the memory. */
static struct exchange *exchange_new(struct http_req *req, struct iii_hub *hub, struct bound *b,
                                     const struct caller *caller, const struct taken *taken)
{
    struct exchange *x = xcalloc(1, sizeof(*x));
    const char *traceparent = http_req_header(req, "traceparent");

    atomic_init(&x->refs, 1);
    (void)pthread_mutex_init(&x->lock, NULL);
    x->req = req;
    x->until_ns = mono_ns() + hub->triggers->http_ns;
    x->t = triggers_ref(hub->triggers);
    x->bound = b;
    x->memory = hub->config.memory;
    x->payload = payload_of(req, b, caller, taken->body, taken->len);
    x->held = taken->held;
    x->kept = taken->kept;
    x->traceparent = traceparent ? xstrdup(traceparent) : NULL;
    x->stage = b->condition_id ? -1 : 0;
    x->stream = trigger_stream_new(req, hub->channels, b->speaker, taken->body, taken->len);
    return x;
}

static void answer_now(struct http_req *req, struct trigger_answer *a)
{
    send_answer(req, a);
    trigger_answer_done(a);
}

/* It need not be parked for that. */
static bool is_answered(struct exchange *x)
{
    int64_t silent_ns;
    enum outcome outcome = outcome_of(x, &silent_ns);

    return (outcome == OUTCOME_ANSWER || outcome == OUTCOME_ERROR) &&
           !trigger_stream_has_come(x->stream);
}

static void exchange_run(struct exchange *x)
{
    struct http_wait wait = {.fd = -1, .until_ns = x->until_ns};
    struct http_req *req = x->req;
    struct err err = {0};
    struct trigger_answer a;

    ask_next(x);
    if (!is_answered(x) && http_park(req, &wait, step, x, &err) == 0)
        return;
    if (!close_exchange(x, &a))
        trigger_answer_err(&a, &err);
    answer_now(req, &a);
    exchange_unref(x);
}

/* A function that never answers leaves its calls behind when their requests have ended. They count
 * among those of all, so one binding does not get them all. One that streams would be called in
 * vain when it cannot have its channels. */
static int check_answers(const struct iii_hub *hub, const struct bound *b, struct err *err)
{
    if (atomic_load(&b->unanswered) >= UNANSWERED_MAX)
        return err_code(err, ERR_UNAVAILABLE, "busy",
                        "the function does not answer; try again later");
    if (atomic_load(&b->streams) > 0 && !channel_has_room(hub->channels, b->speaker->share, 2))
        return err_code(err, ERR_UNAVAILABLE, "busy",
                        "as many channels are open as there may be; try again later");
    return 0;
}

/* As over a connection: who may not call what other clients have registered does not get it called
 * by a request either. */
static int check_caller(const struct caller *caller, struct err *err)
{
    if (iii_may_call(caller))
        return 0;
    return err_code(err, ERR_FORBIDDEN, "scope_missing",
                    "this token may not call functions of other clients");
}

static void refuse_method(struct http_req *req, const struct buf *allow)
{
    struct trigger_answer a;

    trigger_answer_error(&a, 405, "METHOD_NOT_ALLOWED", "this path is not bound for that method",
                         false);
    http_reply_header(req, "Allow", allow->data);
    answer_now(req, &a);
}

/* Each becomes a value, as those of a body do. */
static size_t query_weight(const char *query)
{
    size_t weight = strlen(query);

    for (; *query; query++)
        weight += *query == '&' ? INPUT_VALUE_SIZE : 0;
    return weight;
}

/* JSON is read before anybody is asked, and so is what is short; the rest comes as it comes. */
static bool is_passed(const struct http_req *req)
{
    int64_t len = http_req_length(req);

    return (len < 0 || len > BODY_MAX) && !is_json_type(http_req_header(req, "Content-Type"));
}

static size_t unless_short(size_t bytes)
{
    return bytes > SHORT_ANSWER ? bytes : 0;
}

/* The body, a seat, and memory for what body and query become. */
static int take_request(struct http_req *req, struct budget *memory, struct taken *ret,
                        struct err *err)
{
    bool passed = is_passed(req);

    *ret = (struct taken){0};
    if ((!passed && http_req_body(req, BODY_MAX, &ret->body, &ret->len, err) < 0) ||
        http_seat_take(req, err) < 0)
        return -1;
    if (passed)
        http_pass(req);
    ret->kept = unless_short(ret->len);
    ret->held = unless_short(ret->len + input_weight(ret->body, ret->len) +
                             query_weight(http_req_query(req)));
    if (budget_take(memory, ret->held + ret->kept))
        return 0;
    return err_code(err, ERR_UNAVAILABLE, "busy", "there is no memory for the request now");
}

bool iii_handle_http(struct http_req *req, const struct caller *caller, struct iii_hub *hub)
{
    const char *path = http_req_path(req), *method = http_req_method(req);
    struct err err = {0};
    auto_buf struct buf allow = {0};
    struct trigger_answer a;
    struct taken taken;
    struct bound *b;

    buf_init(&allow, 256);
    path += *path == '/';
    b = trigger_path_find(hub->triggers, method, path, &allow);
    if (!b && strcmp(method, "HEAD") == 0) /* all of an answer but its body, which is not sent */
        b = trigger_path_find(hub->triggers, "GET", path, &allow);
    if (!b && allow.len == 0)
        return false;
    if (!b) {
        refuse_method(req, &allow);
    } else if (check_caller(caller, &err) < 0 || check_answers(hub, b, &err) < 0 ||
               take_request(req, hub->config.memory, &taken, &err) < 0) {
        trigger_answer_err(&a, &err);
        answer_now(req, &a);
        bound_unref(b);
    } else {
        exchange_run(exchange_new(req, hub, b, caller, &taken));
    }
    return true;
}
