/* Connections that policy lets through by name. The kernel brings them here instead of to their
 * destination; what they say first is held against the rules, and only then does it go on.
 *
 * In order, for each connection:
 * 1. Whose is it (the peer's address), and what was it meant for (SO_ORIGINAL_DST)? Both are the
 *    kernel's word, not the client's.
 * 2. policy_judge() with what is pinned for this box: an address that no rule allows is refused
 * here even if the kernel sent it.
 * 3. The warden dials meanwhile; what the server says passes at once, because some speak first.
 * 4. What the client says is kept back until it is known whom it names (peek.h): TLS by its SNI,
 *    HTTP by Host and target of each request, others by their address alone.
 * 5. (Here TLS can be taken apart and secrets put in, once that exists: the connection has a judged
 *    name, all that the client said is still in c->in, and nothing has reached the server.)
 * 6. Both directions are passed on unseen (relay.h), but for the requests of HTTP, each of which is
 *    looked at before it passes. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/mem.h"
#include "gateway/inspect_internal.h"
#include "gateway/refusal.h"

#define ACCEPTS_A_TURN 64
#define DIAL_MS        30000
#define NAMES_MAX      256         /* pinned to one address */
#define ROOMY_MAX      16          /* connections of a box whose buffers grow as the kernel likes */
#define CROWD_BYTES    (32 * 1024) /* each way, of the others; the kernel takes it twice */
#define ORIGINAL_DST   80          /* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST */

/* ---- judging ---- */

static struct view view_of(struct conn *c)
{
    return (struct view){
        .guest = c->guest, .names = (const char *const *)c->names, .name_count = c->name_count};
}

static void judge_pinned_names(struct conn *c, struct view *v, struct policy_verdict *ret)
{
    const char *names[NAMES_MAX];
    unsigned n = guest_names_of(c->guest, &c->flow.to, names, NAMES_MAX);

    for (unsigned i = 0; ret->allowed && i < n && n <= NAMES_MAX; i++)
        policy_judge_named(c->guest->policy, names[i], &c->flow, view_pinned, view_is_host, v, ret);
    if (n > NAMES_MAX) {
        *ret = (struct policy_verdict){.rule = POLICY_BUILT_IN};
        (void)snprintf(ret->why, sizeof(ret->why), "no name was said, and too many lead here");
    }
}

static bool nothing_pinned(unsigned pin, const struct net_address *a, void *arg)
{
    (void)pin;
    (void)a;
    (void)arg;
    return false;
}

/* TLS and HTTP have a place for the name. Who leaves it empty asks for whatever the server gives to
 * those, which no rule with a name can have meant: only rules with addresses count. */
static void judge_unsaid(struct conn *c, struct view *v, struct policy_verdict *ret)
{
    policy_judge_named(c->guest->policy, NULL, &c->flow, nothing_pinned, view_is_host, v, ret);
    if (ret->allowed)
        return;
    (void)snprintf(ret->why, sizeof(ret->why),
                   "no name was said (SNI or Host), and no rule allows the address itself");
}

/* With the name that it said, or NULL. Other protocols have none to say and are judged by the
 * address alone, which counts only if every name that led this box to it may be reached: else one
 * server that has an allowed and a forbidden name would be reached as the forbidden one. */
static bool judge_named(struct conn *c, const char *name, struct policy_verdict *ret)
{
    struct view v = view_of(c);

    if (!name && strcmp(c->kind, "tcp") != 0) {
        judge_unsaid(c, &v, ret);
        return ret->allowed;
    }
    policy_judge_named(c->guest->policy, name, &c->flow, view_pinned, view_is_host, &v, ret);
    if (!name && ret->allowed)
        judge_pinned_names(c, &v, ret);
    return ret->allowed;
}

/* False: it was refused, and c is gone or leaving. */
bool conn_let_named(struct conn *c, const char *name)
{
    struct policy_verdict verdict;

    if (!judge_named(c, name, &verdict)) {
        conn_refuse(c, name ? name : "", &verdict);
        return false;
    }
    (void)snprintf(c->name, sizeof(c->name), "%s", name ? name : "");
    return true;
}

static bool still_allowed(struct conn *c, struct policy_verdict *ret)
{
    struct view v = view_of(c);

    *ret = (struct policy_verdict){.rule = POLICY_BY_DEFAULT};
    (void)snprintf(ret->why, sizeof(ret->why), "this sandbox has no network policy any more");
    if (!c->guest->policy)
        return false;
    policy_judge(c->guest->policy, &c->flow, view_pinned, view_is_host, &v, ret);
    if (!ret->allowed)
        return false;
    if (c->phase == PEEKING || (c->phase == HTTP && c->http.requests == 0) || !ret->inspect)
        return true; /* it has said nothing yet, or need not */
    return judge_named(c, c->name[0] ? c->name : NULL, ret);
}

void inspect_judge_again(struct guest *b)
{
    struct conn *next;

    for (struct conn *c = b->conns; c; c = next) {
        struct policy_verdict why;

        next = c->next;
        if (c->phase != LEAVING && !still_allowed(c, &why)) {
            guest_denied(b, c->kind, &c->flow.to, c->flow.port, c->name, &why);
            conn_reset(c);
        }
    }
}

void inspect_drop_guest(struct guest *b)
{
    while (b->conns)
        conn_reset(b->conns);
}

/* ---- the start of a connection ---- */

static void client_ready(struct source *s, uint32_t events)
{
    (void)events;
    conn_run(MEMBER_OF(s, struct conn, client));
}

static void up_ready(struct source *s, uint32_t events)
{
    struct conn *c = MEMBER_OF(s, struct conn, up);
    socklen_t len = sizeof(int);
    int error = 0;

    (void)events;
    if (!c->connected) {
        if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error != 0) {
            conn_unreachable(c, error);
            return;
        }
        timer_stop(c->guest->worker, &c->dial_timer);
        c->connected = true;
    }
    conn_run(c);
}

/* What waits in these sockets is nobody's memory, and all TCP of the machine shares a bound. A few
 * connections of a box may be as fast as the kernel lets them; a crowd that reads nothing must not
 * hold megabytes with each. */
static void prepare(const struct guest *b, int fd)
{
    int on = 1, room = CROWD_BYTES;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    if (b->conn_count <= ROOMY_MAX)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
}

static void dialled(void *owner, int error, int fd)
{
    struct conn *c = owner;

    c->ask = 0;
    if (error != 0 || fd < 0) {
        conn_unreachable(c, error ? error : ECONNREFUSED);
        return;
    }
    c->up.fd = fd;
    prepare(c->guest, fd);
    conn_run(c);
}

static void dial_too_long(struct timer *t)
{
    conn_unreachable(MEMBER_OF(t, struct conn, dial_timer), ETIMEDOUT);
}

static void dial(struct conn *c)
{
    struct worker *w = c->guest->worker;
    struct wire_ask ask = {.kind = WIRE_DIAL, .address = c->flow.to, .port = c->flow.port};

    (void)snprintf(ask.box, sizeof(ask.box), "%s", c->guest->id);
    c->dial_timer.fire = dial_too_long;
    timer_set(w, &c->dial_timer, DIAL_MS);
    c->ask = ask_send(w, &ask, dialled, c);
    if (c->ask == 0)
        conn_reset(c);
    else
        conn_run(c);
}

static struct conn *conn_new(struct guest *b, int fd, const struct policy_flow *flow)
{
    const char *names[VIEW_NAMES_MAX];
    struct conn *c = xcalloc(1, sizeof(*c));
    unsigned n = guest_names_of(b, &flow->to, names, VIEW_NAMES_MAX);

    c->guest = b;
    c->flow = *flow;
    c->kind = "tcp";
    c->client = (struct source){.fd = fd, .ready = client_ready};
    c->up = (struct source){.fd = -1, .ready = up_ready};
    lane_init(&c->out);
    lane_init(&c->back);
    c->name_count = n < VIEW_NAMES_MAX ? n : VIEW_NAMES_MAX;
    for (unsigned i = 0; i < c->name_count; i++)
        c->names[i] = xstrdup(names[i]);
    c->next = b->conns;
    c->at = &b->conns;
    if (c->next)
        c->next->at = &c->next;
    b->conns = c;
    b->conn_count++;
    b->worker->conn_count++;
    prepare(b, fd);
    return c;
}

/* What the connection was meant for before the kernel brought it here: 0 or -1. */
static int original(int fd, struct policy_flow *ret)
{
    union {
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } to;
    socklen_t len = sizeof(to);

    *ret = (struct policy_flow){.direction = POLICY_EGRESS, .protocol = IPPROTO_TCP};
    if (getsockopt(fd, SOL_IP, ORIGINAL_DST, &to.four, &len) == 0) {
        ret->to.family = AF_INET;
        ret->port = ntohs(to.four.sin_port);
        memcpy(ret->to.bytes, &to.four.sin_addr, sizeof(to.four.sin_addr));
        return 0;
    }
    len = sizeof(to);
    if (getsockopt(fd, SOL_IPV6, ORIGINAL_DST, &to.six, &len) < 0)
        return -1;
    ret->to.family = AF_INET6;
    ret->port = ntohs(to.six.sin6_port);
    memcpy(ret->to.bytes, &to.six.sin6_addr, sizeof(to.six.sin6_addr));
    return 0;
}

/* One sandbox can have as much as is left for all others, and what its policy says. */
static bool is_full(const struct worker *w, const struct guest *b)
{
    return worker_is_short(w->conns_max, w->conn_count, b->conn_count) ||
           b->conn_count >= policy_max_connections(b->policy);
}

static bool let_in(struct guest *b, const struct policy_flow *flow, struct policy_verdict *ret)
{
    struct view v = {.guest = b};

    *ret = (struct policy_verdict){.rule = POLICY_BUILT_IN};
    if (!b->policy) {
        (void)snprintf(ret->why, sizeof(ret->why), "this sandbox has no network policy");
        return false;
    }
    if (is_full(b->worker, b)) {
        (void)snprintf(ret->why, sizeof(ret->why), "too many connections at once");
        return false;
    }
    policy_judge(b->policy, flow, view_pinned, view_is_host, &v, ret);
    return ret->allowed;
}

static void accepted(struct worker *w, int fd, const struct sockaddr_storage *peer)
{
    struct guest *b = guest_of_peer(w, peer);
    struct policy_verdict verdict;
    struct policy_flow flow;
    struct conn *c;

    if (!b || original(fd, &flow) < 0) {
        refusal_reset(fd); /* nobody's, or somebody who came here by himself */
        return;
    }
    if (!let_in(b, &flow, &verdict)) {
        guest_denied(b, "tcp", &flow.to, flow.port, NULL, &verdict);
        refusal_reset(fd);
        return;
    }
    c = conn_new(b, fd, &flow);
    if (!verdict.inspect)
        c->phase = RELAY;
    dial(c);
}

static void inspect_ready(struct source *s, uint32_t events)
{
    struct worker *w = MEMBER_OF(s, struct listener, source)->worker;

    (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        int fd = accept4(s->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0)
            return;
        worker_catch_up(w);
        accepted(w, fd, &peer);
    }
}

void inspect_listen(struct worker *w)
{
    for (int f = 0; f < WORKER_FAMILIES; f++) {
        w->inspect[f].source.ready = inspect_ready;
        (void)source_set(w, &w->inspect[f].source, EPOLLIN);
    }
}
