#include "cli/sandbox_output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/escape.h"
#include "cli/iii_client.h"
#include "http/websocket_client.h"

#define AHEAD_MAX (8u << 20)  /* bytes per stream that wait for a slow reader of our output */
#define WRITE_MAX PIPE_BUF    /* bytes that a pipe takes at once when poll() says it takes any */
#define TAKE_MAX  64          /* messages per stream between two looks at timeouts and signals */
#define DRAIN_MS  2000        /* behind the answer, without a byte and without the end */
#define DRAIN_MAX (64u << 20) /* behind the answer: more than a channel holds (1024 of 64 KiB) */
#define TIMED_OUT "S200"

/* Behind the answer in total: 10 s, and 1 s more per 64 KiB that came (a slow network). */
#define DRAIN_TOTAL_NS 10000000000
#define DRAIN_BYTE_NS  (1000000000 / 65536)

struct output_stream {
    struct websocket_client *channel;
    int fd;
    bool escapes;         /* fd is a terminal */
    struct escape escape; /* also of a character that comes in two pieces */
    struct buf pending;   /* from pending_at on */
    size_t pending_at;
    size_t piece_left; /* of a piece that was written in part */
    bool came, ended;
    bool cut;  /* some of it is missing */
    bool more; /* another message may have been read already */
};

struct sandbox_output {
    struct iii_client *client;
    struct output_stream streams[OUTPUT_STREAMS];
    bool more; /* the call's connection may have another message already */
    bool lost; /* it has ended */
    int write_error;
};

/* ---- the channels ---- */

static int open_stream(struct iii_client *c, struct output_stream *s, const char *name,
                       json_t *data, struct err *err)
{
    json_t *made = NULL;

    if (iii_client_channel_new(c, &made, err) < 0)
        return -1;
    s->channel = iii_client_channel_open(c, json_object_get(made, "reader"), err);
    if (s->channel)
        (void)json_object_set(data, name, json_object_get(made, "writer"));
    json_decref(made);
    return s->channel ? 0 : -1;
}

static bool has_code(const struct err *err, const char *code)
{
    return err->code && strcmp(err->code, code) == 0;
}

struct sandbox_output *sandbox_output_open(struct iii_client *c, bool raw, json_t *data,
                                           struct err *err)
{
    static const char *const names[] = {"stdout", "stderr"};
    struct sandbox_output *o = xcalloc(1, sizeof(*o));

    o->client = c;
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        struct output_stream *s = &o->streams[i];

        s->fd = i == OUTPUT_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
        s->escapes = !raw && isatty(s->fd) == 1;
        buf_init(&s->pending, SIZE_MAX / 2);
    }
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        if (open_stream(c, &o->streams[i], names[i], data, err) == 0)
            continue;
        if (!has_code(err, "cancelled") && !has_code(err, "connection_lost")) {
            *err = (struct err){0};
            iii_client_forget_error(c);
        }
        for (int j = 0; j < OUTPUT_STREAMS; j++)
            (void)json_object_del(data, names[j]);
        sandbox_output_free(o);
        return NULL;
    }
    return o;
}

void sandbox_output_free(struct sandbox_output *o)
{
    if (!o)
        return;
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        websocket_client_free(o->streams[i].channel);
        buf_done(&o->streams[i].pending);
    }
    free(o);
}

bool sandbox_output_came(const struct sandbox_output *o, int stream)
{
    return o->streams[stream].came;
}

bool sandbox_output_is_cut(const struct sandbox_output *o)
{
    return o->streams[OUTPUT_STDOUT].cut || o->streams[OUTPUT_STDERR].cut;
}

int sandbox_output_error(const struct sandbox_output *o)
{
    return o->write_error;
}

/* ---- what comes ---- */

static size_t pending(const struct output_stream *s)
{
    return s->pending.len - s->pending_at;
}

static bool wants_more(const struct output_stream *s)
{
    return !s->ended && pending(s) < AHEAD_MAX;
}

static void end_stream(struct output_stream *s)
{
    if (!s->ended)
        escape_end(&s->escape, &s->pending);
    s->ended = true;
}

static void add_output(struct output_stream *s, const struct websocket_message *m)
{
    s->came |= m->len > 0;
    if (s->escapes)
        escape_add(&s->escape, ESCAPE_OUTPUT, m->data, m->len, &s->pending);
    else
        (void)buf_add(&s->pending, m->data, m->len);
}

/* Takes one message. Returns the bytes of output in it, or -1: there is none now. */
static ssize_t take_message(struct output_stream *s)
{
    struct websocket_message m;
    int r = websocket_next(websocket_client_socket(s->channel), &m);

    if (r < 0 || websocket_client_flush(s->channel) < 0) {
        s->cut |= websocket_peer_code(websocket_client_socket(s->channel)) == 0;
        end_stream(s);
    }
    if (r <= 0)
        return -1;
    if (m.is_text) /* is no output */
        return 0;
    add_output(s, &m);
    return (ssize_t)m.len;
}

/* Takes at most TAKE_MAX messages, while there is room for them: empty messages and texts need
 * none, and an engine can send them without end. Returns how many bytes of output came. */
static size_t take_stream(struct output_stream *s)
{
    size_t taken = 0;

    s->more = false;
    for (int i = 0; i < TAKE_MAX; i++) {
        ssize_t n = wants_more(s) ? take_message(s) : -1;

        if (n < 0)
            return taken;
        taken += (size_t)n;
    }
    s->more = true;
    return taken;
}

static size_t take_output(struct sandbox_output *o)
{
    return take_stream(&o->streams[OUTPUT_STDOUT]) + take_stream(&o->streams[OUTPUT_STDERR]);
}

/* ---- what is printed ---- */

static size_t piece_size(const struct output_stream *s)
{
    if (s->piece_left)
        return s->piece_left;
    if (s->escapes)
        return escape_cut(s->pending.data + s->pending_at, pending(s), WRITE_MAX);
    return pending(s) < WRITE_MAX ? pending(s) : WRITE_MAX;
}

/* Both streams may go to one terminal. There a piece of one stream is written to its end before a
 * piece of the other begins: harmless parts of both could make one harmful sequence. */
static bool may_print(const struct sandbox_output *o, int stream)
{
    const struct output_stream *s = &o->streams[stream], *other = &o->streams[!stream];

    return pending(s) > 0 && !(s->escapes && other->escapes && other->piece_left > 0);
}

/* Writes a piece to a descriptor that poll() has found writable. Returns 0 or -errno. */
static int write_piece(struct output_stream *s)
{
    size_t len = piece_size(s);
    ssize_t n = write(s->fd, s->pending.data + s->pending_at, len);

    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -errno;
    s->piece_left = len - (size_t)n;
    s->pending_at += (size_t)n;
    if (s->pending_at == s->pending.len || s->pending_at >= AHEAD_MAX) {
        buf_shift(&s->pending, s->pending_at);
        s->pending_at = 0;
    }
    return 0;
}

static int write_pieces(struct sandbox_output *o, const struct pollfd *p)
{
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        int r = p[i].revents && may_print(o, i) ? write_piece(&o->streams[i]) : 0;

        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_printed(const struct sandbox_output *o)
{
    return pending(&o->streams[OUTPUT_STDOUT]) + pending(&o->streams[OUTPUT_STDERR]) == 0;
}

/* ---- waiting ---- */

static int cannot_write(struct sandbox_output *o, int error, struct err *err)
{
    o->write_error = error;
    return err_sys(err, error, "write the output");
}

/* A peer that is gone without a word is found by pings on the call's connection. An engine does not
 * read from the reader of a channel, so that it never answers a ping there. */
static int keep_alive(struct sandbox_output *o, struct err *err)
{
    struct iii_client *c = o->client;

    if (o->lost || websocket_keep_alive(websocket_client_socket(c->ws), true) == 0)
        return 0;
    return err_code(err, ERR_UNAVAILABLE, "connection_lost", "%.100s does not answer any more",
                    c->url);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int wait_ms(const struct sandbox_output *o, int64_t until_ns)
{
    bool more = o->more;
    int64_t at = until_ns, left_ms;

    if (!o->lost)
        at = sooner(at, websocket_ping_ns(websocket_client_socket(o->client->ws)));
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        const struct output_stream *s = &o->streams[i];

        more |= s->more && wants_more(s);
    }
    left_ms = (at - mono_ns() + 999999) / 1000000;
    return more || left_ms < 0 ? 0 : left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

/* Waits for input, for a writable descriptor or until until_ns, and prints a piece of each stream.
 */
static int await(struct sandbox_output *o, int64_t until_ns, struct err *err)
{
    struct iii_client *c = o->client;
    struct pollfd p[2 + 2 * OUTPUT_STREAMS] = {
        {.fd = o->lost ? -1 : websocket_client_fd(c->ws), .events = websocket_client_events(c->ws)},
        {.fd = c->stop_fd, .events = POLLIN},
    };
    int r;

    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        struct output_stream *s = &o->streams[i];
        short events = websocket_client_events(s->channel);

        if (!wants_more(s))
            events = (short)(events & ~POLLIN);
        p[2 + i] = (struct pollfd){.fd = s->ended || !events ? -1 : websocket_client_fd(s->channel),
                                   .events = events};
        p[2 + OUTPUT_STREAMS + i] =
            (struct pollfd){.fd = may_print(o, i) ? s->fd : -1, .events = POLLOUT};
    }
    if (poll(p, ARRAY_LEN(p), wait_ms(o, until_ns)) < 0 && errno != EINTR)
        return err_sys(err, errno, "wait for %.100s", c->url);
    if (p[1].revents)
        return err_code(err, ERR_CONFLICT, "cancelled", "interrupted");
    r = write_pieces(o, p + 2 + OUTPUT_STREAMS);
    if (r < 0)
        return cannot_write(o, -r, err);
    (void)websocket_client_flush(c->ws);
    return 0;
}

/* ---- the answer, and what is left behind it ---- */

static int await_answer(struct sandbox_output *o, const char *function, int64_t timeout_ms,
                        json_t **ret, struct err *err)
{
    int64_t until_ns = mono_ns() + timeout_ms * 1000000;

    for (;;) {
        int r;

        (void)take_output(o);
        r = iii_client_answer(o->client, 0, ret, err);
        if (r != 0)
            return r;
        o->more = o->client->more;
        if (mono_ns() >= until_ns)
            return err_code(err, ERR_TIMEOUT, "timeout", "%.80s has not answered in %lld ms",
                            function, (long long)timeout_ms);
        if (await(o, until_ns, err) < 0 || keep_alive(o, err) < 0)
            return -1;
    }
}

/* Will the worker end the channels? A worker that knows nothing of channels does not: its answer
 * has no `truncated`, and nothing came over them. After a timeout there is no answer to look at. */
static bool expects_end(const struct sandbox_output *o, const json_t *result)
{
    return o->streams[OUTPUT_STDOUT].came || o->streams[OUTPUT_STDERR].came ||
           json_object_get(result, "truncated") ||
           strcmp(json_text(o->client->envelope, "code"), TIMED_OUT) == 0;
}

static bool is_over(const struct sandbox_output *o)
{
    return o->streams[OUTPUT_STDOUT].ended && o->streams[OUTPUT_STDERR].ended;
}

/* Answers the pings of the call's connection while our reader is slow, and drops its messages: the
 * call is over. */
static void pass_over(struct sandbox_output *o)
{
    struct websocket_message m;
    int r = o->lost ? -1 : websocket_next(websocket_client_socket(o->client->ws), &m);

    o->lost = r < 0;
    o->more = r > 0;
}

void output_drain_begin(struct output_drain *d, int64_t now_ns, bool expects)
{
    *d = (struct output_drain){
        .round_ns = now_ns,
        .silent_ns = now_ns + (expects ? DRAIN_MS * 1000000ll : 0),
        .end_ns = now_ns + DRAIN_TOTAL_NS,
    };
}

bool output_drain_is_over(struct output_drain *d, int64_t now_ns, size_t taken, bool slow)
{
    d->total += taken;
    d->end_ns += (int64_t)taken * DRAIN_BYTE_NS + (slow ? now_ns - d->round_ns : 0);
    d->round_ns = now_ns;
    if (taken > 0 || slow)
        d->silent_ns = now_ns + DRAIN_MS * 1000000ll;
    return now_ns >= d->silent_ns || now_ns >= d->end_ns || d->total > DRAIN_MAX;
}

/* Takes what has come, and ends the streams when they are waited for no longer. */
static void drain_round(struct sandbox_output *o, struct output_drain *d)
{
    bool slow = !is_printed(o);
    size_t taken = take_output(o);

    if (!output_drain_is_over(d, mono_ns(), taken, slow))
        return;
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        struct output_stream *s = &o->streams[i];

        s->cut |= !s->ended && s->came;
        end_stream(s);
    }
}

/* Prints what is still in the channels. expects: the channels have an end. A stream that does not
 * end, and carries no byte for DRAIN_MS, is taken for ended. */
static int drain(struct sandbox_output *o, bool expects, struct err *err)
{
    struct output_drain d;

    output_drain_begin(&d, mono_ns(), expects);
    for (;;) {
        drain_round(o, &d);
        if (is_over(o) && is_printed(o))
            return 0;
        pass_over(o);
        if (await(o, is_over(o) ? INT64_MAX : sooner(d.silent_ns, d.end_ns), err) < 0)
            return -1;
        if (keep_alive(o, NULL) < 0)
            o->lost = true;
    }
}

int sandbox_output_wait(struct sandbox_output *o, const char *function, int64_t timeout_ms,
                        json_t **ret, struct err *err)
{
    struct err why = {0};
    int r = await_answer(o, function, timeout_ms, ret, err);

    if (r < 0 && (o->write_error || has_code(err, "cancelled")))
        return -1;
    o->lost = r < 0 && has_code(err, "connection_lost");
    if (drain(o, expects_end(o, r > 0 ? *ret : NULL), &why) == 0)
        return r;
    *err = why;
    if (r > 0)
        json_decref(*ret);
    *ret = NULL;
    return -1;
}
