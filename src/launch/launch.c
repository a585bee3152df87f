#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "launch/launch_internal.h"

static int sealed(const char *name, const void *data, size_t len, mode_t mode, struct err *err)
{
    int fd = fd_sealed(name, data, len, mode);

    return fd < 0 ? err_sys(err, -fd, "make a sealed file of %s", name) : fd;
}

/* In the child: the descriptors in their places, by way of numbers above all of them. */
static void become(int program, const int fds[LAUNCH_FDS]) __attribute__((noreturn));
static void become(int program, const int fds[LAUNCH_FDS])
{
    static char name[] = "cay-launch";
    char *argv[] = {name, NULL};
    const char *fault_name = getenv("CAY_FAULT");
    auto_free char *fault = xasprintf("CAY_FAULT=%s", fault_name ? fault_name : "");
    char *envp[] = {fault, NULL};
    int high[LAUNCH_FDS];
    sigset_t none;

    program = fcntl(program, F_DUPFD_CLOEXEC, 100);
    for (int i = 0; i < LAUNCH_FDS; i++)
        high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 100);
    for (int i = 0; i < LAUNCH_FDS; i++)
        if (dup2(high[i], LAUNCH_FD_SOCKET + i) < 0)
            _exit(1);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)fexecve(program, argv, envp);
    _exit(1);
}

static int start(const struct program *launcher, const int fds[LAUNCH_FDS], pid_t *ret,
                 struct err *err)
{
    auto_close int program = sealed("cay-launch", launcher->data, launcher->len, 0555, err);

    if (program < 0)
        return -1;
    *ret = fork();
    if (*ret == 0)
        become(program, fds);
    return *ret < 0 ? err_sys(err, errno, "fork the launcher") : 0;
}

int launcher_start(const struct program *launcher, const struct program *agent, int *ret_fd,
                   pid_t *ret_pid, struct err *err)
{
    auto_close int ours = -1, theirs = -1, agent_fd = -1, filter_fd = -1;
    struct sock_fprog filter;
    int pair[2];

    if (seccomp_build(&filter, err) < 0)
        return -1;
    filter_fd = sealed("seccomp", filter.filter, filter.len * sizeof(*filter.filter), 0400, err);
    free(filter.filter);
    /* Without read permission: the kernel then keeps the agent non-dumpable from its first
     * instruction, with the host's user namespace as the one that may look into it. */
    agent_fd = filter_fd < 0 ? -1 : sealed("cay-agent", agent->data, agent->len, 0111, err);
    if (agent_fd < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, errno, "make the launcher's socket");
    ours = pair[0];
    theirs = pair[1];
    if (start(launcher, (const int[LAUNCH_FDS]){theirs, agent_fd, filter_fd}, ret_pid, err) < 0)
        return -1;
    *ret_fd = steal_fd(ours);
    return 0;
}
