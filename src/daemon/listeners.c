#include "daemon/listeners.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/config.h"
#include "daemon/sockets.h"
#include "http/server.h"

#define SHOWN_MAX 1024 /* bytes of addresses in the log */

/* May the daemon listen beyond loopback? */
static bool may_be_beyond(const struct daemon_config *c)
{
    return c->token || c->require_token || c->insecure;
}

int listeners_open_tcp(struct listeners *at, const struct daemon_config *c, uint32_t *ret_port,
                       struct err *err)
{
    bool loopback, beyond = may_be_beyond(c);
    int same = 0;

    if (at->tcp_fd >= 0 && !c->no_tcp)
        same = listen_tcp_as(at->tcp_fd, c->host, c->port, beyond, ret_port, &loopback, err);
    if (same < 0)
        return -1;
    if (same == 0)
        close_fd(&at->tcp_fd);
    if (c->no_tcp)
        return 0;
    if (same == 0)
        at->tcp_fd = listen_tcp(c->host, c->port, beyond, ret_port, &loopback, err);
    if (at->tcp_fd < 0)
        return -1;
    if (!loopback && !c->token && !c->require_token)
        log_warn("LISTENING BEYOND THIS MACHINE WITHOUT A TOKEN: everyone who can reach the port "
                 "can run code here",
                 "host", c->host);
    return 0;
}

/* ---- iii's protocol ---- */

/* Of those that are open the one that is where this one should be, which is the caller's then: -1
 * when there is none, -2 when it may not be there. */
static int take_open(struct listeners *at, const char *host, uint32_t port, bool beyond,
                     struct err *err)
{
    bool loopback;
    uint32_t got;

    for (int i = -1; i < LISTENERS_MAX; i++) {
        int *fd = i < 0 ? &at->ws_fd : &at->more[i], same = 0;

        if (*fd >= 0)
            same = listen_tcp_as(*fd, host, port, beyond, &got, &loopback, err);
        if (same != 0)
            return same < 0 ? -2 : steal_fd(*fd);
    }
    return -1;
}

/* One that is open already, or a new one. */
static int open_at(struct listeners *at, const char *host, uint32_t port, bool beyond,
                   struct err *err)
{
    int fd = take_open(at, host, port, beyond, err);
    bool loopback;
    uint32_t got;

    return fd == -1 ? listen_tcp(host, port, beyond, &got, &loopback, err) : fd;
}

static bool is_taken(const struct err *err)
{
    return err->code && strcmp(err->code, "address_in_use") == 0;
}

/* That its usual port is taken, by an engine or another daemon, is no reason not to start: unless
 * somebody has named it. */
static int open_first(struct listeners *at, const struct daemon_config *c, int *ret_fd,
                      struct err *err)
{
    bool wanted = c->ws_port && (!c->no_tcp || c->ws_port_given);

    if (!wanted)
        return 0;
    *ret_fd = open_at(at, c->ws_host, c->ws_port, may_be_beyond(c), err);
    if (*ret_fd >= 0)
        return 0;
    *ret_fd = -1;
    if (!is_taken(err))
        return -1;
    (void)err_code(err, ERR_CONFLICT, "address_in_use",
                   "port %u of %s is taken by another program: stop it, or choose a port with "
                   "--ws-port or CAY_WS_PORT, 0 for none",
                   c->ws_port, c->ws_host);
    if (c->ws_port_given)
        return -1;
    log_warn("there is no port for iii's protocol; going on without", "error", err->text);
    *err = (struct err){0};
    return 0;
}

static int open_more(struct listeners *at, const struct daemon_config *c,
                     const struct listener_config *l, int *ret_fd, struct err *err)
{
    int fd = open_at(at, l->host, l->port, may_be_beyond(c), err);

    if (fd < 0 && is_taken(err))
        return err_code(err, ERR_CONFLICT, "address_in_use",
                        "%s: port %u of %s is taken by another program, or stands there twice",
                        l->place, l->port, l->host);
    if (fd < 0)
        return err_wrap(err, "%s", l->place);
    *ret_fd = fd;
    return 0;
}

int listeners_open_iii(struct listeners *at, const struct daemon_config *c, struct err *err)
{
    struct listeners now = NO_LISTENERS;
    int r = open_first(at, c, &now.ws_fd, err);

    for (unsigned i = 0; i < c->n_listeners && r == 0; i++)
        r = open_more(at, c, &c->listeners[i], &now.more[i], err);
    now.unix_fd = steal_fd(at->unix_fd);
    now.tcp_fd = steal_fd(at->tcp_fd);
    listeners_close(at);
    *at = now;
    return r;
}

char *listeners_iii(const struct listeners *at, const struct daemon_config *c)
{
    auto_buf struct buf text = {0};

    buf_init(&text, SHOWN_MAX);
    if (at->ws_fd >= 0)
        (void)buf_addf(&text, "ws://%s:%u", c->ws_host, c->ws_port);
    for (unsigned i = 0; i < c->n_listeners; i++)
        (void)buf_addf(&text, "%sws://%s:%u", text.len ? " " : "", c->listeners[i].host,
                       c->listeners[i].port);
    return text.len ? buf_steal(&text) : NULL;
}

/* ---- the rest ---- */

int listeners_open_unix(struct listeners *at, const char *run, gid_t group, char **ret_path,
                        struct err *err)
{
    if (at->unix_fd >= 0) {
        free(*ret_path);
        *ret_path = listen_unix_path(run);
        return listen_unix_group(*ret_path, group, err);
    }
    at->unix_fd = listen_unix(run, group, ret_path, err);
    return at->unix_fd < 0 ? -1 : 0;
}

/* The server gets a copy; of -1 nothing. */
static int serve_at(struct http_server *http, int fd, bool is_tcp, struct err *err)
{
    return fd < 0 ? 0 : http_server_listen(http, fcntl(fd, F_DUPFD_CLOEXEC, 0), is_tcp, err);
}

int listeners_serve(const struct listeners *at, const struct daemon_config *c,
                    struct http_server *http, struct err *err)
{
    for (unsigned i = 0; i < c->n_listeners; i++)
        if (serve_at(http, at->more[i], true, err) < 0)
            return -1;
    if (serve_at(http, at->tcp_fd, true, err) < 0 || serve_at(http, at->ws_fd, true, err) < 0)
        return -1;
    return serve_at(http, at->unix_fd, false, err);
}

bool listeners_have(const struct listeners *at, int fd)
{
    for (unsigned i = 0; i < LISTENERS_MAX; i++)
        if (at->more[i] >= 0 && fd_came_to(fd, at->more[i]))
            return true;
    return (at->tcp_fd >= 0 && fd_came_to(fd, at->tcp_fd)) ||
           (at->ws_fd >= 0 && fd_came_to(fd, at->ws_fd));
}

static char **add_host(char **hosts, const char *host)
{
    auto_free char *name = strchr(host, ':') ? xasprintf("[%s]", host) : xstrdup(host);

    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
        return hosts;
    return strv_add(hosts, name);
}

/* The addresses it was told to listen on are good names for it too. */
char **listeners_hosts(const struct daemon_config *c)
{
    char **hosts = add_host(c->hosts ? strv_copy(c->hosts) : NULL, c->host);

    for (unsigned i = 0; i < c->n_listeners; i++)
        hosts = add_host(hosts, c->listeners[i].host);
    return hosts;
}
