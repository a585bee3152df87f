#include "cli/private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/remove.h"
#include "cli/ui.h"

#define STOP_MS  20000
#define READY_FD 3
#define ALIVE_FD 4

static int make_folder(struct private_daemon *d, struct err *err)
{
    const char *tmp = getenv("TMPDIR");
    auto_free char *folder = xasprintf("%s/cay-run-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
    auto_free char *data = NULL;
    auto_free char *run = NULL;

    if (!mkdtemp(folder))
        return err_sys(err, errno, "make the folder %s for a daemon of its own", folder);
    data = xasprintf("%s/data", folder);
    run = xasprintf("%s/run", folder);
    d->folder = steal_ptr(folder);
    if (mkdir(data, 0700) < 0 || mkdir(run, 0700) < 0)
        return err_sys(err, errno, "make folders in %s", d->folder);
    d->target = xasprintf("unix:%s/cay.sock", run);
    return 0;
}

/* In the child: descriptors in their places, an own session so that Ctrl-C reaches only us. */
static void become_daemon(const struct private_daemon *d, int ready, int alive)
{
    auto_free char *data = xasprintf("%s/data", d->folder);
    auto_free char *run = xasprintf("%s/run", d->folder);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    /* Above the places first: one of them may be in the other's. */
    int r = fcntl(ready, F_DUPFD_CLOEXEC, 16), a = fcntl(alive, F_DUPFD_CLOEXEC, 16);
    static const char *const not_for_it[] = {"CAY_AUTH_TOKEN", "III_AUTH_TOKEN", "CAY_API_PREFIX",
                                             "III_API_PREFIX"};
    sigset_t none;

    (void)setsid();
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
        dup2(r, READY_FD) < 0 || dup2(a, ALIVE_FD) < 0)
        _exit(125);
    /* It is ours alone, on a socket in a folder that only we may enter. */
    for (size_t i = 0; i < ARRAY_LEN(not_for_it); i++)
        (void)unsetenv(not_for_it[i]);
    (void)setenv("CAY_MAX_CMD_TIMEOUT", "86400", 0); /* a person waits for it, not a service */
    (void)setenv("CAY_DRAIN_TIMEOUT", "2", 1);       /* its only client has ended; below STOP_MS */
    (void)setenv("CAY_POOL", "1", 1);
    (void)setenv("CAY_DEFAULT_IMAGE", "host", 0); /* what it pulls is gone with it */
    (void)setenv("CAY_LOG_LEVEL", "error", 1);
    (void)execl("/proc/self/exe", "cay", "serve", "--no-tcp", "--data", data, "--run", run,
                "--ready-fd", "3", "--exit-with-parent-fd", "4", "--stop-sandboxes", "--remove",
                d->folder, (char *)NULL);
    ui_warn("cannot start a daemon: %s", strerror(errno));
    _exit(125);
}

static int begin(struct private_daemon *d, struct err *err)
{
    int ready[2], alive[2];
    char byte;

    if (pipe2(ready, O_CLOEXEC) < 0)
        return err_sys(err, errno, "pipe");
    if (pipe2(alive, O_CLOEXEC) < 0) {
        (void)close(ready[0]);
        (void)close(ready[1]);
        return err_sys(err, errno, "pipe");
    }
    (void)fflush(NULL);
    d->pid = fork();
    if (d->pid == 0)
        become_daemon(d, ready[1], alive[0]);
    (void)close(ready[1]);
    (void)close(alive[0]);
    d->alive = alive[1];
    d->has_served = d->pid > 0 && read_some(ready[0], &byte, 1) == 1;
    (void)close(ready[0]);
    if (d->has_served)
        return 0;
    return err_set(err, ERR_UNAVAILABLE,
                   "no daemon is running, and one for this command alone did not start (its reason "
                   "is above; `cay doctor` says more)");
}

int private_start(struct private_daemon *d, struct err *err)
{
    return make_folder(d, err) < 0 ? -1 : begin(d, err);
}

/* The daemon ends its sandboxes first; one that hangs is not waited for for ever. */
static void reap(pid_t pid)
{
    auto_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};

    if (fd >= 0 && poll(&ended, 1, STOP_MS) == 0) {
        ui_warn("the private daemon (pid %d) did not end in %d s: killing it", (int)pid,
                STOP_MS / 1000);
        (void)kill(pid, SIGKILL);
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void end(struct private_daemon *d)
{
    close_fd(&d->alive);
    if (d->pid > 0)
        reap(d->pid);
}

void private_stop(struct private_daemon *d)
{
    struct err err = {0};

    end(d);
    /* It was killed, and its sandboxes are still there: another one takes them over, and ends
     * them. */
    if (d->has_served && access(d->folder, F_OK) == 0) {
        (void)begin(d, &err);
        end(d);
    }
    if (d->folder)
        (void)remove_tree(AT_FDCWD, d->folder);
    free(d->folder);
    free(d->target);
    *d = (struct private_daemon)PRIVATE_DAEMON_NONE;
}
