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
#include "base/setting.h"

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

union address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

static uint32_t port_of(const union address *a)
{
    return ntohs(a->any.sa_family == AF_INET6 ? a->in6.sin6_port : a->in.sin_port);
}

static union address bound_address(int fd)
{
    union address a = {.in6 = {0}};
    socklen_t len = sizeof(a);

    (void)getsockname(fd, &a.any, &len);
    return a;
}

static bool same_host(const union address *a, const struct sockaddr *b)
{
    if (a->any.sa_family != b->sa_family)
        return false;
    if (b->sa_family == AF_INET6)
        return memcmp(&a->in6.sin6_addr, &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr,
                      sizeof(a->in6.sin6_addr)) == 0;
    return a->in.sin_addr.s_addr == ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
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
                           "with --listen or %s",
                           port, host, setting_name("CAY_REST_PORT", "III_REST_PORT"));
        return -1;
    }
    return steal_fd(fd);
}

/* Free it with freeaddrinfo(). NULL also for one that may not be listened on. */
static struct addrinfo *find_host(const char *host, uint32_t port, bool beyond, bool *ret_loopback,
                                  struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *ai;
    char service[16];
    int r;

    (void)snprintf(service, sizeof(service), "%u", port);
    r = getaddrinfo(host, service, &hints, &ai);
    if (r != 0) {
        (void)err_set(err, ERR_INVALID, "cannot listen on \"%s\": %s", host, gai_strerror(r));
        return NULL;
    }
    *ret_loopback = is_loopback(ai->ai_addr);
    if (*ret_loopback || beyond)
        return ai;
    freeaddrinfo(ai);
    (void)err_set(err, ERR_INVALID,
                  "%s can be reached from other machines: set CAY_AUTH_TOKEN (or --token-file), "
                  "listen on 127.0.0.1, or pass --insecure to let everyone in",
                  host);
    return NULL;
}

int listen_tcp(const char *host, uint32_t port, bool beyond, uint32_t *ret_port, bool *ret_loopback,
               struct err *err)
{
    struct addrinfo *ai = find_host(host, port, beyond, ret_loopback, err);
    union address bound;
    int fd;

    if (!ai)
        return -1;
    fd = bind_tcp(ai, host, port, err);
    freeaddrinfo(ai);
    if (fd < 0)
        return -1;
    bound = bound_address(fd);
    *ret_port = port_of(&bound);
    return fd;
}

int listen_tcp_as(int fd, const char *host, uint32_t port, bool beyond, uint32_t *ret_port,
                  bool *ret_loopback, struct err *err)
{
    struct addrinfo *ai = find_host(host, port, beyond, ret_loopback, err);
    union address bound = bound_address(fd);
    bool same;

    if (!ai)
        return -1;
    same = same_host(&bound, ai->ai_addr) && (port == 0 || port == port_of(&bound));
    freeaddrinfo(ai);
    *ret_port = port_of(&bound);
    return same;
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

char *listen_unix_path(const char *run_dir)
{
    return xasprintf("%s/cay.sock", run_dir);
}

int socket_group(const char *name, gid_t *ret, struct err *err)
{
    const struct group *group;

    errno = 0;
    group = getgrnam(name ? name : "cay");
    if (!group && name)
        return err_set(err, ERR_INVALID,
                       "CAY_SOCKET_GROUP: there is no group \"%.80s\" (%s): make it with groupadd "
                       "--system, or leave the variable out",
                       name, errno ? strerror(errno) : "not in the group database");
    *ret = group ? group->gr_gid : SOCKET_NO_GROUP;
    return 0;
}

int listen_unix_group(const char *path, gid_t group, struct err *err)
{
    if (lchown(path, (uid_t)-1, group == SOCKET_NO_GROUP ? getegid() : group) < 0 ||
        chmod(path, 0660) < 0)
        return err_sys(err, errno, "set the owner and mode of %s", path);
    return 0;
}

int listen_unix(const char *run_dir, gid_t group, char **ret_path, struct err *err)
{
    auto_free char *path = listen_unix_path(run_dir);
    auto_close int fd = -1;

    if (check_place(path, err) < 0)
        return -1;
    fd = unix_listen(path, BACKLOG);
    if (fd < 0)
        return err_sys(err, -fd, "listen on %s", path);
    /* The umask made it 0700: nobody else could connect so far. */
    if (listen_unix_group(path, group, err) < 0)
        return -1;
    *ret_path = steal_ptr(path);
    return steal_fd(fd);
}
