#include "functions/proxy_request.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/proxy.h"
#include "functions/functions_internal.h"
#include "functions/proxied.h"
#include "functions/proxy_internal.h"
#include "http/answer.h"

/* One request, sent once: whatever becomes of it, nobody sends it again. While the answer comes no
 * thread waits. */

#define REQUEST_MAX  (9u << 20)
#define ANSWER_MAX   (8u << 20)
#define ANSWER_FREE  (256u << 10) /* that the memory budget is not asked for */
#define READ_MAX     (32u << 10)
#define HEADS_MAX    8 /* 1xx before the answer */
#define READS_A_STEP 32

struct request_task {
    struct task task;
    struct budget *memory;
    size_t reserved;
    struct buf out; /* what is still to be sent */
    struct buf head, body;
    bool has_head, is_head;
    unsigned heads;
    struct http_answer answer;
    struct http_body framing;
    char *url;
    uint32_t timeout_ms;
};

static void request_free(struct task *task)
{
    struct request_task *t = (struct request_task *)task;

    if (task->fd >= 0)
        proxied_close(task->fd);
    buf_done(&t->out);
    buf_done(&t->head);
    buf_done(&t->body);
    http_body_done(&t->framing);
    budget_give(t->memory, t->reserved);
    free(t->url);
    free(t);
}

static int bad_answer(struct err *err, const char *why)
{
    return err_code(err, ERR_UNAVAILABLE, "bad_answer",
                    "the server in the sandbox gave an answer that cannot be passed on: %s", why);
}

/* ---- the request ---- */

static bool is_token(const char *s)
{
    return *s && !s[strspn(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ")];
}

static bool is_target(const char *s)
{
    for (const unsigned char *p = (const unsigned char *)s; *p; p++)
        if (*p <= 0x20 || *p == 0x7f || *p == '#')
            return false;
    return s[0] == '/';
}

/* What is about the connection is ours to say. */
static bool is_ours(const char *name)
{
    static const char *const names[] = {
        "connection", "content-length", "transfer-encoding", "keep-alive",         "te", "trailer",
        "upgrade",    "expect",         "proxy-connection",  "proxy-authorization"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

static int add_headers(struct buf *b, const json_t *headers, unsigned port, struct err *err)
{
    bool has_host = false;
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)headers, name, value)
    {
        const char *text = json_string_value(value);

        if (!is_token(name) || strpbrk(text, "\r\n") || strlen(text) != json_string_length(value))
            return err_set(err, ERR_INVALID, "headers.%.60s is no header that HTTP allows", name);
        has_host |= strcasecmp(name, "host") == 0;
        if (!is_ours(name))
            (void)buf_addf(b, "%s: %s\r\n", name, text);
    }
    if (!has_host)
        (void)buf_addf(b, "Host: localhost:%u\r\n", port);
    return buf_add_str(b, "Connection: close\r\n") < 0
               ? err_set(err, ERR_TOO_LARGE, "the headers are too long")
               : 0;
}

static int build(struct buf *b, const struct call *call, unsigned port, struct err *err)
{
    const char *method = in_str(call, "method"), *path = in_str(call, "path");
    const json_t *body = json_object_get(call->in, "body");
    size_t len = json_string_length(body);

    if (!*path)
        path = "/";
    if (!is_token(method) || strcasecmp(method, "CONNECT") == 0)
        return err_set(err, ERR_INVALID, "method must be one of HTTP, and not CONNECT");
    if (!is_target(path))
        return err_set(err, ERR_INVALID,
                       "path must start with / and have its spaces percent-encoded");
    if (strcasecmp(method, "GET") == 0 || strcasecmp(method, "HEAD") == 0)
        body = NULL;
    (void)buf_addf(b, "%s %s HTTP/1.1\r\n", method, path);
    if (add_headers(b, json_object_get(call->in, "headers"), port, err) < 0)
        return -1;
    if (body)
        (void)buf_addf(b, "Content-Length: %zu\r\n", len);
    (void)buf_add_str(b, "\r\n");
    if (body && buf_add(b, json_string_value(body), len) < 0)
        return err_set(err, ERR_TOO_LARGE, "the body is too long");
    return 0;
}

/* ---- the answer ---- */

static int room(struct request_task *t, size_t more, struct err *err)
{
    if (t->reserved > 0 || t->body.len + more <= ANSWER_FREE)
        return 0;
    if (!budget_take(t->memory, ANSWER_MAX))
        return err_code(err, ERR_UNAVAILABLE, "busy",
                        "the daemon holds as much of other callers' data as it may; try again");
    t->reserved = ANSWER_MAX;
    return 0;
}

static int add_body(struct request_task *t, char *data, size_t len, struct err *err)
{
    size_t used, n;

    if (http_body_decode(&t->framing, data, len, &used, &n) < 0)
        return bad_answer(err, "its chunks are malformed");
    if (room(t, n, err) < 0)
        return -1;
    if (buf_add(&t->body, data, n) < 0)
        return err_code(err, ERR_TOO_LARGE, "answer_too_large",
                        "the answer is larger than %u MiB; ask for it at .../proxy/ID/PORT/ "
                        "directly, which streams",
                        ANSWER_MAX >> 20);
    return 0;
}

/* Heads of 1xx are passed over. */
static int read_heads(struct request_task *t, struct err *err)
{
    while (!t->has_head) {
        ssize_t end = http_answer_end(t->head.data, t->head.len, 0);
        const char *why;

        if (end == 0)
            return 0;
        why = end < 0 ? "it is not HTTP" : http_answer_parse(&t->answer, t->head.data, (size_t)end);
        if (why || t->answer.status == 101 || ++t->heads > HEADS_MAX)
            return bad_answer(err, why ? why : "it does not end");
        if (t->answer.status < 200) {
            buf_shift(&t->head, (size_t)end);
            continue;
        }
        t->has_head = true;
        http_body_init(&t->framing, &t->answer, t->is_head);
        return add_body(t, t->head.data + end, t->head.len - (size_t)end, err);
    }
    return 0;
}

static int take(struct request_task *t, char *data, size_t len, struct err *err)
{
    if (t->has_head)
        return add_body(t, data, len, err);
    if (buf_add(&t->head, data, len) < 0)
        return bad_answer(err, "its head is too long");
    return read_heads(t, err);
}

static json_t *headers_json(const struct http_answer *a)
{
    json_t *o = json_object();

    for (unsigned i = 0; i < a->count; i++) {
        const struct http_field *f = &a->fields[i];
        auto_free char *name = xstrdup(f->name);
        auto_buf struct buf value = {.max = 6 * HTTP_ANSWER_HEAD_MAX};
        const json_t *before;

        for (char *p = name; *p; p++)
            *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        before = json_object_get(o, name);
        if (before)
            (void)buf_addf(&value, "%s, ", json_string_value(before));
        (void)utf8_clean(&value, f->value, f->value_len);
        (void)json_object_set_new(o, name, json_stringn(value.data ? value.data : "", value.len));
    }
    return o;
}

static int done(struct request_task *t, struct call *call)
{
    call->out = json_pack("{s:i, s:o, s:s}", "statusCode", t->answer.status, "headers",
                          headers_json(&t->answer), "url", t->url);
    call->texts[0] = (struct text){"body", &t->body};
    return TASK_DONE;
}

/* ---- the task ---- */

/* What the server does not take any more is not sent: its answer is likely here already. */
static void send_some(struct request_task *t)
{
    while (t->out.len > 0) {
        ssize_t n = send(t->task.fd, t->out.data, t->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        buf_shift(&t->out, n < 0 ? t->out.len : (size_t)n);
    }
    buf_done(&t->out);
}

static int ended(struct request_task *t, struct call *call, struct err *err)
{
    if (t->has_head && t->framing.kind == HTTP_BODY_UNTIL_CLOSE)
        return done(t, call);
    return bad_answer(err, t->has_head ? "it ended in the middle of its body"
                                       : "the connection was closed before it came");
}

static int request_step(struct task *task, struct call *call, struct err *err)
{
    struct request_task *t = (struct request_task *)task;
    char data[READ_MAX];

    send_some(t);
    for (int i = 0; i < READS_A_STEP; i++) {
        ssize_t n = recv(task->fd, data, sizeof(data), MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            task->events = EPOLLIN | (t->out.len > 0 ? EPOLLOUT : 0);
            if (mono_ns() < task->until_ns)
                return TASK_WAITS;
            return err_code(err, ERR_TIMEOUT, "proxy_timeout",
                            "the server in the sandbox did not answer within %u ms", t->timeout_ms);
        }
        if (n <= 0)
            return ended(t, call, err);
        if (take(t, data, (size_t)n, err) < 0)
            return -1;
        if (t->has_head && t->framing.done)
            return done(t, call);
    }
    return TASK_AGAIN;
}

static const struct task_ops request_ops = {.step = request_step, .free = request_free};

int proxy_request(struct call *call, struct err *err)
{
    struct proxy_settings settings;
    struct request_task *t;
    uint16_t port;

    if (in_port(call, &port, err) < 0 ||
        engine_proxy_settings(call->engine, in_id(call), port, &settings, err) < 0 ||
        engine_proxy_check(call->engine, in_id(call), err) < 0)
        return -1;
    if (!settings.exposed)
        return err_code(err, ERR_CONFLICT, "port_not_exposed",
                        "Port %u is not exposed on sandbox %s: POST .../ports, `cay port add`",
                        port, in_id(call));
    t = xcalloc(1, sizeof(*t));
    t->task = (struct task){.ops = &request_ops, .fd = -1, .events = EPOLLIN | EPOLLOUT};
    t->memory = engine_config(call->engine)->memory;
    t->timeout_ms = settings.timeout_ms;
    t->is_head = strcasecmp(in_str(call, "method"), "HEAD") == 0;
    t->url = xasprintf("http://localhost:%u%s", port,
                       *in_str(call, "path") ? in_str(call, "path") : "/");
    buf_init(&t->out, REQUEST_MAX);
    buf_init(&t->head, HTTP_ANSWER_HEAD_MAX + READ_MAX);
    buf_init(&t->body, ANSWER_MAX);
    t->task.until_ns = mono_ns() + (int64_t)t->timeout_ms * 1000000;
    if (build(&t->out, call, port, err) < 0 ||
        proxied_dial(call->engine, in_id(call), port, &t->task.fd, err) < 0) {
        request_free(&t->task);
        return -1;
    }
    call->task = &t->task;
    return 0;
}
