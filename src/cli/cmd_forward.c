#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/port_args.h"
#include "cli/tunnel.h"
#include "cli/ui.h"

/* Ports of this machine that lead to ports of a sandbox, as long as the command runs. A connection
 * is a thread, which asks the daemon for one of its own; the first thread takes them in. */

#define CONNECTIONS_MAX 512 /* what the daemon gives to a sandbox; others wait to be taken in */
#define STACK_BYTES     (256u << 10)
#define BUSY_NS         (30 * 1000000000ll)
#define BUSY_NEXT_MS    20
#define BACKLOG         128
#define PORTS_MAX       63 /* words of the command but the first */

struct forward {
    struct sockaddr_storage local;
    socklen_t local_len;
    uint16_t port; /* of the sandbox */
    int fd;
    char name[INET6_ADDRSTRLEN + 16]; /* "127.0.0.1:8080" */
};

struct forwards {
    char *target, *id;
    const char *word; /* what the sandbox is called */
    struct forward list[PORTS_MAX];
    size_t n;
    int wake; /* a thread has ended, or nothing will work any more */

    pthread_mutex_t lock; /* of what is below */
    unsigned connections;
    bool is_over;   /* the sandbox is gone */
    char said[256]; /* the last failure; "" = none since a connection was made */
};

/* ---- what is asked for ---- */

static int bad(const char *text, struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "\"%.80s\" is no port: write 8080, 9000:8080, 0:8080 for any free port of this "
                   "machine, or 127.0.0.2:9000:8080",
                   text);
}

static int read_address(const char *text, uint16_t port, struct forward *ret)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&ret->local;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ret->local;

    if (!*text || strcmp(text, "localhost") == 0)
        text = "127.0.0.1";
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        ret->local_len = sizeof(*v4);
        return 0;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    ret->local_len = sizeof(*v6);
    return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1 ? 0 : -EINVAL;
}

/* [ADDRESS:][LOCAL:]PORT; an IPv6 address stands in brackets. */
static int read_forward(const char *text, struct forward *ret, struct err *err)
{
    auto_free char *copy = xstrdup(text);
    char *port = strrchr(copy, ':'), *local = NULL, *address = copy;
    uint16_t number;

    *ret = (struct forward){.fd = -1};
    if (port) {
        *port++ = '\0';
        local = strrchr(copy, ':');
        if (local)
            *local++ = '\0';
    }
    if (!local) { /* there is no address */
        address = copy + strlen(copy);
        local = copy;
    }
    if (*address == '[' && address[strlen(address) - 1] == ']') {
        address[strlen(address) - 1] = '\0';
        address++;
    }
    if (port_number(port ? port : copy, &ret->port) < 0)
        return bad(text, err);
    number = ret->port;
    if (port && (!*local || strcmp(local, "0") == 0))
        number = 0;
    else if (port && port_number(local, &number) < 0)
        return bad(text, err);
    return read_address(address, number, ret) < 0 ? bad(text, err) : 0;
}

/* ---- listening ---- */

static uint16_t local_port(const struct forward *f)
{
    return ntohs(f->local.ss_family == AF_INET
                     ? ((const struct sockaddr_in *)&f->local)->sin_port
                     : ((const struct sockaddr_in6 *)&f->local)->sin6_port);
}

static void local_address(const struct forward *f, char ret[INET6_ADDRSTRLEN])
{
    const void *a = f->local.ss_family == AF_INET
                        ? (const void *)&((const struct sockaddr_in *)&f->local)->sin_addr
                        : (const void *)&((const struct sockaddr_in6 *)&f->local)->sin6_addr;

    (void)inet_ntop(f->local.ss_family, a, ret, INET6_ADDRSTRLEN);
}

static void set_name(struct forward *f)
{
    bool v6 = f->local.ss_family == AF_INET6;
    char address[INET6_ADDRSTRLEN];

    local_address(f, address);
    (void)snprintf(f->name, sizeof(f->name), "%s%s%s:%u", v6 ? "[" : "", address, v6 ? "]" : "",
                   local_port(f));
}

static int listen_at(struct forward *f, struct err *err)
{
    int on = 1;

    set_name(f);
    f->fd = socket(f->local.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (f->fd < 0)
        return err_sys(err, errno, "listen at %s", f->name);
    (void)setsockopt(f->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(f->fd, (struct sockaddr *)&f->local, f->local_len) < 0 || listen(f->fd, BACKLOG) < 0) {
        int e = errno;

        (void)err_sys(err, e, "listen at %s", f->name);
        if (e == EADDRINUSE)
            (void)err_set(err, ERR_CONFLICT,
                          "%s is taken by another program; 0:%u takes any free port, 9000:%u that "
                          "one",
                          f->name, f->port, f->port);
        else if (e == EACCES)
            (void)err_set(err, ERR_FORBIDDEN,
                          "%s may only be taken by root; 8%03u:%u takes another port", f->name,
                          f->port % 1000u, f->port);
        return -1;
    }
    (void)getsockname(f->fd, (struct sockaddr *)&f->local, &f->local_len);
    set_name(f);
    return 0;
}

/* All of them, or none. */
static int listen_all(struct forwards *all, struct err *err)
{
    for (size_t i = 0; i < all->n; i++)
        if (listen_at(&all->list[i], err) < 0)
            return -1;
    return 0;
}

static void tell(const struct forwards *all, const struct args *args)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct forward *f = &all->list[i];
        char address[INET6_ADDRSTRLEN];
        json_t *line;

        if (!args_has(args, "json")) {
            printf("%s -> %s:%u\n", f->name, all->word, f->port);
            continue;
        }
        local_address(f, address);
        line = json_pack("{s:s, s:i, s:s, s:i}", "localAddress", address, "localPort",
                         (int)local_port(f), "sandboxId", all->id, "port", (int)f->port);
        ui_json_line(line);
        json_decref(line);
    }
    (void)fflush(stdout);
}

/* ---- connections ---- */

struct connection {
    struct forwards *all;
    const struct forward *forward;
    int fd;
};

/* A browser that tries again and again is told of once. */
static void say(struct forwards *all, const struct forward *f, const char *code,
                const struct err *err)
{
    bool over = strcmp(code, "sandbox_not_found") == 0 || strcmp(code, "sandbox_removed") == 0 ||
                strcmp(code, "sandbox_expired") == 0;

    (void)pthread_mutex_lock(&all->lock);
    if (strncmp(all->said, err->text, sizeof(all->said) - 1) != 0)
        ui_warn("%s: %s", f->name, err->text);
    (void)snprintf(all->said, sizeof(all->said), "%s", err->text);
    all->is_over |= over;
    (void)pthread_mutex_unlock(&all->lock);
}

/* Many that connect at the same moment wait for each other. */
static int connect_box(const struct forwards *all, const struct forward *f, int *ret, char *code,
                       struct err *err)
{
    int64_t until = mono_ns() + BUSY_NS;
    int r;

    while ((r = tunnel_dial(all->target, all->id, f->port, ret, code, err)) < 0 &&
           strcmp(code, "sandbox_busy") == 0 && mono_ns() < until)
        (void)poll(NULL, 0, BUSY_NEXT_MS);
    return r;
}

static void *run(void *arg)
{
    struct connection *c = arg;
    struct forwards *all = c->all;
    char code[TUNNEL_CODE_SIZE];
    struct err err = {0};
    int stream;

    if (connect_box(all, c->forward, &stream, code, &err) < 0) {
        say(all, c->forward, code, &err);
        tunnel_refuse(c->fd);
    } else {
        (void)pthread_mutex_lock(&all->lock);
        all->said[0] = '\0';
        (void)pthread_mutex_unlock(&all->lock);
        tunnel_carry(c->fd, stream);
    }
    free(c);
    (void)pthread_mutex_lock(&all->lock);
    all->connections--;
    (void)pthread_mutex_unlock(&all->lock);
    (void)!write(all->wake, "", 1);
    return NULL;
}

static void begin(struct forwards *all, const struct forward *f, int fd)
{
    struct connection *c = xmalloc(sizeof(*c));
    pthread_attr_t how;
    pthread_t thread;
    int r;

    *c = (struct connection){all, f, fd};
    (void)pthread_attr_init(&how);
    (void)pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&how, STACK_BYTES);
    (void)pthread_mutex_lock(&all->lock);
    all->connections++;
    (void)pthread_mutex_unlock(&all->lock);
    r = pthread_create(&thread, &how, run, c);
    (void)pthread_attr_destroy(&how);
    if (r == 0)
        return;
    ui_warn("%s: a connection cannot be carried: %s", f->name, strerror(r));
    tunnel_refuse(fd);
    free(c);
    (void)pthread_mutex_lock(&all->lock);
    all->connections--;
    (void)pthread_mutex_unlock(&all->lock);
}

static bool look(struct forwards *all, bool *ret_full)
{
    bool over;

    (void)pthread_mutex_lock(&all->lock);
    over = all->is_over;
    *ret_full = all->connections >= CONNECTIONS_MAX;
    (void)pthread_mutex_unlock(&all->lock);
    return over;
}

/* Until a signal comes or the sandbox is gone. */
static int take_in(struct forwards *all, int signals, int woken)
{
    struct pollfd p[PORTS_MAX + 2];
    bool full;

    p[0] = (struct pollfd){.fd = signals, .events = POLLIN};
    p[1] = (struct pollfd){.fd = woken, .events = POLLIN};
    while (!look(all, &full)) {
        char bytes[256];

        for (size_t i = 0; i < all->n; i++)
            p[i + 2] = (struct pollfd){.fd = full ? -1 : all->list[i].fd, .events = POLLIN};
        if (poll(p, all->n + 2, -1) < 0)
            continue;
        if (p[0].revents)
            return STATUS_OK;
        if (p[1].revents)
            (void)!read(woken, bytes, sizeof(bytes));
        for (size_t i = 0; i < all->n; i++) {
            int fd = p[i + 2].revents ? accept4(all->list[i].fd, NULL, NULL, SOCK_CLOEXEC) : -1;

            if (fd >= 0)
                begin(all, &all->list[i], fd);
            else if (p[i + 2].revents && (errno == EMFILE || errno == ENFILE))
                (void)poll(p, 2, 100); /* some will end */
        }
    }
    return STATUS_FAILED;
}

/* ---- the command ---- */

static int open_all(struct forwards *all, const struct args *args, struct err *err)
{
    auto_api struct api api = {0};

    if (api_open(&api, args, err) < 0 || api_sandbox_id(&api, all->word, &all->id, err) < 0 ||
        api_call(&api, "GET", NULL, NULL, err, "/sandboxes/%s", all->id) < 0)
        return -1;
    all->target = xstrdup(api.target);
    return listen_all(all, err);
}

static int block_signals(int *ret, struct err *err)
{
    sigset_t mask;

    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGINT);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &mask, NULL);
    *ret = signalfd(-1, &mask, SFD_CLOEXEC);
    return *ret < 0 ? err_sys(err, errno, "wait for signals") : 0;
}

/* Threads that carry end with the process: what they have is lost with it anyway, so what they use
 * is not freed. */
int cmd_forward(struct args *args)
{
    struct forwards *all = xcalloc(1, sizeof(*all));
    int signals, wake[2];
    struct err err = {0};

    all->word = args->words[0];
    (void)pthread_mutex_init(&all->lock, NULL);
    for (size_t i = 1; i < args->n_words; i++)
        if (read_forward(args->words[i], &all->list[all->n++], &err) < 0)
            return ui_usage(args, "%s", err.text);
    if (open_all(all, args, &err) < 0 || block_signals(&signals, &err) < 0)
        return ui_fail(&err);
    if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) < 0) {
        (void)err_sys(&err, errno, "make a pipe");
        return ui_fail(&err);
    }
    all->wake = wake[1];
    tell(all, args);
    return take_in(all, signals, wake[0]);
}
