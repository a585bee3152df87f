#include "engine/gateway_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/program.h"
#include "engine/engine_internal.h"
#include "engine/health.h"

#define MESSAGE_MAX (192u << 10)
#define START_MS    60000               /* the first of a machine has the kernel load its modules */
#define STEADY_NS   (10 * 1000000000ll) /* one that ran for so long is replaced at once */
#define DELAY_S_MAX 30
#define END_MS      3000
#define DOWN        "gateway_down"

struct gateway {
    const struct engine_config *config;
    char *path; /* of its socket; NULL = there are no networks */
    char *pin;  /* of its namespace */
    char build[24];
    gateway_new_fn on_new;
    gateway_event_fn on_event;

    pthread_mutex_t lock; /* held during a call */
    int conn;             /* -1 = none */
    json_t *hello;        /* what it said on conn */
    pid_t child;          /* one that we started; 0 = none */
    bool wanted;          /* somebody needed it */

    int wake; /* an eventfd: wanted or stop have changed */
    bool stop, running;
    pthread_t thread;
};

/* ---- the process ---- */

/* What it is built from: one of another build is replaced. */
static void name_build(struct gateway *g)
{
    const unsigned char *p = g->config->gateway;
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < g->config->gateway_bytes; i++)
        hash = (hash ^ p[i]) * 1099511628211u;
    (void)snprintf(g->build, sizeof(g->build), "%016" PRIx64, hash);
}

static char *setup_text(const struct gateway *g)
{
    const struct engine_config *c = g->config;
    json_t *setup =
        json_pack("{s:s, s:s, s:s*, s:s*, s:s*, s:s*, s:s*}", "build", g->build, "run", c->run_dir,
                  "pool", c->net_pool, "pool6", c->net_pool6, "ipv6", c->net_ipv6, "uplink",
                  c->net_uplink, "nameservers", c->net_nameservers);
    char *text = json_dumps(setup, JSON_COMPACT);

    json_decref(setup);
    return text;
}

static int start_process(struct gateway *g, struct err *err)
{
    auto_close int program =
        fd_sealed("cay-gateway", g->config->gateway, g->config->gateway_bytes, 0500);
    auto_close int listener = program < 0 ? -1 : unix_listen_packets(g->path, 16);
    auto_free char *setup = setup_text(g);
    char name[] = "cay-gateway", *argv[] = {name, setup, NULL}, *envp[] = {NULL};
    int r;

    if (program < 0 || listener < 0)
        return err_sys(err, program < 0 ? -program : -listener, "start the gateway");
    r = program_spawn(program, listener, argv, envp, &g->child); /* it outlives us */
    if (r < 0) {
        g->child = 0;
        return err_sys(err, -r, "start the gateway");
    }
    return 0;
}

/* Waits for one that we started and that is about to end. */
static void reap(struct gateway *g)
{
    char how[PROGRAM_ENDED_MAX];
    int status;

    if (g->child <= 0 || waitpid(g->child, &status, WNOHANG) != g->child)
        return;
    g->child = 0;
    if (WIFSIGNALED(status)) {
        program_ended_words(status, how);
        log_warn("the gateway has ended", "with", how);
    }
}

/* A descriptor of the process that answers on conn, which it said by listening; -1 when there is
 * none any more. */
static int open_peer(int conn)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    char path[40], name[32];
    auto_close int peer = -1;
    ssize_t n;

    if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return -1;
    peer = pidfd_open(cred.pid, 0);
    (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)cred.pid);
    n = peer < 0 ? -1 : read_file_at(AT_FDCWD, path, name, sizeof(name));
    return n > 0 && strcmp(name, "cay-gateway\n") == 0 ? steal_fd(peer) : -1;
}

/* Two at the same crossroads would undo each other's work. */
static void end_peer(int peer)
{
    struct pollfd p = {.fd = peer, .events = POLLIN};

    if (peer < 0)
        return;
    (void)pidfd_send_signal(peer, SIGKILL, NULL, 0);
    (void)poll(&p, 1, END_MS);
}

/* Of one that we started and that does not answer. */
static void end_child(struct gateway *g)
{
    if (g->child <= 0)
        return;
    (void)kill(g->child, SIGKILL);
    (void)waitpid(g->child, NULL, 0);
    g->child = 0;
}

/* ---- messages ---- */

static void hang_up(struct gateway *g)
{
    close_fd(&g->conn);
    json_decref(g->hello);
    g->hello = NULL;
}

static int send_message(int conn, const json_t *message, int fd)
{
    auto_free char *text = json_dumps(message, JSON_COMPACT | JSON_ENCODE_ANY);
    int r;

    if (!text || strlen(text) > MESSAGE_MAX)
        return -EMSGSIZE;
    r = send_fds(conn, text, strlen(text), &fd, fd < 0 ? 0 : 1);
    return r;
}

/* The next message, or NULL with an errno: ETIMEDOUT, EPIPE (the other end is gone), EBADMSG. */
static json_t *receive_message(int conn, int timeout_ms)
{
    auto_free char *text = xmalloc(MESSAGE_MAX + 1);
    struct pollfd p = {.fd = conn, .events = POLLIN};
    json_t *message;
    ssize_t n;

    do
        n = poll(&p, 1, timeout_ms);
    while (n < 0 && errno == EINTR);
    if (n <= 0) {
        errno = n == 0 ? ETIMEDOUT : errno;
        return NULL;
    }
    n = recv(conn, text, MESSAGE_MAX + 1, MSG_DONTWAIT);
    if (n <= 0 || n > (ssize_t)MESSAGE_MAX) {
        errno = n > 0 ? EBADMSG : EPIPE;
        return NULL;
    }
    message = json_loadb(text, (size_t)n, 0, NULL);
    if (!message)
        errno = EBADMSG;
    return message;
}

/* What the gateway refuses with, as ours. */
static int take_error(const json_t *answer, struct err *err)
{
    static const struct {
        const char *code;
        enum err_kind kind;
    } codes[] = {
        {"network_unsupported", ERR_UNSUPPORTED},
        {"bad_policy", ERR_INVALID},
        {"network_full", ERR_LIMIT},
        {"network_not_attached", ERR_CONFLICT},
        {"gateway_request", ERR_INTERNAL},
        {"gateway_failed", ERR_UNAVAILABLE},
    };
    const char *text = json_string_value(json_object_get(answer, "error"));
    const char *code = json_string_value(json_object_get(answer, "code"));

    if (!text)
        return 0;
    for (size_t i = 0; code && i < ARRAY_LEN(codes); i++)
        if (strcmp(codes[i].code, code) == 0)
            return err_code(err, codes[i].kind, codes[i].code, "%s", text);
    return err_set(err, ERR_INTERNAL, "%s", text);
}

static int failed(struct gateway *g, int errnum, struct err *err)
{
    hang_up(g);
    return err_code(err, ERR_UNAVAILABLE, DOWN, "the network gateway does not answer: %s",
                    strerror(errnum));
}

/* One request and its answer on the connection that is there. */
static int exchange_within(struct gateway *g, int timeout_ms, const json_t *request, int fd,
                           json_t **ret, struct err *err)
{
    int r = send_message(g->conn, request, fd);
    json_t *answer;

    if (r < 0)
        return failed(g, -r, err);
    answer = receive_message(g->conn, timeout_ms);
    if (!answer)
        return failed(g, errno, err);
    if (take_error(answer, err) < 0) {
        json_decref(answer);
        return -1;
    }
    *ret = answer;
    return 0;
}

static int exchange(struct gateway *g, const json_t *request, int fd, json_t **ret, struct err *err)
{
    return exchange_within(g, (int)g->config->waits.gateway, request, fd, ret, err);
}

static int ask_hello(struct gateway *g, int timeout_ms, json_int_t from, json_t **ret,
                     struct err *err)
{
    json_t *hello =
        json_pack("{s:s, s:i, s:I}", "op", "hello", "port", (int)g->config->api_port, "from", from);
    int r = exchange_within(g, timeout_ms, hello, -1, ret, err);

    json_decref(hello);
    return r;
}

/* Who it is and all that it knows, of which one message may hold a part only. */
static int greet(struct gateway *g, int timeout_ms, struct err *err)
{
    json_t *hello = NULL;

    if (ask_hello(g, timeout_ms, 0, &hello, err) < 0)
        return -1;
    for (json_int_t from = json_integer_value(json_object_get(hello, "next")); from > 0;) {
        json_t *more = NULL;

        if (ask_hello(g, timeout_ms, from, &more, err) < 0) {
            json_decref(hello);
            return -1;
        }
        (void)json_array_extend(json_object_get(hello, "boxes"), json_object_get(more, "boxes"));
        from = json_integer_value(json_object_get(more, "next"));
        json_decref(more);
    }
    g->hello = hello;
    return 0;
}

static bool is_our_build(const struct gateway *g)
{
    const char *build = json_string_value(json_object_get(g->hello, "build"));

    return build && strcmp(build, g->build) == 0;
}

/* Ends one without a word to the kernel: the next finds all as it was. */
static void dismiss(struct gateway *g)
{
    json_t *quit = json_pack("{s:s}", "op", "quit");
    struct pollfd p = {.fd = g->conn, .events = POLLIN};

    (void)send_message(g->conn, quit, -1);
    json_decref(quit);
    (void)poll(&p, 1, END_MS);
}

/* The gateway that is there, if it is of our build and answers. Else there is none afterwards. */
static int connect_found(struct gateway *g, struct err *err)
{
    auto_close int peer = -1;

    g->conn = unix_connect_packets(g->path);
    if (g->conn < 0)
        return -1;
    peer = open_peer(g->conn);
    if (greet(g, (int)g->config->waits.gateway, err) < 0) {
        log_warn("the network gateway does not answer; starting another in its place");
    } else if (is_our_build(g)) {
        return 0;
    } else {
        log_info("the network gateway is of another version; starting ours in its place");
        dismiss(g);
    }
    hang_up(g);
    end_peer(peer);
    return -1;
}

/* A connection to a gateway of our build, which is started if there is none. */
static int connect_locked(struct gateway *g, struct err *err)
{
    if (g->conn >= 0 || connect_found(g, err) == 0)
        return 0;
    hang_up(g);
    end_child(g);
    if (start_process(g, err) < 0)
        return -1;
    g->conn = unix_connect_packets(g->path);
    if (g->conn < 0)
        return failed(g, -g->conn, err);
    if (greet(g, START_MS, err) == 0)
        return 0;
    hang_up(g);
    return -1;
}

static void wake(struct gateway *g)
{
    uint64_t one = 1;

    (void)write_all(g->wake, &one, sizeof(one));
}

static int call_locked(struct gateway *g, const json_t *request, int fd, json_t **ret,
                       struct err *err)
{
    bool fresh = g->conn < 0;

    if (!g->wanted) {
        g->wanted = true;
        wake(g);
    }
    if (connect_locked(g, err) < 0)
        return -1;
    if (exchange(g, request, fd, ret, err) == 0)
        return 0;
    /* It ended since the last call: all requests may be made twice. */
    if (fresh || g->conn >= 0)
        return -1;
    *err = (struct err){0};
    return connect_locked(g, err) < 0 ? -1 : exchange(g, request, fd, ret, err);
}

int gateway_call(struct engine *e, json_t *request, int fd, json_t **ret, struct err *err)
{
    struct gateway *g = e->gateway;
    json_t *answer = NULL;
    struct err own = {0};
    int r = -1;

    if (!g->path) {
        (void)err_code(&own, ERR_UNSUPPORTED, "network_unsupported",
                       "networks are switched off for this daemon (CAY_NETWORK=false)");
    } else {
        pthread_mutex_lock(&g->lock);
        r = call_locked(g, request, fd, &answer, &own);
        pthread_mutex_unlock(&g->lock);
    }
    json_decref(request);
    if (r < 0) {
        if (err)
            *err = own;
        return -1;
    }
    if (ret)
        *ret = answer;
    else
        json_decref(answer);
    return 0;
}

/* ---- its keeper: a thread that hears what it tells, and starts another when it ends ---- */

static bool wants(struct gateway *g)
{
    bool wanted;

    pthread_mutex_lock(&g->lock);
    wanted = g->wanted;
    pthread_mutex_unlock(&g->lock);
    return wanted;
}

static void unwant(struct gateway *g)
{
    pthread_mutex_lock(&g->lock);
    g->wanted = false;
    pthread_mutex_unlock(&g->lock);
}

/* Until wake(), or for some time. */
static void nap(struct gateway *g, int timeout_ms)
{
    struct pollfd p = {.fd = g->wake, .events = POLLIN};
    uint64_t count;

    if (poll(&p, 1, timeout_ms) > 0)
        (void)read_some(g->wake, &count, sizeof(count));
}

static void hear(struct engine *e, const json_t *event)
{
    const char *kind = json_string_value(json_object_get(event, "event"));

    if (kind && strcmp(kind, "log") == 0)
        log_warn("network gateway", "message",
                 json_string_value(json_object_get(event, "message")));
    else if (kind && e->gateway->on_event)
        e->gateway->on_event(e, event);
}

/* Until it ends or we do. */
static void listen_to(struct engine *e, int conn)
{
    struct gateway *g = e->gateway;

    while (!__atomic_load_n(&g->stop, __ATOMIC_ACQUIRE)) {
        struct pollfd p[] = {{.fd = conn, .events = POLLIN}, {.fd = g->wake, .events = POLLIN}};
        json_t *event;

        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return;
        if (p[1].revents)
            nap(g, 0);
        if (!p[0].revents)
            continue;
        event = receive_message(conn, 0);
        if (!event && errno != EBADMSG && errno != ETIMEDOUT)
            return;
        if (event)
            hear(e, event);
        json_decref(event);
    }
}

static int open_watch(struct gateway *g)
{
    auto_close int conn = unix_connect_packets(g->path);
    json_t *watch = json_pack("{s:s}", "op", "watch");
    int r = conn < 0 ? conn : send_message(conn, watch, -1);

    json_decref(watch);
    return r < 0 ? -1 : steal_fd(conn);
}

/* It has heard all that this daemon knows: what a gateway before it left is no longer needed. */
static void settle(struct gateway *g)
{
    json_t *answer = NULL, *settled = json_pack("{s:s}", "op", "settled");
    struct err err = {0};

    pthread_mutex_lock(&g->lock);
    if (g->conn >= 0 && exchange(g, settled, -1, &answer, &err) < 0)
        log_error("the network gateway could not set its rules", "error", err.text);
    pthread_mutex_unlock(&g->lock);
    json_decref(settled);
    json_decref(answer);
}

/* One gateway's life, as far as we see it. False when there is none. */
static bool keep_one(struct engine *e, int64_t *told)
{
    struct gateway *g = e->gateway;
    json_t *hello = NULL;
    auto_close int conn = -1;
    struct err err = {0};
    int64_t pid;

    pthread_mutex_lock(&g->lock);
    if (connect_locked(g, &err) == 0)
        hello = json_deep_copy(g->hello); /* a copy: json_decref() on two threads would race */
    pthread_mutex_unlock(&g->lock);
    if (!hello && err.kind == ERR_UNSUPPORTED) { /* who asks is told; it is not tried again */
        unwant(g);
        return false;
    }
    if (!hello) {
        if (engine_trouble(e, DOWN, "", err.text))
            log_error("the network gateway cannot be started; trying again", "error", err.text);
        return false;
    }
    conn = open_watch(g);
    pid = json_integer_value(json_object_get(hello, "pid"));
    if (pid != *told && g->on_new)
        g->on_new(e, hello);
    *told = pid;
    settle(g);
    json_decref(hello);
    if (conn >= 0)
        listen_to(e, conn);
    return conn >= 0;
}

static void *keep(void *arg)
{
    struct engine *e = arg;
    struct gateway *g = e->gateway;
    int64_t told = 0;
    unsigned failures = 0;

    while (!__atomic_load_n(&g->stop, __ATOMIC_ACQUIRE)) {
        int64_t since = mono_ns();

        if (!wants(g)) {
            nap(g, -1);
            continue;
        }
        if (keep_one(e, &told))
            engine_trouble_over(e, DOWN, "");
        if (__atomic_load_n(&g->stop, __ATOMIC_ACQUIRE))
            break;
        pthread_mutex_lock(&g->lock);
        hang_up(g);
        reap(g);
        pthread_mutex_unlock(&g->lock);
        failures = mono_ns() - since > STEADY_NS ? 0 : failures + 1;
        if (failures > 1)
            nap(g, 1000 * (failures > 6 ? DELAY_S_MAX : 1 << (failures - 2)));
    }
    return NULL;
}

/* ---- start and end ---- */

struct gateway *gateway_new(const struct engine_config *config)
{
    struct gateway *g = xcalloc(1, sizeof(*g));

    g->config = config;
    g->conn = g->wake = -1;
    pthread_mutex_init(&g->lock, NULL);
    if (config->gateway && config->run_dir) {
        g->path = xasprintf("%s/gateway.sock", config->run_dir);
        g->pin = xasprintf("%s/netns", config->run_dir);
        name_build(g);
    }
    return g;
}

void gateway_free(struct gateway *g)
{
    if (!g)
        return;
    hang_up(g);
    close_fd(&g->wake);
    pthread_mutex_destroy(&g->lock);
    free(g->path);
    free(g->pin);
    free(g);
}

void gateway_hooks(struct engine *e, gateway_new_fn on_new, gateway_event_fn on_event)
{
    e->gateway->on_new = on_new;
    e->gateway->on_event = on_event;
}

int gateway_start(struct engine *e, struct err *err)
{
    struct gateway *g = e->gateway;
    int r;

    if (!g->path)
        return 0;
    g->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (g->wake < 0)
        return err_sys(err, errno, "eventfd");
    /* One that runs, or whose crossroads are there. */
    g->conn = unix_connect_packets(g->path);
    g->wanted = g->conn >= 0 || access(g->pin, F_OK) == 0;
    close_fd(&g->conn);
    r = pthread_create(&g->thread, NULL, keep, e);
    if (r != 0)
        return err_sys(err, r, "start a thread");
    g->running = true;
    return 0;
}

static bool is_needed(struct gateway *g)
{
    struct err err = {0};
    json_t *fresh = NULL, *hello = json_pack("{s:s}", "op", "hello");
    bool needed = exchange(g, hello, -1, &fresh, &err) < 0 ||
                  json_array_size(json_object_get(fresh, "boxes")) > 0;

    json_decref(hello);
    json_decref(fresh);
    return needed;
}

/* It answers when all is taken down, and ends. */
static void take_down(struct gateway *g)
{
    json_t *answer = NULL, *stop = json_pack("{s:s}", "op", "stop");
    struct err err = {0};

    if (exchange(g, stop, -1, &answer, &err) < 0) {
        log_error("the network gateway could not be stopped", "error", err.text);
        if (g->child > 0)
            (void)kill(g->child, SIGKILL); /* ours, and waited for below */
    }
    json_decref(stop);
    json_decref(answer);
    (void)unlink(g->path);
    if (g->child > 0)
        (void)waitpid(g->child, NULL, 0);
    g->child = 0;
}

void gateway_stop(struct engine *e, bool all)
{
    struct gateway *g = e->gateway;
    struct err err = {0};

    if (g->running) {
        __atomic_store_n(&g->stop, true, __ATOMIC_RELEASE);
        wake(g);
        pthread_join(g->thread, NULL);
        g->running = false;
    }
    pthread_mutex_lock(&g->lock);
    if (g->wanted && connect_locked(g, &err) == 0 && (all || !is_needed(g)))
        take_down(g);
    hang_up(g);
    g->wanted = false;
    pthread_mutex_unlock(&g->lock);
}
