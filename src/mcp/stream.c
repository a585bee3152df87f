#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/callers.h"
#include "http/server.h"
#include "mcp/mcp_internal.h"

/* The stream of a session: what the server has to say that belongs to no request. Events have
 * numbers; a client that comes back with the last one it saw gets what came after it, as far as it
 * is kept. A session has one stream: a new one takes the place of the one before. */

struct mcp_stream {
    struct mcp_server *server;
    struct mcp_session *session; /* which it uses */
    struct http_req *req;
    char token_id[ID_SIZE];
    int64_t sent_ns;
};

void mcp_stream_wake(struct mcp_stream *stream)
{
    http_wake(stream->req);
}

/* The next message, or NULL; *ret_over = there will be none any more. */
static char *take(struct mcp_stream *t, uint64_t *ret_number, bool *ret_over)
{
    struct mcp_session *one = t->session;
    unsigned max = t->server->config.limits.waiting;
    char *text = NULL;

    (void)pthread_mutex_lock(&t->server->lock);
    *ret_over = one->gone || one->stream != t;
    if (!*ret_over && one->taken + 1 < one->first)
        one->taken = one->first - 1; /* what it missed is gone */
    if (!*ret_over && one->taken + 1 < one->next) {
        *ret_number = ++one->taken;
        text = xstrdup(one->waiting[*ret_number % max].text);
    }
    (void)pthread_mutex_unlock(&t->server->lock);
    return text;
}

/* What is there, while the client takes it. False when the stream is over. */
static bool send_all(struct mcp_stream *t)
{
    uint64_t number;
    bool over;

    while (http_unsent(t->req) == 0) {
        auto_free char *text = take(t, &number, &over);
        auto_buf struct buf event = {0};

        if (over)
            return false;
        if (!text)
            return true;
        buf_init(&event, strlen(text) + 64);
        mcp_event(&event, text, number);
        t->sent_ns = mono_ns();
        if (http_stream_write(t->req, event.data, event.len) < 0)
            return false;
    }
    return true;
}

static void finish(struct mcp_stream *t)
{
    (void)pthread_mutex_lock(&t->server->lock);
    if (t->session->stream == t)
        t->session->stream = NULL;
    (void)pthread_mutex_unlock(&t->server->lock);
    mcp_session_leave(t->server, t->session);
    free(t);
}

static void set_wait(const struct mcp_stream *t, struct http_wait *wait)
{
    *wait = (struct http_wait){.fd = -1, .until_ns = t->sent_ns + MCP_PING_NS};
    if (t->token_id[0] && wait->until_ns > mono_ns() + CALLER_LIVE_NS)
        wait->until_ns = mono_ns() + CALLER_LIVE_NS;
}

static bool lives(const struct mcp_stream *t)
{
    return !t->server->config.services ||
           caller_token_live(t->server->config.services, t->token_id);
}

static bool on_news(struct http_req *req, unsigned news, struct http_wait *wait, void *arg)
{
    struct mcp_stream *t = arg;

    if ((news & (HTTP_GONE | HTTP_DRAIN)) || !lives(t) || !send_all(t)) {
        if (!(news & HTTP_GONE)) {
            http_unpark(req);
            http_stream_end(req);
        }
        finish(t);
        return false;
    }
    if (mono_ns() - t->sent_ns >= MCP_PING_NS && http_unsent(req) == 0) {
        t->sent_ns = mono_ns();
        (void)http_stream_write(req, ": ping\n\n", 8);
    }
    set_wait(t, wait);
    return true;
}

/* It becomes the session's; from the last event on that the client has seen, if it says so. */
static void take_place(struct mcp_stream *t, const char *last_event)
{
    struct mcp_session *one = t->session;
    uint64_t number;

    (void)pthread_mutex_lock(&t->server->lock);
    if (one->stream)
        mcp_stream_wake(one->stream); /* and finds that it is no longer it */
    one->stream = t;
    if (last_event && str_u64(last_event, &number) == 0 && number < one->next)
        one->taken = number;
    (void)pthread_mutex_unlock(&t->server->lock);
}

void mcp_stream_run(struct mcp_server *s, struct http_req *req, const struct caller *caller,
                    struct mcp_session *session)
{
    struct mcp_stream *t;
    struct http_wait wait;
    struct err err = {0};
    char first[64];

    if (http_seat_take(req, &err) < 0) {
        mcp_refuse(req, 503, RPC_REFUSED, NULL, err.text, NULL);
        mcp_session_leave(s, session);
        return;
    }
    t = xcalloc(1, sizeof(*t));
    *t = (struct mcp_stream){.server = s, .session = session, .req = req, .sent_ns = mono_ns()};
    (void)snprintf(t->token_id, sizeof(t->token_id), "%s", caller->token_id);
    http_reply_header(req, "Mcp-Session-Id", session->id);
    http_reply_header(req, "X-Accel-Buffering", "no");
    take_place(t, http_req_header(req, "Last-Event-ID"));
    (void)snprintf(first, sizeof(first), "retry: 1000\n: open\n\n");
    set_wait(t, &wait);
    wait.until_ns = 1; /* what waits already leaves at once */
    if (http_stream_begin(req, 200, "text/event-stream", -1) < 0 ||
        http_stream_write(req, first, strlen(first)) < 0 ||
        http_park(req, &wait, on_news, t, &err) < 0)
        finish(t);
}
