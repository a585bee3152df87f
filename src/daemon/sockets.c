#include "daemon/sockets.h"

#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"

#define BACKLOG 1024

static bool is_loopback(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)sa;

        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    if (sa->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)sa;

        return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr) && in6->sin6_addr.s6_addr[12] == 127);
    }
    return false;
}

static uint32_t bound_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } sa = {.in6 = {0}};
    socklen_t len = sizeof(sa);

    if (getsockname(fd, &sa.any, &len) < 0)
        return 0;
    return ntohs(sa.any.sa_family == AF_INET6 ? sa.in6.sin6_port : sa.in.sin_port);
}

static int bind_tcp(const struct addrinfo *ai, const char *host, uint32_t port, struct err *err)
{
    auto_close int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd < 0)
        return err_sys(err, errno, "socket for %s", host);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        (void)err_sys(err, errno, "listen on %s port %u", host, port);
        if (errno == EADDRINUSE)
            (void)err_code(err, ERR_CONFLICT, "address_in_use",
                           "port %u of %s is taken by another program: stop it, or choose a port "
                           "with --listen or CAY_REST_PORT",
                           port, host);
        return -1;
    }
    return steal_fd(fd);
}

int listen_tcp(const char *host, uint32_t port, bool beyond, uint32_t *ret_port, bool *ret_loopback,
               struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *ai;
    char service[16];
    int r, fd;

    (void)snprintf(service, sizeof(service), "%u", port);
    r = getaddrinfo(host, service, &hints, &ai);
    if (r != 0)
        return err_set(err, ERR_INVALID, "cannot listen on \"%s\": %s", host, gai_strerror(r));
    *ret_loopback = is_loopback(ai->ai_addr);
    if (!*ret_loopback && !beyond) {
        freeaddrinfo(ai);
        return err_set(
            err, ERR_INVALID,
            "%s can be reached from other machines: set CAY_AUTH_TOKEN (or --token-file), "
            "listen on 127.0.0.1, or pass --insecure to let everyone in",
            host);
    }
    fd = bind_tcp(ai, host, port, err);
    freeaddrinfo(ai);
    if (fd >= 0)
        *ret_port = bound_port(fd);
    return fd;
}

static int check_place(const char *path, struct err *err)
{
    struct stat st;
    int fd;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "look at %s", path);
    if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
        return err_set(err, ERR_CONFLICT,
                       "%s is there and is not a socket of this user: remove it, or choose another "
                       "folder with CAY_RUN",
                       path);
    fd = unix_connect(path);
    if (fd < 0)
        return 0;
    (void)close(fd);
    return err_set(err, ERR_CONFLICT,
                   "another daemon answers at %s: stop it, or choose another folder with CAY_RUN",
                   path);
}

int listen_unix(const char *run_dir, char **ret_path, struct err *err)
{
    auto_free char *path = xasprintf("%s/cay.sock", run_dir);
    const struct group *group = getgrnam("cay");
    auto_close int fd = -1;

    if (check_place(path, err) < 0)
        return -1;
    fd = unix_listen(path, BACKLOG);
    if (fd < 0)
        return err_sys(err, -fd, "listen on %s", path);
    /* The umask made it 0700: nobody else could connect so far. */
    if ((group && lchown(path, (uid_t)-1, group->gr_gid) < 0) || chmod(path, 0660) < 0)
        return err_sys(err, errno, "set the owner and mode of %s", path);
    *ret_path = steal_ptr(path);
    return steal_fd(fd);
}
