#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/server.h"
#include "http/websocket.h"
#include "iii/channels_internal.h"

/* Ends of channels that are connections: requests that are parked, without a thread. */

#define TURN_NS     (5 * 1000000ll) /* then others have their turn */
#define PATIENCE_MS (300 * 1000)    /* with a reader that takes nothing */
#define AHEAD       (64u << 10)     /* bytes that are read at once */
#define WORDS       64              /* messages of a reader, who has nothing to say, at once */

/* Of a message that comes in pieces so much is kept without asking for memory: what clients cut
 * their data into, its head, and what may have come with it. */
#define PART_FREE ((64u << 10) + (8u << 10))

#define ABOUT_TO_END "the daemon is about to end"

struct channel_socket {
    struct channel_holder holder;
    struct iii_channel *channel;
    enum channel_side side;
    struct http_req *req;
    struct websocket *ws; /* NULL = it is not one yet */

    bool drains; /* the daemon is about to end: only while something moves */

    size_t sending; /* of a reader: the item that the connection has not taken */
    bool is_sending;

    char *ahead; /* of a writer: what was read and is no message yet; NULL = nothing */
    size_t at, len;
    size_t part;   /* bytes of the message that comes */
    bool reserved; /* there is memory for all of it */
    bool full;     /* it is not read now */
    bool more;     /* it may have sent more than was taken, which epoll need not tell of */
    bool is_lost;  /* only what is here already is read */
};

static void wake_request(struct channel_holder *h)
{
    http_wake(((struct channel_socket *)h)->req);
}

/* ---- for the WebSocket ----
 *
 * It reads 4 KiB at a time. */

static ssize_t take_ahead(struct channel_socket *s, void *data, size_t len)
{
    size_t n = s->len - s->at < len ? s->len - s->at : len;

    memcpy(data, s->ahead + s->at, n);
    s->at += n;
    s->part += n;
    if (s->at == s->len)
        s->at = s->len = 0;
    return (ssize_t)n;
}

static ssize_t on_read(void *arg, void *data, size_t len)
{
    struct channel_socket *s = arg;
    ssize_t n;

    if (s->side == CHANNEL_READER)
        return http_upgraded_read(s->req, data, len);
    if (s->part >= PART_FREE && !s->reserved && !s->is_lost)
        return 0;
    if (s->len > 0)
        return take_ahead(s, data, len);
    if (s->is_lost)
        return -1;
    if (!s->ahead)
        s->ahead = xmalloc(AHEAD);
    n = http_upgraded_read(s->req, s->ahead, AHEAD);
    if (n <= 0)
        return n;
    s->len = (size_t)n;
    return take_ahead(s, data, len);
}

static int on_write(void *arg, const void *data, size_t len)
{
    return http_stream_write(((struct channel_socket *)arg)->req, data, len);
}

static size_t on_unsent(void *arg)
{
    return http_unsent(((struct channel_socket *)arg)->req);
}

/* ---- the writer's ---- */

static void put_message(struct channel_socket *s, const struct websocket_message *m)
{
    channel_put(s->channel, m->is_text, m->data, m->len);
    s->part = 0;
    if (s->reserved)
        channel_unreserve(s->channel, CHANNEL_MESSAGE_MAX);
    s->reserved = false;
}

/* No message is whole. Can more be read, with memory for it? */
static bool may_read_on(struct channel_socket *s)
{
    if (!websocket_has_part(s->ws))
        s->part = 0; /* those were questions whether we are there */
    if (s->part >= PART_FREE && !s->reserved) {
        s->reserved = channel_reserve(s->channel, CHANNEL_MESSAGE_MAX);
        s->full = !s->reserved;
        return s->reserved;
    }
    return s->len > 0 && websocket_takes(s->ws);
}

/* What has come goes into the queue while that has room. False when there will be no more. */
static bool take_messages(struct channel_socket *s, int64_t end_ns)
{
    struct websocket_message m;
    int r;

    s->full = s->more = false;
    do {
        r = channel_room(s->channel, false);
        if (r <= 0) {
            s->full = true;
            return r == 0;
        }
        r = websocket_next(s->ws, &m);
        if (r > 0)
            put_message(s, &m);
        else if (r == 0 && !may_read_on(s))
            return true;
    } while (r >= 0 && mono_ns() < end_ns);
    s->more = true; /* a Close, too, may have come with what was read */
    return r >= 0;
}

/* It has gone: what it sent is taken as far as there is room for it, and what had been read of that
 * before in any case. */
static void take_last(struct channel_socket *s)
{
    struct websocket_message m;

    if (!take_messages(s, INT64_MAX))
        return;
    s->is_lost = true;
    while (websocket_next(s->ws, &m) > 0)
        put_message(s, &m);
}

/* ---- the reader's ---- */

/* It has nothing to say, but may ask whether we are there, or leave. */
static bool hear(struct channel_socket *s)
{
    struct websocket_message m;
    int r = 1;

    for (int i = 0; i < WORDS && r > 0; i++)
        r = websocket_next(s->ws, &m);
    s->more = r > 0;
    return r >= 0;
}

static void settle(struct channel_socket *s)
{
    if (!s->is_sending || http_unsent(s->req) > 0)
        return;
    s->is_sending = false;
    channel_taken(s->channel, s->sending);
}

/* 1 = it has had all, or its time was over; 0 = that was the last, -1 = it has gone. */
static int send_items(struct channel_socket *s, int64_t end_ns)
{
    struct channel_item *i;

    for (settle(s); !s->is_sending && mono_ns() < end_ns; settle(s)) {
        int r = channel_get(s->channel, &i);

        if (r <= 0)
            return r == 0 ? 1 : 0;
        s->sending = i->len;
        s->is_sending = true;
        r = websocket_send(s->ws, i->is_text, i->data, i->len);
        free(i);
        if (r < 0)
            return -1;
    }
    return 1;
}

/* ---- steps ---- */

/* A writer's Close is its word for that, unless it gives a reason for leaving (a page that is left,
 * a program that fails) or has begun a message that it did not end. */
static bool said_all(const struct channel_socket *s)
{
    unsigned code = websocket_peer_code(s->ws);

    return (code == WEBSOCKET_NORMAL || code == WEBSOCKET_NO_CODE) && !websocket_has_part(s->ws);
}

static void finish(struct channel_socket *s)
{
    if (s->is_sending)
        channel_taken(s->channel, s->sending);
    if (s->reserved)
        channel_unreserve(s->channel, CHANNEL_MESSAGE_MAX);
    if (s->side == CHANNEL_WRITER && !said_all(s))
        channel_lose(s->channel);
    else
        channel_leave(s->channel, s->side);
    websocket_free(s->ws);
    free(s->ahead);
    free(s);
}

/* The daemon is about to end, and the other side left before it had sent or read everything:
 * perhaps for the same reason, in another thread, a moment before this side. */
static bool was_cut(const struct channel_socket *s)
{
    return s->drains && (s->side == CHANNEL_WRITER || !channel_is_whole(s->channel));
}

/* Says why, if the client is to know. */
static void say_end(struct channel_socket *s)
{
    const char *gone = channel_gone(s->channel);

    if (websocket_is_closed(s->ws))
        return;
    if (gone)
        websocket_close(s->ws, WEBSOCKET_POLICY, gone);
    else if (was_cut(s))
        websocket_close(s->ws, WEBSOCKET_RESTART, ABOUT_TO_END);
    else
        websocket_close(s->ws, WEBSOCKET_NORMAL,
                        s->side == CHANNEL_WRITER ? "the reader has gone" : "");
}

/* False when it is over. */
static bool go_on(struct channel_socket *s, int64_t end_ns)
{
    if (s->side == CHANNEL_WRITER)
        return take_messages(s, end_ns);
    return hear(s) && send_items(s, end_ns) > 0;
}

/* A reader may have no time for what it was sent, and for questions behind it. */
static bool is_heard(const struct channel_socket *s)
{
    return s->side == CHANNEL_WRITER && !s->full;
}

static void set_wait(struct channel_socket *s, int64_t end_ns, struct http_wait *wait)
{
    *wait = (struct http_wait){.fd = -1,
                               .input = !s->full && websocket_takes(s->ws),
                               .half = s->side == CHANNEL_WRITER, /* what it sent is taken first */
                               .patience_ms = PATIENCE_MS,
                               .until_ns = websocket_ping_ns(s->ws)};
    /* At once, behind those who wait for their turn. */
    if (s->more || (s->side == CHANNEL_READER && http_unsent(s->req) == 0 && mono_ns() >= end_ns))
        wait->until_ns = 1;
    else if (s->drains && channel_moves_until(s->channel) < wait->until_ns)
        wait->until_ns = channel_moves_until(s->channel);
    if (s->len == 0) {
        free(s->ahead);
        s->ahead = NULL;
    }
}

static bool on_news(struct http_req *req, unsigned news, struct http_wait *wait, void *arg)
{
    struct channel_socket *s = arg;
    int64_t end_ns = mono_ns() + TURN_NS;
    bool still;

    (void)req;
    s->drains |= (news & HTTP_DRAIN) != 0;
    still = s->drains && mono_ns() >= channel_moves_until(s->channel);
    if (still)
        websocket_close(s->ws, WEBSOCKET_RESTART, ABOUT_TO_END);
    if ((news & HTTP_GONE) && s->side == CHANNEL_WRITER)
        take_last(s);
    if ((news & HTTP_GONE) || still || !go_on(s, end_ns) ||
        websocket_keep_alive(s->ws, is_heard(s)) < 0) {
        if (!(news & HTTP_GONE))
            say_end(s);
        finish(s);
        return false;
    }
    set_wait(s, end_ns, wait);
    return true;
}

/* ---- the handshake ---- */

static void refuse(struct http_req *req, const struct err *err)
{
    json_t *body = json_pack("{s:s, s:s}", "error", err->text, "code",
                             err->code ? err->code : err_kind_code(err->kind));
    auto_free char *text = json_dumps(body, JSON_COMPACT);

    json_decref(body);
    if (err->kind == ERR_UNAVAILABLE)
        http_reply_header(req, "Retry-After", "1");
    http_reply(req, err_kind_status(err->kind), "application/json", text, strlen(text));
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* The value of that name, decoded; "" when there is none, or it is too long to be one of ours. */
static void query_get(const char *query, const char *name, char *ret, size_t size)
{
    size_t len = strlen(name), n = 0;
    const char *at = query;

    ret[0] = '\0';
    while (*at && (strncmp(at, name, len) != 0 || at[len] != '=')) {
        at += strcspn(at, "&");
        at += *at == '&';
    }
    if (!*at)
        return;
    for (at += len + 1; *at && *at != '&'; at++) {
        int high = *at == '%' ? hex_digit(at[1]) : -1, low = high < 0 ? -1 : hex_digit(at[2]);

        if (n + 1 >= size) {
            ret[0] = '\0';
            return;
        }
        ret[n++] = low < 0 ? *at : (char)(high << 4 | low);
        at += low < 0 ? 0 : 2;
        ret[n] = '\0';
    }
}

/* Which end does it ask for, and may it have it? */
static int check(struct http_req *req, enum channel_side *ret, struct err *err)
{
    char dir[8];

    query_get(http_req_query(req), "dir", dir, sizeof(dir));
    *ret = strcmp(dir, "write") == 0 ? CHANNEL_WRITER : CHANNEL_READER;
    if (*ret == CHANNEL_READER && strcmp(dir, "read") != 0)
        return err_code(err, ERR_NOT_FOUND, "channel_not_found",
                        "dir must be read or write: a channel has no other end");
    return websocket_check(req, err) < 0 ? -1 : http_seat_take(req, err);
}

static int accept_socket(struct channel_socket *s)
{
    const struct websocket_io io = {on_read, on_write, on_unsent, s};
    char accept[32];

    websocket_accept_key(http_req_header(s->req, "Sec-WebSocket-Key"), accept);
    http_reply_header(s->req, "Sec-WebSocket-Accept", accept);
    s->ws = websocket_new(&io, CHANNEL_MESSAGE_MAX);
    return http_upgrade(s->req, "websocket");
}

/* Somebody else has it: it is told so, as others tell it. */
static void turn_away(struct channel_socket *s)
{
    if (accept_socket(s) == 0)
        websocket_close(s->ws, WEBSOCKET_TAKEN, "somebody else has or had this end");
    websocket_free(s->ws);
    free(s);
}

bool iii_handle_channel(struct http_req *req, const struct caller *caller, struct rates *rates,
                        const struct rate_state *rate, void *hub)
{
    struct iii_channels *all = ((struct iii_hub *)hub)->channels;
    const struct http_wait wait = {.fd = -1, .half = true, .until_ns = 1};
    char key[CHANNEL_KEY_SIZE + 1];
    struct iii_channel *c;
    struct channel_socket *s;
    enum channel_side side;
    struct err err = {0};

    (void)caller;
    (void)rates;
    (void)rate;
    query_get(http_req_query(req), "key", key, sizeof(key));
    c = channel_find(all, strrchr(http_req_path(req), '/') + 1, key);
    if (!c || check(req, &side, &err) < 0) {
        if (!c)
            (void)err_code(&err, ERR_NOT_FOUND, "channel_not_found",
                           "there is no such channel, or its key is another");
        refuse(req, &err);
        channel_unref(c);
        return true;
    }
    s = xcalloc(1, sizeof(*s));
    *s = (struct channel_socket){.channel = c, .side = side, .req = req};
    s->holder.wake = wake_request;
    if (!channel_claim(c, side, &s->holder))
        turn_away(s);
    else if (accept_socket(s) < 0 || http_park(req, &wait, on_news, s, &err) < 0)
        finish(s);
    channel_unref(c);
    return true;
}
