#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/json.h"
#include "base/mem.h"
#include "libcay/libcay_internal.h"
#include "libcay/session.h"

#define TRY_MS 100

#define MS 1000000

const char *cay_version(void)
{
    return CAY_VERSION;
}

void cay_free(void *memory)
{
    free(memory);
}

/* ---- errors ---- */

static bool is_code(const struct err *err, const char *code)
{
    return err->code && strcmp(err->code, code) == 0;
}

/* For what never came to an answer. */
static const char *word_of(const struct err *err)
{
    if (err->kind == ERR_INVALID)
        return "invalid";
    if (err->kind == ERR_TOO_LARGE)
        return "too_large";
    if (err->kind == ERR_UNAVAILABLE)
        return "connection_lost";
    if (err->kind == ERR_INTERNAL)
        return err->sys ? "failed" : "bad_answer";
    return err_kind_code(err->kind);
}

static void copy(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from ? from : "");
}

/* Said by this side, whatever the daemon refused before. */
static bool is_ours(const struct err *err)
{
    return is_code(err, "cancelled") || is_code(err, "timeout") || is_code(err, "connection_lost");
}

static void set_code(struct cay_error *ret, const struct api_failure *f, const struct err *err)
{
    ret->status = f ? f->status : 0;
    if (f && f->code[0])
        copy(ret->code, sizeof(ret->code), f->code);
    else if (f && f->no_daemon)
        copy(ret->code, sizeof(ret->code), "daemon_unreachable");
    else if (f && f->status)
        copy(ret->code, sizeof(ret->code), "bad_answer");
    else
        copy(ret->code, sizeof(ret->code), err->code ? err->code : word_of(err));
    if (err->code && !is_ours(err) &&
        !ret->status) /* the end of a stream says what an answer would */
        ret->status = err_kind_status(err->kind);
}

int report(const struct line *line, const struct err *err, const struct call_asked *asked,
           struct cay_error *ret)
{
    const struct api_failure *f = line && !is_ours(err) ? &line->failure : NULL;

    if (!ret)
        return -1;
    *ret = (struct cay_error){.sys = err->sys, .retry_after = f ? (int)f->retry_s : 0};
    set_code(ret, f, err);
    /* The daemon's own text is whole; ours may say more than that of a token. */
    copy(ret->message, sizeof(ret->message),
         f && f->message[0] && ret->status != 401 ? f->message : err->text);
    copy(ret->method, sizeof(ret->method), asked->method);
    copy(ret->path, sizeof(ret->path), asked->path);
    copy(ret->exec_id, sizeof(ret->exec_id), asked->exec_id);
    return -1;
}

int bad_argument(struct cay_error *ret, const char *text)
{
    struct err err = {0};

    (void)err_set(&err, ERR_INVALID, "%s", text);
    return report(NULL, &err, &(struct call_asked){0}, ret);
}

/* ---- clients ---- */

static struct cay *client_new(const char *target, const char *token, int timeout_ms, int retry_ms)
{
    struct cay *c = xcalloc(1, sizeof(*c));

    c->target = xstrdup(target);
    c->token = token && *token ? xstrdup(token) : NULL;
    c->timeout_ms = timeout_ms;
    c->retry_ms = retry_ms;
    c->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&c->lock, NULL);
    return c;
}

int cay_open(const struct cay_options *options, struct cay **ret, struct cay_error *err)
{
    static const struct cay_options none;
    const struct cay_options *o = options ? options : &none;
    auto_free char *target = NULL;
    struct err why = {0};
    struct cay *c;
    bool chosen;

    if (api_address(o->address, &target, &chosen, &why) < 0)
        return report(NULL, &why, &(struct call_asked){0}, err);
    c = client_new(target, o->token ? o->token : api_token(), o->timeout_ms > 0 ? o->timeout_ms : 0,
                   o->retry_ms ? o->retry_ms : SESSION_BACK_MS);
    if (c->stop < 0) {
        (void)err_sys(&why, errno, "make an eventfd");
        cay_close(c);
        return report(NULL, &why, &(struct call_asked){0}, err);
    }
    *ret = c;
    return 0;
}

struct cay *cay_dup(const struct cay *client)
{
    struct cay *c = client_new(client->target, client->token, client->timeout_ms, client->retry_ms);

    atomic_store(&c->known, atomic_load(&client->known));
    if (c->stop < 0) {
        cay_close(c);
        return NULL;
    }
    return c;
}

static void line_free(struct line *line)
{
    api_close(&line->api);
    api_failure_clear(&line->failure);
    free(line);
}

void cay_close(struct cay *client)
{
    if (!client)
        return;
    for (size_t i = 0; i < client->n_idle; i++)
        line_free(client->idle[i]);
    close_fd(&client->stop);
    (void)pthread_mutex_destroy(&client->lock);
    free(client->target);
    free(client->token);
    free(client);
}

void cay_cancel(struct cay *client)
{
    int saved = errno;

    atomic_store(&client->stopped, true);
    (void)eventfd_write(client->stop, 1);
    errno = saved;
}

const char *cay_address(const struct cay *client)
{
    return client->target;
}

/* ---- connections ---- */

static struct line *line_new(const struct cay *client)
{
    struct line *line = xcalloc(1, sizeof(*line));

    api_init(&line->api, client->target, client->token, "libcay/" CAY_VERSION, &line->failure);
    return line;
}

struct line *line_take(struct cay *client, int silence_ms, struct err *err)
{
    struct line *line = NULL;

    if (atomic_load(&client->stopped)) {
        (void)err_code(err, ERR_CONFLICT, "cancelled", "the client was cancelled");
        return NULL;
    }
    (void)pthread_mutex_lock(&client->lock);
    if (client->n_idle > 0)
        line = client->idle[--client->n_idle];
    (void)pthread_mutex_unlock(&client->lock);
    if (!line)
        line = line_new(client);
    api_failure_clear(&line->failure);
    http_client_bound(line->api.http, client->stop, silence_ms);
    return line;
}

void line_give(struct cay *client, struct line *line)
{
    if (!line)
        return;
    http_client_leave(line->api.http);
    (void)pthread_mutex_lock(&client->lock);
    if (client->n_idle < IDLE_MAX)
        client->idle[client->n_idle++] = steal_ptr(line);
    (void)pthread_mutex_unlock(&client->lock);
    if (line)
        line_free(line);
}

/* ---- sending again ---- */

void attempt_begin(struct attempt *a, struct cay *client)
{
    int64_t patience = client->retry_ms > 0 ? (int64_t)client->retry_ms * MS : 0;

    *a = (struct attempt){.client = client, .until_ns = mono_ns() + patience};
}

/* Words that mean "nothing was done, and not now"; others say what the work came to. */
static bool is_for_later(const char *code)
{
    static const char *const words[] = {
        "busy",          "unavailable",  "sandbox_busy",           "rate_limited",
        "launcher_lost", "gateway_down", "idempotency_in_progress"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(code, words[i]) == 0)
            return true;
    return false;
}

/* How long to wait before it is sent again; -1 = not. */
static int64_t delay_ms(const struct attempt *a, const struct api_failure *f, const struct err *err,
                        bool repeatable)
{
    if (f->no_daemon) /* nothing was sent */
        return atomic_load(&a->client->known) ? TRY_MS : -1;
    if (!repeatable)
        return -1;
    if (is_code(err, "connection_lost")) {
        atomic_store(&a->client->known, true); /* somebody was there */
        return TRY_MS;
    }
    if (f->retry_s > 0 && is_for_later(f->code))
        return (int64_t)f->retry_s * 1000;
    return -1;
}

/* Who is cancelled meanwhile is told so by the next try. */
static bool wait_ms(const struct attempt *a, int64_t ms)
{
    struct pollfd p = {.fd = a->client->stop, .events = POLLIN};

    if (ms < 0 || mono_ns() + ms * MS > a->until_ns)
        return false;
    (void)poll(&p, 1, (int)ms);
    return true;
}

bool attempt_again(const struct attempt *a, const struct line *line, const struct err *err,
                   bool repeatable)
{
    return wait_ms(a, line ? delay_ms(a, &line->failure, err, repeatable) : -1);
}

bool attempt_wait(const struct attempt *a)
{
    return wait_ms(a, TRY_MS);
}

/* ---- calls ---- */

int client_exchange(struct cay *client, const char *method, const char *path, const char *text,
                    char **ret, struct cay_error *err)
{
    struct call_asked asked = {.method = method, .path = path};
    bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    char key[ID_SIZE] = "";
    struct attempt a;

    if (strcmp(method, "POST") == 0 && path_takes_key(path))
        id_new(key, "key");
    attempt_begin(&a, client);
    for (;;) {
        struct err why = {0};
        struct line *line = line_take(client, client->timeout_ms, &why);
        int r = -1;

        if (line && key[0])
            http_client_key(line->api.http, key);
        if (line)
            r = api_exchange(&line->api, method, path, text, ret, &why);
        if (r == 0)
            atomic_store(&client->known, true);
        else if (!attempt_again(&a, line, &why, reads || key[0]))
            (void)report(line, &why, &asked, err);
        else
            r = 1;
        line_give(client, line);
        if (r <= 0)
            return r;
    }
}

int cay_call(struct cay *client, const char *method, const char *path, const char *json_in,
             char **json_out, struct cay_error *err)
{
    return client_exchange(client, method, path, json_in, json_out, err);
}

int client_call(struct cay *client, const char *method, json_t *body, json_t **ret,
                struct cay_error *err, const char *path, ...)
{
    auto_free char *sent = body ? json_dumps(body, JSON_COMPACT) : NULL;
    auto_free char *part = NULL, *full = NULL, *text = NULL;
    struct err why = {0};
    va_list ap;

    json_decref(body);
    va_start(ap, path);
    if (vasprintf(&part, path, ap) < 0)
        abort();
    va_end(ap);
    full = xasprintf("/sandbox%s", part);
    if (client_exchange(client, method, full, sent, &text, err) < 0)
        return -1;
    if (!ret)
        return 0;
    *ret = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (*ret)
        return 0;
    (void)err_set(&why, ERR_INTERNAL, "the answer of %s is not JSON: is it a cay daemon?",
                  client->target);
    return report(NULL, &why, &(struct call_asked){.method = method, .path = full}, err);
}
