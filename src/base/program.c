#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/mem.h"

#define FD_MIN 10 /* what the child opens and copies must not step on these */

static int spawn(const char *path, int fd, char *const *argv, char *const *env, pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int r;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setsigdefault(&attr, &all);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETSID);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addchdir_np(&actions, "/");
    for (int i = 0; i < PROGRAM_FD; i++)
        (void)posix_spawn_file_actions_addopen(&actions, i, "/dev/null", O_RDWR, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, fd, PROGRAM_FD);
    r = posix_spawn(ret, path, &actions, &attr, argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attr);
    return -r;
}

int program_spawn(int program, int fd, char *const *argv, char *const *env, pid_t *ret)
{
    auto_close int high_program = fcntl(program, F_DUPFD_CLOEXEC, FD_MIN);
    auto_close int high = fcntl(fd, F_DUPFD_CLOEXEC, FD_MIN);
    auto_free char *path = NULL;

    if (high_program < 0 || high < 0)
        return -errno;
    path = xasprintf("/proc/self/fd/%d", high_program);
    return spawn(path, high, argv, env, ret);
}

void program_ended_words(int status, char ret[PROGRAM_ENDED_MAX])
{
    (void)snprintf(ret, PROGRAM_ENDED_MAX, "%s %d", WIFSIGNALED(status) ? "signal" : "status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}
