/* The daemon's side of cay-courier: a queue, and one thread that keeps the process and speaks with
 * it (courier/wire.h).
 *
 * 1. Who has posted is told once, whatever happens: the process that dies takes what it was at
 *    with it, and each of those is told so. They are not sent to the next: one of them may be what
 *    killed it.
 * 2. The process copied the files that names need when it started. When they have changed it gets
 *    nothing more, and another takes its place when it has ended what it was at. */
#include "service/courier.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/program.h"
#include "courier/wire.h"
#include "policy/targets.h"

#define QUEUE_MAX    2048
#define QUEUE_BYTES  (32u << 20)
#define TIMEOUT_MS   10000
#define IDLE_MS      30000
#define STEADY_NS    (10 * 1000000000ll) /* one that ran for so long is replaced at once */
#define DELAY_S_MAX  30
#define NS_OF_MS(ms) ((int64_t)(ms)*1000000)

struct item {
    TAILQ_ENTRY(item) link;
    uint64_t id;
    courier_done done;
    void *arg;
    size_t len, sent; /* of message: a courier_ask and what follows it */
    char message[];
};
TAILQ_HEAD(items, item);

_Static_assert(COURIER_FD == PROGRAM_FD, "the courier speaks on what it gets");

/* Of the files that names need: has one been replaced or written? */
struct names {
    struct timespec times[2];
    ino_t inodes[2];
};

struct courier {
    struct courier_config config;
    char **allow;
    char *ca_file;

    pthread_mutex_t lock; /* of what follows up to wake */
    struct items queue;
    size_t n_queued, bytes; /* bytes: of queue and sent */
    uint64_t last_id;
    bool running, stop;
    pid_t pid; /* 0 = none */

    int wake; /* an eventfd: the queue or stop have changed */
    pthread_t thread;

    /* The thread's own. */
    struct items sent; /* or being sent: the last one */
    unsigned n_sent;
    int sock; /* -1 = none runs */
    struct names names;
    int64_t started_ns, again_ns, idle_ns; /* mono_ns; again: not before; idle: 0 = it is not */
    unsigned failures;                     /* in a row: those that ended at once */
    bool answered;                         /* the one that runs has told something */
    bool stale;                            /* rule 2 */
    struct buf in;
};

int courier_new(const struct courier_config *config, struct courier **ret, struct err *err)
{
    struct targets *targets;
    struct courier *c;

    if (targets_parse(config->allow, &targets, err) < 0)
        return -1;
    targets_free(targets);
    c = xcalloc(1, sizeof(*c));
    c->config = *config;
    c->allow = config->allow ? strv_copy(config->allow) : NULL;
    c->ca_file = config->ca_file ? xstrdup(config->ca_file) : NULL;
    c->sock = -1;
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake < 0)
        abort();
    pthread_mutex_init(&c->lock, NULL);
    TAILQ_INIT(&c->queue);
    TAILQ_INIT(&c->sent);
    buf_init(&c->in, 64u << 10);
    *ret = c;
    return 0;
}

void courier_free(struct courier *c)
{
    if (!c)
        return;
    close_fd(&c->wake);
    pthread_mutex_destroy(&c->lock);
    buf_done(&c->in);
    strv_free(c->allow);
    free(c->ca_file);
    free(c);
}

static void wake(struct courier *c)
{
    uint64_t one = 1;

    (void)write_all(c->wake, &one, sizeof(one));
}

int courier_pid(struct courier *c)
{
    pid_t pid;

    pthread_mutex_lock(&c->lock);
    pid = c->pid;
    pthread_mutex_unlock(&c->lock);
    return (int)pid;
}

/* ---- posting ---- */

static struct item *make_item(const struct courier_request *q, courier_done done, void *arg,
                              struct err *err)
{
    struct courier_ask ask = {.trusted = q->trusted,
                              .timeout_ms = q->timeout_ms ? q->timeout_ms : TIMEOUT_MS,
                              .url_bytes = (uint32_t)strnlen(q->url, COURIER_URL_MAX + 1),
                              .body_bytes = (uint32_t)q->body_len};
    auto_buf struct buf headers = {0};
    struct item *item;
    char *at;

    buf_init(&headers, COURIER_HEADERS_MAX);
    for (size_t i = 0; q->headers && q->headers[i]; i++)
        if (buf_add_str(&headers, q->headers[i]) < 0 || buf_add_str(&headers, "\n") < 0) {
            (void)err_set(err, ERR_TOO_LARGE, "the headers of a message are too long");
            return NULL;
        }
    if (q->body_len > COURIER_BODY_MAX || ask.url_bytes > COURIER_URL_MAX) {
        (void)err_set(err, ERR_TOO_LARGE, "a message or its URL is too long");
        return NULL;
    }
    if (ask.timeout_ms > COURIER_TIMEOUT_MAX)
        ask.timeout_ms = COURIER_TIMEOUT_MAX;
    ask.header_bytes = (uint32_t)headers.len;
    item = xcalloc(1, sizeof(*item) + sizeof(ask) + ask.url_bytes + headers.len + q->body_len);
    item->done = done;
    item->arg = arg;
    memcpy(item->message, &ask, sizeof(ask));
    at = item->message + sizeof(ask);
    memcpy(at, q->url, ask.url_bytes);
    if (headers.len)
        memcpy(at + ask.url_bytes, headers.data, headers.len);
    if (q->body_len)
        memcpy(at + ask.url_bytes + headers.len, q->body, q->body_len);
    item->len = sizeof(ask) + ask.url_bytes + headers.len + q->body_len;
    return item;
}

static int enqueue(struct courier *c, struct item *item, struct err *err)
{
    if (!c->running || c->stop)
        return err_set(err, ERR_UNAVAILABLE, "the courier has stopped");
    if (c->n_queued >= QUEUE_MAX || c->bytes + item->len > QUEUE_BYTES)
        return err_code(err, ERR_LIMIT, "courier_busy", "too many messages wait to be sent");
    item->id = ++c->last_id;
    memcpy(item->message + offsetof(struct courier_ask, id), &item->id, sizeof(item->id));
    TAILQ_INSERT_TAIL(&c->queue, item, link);
    c->n_queued++;
    c->bytes += item->len;
    return 0;
}

int courier_post(struct courier *c, const struct courier_request *request, courier_done done,
                 void *arg, struct err *err)
{
    struct item *item;
    int r;

    if (!c->config.program)
        return err_set(err, ERR_UNSUPPORTED, "this daemon has no courier");
    item = make_item(request, done, arg, err);
    if (!item)
        return -1;
    pthread_mutex_lock(&c->lock);
    r = enqueue(c, item, err);
    pthread_mutex_unlock(&c->lock);
    if (r < 0) {
        explicit_bzero(item->message, item->len);
        free(item);
        return -1;
    }
    wake(c);
    return 0;
}

/* ---- telling ---- */

static const char *word_of(int outcome)
{
    static const char *const words[COURIER_OUTCOMES] = {
        [COURIER_REFUSED] = "refused",
        [COURIER_NO_NAME] = "no_name",
        [COURIER_NO_CONNECTION] = "no_connection",
        [COURIER_NO_TRUST] = "no_trust",
        [COURIER_TIMED_OUT] = "timeout",
        [COURIER_BROKEN] = "broken",
        [COURIER_BAD_URL] = "bad_url",
        [COURIER_DIED] = "died",
    };

    return outcome > COURIER_ANSWERED && outcome < COURIER_OUTCOMES ? words[outcome] : "broken";
}

/* Takes item, which is in no list. There may be a password in it. */
static void tell(struct courier *c, struct item *item, const struct courier_told *told)
{
    bool answered = told->outcome == COURIER_ANSWERED && told->status >= 200 && told->status <= 599;
    struct courier_answer answer = {
        .status = answered ? told->status : 0,
        .word = answered ? NULL : word_of(told->outcome),
        .text = answered ? "" : told->why,
        .address = told->address,
        .retry_after_s = told->retry_after_s,
        .took_ms = told->took_ms,
    };

    pthread_mutex_lock(&c->lock);
    c->bytes -= item->len;
    pthread_mutex_unlock(&c->lock);
    item->done(&answer, item->arg);
    explicit_bzero(item->message, item->len);
    free(item);
}

static void tell_died(struct courier *c, struct items *items, const char *why)
{
    struct courier_told told = {.outcome = COURIER_DIED};
    struct item *item;

    (void)snprintf(told.why, sizeof(told.why), "%s", why);
    while ((item = TAILQ_FIRST(items))) {
        TAILQ_REMOVE(items, item, link);
        tell(c, item, &told);
    }
}

/* Only what can be shown: it repeats what strangers said. */
static void make_printable(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (char *p = text; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

static void take_told(struct courier *c, struct courier_told *told)
{
    struct item *item;

    make_printable(told->address, sizeof(told->address));
    make_printable(told->why, sizeof(told->why));
    if (told->id == 0) {
        log_warn("the courier cannot work", "why", told->why);
        return;
    }
    TAILQ_FOREACH(item, &c->sent, link)
    if (item->id == told->id)
        break;
    if (!item || item->sent < item->len) {
        log_warn("the courier told of what it was not asked for");
        return;
    }
    TAILQ_REMOVE(&c->sent, item, link);
    c->n_sent--;
    c->answered = true;
    tell(c, item, told);
}

/* ---- the process ---- */

static void look_at_names(struct names *ret)
{
    static const char *const files[] = {"/etc/resolv.conf", "/etc/hosts"};
    struct stat st;

    *ret = (struct names){0};
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (stat(files[i], &st) == 0) {
            ret->times[i] = st.st_mtim;
            ret->inodes[i] = st.st_ino;
        }
}

static bool names_have_changed(const struct courier *c)
{
    struct names now;

    look_at_names(&now);
    for (size_t i = 0; i < ARRAY_LEN(now.inodes); i++)
        if (now.inodes[i] != c->names.inodes[i] ||
            now.times[i].tv_sec != c->names.times[i].tv_sec ||
            now.times[i].tv_nsec != c->names.times[i].tv_nsec)
            return true;
    return false;
}

/* Names are asked for twice for 3 seconds, then there is no answer: longer than a request takes. */
static char **environment(void)
{
    char **env = strv_add(NULL, "RES_OPTIONS=timeout:3 attempts:2");
#ifdef CAY_SANITIZED
    static const char *const passed[] = {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"};

    for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
        const char *value = getenv(passed[i]);
        auto_free char *line = value ? xasprintf("%s=%s", passed[i], value) : NULL;

        if (line)
            env = strv_add(env, line);
    }
#endif
    return env;
}

static int spawn(const struct courier *c, int program, int sock, pid_t *ret)
{
    auto_strv char **env = environment();
    auto_strv char **argv = strv_add(NULL, "cay-courier");

    argv = strv_add(argv, c->ca_file ? c->ca_file : "");
    for (size_t i = 0; c->allow && c->allow[i]; i++)
        argv = strv_add(argv, c->allow[i]);
    return program_spawn(program, sock, argv, env, ret);
}

static int start_process(struct courier *c, struct err *err)
{
    auto_close int program =
        fd_sealed("cay-courier", c->config.program, c->config.program_bytes, 0500);
    auto_close int ours = -1, theirs = -1;
    int pair[2], r;
    pid_t pid;

    if (program < 0)
        return err_sys(err, -program, "start the courier");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, errno, "start the courier");
    ours = pair[0];
    theirs = pair[1];
    if (fd_set_nonblock(ours, true) < 0)
        return err_sys(err, errno, "start the courier");
    look_at_names(&c->names);
    r = spawn(c, program, theirs, &pid);
    if (r < 0)
        return err_sys(err, -r, "start the courier");
    c->sock = steal_fd(ours);
    c->started_ns = mono_ns();
    c->answered = false;
    c->idle_ns = 0;
    buf_clear(&c->in);
    pthread_mutex_lock(&c->lock);
    c->pid = pid;
    pthread_mutex_unlock(&c->lock);
    return 0;
}

/* It ends when its socket does; what it is at is not waited for. Returns the status of waitpid().
 */
static int end_process(struct courier *c)
{
    pid_t pid = c->pid;
    int status = 0;

    if (c->sock < 0)
        return 0;
    close_fd(&c->sock);
    pthread_mutex_lock(&c->lock);
    c->pid = 0;
    pthread_mutex_unlock(&c->lock);
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static void put_off(struct courier *c)
{
    unsigned n = c->failures < 5 ? c->failures : 5;

    c->again_ns = mono_ns() + (c->failures ? NS_OF_MS(1000ll << (n - 1)) : 0);
    c->failures++;
}

/* All that wait, of the queue too: for one that cannot live nobody waits. */
static void fail_queue(struct courier *c, const char *why)
{
    struct items all;

    TAILQ_INIT(&all);
    pthread_mutex_lock(&c->lock);
    TAILQ_CONCAT(&all, &c->queue, link);
    c->n_queued = 0;
    pthread_mutex_unlock(&c->lock);
    tell_died(c, &all, why);
}

/* Rule 1. */
static void process_ended(struct courier *c)
{
    bool lived = c->answered || mono_ns() - c->started_ns > STEADY_NS;
    char how[PROGRAM_ENDED_MAX];

    program_ended_words(end_process(c), how);
    log_warn("the courier has ended; it is started again when there is something to send", "with",
             how);
    if (lived)
        c->failures = 0;
    put_off(c);
    c->n_sent = 0;
    tell_died(c, &c->sent, "the courier ended before it could say what became of it");
    if (!lived)
        fail_queue(c, "the courier does not start");
}

/* ---- the thread ---- */

static struct item *next_item(struct courier *c)
{
    struct item *last = TAILQ_LAST(&c->sent, items), *item;

    if (last && last->sent < last->len)
        return last;
    if (c->stale || c->n_sent >= COURIER_AT_ONCE)
        return NULL;
    pthread_mutex_lock(&c->lock);
    item = TAILQ_FIRST(&c->queue);
    if (item) {
        TAILQ_REMOVE(&c->queue, item, link);
        c->n_queued--;
    }
    pthread_mutex_unlock(&c->lock);
    if (item) {
        TAILQ_INSERT_TAIL(&c->sent, item, link);
        c->n_sent++;
    }
    return item;
}

/* True when the socket is full. */
static bool send_all(struct courier *c)
{
    struct item *item;

    while ((item = next_item(c))) {
        ssize_t n = send(c->sock, item->message + item->sent, item->len - item->sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return true; /* or it is gone: the next poll says so */
        item->sent += (size_t)n;
    }
    return false;
}

static void read_told(struct courier *c)
{
    char *room = buf_room(&c->in, sizeof(struct courier_told) * 16);
    ssize_t n = recv(c->sock, room, sizeof(struct courier_told) * 16, MSG_DONTWAIT);
    size_t start = 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        process_ended(c);
        return;
    }
    c->in.len += (size_t)n;
    for (; c->in.len - start >= sizeof(struct courier_told); start += sizeof(struct courier_told)) {
        struct courier_told told;

        memcpy(&told, c->in.data + start, sizeof(told));
        take_told(c, &told);
    }
    buf_shift(&c->in, start);
}

static bool has_work(struct courier *c)
{
    bool has;

    pthread_mutex_lock(&c->lock);
    has = c->n_queued > 0;
    pthread_mutex_unlock(&c->lock);
    return has;
}

/* Starts it, ends it, or neither. Milliseconds until that is to be asked again; -1 = when something
 * happens. */
static int keep_process(struct courier *c)
{
    struct err err = {0};
    int64_t now = mono_ns();
    bool work = has_work(c);

    c->stale = c->sock >= 0 && work && names_have_changed(c);
    if (c->stale && c->n_sent == 0) {
        (void)end_process(c);
        c->stale = false;
    }
    if (c->sock >= 0 && (c->n_sent > 0 || work)) {
        c->idle_ns = 0;
        return -1;
    }
    if (c->sock >= 0) {
        if (c->idle_ns == 0)
            c->idle_ns = now + NS_OF_MS(IDLE_MS);
        if (now < c->idle_ns)
            return (int)((c->idle_ns - now) / 1000000) + 1;
        (void)end_process(c);
        return -1;
    }
    if (!work)
        return -1;
    if (now < c->again_ns)
        return (int)((c->again_ns - now) / 1000000) + 1;
    if (start_process(c, &err) < 0) {
        log_warn("cannot start the courier", "why", err.text);
        put_off(c);
        fail_queue(c, "the courier does not start");
    }
    return -1;
}

static bool is_stopped(struct courier *c)
{
    bool stop;

    pthread_mutex_lock(&c->lock);
    stop = c->stop;
    pthread_mutex_unlock(&c->lock);
    return stop;
}

static void *run(void *arg)
{
    struct courier *c = arg;
    uint64_t ignored;

    while (!is_stopped(c)) {
        int wait = keep_process(c);
        bool full = c->sock >= 0 && send_all(c);
        struct pollfd p[2] = {{.fd = c->wake, .events = POLLIN},
                              {.fd = c->sock, .events = (short)(POLLIN | (full ? POLLOUT : 0))}};

        if (poll(p, 2, wait) < 0)
            continue;
        if (p[0].revents)
            (void)read_some(c->wake, &ignored, sizeof(ignored));
        if (p[1].revents & (POLLIN | POLLHUP | POLLERR))
            read_told(c);
    }
    (void)end_process(c);
    tell_died(c, &c->sent, "the daemon stops");
    fail_queue(c, "the daemon stops");
    return NULL;
}

int courier_start(struct courier *c, struct err *err)
{
    int r;

    c->running = true;
    r = pthread_create(&c->thread, NULL, run, c);
    if (r != 0) {
        c->running = false;
        return err_sys(err, r, "start the courier's thread");
    }
    return 0;
}

void courier_stop(struct courier *c)
{
    if (!c || !c->running)
        return;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_mutex_unlock(&c->lock);
    wake(c);
    (void)pthread_join(c->thread, NULL);
    c->running = false;
}
