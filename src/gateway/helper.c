/* The worker, as the warden sees it: started behind its walls, told what it must know, answered
 * what it asks for, and started again when it ends. Whatever it asks is judged once more: it reads
 * what strangers wrote, and may be somebody else's by now. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/program.h"
#include "gateway/warden.h"
#include "gateway/worker.h"
#include "gateway/worker_wire.h"

#define NAMESPACES                                                                                 \
    (CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP)
#define STEADY_NS      (10 * 1000000000ll)
#define DELAY_S_MAX    10
#define QUEUE_BYTES    (8 << 20)
#define DATAGRAM_BYTES (4 << 20) /* questions of all boxes that wait for the worker */
#define ASKS_MAX       64        /* of one turn of the loop */
#define NEW_NS         (8 * 1000000000ll)
#define NEW_POLL_MS    100
#define RESOLV         "/etc/resolv.conf"

enum { UDP4, UDP6, TCP4, TCP6, LOOK4, LOOK6 };

/* ---- listeners, in G ---- */

static int listen_one(const struct net_address *a, int type, uint16_t port)
{
    struct sockaddr_storage sa;
    socklen_t len = socket_address(a, port, &sa);
    auto_close int fd = socket(a->family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1, queue = DATAGRAM_BYTES;

    if (fd < 0)
        return -errno;
    if (type == SOCK_DGRAM)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &queue, sizeof(queue));
    /* The listeners of a worker that is about to end do no harm. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&sa, len) < 0 ||
        (type == SOCK_STREAM && listen(fd, SOMAXCONN) < 0))
        return -errno;
    return steal_fd(fd);
}

int helper_listen(struct warden *w, struct err *err)
{
    static const struct {
        int type;
        uint16_t port;
    } kinds[] = {{SOCK_DGRAM, DNS_PORT}, {SOCK_STREAM, DNS_PORT}, {SOCK_STREAM, LOOK_PORT}};

    for (int i = 0; i < 6; i++) {
        bool v6 = i % 2;

        w->listeners[i] = -1;
        if (v6 && !w->ipv6)
            continue;
        w->listeners[i] =
            listen_one(v6 ? &w->gateway6 : &w->gateway, kinds[i / 2].type, kinds[i / 2].port);
        if (w->listeners[i] < 0)
            return err_sys(err, -w->listeners[i], "listen at the crossroads");
    }
    return 0;
}

socklen_t socket_address(const struct net_address *a, uint16_t port, struct sockaddr_storage *ret)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

    memset(ret, 0, sizeof(*ret));
    ret->ss_family = (sa_family_t)a->family;
    if (a->family == AF_INET) {
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, a->bytes, 4);
        return sizeof(*v4);
    }
    v6->sin6_port = htons(port);
    memcpy(&v6->sin6_addr, a->bytes, 16);
    return sizeof(*v6);
}

/* ---- telling ---- */

/* One that does not read is of no use; the next is told everything. Nothing is said to it any more,
 * so that it is waited for once. */
static void give_up(struct warden *w)
{
    if (w->worker_pid > 0)
        (void)kill(w->worker_pid, SIGKILL);
    source_drop(w, &w->worker);
}

/* One that has just been started has all boxes and pins to read, and is waited for. */
static int send_to_new(struct warden *w, json_t *message)
{
    struct pollfd room = {.fd = w->worker.fd, .events = POLLOUT};
    int r;

    do
        r = wire_send(w->worker.fd, json_incref(message), -1);
    while (r == -EAGAIN && mono_ns() - w->worker_since < NEW_NS &&
           poll(&room, 1, NEW_POLL_MS) >= 0);
    json_decref(message);
    return r;
}

/* -EMSGSIZE: it was not told. */
static int tell(struct warden *w, json_t *message)
{
    int r = 0;

    if (w->worker.fd < 0)
        json_decref(message);
    else
        r = send_to_new(w, message);
    if (r < 0 && r != -EMSGSIZE)
        give_up(w);
    return r;
}

static void read_servers(const struct warden *w, struct wire_world *world)
{
    char text[8192], *save = NULL;
    char line[64];

    if (w->setup.nameservers) {
        (void)snprintf(text, sizeof(text), "%s", w->setup.nameservers);
        for (char *t = strtok_r(text, ", ", &save); t && world->server_count < WIRE_SERVERS_MAX;
             t = strtok_r(NULL, ", ", &save))
            if (wire_server_parse(t, &world->servers[world->server_count]) == 0)
                world->server_count++;
        return;
    }
    if (read_file_at(AT_FDCWD, RESOLV, text, sizeof(text)) < 0)
        return;
    for (char *t = strtok_r(text, "\n", &save); t; t = strtok_r(NULL, "\n", &save))
        if (world->server_count < WIRE_SERVERS_MAX && sscanf(t, " nameserver %63s", line) == 1 &&
            wire_server_parse(line, &world->servers[world->server_count]) == 0)
            world->server_count++;
}

static void make_world(const struct warden *w, struct wire_world *world)
{
    *world = (struct wire_world){.gateway = w->gateway};
    if (w->ipv6)
        world->gateway6 = w->gateway6;
    for (unsigned i = 0; i < w->n_host && world->host_count < WIRE_HOST_MAX; i++)
        world->host[world->host_count++] = w->host[i];
    read_servers(w, world);
}

void helper_tell_world(struct warden *w)
{
    static struct wire_world world;

    make_world(w, &world);
    (void)tell(w, wire_world_json(&world));
}

void helper_tell_box(struct warden *w, const struct box *b)
{
    json_t *peers = peers_json(w, b);

    /* What it cannot be told of a box it must not think to know. */
    if (tell(w, wire_box_json(b->id, &b->address, &b->address6, b->policy_json, peers)) ==
        -EMSGSIZE) {
        control_log(w, "%s has more peers than can be told; it is answered no names", b->id);
        helper_tell_gone(w, b->id);
    }
    json_decref(peers);
}

void helper_tell_gone(struct warden *w, const char *id)
{
    (void)tell(w, wire_gone_json(id));
}

static void tell_pin(const struct box *b, const char *name, const struct net_address *v, unsigned n,
                     unsigned ttl_s, void *arg)
{
    (void)tell(arg, wire_pin_json(b->id, name, v, n, ttl_s));
}

static void tell_all(struct warden *w)
{
    helper_tell_world(w);
    for (const struct box *b = w->boxes; b; b = b->next) {
        helper_tell_box(w, b);
        pins_each(b, tell_pin, w);
    }
}

/* ---- what it asks for ---- */

bool helper_is_host(const struct net_address *a, void *box)
{
    const struct box *b = box;

    return uplink_is_host(b->warden, a);
}

static bool is_loopback(const struct net_address *a)
{
    static const struct net_address local6 = {AF_INET6, {[15] = 1}}, none6 = {AF_INET6, {0}};

    if (a->family == AF_INET)
        return a->bytes[0] == 127 || a->bytes[0] == 0;
    return net_address_equal(a, &local6) || net_address_equal(a, &none6);
}

static int open_socket(const struct net_address *a, uint16_t port, int type, int *ret_fd)
{
    struct sockaddr_storage sa;
    socklen_t len = socket_address(a, port, &sa);
    auto_close int fd = socket(a->family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return errno;
    if (connect(fd, (struct sockaddr *)&sa, len) < 0 && errno != EINPROGRESS)
        return errno;
    *ret_fd = steal_fd(fd);
    return 0;
}

/* H's loopback stands for the host; the daemon's own port is nobody's. */
static int dial_host(const struct warden *w, uint16_t port, int *ret_fd)
{
    static const struct net_address loopback = {AF_INET, {127, 0, 0, 1}};

    if (port == w->api_port)
        return ECONNREFUSED;
    return open_socket(&loopback, port, SOCK_STREAM, ret_fd);
}

static int dial(struct warden *w, struct box *b, const struct wire_ask *ask, int *ret_fd)
{
    struct policy_flow flow = {
        .direction = POLICY_EGRESS, .to = ask->address, .protocol = IPPROTO_TCP, .port = ask->port};
    struct policy_verdict verdict;

    policy_judge(b->policy, &flow, pins_has, helper_is_host, b, &verdict);
    if (!verdict.allowed || ask->port == DNS_PORT)
        return EACCES;
    if (uplink_is_host(w, &ask->address))
        return dial_host(w, ask->port, ret_fd);
    if (is_loopback(&ask->address) || pools_have(w, &ask->address))
        return EACCES;
    return open_socket(&ask->address, ask->port, SOCK_STREAM, ret_fd);
}

static bool is_server(const struct wire_world *world, const struct wire_ask *ask)
{
    for (unsigned i = 0; i < world->server_count; i++)
        if (net_address_equal(&world->servers[i].address, &ask->address) &&
            world->servers[i].port == ask->port)
            return true;
    return false;
}

/* A name server of the host's, or one of the box's policy that is not the host itself. */
static int dial_dns(struct warden *w, const struct box *b, const struct wire_ask *ask, int *ret_fd)
{
    static struct wire_world world;
    const struct policy_dns *dns = policy_dns(b->policy);
    bool fine = false;

    make_world(w, &world);
    for (unsigned i = 0; i < dns->n; i++)
        if (net_address_equal(&dns->nameservers[i].address, &ask->address) &&
            dns->nameservers[i].port == ask->port)
            fine = !is_loopback(&ask->address) && !uplink_is_host(w, &ask->address) &&
                   !pools_have(w, &ask->address);
    if (!fine && !is_server(&world, ask))
        return EACCES;
    return open_socket(&ask->address, ask->port, ask->tcp ? SOCK_STREAM : SOCK_DGRAM, ret_fd);
}

static int pin(struct warden *w, struct box *b, const struct wire_ask *ask)
{
    int error = 0;

    for (unsigned i = 0; i < ask->address_count; i++)
        if (!policy_answer_ok(b->policy, &ask->addresses[i]))
            return EACCES;
    pins_add(w, b, ask->name, ask->addresses, ask->address_count, ask->ttl, &error);
    return error;
}

static void serve(struct warden *w, const struct wire_ask *ask)
{
    struct box *b = box_find(w, ask->box);
    auto_close int fd = -1;
    int error = ENOENT;

    if (ask->kind == WIRE_DENIED) {
        if (b)
            denied_tell(w, b, ask->protocol, &ask->address, ask->port, ask->name, ask->rule,
                        ask->why, ask->count);
        return;
    }
    if (b && ask->kind == WIRE_DIAL)
        error = dial(w, b, ask, &fd);
    else if (b && ask->kind == WIRE_DNS)
        error = dial_dns(w, b, ask, &fd);
    else if (b && ask->kind == WIRE_PIN)
        error = pin(w, b, ask);
    if (wire_send(w->worker.fd, wire_answer_json(ask->number, error), fd) < 0)
        give_up(w);
}

/* What is not a message that a worker sends is the end of it. */
static void receive(struct warden *w, struct source *s)
{
    static struct wire_ask ask;

    for (int i = 0; i < ASKS_MAX; i++) {
        int fd = -1, error = 0, r;
        json_t *message = wire_recv(s->fd, &fd, &error);

        close_fd(&fd); /* it has nothing to give */
        if (!message && error == -EAGAIN)
            return;
        r = message ? wire_ask_parse(message, &ask) : -EBADMSG;
        json_decref(message);
        if (r < 0) {
            give_up(w);
            return;
        }
        serve(w, &ask);
        if (s->fd < 0)
            return;
    }
}

/* ---- the process ---- */

static _Noreturn void be_worker(const int fds[7])
{
    struct worker_start start;
    struct err err = {0};
    int low[7];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Of all that the warden has open, these and nothing else; numbers from 3 on. */
    for (int i = 0; i < 7; i++)
        low[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, 512);
    for (int i = 0; i < 7; i++)
        if (low[i] >= 0 && dup2(low[i], 3 + i) < 0)
            _exit(1);
    if (close_range(10, ~0u, 0) < 0)
        _exit(1);
    for (int i = 0; i < 7; i++)
        if (low[i] < 0)
            (void)close(3 + i);
    if (walls_worker(&err) < 0)
        _exit(1);
    start = (struct worker_start){.warden = 3};
    for (int i = 0; i < WORKER_FAMILIES; i++) {
        start.dns_udp[i] = low[1 + UDP4 + i] < 0 ? -1 : 4 + UDP4 + i;
        start.dns_tcp[i] = low[1 + TCP4 + i] < 0 ? -1 : 4 + TCP4 + i;
        start.inspect[i] = low[1 + LOOK4 + i] < 0 ? -1 : 4 + LOOK4 + i;
    }
    worker_run(&start);
}

static void ended(struct warden *w, struct source *s)
{
    char how[PROGRAM_ENDED_MAX];
    int status = 0;

    (void)waitpid(w->worker_pid, &status, 0);
    source_drop(w, s);
    source_drop(w, &w->worker);
    w->worker_pid = 0;
    w->worker_failures = mono_ns() - w->worker_since > STEADY_NS ? 0 : w->worker_failures + 1;
    program_ended_words(status, how);
    control_log(w, "the network worker has ended (%s); starting another", how);
    if (w->worker_failures == 0) {
        helper_start(w);
        return;
    }
    w->worker_again =
        mono_ns() +
        1000000000ll * (w->worker_failures > 4 ? DELAY_S_MAX : (1 << (w->worker_failures - 1)) / 2);
    tasks_soon(w);
}

void helper_start(struct warden *w)
{
    int pair[2], size = QUEUE_BYTES, fds[7], pidfd;
    long pid;

    if (w->ending || w->worker_pid > 0)
        return;
    if (w->worker_again > mono_ns()) {
        tasks_soon(w);
        return;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return;
    /* Both ways: what one box asks for at once must not keep the others from asking. */
    for (int i = 0; i < 2; i++)
        (void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
    fds[0] = pair[1];
    memcpy(fds + 1, w->listeners, sizeof(w->listeners));
    pid = syscall(SYS_clone, (long)NAMESPACES | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        be_worker(fds);
    (void)close(pair[1]);
    pidfd = pid < 0 ? -1 : pidfd_open((pid_t)pid, 0);
    if (pidfd < 0) {
        control_log(w, "the network worker cannot be started: %s", strerror(errno));
        (void)close(pair[0]);
        w->worker_again = mono_ns() + 1000000000ll;
        tasks_soon(w);
        return;
    }
    w->worker_pid = (pid_t)pid;
    w->worker_since = mono_ns();
    source_add(w, &w->worker, pair[0], receive);
    source_add(w, &w->worker_end, pidfd, ended);
    tell_all(w);
}

void helper_stop(struct warden *w)
{
    if (w->worker_pid > 0) {
        (void)kill(w->worker_pid, SIGKILL);
        (void)waitpid(w->worker_pid, NULL, 0);
    }
    source_drop(w, &w->worker);
    source_drop(w, &w->worker_end);
    w->worker_pid = 0;
    for (int i = 0; i < 6; i++)
        close_fd(&w->listeners[i]);
}
