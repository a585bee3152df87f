#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "functions/input.h"
#include "http/server.h"
#include "iii/channels_internal.h"
#include "iii/trigger_internal.h"

/* The body of a request of HTTP and the answer to it as channels, which its function is told of
 * with all else and may use or not. Rules:
 * 1. A channel is made when somebody comes for it (channel_offer.c). Both end with the request, but
 *    for a body that was put in to its end: that can be read to its end.
 * 2. Who has the request, its handler and then its steps, has all of this. Others only wake it.
 * 3. Nothing is taken from the client for which the channel has no room, and nothing from the
 *    channel while the client has not taken what was sent: so who is slow holds up the other side.
 * 4. Words on the channel ({type: "set_status" | "set_headers"}) are about the head, up to the
 * first bytes; these are the body. */

#define WORDS_MAX  (64u << 10) /* bytes of words that are listened to */
#define VALUES_MAX 64          /* of a header */
#define FLUSH_NS   (20 * 1000000ll)

struct trigger_stream {
    struct channel_holder holder; /* first, see wake_request() */
    struct http_req *req;
    struct iii_channels *all;
    struct channel_offer body_offer, answer_offer;
    bool more; /* its turn was over */

    /* the body */
    struct iii_channel *in; /* NULL = nobody reads it, yet or any more */
    bool in_over;           /* all of it is in the channel, or nobody reads it any more */
    bool passes;            /* it is still to be taken from the client */
    bool wants_input;
    char *body; /* else this is it; NULL = nothing is left of it */
    size_t len, at;

    /* the answer */
    struct iii_channel *out; /* NULL = nobody writes it, yet or any more */
    enum stream_state state;
    bool is_head;
    bool begun;
    int status;      /* 0 = nobody has said */
    json_t *headers; /* by their names in small letters; NULL = nobody has said */
    size_t words;    /* bytes */
    int64_t flush_ns;
    int64_t left;   /* of the length that was promised; -1 = none was */
    size_t sending; /* bytes of an item that the client has not taken */
    bool is_sending;
};

static void wake_request(struct channel_holder *h)
{
    http_wake(((struct trigger_stream *)h)->req);
}

static void offer_init(struct trigger_stream *s, struct channel_offer *o, enum channel_side ours,
                       const struct iii_asker *maker)
{
    *o = (struct channel_offer){.maker = maker->share,
                                .token_id = maker->caller.token_id,
                                .ours = ours,
                                .holder = &s->holder};
}

struct trigger_stream *trigger_stream_new(struct http_req *req, struct iii_channels *all,
                                          const struct iii_asker *maker, const char *body,
                                          size_t len)
{
    struct trigger_stream *s = xcalloc(1, sizeof(*s));

    s->holder.wake = wake_request;
    s->req = req;
    s->all = all;
    s->is_head = strcmp(http_req_method(req), "HEAD") == 0;
    s->passes = !body;
    s->left = -1;
    if (len > 0) {
        s->body = xmalloc(len);
        memcpy(s->body, body, len);
        s->len = len;
    }
    offer_init(s, &s->body_offer, CHANNEL_WRITER, maker);
    offer_init(s, &s->answer_offer, CHANNEL_READER, maker);
    return s;
}

void trigger_stream_offer(struct trigger_stream *s, json_t *payload)
{
    channel_key_new(s->body_offer.key);
    memcpy(s->answer_offer.key, s->body_offer.key, CHANNEL_KEY_SIZE);
    channel_offer_open(s->all, &s->body_offer);
    channel_offer_open(s->all, &s->answer_offer);
    (void)json_object_set_new(payload, "request_body", channel_offer_json(&s->body_offer));
    (void)json_object_set_new(payload, "response", channel_offer_json(&s->answer_offer));
}

/* ---- the body ---- */

static void leave_in(struct trigger_stream *s, bool whole)
{
    s->in_over = true;
    free(s->body);
    s->body = NULL;
    if (s->in && whole)
        channel_leave(s->in, CHANNEL_WRITER);
    else if (s->in)
        channel_lose(s->in);
    s->in = NULL;
}

/* How many bytes of it are here now; *data is in piece, or in what is kept of it. -1 = it cannot be
 * read to its end. */
static ssize_t take_body(struct trigger_stream *s, char *piece, const char **data)
{
    size_t n = s->len - s->at < PIPE_PIECE ? s->len - s->at : PIPE_PIECE;

    *data = piece;
    if (s->passes)
        return http_pass_take(s->req, piece, PIPE_PIECE);
    if (n > 0)
        *data = s->body + s->at;
    s->at += n;
    return (ssize_t)n;
}

static bool body_has_ended(const struct trigger_stream *s)
{
    return s->passes ? http_pass_body_ended(s->req) : s->at == s->len;
}

/* False when it is to wait, or over. */
static bool move_piece(struct trigger_stream *s, char *piece)
{
    int room = channel_room(s->in, true);
    const char *data;
    ssize_t n;

    if (room < 0)
        leave_in(s, false);
    if (room <= 0)
        return false;
    n = take_body(s, piece, &data);
    if (n > 0) {
        channel_put(s->in, false, data, (size_t)n);
        return true;
    }
    if (n < 0 || body_has_ended(s))
        leave_in(s, n == 0);
    else
        s->wants_input = true;
    return false;
}

static bool move_in(struct trigger_stream *s, int64_t end_ns)
{
    auto_free char *piece = NULL;
    bool moved = false;

    s->wants_input = false;
    if (!s->in && !s->in_over)
        s->in = channel_offer_made(s->all, &s->body_offer);
    if (!s->in)
        return false;
    if (s->passes)
        piece = xmalloc(PIPE_PIECE);
    while (!s->in_over && move_piece(s, piece)) {
        moved = true;
        if (mono_ns() >= end_ns) {
            s->more = true;
            break;
        }
    }
    return moved;
}

/* ---- the head of the answer ---- */

static void set_header(json_t *all, const char *name, json_t *value)
{
    auto_free char *small = xstrdup(name), *number = NULL;

    for (char *c = small; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    /* What else there may be is none of a header's, and would be held. */
    if (json_is_array(value) && json_array_size(value) > VALUES_MAX)
        return;
    if (json_is_array(value)) {
        json_t *one;
        size_t i;

        json_array_foreach(value, i, one)
        {
            if (!json_is_string(one))
                return;
        }
    } else if (!json_is_string(value) && !json_is_integer(value)) {
        return;
    }
    if (json_is_integer(value)) {
        number = xasprintf("%lld", (long long)json_integer_value(value));
        (void)json_object_set_new(all, small, json_string(number));
    } else {
        (void)json_object_set(all, small, value);
    }
}

static void take_words(struct trigger_stream *s, const char *text, size_t len)
{
    const char *type, *name;
    json_t *said, *value;

    if (len > WORDS_MAX - s->words)
        return;
    s->words += len;
    said = input_parse(text, len, NULL);
    type = json_text(said, "type");
    if (strcmp(type, "set_status") == 0) {
        int64_t status = json_int(said, "status_code");

        s->status = status >= 200 && status <= 599 ? (int)status : 200;
    } else if (strcmp(type, "set_headers") == 0) {
        if (!s->headers)
            s->headers = json_object();
        json_object_foreach(json_object_get(said, "headers"), name, value)
            set_header(s->headers, name, value);
    }
    json_decref(said);
    /* Who has said both has said what there is to say, and a client may wait for it. */
    s->flush_ns = s->status && s->headers ? mono_ns() + FLUSH_NS : 0;
}

/* A client that knows how much is to come sees whether it was all. -1 = nobody has said. */
static int64_t promised(const struct trigger_stream *s)
{
    const char *text = json_text(s->headers, "content-length");
    char *end;
    long long n;

    if (!isdigit((unsigned char)*text))
        return -1;
    errno = 0;
    n = strtoll(text, &end, 10);
    return *end || errno ? -1 : n;
}

static bool is_bodiless(int status)
{
    return status == 204 || status == 205 || status == 304;
}

static bool has_no_body(const struct trigger_stream *s)
{
    return s->is_head || is_bodiless(s->status);
}

static void leave_out(struct trigger_stream *s, enum stream_state state)
{
    s->state = state;
    if (s->is_sending)
        channel_taken(s->out, s->sending);
    s->is_sending = false;
    if (s->out)
        channel_leave(s->out, CHANNEL_READER);
    s->out = NULL;
}

static void begin(struct trigger_stream *s, bool nothing_follows)
{
    struct trigger_answer a;

    s->begun = true;
    s->state = STREAM_BEGUN;
    s->left = promised(s);
    if (s->left < 0 && nothing_follows)
        s->left = 0;
    trigger_answer_head(&a, s->status ? s->status : 200, s->headers);
    trigger_answer_put_headers(&a, s->req);
    if (is_bodiless(a.status))
        http_reply(s->req, a.status, NULL, "", 0);
    else
        (void)http_stream_begin(s->req, a.status, NULL, s->left);
    trigger_answer_done(&a);
}

/* What was promised is there, or there is no more: the client is told, if that is so. */
static void end_answer(struct trigger_stream *s)
{
    bool whole = s->left <= 0 || has_no_body(s);

    if (whole && !is_bodiless(s->status))
        http_stream_end(s->req);
    leave_out(s, whole ? STREAM_SENT : STREAM_LOST);
}

/* ---- the answer ---- */

static void send_bytes(struct trigger_stream *s, const char *data, size_t len)
{
    if (!s->begun)
        begin(s, false);
    if (s->left >= 0 && (int64_t)len > s->left)
        len = (size_t)s->left; /* the rest is more than was promised */
    if (!has_no_body(s) && len > 0)
        (void)http_stream_write(s->req, data, len);
    if (s->left >= 0)
        s->left -= (int64_t)len;
}

static void take_item(struct trigger_stream *s, struct channel_item *i)
{
    s->sending = i->len;
    s->is_sending = true;
    if (!i->is_text)
        send_bytes(s, i->data, i->len);
    else if (!s->begun)
        take_words(s, i->data, i->len);
    free(i);
}

/* The channel has nothing more. */
static void take_end(struct trigger_stream *s)
{
    if (!channel_is_whole(s->out)) {
        leave_out(s, STREAM_LOST);
    } else if (!s->begun && !s->status && !s->headers) {
        leave_out(s, STREAM_EMPTY);
    } else {
        if (!s->begun)
            begin(s, true);
        end_answer(s);
    }
}

static void settle(struct trigger_stream *s)
{
    if (!s->is_sending || http_unsent(s->req) > 0)
        return;
    s->is_sending = false;
    channel_taken(s->out, s->sending);
}

static bool is_at_its_end(const struct trigger_stream *s)
{
    return s->begun && (s->left == 0 || has_no_body(s));
}

static bool move_out(struct trigger_stream *s, int64_t end_ns)
{
    struct channel_item *i;
    bool moved = false;
    int r = 1;

    if (!s->out && s->state == STREAM_UNUSED) {
        s->out = channel_offer_made(s->all, &s->answer_offer);
        s->state = s->out ? STREAM_OPEN : STREAM_UNUSED;
    }
    if (!s->out)
        return false;
    for (settle(s); !s->is_sending && !is_at_its_end(s) && r > 0; settle(s)) {
        if (mono_ns() >= end_ns) {
            s->more = true;
            break;
        }
        r = channel_get(s->out, &i);
        if (r > 0) {
            take_item(s, i);
            moved = true;
        }
    }
    if (!s->begun && s->flush_ns && mono_ns() >= s->flush_ns)
        begin(s, false);
    if (r < 0)
        take_end(s);
    else if (is_at_its_end(s))
        end_answer(s);
    return moved;
}

/* ---- both ---- */

bool trigger_stream_move(struct trigger_stream *s, int64_t end_ns)
{
    bool in, out;

    s->more = false;
    in = move_in(s, end_ns);
    out = move_out(s, end_ns);
    return in || out;
}

bool trigger_stream_was_refused(const struct trigger_stream *s)
{
    return channel_offer_refused(s->all, &s->answer_offer) ||
           channel_offer_refused(s->all, &s->body_offer);
}

bool trigger_stream_has_come(const struct trigger_stream *s)
{
    return channel_offer_made(s->all, &s->answer_offer);
}

enum stream_state trigger_stream_state(const struct trigger_stream *s)
{
    return s->state;
}

bool trigger_stream_has_begun(const struct trigger_stream *s)
{
    return s->begun;
}

bool trigger_stream_wants_input(const struct trigger_stream *s)
{
    return s->wants_input;
}

int64_t trigger_stream_due_ns(const struct trigger_stream *s)
{
    if (s->more)
        return 1; /* at once, behind those who wait for their turn */
    return s->begun ? 0 : s->flush_ns;
}

void trigger_stream_free(struct trigger_stream *s)
{
    if (!s)
        return;
    channel_offer_close(s->all, &s->body_offer);
    channel_offer_close(s->all, &s->answer_offer);
    if (!s->in && !s->in_over)
        s->in = channel_offer_made(s->all, &s->body_offer);
    if (s->state == STREAM_UNUSED)
        s->out = channel_offer_made(s->all, &s->answer_offer);
    if (s->in)
        channel_end(s->in, "the request has ended");
    leave_in(s, false);
    leave_out(s, s->state);
    json_decref(s->headers);
    free(s);
}
