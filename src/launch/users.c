#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "launch/box_internal.h"

/* A box has two user namespaces, one in the other: the box's own, which owns all its other
 * namespaces and has the agent in it, and in that one the commands'. The commands' has all ids but
 * AGENT_UID and no power over anything outside of it: root in there cannot signal, stop, trace or
 * limit a process of the agent, so a command that was given a time ends with it. */

static int idle(void *unused)
{
    (void)unused;
    while (pause() < 0)
        ;
    return 0;
}

/* By the box's own /proc, which has pids as we know them. */
static int map_all(int proc, pid_t pid)
{
    static const char *const files[] = {"uid_map", "gid_map"};
    char path[32], map[32];
    int r = 0;

    (void)snprintf(map, sizeof(map), "0 0 %u", BOX_IDS);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(files); i++) {
        (void)snprintf(path, sizeof(path), "%d/%s", pid, files[i]);
        r = write_file_at(proc, path, map);
    }
    return r;
}

/* A namespace is made by a process that is born in it. Ours shares our memory, so that it costs
 * little, and nobody waits for its end: what the launcher ignores, SIGCHLD too, we ignore until the
 * agent sets its own signals. */
int make_users(struct child *child)
{
    static char stack[4096] __attribute__((aligned(16)));
    char path[32];
    pid_t pid;
    int r;

    /* The box's groups first: a namespace cannot be made by somebody whom its parent does not know.
     * Changing ids made us non-dumpable, which would hide /proc files of our own from us. */
    if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
        return -errno;
    pid = clone(idle, stack + sizeof(stack), CLONE_VM | CLONE_NEWUSER | SIGCHLD, NULL);
    if (pid < 0)
        return -errno;
    r = map_all(child->proc, pid);
    (void)snprintf(path, sizeof(path), "%d/ns/user", pid);
    child->users = r < 0 ? r : openat(child->proc, path, O_RDONLY | O_CLOEXEC);
    if (r == 0 && child->users < 0)
        r = -errno;
    (void)kill(pid, SIGKILL);
    return r;
}
