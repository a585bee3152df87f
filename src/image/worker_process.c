/* One run of the image worker: processes of their own for whatever reads what strangers wrote, of
 * which the first starts the others. It gets its request on 0, which stays open: when we close it,
 * or die, all end. What they say comes as lines of JSON on 1, what they log on 2. Nothing of that
 * is taken on trust: lines have a maximum, and an error's words are checked. */
#include "image/image_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

#define EVENT_MAX  (16u << 20) /* the last one carries a configuration of up to 4 MiB, twice */
#define LOG_MAX    2048
#define FD_MIN     10 /* out of the way of the numbers that the worker gets */
#define IDLE_MS    1000
#define END_MS     2000
#define STILL_MS   10000
#define CODES_MAX  64
#define CODE_BYTES 40

struct worker_process {
    pid_t pid;
    int pidfd;
    int request, events, log;
    struct buf event_line, log_line;
    json_t *last;   /* "done" or "error" */
    bool cancelled; /* by the caller */
    image_progress progress;
    void *arg;
};

/* err.code must outlive everything. There are few, but the worker could invent more. */
static const char *intern_code(const char *code)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char codes[CODES_MAX][CODE_BYTES];
    const char *found = NULL;
    size_t n = strlen(code);

    if (n == 0 || n >= CODE_BYTES || strspn(code, "abcdefghijklmnopqrstuvwxyz_") != n)
        return NULL;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < CODES_MAX && !found; i++) {
        if (codes[i][0] == '\0')
            memcpy(codes[i], code, n + 1);
        if (strcmp(codes[i], code) == 0)
            found = codes[i];
    }
    (void)pthread_mutex_unlock(&lock);
    return found;
}

static enum err_kind kind_of(const char *word)
{
    for (int k = ERR_INVALID; k < ERR_KINDS; k++)
        if (strcmp(err_kind_code((enum err_kind)k), word) == 0)
            return (enum err_kind)k;
    return ERR_INTERNAL;
}

static int said_error(const json_t *event, struct err *err)
{
    const char *kind = json_string_value(json_object_get(event, "kind"));
    const char *code = json_string_value(json_object_get(event, "code"));
    const char *text = json_string_value(json_object_get(event, "text"));

    return err_code(err, kind_of(kind ? kind : ""), code ? intern_code(code) : NULL, "%s",
                    text ? text : "the image worker failed and did not say why");
}

/* ---- start ---- */

static char **environment(void)
{
    /* For credential helpers, and for where registries are behind a proxy. */
    static const char *const passed[] = {
        "HOME",         "PATH",         "http_proxy",    "https_proxy", "HTTPS_PROXY",
        "ALL_PROXY",    "all_proxy",    "NO_PROXY",      "no_proxy",
#ifdef CAY_SANITIZED
        "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", /* a race in it fails its test */
#endif
    };
    char **env = getenv("PATH") ? NULL : strv_add(NULL, IMAGE_PATH);

    for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
        const char *value = getenv(passed[i]);
        auto_free char *line = value ? xasprintf("%s=%s", passed[i], value) : NULL;

        if (line)
            env = strv_add(env, line);
    }
    return env ? env : xcalloc(1, sizeof(*env));
}

static int spawn(int program, const int fds[5], pid_t *ret)
{
    auto_free char *path = xasprintf("/proc/self/fd/%d", program);
    auto_strv char **env = environment();
    char name[] = "cay-image", *argv[] = {name, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, ignored;
    int r;

    (void)sigemptyset(&none);
    (void)sigemptyset(&ignored);
    (void)sigaddset(&ignored, SIGPIPE);
    (void)sigaddset(&ignored, SIGCHLD);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setsigdefault(&attr, &ignored);
    /* A group of its own: what it starts ends with it. */
    (void)posix_spawnattr_setpgroup(&attr, 0);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addchdir_np(&actions, "/");
    for (int i = 0; i < 5; i++)
        if (fds[i] >= 0)
            (void)posix_spawn_file_actions_adddup2(&actions, fds[i], i);
    r = posix_spawn(ret, path, &actions, &attr, argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attr);
    return r;
}

/* dup2 in the child must not step on a descriptor that a later one needs. */
static int move_up(int *fd)
{
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, FD_MIN);

    if (high < 0)
        return -errno;
    close_fd(fd);
    *fd = high;
    return 0;
}

static int copy_up(int fd, int *ret)
{
    *ret = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_MIN);
    return fd >= 0 && *ret < 0 ? -errno : 0;
}

static void close_all(int fds[5])
{
    for (int i = 0; i < 5; i++)
        close_fd(&fds[i]);
}

/* Its side of each descriptor, in order; ours are in w. */
static int make_fds(struct worker_process *w, int layersfd, int fd, int theirs[5])
{
    int request[2], events[2], log[2], r = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, request) < 0)
        return -errno;
    w->request = request[0];
    theirs[0] = request[1];
    if (pipe2(events, O_CLOEXEC) < 0)
        return -errno;
    w->events = events[0];
    theirs[1] = events[1];
    if (pipe2(log, O_CLOEXEC) < 0)
        return -errno;
    w->log = log[0];
    theirs[2] = log[1];
    for (int i = 0; i < 3 && r == 0; i++)
        r = move_up(&theirs[i]);
    if (r == 0)
        r = copy_up(layersfd, &theirs[3]);
    if (r == 0)
        r = copy_up(fd, &theirs[4]);
    if (r == 0)
        r = fd_set_nonblock(w->log, true);
    return r;
}

static void send_request(struct worker_process *w, const json_t *request)
{
    auto_free char *text = json_dumps(request, JSON_COMPACT);
    size_t len, done = 0;

    if (!text)
        abort();
    len = strlen(text);
    text[len] = '\n'; /* in place of the NUL: the line's end */
    while (done <= len) {
        ssize_t n = send(w->request, text + done, len + 1 - done, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break; /* it is gone; its last words say why */
        done += (size_t)n;
    }
    /* There may be a password in it. */
    explicit_bzero(text, len + 1);
}

static int start(struct worker_process *w, int program, int layersfd, int fd, struct err *err)
{
    int theirs[5] = {-1, -1, -1, -1, -1};
    int r = make_fds(w, layersfd, fd, theirs);

    if (r == 0)
        r = -spawn(program, theirs, &w->pid);
    close_all(theirs);
    if (r < 0)
        return err_sys(err, -r, "start the image worker");
    w->pidfd = pidfd_open(w->pid, 0);
    return 0;
}

/* ---- what it says ---- */

static void tell(struct worker_process *w, const json_t *event)
{
    if (w->progress && !w->cancelled && w->progress(event, w->arg) < 0)
        w->cancelled = true;
}

static int take_event(struct worker_process *w, const char *line, size_t len, struct err *err)
{
    json_t *event = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    const char *name = json_string_value(json_object_get(event, "event"));

    if (!name) {
        json_decref(event);
        return err_set(err, ERR_INTERNAL, "the image worker said something that is no event");
    }
    if (strcmp(name, "done") == 0 || strcmp(name, "error") == 0) {
        w->last = event;
        return 0;
    }
    tell(w, event);
    json_decref(event);
    return 0;
}

/* Whole lines of b; what is left waits for its end. */
static int take_events(struct worker_process *w, struct err *err)
{
    struct buf *b = &w->event_line;
    size_t start = 0;

    while (!w->last && start < b->len) {
        char *end = memchr(b->data + start, '\n', b->len - start);

        if (!end)
            break;
        if (take_event(w, b->data + start, (size_t)(end - b->data) - start, err) < 0)
            return -1;
        start = (size_t)(end - b->data) + 1;
    }
    buf_shift(b, start);
    return 0;
}

/* 1 at the end. */
static int read_events(struct worker_process *w, struct err *err)
{
    char *room = buf_room(&w->event_line, 65536);
    ssize_t n;

    if (!room)
        return err_set(err, ERR_INTERNAL, "the image worker said too much at once");
    n = read_some(w->events, room, 65536);
    if (n < 0)
        return err_sys(err, (int)-n, "listen to the image worker");
    w->event_line.len += (size_t)n;
    return n == 0 ? 1 : take_events(w, err);
}

static void log_lines(struct buf *b, bool rest)
{
    size_t start = 0;

    while (start < b->len) {
        char *end = memchr(b->data + start, '\n', b->len - start);

        if (!end && !rest && b->len < LOG_MAX)
            break;
        if (end)
            *end = '\0';
        log_info("image worker", "says", b->data + start);
        start = end ? (size_t)(end - b->data) + 1 : b->len;
    }
    buf_shift(b, start);
}

static void read_log(struct worker_process *w)
{
    for (;;) {
        size_t want = LOG_MAX - w->log_line.len;
        char *room = buf_room(&w->log_line, want);
        ssize_t n = read_some(w->log, room, want);

        if (n <= 0) {
            if (n == 0)
                close_fd(&w->log);
            return;
        }
        w->log_line.len += (size_t)n;
        w->log_line.data[w->log_line.len] = '\0';
        log_lines(&w->log_line, false);
    }
}

/* Until it has said its last, or ended without. */
static int listen_to(struct worker_process *w, struct err *err)
{
    int r = 0;

    while (r == 0 && !w->last && !w->cancelled) {
        struct pollfd p[2] = {{.fd = w->events, .events = POLLIN},
                              {.fd = w->log, .events = POLLIN}};
        int n = poll(p, 2, w->progress ? IDLE_MS : -1);

        if (n < 0 && errno != EINTR)
            r = err_sys(err, errno, "listen to the image worker");
        if (n == 0)
            tell(w, NULL);
        if (n > 0 && p[1].revents)
            read_log(w);
        if (n > 0 && p[0].revents)
            r = read_events(w, err);
    }
    return r < 0 ? -1 : 0;
}

/* ---- end ---- */

/* What it started was killed with it, but may still be in the middle of a call. Whoever writes
 * files has the events' other end: when nobody has it any more, nothing changes any more. */
static void wait_until_still(struct worker_process *w)
{
    struct pollfd p = {.fd = w->events, .events = POLLIN};
    char data[4096];

    while (poll(&p, 1, STILL_MS) > 0 && read_some(w->events, data, sizeof(data)) > 0)
        ;
}

/* Waits a moment for one that is about to end by itself, so that its status says why. */
static int end(struct worker_process *w)
{
    struct pollfd p = {.fd = w->pidfd, .events = POLLIN};
    int status = 0;

    close_fd(&w->request);
    if (!w->last && !w->cancelled && w->pidfd >= 0)
        (void)poll(&p, 1, END_MS);
    (void)kill(-w->pid, SIGKILL);
    (void)kill(w->pid, SIGKILL);
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
        ;
    wait_until_still(w);
    if (w->log >= 0)
        read_log(w);
    log_lines(&w->log_line, true);
    return status;
}

static int ended_early(int status, struct err *err)
{
    if (WIFSIGNALED(status))
        return err_code(err, ERR_INTERNAL, "image_worker_died",
                        "the image worker was killed by signal %d; try again", WTERMSIG(status));
    return err_code(err, ERR_INTERNAL, "image_worker_died",
                    "the image worker ended with status %d and did not say why",
                    WEXITSTATUS(status));
}

static void worker_process_done(struct worker_process *w)
{
    close_fd(&w->pidfd);
    close_fd(&w->request);
    close_fd(&w->events);
    close_fd(&w->log);
    buf_done(&w->event_line);
    buf_done(&w->log_line);
    json_decref(w->last);
}

static int run(struct worker_process *w, int program, int layersfd, int fd, const json_t *request,
               json_t **ret_done, struct err *err)
{
    int r, status;

    if (start(w, program, layersfd, fd, err) < 0)
        return -1;
    send_request(w, request);
    r = listen_to(w, err);
    status = end(w);
    if (r < 0)
        return -1;
    if (w->cancelled)
        return err_code(err, ERR_UNAVAILABLE, "cancelled", "nobody waited for it any more");
    if (!w->last)
        return ended_early(status, err);
    if (strcmp(json_string_value(json_object_get(w->last, "event")), "error") == 0)
        return said_error(w->last, err);
    *ret_done = steal_ptr(w->last);
    return 0;
}

int worker_run(int program, int layersfd, int fd, const json_t *request, image_progress progress,
               void *arg, json_t **ret_done, struct err *err)
{
    struct worker_process w = {
        .pidfd = -1, .request = -1, .events = -1, .log = -1, .progress = progress, .arg = arg};
    int r;

    buf_init(&w.event_line, EVENT_MAX);
    buf_init(&w.log_line, LOG_MAX);
    r = run(&w, program, layersfd, fd, request, ret_done, err);
    worker_process_done(&w);
    return r;
}
