#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "libcay/session.h"
#include "libcay/stream_internal.h"

#define END_MS 5000 /* so long a daemon may take to end a command that is given up */

/* ---- the request ---- */

static json_t *argv_json(const char *const *argv)
{
    json_t *list = json_array();

    for (; *argv; argv++) {
        if (json_array_append_new(list, json_string(*argv)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *command_json(const struct cay_command *c)
{
    json_t *command = c->argv ? argv_json(c->argv) : json_string(c->line ? c->line : "");
    json_t *body = json_object();

    if (!command || json_object_set_new(body, "command", command) < 0 ||
        put_text(body, "cwd", c->cwd) < 0 || put_text(body, "user", c->user) < 0 ||
        put_pairs(body, "env", c->env) < 0) {
        json_decref(body);
        return NULL;
    }
    if (c->timeout_s != 0)
        (void)json_object_set_new(body, "timeout", json_real(c->timeout_s));
    if (add_more(body, c->more) < 0) {
        json_decref(body);
        return NULL;
    }
    return body;
}

int bad_command(struct cay_error *err)
{
    return bad_argument(err,
                        "a command and its cwd, user and env are UTF-8 text, env is KEY=value, "
                        "and more is a JSON object");
}

/* ---- beginning and end ---- */

static int stream_fail(const struct cay_stream *s, const struct err *why, struct cay_error *err)
{
    return report(s->line, why,
                  &(struct call_asked){.method = "POST",
                                       .path = "/sandbox/sandboxes/{sandboxId}/exec/attach",
                                       .exec_id = s->session.exec_id},
                  err);
}

void cay_stream_close(struct cay_stream *stream)
{
    if (!stream)
        return;
    /* A client that is cancelled still ends what it started. */
    http_client_bound(stream->line->api.http, -1, END_MS);
    session_close(&stream->session);
    line_give(stream->client, stream->line);
    close_fd(&stream->wake);
    (void)pthread_mutex_destroy(&stream->lock);
    free(stream);
}

/* Opens the session, and again if the daemon went away meanwhile. */
static int stream_begin(struct cay_stream *s, const char *sandbox,
                        const struct session_request *request, struct err *why)
{
    struct attempt a;
    int r = 1;

    attempt_begin(&a, s->client);
    if (session_open(&s->session, &s->line->api, sandbox, request, why) < 0)
        r = attempt_again(&a, s->line, why, true) ? 0 : -1;
    while (r == 0) {
        r = session_reopen(&s->session, request, why);
        if (r == 0 && !attempt_wait(&a))
            r = -1;
    }
    if (r > 0)
        atomic_store(&s->client->known, true);
    return r < 0 ? -1 : 0;
}

int stream_open(struct cay *client, const char *sandbox, const struct session_request *request,
                struct cay_stream **ret, struct cay_error *err)
{
    auto_free char *word = url_encoded(sandbox);
    struct err why = {0};
    struct line *line = line_take(client, 0, &why);
    struct cay_stream *s;

    if (!line)
        return report(NULL, &why, &(struct call_asked){0}, err);
    s = xcalloc(1, sizeof(*s));
    s->client = client;
    s->line = line;
    s->wake = -1;
    (void)pthread_mutex_init(&s->lock, NULL);
    if (stream_begin(s, word, request, &why) < 0) {
        (void)stream_fail(s, &why, err);
        cay_stream_close(s);
        return -1;
    }
    *ret = s;
    return 0;
}

int stream_start(struct cay *client, const char *sandbox, const struct cay_command *command,
                 bool with_input, bool detach, struct cay_stream **ret, struct cay_error *err)
{
    struct session_request request = {.body = command_json(command),
                                      .tty = command->tty != 0,
                                      .want_stdin = with_input,
                                      .detach = detach,
                                      .rows = command->rows,
                                      .cols = command->cols};
    int r;

    if (!request.body)
        return bad_command(err);
    r = stream_open(client, sandbox, &request, ret, err);
    json_decref(request.body);
    return r;
}

/* Another thread may write into it. */
static int shared(struct cay_stream *s, struct cay_stream **ret, struct cay_error *err)
{
    struct err why = {0};

    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake >= 0) {
        *ret = s;
        return 0;
    }
    (void)err_sys(&why, errno, "make an eventfd");
    (void)stream_fail(s, &why, err);
    cay_stream_close(s);
    return -1;
}

int cay_exec_open(struct cay *client, const char *sandbox, const struct cay_command *command,
                  struct cay_stream **ret, struct cay_error *err)
{
    struct cay_stream *s;

    if (stream_start(client, sandbox, command, command->with_input != 0, command->detach != 0, &s,
                     err) < 0)
        return -1;
    return shared(s, ret, err);
}

int cay_exec_again(struct cay *client, const char *sandbox, const char *exec_id, uint64_t cursor,
                   int how, struct cay_stream **ret, struct cay_error *err)
{
    auto_free char *word = url_encoded(exec_id);
    struct session_request request = {
        .again = word, .cursor = cursor, .want_stdin = how != CAY_READ, .share = how == CAY_SHARED};
    struct cay_stream *s;

    if (stream_open(client, sandbox, &request, &s, err) < 0)
        return -1;
    return shared(s, ret, err);
}

int cay_stream_fd(const struct cay_stream *stream)
{
    return stream->session.fd;
}

const char *cay_stream_exec_id(const struct cay_stream *stream)
{
    return stream->session.exec_id;
}

uint64_t cay_stream_cursor(const struct cay_stream *stream)
{
    return stream->session.cursor;
}

/* ---- to the command ---- */

/* Sends what is queued; what stays is for who reads, who is told. */
static int push(struct cay_stream *s, struct cay_error *err)
{
    struct err why = {0};

    if (session_flush(&s->session, &why) < 0)
        return stream_fail(s, &why, err);
    if (s->session.out.len > 0 && s->wake >= 0)
        (void)eventfd_write(s->wake, 1);
    return 0;
}

int64_t cay_stream_write(struct cay_stream *stream, const void *data, size_t len,
                         struct cay_error *err)
{
    size_t room, n;
    int r;

    (void)pthread_mutex_lock(&stream->lock);
    room = session_room(&stream->session);
    n = len < room ? len : room;
    if (stream->session.ended || stream->session.input_ended)
        n = len; /* nobody reads it, as a pipe whose reader has gone, and no reason to fail */
    else if (n > 0)
        session_input(&stream->session, data, n);
    stream->was_full |= n < len;
    r = push(stream, err);
    (void)pthread_mutex_unlock(&stream->lock);
    return r < 0 ? -1 : (int64_t)n;
}

int cay_stream_end_input(struct cay_stream *stream, struct cay_error *err)
{
    int r;

    (void)pthread_mutex_lock(&stream->lock);
    if (!stream->session.input_ended)
        session_input(&stream->session, NULL, 0);
    r = push(stream, err);
    (void)pthread_mutex_unlock(&stream->lock);
    return r;
}

int cay_stream_resize(struct cay_stream *stream, unsigned rows, unsigned cols,
                      struct cay_error *err)
{
    int r;

    (void)pthread_mutex_lock(&stream->lock);
    session_resize(&stream->session, rows, cols);
    r = push(stream, err);
    (void)pthread_mutex_unlock(&stream->lock);
    return r;
}

int cay_stream_signal(struct cay_stream *stream, int signal, struct cay_error *err)
{
    int r;

    (void)pthread_mutex_lock(&stream->lock);
    session_signal(&stream->session, signal);
    r = push(stream, err);
    (void)pthread_mutex_unlock(&stream->lock);
    return r;
}

/* ---- from the command ---- */

static void set_result(struct cay_stream *s, const struct session_end *end, struct cay_result *ret)
{
    *ret = (struct cay_result){.exit_code = end->status,
                               .signal = end->signal,
                               .timed_out = end->timed_out,
                               .cancelled = end->cancelled,
                               .oom = end->oom,
                               .truncated = s->truncated || end->lost > 0,
                               .duration_ms = end->duration_ms};
}

static void set_event(struct cay_stream *s, const struct session_event *e, struct cay_event *ret)
{
    static const int whats[] = {[SESSION_STARTED] = CAY_STARTED,
                                [SESSION_STDOUT] = CAY_STDOUT,
                                [SESSION_STDERR] = CAY_STDERR,
                                [SESSION_LOST] = CAY_LOST,
                                [SESSION_EXIT] = CAY_EXIT};

    *ret = (struct cay_event){.what = whats[e->what],
                              .pid = (int)e->pid,
                              .data = e->data,
                              .len = e->len,
                              .lost = e->lost};
    s->truncated |= e->what == SESSION_LOST;
    if (e->what == SESSION_EXIT)
        set_result(s, &e->end, &ret->result);
}

/* What can be told without waiting: 1, 0 at the end, -1, or 2 when there is nothing. */
static int take(struct cay_stream *s, struct cay_event *ret, struct err *why)
{
    struct session_event e;
    int r;

    if (s->session.ended)
        return 0;
    r = session_take(&s->session, &e, why);
    if (r < 0)
        return -1;
    if (r > 0) {
        set_event(s, &e, ret);
        return 1;
    }
    if (session_flush(&s->session, why) < 0)
        return -1;
    if (s->was_full && session_room(&s->session) > 0) {
        s->was_full = false;
        *ret = (struct cay_event){.what = CAY_ROOM};
        return 1;
    }
    return 2;
}

static int receive(struct cay_stream *s, struct err *why)
{
    if (session_receive(&s->session))
        return 0;
    if (s->client->retry_ms < 0)
        return err_code(why, ERR_UNAVAILABLE, "connection_lost",
                        "the connection to the daemon ended, the command goes on");
    return session_come_back(&s->session, s->client->stop, s->client->retry_ms, why);
}

static int stopped(struct err *why)
{
    return err_code(why, ERR_CONFLICT, "cancelled", "the client was cancelled");
}

/* Waits until there may be something: 1, 0 when the time is over, -1. */
static int await(struct cay_stream *s, int timeout_ms, struct err *why)
{
    struct pollfd p[3] = {{.fd = s->session.fd, .events = POLLIN},
                          {.fd = s->client->stop, .events = POLLIN},
                          {.fd = s->wake, .events = POLLIN}};
    eventfd_t ignored;
    int n, r = 0;

    if (s->session.out.len > 0)
        p[0].events |= POLLOUT;
    (void)pthread_mutex_unlock(&s->lock);
    n = poll(p, 3, timeout_ms);
    (void)pthread_mutex_lock(&s->lock);
    if (n < 0 && errno != EINTR)
        return err_sys(why, errno, "poll");
    if (n == 0)
        return 0;
    if (n > 0 && p[1].revents)
        return stopped(why);
    if (n > 0 && p[2].revents)
        (void)eventfd_read(s->wake, &ignored);
    if (n > 0 && p[0].revents & (POLLIN | POLLHUP | POLLERR))
        r = receive(s, why);
    return r < 0 && atomic_load(&s->client->stopped) ? stopped(why) : r < 0 ? -1 : 1;
}

/* With the lock. */
static int next(struct cay_stream *s, int timeout_ms, struct cay_event *ret, struct err *why)
{
    int64_t until = mono_ns() + (int64_t)timeout_ms * 1000000;
    bool waited = false;

    for (;;) {
        int64_t left = (until - mono_ns()) / 1000000;
        int r = take(s, ret, why);

        if (r < 2)
            return r;
        if (!waited || timeout_ms < 0 || left > 0)
            r = await(s, timeout_ms < 0 ? -1 : left > 0 ? (int)left : 0, why);
        else
            r = 0;
        waited = true;
        if (r < 0)
            return -1;
        if (r == 0) {
            *ret = (struct cay_event){.what = CAY_NOTHING};
            return 1;
        }
    }
}

int cay_stream_next(struct cay_stream *stream, int timeout_ms, struct cay_event *ret,
                    struct cay_error *err)
{
    struct err why = {0};
    int r;

    (void)pthread_mutex_lock(&stream->lock);
    r = next(stream, timeout_ms, ret, &why);
    (void)pthread_mutex_unlock(&stream->lock);
    return r < 0 ? stream_fail(stream, &why, err) : r;
}
