#include "daemon/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

#define VERSION  1
#define ASK_MS   30000 /* so long the new one may look around */
#define QUIET_S  60    /* so long the old one may be silent while it gives up */
#define STUCK_S  5     /* so long a note may take to be sent */
#define BACKLOG  4
#define LISTENED (3 + LISTENERS_MAX) /* sockets */

enum { LISTENS_TCP = 1 << 0, LISTENS_WS = 1 << 1, LISTENS_MORE = 1 << 2 };

enum note_kind { NOTE_LISTENERS = 1, NOTE_BUSY, NOTE_CONNECTION, NOTE_DONE, NOTE_GO, NOTE_SERVES };

/* All of one size, so that a stream of them needs no framing. */
struct note {
    uint32_t version, kind;
    uint32_t is_tcp;    /* of a CONNECTION */
    uint32_t listeners; /* which sockets come with the LISTENERS, beside the first; a daemon that
                         * has two says 0 */
    uint64_t dev, ino;  /* of the data folder, with the LISTENERS */
};

static int send_note(int peer, struct note note, const int *fds, size_t n_fds)
{
    note.version = VERSION;
    return send_fds(peer, &note, sizeof(note), fds, n_fds);
}

/* 1, 0 when the other has gone, or -errno. */
static int read_note(int peer, struct note *ret, int *fds, size_t *n_fds)
{
    ssize_t n = recv_fds(peer, ret, sizeof(*ret), fds, n_fds);

    if (n == -ECONNRESET)
        return 0;
    if (n <= 0)
        return (int)n;
    return n == (ssize_t)sizeof(*ret) && ret->version == VERSION ? 1 : -EPROTO;
}

static void limit_time(int fd, int receive_s)
{
    struct timeval in = {.tv_sec = receive_s}, out = {.tv_sec = STUCK_S};

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &in, sizeof(in));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &out, sizeof(out));
}

/* The pid, or -1 when it is another user's. */
static pid_t own_peer(int fd)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.uid != geteuid())
        return -1;
    return cred.pid;
}

static void conns_add(struct conns *c, int fd, bool is_tcp)
{
    c->list = xrealloc(c->list, (c->n + 1) * sizeof(*c->list));
    c->list[c->n].fd = fd;
    c->list[c->n++].is_tcp = is_tcp;
}

static void conns_drop(struct conns *c)
{
    while (c->n > 0)
        close_fd(&c->list[--c->n].fd);
    free(c->list);
    c->list = NULL;
}

/* ---- the old one ---- */

int handover_listen(struct handover *h, const char *run, struct err *err)
{
    int fd;

    free(h->path);
    h->path = xasprintf("%s/replace.sock", run);
    /* The umask makes it 0700: nobody else can connect. */
    fd = unix_listen(h->path, BACKLOG);
    if (fd < 0)
        return err_sys(err, -fd, "listen on %s", h->path);
    (void)fd_set_nonblock(fd, true);
    h->listen_fd = fd;
    return 0;
}

void handover_accept(struct handover *h, const char *data, const struct listeners *listeners)
{
    auto_close int fd = accept4(h->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    struct note note = {.kind = NOTE_LISTENERS};
    int fds[LISTENED] = {listeners->unix_fd};
    size_t n = 1;
    struct stat st;

    if (fd < 0 || own_peer(fd) < 0 || stat(data, &st) < 0)
        return;
    limit_time(fd, STUCK_S);
    if (h->peer >= 0) {
        (void)send_note(fd, (struct note){.kind = NOTE_BUSY}, NULL, 0);
        return;
    }
    note.dev = st.st_dev;
    note.ino = st.st_ino;
    if (listeners->tcp_fd >= 0) {
        note.listeners |= LISTENS_TCP;
        fds[n++] = listeners->tcp_fd;
    }
    if (listeners->ws_fd >= 0) {
        note.listeners |= LISTENS_WS;
        fds[n++] = listeners->ws_fd;
    }
    for (size_t i = 0; i < LISTENERS_MAX; i++) {
        if (listeners->more[i] < 0)
            continue;
        note.listeners |= LISTENS_MORE;
        fds[n++] = listeners->more[i];
    }
    if (send_note(fd, note, fds, n) < 0)
        return;
    h->peer = steal_fd(fd);
    h->until_ns = mono_ns() + ASK_MS * 1000000ll;
    log_info("another daemon asks to replace this one");
}

void handover_drop_peer(struct handover *h)
{
    close_fd(&h->peer);
    log_warn("the daemon that was to replace this one has given up");
}

enum handover_news handover_hear(struct handover *h)
{
    struct note note;
    size_t none = 0;

    if (read_note(h->peer, &note, NULL, &none) == 1 && note.kind == NOTE_GO) {
        close_fd(&h->listen_fd); /* nobody else is replaced by us */
        return HANDOVER_GO;
    }
    handover_drop_peer(h);
    return HANDOVER_NOTHING;
}

int handover_wait_ms(const struct handover *h)
{
    int64_t left = (h->until_ns - mono_ns()) / 1000000;

    if (h->peer < 0)
        return -1;
    return left > 0 ? (int)left + 1 : 0;
}

void handover_give(int fd, bool is_tcp, void *handover)
{
    struct handover *h = handover;

    /* Kept too: closing it would end nothing, and we may have to go on. */
    conns_add(&h->given, fd, is_tcp);
    if (h->peer >= 0 &&
        send_note(h->peer, (struct note){.kind = NOTE_CONNECTION, .is_tcp = is_tcp}, &fd, 1) < 0)
        close_fd(&h->peer);
}

/* SIGHUP ends no daemon. */
static bool told_to_end(int signal_fd)
{
    struct signalfd_siginfo info;

    return read_exact(signal_fd, &info, sizeof(info)) == 0 && info.ssi_signo != SIGHUP;
}

/* Until the other has said something, or has gone; false when we are told to end before. */
static bool await_note(const struct handover *h, int signal_fd)
{
    struct pollfd p[] = {{.fd = h->peer, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};

    for (;;) {
        int n = poll(p, ARRAY_LEN(p), -1);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || p[0].revents)
            return true;
        if (told_to_end(signal_fd))
            return false;
    }
}

bool handover_finish(struct handover *h, int signal_fd)
{
    struct note note;
    size_t none = 0;
    bool serves = false;

    /* Who is told to end now has nothing left to do. */
    if (h->peer >= 0 && send_note(h->peer, (struct note){.kind = NOTE_DONE}, NULL, 0) == 0)
        serves = !await_note(h, signal_fd) ||
                 (read_note(h->peer, &note, NULL, &none) == 1 && note.kind == NOTE_SERVES);
    close_fd(&h->peer);
    if (serves)
        conns_drop(&h->given);
    return serves;
}

void handover_close(struct handover *h, bool unlink_path)
{
    close_fd(&h->listen_fd);
    close_fd(&h->peer);
    conns_drop(&h->given);
    if (unlink_path && h->path)
        (void)unlink(h->path);
    free(h->path);
    h->path = NULL;
}

/* ---- the new one ---- */

static void take_listeners(struct heir *h, const struct note *note, const int *fds, size_t n_fds)
{
    uint32_t which = note->listeners ? note->listeners : LISTENS_TCP;
    size_t at = 0;

    h->listeners.unix_fd = fds[at++];
    if ((which & LISTENS_TCP) && at < n_fds)
        h->listeners.tcp_fd = fds[at++];
    if ((which & LISTENS_WS) && at < n_fds)
        h->listeners.ws_fd = fds[at++];
    for (size_t i = 0; (which & LISTENS_MORE) && at < n_fds; i++)
        h->listeners.more[i] = fds[at++];
}

static int check_listeners(struct heir *h, const struct note *note, const int *fds, size_t n_fds,
                           const char *data, struct err *err)
{
    struct stat st;

    if (note->kind == NOTE_BUSY)
        return err_set(err, ERR_CONFLICT,
                       "another daemon is replacing the one that runs; try again when it is done");
    if (note->kind != NOTE_LISTENERS || n_fds < 1)
        return err_set(err, ERR_CONFLICT, "the daemon that runs cannot be replaced by this one");
    take_listeners(h, note, fds, n_fds);
    if (stat(data, &st) < 0)
        return err_sys(err, errno, "look at %s", data);
    if (st.st_dev != note->dev || st.st_ino != note->ino)
        return err_set(
            err, ERR_CONFLICT,
            "the daemon that runs keeps its state elsewhere than in %s: give the CAY_DATA "
            "that it has",
            data);
    return 0;
}

int heir_join(struct heir *h, const char *run, const char *data, struct err *err)
{
    auto_free char *path = xasprintf("%s/replace.sock", run);
    int fds[LISTENED], r;
    struct note note = {0};
    size_t n = LISTENED;
    pid_t pid;

    h->fd = unix_connect(path);
    if (h->fd == -ENOENT || h->fd == -ECONNREFUSED) {
        h->fd = -1;
        log_info("there is no daemon to replace");
        return 0;
    }
    if (h->fd < 0) {
        r = h->fd;
        h->fd = -1;
        return err_sys(err, -r, "connect to %s", path);
    }
    pid = own_peer(h->fd);
    if (pid < 0)
        return err_set(err, ERR_FORBIDDEN, "%s is another user's", path);
    h->pidfd = pidfd_open(pid, 0);
    limit_time(h->fd, STUCK_S);
    r = read_note(h->fd, &note, fds, &n);
    if (r <= 0)
        return err_set(err, ERR_UNAVAILABLE, "the daemon that runs does not answer at %s", path);
    return check_listeners(h, &note, fds, n, data, err);
}

int heir_go(struct heir *h, struct err *err)
{
    struct pollfd p = {.fd = h->pidfd, .events = POLLIN};
    struct note note;
    int r;

    limit_time(h->fd, QUIET_S);
    (void)send_note(h->fd, (struct note){.kind = NOTE_GO}, NULL, 0);
    do {
        size_t n = 1;
        int fd = -1;

        r = read_note(h->fd, &note, &fd, &n);
        if (r == 1 && note.kind == NOTE_CONNECTION && n == 1)
            conns_add(&h->conns, fd, note.is_tcp);
    } while (r == 1 && note.kind == NOTE_CONNECTION);
    if (r < 0)
        return err_sys(err, -r, "wait for the daemon that runs to give up");
    /* It may have died: its database is free when it is gone whole, which is after its socket. */
    if (r == 0 && h->pidfd >= 0)
        (void)poll(&p, 1, QUIET_S * 1000);
    return 0;
}

void heir_serves(struct heir *h)
{
    if (h->fd >= 0)
        (void)send_note(h->fd, (struct note){.kind = NOTE_SERVES}, NULL, 0);
    close_fd(&h->fd);
}

void listeners_close(struct listeners *at)
{
    close_fd(&at->unix_fd);
    close_fd(&at->tcp_fd);
    close_fd(&at->ws_fd);
    for (size_t i = 0; i < LISTENERS_MAX; i++)
        close_fd(&at->more[i]);
}

void heir_done(struct heir *h)
{
    conns_drop(&h->conns);
    close_fd(&h->fd);
    close_fd(&h->pidfd);
    listeners_close(&h->listeners);
}
