#include <string.h>
#include <strings.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/callers.h"
#include "functions/input.h"
#include "functions/rates.h"
#include "http/server.h"
#include "mcp/mcp_internal.h"

/* A POST: the messages in it, and their answers.
 *
 * Requests are answered one after the other. What is answered at once leaves as JSON; when there is
 * something to be said ahead of the answer, or it takes long, the answer becomes a stream of
 * events, for a client that takes those. A request that waits is parked and has no thread. A client
 * that hangs up has cancelled: nothing runs on that nobody waits for. */

#define INPUT_FREE     (64u << 10) /* what the memory budget is not asked for */
#define TURN_NS        (1 * 1000000ll)
#define TICK_NS        (1 * 1000000000ll) /* between words that it goes on */
#define EVENT_OVERHEAD 64

#define META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"

struct mcp_exchange {
    struct mcp_server *server;
    struct http_req *req;
    struct mcp_session *session; /* which it uses; NULL = none */
    struct mcp_client client;
    struct mcp_choice choice; /* of one without a session */
    enum mcp_version version;

    json_t *body;
    size_t memory;       /* of the budget, for the body */
    struct mcp_op **ops; /* the requests in it */
    size_t n, at;        /* at: the one that is being answered */
    bool entered;        /* that one has begun */
    bool is_batch;

    json_t *answers; /* that have not left */
    bool takes_events, is_stream, parked;
    int64_t sent_ns;
};

/* ---- what leaves ---- */

static void begin_stream(struct mcp_exchange *x)
{
    if (x->is_stream)
        return;
    x->is_stream = true;
    http_reply_header(x->req, "X-Accel-Buffering", "no");
    (void)http_stream_begin(x->req, 200, "text/event-stream", -1);
}

static void write_event(struct mcp_exchange *x, const json_t *message)
{
    auto_free char *text = json_dumps(message, MCP_DUMP | JSON_ENSURE_ASCII);
    auto_buf struct buf event = {0};

    begin_stream(x);
    buf_init(&event, strlen(text) + EVENT_OVERHEAD);
    mcp_event(&event, text, 0);
    x->sent_ns = mono_ns();
    (void)http_stream_write(x->req, event.data, event.len);
}

static bool send_ahead(struct mcp_op *op, json_t *message)
{
    struct mcp_exchange *x = op->transport;
    bool sent = x->takes_events && (!x->parked || http_unsent(x->req) == 0);

    if (sent)
        write_event(x, message);
    json_decref(message);
    return sent;
}

static void deliver(struct mcp_exchange *x, struct mcp_op *op)
{
    if (!op->answer) /* it was cancelled */
        return;
    if (x->is_stream)
        write_event(x, op->answer);
    else
        (void)json_array_append(x->answers, op->answer);
}

/* Revisions without a handshake tell of some failures with the status too. */
static int status_of(const struct mcp_exchange *x, const json_t *answer)
{
    json_t *code = json_object_get(json_object_get(answer, "error"), "code");

    if (!code || x->version < MCP_2026_07)
        return 200;
    switch (json_integer_value(code)) {
    case RPC_METHOD_NOT_FOUND:
        return 404;
    case RPC_INVALID_REQUEST:
    case RPC_INVALID_PARAMS:
    case RPC_HEADER_MISMATCH:
    case RPC_CAPABILITY_MISSING:
    case RPC_VERSION_UNSUPPORTED:
        return 400;
    default:
        return 200;
    }
}

static void reply_json(struct mcp_exchange *x)
{
    const json_t *only = json_array_get(x->answers, 0);
    auto_free char *text = json_dumps(x->is_batch ? x->answers : only, MCP_DUMP);

    http_reply(x->req, x->is_batch ? 200 : status_of(x, only), "application/json", text,
               strlen(text));
}

static void end_reply(struct mcp_exchange *x)
{
    if (!x->is_stream && json_array_size(x->answers) > 0) {
        reply_json(x);
        return;
    }
    if (!x->is_stream && !x->takes_events) { /* all were cancelled */
        http_reply(x->req, 202, "application/json", "", 0);
        return;
    }
    begin_stream(x);
    http_stream_end(x->req);
}

/* ---- life ---- */

static bool client_gone(void *arg)
{
    struct mcp_exchange *x = arg;

    return (x->at < x->n && atomic_load(&x->ops[x->at]->cancelled)) || http_client_gone(x->req);
}

static void leave_op(struct mcp_exchange *x)
{
    struct mcp_op *op = x->ops[x->at];

    if (x->entered && op->session)
        mcp_session_exit(op);
    x->entered = false;
    x->ops[x->at] = NULL;
    mcp_op_free(op);
}

static void exchange_free(struct mcp_exchange *x)
{
    if (x->entered)
        leave_op(x);
    for (size_t i = 0; i < x->n; i++)
        if (x->ops[i])
            mcp_op_free(x->ops[i]);
    free(x->ops);
    if (x->session)
        mcp_session_leave(x->server, x->session);
    mcp_choice_done(&x->choice);
    json_decref(x->body);
    json_decref(x->answers);
    budget_give(x->server->config.memory, x->memory);
    free(x);
}

void mcp_exchange_wake(struct mcp_op *op)
{
    const struct mcp_exchange *x = op->transport;

    if (x)
        http_wake(x->req);
}

/* ---- going on ---- */

/* Every message of a batch but the first counts like a request of its own. */
static int take_rate(struct mcp_exchange *x, struct err *err)
{
    if (x->at == 0 || !x->client.rates)
        return 0;
    return rates_take_caller(x->client.rates, x->client.caller.name, mono_ns(), &x->client.rate,
                             err);
}

static enum mcp_state begin_op(struct mcp_exchange *x, struct mcp_op *op)
{
    struct err err = {0};

    if (take_rate(x, &err) < 0 || (op->session && mcp_session_enter(op->session, op, &err) < 0)) {
        mcp_fail(op, RPC_REFUSED, json_pack("{s:s}", "code", err.code), "%s", err.text);
        return MCP_DONE;
    }
    x->entered = true;
    return mcp_op_begin(op);
}

/* As far as it goes without waiting: MCP_DONE when all is answered. */
static enum mcp_state go(struct mcp_exchange *x)
{
    int64_t end = mono_ns() + TURN_NS;

    while (x->at < x->n) {
        struct mcp_op *op = x->ops[x->at];
        enum mcp_state state = x->entered ? mcp_op_step(op) : begin_op(x, op);

        if (state == MCP_DONE) {
            deliver(x, op);
            leave_op(x);
            x->at++;
        } else if (state == MCP_WAITS || http_unsent(x->req) > 0 || mono_ns() >= end) {
            return state;
        }
    }
    return MCP_DONE;
}

static void sooner(int64_t *until, int64_t at)
{
    if (!*until || at < *until)
        *until = at;
}

static bool wants_ticks(const struct mcp_exchange *x, const struct mcp_op *op)
{
    return x->takes_events && op->progress_token;
}

static void set_wait(const struct mcp_exchange *x, enum mcp_state state, struct http_wait *wait)
{
    const struct mcp_op *op = x->ops[x->at];
    const struct mcp_work *work = op->work;
    bool full = http_unsent(x->req) > 0;

    *wait = (struct http_wait){
        .fd = work->fd, .events = full ? 0 : work->events, .until_ns = work->until_ns};
    if (x->takes_events)
        sooner(&wait->until_ns, x->sent_ns + MCP_PING_NS);
    if (wants_ticks(x, op))
        sooner(&wait->until_ns, x->sent_ns + TICK_NS);
    if (x->client.caller.token_id[0])
        sooner(&wait->until_ns, mono_ns() + CALLER_LIVE_NS);
    if (state == MCP_AGAIN && !full)
        wait->until_ns = 1; /* at once, behind those who wait for their turn */
}

/* That it goes on, for who wants to know; and something now and then, so that nobody in between
 * takes the connection for dead. */
static void tell_going_on(struct mcp_exchange *x)
{
    struct mcp_op *op = x->ops[x->at];
    int64_t now = mono_ns();
    double seconds = (double)((now - op->began_ns) / 1000000) / 1000.0;
    char text[64];

    if (!x->takes_events || http_unsent(x->req) > 0)
        return;
    if (wants_ticks(x, op) && now - x->sent_ns >= TICK_NS) {
        (void)snprintf(text, sizeof(text), "running for %.0f s", seconds);
        mcp_progress(op, seconds, 0, text);
    } else if (now - x->sent_ns >= MCP_PING_NS) {
        begin_stream(x);
        x->sent_ns = now;
        (void)http_stream_write(x->req, ": ping\n\n", 8);
    }
}

static bool token_lives(const struct mcp_exchange *x)
{
    return !x->server->config.services ||
           caller_token_live(x->server->config.services, x->client.caller.token_id);
}

static void cancel_all(struct mcp_exchange *x)
{
    for (size_t i = x->at; i < x->n; i++)
        atomic_store(&x->ops[i]->cancelled, true);
}

static bool on_news(struct http_req *req, unsigned news, struct http_wait *wait, void *arg)
{
    struct mcp_exchange *x = arg;
    enum mcp_state state = MCP_WAITS;

    if (news & HTTP_GONE) {
        exchange_free(x); /* ends what it waited for */
        return false;
    }
    if (!token_lives(x))
        cancel_all(x);
    if ((news & HTTP_DRAIN) && strcmp(x->ops[x->at]->method, "subscriptions/listen") == 0)
        mcp_listen_end(x->ops[x->at]);
    if (http_unsent(req) == 0 || (news & HTTP_WOKEN))
        state = go(x);
    if (state != MCP_DONE) {
        tell_going_on(x);
        set_wait(x, state, wait);
        return true;
    }
    http_unpark(req);
    x->parked = false;
    end_reply(x);
    exchange_free(x);
    return false;
}

static void run(struct mcp_exchange *x)
{
    struct http_wait wait;
    struct err err = {0};
    enum mcp_state state = go(x);

    if (state == MCP_DONE) {
        end_reply(x);
        exchange_free(x);
        return;
    }
    set_wait(x, state, &wait);
    x->parked = true;
    x->client.traceparent = x->client.tracestate = NULL; /* they go with the head */
    if (http_park(x->req, &wait, on_news, x, &err) == 0)
        return;
    x->parked = false;
    if (!x->is_stream)
        mcp_refuse(x->req, 503, RPC_REFUSED, NULL, err.text, NULL);
    exchange_free(x);
}

/* ---- what comes ---- */

static bool is_type(const char *header, const char *type)
{
    size_t len = strlen(type);

    return header && strncasecmp(header, type, len) == 0 && strchr(";, \t", header[len]);
}

static void refuse(struct mcp_exchange *x, const struct err *err, int code)
{
    mcp_refuse(x->req, err_kind_status(err->kind), code, NULL, err->text,
               err->code ? json_pack("{s:s}", "code", err->code) : NULL);
}

static int read_body(struct mcp_exchange *x)
{
    struct err err = {0};
    size_t len, weight;
    const char *text = http_req_body(x->req, &len);

    weight = input_weight(text, len);
    if (weight > INPUT_FREE) {
        if (!budget_take(x->server->config.memory, weight)) {
            mcp_refuse(x->req, 503, RPC_REFUSED, NULL,
                       "the daemon holds as much of other callers' data as it may; send it again",
                       NULL);
            return -1;
        }
        x->memory = weight;
    }
    x->body = input_parse(text, len, &err);
    if (x->body)
        return 0;
    refuse(x, &err, RPC_PARSE_ERROR);
    return -1;
}

/* ---- revisions with a handshake ---- */

static enum mcp_version negotiate(const struct rpc_message *message)
{
    int asked =
        mcp_version_of(json_string_value(json_object_get(message->params, "protocolVersion")));

    return asked >= 0 && asked <= MCP_2025_11 ? (enum mcp_version)asked : MCP_2025_11;
}

static int begin_session(struct mcp_exchange *x, const struct rpc_message *message)
{
    struct err err = {0};

    if (!json_is_string(json_object_get(message->params, "protocolVersion"))) {
        mcp_refuse(x->req, 400, RPC_INVALID_PARAMS, message->id,
                   "initialize needs protocolVersion, a string", NULL);
        return -1;
    }
    x->version = negotiate(message);
    x->session = mcp_session_new(x->server, &x->client.caller, x->version, &x->choice, &err);
    if (!x->session) {
        mcp_refuse(x->req, 503, RPC_REFUSED, message->id, err.text, NULL);
        return -1;
    }
    http_reply_header(x->req, "Mcp-Session-Id", x->session->id);
    return 0;
}

static int check_version_header(struct mcp_exchange *x)
{
    const char *header = http_req_header(x->req, "MCP-Protocol-Version");
    char text[160];

    if (!header || mcp_version_of(header) >= 0)
        return 0;
    (void)snprintf(text, sizeof(text),
                   "MCP-Protocol-Version names a revision that is not known here: %.40s", header);
    mcp_refuse(x->req, 400, RPC_REFUSED, NULL, text, NULL);
    return -1;
}

static int find_session(struct mcp_exchange *x, const struct rpc_message *first)
{
    if (first->method && first->id && strcmp(first->method, "initialize") == 0)
        return begin_session(x, first);
    if (check_version_header(x) < 0)
        return -1;
    x->session = mcp_named_session(x->server, x->req, &x->client.caller);
    if (!x->session)
        return -1;
    x->version = x->session->version;
    return 0;
}

/* ---- revisions without ---- */

static json_t *supported(const char *requested)
{
    json_t *all = json_array();

    for (int v = MCP_VERSIONS - 1; v >= 0; v--)
        (void)json_array_append_new(all, json_string(mcp_version_words[v]));
    return json_pack("{s:o, s:s}", "supported", all, "requested", requested);
}

/* A header value that is not plain ASCII comes as =?base64?…?= */
static bool same_as_header(const char *header, const char *value)
{
    static const char head[] = "=?base64?", tail[] = "?=";
    auto_buf struct buf plain = {0};
    size_t len;

    if (!header)
        return false;
    if (!str_starts(header, head) || !str_ends(header, tail))
        return strcmp(header, value) == 0;
    len = strlen(header);
    if (len < strlen(head) + strlen(tail))
        return false;
    buf_init(&plain, len);
    return base64_decode(&plain, header + strlen(head), len - strlen(head) - strlen(tail)) == 0 &&
           plain.len == strlen(value) &&
           memcmp(plain.data ? plain.data : "", value, plain.len) == 0;
}

static const char *mismatch(const struct mcp_exchange *x, const struct rpc_message *m,
                            const char *version)
{
    static const struct {
        const char *method, *param;
    } named[] = {{"tools/call", "name"}, {"prompts/get", "name"}, {"resources/read", "uri"}};

    if (!same_as_header(http_req_header(x->req, "MCP-Protocol-Version"), version))
        return "the header MCP-Protocol-Version is not what _meta says";
    if (!same_as_header(http_req_header(x->req, "Mcp-Method"), m->method))
        return "the header Mcp-Method is not the method of the message";
    for (size_t i = 0; i < ARRAY_LEN(named); i++) {
        const char *value = json_string_value(json_object_get(m->params, named[i].param));

        if (strcmp(m->method, named[i].method) == 0 && value &&
            !same_as_header(http_req_header(x->req, "Mcp-Name"), value))
            return "the header Mcp-Name is not what the message names";
    }
    return NULL;
}

/* Does every request say what it must, and its headers the same? */
static int check_envelope(struct mcp_exchange *x, const struct rpc_message *m)
{
    const json_t *meta = json_object_get(m->params, "_meta");
    const json_t *version = json_object_get(meta, META_VERSION);
    const char *word = json_string_value(version), *why;

    if (!word || !json_is_object(json_object_get(meta, META_CAPABILITIES))) {
        mcp_refuse(x->req, 400, RPC_INVALID_PARAMS, m->id,
                   "params._meta needs " META_VERSION " and " META_CAPABILITIES, NULL);
        return -1;
    }
    why = mismatch(x, m, word);
    if (why) {
        mcp_refuse(x->req, 400, RPC_HEADER_MISMATCH, m->id, why, NULL);
        return -1;
    }
    if (mcp_version_of(word) < MCP_2026_07) {
        mcp_refuse(x->req, 400, RPC_VERSION_UNSUPPORTED, m->id, "Unsupported protocol version",
                   supported(word));
        return -1;
    }
    x->version = (enum mcp_version)mcp_version_of(word);
    return 0;
}

static bool is_sessionless(const struct mcp_exchange *x, const struct rpc_message *m)
{
    const json_t *meta = json_object_get(m->params, "_meta");

    if (json_object_get(meta, META_VERSION))
        return true;
    return (!m->method || strcmp(m->method, "initialize") != 0) &&
           mcp_version_of(http_req_header(x->req, "MCP-Protocol-Version")) >= MCP_2026_07;
}

/* ---- messages ---- */

static void add_op(struct mcp_exchange *x, const struct rpc_message *m)
{
    struct mcp_op *op = mcp_op_new(x->server, x->session, &x->client, x->version, m);

    op->send = send_ahead;
    op->transport = x;
    x->ops = xrealloc(x->ops, (x->n + 1) * sizeof(*x->ops));
    x->ops[x->n++] = op;
}

static void take_message(struct mcp_exchange *x, const json_t *message)
{
    struct rpc_message m;
    enum rpc_kind kind = rpc_read(message, &m);

    if (kind == RPC_REQUEST)
        add_op(x, &m);
    else if (kind == RPC_NOTIFICATION && x->session)
        mcp_notified(x->server, x->session, &m);
    else if (kind == RPC_RESPONSE && x->session)
        mcp_session_reply(x->server, x->session, &m);
    else if (kind == RPC_NEITHER)
        (void)json_array_append_new(x->answers,
                                    rpc_error(rpc_is_id(m.id) ? m.id : NULL, RPC_INVALID_REQUEST,
                                              "this is no JSON-RPC 2.0 message", NULL));
}

static int check_batch(struct mcp_exchange *x)
{
    size_t size = json_array_size(x->body);
    struct rpc_message m;
    size_t i;
    json_t *one;

    x->is_batch = true;
    json_array_foreach(x->body, i, one)
    {
        if (rpc_read(one, &m) == RPC_REQUEST && strcmp(m.method, "initialize") == 0)
            size = 0;
    }
    if (x->version >= MCP_2025_06 || size == 0 || size > x->server->config.limits.batch) {
        char text[160];

        (void)snprintf(text, sizeof(text),
                       "an array of messages is for revision 2025-03-26 and before, has 1 to %u of "
                       "them, and no initialize",
                       x->server->config.limits.batch);
        mcp_refuse(x->req, 400, RPC_INVALID_REQUEST, NULL, text, NULL);
        return -1;
    }
    return 0;
}

/* 0 when its messages can be taken; else it was refused. */
static int check_messages(struct mcp_exchange *x)
{
    const json_t *first = json_is_array(x->body) ? json_array_get(x->body, 0) : x->body;
    struct rpc_message m;
    enum rpc_kind kind = rpc_read(first, &m);

    if (kind == RPC_NEITHER) {
        mcp_refuse(x->req, 400, RPC_INVALID_REQUEST, NULL, "this is no JSON-RPC 2.0 message", NULL);
        return -1;
    }
    if (is_sessionless(x, &m)) {
        x->version = MCP_2026_07;
        if (json_is_array(x->body))
            return check_batch(x);
        return kind == RPC_REQUEST ? check_envelope(x, &m) : 0;
    }
    if (find_session(x, &m) < 0)
        return -1;
    return json_is_array(x->body) ? check_batch(x) : 0;
}

static void take_messages(struct mcp_exchange *x)
{
    json_t *one;
    size_t i;

    if (!x->is_batch)
        take_message(x, x->body);
    json_array_foreach(x->body, i, one)
    {
        take_message(x, one);
    }
}

static struct mcp_exchange *exchange_new(struct mcp_server *s, struct http_req *req,
                                         const struct caller *caller, struct rates *rates,
                                         const struct rate_state *rate)
{
    struct mcp_exchange *x = xcalloc(1, sizeof(*x));
    const char *accept = http_req_header(req, "Accept");

    x->server = s;
    x->req = req;
    x->answers = json_array();
    x->takes_events = accept && strstr(accept, "text/event-stream");
    x->sent_ns = mono_ns();
    x->client = (struct mcp_client){
        .caller = *caller,
        .rates = rates,
        .rate = *rate,
        .choice = &x->choice,
        .gone_fd = http_req_fd(req),
        .gone = client_gone,
        .gone_arg = x,
    };
    return x;
}

static void on_received(struct http_req *req, const struct err *why, void *arg)
{
    struct mcp_exchange *x = arg;
    struct err err = {0};

    if (why)
        err = *why;
    else if (!token_lives(x)) /* the body may have taken any time */
        (void)err_code(&err, ERR_FORBIDDEN, "invalid_token",
                       "the token was revoked or has expired");
    if (err.kind)
        refuse(x, &err, RPC_REFUSED);
    if (err.kind || read_body(x) < 0 || check_messages(x) < 0) {
        exchange_free(x);
        return;
    }
    /* Not before: strings of the request may move while its body is waited for. */
    x->client.traceparent = http_req_header(req, "traceparent");
    x->client.tracestate = http_req_header(req, "tracestate");
    if (x->session)
        x->client.choice = &x->session->choice;
    take_messages(x);
    if (x->n == 0 && json_array_size(x->answers) == 0) {
        http_reply(req, 202, "application/json", "", 0);
        exchange_free(x);
    } else if (x->n > 0 && http_seat_take(req, &err) < 0) {
        mcp_refuse(req, 503, RPC_REFUSED, NULL, err.text, NULL);
        exchange_free(x);
    } else {
        run(x);
    }
}

void mcp_exchange_run(struct mcp_server *s, struct http_req *req, const struct caller *caller,
                      struct rates *rates, const struct rate_state *rate)
{
    struct http_receiver to = {.max = s->config.limits.message, .then = on_received};
    struct mcp_exchange *x = exchange_new(s, req, caller, rates, rate);
    struct err err = {0};

    if (mcp_choice_read(&x->choice, http_req_query(req), &err) < 0) {
        refuse(x, &err, RPC_REFUSED);
        exchange_free(x);
        return;
    }
    /* A web page can send other types without asking first; JSON it cannot. */
    if (!is_type(http_req_header(req, "Content-Type"), "application/json")) {
        mcp_refuse(req, 415, RPC_REFUSED, NULL,
                   "messages are sent with Content-Type: application/json", NULL);
        exchange_free(x);
        return;
    }
    http_receive(req, &to, x);
}
