#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <signal.h>
#include <spawn.h>
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

/* Numbers above all that the launcher gets, so that none is stepped on. */
#define FD_MIN 100

static int copies(const int fds[LAUNCH_FDS], int ret[LAUNCH_FDS])
{
    for (int i = 0; i < LAUNCH_FDS; i++) {
        ret[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FD_MIN);
        if (ret[i] < 0)
            return -errno;
    }
    return 0;
}

/* Spawned and not forked: the daemon may have threads by now, when it starts another. */
static int spawn(int program, const int fds[LAUNCH_FDS], pid_t *ret)
{
    char name[] = "cay-launch", path[64], *argv[] = {name, NULL};
    const char *fault_name = getenv("CAY_FAULT");
    auto_free char *fault = xasprintf("CAY_FAULT=%s", fault_name ? fault_name : "");
    char *envp[] = {fault, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    int r;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", program);
    (void)sigemptyset(&none);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    (void)posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < LAUNCH_FDS; i++)
        (void)posix_spawn_file_actions_adddup2(&actions, fds[i], LAUNCH_FD_SOCKET + i);
    r = posix_spawn(ret, path, &actions, &attr, argv, envp);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attr);
    return -r;
}

static int start(const struct program *launcher, const int fds[LAUNCH_FDS], pid_t *ret,
                 struct err *err)
{
    auto_close int made = sealed("cay-launch", launcher->data, launcher->len, 0555, err);
    auto_close int program = -1;
    int high[LAUNCH_FDS];
    int r;

    for (int i = 0; i < LAUNCH_FDS; i++)
        high[i] = -1;
    if (made < 0)
        return -1;
    program = fcntl(made, F_DUPFD_CLOEXEC, FD_MIN);
    r = program < 0 ? -errno : copies(fds, high);
    if (r == 0)
        r = spawn(program, high, ret);
    for (int i = 0; i < LAUNCH_FDS; i++)
        close_fd(&high[i]);
    return r < 0 ? err_sys(err, -r, "start the launcher") : 0;
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
