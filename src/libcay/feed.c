#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "libcay/libcay_internal.h"
#include "libcay/sse.h"

#define QUERY_MAX (16u << 10)

struct cay_feed {
    struct cay *client;
    struct line *line;
    struct sse_reader events;
    struct call_asked asked;
    char *method, *path, *text;
    bool resumes;  /* it is of GET /stream/events, which can be gone on with */
    bool heard;    /* an event has come since it was opened last */
    char last[64]; /* id of the last event, or "" */
    char *event;   /* that was given last */
};

/* The filter of events, with where to go on. */
static char *resumed_path(const struct cay_feed *f)
{
    if (!f->resumes || !f->last[0])
        return xstrdup(f->path);
    return xasprintf("%s&lastEventId=%s", f->path, f->last);
}

static int open_once(struct cay_feed *f, struct err *why)
{
    auto_free char *path = resumed_path(f);
    struct http_client *http = f->line->api.http;
    struct http_response response;
    int r;

    http_client_accept(http, "text/event-stream");
    r = http_client_send(http, f->method, path, f->text ? "application/json" : NULL, f->text,
                         f->text ? strlen(f->text) : 0, &response, why);
    http_client_accept(http, NULL);
    if (r < 0)
        return api_explain(&f->line->api, why);
    if (api_check(&f->line->api, &response, why) < 0)
        return -1;
    if (strcmp(response.type, "text/event-stream") != 0)
        return err_code(why, ERR_INVALID, "bad_answer", "%s does not answer with events", f->path);
    sse_close(&f->events);
    sse_attach(&f->events, &f->line->api);
    atomic_store(&f->client->known, true);
    return 0;
}

static int open_feed(struct cay_feed *f, struct err *why)
{
    bool reads = strcmp(f->method, "GET") == 0;
    struct attempt a;

    attempt_begin(&a, f->client);
    while (open_once(f, why) < 0)
        if (!attempt_again(&a, f->line, why, reads))
            return -1;
    return 0;
}

void cay_feed_close(struct cay_feed *feed)
{
    if (!feed)
        return;
    sse_close(&feed->events);
    line_give(feed->client, feed->line);
    free(feed->method);
    free(feed->path);
    free(feed->text);
    free(feed->event);
    free(feed);
}

static int feed_new(struct cay *client, const char *method, const char *path, const char *json_in,
                    bool resumes, struct cay_feed **ret, struct cay_error *err)
{
    struct err why = {0};
    struct line *line = line_take(client, 0, &why);
    struct cay_feed *f;

    if (!line)
        return report(NULL, &why, &(struct call_asked){.method = method, .path = path}, err);
    f = xcalloc(1, sizeof(*f));
    f->client = client;
    f->line = line;
    f->method = xstrdup(method);
    f->path = xstrdup(path);
    f->text = json_in ? xstrdup(json_in) : NULL;
    f->resumes = resumes;
    f->asked = (struct call_asked){.method = f->method, .path = f->path};
    if (open_feed(f, &why) < 0) {
        (void)report(line, &why, &f->asked, err);
        cay_feed_close(f);
        return -1;
    }
    *ret = f;
    return 0;
}

int cay_feed_open(struct cay *client, const char *method, const char *path, const char *json_in,
                  struct cay_feed **ret, struct cay_error *err)
{
    return feed_new(client, method, path, json_in, false, ret, err);
}

/* Since now: also what happens between a daemon that goes before its first event and the next is
 * told. */
int cay_events(struct cay *client, const char *topics, const char *sandbox, struct cay_feed **ret,
               struct cay_error *err)
{
    auto_buf struct buf path = {0};

    buf_init(&path, QUERY_MAX);
    (void)buf_addf(&path, "/sandbox/stream/events?since=%lld", (long long)now_ms());
    if (topics) {
        (void)buf_add_str(&path, "&topic=");
        url_encode(&path, topics);
    }
    if (sandbox) {
        (void)buf_add_str(&path, "&sandboxId=");
        url_encode(&path, sandbox);
    }
    return feed_new(client, "GET", path.data, NULL, true, ret, err);
}

static void keep_id(struct cay_feed *f)
{
    json_t *event = json_loads(f->event, JSON_ALLOW_NUL, NULL);
    auto_free char *id = url_encoded(json_text(event, "id"));

    if (strlen(id) < sizeof(f->last))
        (void)snprintf(f->last, sizeof(f->last), "%s", id);
    json_decref(event);
}

/* One that ends before it has told anything is not asked again at once. */
static int again(struct cay_feed *f, struct err *why)
{
    struct attempt a;

    attempt_begin(&a, f->client);
    if (!f->heard)
        (void)attempt_wait(&a);
    f->heard = false;
    return open_feed(f, why) < 0 ? -1 : 1;
}

/* 1, 0 at the end, -1; a stream that goes on with the next daemon has no end. */
static int next(struct cay_feed *f, int timeout_ms, const char **ret, struct err *why)
{
    size_t len;
    int r = sse_text(&f->events, timeout_ms, ret, &len, why);

    if (r == 0 && f->resumes)
        r = err_code(why, ERR_UNAVAILABLE, "connection_lost", "the stream of events ended");
    if (r < 0 && f->resumes && why->code && strcmp(why->code, "connection_lost") == 0)
        return again(f, why);
    if (r <= 0 || !*ret)
        return r;
    f->heard = true;
    free(f->event);
    f->event = xstrndup(*ret, len);
    *ret = f->event;
    if (f->resumes)
        keep_id(f);
    return 1;
}

int cay_feed_next(struct cay_feed *feed, int timeout_ms, const char **ret, struct cay_error *err)
{
    int64_t until = mono_ns() + (int64_t)timeout_ms * 1000000;
    struct err why = {0};

    *ret = NULL;
    for (;;) {
        int64_t left = (until - mono_ns()) / 1000000;
        int r = next(feed, timeout_ms < 0 ? -1 : left > 0 ? (int)left : 0, ret, &why);

        if (r < 0)
            return report(feed->line, &why, &feed->asked, err);
        if (r == 0 || *ret || (timeout_ms >= 0 && mono_ns() >= until))
            return r;
    }
}
