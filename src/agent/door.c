#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/kept.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/plan.h"

#define WAIT_S 2
#define LOOKS  20 /* in that time */

union passed {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
};

static struct sockaddr_un address(const char *id)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s.sock", id);
    return a;
}

/* The logs folder has no path that we could name, so it is the working directory meanwhile. */
static int bind_door(int fd, const char *id)
{
    struct sockaddr_un a = address(id);
    int r;

    if (fchdir(AGENT_FD_LOGS) < 0)
        return -errno;
    (void)unlink(a.sun_path);
    r = bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
    (void)chdir("/");
    return r;
}

static void say(struct running *r, enum door state)
{
    r->door = state;
    (void)syscall(SYS_futex, &r->door, FUTEX_WAKE, 1000, NULL, NULL, 0);
}

int door_open(struct running *r, const char *id)
{
    auto_close int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = fd < 0 ? -errno : bind_door(fd, id);

    say(r, error < 0 ? DOOR_STUCK : DOOR_OPEN);
    return error < 0 ? -1 : steal_fd(fd);
}

void door_shut(struct running *r, const char *id, int door)
{
    struct sockaddr_un a = address(id);

    if (door >= 0)
        (void)unlinkat(AGENT_FD_LOGS, a.sun_path, 0);
    if (r->wanted)
        say(r, DOOR_GONE);
}

int door_take(int door, struct buf *args)
{
    union passed passed;
    struct iovec part = {buf_room(args, 512), 512};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &passed,
                       .msg_controllen = sizeof(passed)};
    ssize_t n = recvmsg(door, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&m);
    int fd;

    if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int)))
        return -1;
    memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    args->len = (size_t)n;
    return fd;
}

static int send_conn(const char *id, int conn, const struct buf *args)
{
    auto_close int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = WAIT_S};
    struct sockaddr_un a = address(id);
    union passed passed = {0};
    struct iovec part = {args->data, args->len};
    struct msghdr m = {.msg_name = &a,
                       .msg_namelen = sizeof(a),
                       .msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &passed,
                       .msg_controllen = sizeof(passed)};

    passed.head = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(&passed.head), &conn, sizeof(conn));
    if (fd < 0 || fchdir(AGENT_FD_LOGS) < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    return sendmsg(fd, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* 0 when it is not shut any more, -EAGAIN when the exec of that seq has ended instead. */
static int wait_for_door(struct running *r, uint32_t seq)
{
    struct timespec part = {.tv_nsec = WAIT_S * (1000000000 / LOOKS)};

    for (int i = 0; i < LOOKS && r->door == DOOR_SHUT; i++) {
        if (!board_lives(r) || r->seq != seq)
            return -EAGAIN;
        (void)syscall(SYS_futex, &r->door, FUTEX_WAIT, DOOR_SHUT, &part, NULL, 0);
    }
    if (r->seq != seq)
        return -EAGAIN;
    return r->door == DOOR_SHUT ? -ETIMEDOUT : 0;
}

/* -EAGAIN when it runs another one already. */
static int look(const struct running *r, const char *id, uint32_t *ret_seq, pid_t *ret_supervisor)
{
    *ret_seq = r->seq;
    *ret_supervisor = r->supervisor;
    return *ret_supervisor == 0 || (*ret_seq & 1) || strcmp(r->state.id, id) != 0 ? -EAGAIN : 0;
}

int door_stop(struct running *r, const char *id)
{
    uint32_t seq;
    pid_t supervisor;

    if (look(r, id, &seq, &supervisor) < 0)
        return -EAGAIN;
    r->stop = seq;
    (void)kill(supervisor, SIGCHLD);
    return 0;
}

int door_pass(struct running *r, const char *id, int conn, const struct buf *args)
{
    uint32_t seq, stuck = DOOR_STUCK;
    pid_t supervisor;
    int sent;

    if (look(r, id, &seq, &supervisor) < 0)
        return -EAGAIN;
    /* There may be room by now. */
    (void)atomic_compare_exchange_strong(&r->door, &stuck, DOOR_SHUT);
    r->wanted = 1;
    (void)kill(supervisor, SIGCHLD);
    sent = wait_for_door(r, seq);
    if (sent < 0)
        return sent;
    if (r->door == DOOR_STUCK)
        return -ENOSPC;
    sent = send_conn(id, conn, args);
    if (sent == -EAGAIN)
        return -ETIMEDOUT; /* others wait at it, and it has not taken them in */
    /* Gone between the look and the knock. */
    return sent == -ENOENT || sent == -ECONNREFUSED ? -EAGAIN : sent;
}
