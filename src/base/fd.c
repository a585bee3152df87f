#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"

#define FDS_MAX 32

int write_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

ssize_t read_some(int fd, void *data, size_t len)
{
    ssize_t n;

    do
        n = read(fd, data, len);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

int read_exact(int fd, void *data, size_t len)
{
    char *p = data;

    while (len > 0) {
        ssize_t n = read_some(fd, p, len);

        if (n < 0)
            return (int)n;
        if (n == 0)
            return -EPIPE;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int fd_set_cloexec(int fd, bool on)
{
    return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) < 0 ? -errno : 0;
}

int fd_set_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -errno;
    flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int send_fds(int sock, const void *data, size_t len, const int *fds, size_t nfds)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (nfds > FDS_MAX)
        return -EMSGSIZE;
    if (nfds > 0) {
        struct cmsghdr *c;

        msg.msg_control = control.room;
        msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
    }
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EMSGSIZE;
}

static ssize_t receive_fds(int sock, void *data, size_t len, int *fds, size_t *nfds, int flags)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = sizeof(control.room)};
    size_t room = *nfds, got = 0;
    bool over = false;
    ssize_t n;

    *nfds = 0;
    do
        n = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        size_t count;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (got < room) {
                fds[got++] = fd;
            } else {
                (void)close(fd);
                over = true;
            }
        }
    }
    if (over || (msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) {
        while (got > 0)
            (void)close(fds[--got]);
        return -EMSGSIZE;
    }
    *nfds = got;
    return n;
}

ssize_t recv_fds(int sock, void *data, size_t len, int *fds, size_t *nfds)
{
    return receive_fds(sock, data, len, fds, nfds, 0);
}

ssize_t recv_fds_now(int sock, void *data, size_t len, int *fds, size_t *nfds)
{
    return receive_fds(sock, data, len, fds, nfds, MSG_DONTWAIT);
}

ssize_t peek_fds(int sock, void *data, size_t len, int *fds, size_t *nfds)
{
    return receive_fds(sock, data, len, fds, nfds, MSG_PEEK | MSG_DONTWAIT);
}

/* sun_path holds 107 bytes; a longer path goes through a descriptor of its folder. */
static int unix_address(const char *path, struct sockaddr_un *sa, int *ret_dir)
{
    const char *slash = strrchr(path, '/');
    auto_free char *dir = NULL;

    *sa = (struct sockaddr_un){.sun_family = AF_UNIX};
    *ret_dir = -1;
    if (strlen(path) < sizeof(sa->sun_path)) {
        memcpy(sa->sun_path, path, strlen(path) + 1);
        return 0;
    }
    if (!slash || strlen(slash) > 60)
        return -ENAMETOOLONG;
    dir = xstrndup(path, (size_t)(slash - path));
    *ret_dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*ret_dir < 0)
        return -errno;
    (void)snprintf(sa->sun_path, sizeof(sa->sun_path), "/proc/self/fd/%d%s", *ret_dir, slash);
    return 0;
}

static int listen_at(const char *path, int type, int backlog)
{
    struct sockaddr_un sa;
    auto_close int dir = -1;
    auto_close int fd = -1;
    int r = unix_address(path, &sa, &dir);

    if (r < 0)
        return r;
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (unlink(path) < 0 && errno != ENOENT)
        return -errno;
    if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, backlog) < 0)
        return -errno;
    return steal_fd(fd);
}

int unix_listen(const char *path, int backlog)
{
    return listen_at(path, SOCK_STREAM, backlog);
}

int unix_listen_packets(const char *path, int backlog)
{
    return listen_at(path, SOCK_SEQPACKET, backlog);
}

static int connect_to(const char *path, int type)
{
    struct sockaddr_un sa;
    auto_close int dir = -1;
    auto_close int fd = -1;
    int r = unix_address(path, &sa, &dir);

    if (r < 0)
        return r;
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        return -errno;
    return steal_fd(fd);
}

int unix_connect(const char *path)
{
    return connect_to(path, SOCK_STREAM);
}

int unix_connect_packets(const char *path)
{
    return connect_to(path, SOCK_SEQPACKET);
}

int unix_connect_now(const char *path)
{
    auto_close int fd = connect_to(path, SOCK_STREAM | SOCK_NONBLOCK);
    int r = fd < 0 ? fd : fd_set_nonblock(fd, false);

    return r < 0 ? r : steal_fd(fd);
}

int write_file_at(int dirfd, const char *path, const char *text)
{
    auto_close int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return -errno;
    /* One write: kernel files take a value whole or refuse it. */
    do
        n = write(fd, text, strlen(text));
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

ssize_t read_file_at(int dirfd, const char *path, char *text, size_t size)
{
    auto_close int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;

    if (fd < 0)
        return -errno;
    while (len + 1 < size) {
        ssize_t n = read_some(fd, text + len, size - 1 - len);

        if (n < 0)
            return n;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    text[len] = '\0';
    return (ssize_t)len;
}

int fd_sealed(const char *name, const void *data, size_t len, mode_t mode)
{
    auto_close int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = fd < 0 ? -errno : write_all(fd, data, len);

    if (r == 0 &&
        (fchmod(fd, mode) < 0 ||
         fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0))
        r = -errno;
    return r < 0 ? r : steal_fd(fd);
}

/* ---- addresses ---- */

union local {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

static union local local_of(int fd)
{
    union local a = {.in6 = {0}};
    socklen_t len = sizeof(a);

    if (getsockname(fd, &a.any, &len) < 0)
        a.any.sa_family = AF_UNSPEC;
    return a;
}

bool fd_came_to(int fd, int listening)
{
    union local at = local_of(listening), here = local_of(fd);

    if (at.any.sa_family != here.any.sa_family)
        return false;
    if (at.any.sa_family == AF_INET)
        return at.in.sin_port == here.in.sin_port &&
               (at.in.sin_addr.s_addr == htonl(INADDR_ANY) ||
                at.in.sin_addr.s_addr == here.in.sin_addr.s_addr);
    return at.any.sa_family == AF_INET6 && at.in6.sin6_port == here.in6.sin6_port &&
           (IN6_IS_ADDR_UNSPECIFIED(&at.in6.sin6_addr) ||
            IN6_ARE_ADDR_EQUAL(&at.in6.sin6_addr, &here.in6.sin6_addr));
}
