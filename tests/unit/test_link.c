/* The link to an engine, without the rest of the face: a scripted engine on one side, and a hub
 * that answers what the tests want on the other. */
#include "iii/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "functions/function.h"
#include "http/websocket.h"
#include "iii/link_internal.h"
#include "tap.h"

#define WORKER_ID "11111111-1111-4111-8111-111111111111"
#define TOKEN     "22222222-2222-4222-8222-222222222222"
#define CALL_ID   "33333333-3333-4333-8333-333333333333"
#define OTHER_ID  "44444444-4444-4444-8444-444444444444"

/* ---- the hub ---- */

struct iii_asker *iii_asker_new(const struct caller *caller, struct rates *rates,
                                const char *namespace)
{
    struct iii_asker *a = xcalloc(1, sizeof(*a));

    a->caller = *caller;
    a->rates = rates;
    (void)snprintf(a->namespace, sizeof(a->namespace), "%s", namespace);
    atomic_init(&a->refs, 1);
    return a;
}

void iii_asker_unref(struct iii_asker *a)
{
    if (atomic_fetch_sub(&a->refs, 1) == 1)
        free(a);
}

json_t *iii_error(const char *code, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return json_pack("{s:s, s:s}", "code", code, "message", text);
}

/* What is asked with "later" waits here. */
struct asked {
    iii_answered answered;
    void *arg;
    struct pipes *pipes;
};

static pthread_mutex_t hub_lock = PTHREAD_MUTEX_INITIALIZER;
static struct asked asked[64];
static unsigned asked_count;

void iii_ask(struct iii_hub *hub, const struct iii_question *q, iii_answered answered, void *arg)
{
    json_t *result;

    (void)hub;
    if (json_is_true(json_object_get(q->data, "later"))) {
        (void)pthread_mutex_lock(&hub_lock);
        asked[asked_count++] = (struct asked){answered, arg, q->pipes};
        (void)pthread_mutex_unlock(&hub_lock);
        return;
    }
    if (json_int(q->data, "long") > 0) {
        auto_free char *text = xmalloc((size_t)json_int(q->data, "long"));

        memset(text, 'x', (size_t)json_int(q->data, "long"));
        result = json_stringn(text, (size_t)json_int(q->data, "long"));
    } else {
        result = json_pack("{s:s, s:O?, s:b, s:b}", "id", q->function_id, "data", q->data, "admin",
                           q->asker->caller.admin, "may_write",
                           (q->asker->caller.scopes & 1u << SCOPE_WRITE) != 0);
    }
    answered(arg, result, NULL);
    json_decref(result);
}

static unsigned asks_waiting(void)
{
    unsigned n;

    (void)pthread_mutex_lock(&hub_lock);
    n = asked_count;
    (void)pthread_mutex_unlock(&hub_lock);
    return n;
}

static void answer_all(void)
{
    json_t *result = json_string("late");

    while (asks_waiting() > 0) {
        struct asked a;

        (void)pthread_mutex_lock(&hub_lock);
        a = asked[--asked_count];
        (void)pthread_mutex_unlock(&hub_lock);
        a.answered(a.arg, result, NULL);
    }
    json_decref(result);
}

/* ---- the engine ---- */

struct fake_channel {
    atomic_int taken[2];
    int pipe[2]; /* a socket pair: bytes from its writer to its reader */
};

struct engine_conn {
    struct engine_conn *next;
    struct fake_engine *e;
    pthread_t thread;
    int fd;
    unsigned number; /* from 1; of channels 0 */
    unsigned count;  /* of messages that came */
    char target[512];
    bool second; /* another connection has its end of the channel */
    struct websocket *ws;
    pthread_mutex_t lock; /* of ws */
    atomic_bool over;
};

struct fake_engine {
    int listen_fd;
    unsigned port;
    char url[64];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    json_t *frames; /* [{n, m}] */
    struct engine_conn *conns;
    atomic_uint count;
    unsigned version; /* 22, 23: of which engine its lists and owners are; 0 = it has none */
    json_t *owned;    /* id → {name, n}: who has a function; n: the connection, 0 = the other's */
    json_t *others;   /* workers that are no connections of ours, as they are listed */
    const char *_Atomic reject_worker, *_Atomic reject_function; /* the code of its refusal */
    const char *only;    /* the function that reject_function is about; NULL = all */
    unsigned cut_at;     /* the first connection is lost after so many messages; 0 = it is not */
    bool silent;         /* takes connections, and says nothing */
    bool mute_asks;      /* does not answer workers that want a channel */
    bool mute_lists;     /* does not answer workers that want a list */
    bool slow_reader;    /* of channels; what comes is thrown away */
    bool deaf;           /* takes nothing of channels */
    bool closes;         /* channels, in one piece with the handshake */
    size_t long_message; /* that readers of channels are sent first */
    struct fake_channel channels[8];
    unsigned channel_count;
    size_t channel_bytes; /* that came */
    bool channel_ended;
};

static ssize_t conn_read(void *arg, void *data, size_t len)
{
    ssize_t n = recv(((struct engine_conn *)arg)->fd, data, len, MSG_DONTWAIT);

    return n > 0 ? n : n < 0 && errno == EAGAIN ? 0 : -1;
}

static int pass_on(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n <= 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static int conn_write(void *arg, const void *data, size_t len)
{
    return pass_on(((struct engine_conn *)arg)->fd, data, len);
}

static size_t conn_unsent(void *arg)
{
    (void)arg;
    return 0;
}

static void say(struct engine_conn *c, json_t *m)
{
    auto_free char *text = json_dumps(m, JSON_COMPACT);

    (void)pthread_mutex_lock(&c->lock);
    (void)websocket_send(c->ws, true, text, strlen(text));
    (void)pthread_mutex_unlock(&c->lock);
    json_decref(m);
}

static json_t *new_channel(struct fake_engine *e)
{
    unsigned i = e->channel_count++;
    char id[16];

    CHECK(i < ARRAY_LEN(e->channels) &&
          socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, e->channels[i].pipe) == 0);
    (void)snprintf(id, sizeof(id), "c/%u", i);
    return json_pack("{s:{s:s, s:s, s:s}, s:{s:s, s:s, s:s}}", "writer", "channel_id", id,
                     "access_key", "k&y", "direction", "write", "reader", "channel_id", id,
                     "access_key", "k&y", "direction", "read");
}

static void answer(struct engine_conn *c, const json_t *m, const char *key, json_t *value)
{
    say(c, json_pack("{s:s, s:s, s:s, s:o}", "type", "invocationresult", "invocation_id",
                     json_text(m, "invocation_id"), "function_id", json_text(m, "function_id"), key,
                     value));
}

static void reject(struct engine_conn *c, const char *code, const char *key, const char *name)
{
    say(c, json_pack("{s:s, s:s, s:s, s:s, s:s}", "type", "registrationrejected", "code", code,
                     "namespace", "default", key, name, "owner_worker_id", OTHER_ID));
}

/* ---- the engine's functions and who has them ---- */

static void own(struct fake_engine *e, const char *id, const char *name, unsigned n)
{
    (void)json_object_set_new(e->owned, id, json_pack("{s:s, s:i}", "name", name, "n", (int)n));
}

/* Of a connection, or of the other worker. */
static void disown(struct fake_engine *e, unsigned n)
{
    json_t *owner;
    const char *id;
    void *next;

    (void)pthread_mutex_lock(&e->lock);
    json_object_foreach_safe(e->owned, next, id, owner) if (json_int(owner, "n") == n)(void)
        json_object_del(e->owned, id);
    (void)pthread_cond_broadcast(&e->changed);
    (void)pthread_mutex_unlock(&e->lock);
}

/* Another worker takes a function, as an engine of 0.22 lets it. */
static void other_takes(struct fake_engine *e, const char *name, const char *id)
{
    (void)pthread_mutex_lock(&e->lock);
    own(e, id, name, 0);
    (void)json_array_clear(e->others);
    (void)json_array_append_new(
        e->others, json_pack("{s:s, s:s, s:i}", "name", name, "id", OTHER_ID, "function_count", 1));
    (void)pthread_mutex_unlock(&e->lock);
}

static void other_leaves(struct fake_engine *e)
{
    (void)pthread_mutex_lock(&e->lock);
    (void)json_array_clear(e->others);
    (void)pthread_mutex_unlock(&e->lock);
    disown(e, 0);
}

static json_t *list_functions(struct fake_engine *e, const char *prefix)
{
    json_t *list = json_array(), *owner;
    const char *id;

    (void)pthread_mutex_lock(&e->lock);
    json_object_foreach(e->owned, id, owner)
    {
        json_t *one;

        if (strncmp(id, prefix, strlen(prefix)) != 0)
            continue;
        one = json_pack("{s:s, s:s}", "function_id", id, "worker_name", json_text(owner, "name"));
        if (e->version >= 23)
            (void)json_object_set_new(one, "namespace", json_string("default"));
        (void)json_array_append_new(list, one);
    }
    (void)pthread_mutex_unlock(&e->lock);
    return json_pack("{s:o}", "functions", list);
}

/* With the worker that asks, which is no stranger to itself. */
static json_t *list_workers(struct fake_engine *e)
{
    json_t *list;

    (void)pthread_mutex_lock(&e->lock);
    list = json_deep_copy(e->others);
    (void)pthread_mutex_unlock(&e->lock);
    (void)json_array_append_new(list, json_pack("{s:s, s:s, s:i}", "name", "iii-sandbox", "id",
                                                WORKER_ID, "function_count", 17));
    return json_pack("{s:o}", "workers", list);
}

static void take_question(struct engine_conn *c, const json_t *m)
{
    struct fake_engine *e = c->e;
    const char *id = json_text(m, "function_id");
    bool functions = strcmp(id, "engine::functions::list") == 0;
    bool workers = strcmp(id, "engine::workers::list") == 0;

    if (strcmp(id, "engine::channels::create") == 0 && !e->mute_asks)
        answer(c, m, "result", new_channel(e));
    if ((!functions && !workers) || e->mute_lists)
        return;
    if (!e->version)
        answer(c, m, "error", iii_error("function_not_found", "no %s", id));
    else if (functions)
        answer(c, m, "result", list_functions(e, json_text(json_object_get(m, "data"), "prefix")));
    else
        answer(c, m, "result", list_workers(e));
}

static void take_function(struct engine_conn *c, const char *id)
{
    struct fake_engine *e = c->e;
    bool taken;
    json_t *owner;

    if (e->reject_function && (!e->only || strcmp(e->only, id) == 0)) {
        reject(c, e->reject_function, "function_id", id);
        return;
    }
    (void)pthread_mutex_lock(&e->lock);
    owner = json_object_get(e->owned, id);
    taken = e->version >= 23 && owner && json_int(owner, "n") != c->number;
    if (!taken)
        own(e, id, "iii-sandbox", c->number);
    (void)pthread_cond_broadcast(&e->changed);
    (void)pthread_mutex_unlock(&e->lock);
    if (taken)
        reject(c, "FUNCTION_NAMESPACE_CONFLICT", "function_id", id);
}

static void take_frame(struct engine_conn *c, json_t *m)
{
    struct fake_engine *e = c->e;
    const char *type = json_text(m, "type"), *id = json_text(m, "function_id");

    (void)pthread_mutex_lock(&e->lock);
    (void)json_array_append_new(
        e->frames, json_pack("{s:i, s:o}", "n", (int)c->number, "m", json_deep_copy(m)));
    (void)pthread_cond_broadcast(&e->changed);
    (void)pthread_mutex_unlock(&e->lock);
    if (c->number == 1 && ++c->count == e->cut_at)
        (void)shutdown(c->fd, SHUT_RDWR);
    if (e->silent || (c->number == 1 && e->cut_at && c->count >= e->cut_at))
        return;
    if (strcmp(id, "engine::workers::register") == 0 && e->reject_worker) {
        reject(c, e->reject_worker, "worker_name", "iii-sandbox");
        websocket_close(c->ws, WEBSOCKET_NORMAL, NULL);
    } else if (strcmp(type, "registerfunction") == 0) {
        take_function(c, json_text(m, "id"));
    } else if (strcmp(type, "invokefunction") == 0) {
        take_question(c, m);
    }
}

/* False at the end. */
static bool conn_next(struct engine_conn *c, struct websocket_message *m)
{
    for (;;) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        int r;

        (void)pthread_mutex_lock(&c->lock);
        r = websocket_next(c->ws, m);
        (void)pthread_mutex_unlock(&c->lock);
        if (r != 0)
            return r > 0;
        (void)poll(&p, 1, 1000);
        if (atomic_load(&c->over))
            return false;
    }
}

static void serve_worker(struct engine_conn *c)
{
    struct websocket_message m;

    if (!c->e->silent)
        say(c, json_pack("{s:s, s:s, s:s}", "type", "workerregistered", "worker_id", WORKER_ID,
                         "reattach_token", TOKEN));
    while (conn_next(c, &m)) {
        json_t *value = json_loadb(m.data, m.len, 0, NULL);

        CHECK(value != NULL && m.is_text);
        take_frame(c, value);
        json_decref(value);
    }
    disown(c->e, c->number);
}

/* The writer's messages become a stream of bytes, and that becomes messages for the reader. */
static void serve_channel(struct engine_conn *c, struct fake_channel *ch)
{
    bool writes = strstr(c->target, "dir=write") != NULL;
    struct fake_engine *e = c->e;
    auto_free char *piece = xmalloc(PIPE_PIECE);
    struct websocket_message m;
    ssize_t n;

    if (c->second)
        return;
    while ((e->deaf || e->closes) && !atomic_load(&c->over))
        (void)poll(NULL, 0, 2);
    if (writes) {
        while (conn_next(c, &m)) {
            if (e->slow_reader)
                (void)poll(NULL, 0, 2);
            if (!m.is_text && !e->slow_reader && pass_on(ch->pipe[0], m.data, m.len) < 0)
                break;
            (void)pthread_mutex_lock(&e->lock);
            e->channel_bytes += m.len;
            (void)pthread_mutex_unlock(&e->lock);
        }
        (void)shutdown(ch->pipe[0], SHUT_WR);
        (void)pthread_mutex_lock(&e->lock);
        e->channel_ended = true;
        (void)pthread_cond_broadcast(&e->changed);
        (void)pthread_mutex_unlock(&e->lock);
    } else {
        if (e->long_message) {
            auto_free char *much = xcalloc(1, e->long_message);

            (void)websocket_send(c->ws, false, much, e->long_message);
        }
        while ((n = recv(ch->pipe[1], piece, PIPE_PIECE, 0)) > 0)
            if (websocket_send(c->ws, false, piece, (size_t)n) < 0)
                return;
        websocket_close(c->ws, WEBSOCKET_NORMAL, "stream_complete");
        (void)conn_next(c, &m);
    }
}

static bool shake(struct engine_conn *c)
{
    char head[4096] = "", accept[32];
    size_t len = 0;
    const char *key;
    auto_buf struct buf b = {0};
    bool writes;
    unsigned n;

    while (len < sizeof(head) - 1 && !strstr(head, "\r\n\r\n") &&
           recv(c->fd, head + len, 1, 0) == 1)
        len++;
    key = strstr(head, "Sec-WebSocket-Key: ");
    if (!key || sscanf(head, "GET %511s HTTP/1.1", c->target) != 1)
        return false;
    buf_init(&b, 4096);
    writes = strstr(c->target, "dir=write") != NULL;
    if (sscanf(c->target, "/ws/channels/c%%2F%u?key=k%%26y&dir=", &n) == 1
            ? n >= c->e->channel_count
            : c->target[1] != '\0') {
        (void)buf_add_str(&b, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        (void)conn_write(c, b.data, b.len);
        return false;
    }
    if (c->target[1]) /* before it is let in: a client may open the next at once */
        c->second = atomic_fetch_add(&c->e->channels[n].taken[writes], 1) > 0;
    websocket_accept_key(key + 19, accept);
    (void)buf_addf(&b,
                   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: "
                   "Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
                   accept);
    if (c->e->closes && c->target[1])
        (void)buf_add(&b, "\x88\x02\x03\xe8", 4);
    return conn_write(c, b.data, b.len) == 0;
}

static void *conn_run(void *arg)
{
    struct engine_conn *c = arg;
    const struct websocket_io io = {conn_read, conn_write, conn_unsent, c};
    unsigned n;

    if (shake(c)) {
        c->ws = websocket_new(&io, 32 << 20);
        if (sscanf(c->target, "/ws/channels/c%%2F%u", &n) == 1) {
            serve_channel(c, &c->e->channels[n]);
        } else {
            (void)pthread_mutex_lock(&c->e->lock);
            c->number = ++c->e->count;
            (void)pthread_cond_broadcast(&c->e->changed);
            (void)pthread_mutex_unlock(&c->e->lock);
            serve_worker(c);
        }
    }
    (void)shutdown(c->fd, SHUT_RDWR);
    return NULL;
}

static void *engine_run(void *arg)
{
    struct fake_engine *e = arg;
    int fd, on = 1;

    while ((fd = accept(e->listen_fd, NULL, NULL)) >= 0) {
        struct engine_conn *c = xcalloc(1, sizeof(*c));

        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        c->e = e;
        c->fd = fd;
        (void)pthread_mutex_init(&c->lock, NULL);
        (void)pthread_mutex_lock(&e->lock);
        c->next = e->conns;
        e->conns = c;
        (void)pthread_mutex_unlock(&e->lock);
        CHECK_INT(pthread_create(&c->thread, NULL, conn_run, c), 0);
    }
    return NULL;
}

static void engine_listen(struct fake_engine *e)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons((uint16_t)e->port)};
    socklen_t len = sizeof(a);
    int on = 1;

    e->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(setsockopt(e->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
          bind(e->listen_fd, (struct sockaddr *)&a, len) == 0 && listen(e->listen_fd, 16) == 0 &&
          getsockname(e->listen_fd, (struct sockaddr *)&a, &len) == 0);
    e->port = ntohs(a.sin_port);
    (void)snprintf(e->url, sizeof(e->url), "ws://127.0.0.1:%u/", e->port);
    CHECK_INT(pthread_create(&e->thread, NULL, engine_run, e), 0);
}

static void engine_start(struct fake_engine *e)
{
    (void)pthread_mutex_init(&e->lock, NULL);
    (void)pthread_cond_init(&e->changed, NULL);
    e->frames = json_array();
    e->owned = json_object();
    e->others = json_array();
    engine_listen(e);
}

/* All connections end without a word. */
static void engine_crash(struct fake_engine *e)
{
    struct engine_conn *c, *next;

    (void)shutdown(e->listen_fd, SHUT_RDWR);
    (void)pthread_join(e->thread, NULL);
    (void)close(e->listen_fd);
    for (unsigned i = 0; i < e->channel_count; i++)
        (void)shutdown(e->channels[i].pipe[0], SHUT_RDWR);
    for (c = e->conns; c; c = next) {
        next = c->next;
        atomic_store(&c->over, true);
        (void)shutdown(c->fd, SHUT_RDWR);
        (void)pthread_join(c->thread, NULL);
        websocket_free(c->ws);
        (void)close(c->fd);
        free(c);
    }
    e->conns = NULL;
}

static void engine_end(struct fake_engine *e)
{
    engine_crash(e);
    for (unsigned i = 0; i < e->channel_count; i++) {
        (void)close(e->channels[i].pipe[0]);
        (void)close(e->channels[i].pipe[1]);
    }
    json_decref(e->frames);
    json_decref(e->owned);
    json_decref(e->others);
}

/* The nth message of that type of a connection, once it has come. */
static json_t *frame(struct fake_engine *e, unsigned number, const char *type, unsigned nth)
{
    int64_t until = mono_ns() + PATIENCE_NS;

    for (;;) {
        json_t *one, *found = NULL;
        unsigned seen = 0;
        size_t i;

        (void)pthread_mutex_lock(&e->lock);
        json_array_foreach(e->frames, i, one)
        {
            json_t *m = json_object_get(one, "m");

            if (json_int(one, "n") == number && strcmp(json_text(m, "type"), type) == 0 &&
                seen++ == nth) {
                found = json_deep_copy(m);
                break;
            }
        }
        (void)pthread_mutex_unlock(&e->lock);
        if (found)
            return found;
        if (mono_ns() > until)
            TAP_FAIL("no %s came", type);
        (void)poll(NULL, 0, 2);
    }
}

static void await_frame(struct fake_engine *e, unsigned number, const char *type)
{
    json_decref(frame(e, number, type, 0));
}

static struct engine_conn *conn_of(struct fake_engine *e, unsigned number)
{
    struct engine_conn *c;

    (void)pthread_mutex_lock(&e->lock);
    for (c = e->conns; c && c->number != number; c = c->next)
        ;
    (void)pthread_mutex_unlock(&e->lock);
    CHECK(c != NULL);
    return c;
}

static void invoke(struct fake_engine *e, unsigned number, const char *id, json_t *data)
{
    say(conn_of(e, number), json_pack("{s:s, s:s, s:s, s:o, s:s, s:s}", "type", "invokefunction",
                                      "invocation_id", CALL_ID, "function_id", id, "data", data,
                                      "traceparent", "00-a-b-01", "baggage", "k=v"));
}

/* ---- both ---- */

struct fixture {
    struct fake_engine e;
    struct iii_hub hub;
    struct iii_link *l;
    struct iii_link_config config;
};

static void start(struct fixture *f)
{
    struct err err = {0};

    log_setup(LOG_LEVEL_ERROR, 0);
    if (!f->e.frames)
        engine_start(&f->e);
    f->hub.runner = runner_new(4);
    CHECK_INT(runner_start(f->hub.runner, &err), 0);
    if (!f->config.url)
        f->config.url = f->e.url;
    if (!f->config.back_off_ms)
        f->config.back_off_ms = 5;
    if (!f->config.standby_ms)
        f->config.standby_ms = 5;
    CHECK_INT(iii_link_new(&f->hub, &f->config, &f->l, &err), 0);
    CHECK_INT(iii_link_start(f->l, &err), 0);
}

static void await_up(struct fixture *f)
{
    int64_t until = mono_ns() + PATIENCE_NS;

    while (!iii_link_is_up(f->l)) {
        CHECK(mono_ns() < until);
        (void)poll(NULL, 0, 2);
    }
}

/* Also until the engine has looked at every function: what the link says next comes behind them. */
static void await_registered(struct fixture *f)
{
    await_up(f);
    say(conn_of(&f->e, f->e.count), json_pack("{s:s}", "type", "ping"));
    await_frame(&f->e, f->e.count, "pong");
}

static void end(struct fixture *f)
{
    iii_link_stop(f->l);
    runner_stop(f->hub.runner);
    answer_all();
    iii_link_free(f->l);
    runner_free(f->hub.runner);
    engine_end(&f->e);
}

TEST(it_says_who_it_is_and_then_what_it_offers)
{
    struct fixture f = {.config = {.namespace = "n1", .isolation = "vm"}};
    json_t *m, *data;

    start(&f);
    await_up(&f);
    m = frame(&f.e, 1, "invokefunction", 0);
    CHECK_STR(json_text(m, "type"), "invokefunction");
    CHECK_STR(json_text(m, "function_id"), "engine::workers::register");
    CHECK(!json_object_get(m, "invocation_id"));
    data = json_object_get(m, "data");
    CHECK_STR(json_text(data, "name"), "iii-sandbox");
    CHECK_STR(json_text(data, "namespace"), "n1");
    CHECK_STR(json_text(data, "isolation"), "vm");
    CHECK_INT(json_int(data, "pid"), getpid());
    json_decref(m);
    m = frame(&f.e, 1, "registerfunction", 0);
    CHECK_STR(json_text(m, "id"), "sandbox::create");
    CHECK_STR(json_text(json_object_get(m, "request_format"), "type"), "object");
    json_decref(m);
    end(&f);
}

/* All messages of a connection that register a function. */
static size_t offered(struct fixture *f, const char *id, bool *ret_has)
{
    size_t i, n = 0;
    json_t *one;

    *ret_has = false;
    (void)pthread_mutex_lock(&f->e.lock);
    json_array_foreach(f->e.frames, i, one)
    {
        json_t *m = json_object_get(one, "m");

        if (strcmp(json_text(m, "type"), "registerfunction") != 0)
            continue;
        n++;
        *ret_has |= strcmp(json_text(m, "id"), id) == 0;
    }
    (void)pthread_mutex_unlock(&f->e.lock);
    return n;
}

TEST(only_the_functions_of_iii_are_registered)
{
    struct fixture f = {0};
    bool has;
    json_t *m;

    start(&f);
    await_registered(&f);
    CHECK_INT(offered(&f, "fs::read", &has), 17);
    CHECK(!has);
    for (unsigned i = 0; i < 17; i++) {
        m = frame(&f.e, 1, "registerfunction", i);
        CHECK(iii_function(json_text(m, "id")) != NULL);
        json_decref(m);
    }
    end(&f);
}

TEST(what_hands_out_rights_is_never_offered)
{
    struct fixture f = {.config = {.extra = true}};
    bool has;

    start(&f);
    await_registered(&f);
    CHECK(offered(&f, "token::create", &has) > 40 && !has);
    (void)offered(&f, "fs::read", &has);
    CHECK(has);
    for (const struct function *t = token_functions; t->id; t++) {
        (void)offered(&f, t->id, &has);
        CHECK(!has || t->scope != SCOPE_ADMIN);
    }
    end(&f);
}

TEST(schemas_stand_alone)
{
    struct fixture f = {.config = {.extra = true}};
    auto_free char *text = NULL;

    start(&f);
    await_registered(&f);
    (void)pthread_mutex_lock(&f.e.lock);
    text = json_dumps(f.e.frames, 0);
    (void)pthread_mutex_unlock(&f.e.lock);
    CHECK(strstr(text, "$ref") == NULL);
    CHECK(strlen(text) < (2u << 20));
    end(&f);
}

TEST(a_call_is_answered_with_its_trace)
{
    struct fixture f = {0};
    json_t *m;

    start(&f);
    await_up(&f);
    invoke(&f.e, 1, "sandbox::list", json_pack("{s:s}", "_caller_worker_id", "x"));
    m = frame(&f.e, 1, "invocationresult", 0);
    CHECK_STR(json_text(m, "invocation_id"), CALL_ID);
    CHECK_STR(json_text(m, "function_id"), "sandbox::list");
    CHECK_STR(json_text(m, "traceparent"), "00-a-b-01");
    CHECK_STR(json_text(m, "baggage"), "k=v");
    CHECK(!json_object_get(m, "error"));
    CHECK(json_is_true(json_object_get(json_object_get(m, "result"), "may_write")));
    CHECK(json_is_false(json_object_get(json_object_get(m, "result"), "admin")));
    json_decref(m);
    say(conn_of(&f.e, 1), json_pack("{s:s}", "type", "ping"));
    await_frame(&f.e, 1, "pong");
    end(&f);
}

TEST(what_was_not_offered_is_not_called)
{
    struct fixture f = {0};
    json_t *m;

    start(&f);
    await_up(&f);
    invoke(&f.e, 1, "engine::workers::list", json_object());
    m = frame(&f.e, 1, "invocationresult", 0);
    CHECK_STR(json_text(json_object_get(m, "error"), "code"), "function_not_found");
    json_decref(m);
    end(&f);
}

TEST(a_call_that_cannot_be_read_is_answered)
{
    static const char head[] = "{\"type\":\"invokefunction\",\"invocation_id\":\"" CALL_ID
                               "\",\"function_id\":\"sandbox::list\",\"data\":";
    struct fixture f = {0};
    struct engine_conn *c;
    char text[4096];
    size_t n = sizeof(head) - 1;
    json_t *m;

    start(&f);
    await_up(&f);
    c = conn_of(&f.e, 1);
    memcpy(text, head, n);
    memset(text + n, '[', 2000); /* deeper than is read, and not ended */
    (void)pthread_mutex_lock(&c->lock);
    CHECK_INT(websocket_send(c->ws, true, text, n + 2000), 0);
    (void)pthread_mutex_unlock(&c->lock);
    m = frame(&f.e, 1, "invocationresult", 0);
    CHECK_STR(json_text(m, "invocation_id"), CALL_ID);
    CHECK_STR(json_text(json_object_get(m, "error"), "code"), "deserialization_error");
    json_decref(m);
    end(&f);
}

TEST(a_call_without_an_id_is_run_and_not_answered)
{
    struct fixture f = {0};
    json_t *m;

    start(&f);
    await_up(&f);
    say(conn_of(&f.e, 1), json_pack("{s:s, s:s, s:{s:b}}", "type", "invokefunction", "function_id",
                                    "sandbox::list", "data", "later", 1));
    while (asks_waiting() < 1)
        (void)poll(NULL, 0, 2);
    answer_all();
    invoke(&f.e, 1, "sandbox::list", json_object());
    m = frame(&f.e, 1, "invocationresult", 0);
    CHECK_STR(json_text(m, "invocation_id"), CALL_ID);
    json_decref(m);
    end(&f);
}

TEST(calls_in_flight_are_bounded)
{
    struct fixture f = {.config = {.in_flight_max = 2}};
    json_t *m;

    start(&f);
    await_up(&f);
    for (int i = 0; i < 3; i++)
        invoke(&f.e, 1, "sandbox::list", json_pack("{s:b}", "later", 1));
    m = frame(&f.e, 1, "invocationresult", 0);
    CHECK_STR(json_text(json_object_get(m, "error"), "code"), "invocation_error");
    CHECK(strstr(json_text(json_object_get(m, "error"), "message"), "busy") != NULL);
    json_decref(m);
    CHECK_INT(asks_waiting(), 2);
    answer_all();
    json_decref(frame(&f.e, 1, "invocationresult", 2));
    invoke(&f.e, 1, "sandbox::list", json_object());
    m = frame(&f.e, 1, "invocationresult", 3);
    CHECK(!json_object_get(m, "error"));
    json_decref(m);
    end(&f);
}

static void *drain(void *arg)
{
    iii_link_drain(arg, 20000);
    return NULL;
}

TEST(a_link_that_ends_answers_what_runs_and_begins_nothing)
{
    struct fixture f = {0};
    pthread_t thread;
    unsigned n = 0;
    json_t *m;

    start(&f);
    await_up(&f);
    invoke(&f.e, 1, "sandbox::list", json_pack("{s:b}", "later", 1));
    while (asks_waiting() < 1)
        (void)poll(NULL, 0, 2);
    CHECK_INT(pthread_create(&thread, NULL, drain, f.l), 0);
    for (bool refused = false; !refused;) { /* as soon as it drains */
        invoke(&f.e, 1, "sandbox::list", json_object());
        m = frame(&f.e, 1, "invocationresult", n++);
        refused = json_object_get(m, "error") != NULL;
        json_decref(m);
    }
    answer_all();
    (void)pthread_join(thread, NULL);
    iii_link_stop(f.l);
    m = frame(&f.e, 1, "invocationresult", n);
    CHECK_STR(json_string_value(json_object_get(m, "result")), "late");
    json_decref(m);
    end(&f);
}

TEST(a_long_result_arrives_and_one_that_is_too_long_is_told)
{
    struct fixture f = {0};
    json_t *m;

    start(&f);
    await_up(&f);
    invoke(&f.e, 1, "sandbox::list", json_pack("{s:i}", "long", 15 << 20));
    m = frame(&f.e, 1, "invocationresult", 0);
    CHECK_INT(json_string_length(json_object_get(m, "result")), 15 << 20);
    json_decref(m);
    invoke(&f.e, 1, "sandbox::list", json_pack("{s:i}", "long", 17 << 20));
    m = frame(&f.e, 1, "invocationresult", 1);
    CHECK(strstr(json_text(json_object_get(m, "error"), "message"), "channel") != NULL);
    json_decref(m);
    end(&f);
}

TEST(an_engine_that_comes_back_is_reattached_and_told_all_again)
{
    struct fixture f = {0};
    json_t *m;

    start(&f);
    await_up(&f);
    invoke(&f.e, 1, "sandbox::list", json_pack("{s:b}", "later", 1));
    while (asks_waiting() < 1)
        (void)poll(NULL, 0, 2);
    engine_crash(&f.e);
    while (iii_link_is_up(f.l))
        (void)poll(NULL, 0, 2);
    engine_listen(&f.e);
    await_up(&f);
    m = frame(&f.e, 2, "reattach", 0);
    CHECK_STR(json_text(m, "previous_worker_id"), WORKER_ID);
    CHECK_STR(json_text(m, "reattach_token"), TOKEN);
    json_decref(m);
    await_frame(&f.e, 2, "registerfunction");
    /* The result of a call from before is nobody's. */
    answer_all();
    invoke(&f.e, 2, "sandbox::list", json_pack("{s:i}", "mine", 1));
    m = frame(&f.e, 2, "invocationresult", 0);
    CHECK(json_is_object(json_object_get(m, "result")));
    json_decref(m);
    end(&f);
}

/* One is the registration of the worker, two are the lists that it asks for. */
TEST(the_connection_may_be_lost_at_each_message)
{
    for (unsigned at = 1; at <= 3 + 17; at++) {
        struct fixture f = {.e = {.cut_at = at}};

        start(&f);
        for (unsigned i = 0; i < 17; i++)
            json_decref(frame(&f.e, 2, "registerfunction", i));
        await_up(&f);
        invoke(&f.e, 2, "sandbox::list", json_object());
        await_frame(&f.e, 2, "invocationresult");
        end(&f);
    }
}

TEST(what_the_engine_told_outlives_the_process)
{
    char path[] = "/tmp/cay-link-XXXXXX";
    auto_free char *file = xasprintf("%s/" III_LINK_FILE, mkdtemp(path));
    struct stat st;
    json_t *m;

    for (unsigned i = 1; i <= 2; i++) {
        struct fixture f = {.config = {.memory_dir = path}};
        static unsigned port;

        f.e.port = port;
        start(&f);
        port = f.e.port;
        await_up(&f);
        if (i == 2) {
            m = frame(&f.e, 1, "reattach", 0);
            CHECK_STR(json_text(m, "reattach_token"), TOKEN);
            json_decref(m);
        }
        end(&f);
    }
    CHECK(stat(file, &st) == 0 && (st.st_mode & 077) == 0);
    CHECK(unlink(file) == 0 && rmdir(path) == 0);
}

/* ---- other workers ---- */

/* A call reaches us on the newest connection. */
static void check_served(struct fixture *f)
{
    unsigned n = f->e.count;
    json_t *m;

    invoke(&f->e, n, "sandbox::list", json_object());
    m = frame(&f->e, n, "invocationresult", 0);
    CHECK(!json_object_get(m, "error"));
    json_decref(m);
}

static void await_owner(struct fake_engine *e, const char *id, unsigned n)
{
    int64_t until = mono_ns() + PATIENCE_NS;
    bool is;

    do {
        CHECK(mono_ns() < until);
        (void)poll(NULL, 0, 2);
        (void)pthread_mutex_lock(&e->lock);
        is = json_object_get(e->owned, id) && json_int(json_object_get(e->owned, id), "n") == n;
        (void)pthread_mutex_unlock(&e->lock);
    } while (!is);
}

static unsigned frames_of(struct fake_engine *e, const char *key, const char *value)
{
    unsigned n = 0;
    json_t *one;
    size_t i;

    (void)pthread_mutex_lock(&e->lock);
    json_array_foreach(e->frames, i, one) n +=
        strcmp(json_text(json_object_get(one, "m"), key), value) == 0;
    (void)pthread_mutex_unlock(&e->lock);
    return n;
}

/* Waits until the link has asked the engine n more times. */
static void await_looks(struct fake_engine *e, unsigned n)
{
    int64_t until = mono_ns() + PATIENCE_NS;
    unsigned before = frames_of(e, "function_id", "engine::functions::list");

    while (frames_of(e, "function_id", "engine::functions::list") < before + n) {
        CHECK(mono_ns() < until);
        (void)poll(NULL, 0, 2);
    }
}

static void check_recovers(struct fixture f, const char *worker, const char *function)
{
    f.e.reject_worker = worker;
    f.e.reject_function = function;
    start(&f);
    await_frame(&f.e, 3, "invokefunction");
    f.e.reject_worker = f.e.reject_function = NULL;
    await_up(&f);
    check_served(&f);
    end(&f);
}

TEST(no_refusal_ends_the_link_and_it_takes_over_when_the_other_has_gone)
{
    for (int standby = 0; standby < 2; standby++) {
        struct fixture f = {.config = {.standby = standby}};

        check_recovers(f, "WORKER_NAMESPACE_CONFLICT", NULL);
        check_recovers(f, NULL, "FUNCTION_NAMESPACE_CONFLICT");
        check_recovers(f, "SOMETHING_NEW", NULL);
        check_recovers(f, NULL, "SOMETHING_NEW");
        f.e.only = "sandbox::fs::sed";
        check_recovers(f, NULL, "FUNCTION_NAMESPACE_CONFLICT");
    }
}

TEST(an_additional_function_that_is_refused_leaves_the_rest)
{
    for (int known = 0; known < 2; known++) {
        struct fixture f = {.e = {.only = "worker::list"}, .config = {.extra = true}};
        bool has;
        json_t *m;

        f.e.reject_function = known ? "FUNCTION_NAMESPACE_CONFLICT" : "SOMETHING_NEW";
        start(&f);
        await_registered(&f);
        CHECK(offered(&f, "worker::list", &has) > 40 && has);
        check_served(&f);
        invoke(&f.e, 1, "worker::list", json_object());
        m = frame(&f.e, 1, "invocationresult", 1);
        CHECK_STR(json_text(json_object_get(m, "error"), "code"), "function_not_found");
        json_decref(m);
        CHECK_INT(f.e.count, 1);
        end(&f);
    }
}

TEST(an_additional_function_of_another_worker_is_not_registered)
{
    for (unsigned version = 22; version <= 23; version++) {
        struct fixture f = {.e = {.version = version}, .config = {.extra = true}};
        bool has;

        engine_start(&f.e);
        other_takes(&f.e, "iii-worker-ops", "worker::list");
        start(&f);
        await_registered(&f);
        CHECK(offered(&f, "worker::list", &has) > 40 && !has);
        check_served(&f);
        end(&f);
    }
}

static void check_looks_first(unsigned version, bool standby, const char *name, const char *id)
{
    struct fixture f = {.e = {.version = version}, .config = {.standby = standby}};

    engine_start(&f.e);
    other_takes(&f.e, name, id);
    start(&f);
    await_looks(&f.e, 3);
    CHECK(!iii_link_is_up(f.l));
    CHECK_INT(frames_of(&f.e, "type", "registerfunction"), 0);
    await_owner(&f.e, id, 0);
    other_leaves(&f.e);
    await_up(&f);
    await_owner(&f.e, id, f.e.count);
    check_served(&f);
    end(&f);
}

TEST(it_looks_before_it_registers)
{
    for (unsigned version = 22; version <= 23; version++)
        for (int standby = 0; standby < 2; standby++) {
            check_looks_first(version, standby, "another", "sandbox::create");
            check_looks_first(version, standby, "iii-sandbox", "sandbox::create");
            check_looks_first(version, standby, "sandbox", "sandbox::fs::sed");
        }
}

TEST(a_function_of_another_namespace_is_no_conflict)
{
    struct fixture f = {.e = {.version = 23}, .config = {.namespace = "n1"}};

    engine_start(&f.e);
    other_takes(&f.e, "iii-sandbox", "sandbox::exec");
    start(&f);
    await_frame(&f.e, 1, "registerfunction"); /* this engine refuses by the id alone */
    end(&f);
}

TEST(what_is_left_of_our_own_last_connection_is_no_conflict)
{
    struct fixture f = {.e = {.version = 22}};

    start(&f);
    await_up(&f);
    engine_crash(&f.e);
    (void)pthread_mutex_lock(&f.e.lock);
    own(&f.e, "sandbox::create", "iii-sandbox", 1);
    (void)pthread_mutex_unlock(&f.e.lock);
    engine_listen(&f.e);
    await_owner(&f.e, "sandbox::create", 2);
    await_up(&f);
    end(&f);
}

TEST(it_registers_again_when_a_worker_that_replaced_it_has_gone)
{
    static const char *const names[] = {"another", "iii-sandbox"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct fixture f = {.e = {.version = 22}};

        start(&f);
        await_up(&f);
        await_looks(&f.e, 1);
        other_takes(&f.e, names[i], "sandbox::create");
        await_looks(&f.e, 2);
        await_owner(&f.e, "sandbox::create", 0);
        other_leaves(&f.e);
        await_owner(&f.e, "sandbox::create", 1);
        check_served(&f);
        CHECK_INT(f.e.count, 1);
        end(&f);
    }
}

TEST(an_additional_function_comes_back_when_its_other_worker_has_gone)
{
    struct fixture f = {.e = {.version = 22}, .config = {.extra = true}};

    engine_start(&f.e);
    other_takes(&f.e, "iii-worker-ops", "worker::list");
    start(&f);
    await_registered(&f);
    await_owner(&f.e, "worker::list", 0);
    other_leaves(&f.e);
    await_owner(&f.e, "worker::list", 1);
    CHECK_INT(f.e.count, 1);
    end(&f);
}

TEST(an_engine_that_does_not_answer_is_registered_with)
{
    struct fixture f = {.e = {.mute_lists = true}, .config = {.ask_ms = 30}};

    start(&f);
    await_up(&f);
    check_served(&f);
    end(&f);
}

TEST(nonsense_of_an_engine_changes_nothing)
{
    static const char *const nonsense[] = {
        "{\"type\":\"registrationrejected\"}",
        "{\"type\":\"registrationrejected\",\"code\":[],\"function_id\":7,\"namespace\":{}}",
        "{\"type\":\"registrationrejected\",\"code\":\"X\",\"function_id\":\"not::ours\"}",
        "{\"type\":\"registrationrejected\",\"code\":\"X\",\"worker_name\":\"another\"}",
        "{\"type\":\"error\"}",
        "{\"type\":\"workerregistered\",\"worker_id\":\"" OTHER_ID "\"}",
        "{\"type\":\"invocationresult\",\"invocation_id\":\"" CALL_ID "\",\"result\":{}}",
        "{\"type\":\"registertrigger\",\"id\":\"x\"}",
    };
    struct fixture f = {.e = {.version = 22}};

    start(&f);
    await_up(&f);
    for (unsigned n = 0; n < 200; n++)
        say(conn_of(&f.e, 1), json_loads(nonsense[n % ARRAY_LEN(nonsense)], 0, NULL));
    check_served(&f);
    CHECK(iii_link_is_up(f.l));
    CHECK_INT(f.e.count, 1);
    end(&f);
}

TEST(an_engine_that_starts_anew_with_other_workers_is_served)
{
    for (unsigned version = 22; version <= 23; version++) {
        struct fixture f = {.e = {.version = version}, .config = {.extra = true}};

        start(&f);
        await_up(&f);
        for (int i = 0; i < 2; i++) {
            engine_crash(&f.e);
            while (iii_link_is_up(f.l))
                (void)poll(NULL, 0, 2);
            other_takes(&f.e, "iii-worker-ops", "worker::list");
            engine_listen(&f.e);
            await_up(&f);
            check_served(&f);
        }
        end(&f);
    }
}

TEST(an_engine_that_is_silent_is_left)
{
    struct fixture f = {.e = {.silent = true}, .config = {.ping_ms = 10}};
    struct engine_conn *c;

    /* It reads and says nothing: even its pongs are held back. */
    start(&f);
    await_frame(&f.e, 1, "invokefunction");
    c = conn_of(&f.e, 1);
    (void)pthread_mutex_lock(&c->lock);
    while (f.e.count < 2)
        (void)poll(NULL, 0, 2);
    (void)pthread_mutex_unlock(&c->lock);
    end(&f);
}

TEST(without_an_engine_it_ends_at_once)
{
    struct fixture f = {.config = {.url = "ws://127.0.0.1:1", .back_off_ms = 3600000}};

    start(&f);
    (void)poll(NULL, 0, 50); /* mostly it has been refused by then, and waits for an hour */
    end(&f);
}

/* ---- channels ---- */

static struct pipes *pipes_of(struct fixture *f)
{
    struct pipes *p;

    invoke(&f->e, 1, "sandbox::list", json_pack("{s:b}", "later", 1));
    while (asks_waiting() < 1)
        (void)poll(NULL, 0, 2);
    (void)pthread_mutex_lock(&hub_lock);
    p = asked[0].pipes;
    (void)pthread_mutex_unlock(&hub_lock);
    return p;
}

static void await_pipe(struct pipe *p)
{
    struct pollfd poll_fd = {.fd = p->ops->fd(p), .events = POLLIN};

    CHECK_INT(poll(&poll_fd, 1, PATIENCE_MS), 1);
}

static void await_no_pipes(struct fixture *f)
{
    int64_t until = mono_ns() + PATIENCE_NS;

    while (link_pipes_count(f->l->pipes) > 0) {
        CHECK(mono_ns() < until);
        (void)poll(NULL, 0, 2);
    }
}

#define MUCH (64u << 20)

struct filler {
    struct pipe_feed base;
    size_t sent;
    atomic_bool freed;
};

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i ^ i >> 9 ^ i >> 17);
}

static int fill(struct pipe_feed *base, struct pipe *p)
{
    struct filler *f = (struct filler *)base;
    unsigned char piece[PIPE_PIECE];

    while (f->sent < MUCH) {
        int r;

        for (size_t i = 0; i < sizeof(piece); i++)
            piece[i] = byte_at(f->sent + i);
        r = p->ops->write(p, piece, sizeof(piece));
        if (r <= 0)
            return r == 0;
        f->sent += sizeof(piece);
    }
    return 0;
}

static void filler_free(struct pipe_feed *base)
{
    atomic_store(&((struct filler *)base)->freed, true);
}

static void read_much(struct pipe *p)
{
    auto_free unsigned char *piece = xmalloc(100000);
    size_t got = 0;
    ssize_t n;

    while ((n = p->ops->read(p, piece, 100000)) >= 0) {
        if (n == 0)
            await_pipe(p);
        for (ssize_t i = 0; i < n; i += 97)
            CHECK_INT(piece[i], byte_at(got + (size_t)i));
        got += (size_t)n;
    }
    CHECK_INT(got, MUCH);
    p->ops->close(p);
}

TEST(much_flows_through_a_channel_both_ways)
{
    struct filler filler = {.base = {fill, filler_free}};
    struct fixture f = {0};
    struct pipe *writer, *reader;
    struct pipes *pipes;
    struct err err = {0};
    json_t *ref = NULL;

    start(&f);
    await_up(&f);
    pipes = pipes_of(&f);
    writer = pipes->ops->make(pipes, &ref, &err);
    CHECK(writer != NULL);
    CHECK_STR(json_text(ref, "direction"), "read");
    pipes->ops->feed(pipes, writer, &filler.base);
    reader = pipes->ops->open(pipes, ref, false, &err);
    CHECK(reader != NULL);
    read_much(reader);
    json_decref(ref);
    await_no_pipes(&f);
    CHECK(atomic_load(&filler.freed));
    end(&f);
}

TEST(a_writer_waits_for_a_reader_that_is_slow)
{
    struct fixture f = {.e = {.slow_reader = true}};
    auto_free char *piece = xcalloc(1, PIPE_PIECE);
    struct pipes *pipes;
    struct pipe *writer;
    struct err err = {0};
    json_t *ref = NULL;
    size_t sent = 0;
    bool waited = false;

    start(&f);
    await_up(&f);
    pipes = pipes_of(&f);
    writer = pipes->ops->make(pipes, &ref, &err);
    CHECK(writer != NULL);
    while (sent < (16u << 20)) { /* more than sockets hold */
        int r = writer->ops->write(writer, piece, PIPE_PIECE);

        CHECK(r >= 0);
        sent += r > 0 ? PIPE_PIECE : 0;
        if (r == 0) {
            waited = true;
            await_pipe(writer);
        }
    }
    CHECK(waited);
    while (writer->ops->say(writer, "{}") == 0)
        await_pipe(writer);
    writer->ops->close(writer);
    await_no_pipes(&f);
    (void)pthread_mutex_lock(&f.e.lock);
    while (!f.e.channel_ended)
        (void)pthread_cond_wait(&f.e.changed, &f.e.lock);
    CHECK_INT(f.e.channel_bytes, sent + 2);
    (void)pthread_mutex_unlock(&f.e.lock);
    json_decref(ref);
    end(&f);
}

TEST(a_writer_whose_reader_takes_nothing_is_given_up)
{
    struct filler filler = {.base = {fill, filler_free}};
    struct fixture f = {.e = {.deaf = true}, .config = {.stall_ms = 100}};
    struct pipes *pipes;
    struct pipe *writer;
    json_t *ref = NULL;

    start(&f);
    await_up(&f);
    pipes = pipes_of(&f);
    writer = pipes->ops->make(pipes, &ref, NULL);
    CHECK(writer != NULL);
    json_decref(ref);
    pipes->ops->feed(pipes, writer, &filler.base);
    await_no_pipes(&f);
    CHECK(atomic_load(&filler.freed) && filler.sent < MUCH);
    end(&f);
}

/* Returns how much of a message of `len` bytes is read when streams may use `memory` bytes. */
static size_t read_long(size_t len, size_t memory)
{
    struct budget streams;
    struct fixture f = {.e = {.long_message = len}, .hub = {.config = {.streams = &streams}}};
    auto_free char *piece = xmalloc(PIPE_PIECE);
    struct pipes *pipes;
    struct pipe *writer, *reader;
    json_t *ref = NULL;
    size_t got = 0;
    ssize_t n;

    budget_init(&streams, memory);
    start(&f);
    await_up(&f);
    pipes = pipes_of(&f);
    writer = pipes->ops->make(pipes, &ref, NULL);
    CHECK(writer != NULL);
    reader = pipes->ops->open(pipes, ref, false, NULL);
    CHECK(reader != NULL);
    writer->ops->close(writer);
    while ((n = reader->ops->read(reader, piece, PIPE_PIECE)) >= 0) {
        if (n == 0)
            await_pipe(reader);
        got += (size_t)n;
    }
    reader->ops->close(reader);
    json_decref(ref);
    await_no_pipes(&f);
    end(&f);
    CHECK_INT(streams.used, 0);
    budget_done(&streams);
    return got;
}

TEST(a_long_message_of_a_channel_is_taken_when_there_is_memory)
{
    CHECK_INT(read_long(4u << 20, 16u << 20), 4u << 20);
    CHECK_INT(read_long(4u << 20, 4u << 20), 0);
}

TEST(a_close_that_comes_with_the_handshake_is_seen)
{
    struct fixture f = {.e = {.closes = true}};
    struct pipes *pipes;
    struct pipe *writer;
    json_t *ref = NULL;

    start(&f);
    await_up(&f);
    pipes = pipes_of(&f);
    writer = pipes->ops->make(pipes, &ref, NULL);
    CHECK(writer != NULL);
    CHECK_INT(writer->ops->write(writer, "x", 1), -1);
    writer->ops->close(writer);
    json_decref(ref);
    await_no_pipes(&f);
    end(&f);
}

TEST(ends_that_cannot_be_had_are_told)
{
    struct fixture f = {0};
    struct pipes *pipes;
    struct pipe *p, *again;
    struct err err = {0};
    json_t *ref = NULL, *other;
    char byte;

    start(&f);
    await_up(&f);
    pipes = pipes_of(&f);
    p = pipes->ops->make(pipes, &ref, &err);
    CHECK(p != NULL);
    CHECK(!pipes->ops->open(pipes, ref, true, &err));
    CHECK_STR(err.code, "bad_channel");
    other = json_string("x");
    CHECK(!pipes->ops->open(pipes, other, false, &err));
    CHECK_STR(err.code, "bad_channel");
    json_decref(other);
    other = json_pack("{s:s, s:s, s:s}", "channel_id", "../../x?", "access_key", "y", "direction",
                      "read");
    CHECK(!pipes->ops->open(pipes, other, false, &err));
    CHECK_STR(err.code, "channel_not_found");
    json_decref(other);
    /* A second one at the same end is let in and closed. */
    other = json_deep_copy(ref);
    (void)json_object_set_new(other, "direction", json_string("write"));
    again = pipes->ops->open(pipes, other, true, &err);
    CHECK(again != NULL);
    json_decref(other);
    while (again->ops->write(again, "x", 1) >= 0)
        (void)poll(NULL, 0, 2);
    again->ops->close(again);
    p->ops->close(p);
    p = pipes->ops->open(pipes, ref, false, &err);
    CHECK(p != NULL);
    while (p->ops->read(p, &byte, 1) == 0)
        await_pipe(p);
    CHECK_INT(p->ops->read(p, &byte, 1), -1);
    p->ops->close(p);
    json_decref(ref);
    await_no_pipes(&f);
    end(&f);
}

static void *make_one(void *arg)
{
    struct pipes *pipes = arg;
    json_t *ref = NULL;
    struct err err = {0};

    CHECK(!pipes->ops->make(pipes, &ref, &err));
    CHECK_INT(err.kind, ERR_UNAVAILABLE);
    return NULL;
}

TEST(who_waits_for_the_engine_is_told_when_it_goes)
{
    struct fixture f = {.e = {.mute_asks = true}};
    struct pipes *pipes;
    pthread_t thread;

    start(&f);
    await_up(&f);
    pipes = pipes_of(&f);
    CHECK_INT(pthread_create(&thread, NULL, make_one, pipes), 0);
    json_decref(frame(&f.e, 1, "invokefunction", 3)); /* behind two lists */
    engine_crash(&f.e);
    (void)pthread_join(thread, NULL);
    engine_listen(&f.e);
    end(&f);
}

TEST(what_is_open_ends_with_the_link)
{
    struct filler filler = {.base = {fill, filler_free}};
    struct fixture f = {0};
    struct pipe *fed, *held;
    struct pipes *pipes;
    struct err err = {0};
    json_t *ref = NULL;

    start(&f);
    await_up(&f);
    pipes = pipes_of(&f);
    fed = pipes->ops->make(pipes, &ref, &err);
    CHECK(fed != NULL);
    json_decref(ref);
    pipes->ops->feed(pipes, fed, &filler.base); /* which nobody reads */
    held = pipes->ops->make(pipes, &ref, &err);
    CHECK(held != NULL);
    json_decref(ref);
    iii_link_stop(f.l);
    CHECK_INT(held->ops->write(held, "x", 1), -1);
    runner_stop(f.hub.runner);
    CHECK(atomic_load(&filler.freed));
    held->ops->close(held);
    answer_all();
    iii_link_free(f.l);
    runner_free(f.hub.runner);
    engine_end(&f.e);
}

TAP_MAIN
