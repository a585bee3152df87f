#include "rest/serve.h"

#include <string.h>
#include <sys/epoll.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "functions/callers.h"
#include "functions/errors.h"
#include "functions/function.h"
#include "functions/input.h"
#include "http/server.h"
#include "http/websocket.h"
#include "model/shape.h"
#include "rest/answer.h"
#include "rest/attached.h"
#include "rest/proxy_internal.h"
#include "rest/query.h"
#include "rest/rest.h"
#include "rest/rest_internal.h"
#include "rest/route.h"
#include "rest/socket.h"
#include "rest/sse.h"

/* What the REST face does with a call: how its input comes and its answer leaves is decided by the
 * row and by what the client accepts; the function sees only the sink and the source.
 *
 * A function that leaves a task is not done. Most commands are done within milliseconds, so the
 * worker waits for those a moment itself, if not too many do; everything else is parked. */

#define BODY_MAX        (1u << 20)
#define JSON_FILE_MAX   (16u << 20) /* of a file that is sent inside JSON */
#define INPUT_FREE      (64u << 10) /* what the memory budget is not asked for */
#define PATIENCE_NS     (20 * 1000000ll)
#define PATIENT_MAX     64
#define TURN_NS         (1 * 1000000ll)
#define STEP_MEMORY     (384u << 10) /* what a step may leave unsent: 64 KiB, each byte escaped */
#define MEMORY_AGAIN_NS (50 * 1000000ll)

enum mode { MODE_ANSWER, MODE_BYTES, MODE_EVENTS, MODE_ATTACH, MODE_SOCKET, MODE_DIAL };

struct served {
    struct sink sink; /* first: the sink's functions get it */
    struct call call;
    struct caller caller;
    struct rest *rest;
    struct http_req *req;
    const struct function *function;
    enum mode mode;
    struct answer answer;
    struct sse sse;
    struct attached attached;
    struct socket socket;
    size_t below; /* where in the request's path the row's route begins */
    char *path;   /* of the request, for the log, once it is parked */
    bool rate_told;
    bool entered;        /* the function was called */
    size_t reserved;     /* of the budget of streams, while something is unsent */
    size_t input_memory; /* of the budget of memory, for call.in */
};

/* ---- failures ---- */

/* more: what a function has left that belongs to the failure (NULL = nothing), with its texts. */
static void send_error(struct http_req *req, const struct err *err, const char *path, json_t *more,
                       const struct text *texts)
{
    int status = error_status(err->kind);
    json_t *body = error_told(err, http_req_method(req), path);
    struct answer a;

    if (status == 401)
        http_reply_header(req, "WWW-Authenticate", "Bearer");
    if (status == 429 || status == 503 || err->retry_s) {
        char wait[16];

        (void)snprintf(wait, sizeof(wait), "%u", err->retry_s ? err->retry_s : 1);
        http_reply_header(req, "Retry-After", wait);
    }
    if (more)
        (void)json_object_update_missing(body, more);
    answer_init(&a, req, NULL);
    a.status = status;
    if (answer_json(&a, body, more ? texts : NULL) == 0)
        answer_end(&a);
    answer_done(&a);
    json_decref(body);
}

void serve_error(struct http_req *req, const struct err *err)
{
    send_error(req, err, http_req_path(req), NULL, NULL);
}

/* ---- the sink ---- */

/* Ahead of any answer: one that breaks off leaves its caller with a way back. */
static void tell_exec_id(struct served *s)
{
    if (s->call.exec_id[0] && http_req_status(s->req) == 0)
        http_reply_header(s->req, "X-Exec-Id", s->call.exec_id);
}

void serve_rate(struct http_req *req, const struct rate_state *rate)
{
    char text[64];

    if (rate->limit == 0 || http_req_status(req) != 0)
        return;
    (void)snprintf(text, sizeof(text), "%u", rate->limit);
    http_reply_header(req, "RateLimit-Limit", text);
    (void)snprintf(text, sizeof(text), "%u", rate->remaining);
    http_reply_header(req, "RateLimit-Remaining", text);
    (void)snprintf(text, sizeof(text), "%u", rate->reset_s);
    http_reply_header(req, "RateLimit-Reset", text);
    (void)snprintf(text, sizeof(text), "%u;w=60;burst=%u", rate->per_minute, rate->limit);
    http_reply_header(req, "RateLimit-Policy", text);
}

/* Once, when all is known of it. */
static void tell_rate(struct served *s)
{
    if (!s->rate_told)
        serve_rate(s->req, &s->call.rate);
    s->rate_told = true;
}

static void on_rate(struct call *call)
{
    tell_rate((struct served *)((char *)call - offsetof(struct served, call)));
}

static void tell_replayed(struct served *s)
{
    if (s->call.replayed && http_req_status(s->req) == 0)
        http_reply_header(s->req, "Idempotent-Replayed", "true");
}

static int on_attached_event(struct served *s, const json_t *event)
{
    const json_t *pid = json_object_get(event, "pid");

    if (pid)
        return attached_started(&s->attached, (uint32_t)json_integer_value(pid));
    return attached_lost(&s->attached,
                         (uint64_t)json_integer_value(json_object_get(event, "lost")));
}

static int on_event(struct sink *sink, json_t *event)
{
    struct served *s = (struct served *)sink;
    int r = 0;

    tell_exec_id(s);
    if (s->mode == MODE_EVENTS)
        return event ? sse_send(&s->sse, event) : sse_ping(&s->sse);
    if (s->mode == MODE_ATTACH && event)
        r = on_attached_event(s, event);
    if (s->mode == MODE_SOCKET)
        r = socket_event(&s->socket, event);
    json_decref(event);
    return r;
}

static int on_bytes(struct sink *sink, enum channel channel, const void *data, size_t len)
{
    struct served *s = (struct served *)sink;

    if (s->mode == MODE_ATTACH)
        return attached_output(&s->attached, channel, data, len);
    if (s->mode == MODE_SOCKET)
        return socket_output(&s->socket, data, len);
    if (s->mode == MODE_BYTES)
        return answer_raw(&s->answer, data, len);
    if (s->function->answer == ANSWER_TEXT)
        return answer_text(&s->answer, data, len);
    return answer_base64(&s->answer, data, len);
}

static int on_size(struct sink *sink, uint64_t bytes, struct err *err)
{
    struct served *s = (struct served *)sink;

    if (s->mode == MODE_BYTES)
        s->answer.length = (int64_t)bytes;
    else if (bytes > JSON_FILE_MAX)
        return err_code(err, ERR_TOO_LARGE, "file_too_large",
                        "the file is larger than %u MiB; use download with Accept: "
                        "application/octet-stream",
                        JSON_FILE_MAX >> 20);
    return 0;
}

static int on_item(struct sink *sink, json_t *item)
{
    struct served *s = (struct served *)sink;
    int r = answer_item(&s->answer, item);

    json_decref(item);
    return r;
}

/* Only rows whose answer is events have such. */
static int on_stream(struct sink *sink, const char *text, size_t len)
{
    struct served *s = (struct served *)sink;

    return sse_send_text(&s->sse, text, len);
}

/* From another thread, while nobody owns the request. One whose token has ended is woken, and ends.
 */
static bool on_tell_begin(struct sink *sink)
{
    struct served *s = (struct served *)sink;

    return caller_token_live(s->rest->services, s->caller.token_id) && http_tell_begin(s->req);
}

static bool on_tell_end(struct sink *sink, const char *text, size_t len)
{
    struct served *s = (struct served *)sink;

    if (text)
        (void)sse_send_text(&s->sse, text, len);
    return http_tell_end(s->req);
}

static const struct sink_ops sink_ops = {.event = on_event,
                                         .bytes = on_bytes,
                                         .size = on_size,
                                         .item = on_item,
                                         .stream = on_stream,
                                         .tell_begin = on_tell_begin,
                                         .tell_end = on_tell_end};

/* ---- input ---- */

static bool is_type(const char *header, const char *type)
{
    size_t len = strlen(type);

    return header && strncasecmp(header, type, len) == 0 && strchr(";, \t", header[len]);
}

static enum mode choose_mode(const struct function *f, const char *accept)
{
    switch (f->answer) {
    case ANSWER_EVENTS:
        return MODE_EVENTS;
    case ANSWER_ATTACH:
        return MODE_ATTACH;
    case ANSWER_SOCKET:
        return MODE_SOCKET;
    case ANSWER_DIAL:
        return MODE_DIAL;
    case ANSWER_TAR:
    case ANSWER_CAST:
    case ANSWER_PROMETHEUS:
        return MODE_BYTES;
    case ANSWER_BYTES:
        return http_prefers(accept, "application/octet-stream", "application/json") ? MODE_BYTES
                                                                                    : MODE_ANSWER;
    case ANSWER_JSON:
    case ANSWER_LIST:
    case ANSWER_TEXT:
        break;
    }
    if ((f->flags & FUNCTION_EVENTS) &&
        http_prefers(accept, "text/event-stream", "application/json"))
        return MODE_EVENTS;
    return MODE_ANSWER;
}

/* A body with many small values becomes much larger than its text. */
static int take_input_memory(struct served *s, size_t bytes, struct err *err)
{
    if (bytes <= INPUT_FREE)
        return 0;
    if (!budget_take(s->rest->config->memory, bytes)) /* it holds memory for the text already */
        return err_code(err, ERR_UNAVAILABLE, "busy",
                        "the daemon holds as much of other callers' data as it may; send it again");
    s->input_memory = bytes;
    return 0;
}

static void drop_input(struct served *s)
{
    json_decref(s->call.in);
    s->call.in = NULL;
    budget_give(s->rest->config->memory, s->input_memory);
    s->input_memory = 0;
}

static int add_body(struct served *s, struct err *err)
{
    const char *type = http_req_header(s->req, "Content-Type"), *text;
    size_t len;

    if (s->call.uploads)
        return 0;
    text = http_req_body(s->req, &len);
    /* A web page can send other types without asking first; JSON it cannot. */
    if (len > 0 && type && !is_type(type, "application/json"))
        return err_code(err, ERR_INVALID, "bad_content_type",
                        "the body must be sent with Content-Type: application/json");
    if (take_input_memory(s, input_weight(text, len), err) < 0)
        return -1;
    return body_add(s->call.in, text, len, err);
}

/* What a client that comes back to a stream has seen last, as browsers tell it. */
static void add_last_event(struct served *s)
{
    const char *id = http_req_header(s->req, "Last-Event-ID");

    if (id && *id && field_find(s->function->fields, "lastEventId") &&
        !json_object_get(s->call.in, "lastEventId"))
        (void)json_object_set_new(s->call.in, "lastEventId", json_string(id));
}

static int read_input(struct served *s, struct err *err)
{
    const struct function *f = s->function;
    json_t *params;
    int r;

    if (query_add(s->call.in, http_req_query(s->req), f->fields, err) < 0 || add_body(s, err) < 0)
        return -1;
    add_last_event(s);
    params = route_params(f, http_req_path(s->req) + s->below, err);
    if (!params)
        return -1;
    r = input_check(s->call.in, f->fields, params, err);
    json_decref(params);
    return r;
}

/* Who comes with a key may have to wait for another who did. */
static bool may_wait(const struct served *s)
{
    unsigned flags = s->function->flags;

    return (flags & FUNCTION_WAITS) || ((flags & FUNCTION_MAKES) && s->call.key);
}

static const char *bytes_type(enum answer_kind answer)
{
    if (answer == ANSWER_TAR)
        return "application/x-tar";
    if (answer == ANSWER_CAST)
        return "application/x-asciicast";
    return answer == ANSWER_PROMETHEUS ? PROMETHEUS_TYPE : "application/octet-stream";
}

static int prepare(struct served *s, struct err *err)
{
    const struct function *f = s->function;

    if (read_input(s, err) < 0 || (f->answer == ANSWER_ATTACH && attached_check(s->req, err) < 0) ||
        (f->answer == ANSWER_DIAL && proxy_dial_check(s->req, err) < 0) ||
        (f->answer == ANSWER_SOCKET && socket_init(&s->socket, s->req, !f->events, err) < 0) ||
        (may_wait(s) && http_seat_take(s->req, err) < 0))
        return -1;
    if (s->mode == MODE_BYTES) {
        s->answer.type = bytes_type(f->answer);
        http_reply_header(s->req, "X-Content-Type-Options", "nosniff");
    }
    if (s->mode == MODE_ATTACH)
        attached_init(&s->attached, s->req, json_is_true(json_object_get(s->call.in, "stdin")));
    return 0;
}

/* ---- the end ---- */

static void end_answer(struct served *s)
{
    struct answer *a = &s->answer;
    int r = 0;

    if (s->mode == MODE_BYTES) {
        r = 0;
    } else if (s->function->answer == ANSWER_TEXT) {
        r = answer_end_text(a);
    } else if (s->function->answer == ANSWER_BYTES) {
        r = answer_end_base64(a);
    } else if (s->function->answer == ANSWER_LIST) {
        r = answer_end_list(a);
    } else {
        r = answer_json(a, s->call.out, s->call.texts);
    }
    if (r == 0)
        answer_end(a);
}

static void end_events(struct served *s)
{
    const struct function *f = s->function;
    int r = 0;

    if (f->flags & FUNCTION_EVENTS)
        r = sse_send(&s->sse, json_pack("{s:s, s:O}", "event", f->done, f->key, s->call.out));
    if (r == 0)
        sse_end(&s->sse);
}

static void end_well(struct served *s)
{
    if (s->mode == MODE_EVENTS)
        end_events(s);
    else if (s->mode == MODE_ATTACH)
        attached_exit(&s->attached, s->call.out);
    else if (s->mode == MODE_SOCKET)
        socket_exit(&s->socket, s->call.out);
    else
        end_answer(s);
}

/* What was begun cannot become a failure any more; where events tell of failures, it is one. */
static void end_badly(struct served *s, const struct err *err)
{
    const char *path = s->path ? s->path : http_req_path(s->req);

    if (s->attached.upgraded) {
        if (error_status(err->kind) >= 500) /* else the sandbox was removed, or the like */
            log_error("an attached command was lost", "error", err->text);
        attached_error(&s->attached, err);
    } else if (s->socket.ws) {
        if (err->kind == ERR_INTERNAL)
            log_error("a terminal's viewer was lost", "error", err->text);
        socket_error(&s->socket, err);
    } else if (s->sse.begun) {
        json_t *event = error_told(err, http_req_method(s->req), path);

        if (s->function->flags & FUNCTION_EVENTS) {
            if (s->call.out)
                (void)json_object_update_missing(event, s->call.out);
            (void)json_object_set_new(event, "event", json_string("error"));
            (void)json_object_set_new(event, "status", json_integer(error_status(err->kind)));
            if (sse_send(&s->sse, json_incref(event)) == 0)
                sse_end(&s->sse);
        }
        json_decref(event);
    } else if (!s->answer.begun) {
        send_error(s->req, err, path, s->call.out, s->call.texts);
    }
}

static void served_free(struct served *s)
{
    drop_input(s);
    call_done(&s->call);
    answer_done(&s->answer);
    attached_done(&s->attached);
    socket_done(&s->socket);
    budget_give_share(s->rest->config->streams, s->caller.name, s->reserved);
    free(s->path);
    free(s);
}

static void finish(struct served *s, int r, const struct err *err)
{
    tell_exec_id(s);
    tell_replayed(s);
    tell_rate(s);
    /* Before the answer: who has that finds what is remembered of its call. */
    function_end(&s->call, r, err);
    if (r < 0)
        end_badly(s, err);
    else
        end_well(s);
    served_free(s);
}

/* ---- tasks ---- */

/* As far as it goes without waiting. Only while the client has taken everything: nothing piles up.
 * And not for long: a command that floods would keep its worker, and hundreds of them would keep
 * everybody else waiting for their turn. */
static int step(struct served *s, struct err *err)
{
    int64_t end = mono_ns() + TURN_NS;
    struct task *t = s->call.task;
    int r;

    do
        r = t->ops->step(t, &s->call, err);
    while (r == TASK_AGAIN && http_unsent(s->req) == 0 && mono_ns() < end);
    return r;
}

/* Does what the client sends go to the task now? */
static bool takes_input(const struct served *s)
{
    const struct task *t = s->call.task;

    if (s->socket.ws)
        return t->takes_input && websocket_takes(s->socket.ws);
    return s->attached.upgraded && t->takes_input;
}

/* After a step that said r. */
static void set_wait(const struct served *s, int r, struct http_wait *wait)
{
    const struct task *t = s->call.task;

    *wait = (struct http_wait){
        .fd = t->fd,
        .events = http_unsent(s->req) ? t->events & EPOLLOUT : t->events,
        .input = takes_input(s),
        .until_ns = t->until_ns,
    };
    if (s->mode == MODE_EVENTS && s->sse.begun &&
        (!wait->until_ns || sse_ping_ns(&s->sse) < wait->until_ns))
        wait->until_ns = sse_ping_ns(&s->sse);
    if (s->socket.ws && (!wait->until_ns || websocket_ping_ns(s->socket.ws) < wait->until_ns))
        wait->until_ns = websocket_ping_ns(s->socket.ws);
    if (s->caller.token_id[0] && (!wait->until_ns || wait->until_ns > mono_ns() + CALLER_LIVE_NS))
        wait->until_ns = mono_ns() + CALLER_LIVE_NS;
    if (r == TASK_AGAIN && http_unsent(s->req) == 0)
        wait->until_ns = 1; /* at once, behind those who wait for their turn */
}

/* Room for what a step may leave unsent; without it the step waits. One that collects an answer
 * leaves nothing. */
static bool take_memory(struct served *s)
{
    if (s->mode == MODE_ANSWER || http_unsent(s->req) > 0)
        return true;
    if (s->reserved < STEP_MEMORY) {
        if (!budget_take_share(s->rest->config->streams, s->caller.name, STEP_MEMORY - s->reserved))
            return false;
        s->reserved = STEP_MEMORY;
    }
    return true;
}

/* But for what is there of both directions. */
static void give_memory(struct served *s)
{
    size_t keep = http_unsent(s->req) + s->attached.in.len + s->call.task->held;

    if (s->socket.ws)
        keep += websocket_held(s->socket.ws);
    if (keep < s->reserved)
        budget_give_share(s->rest->config->streams, s->caller.name, s->reserved - keep);
    else
        budget_add_share(s->rest->config->streams, s->caller.name, keep - s->reserved);
    s->reserved = keep;
}

/* The client's input first: it may be what the command waits for. It goes on while the client does
 * not read, as output does while the command does not. */
static int pass_input(struct served *s, struct err *err)
{
    struct task *t = s->call.task;

    if (!s->attached.upgraded && !s->socket.ws)
        return 0;
    if (!t->takes_input && t->ops->input(t, NULL, err) < 0)
        return -1;
    if (!t->takes_input)
        return 0;
    return s->socket.ws ? socket_input(&s->socket, t, err) : attached_input(&s->attached, t, err);
}

static int check_token(const struct served *s, struct err *err)
{
    if (caller_token_live(s->rest->services, s->caller.token_id))
        return 0;
    return err_code(err, ERR_FORBIDDEN, "invalid_token", "the token was revoked or has expired");
}

static int go_ahead(struct served *s, struct err *err)
{
    const struct task *t = s->call.task;
    int r = TASK_WAITS;

    if (check_token(s, err) < 0)
        return -1;
    /* Who has a WebSocket comes back, so it is told to. */
    if (s->socket.ws && s->call.draining)
        return err_code(err, ERR_UNAVAILABLE, "restarting",
                        "the daemon is about to end or to be replaced; come back in a moment");
    do {
        if (pass_input(s, err) < 0)
            return -1;
        if (http_unsent(s->req) > 0)
            return TASK_WAITS;
        r = step(s, err);
    } while (r > 0 && t->takes_input &&
             (attached_has_frame(&s->attached) || socket_has_message(&s->socket)));
    if (r > 0 && s->socket.ws && websocket_keep_alive(s->socket.ws, takes_input(s)) < 0)
        return err_code(err, ERR_CONFLICT, "cancelled", "the client does not answer any more");
    return r;
}

/* Passes on what the client sent before it closed the connection: keys that were typed just before
 * `cay attach` was left are for the command, which goes on. */
static void take_last_input(struct served *s)
{
    if (check_token(s, NULL) == 0)
        (void)pass_input(s, NULL);
}

static bool on_news(struct http_req *req, unsigned news, struct http_wait *wait, void *arg)
{
    struct served *s = arg;
    struct err err = {0};
    int r;

    if (news & HTTP_GONE) {
        take_last_input(s);
        (void)err_code(&err, ERR_CONFLICT, "cancelled", "the client has gone");
        function_end(&s->call, -1, &err);
        served_free(s); /* ends what it waited for */
        return false;
    }
    s->call.draining |= (news & HTTP_DRAIN) != 0;
    if (!take_memory(s)) {
        *wait = (struct http_wait){.fd = -1, .until_ns = mono_ns() + MEMORY_AGAIN_NS};
        return true;
    }
    r = go_ahead(s, &err);
    give_memory(s);
    if (r > 0) {
        if (s->mode == MODE_EVENTS && s->sse.begun && http_unsent(req) == 0)
            (void)sse_ping(&s->sse);
        set_wait(s, r, wait);
        return true;
    }
    http_unpark(req);
    finish(s, r, &err);
    return false;
}

/* The rest is up to on_news(). */
static int park(struct served *s, int r, struct err *err)
{
    struct http_wait wait;

    s->path = xstrdup(http_req_path(s->req));
    drop_input(s);
    set_wait(s, r, &wait);
    return http_park(s->req, &wait, on_news, s, err);
}

/* 0 or -1 when the call is over, TASK_WAITS when it was parked. */
static int go_on(struct served *s, struct err *err)
{
    int r = TASK_WAITS;

    if (s->mode == MODE_ANSWER) {
        if (atomic_fetch_add(&s->rest->patient, 1) < PATIENT_MAX)
            r = call_wait(&s->call, mono_ns() + PATIENCE_NS, err);
        atomic_fetch_sub(&s->rest->patient, 1);
    } else if (s->mode == MODE_EVENTS) {
        r = step(s, err);
    }
    if (r <= 0)
        return r;
    return park(s, r, err) < 0 ? -1 : TASK_WAITS;
}

/* ---- one call ---- */

static bool client_gone(void *req)
{
    return http_client_gone(req);
}

static struct served *served_new(struct rest *rest, struct http_req *req, const struct function *f,
                                 const struct caller *caller, const struct rate_state *rate)
{
    struct served *s = xcalloc(1, sizeof(*s));

    s->sink.ops = &sink_ops;
    s->rest = rest;
    s->req = req;
    s->function = f;
    s->caller = *caller;
    s->mode = choose_mode(f, http_req_header(req, "Accept"));
    s->sse.req = req;
    answer_init(&s->answer, req, NULL);
    s->call = (struct call){
        .events = s->mode == MODE_EVENTS,
        .engine = rest->engine,
        .services = rest->services,
        .about = &rest->about,
        .caller = &s->caller,
        .in = json_object(),
        .sink = &s->sink,
        .rates = rate->limit > 0 ? rest->rates : NULL,
        .rate = *rate,
        .on_rate = on_rate,
        .gone_fd = http_req_fd(req),
        .gone = client_gone,
        .gone_arg = req,
        .traceparent = http_req_header(req, "traceparent"),
        .tracestate = http_req_header(req, "tracestate"),
    };
    function_begin(f, &s->call);
    return s;
}

/* From here on the request is the connection's. */
static int dial(struct served *s, struct err *err)
{
    const char *id = json_string_value(json_object_get(s->call.in, "sandboxId"));
    const char *port = json_string_value(json_object_get(s->call.in, "port"));

    if (proxy_dial(s->rest, s->req, id, (uint16_t)strtoul(port, NULL, 10), s->caller.token_id,
                   err) < 0)
        return -1;
    function_end(&s->call, 0, NULL);
    served_free(s);
    return TASK_WAITS;
}

static int enter(struct served *s, struct err *err)
{
    s->entered = true;
    /* Not before: strings of the request may move while its body is waited for. */
    s->call.key = http_req_header(s->req, "Idempotency-Key");
    s->call.traceparent = http_req_header(s->req, "traceparent");
    s->call.tracestate = http_req_header(s->req, "tracestate");
    if (!s->call.uploads && prepare(s, err) < 0)
        return -1;
    return function_run(s->function, &s->call, err);
}

/* The bytes of an upload: the function is not called before there are some. */
static int on_piece(const char *data, size_t len, void *arg, struct err *err)
{
    struct served *s = arg;

    if (!s->entered && enter(s, err) < 0)
        return -1;
    return call_take(&s->call, data, len, err);
}

static void on_received(struct http_req *req, const struct err *why, void *arg)
{
    struct served *s = arg;
    struct err err = why ? *why : (struct err){0};
    int r = why ? -1 : check_token(s, &err); /* the body may have taken any time */

    (void)req;
    if (r == 0 && !s->entered)
        r = enter(s, &err);
    if (r == 0)
        r = call_taken(&s->call, &err);
    if (r == 0 && s->call.task)
        r = go_on(s, &err);
    else if (r == 0 && s->mode == MODE_DIAL)
        r = dial(s, &err);
    if (r <= 0)
        finish(s, r, &err);
}

void serve_call(struct rest *rest, struct http_req *req, const struct function *f, const char *path,
                const struct caller *caller, const struct rate_state *rate)
{
    struct http_receiver to = {.max = f->body_max ? f->body_max : BODY_MAX, .then = on_received};
    struct served *s = served_new(rest, req, f, caller, rate);
    struct err err = {0};

    if (function_check(f, caller, &err) < 0) {
        finish(s, -1, &err);
        return;
    }
    s->below = (size_t)(path - http_req_path(req));
    s->call.uploads = (f->flags & FUNCTION_RAW_IN) &&
                      is_type(http_req_header(req, "Content-Type"), "application/octet-stream");
    if (s->call.uploads) { /* all the input is here, in the query */
        to.piece = on_piece;
        if (prepare(s, &err) < 0) {
            finish(s, -1, &err);
            return;
        }
    }
    http_receive(req, &to, s);
}
