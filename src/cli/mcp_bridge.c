#include "cli/mcp_bridge.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/command.h"
#include "http/client.h"

/* Each request is a POST on a connection of its own, in a thread of its own, so that none waits for
 * another; one that the client cancels is hung up on, which cancels it in the daemon. In revisions
 * with sessions another thread has the session's stream.
 *
 * The session is the bridge's to keep. A daemon that was started anew does not know it: then the
 * bridge begins another, with all that the client has said (initialize, subscriptions, the level of
 * messages), and sends again what the daemon refused. What was on its way when a daemon ended is
 * answered with an error: whether it was done is not known. */

#define LINE_BYTES      (32u << 20)
#define ANSWER_MAX      (64u << 20)
#define REQUESTS_MAX    64
#define STACK_BYTES     (2u << 20)          /* JSON that is as deep as it may be takes half a MiB */
#define RETRY_NS        (15 * 1000000000ll) /* while a daemon is being replaced nobody listens */
#define RETRY_MS        100
#define SILENCE_MS      20000 /* of a daemon, where nothing else goes on until it has answered */
#define LAST_WORDS_MS   1500  /* for what is on its way when stdin ends */
#define STREAM_AGAIN_MS 1000
#define SESSION_SIZE    64

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define OWN_ID       "cay-bridge"

struct request {
    struct bridge *bridge;
    json_t *message; /* for what it says; */
    char *text;      /* what is sent */
    int stop;        /* becomes readable when it is cancelled */
    struct request *prev, *next;
};

struct bridge {
    const char *target, *token, *path;
    pthread_mutex_t out;

    pthread_mutex_t begin; /* held while a session is begun */

    pthread_mutex_t lock; /* of what is below */
    pthread_cond_t changed;
    char session[SESSION_SIZE], version[32]; /* "" = none */
    json_t *initialize, *level, *subscribed; /* what the client said; the last by URI */
    struct request *requests;
    unsigned n_requests;
    bool has_stream;
    pthread_t stream;
    int stop; /* becomes readable at the end */
};

/* ---- stdout ---- */

/* Whoever started us may have left pipes that do not block. */
static void await(int fd, short events)
{
    (void)poll(&(struct pollfd){.fd = fd, .events = events}, 1, -1);
}

static int write_out(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, text, len);

        if (n < 0 && errno == EAGAIN)
            await(STDOUT_FILENO, POLLOUT);
        else if (n < 0 && errno != EINTR)
            return -errno;
        text += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void put_line(struct bridge *b, const char *text, size_t len)
{
    (void)pthread_mutex_lock(&b->out);
    if (write_out(text, len) < 0 || write_out("\n", 1) < 0)
        _exit(STATUS_OK); /* the client has gone */
    (void)pthread_mutex_unlock(&b->out);
}

static void put_json(struct bridge *b, json_t *message)
{
    auto_free char *text = json_dumps(message, JSON_COMPACT);

    put_line(b, text, strlen(text));
    json_decref(message);
}

/* The text may be of something that is no daemon, or cut in the middle of a character. */
static void put_error(struct bridge *b, json_t *id, int code, const char *text)
{
    auto_buf struct buf clean = {0};

    if (!id)
        return;
    buf_init(&clean, 3 * strlen(text) + 3); /* U+FFFD is three bytes */
    (void)utf8_clean(&clean, text, strlen(text));
    put_json(b, json_pack("{s:s, s:O, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error", "code",
                          code, "message", clean.data ? clean.data : ""));
}

/* What a daemon says may have a NUL in its strings: commands put them out. */
static json_t *read_json(const char *text, size_t len)
{
    return json_loadb(text, len, JSON_ALLOW_NUL, NULL);
}

/* An answer, which is a line whatever way it was written. */
static void put_answer(struct bridge *b, json_t *id, const char *text, size_t len)
{
    json_t *message = read_json(text, len);

    if (!message)
        put_error(b, id, -32603, "the answer is no JSON: is it a cay daemon?");
    else if (memchr(text, '\n', len))
        put_json(b, json_incref(message));
    else
        put_line(b, text, len);
    json_decref(message);
}

/* ---- one request ---- */

static const char *text_in(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static const char *own_version(const json_t *message)
{
    return text_in(json_object_get(json_object_get(message, "params"), "_meta"), META_VERSION);
}

/* As a header it is plain ASCII, or base64 that says so. */
static void add_name(struct http_client *c, const char *name)
{
    auto_buf struct buf plain = {0};
    bool safe =
        *name != ' ' && (!*name || name[strlen(name) - 1] != ' ') && !str_starts(name, "=?base64?");

    for (const char *p = name; *p; p++)
        safe &= *p >= 0x20 && *p < 0x7f;
    if (safe) {
        http_client_header(c, "Mcp-Name", name);
        return;
    }
    buf_init(&plain, 2 * strlen(name) + 64);
    (void)buf_add_str(&plain, "=?base64?");
    (void)base64_encode(&plain, name, strlen(name));
    (void)buf_add_str(&plain, "?=");
    http_client_header(c, "Mcp-Name", plain.data);
}

/* What the message says of itself, or what its session does. ret_session: which it is sent with. */
static void add_headers(struct bridge *b, struct http_client *c, const json_t *message,
                        char ret_session[SESSION_SIZE])
{
    const json_t *params = json_object_get(message, "params");
    const char *name = text_in(params, "name");

    ret_session[0] = '\0';
    if (*own_version(message)) {
        http_client_header(c, "MCP-Protocol-Version", own_version(message));
        http_client_header(c, "Mcp-Method", text_in(message, "method"));
        if (strcmp(text_in(message, "method"), "resources/read") == 0)
            name = text_in(params, "uri");
        if (*name)
            add_name(c, name);
        return;
    }
    (void)pthread_mutex_lock(&b->lock);
    (void)snprintf(ret_session, SESSION_SIZE, "%s", b->session);
    if (b->session[0]) {
        http_client_header(c, "Mcp-Session-Id", b->session);
        http_client_header(c, "MCP-Protocol-Version", b->version);
    }
    (void)pthread_mutex_unlock(&b->lock);
}

static struct http_client *open_client(const struct bridge *b, int stop, int silence_ms)
{
    struct http_client *c = http_client_new(b->target, b->token);

    http_client_name(c, CLIENT_NAME);
    http_client_accept(c, "application/json, text/event-stream");
    http_client_want(c, "mcp-session-id");
    http_client_bound(c, stop, silence_ms);
    return c;
}

/* Nothing has been sent while nobody listens, so it may be tried again: a daemon is being started.
 * What has no stop of its own keeps the end of stdin from being read, so it looks for that itself.
 */
static int send(struct bridge *b, struct http_client *c, int stop, const char *text,
                const json_t *message, char session[SESSION_SIZE], struct http_response *ret,
                struct err *err)
{
    struct pollfd end[] = {{.fd = stop, .events = POLLIN},
                           {.fd = stop == b->stop ? STDIN_FILENO : -1}}; /* POLLHUP */
    int64_t until = mono_ns() + RETRY_NS;

    for (;;) {
        *err = (struct err){0};
        add_headers(b, c, message, session);
        if (http_client_send(c, "POST", b->path, "application/json", text, strlen(text), ret,
                             err) == 0)
            return 0;
        if (err->kind != ERR_UNAVAILABLE || err->sys == 0 || mono_ns() >= until)
            return -1;
        if (poll(end, ARRAY_LEN(end), RETRY_MS) > 0)
            return err_code(err, ERR_CONFLICT, "cancelled", "the client has cancelled it");
    }
}

/* ---- answers ---- */

/* One event: its data is a line. *answered: it is the answer to that id. */
static void put_event(struct bridge *b, const char *text, size_t len, const json_t *id,
                      bool *answered)
{
    json_t *message = read_json(text, len);

    if (message && id && !json_object_get(message, "method") &&
        json_equal(json_object_get(message, "id"), id))
        *answered = true;
    if (message)
        put_line(b, text, len);
    json_decref(message);
}

static void put_lines(struct bridge *b, struct buf *in, const json_t *id, bool *answered,
                      char *last_event, size_t size)
{
    const char *end;

    while (in->len > 0 && (end = memchr(in->data, '\n', in->len))) {
        size_t len = (size_t)(end - in->data);
        size_t text = len > 0 && in->data[len - 1] == '\r' ? len - 1 : len;

        if (text > 6 && memcmp(in->data, "data: ", 6) == 0)
            put_event(b, in->data + 6, text - 6, id, answered);
        else if (last_event && text > 4 && text < size && memcmp(in->data, "id: ", 4) == 0)
            (void)snprintf(last_event, size, "%.*s", (int)text - 4, in->data + 4);
        buf_shift(in, len + 1);
    }
}

/* A stream of events; 0 at its end. */
static int pass_events(struct bridge *b, struct http_client *c, const json_t *id, bool *answered,
                       char *last_event, size_t size, struct err *err)
{
    auto_buf struct buf in = {0};
    char data[16384];
    ssize_t n;

    buf_init(&in, ANSWER_MAX);
    while ((n = http_client_read(c, data, sizeof(data), err)) > 0) {
        if (buf_add(&in, data, (size_t)n) < 0)
            return err_set(err, ERR_TOO_LARGE, "an answer of the daemon is too long");
        put_lines(b, &in, id, answered, last_event, size);
    }
    return n < 0 ? -1 : 0;
}

/* A refusal has no id, or is one of the REST face: the client gets it as the answer. */
static void put_refusal(struct bridge *b, json_t *id, int status, const char *text)
{
    json_t *body = json_loads(text, 0, NULL), *error = json_object_get(body, "error");
    char line[512];

    if (!id) {
        json_decref(body);
        return;
    }
    if (json_is_object(error)) {
        (void)json_object_set(body, "id", id);
        put_json(b, body);
        return;
    }
    (void)snprintf(line, sizeof(line), "the daemon refused it (%d): %.400s", status,
                   json_is_string(error) ? json_string_value(error) : text);
    put_error(b, id, -32000, line);
    json_decref(body);
}

static void pass_json(struct bridge *b, struct http_client *c, json_t *id,
                      const struct http_response *r, struct err *err)
{
    auto_free char *text = NULL;
    size_t len = 0;

    if (http_client_body(c, ANSWER_MAX, &text, &len, err) < 0) {
        put_error(b, id, -32603, err->text);
        return;
    }
    if (r->status == 200 && len > 0)
        put_answer(b, id, text, len);
    else if (r->status >= 300)
        put_refusal(b, id, r->status, text);
}

static bool was_cancelled(const struct err *err)
{
    return err->code && strcmp(err->code, "cancelled") == 0;
}

static void put_lost(struct bridge *b, json_t *id, const struct err *err)
{
    char line[512];

    if (was_cancelled(err))
        return;
    (void)snprintf(line, sizeof(line),
                   "the daemon ended before it answered, and whether it was done is not known: %s",
                   err->text[0] ? err->text : "the stream has no end");
    put_error(b, id, -32603, line);
}

static void pass_answer(struct bridge *b, struct http_client *c, json_t *id,
                        const struct http_response *r)
{
    struct err err = {0};
    bool answered = false;

    if (strcmp(r->type, "text/event-stream") != 0) {
        pass_json(b, c, id, r, &err);
        return;
    }
    if ((pass_events(b, c, id, &answered, NULL, 0, &err) < 0 || !answered) && !answered && id)
        put_lost(b, id, &err);
}

/* ---- sessions ---- */

static void set_session(struct bridge *b, const char *session)
{
    (void)pthread_mutex_lock(&b->lock);
    (void)snprintf(b->session, sizeof(b->session), "%s", session);
    (void)pthread_mutex_unlock(&b->lock);
}

static int post_quietly(struct bridge *b, json_t *message)
{
    auto_free char *text = json_dumps(message, JSON_COMPACT);
    struct http_client *c = open_client(b, b->stop, SILENCE_MS);
    char session[SESSION_SIZE];
    struct http_response r;
    struct err err = {0};
    int status = send(b, c, b->stop, text, message, session, &r, &err) < 0 ? -1 : r.status;

    if (status == 200 && http_client_wanted(c)[0])
        set_session(b, http_client_wanted(c));
    http_client_free(c);
    json_decref(message);
    return status;
}

static json_t *of_ours(const json_t *message)
{
    json_t *copy = json_deep_copy(message);

    (void)json_object_set_new(copy, "id", json_string(OWN_ID));
    return copy;
}

/* All that the client has said again, to a daemon that does not know of it. lost: the session that
 * it does not know, which stays until there is another: what others send with it meanwhile is
 * refused as this was, and sent again too. */
static bool begin_again(struct bridge *b, const char *lost)
{
    json_t *initialize, *level, *subscribed, *one;
    const char *uri;
    bool done, ok = true;

    (void)pthread_mutex_lock(&b->begin);
    (void)pthread_mutex_lock(&b->lock);
    done = strcmp(b->session, lost) != 0; /* another thread was quicker */
    initialize = b->initialize ? of_ours(b->initialize) : NULL;
    level = b->level ? of_ours(b->level) : NULL;
    subscribed = json_deep_copy(b->subscribed);
    (void)pthread_mutex_unlock(&b->lock);
    if (!done && initialize) {
        ok = post_quietly(b, json_incref(initialize)) == 200;
        if (ok)
            (void)post_quietly(b, json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method",
                                            "notifications/initialized"));
        if (ok && level)
            (void)post_quietly(b, json_incref(level));
        if (ok)
            json_object_foreach(subscribed, uri, one)
            {
                (void)post_quietly(b, of_ours(one));
            }
    }
    json_decref(initialize);
    json_decref(level);
    json_decref(subscribed);
    (void)pthread_mutex_unlock(&b->begin);
    return ok;
}

static void remember(struct bridge *b, const json_t *message)
{
    const char *method = text_in(message, "method");
    const char *uri = text_in(json_object_get(message, "params"), "uri");

    (void)pthread_mutex_lock(&b->lock);
    if (strcmp(method, "logging/setLevel") == 0) {
        json_decref(b->level);
        b->level = json_deep_copy(message);
    } else if (strcmp(method, "resources/subscribe") == 0) {
        (void)json_object_set_new(b->subscribed, uri, json_deep_copy(message));
    } else if (strcmp(method, "resources/unsubscribe") == 0) {
        (void)json_object_del(b->subscribed, uri);
    }
    (void)pthread_mutex_unlock(&b->lock);
}

/* Sends and passes the answer on; once more when only the session was the matter. */
static void exchange(struct bridge *b, const char *text, const json_t *message, int stop)
{
    bool asks = *text_in(message, "method"); /* else its id is of what it answers */
    json_t *id = asks ? json_object_get(message, "id") : NULL;
    char session[SESSION_SIZE];
    struct http_response r;
    struct err err = {0};

    for (int tries = 0; tries < 2; tries++) {
        struct http_client *c = open_client(b, stop, stop == b->stop ? SILENCE_MS : 0);
        int sent = send(b, c, stop, text, message, session, &r, &err);
        bool again = sent == 0 && r.status == 404 && session[0] && tries == 0;

        if (sent < 0)
            put_lost(b, id, &err);
        else if (!again)
            pass_answer(b, c, id, &r);
        http_client_free(c);
        if (!again)
            return;
        if (!begin_again(b, session)) {
            put_error(b, id, -32000, "the daemon does not know this session, and gives no other");
            return;
        }
    }
}

/* ---- the session's stream ---- */

static void follow(struct bridge *b, char *last_event, size_t size)
{
    struct http_client *c = open_client(b, b->stop, 0);
    char session[SESSION_SIZE];
    struct http_response r;
    struct err err = {0};
    bool answered;
    int sent;

    add_headers(b, c, NULL, session);
    if (*last_event)
        http_client_header(c, "Last-Event-ID", last_event);
    sent = http_client_send(c, "GET", b->path, NULL, NULL, 0, &r, &err);
    if (sent == 0 && r.status == 200)
        (void)pass_events(b, c, NULL, &answered, last_event, size, &err);
    http_client_free(c);
    if (sent == 0 && r.status == 404 && session[0]) {
        *last_event = '\0';
        (void)begin_again(b, session);
    }
}

static void *run_stream(void *arg)
{
    struct bridge *b = arg;
    struct pollfd end = {.fd = b->stop, .events = POLLIN};
    char last_event[32] = "";

    do
        follow(b, last_event, sizeof(last_event));
    while (poll(&end, 1, STREAM_AGAIN_MS) == 0);
    return NULL;
}

/* ---- messages of the client ---- */

static void start_session(struct bridge *b, const char *text, json_t *message)
{
    auto_free char *answer = NULL;
    struct http_client *c = open_client(b, b->stop, SILENCE_MS);
    char session[SESSION_SIZE];
    struct http_response r;
    struct err err = {0};
    json_t *body = NULL, *id = json_object_get(message, "id");
    size_t len;

    if (send(b, c, b->stop, text, message, session, &r, &err) < 0 ||
        http_client_body(c, ANSWER_MAX, &answer, &len, &err) < 0) {
        put_lost(b, id, &err);
    } else if (r.status != 200) {
        put_refusal(b, id, r.status, answer);
    } else {
        body = read_json(answer, len);
        (void)pthread_mutex_lock(&b->lock);
        (void)snprintf(b->session, sizeof(b->session), "%s", http_client_wanted(c));
        (void)snprintf(b->version, sizeof(b->version), "%s",
                       text_in(json_object_get(body, "result"), "protocolVersion"));
        json_decref(b->initialize);
        b->initialize = json_incref(message);
        (void)pthread_mutex_unlock(&b->lock);
        put_answer(b, id, answer, len);
        if (!b->has_stream && pthread_create(&b->stream, NULL, run_stream, b) == 0)
            b->has_stream = true;
        json_decref(body);
    }
    http_client_free(c);
}

static void cancel(struct bridge *b, const json_t *id)
{
    (void)pthread_mutex_lock(&b->lock);
    for (struct request *r = b->requests; r; r = r->next)
        if (id && json_equal(json_object_get(r->message, "id"), id))
            (void)eventfd_write(r->stop, 1);
    (void)pthread_mutex_unlock(&b->lock);
}

static void request_free(struct request *r)
{
    close_fd(&r->stop);
    json_decref(r->message);
    free(r->text);
    free(r);
}

static void *run_request(void *arg)
{
    struct request *r = arg;
    struct bridge *b = r->bridge;

    remember(b, r->message);
    exchange(b, r->text, r->message, r->stop);
    (void)pthread_mutex_lock(&b->lock);
    if (r->prev)
        r->prev->next = r->next;
    else
        b->requests = r->next;
    if (r->next)
        r->next->prev = r->prev;
    b->n_requests--;
    (void)pthread_cond_signal(&b->changed);
    request_free(r);
    (void)pthread_mutex_unlock(&b->lock);
    return NULL;
}

static bool enlist(struct bridge *b, struct request *r)
{
    bool fits;

    (void)pthread_mutex_lock(&b->lock);
    fits = b->n_requests < REQUESTS_MAX;
    if (fits) {
        r->next = b->requests;
        if (r->next)
            r->next->prev = r;
        b->requests = r;
        b->n_requests++;
    }
    (void)pthread_mutex_unlock(&b->lock);
    return fits;
}

/* Takes the message: the thread has it alone. */
static void start_request(struct bridge *b, const char *text, json_t *message)
{
    struct request *r = xcalloc(1, sizeof(*r));
    pthread_attr_t how;
    pthread_t thread;

    *r = (struct request){.bridge = b, .message = message, .text = xstrdup(text)};
    r->stop = eventfd(0, EFD_CLOEXEC);
    if (!enlist(b, r)) {
        put_error(b, json_object_get(message, "id"), -32000,
                  "too many requests are not answered yet");
        request_free(r);
        return;
    }
    (void)pthread_attr_init(&how);
    (void)pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&how, STACK_BYTES);
    if (pthread_create(&thread, &how, run_request, r) != 0)
        (void)run_request(r); /* then they wait for each other */
    (void)pthread_attr_destroy(&how);
}

/* Takes the message. What wants no answer is sent before the next is read, so that it is not
 * overtaken. */
static void take(struct bridge *b, const char *text, json_t *message)
{
    const char *method = text_in(message, "method");
    const json_t *params = json_object_get(message, "params");
    bool wants_answer = json_is_array(message) || (*method && json_object_get(message, "id"));
    bool is_own = strcmp(method, "initialize") == 0 && !*own_version(message);

    if (strcmp(method, "notifications/cancelled") == 0)
        cancel(b, json_object_get(params, "requestId"));
    else if (is_own)
        start_session(b, text, message);
    else if (!wants_answer)
        exchange(b, text, message, b->stop);
    if (is_own || !wants_answer)
        json_decref(message);
    else
        start_request(b, text, message);
}

static void take_line(struct bridge *b, char *line, size_t len)
{
    json_t *message;

    if (strspn(line, " \t\r") == len)
        return;
    message = json_loadb(line, len, 0, NULL);
    if (message)
        take(b, line, message);
    else
        put_json(b, json_pack("{s:s, s:n, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", "error", "code",
                              -32700, "message", "this line is no JSON"));
}

/* ---- stdin ---- */

/* Lines until the end of stdin. One that is too long is not kept, and told as none. */
static void read_lines(struct bridge *b)
{
    auto_buf struct buf in = {0};
    char data[65536];
    ssize_t n;
    bool skips = false;

    buf_init(&in, LINE_BYTES);
    while ((n = read_some(STDIN_FILENO, data, sizeof(data))) > 0 || n == -EAGAIN) {
        char *at = data, *stop = data + (n > 0 ? n : 0), *end;

        if (n < 0)
            await(STDIN_FILENO, POLLIN);
        while (at < stop && (end = memchr(at, '\n', (size_t)(stop - at)))) {
            if (buf_add(&in, at, (size_t)(end - at)) < 0 || skips)
                take_line(b, (char[]){"too long"}, 8);
            else if (in.len > 0)
                take_line(b, in.data, in.len);
            skips = false;
            buf_clear(&in);
            at = end + 1;
        }
        if (buf_add(&in, at, (size_t)(stop - at)) < 0) {
            skips = true;
            buf_clear(&in);
        }
    }
    if (in.len > 0 && !skips)
        take_line(b, in.data, in.len);
}

/* What is on its way may end for a moment; then it is cancelled. */
static void wait_for_all(struct bridge *b)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LAST_WORDS_MS / 1000;
    until.tv_nsec += (LAST_WORDS_MS % 1000) * 1000000l;
    if (until.tv_nsec >= 1000000000l) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000l;
    }
    (void)pthread_mutex_lock(&b->lock);
    while (b->n_requests > 0 && pthread_cond_timedwait(&b->changed, &b->lock, &until) == 0)
        ;
    for (struct request *r = b->requests; r; r = r->next)
        (void)eventfd_write(r->stop, 1);
    while (b->n_requests > 0)
        (void)pthread_cond_wait(&b->changed, &b->lock);
    (void)pthread_mutex_unlock(&b->lock);
}

static void end_session(struct bridge *b)
{
    struct http_client *c = open_client(b, -1, LAST_WORDS_MS);
    char session[SESSION_SIZE];
    struct http_response r;
    struct err err = {0};

    add_headers(b, c, NULL, session);
    if (session[0])
        (void)http_client_send(c, "DELETE", b->path, NULL, NULL, 0, &r, &err);
    http_client_free(c);
}

int mcp_bridge(const char *target, const char *token, const char *path)
{
    struct bridge b = {.target = target, .token = token, .path = path};

    b.stop = eventfd(0, EFD_CLOEXEC);
    b.subscribed = json_object();
    (void)pthread_mutex_init(&b.out, NULL);
    (void)pthread_mutex_init(&b.begin, NULL);
    (void)pthread_mutex_init(&b.lock, NULL);
    (void)pthread_cond_init(&b.changed, NULL);
    read_lines(&b);
    wait_for_all(&b);
    (void)eventfd_write(b.stop, 1);
    if (b.has_stream)
        (void)pthread_join(b.stream, NULL);
    end_session(&b);
    json_decref(b.initialize);
    json_decref(b.level);
    json_decref(b.subscribed);
    close_fd(&b.stop);
    return STATUS_OK;
}
