#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/plan.h"

/* A handler serves calls that name paths and calls that need the logs folder, and does not know
 * which comes next. While it looks at a path it must not have that folder, which is outside of the
 * box's root (rule 2 of agent.h). So the folder lies in a socket, as a message that nobody takes
 * off: what is in a message is in no table of descriptors, and no path leads to it. Who looks at
 * the message gets a descriptor of his own. */

static int shelf = -1;

int shelf_make(void)
{
    static const int logs = AGENT_FD_LOGS;
    auto_close int end = -1;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    end = pair[0];
    shelf = pair[1];
    return send_fds(end, "l", 1, &logs, 1);
}

int shelf_fd(void)
{
    return shelf;
}

/* Into the place that a handler keeps for it. */
int shelf_take(void)
{
    size_t n = 1;
    char word;
    int fd;
    ssize_t r = peek_fds(shelf, &word, 1, &fd, &n);

    if (r < 0)
        return (int)r;
    if (n != 1)
        return -EBADF;
    r = dup3(fd, AGENT_FD_LOGS, O_CLOEXEC) < 0 ? -errno : 0;
    (void)close(fd);
    return (int)r;
}
