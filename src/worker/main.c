/* cay-image begins as the keeper, which is root and reads nothing that a stranger wrote. It starts
 * the two that do, each behind its own walls, and does for them what root alone may do:
 *
 *   unpacker  manifests, archives, compressions, files. No network, no password, an id range that
 *             nobody else has, and of the host's files its own folder, and the layers to read.
 *   fetcher   registries: the network, TLS, passwords of the one that is asked. No capability, and
 *             of the host's files what names and certificates need. Of a pull only.
 *
 * 1. The unpacker is forked before the request is read: passwords were never in its memory.
 * 2. Both are the first of a pid namespace of their own, so that neither sees anybody, and whatever
 *    either could start ends with it.
 * 3. The keeper ends when the daemon does, or the unpacker; they end with it. How the unpacker
 *    ended is how the keeper ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "layer/trusted.h"
#include "wall/wall.h"
#include "worker/fetch.h"
#include "worker/keeper_internal.h"
#include "worker/secrets.h"
#include "worker/worker.h"

#define GIVES_WAY           10 /* as nice(1) has it; calls come first */
#define FETCHER_NAMESPACES  (CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS)
#define UNPACKER_NAMESPACES (FETCHER_NAMESPACES | CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWCGROUP)

static int read_request(json_t **ret, struct err *err)
{
    auto_buf struct buf b = {0};

    buf_init(&b, REQUEST_MAX);
    while (b.len == 0 || b.data[b.len - 1] != '\n') {
        char *room = buf_room(&b, 65536);
        ssize_t n = room ? read_some(STDIN_FILENO, room, 65536) : -EMSGSIZE;

        if (n == 0)
            _exit(0); /* the daemon changed its mind */
        if (n < 0)
            return err_sys(err, (int)-n, "read the request");
        b.len += (size_t)n;
    }
    *ret = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
    explicit_bzero(b.data, b.len);
    return *ret ? 0 : err_set(err, ERR_INTERNAL, "the request is not JSON");
}

/* ---- the two ---- */

/* Out of the way of the numbers that they get. */
static int pair(int type, int *ret_ours, int *ret_theirs, struct err *err)
{
    int fds[2], *ret[2] = {ret_ours, ret_theirs};

    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0)
        return err_sys(err, errno, "make a socket pair");
    for (int i = 0; i < 2; i++) {
        *ret[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FD_KEPT);
        (void)close(fds[i]);
        if (*ret[i] < 0)
            return err_sys(err, errno, "make a socket pair");
    }
    return 0;
}

/* fork() into new namespaces. The call itself: glibc has no function for it, and whatever it would
 * tidy up in the child concerns other threads, of which there are none. */
static int fork_into(int namespaces, pid_t *ret, struct err *err)
{
    long pid = syscall(SYS_clone, (long)namespaces | SIGCHLD, 0, 0, 0, 0);

    if (pid < 0)
        return err_sys(err, errno, "start a part of the image worker");
    *ret = (pid_t)pid;
    return 0;
}

static int start_unpacker(struct keeper *k, struct err *err)
{
    int work = -1, trusted = -1;

    if (pair(SOCK_STREAM, &k->work, &work, err) < 0 ||
        pair(SOCK_SEQPACKET, &k->trusted, &trusted, err) < 0 ||
        pair(SOCK_SEQPACKET, &k->ask, &k->asker, err) < 0 ||
        fork_into(UNPACKER_NAMESPACES, &k->unpacker, err) < 0)
        return -1;
    if (k->unpacker == 0)
        unpacker_run(work, trusted, k->asker);
    (void)close(work);
    (void)close(trusted);
    close_fd(&k->asker);
    return 0;
}

static int start_fetcher(struct keeper *k, struct err *err)
{
    int secrets = -1;
    pid_t pid;

    if (pair(SOCK_SEQPACKET, &k->secrets, &secrets, err) < 0 ||
        fork_into(FETCHER_NAMESPACES, &pid, err) < 0)
        return -1;
    if (pid == 0)
        fetcher_run(k->request, k->ask, secrets);
    (void)close(secrets);
    return 0;
}

/* ---- serving them ---- */

static void *serve_trusted(void *arg)
{
    const struct keeper *k = arg;

    trusted_serve(k->trusted);
    return NULL;
}

static void *serve_secrets(void *arg)
{
    const struct keeper *k = arg;

    secrets_serve(k->secrets, k->request);
    return NULL;
}

static int start_thread(void *(*run)(void *), struct keeper *k, struct err *err)
{
    pthread_t thread;
    int r = pthread_create(&thread, NULL, run, k);

    if (r != 0)
        return err_sys(err, r, "start a thread");
    (void)pthread_detach(thread);
    return 0;
}

/* Rule 3. */
static _Noreturn void end_as(int status)
{
    if (WIFSIGNALED(status)) {
        (void)signal(WTERMSIG(status), SIG_DFL);
        (void)raise(WTERMSIG(status));
        _exit(128 + WTERMSIG(status));
    }
    _exit(WEXITSTATUS(status));
}

static _Noreturn void wait_for_end(const struct keeper *k)
{
    struct pollfd p[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                          {.fd = pidfd_open(k->unpacker, 0), .events = POLLIN}};
    int status = 0;
    char byte;

    for (;;) {
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            _exit(1);
        if (p[1].revents && waitpid(k->unpacker, &status, WNOHANG) == k->unpacker)
            end_as(status);
        /* Nobody waits for us any more, or nobody is left. */
        if (p[0].revents && read_some(STDIN_FILENO, &byte, 1) <= 0)
            _exit(0);
    }
}

static int run(struct keeper *k, struct err *err)
{
    const char *op;

    if (wall_limits(FD_OTHER + 1, err) < 0 || start_unpacker(k, err) < 0 ||
        read_request(&k->request, err) < 0)
        return -1;
    op = json_string_value(json_object_get(k->request, "op"));
    if (op && strcmp(op, "pull") == 0 && start_fetcher(k, err) < 0)
        return -1;
    close_fd(&k->ask);
    if (keeper_give(k, err) < 0 || start_thread(serve_trusted, k, err) < 0)
        return -1;
    return k->secrets >= 0 ? start_thread(serve_secrets, k, err) : 0;
}

int main(void)
{
    struct keeper k = {.work = -1, .trusted = -1, .ask = -1, .asker = -1, .secrets = -1};
    struct err err = {0};

    (void)prctl(PR_SET_NAME, "cay-image"); /* it runs from a descriptor */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + GIVES_WAY);
    if (run(&k, &err) < 0)
        event_fail(&err);
    wait_for_end(&k);
}
