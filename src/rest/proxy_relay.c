#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "functions/callers.h"
#include "http/server.h"
#include "rest/proxy_internal.h"
#include "rest/rest.h"
#include "rest/rest_internal.h"

/* Moves the bytes of one request and of its answer. A step goes as far as it can without waiting.
 * Most answers are there within milliseconds, so the worker waits for those a moment itself, if not
 * too many do; everything else is parked: a long download, a stream of events or an open WebSocket
 * has no thread.
 *
 * Neither direction gets ahead of the other side by more than a piece: nothing is read from the
 * sandbox while the client has not taken what was sent, and the other way round. */

#define PIECE           (16u << 10)
#define PIECES_A_STEP   32
#define REQUEST_MAX     (48u << 10) /* head, or a piece with its framing */
#define ANSWER_HEAD     (HTTP_ANSWER_HEAD_MAX + (16u << 10))
#define HEADS_MAX       8 /* 1xx before the answer */
#define PATIENCE_NS     (20 * 1000000ll)
#define PATIENT_MAX     4 /* more threads that wait would cost more than parking */
#define PIECE_MEMORY    (2 * PIECE + 4096)
#define MEMORY_NEXT_NS  (50 * 1000000ll)
#define CROWDED_NEXT_NS (10 * 1000000ll)
#define CROWDED_DOUBLES 4 /* then it stays as it is */
#define NOTE_NS         (500 * 1000000ll)
/* A client that connects to a port may rest, as it may without us. */
#define DIAL_PATIENCE_MS (600 * 1000)

enum relay_end { RELAY_GOES_ON, RELAY_DONE, RELAY_FAILED };

struct relay {
    struct rest *rest;
    struct http_req *req;
    char id[ID_SIZE];
    struct proxy_rules rules;
    bool html;
    uint32_t timeout_ms;
    int64_t until_ns; /* for the head of the answer; 0 = it has come */

    /* to the sandbox */
    int fd;
    unsigned tries;  /* to connect, when there was a crowd */
    bool was_kept;   /* the connection served another request before */
    bool may_repeat; /* the request has no body and changes nothing */
    struct buf out;  /* unsent */
    char *again;     /* the head, as long as it may have to be sent again */
    bool sent_all;   /* of the body, framing included, out has the rest */
    bool deaf;       /* the server takes no more; its answer may still come */
    bool has_sent;   /* something, in this step */

    /* from the sandbox */
    struct buf head;
    size_t scanned;
    unsigned heads;
    bool has_answer, keeps; /* the server keeps its connection */
    bool chunks;            /* the client gets the body in chunks */
    bool client_kept;
    struct http_body body;

    /* both are streams of bytes now */
    bool upgraded, client_ended, server_ended;
    bool halves; /* each ends by itself; else all ends with the server's */
    bool told;   /* the client, that the server's has ended */
    bool parked;
    enum relay_end ended; /* before it was parked */
    size_t reserved;      /* of the budget of streams, while it is parked */
    int64_t noted_ns;     /* when the sandbox was last said to be in use */
    struct err err;
};

/* ---- life ---- */

static void hang_up(struct relay *r)
{
    http_wait_leave(r->req);
    if (r->fd >= 0)
        proxied_close(steal_fd(r->fd));
}

static void relay_free(struct relay *r)
{
    hang_up(r);
    proxy_pool_leave(r->rest->proxies, r->id);
    budget_give(r->rest->config->streams, r->reserved);
    buf_done(&r->out);
    buf_done(&r->head);
    http_body_done(&r->body);
    free(r->again);
    free(r);
}

static enum relay_end fail(struct relay *r, enum err_kind kind, const char *code, const char *text)
{
    (void)err_code(&r->err, kind, code, "%s", text);
    return RELAY_FAILED;
}

static enum relay_end bad_answer(struct relay *r, const char *why)
{
    (void)err_code(&r->err, ERR_UNAVAILABLE, "bad_answer",
                   "the server on port %u gave an answer that cannot be passed on: %s",
                   r->rules.port, why);
    return RELAY_FAILED;
}

static void set_deadline(struct relay *r)
{
    if (!r->has_answer)
        r->until_ns = mono_ns() + (int64_t)r->timeout_ms * 1000000;
}

/* Only what changes nothing may go over a connection that its server may close this moment: if it
 * does, the request is sent again. For all else there is a new one. */
static int connect_server(struct relay *r, bool fresh)
{
    r->was_kept = false;
    if (!fresh && r->may_repeat) {
        r->fd = proxy_pool_take(r->rest->proxies, r->id, r->rules.port);
        r->was_kept = r->fd >= 0;
    }
    if (r->fd < 0 && proxied_dial(r->rest->engine, r->id, r->rules.port, &r->fd, &r->err) < 0)
        return -1;
    if (r->was_kept)
        r->again = xstrndup(r->out.data, r->out.len);
    r->err = (struct err){0};
    set_deadline(r);
    return 0;
}

/* So many connect at once that the sandbox has not answered them yet: this one tries again. */
static bool is_crowded(const struct relay *r)
{
    return r->fd < 0 && r->err.code && strcmp(r->err.code, "sandbox_busy") == 0 &&
           mono_ns() < r->until_ns;
}

/* Hundreds may do so for as long as their server takes nobody in. */
static int64_t next_try_ns(struct relay *r)
{
    int64_t ns = mono_ns() + (CROWDED_NEXT_NS << r->tries);

    if (r->tries < CROWDED_DOUBLES)
        r->tries++;
    return ns;
}

/* ---- up: from the client to the sandbox ---- */

static int add_chunk(struct relay *r, const char *data, size_t len)
{
    char size[24];

    (void)snprintf(size, sizeof(size), "%zx\r\n", len);
    (void)buf_add_str(&r->out, size);
    (void)buf_add(&r->out, data, len);
    return buf_add_str(&r->out, "\r\n");
}

static void add_last_chunk(struct relay *r)
{
    (void)buf_add_str(&r->out, "0\r\n");
    proxy_trailers(http_pass_trailers(r->req), &r->out);
    (void)buf_add_str(&r->out, "\r\n");
}

/* The next piece of the body; -1 when the client sends nonsense, or is gone. */
static int take_body(struct relay *r, bool chunked)
{
    char data[PIECE];
    ssize_t n = http_pass_take(r->req, data, sizeof(data));

    if (n < 0)
        return -1;
    if (n > 0 && !r->deaf)
        (void)(chunked ? add_chunk(r, data, (size_t)n) : buf_add(&r->out, data, (size_t)n));
    if (http_pass_body_ended(r->req)) {
        r->sent_all = true;
        if (chunked && !r->deaf)
            add_last_chunk(r);
    }
    return n > 0;
}

static int take_stream(struct relay *r)
{
    char data[PIECE];
    ssize_t n = http_upgraded_read(r->req, data, sizeof(data));

    if (n < 0) {
        r->client_ended = true;
        if (r->out.len == 0)
            (void)shutdown(r->fd, SHUT_WR);
    }
    if (n > 0 && !r->deaf)
        (void)buf_add(&r->out, data, (size_t)n);
    return n > 0;
}

static void send_out(struct relay *r)
{
    while (r->out.len > 0 && !r->deaf) {
        ssize_t n = send(r->fd, r->out.data, r->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        r->deaf = n < 0;
        if (n > 0) {
            r->has_sent = true;
            buf_shift(&r->out, (size_t)n);
            set_deadline(r);
        }
    }
    buf_done(&r->out);
    if (r->client_ended)
        (void)shutdown(r->fd, SHUT_WR);
}

/* -1, or whether there may be more. */
static int go_up(struct relay *r)
{
    int more = 0;

    if (r->out.len > 0)
        send_out(r);
    if (r->out.len == 0 && r->upgraded && r->parked && !r->client_ended)
        more = take_stream(r);
    else if (r->out.len == 0 && !r->upgraded && !r->sent_all)
        more = take_body(r, http_req_length(r->req) < 0);
    if (r->out.len > 0)
        send_out(r);
    return more;
}

/* ---- down: from the sandbox to the client ---- */

static int write_client(struct relay *r, const void *a, size_t a_len, const void *b, size_t b_len,
                        const void *c, size_t c_len)
{
    struct iovec v[3] = {{(void *)a, a_len}, {(void *)b, b_len}, {(void *)c, c_len}};

    return http_pass_write(r->req, v, 3);
}

/* In front of a piece of the body, and behind it. */
static void frame(struct relay *r, size_t len, struct buf *before, struct buf *after)
{
    if (!r->chunks)
        return;
    if (len > 0) {
        char size[24];

        (void)snprintf(size, sizeof(size), "%zx\r\n", len);
        (void)buf_add_str(before, size);
        (void)buf_add_str(after, "\r\n");
    }
    if (r->body.done) {
        (void)buf_add_str(after, "0\r\n");
        proxy_trailers(&r->body.trailers, after);
        (void)buf_add_str(after, "\r\n");
    }
}

/* Decodes a piece of the body and writes it, behind what is in before. */
static enum relay_end pass_body(struct relay *r, struct buf *before, char *data, size_t len)
{
    auto_buf struct buf after = {.max = 16u << 10};
    size_t used, n;

    if (http_body_decode(&r->body, data, len, &used, &n) < 0)
        return bad_answer(r, "its chunks are malformed");
    /* What comes behind an answer is an answer to nothing. */
    if (used < len)
        r->keeps = false;
    frame(r, n, before, &after);
    if (before->len + n + after.len > 0 &&
        write_client(r, before->data, before->len, data, n, after.data, after.len) < 0)
        return RELAY_FAILED;
    return r->body.done ? RELAY_DONE : RELAY_GOES_ON;
}

/* How the client learns where the body ends. */
static void add_framing(struct relay *r, const struct http_answer *a, struct buf *head)
{
    bool keeps = http_pass_begin(r->req, a->status) && http_pass_body_ended(r->req);
    char line[64];

    if (r->body.kind == HTTP_BODY_LENGTH || (r->rules.is_head && a->length >= 0)) {
        (void)snprintf(line, sizeof(line), "Content-Length: %lld\r\n", (long long)a->length);
        (void)buf_add_str(head, line);
    } else if (r->body.kind != HTTP_BODY_NONE && !r->rules.http10) {
        r->chunks = true;
        (void)buf_add_str(head, "Transfer-Encoding: chunked\r\n");
    } else if (r->body.kind != HTTP_BODY_NONE) {
        keeps = false;
    }
    r->client_kept = keeps;
    if (!keeps)
        (void)buf_add_str(head, "Connection: close\r\n");
    else if (r->rules.http10)
        (void)buf_add_str(head, "Connection: keep-alive\r\n");
    (void)buf_add_str(head, "\r\n");
}

static enum relay_end begin_answer(struct relay *r, const struct http_answer *a, char *rest,
                                   size_t rest_len)
{
    auto_buf struct buf head = {.max = ANSWER_HEAD};

    if (proxy_answer_head(a, &r->rules, &head) < 0)
        return bad_answer(r, "its head is too long");
    r->has_answer = true;
    r->until_ns = 0;
    r->keeps = a->keep_alive;
    free(steal_ptr(r->again));
    http_body_init(&r->body, a, r->rules.is_head);
    add_framing(r, a, &head);
    if (r->body.done && rest_len > 0)
        r->keeps = false;
    return pass_body(r, &head, rest, rest_len);
}

/* The server speaks the other protocol from here on, and so does the client. */
static enum relay_end begin_stream(struct relay *r, const struct http_answer *a, const char *rest,
                                   size_t rest_len)
{
    const char *upgrade = http_answer_find(a, "upgrade");
    auto_buf struct buf head = {.max = ANSWER_HEAD};

    if (!r->rules.is_upgrade || !upgrade)
        return bad_answer(r, "it changes to a protocol that nobody asked for");
    if (proxy_answer_head(a, &r->rules, &head) < 0 ||
        buf_addf(&head, "Connection: Upgrade\r\nUpgrade: %s\r\n\r\n", upgrade) < 0)
        return bad_answer(r, "its head is too long");
    r->has_answer = r->upgraded = true;
    r->until_ns = 0;
    free(steal_ptr(r->again));
    http_pass_upgraded(r->req);
    return write_client(r, head.data, head.len, rest, rest_len, NULL, 0) < 0 ? RELAY_FAILED
                                                                             : RELAY_GOES_ON;
}

/* 100 was said by us already; 103 and others are passed on to who can know them. */
static enum relay_end pass_interim(struct relay *r, const struct http_answer *a)
{
    auto_buf struct buf head = {.max = ANSWER_HEAD};

    if (++r->heads > HEADS_MAX)
        return bad_answer(r, "it does not come to an end");
    if (a->status == 100 || r->rules.http10)
        return RELAY_GOES_ON;
    if (proxy_answer_head(a, &r->rules, &head) < 0)
        return bad_answer(r, "its head is too long");
    return write_client(r, head.data, head.len, "\r\n", 2, NULL, 0) < 0 ? RELAY_FAILED
                                                                        : RELAY_GOES_ON;
}

static enum relay_end read_head(struct relay *r, char *data, size_t len, size_t *ret_used)
{
    ssize_t end = http_answer_end(data, len, r->scanned);
    struct http_answer a;
    const char *why;

    *ret_used = 0;
    r->scanned = len;
    if (end == 0 && len < HTTP_ANSWER_HEAD_MAX)
        return RELAY_GOES_ON;
    why = end == 0 || (size_t)end > HTTP_ANSWER_HEAD_MAX ? "its head is too long"
          : end < 0                                      ? "it is not HTTP"
                                                         : http_answer_parse(&a, data, (size_t)end);
    if (why)
        return bad_answer(r, why);
    r->scanned = 0;
    *ret_used = (size_t)end;
    if (a.status == 101) {
        *ret_used = len;
        return begin_stream(r, &a, data + end, len - (size_t)end);
    }
    if (a.status < 200)
        return pass_interim(r, &a);
    *ret_used = len;
    return begin_answer(r, &a, data + end, len - (size_t)end);
}

/* Heads are read where they came in, if they come whole. */
static enum relay_end pass_heads(struct relay *r, char *data, size_t len)
{
    enum relay_end end = RELAY_GOES_ON;
    size_t used = 1, off = 0;

    if (r->head.len > 0) {
        if (buf_add(&r->head, data, len) < 0)
            return bad_answer(r, "its head is too long");
        data = r->head.data;
        len = r->head.len;
    }
    while (end == RELAY_GOES_ON && used > 0 && off < len && !r->has_answer) {
        end = read_head(r, data + off, len - off, &used);
        off += used;
    }
    if (end == RELAY_GOES_ON && !r->has_answer && r->head.len == 0)
        (void)buf_add(&r->head, data + off, len - off);
    else if (end == RELAY_GOES_ON && !r->has_answer)
        buf_shift(&r->head, off);
    else
        buf_done(&r->head);
    return end;
}

static enum relay_end pass_piece(struct relay *r, char *data, size_t len)
{
    auto_buf struct buf before = {.max = 64};

    if (r->upgraded)
        return write_client(r, data, len, NULL, 0, NULL, 0) < 0 ? RELAY_FAILED : RELAY_GOES_ON;
    return r->has_answer ? pass_body(r, &before, data, len) : pass_heads(r, data, len);
}

/* A connection that was kept for us, and that its server closed when our request was on its way. */
static bool can_repeat(const struct relay *r)
{
    return r->was_kept && r->may_repeat && !r->has_answer && r->head.len == 0 && r->again;
}

static enum relay_end repeat(struct relay *r)
{
    hang_up(r);
    if (connect_server(r, true) < 0)
        return RELAY_FAILED;
    r->deaf = false;
    buf_clear(&r->out);
    (void)buf_add_str(&r->out, r->again);
    send_out(r);
    return RELAY_GOES_ON;
}

static enum relay_end server_closed(struct relay *r, bool reset)
{
    char none[1] = "";

    if (can_repeat(r))
        return repeat(r);
    if (r->upgraded) {
        r->server_ended = true;
        return r->halves && !reset ? RELAY_GOES_ON : RELAY_DONE;
    }
    if (!r->has_answer)
        return bad_answer(r, "the connection was closed before it came");
    if (reset || r->body.kind != HTTP_BODY_UNTIL_CLOSE)
        return bad_answer(r, "it ended in the middle of its body");
    r->body.done = true;
    r->keeps = false;
    return r->chunks ? pass_piece(r, none, 0) : RELAY_DONE;
}

/* One piece; *ret_more: there may be another. */
static enum relay_end go_down(struct relay *r, bool *ret_more)
{
    char data[PIECE];
    ssize_t n;

    *ret_more = false;
    if (http_unsent(r->req) > 0 || r->server_ended)
        return RELAY_GOES_ON;
    do
        n = recv(r->fd, data, sizeof(data), MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return RELAY_GOES_ON;
    if (n <= 0)
        return server_closed(r, n < 0);
    *ret_more = true;
    return pass_piece(r, data, (size_t)n);
}

/* ---- both ---- */

/* Of two streams that end by themselves. */
static enum relay_end look_at_halves(struct relay *r)
{
    if (!r->server_ended || http_unsent(r->req) > 0)
        return RELAY_GOES_ON;
    if (!r->told)
        http_upgraded_end(r->req);
    r->told = true;
    return (r->client_ended && r->out.len == 0) || r->deaf ? RELAY_DONE : RELAY_GOES_ON;
}

/* Something moves, or has a chance to: the sandbox is not idle. */
static void note_traffic(struct relay *r)
{
    int64_t now = mono_ns();

    if (now - r->noted_ns < NOTE_NS)
        return;
    r->noted_ns = now;
    proxied_active(r->rest->engine, r->id);
}

static enum relay_end step(struct relay *r)
{
    note_traffic(r);
    for (int i = 0; i < PIECES_A_STEP; i++) {
        enum relay_end end;
        bool more;
        int up;

        r->has_sent = false;
        up = go_up(r);
        if (up < 0)
            return fail(r, ERR_INVALID, "bad_request", "the body of the request is malformed");
        /* An answer takes longer than this: it is waited for before it is looked for. */
        if (r->has_sent && !r->has_answer && up == 0)
            return RELAY_GOES_ON;
        end = go_down(r, &more);
        if (end == RELAY_GOES_ON && r->halves)
            end = look_at_halves(r);
        if (end != RELAY_GOES_ON)
            return end;
        if (!more && up == 0)
            break;
    }
    if (r->until_ns && mono_ns() >= r->until_ns) {
        (void)err_code(&r->err, ERR_TIMEOUT, "proxy_timeout",
                       "the server on port %u did not answer within %u ms", r->rules.port,
                       r->timeout_ms);
        return RELAY_FAILED;
    }
    return RELAY_GOES_ON;
}

static void settle_server(struct relay *r)
{
    bool whole =
        r->has_answer && !r->upgraded && r->body.done && r->sent_all && !r->deaf && r->out.len == 0;

    if (whole && r->keeps && r->fd >= 0) {
        http_wait_leave(r->req);
        proxy_pool_put(r->rest->proxies, r->id, r->rules.port, steal_fd(r->fd));
    }
}

/* The request is over: answered, or told why not. */
static void finish(struct relay *r, enum relay_end end)
{
    struct proxy_manner manner = {r->html, r->rules.cors};

    if (end == RELAY_DONE && !r->upgraded) {
        settle_server(r);
        http_pass_end(r->req, r->client_kept);
    } else if (end == RELAY_FAILED && !r->has_answer && r->err.kind != ERR_NONE) {
        proxy_refuse(r->req, &manner, &r->err);
    }
    relay_free(r);
}

/* ---- waiting ---- */

static bool wants_input(const struct relay *r)
{
    return r->out.len == 0 && (r->upgraded ? !r->client_ended : !r->sent_all);
}

static void set_wait(const struct relay *r, struct http_wait *wait)
{
    bool down = http_unsent(r->req) == 0 && !r->server_ended;

    *wait = (struct http_wait){
        .fd = r->fd,
        .events = (down ? EPOLLIN : 0) | (r->out.len > 0 ? EPOLLOUT : 0),
        .input = wants_input(r),
        .half = r->upgraded,
        .patience_ms = r->halves ? DIAL_PATIENCE_MS : 0,
        .until_ns = r->until_ns,
    };
    if (r->rules.token_id[0] && r->upgraded)
        wait->until_ns = mono_ns() + CALLER_LIVE_NS;
}

/* Room for a piece in each direction. Anybody who has an address of a sandbox can open many and not
 * read, so half of the budget is left to those who call the API. */
static bool take_memory(struct relay *r)
{
    struct budget *streams = r->rest->config->streams;

    if (r->reserved > 0)
        return true;
    if (budget_is_tight(streams) || !budget_take(streams, PIECE_MEMORY))
        return false;
    r->reserved = PIECE_MEMORY;
    return true;
}

static void give_memory(struct relay *r)
{
    if (r->out.len > 0 || http_unsent(r->req) > 0)
        return;
    budget_give(r->rest->config->streams, r->reserved);
    r->reserved = 0;
}

/* What the client sent before it went is passed on all the same, as far as the server takes it. */
static void take_last(struct relay *r)
{
    while (r->halves && take_memory(r) && go_up(r) > 0)
        ;
}

static bool on_news(struct http_req *req, unsigned news, struct http_wait *wait, void *arg)
{
    struct relay *r = arg;
    enum relay_end end;

    (void)req;
    if (news & HTTP_GONE) {
        take_last(r);
        relay_free(r);
        return false;
    }
    /* Streams have no end of their own. */
    if (((news & HTTP_DRAIN) || !caller_token_live(r->rest->services, r->rules.token_id)) &&
        r->ended == RELAY_GOES_ON && (r->upgraded || r->chunks)) {
        relay_free(r);
        return false;
    }
    if (!take_memory(r)) {
        *wait = (struct http_wait){.fd = -1, .until_ns = mono_ns() + MEMORY_NEXT_NS};
        return true;
    }
    if (r->fd < 0 && r->ended == RELAY_GOES_ON && connect_server(r, false) < 0) {
        end = RELAY_FAILED;
        if (is_crowded(r)) {
            give_memory(r);
            *wait = (struct http_wait){.fd = -1, .until_ns = next_try_ns(r)};
            return true;
        }
    } else {
        end = r->ended == RELAY_GOES_ON ? step(r) : r->ended;
    }
    if (end != RELAY_GOES_ON) {
        finish(r, end);
        return false;
    }
    give_memory(r);
    set_wait(r, wait);
    return true;
}

/* One that is done has only to be taken by its client. */
static void park(struct relay *r, enum relay_end end)
{
    struct http_wait wait;

    set_wait(r, &wait);
    r->ended = end;
    r->parked = true;
    if (end == RELAY_DONE)
        wait = (struct http_wait){.fd = -1};
    else if (r->fd < 0)
        wait = (struct http_wait){.fd = -1, .until_ns = next_try_ns(r)};
    if (http_park(r->req, &wait, on_news, r, &r->err) < 0)
        finish(r, RELAY_FAILED);
}

/* Until the sandbox or the client has something, at most until then. */
static bool await(struct relay *r, int64_t until_ns)
{
    int64_t left = until_ns - mono_ns();
    struct http_wait w;
    struct pollfd p[2];

    if (left <= 0 || http_unsent(r->req) > 0)
        return false;
    set_wait(r, &w);
    p[0] = (struct pollfd){.fd = w.events ? r->fd : -1,
                           .events = (short)(((w.events & EPOLLIN) ? POLLIN : 0) |
                                             ((w.events & EPOLLOUT) ? POLLOUT : 0))};
    p[1] = (struct pollfd){.fd = http_req_fd(r->req),
                           .events = (short)(POLLRDHUP | (w.input ? POLLIN : 0))};
    return poll(p, 2, (int)(left / 1000000) + 1) > 0 && !(p[1].revents & (POLLHUP | POLLRDHUP));
}

/* Most answers are there within milliseconds. */
static enum relay_end be_patient(struct relay *r)
{
    int64_t until = mono_ns() + PATIENCE_NS;
    enum relay_end end = step(r);

    if (atomic_fetch_add(&r->rest->patient, 1) < PATIENT_MAX)
        while (end == RELAY_GOES_ON && !r->upgraded && await(r, until))
            end = step(r);
    atomic_fetch_sub(&r->rest->patient, 1);
    return end;
}

static int begin(struct relay *r, const char *path)
{
    buf_init(&r->out, REQUEST_MAX + PIECE);
    buf_init(&r->head, HTTP_ANSWER_HEAD_MAX + PIECE);
    if (proxy_request_head(r->req, &r->rules, path, r->rest->config->token, &r->out) < 0)
        return err_code(&r->err, ERR_TOO_LARGE, "headers_too_large",
                        "the headers of the request are too long to be passed on");
    if (http_seat_take(r->req, &r->err) < 0)
        return -1;
    http_pass(r->req);
    r->sent_all = http_pass_body_ended(r->req);
    set_deadline(r);
    return connect_server(r, false);
}

/* It counts for its sandbox until it is freed. */
static struct relay *relay_new(struct rest *rest, struct http_req *req, const char *id,
                               struct err *err)
{
    struct relay *r;

    if (proxy_pool_enter(rest->proxies, id, err) < 0)
        return NULL;
    r = xcalloc(1, sizeof(*r));
    r->rest = rest;
    r->req = req;
    r->fd = -1;
    (void)snprintf(r->id, sizeof(r->id), "%s", id);
    return r;
}

void proxy_relay(struct rest *rest, struct http_req *req, const struct proxied *to,
                 const struct proxy_rules *rules, const char *path, bool html)
{
    struct proxy_manner manner = {html, rules->cors};
    const char *method = http_req_method(req);
    struct err err = {0};
    struct relay *r = relay_new(rest, req, to->id, &err);
    enum relay_end end;

    if (!r) {
        proxy_refuse(req, &manner, &err);
        return;
    }
    r->rules = *rules;
    r->html = html;
    r->timeout_ms = to->timeout_ms;
    r->may_repeat = !rules->is_upgrade && http_req_length(req) == 0 &&
                    (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0);
    end = begin(r, path) == 0 ? be_patient(r) : is_crowded(r) ? RELAY_GOES_ON : RELAY_FAILED;
    if (end == RELAY_GOES_ON || (end == RELAY_DONE && http_unsent(req) > 0))
        park(r, end);
    else
        finish(r, end);
}

/* ---- a connection as it is ---- */

int proxy_dial_check(struct http_req *req, struct err *err)
{
    if (http_upgrade_asked(req, PROXY_DIAL_PROTOCOL))
        return 0;
    return err_code(err, ERR_INVALID, "upgrade_required",
                    "send the headers \"Connection: Upgrade\" and \"Upgrade: " PROXY_DIAL_PROTOCOL
                    "\", or use `cay forward`");
}

int proxy_dial(struct rest *rest, struct http_req *req, const char *id, uint16_t port,
               const char *token_id, struct err *err)
{
    struct relay *r = relay_new(rest, req, id, err);

    if (!r)
        return -1;
    if (proxied_dial(rest->engine, id, port, &r->fd, err) < 0) {
        relay_free(r);
        return -1;
    }
    buf_init(&r->out, PIECE);
    r->has_answer = r->upgraded = r->halves = true;
    (void)snprintf(r->rules.token_id, sizeof(r->rules.token_id), "%s", token_id);
    if (http_upgrade(req, PROXY_DIAL_PROTOCOL) < 0) {
        finish(r, RELAY_FAILED);
        return 0;
    }
    http_pass_upgraded(req);
    park(r, RELAY_GOES_ON);
    return 0;
}
