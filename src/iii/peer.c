#include "iii/peer.h"

#include <string.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "functions/callers.h"
#include "http/server.h"
#include "http/websocket.h"
#include "iii/registry.h"
#include "iii/wire.h"

#define AT_ONCE      64          /* messages; epoll tells of the rest */
#define FREE_MESSAGE (64u << 10) /* of what is unsent: what the budget is not asked for */
#define UNSENT_MAX   (1u << 20)  /* past it nothing more of it is read */
#define UNSENT_WORST                                                                               \
    (32u << 20)       /* past it the connection is closed: the default of iii_config.unsent_max */
#define GRACE_MS 5000 /* the default of iii_config.grace_ms */

/* ---- life ---- */

static int64_t grace_ns(const struct iii_hub *hub)
{
    return (hub->config.grace_ms ? hub->config.grace_ms : GRACE_MS) * 1000000ll;
}

static void drop_unsent(struct iii_peer *peer)
{
    while (peer->first) {
        struct iii_unsent *u = peer->first;

        peer->first = u->next;
        free(u->text);
        free(u);
    }
    peer->last = &peer->first;
    peer->unsent = 0;
}

static void peer_free(struct iii_asker *asker)
{
    struct iii_peer *peer = (struct iii_peer *)asker;

    drop_unsent(peer);
    json_decref(peer->early);
    json_decref(peer->early_ids);
    (void)pthread_mutex_destroy(&peer->lock);
    free(peer);
}

static struct iii_peer *peer_new(struct iii_hub *hub, struct http_req *req,
                                 const struct caller *caller, struct rates *rates)
{
    struct iii_peer *peer = xcalloc(1, sizeof(*peer));

    atomic_init(&peer->asker.refs, 1);
    peer->asker.caller = *caller;
    peer->asker.caller.face = "iii";
    peer->asker.rates = rates;
    peer->asker.share = iii_share_new(caller);
    peer->asker.free = peer_free;
    (void)snprintf(peer->asker.namespace, sizeof(peer->asker.namespace), "%s", III_NAMESPACE);
    iii_uuid_new(peer->asker.worker_id);
    iii_uuid_new(peer->reattach_token);
    (void)pthread_mutex_init(&peer->lock, NULL);
    peer->hub = hub;
    peer->req = req;
    peer->intake.memory = hub->config.memory;
    peer->last = &peer->first;
    peer->forgotten = true; /* until it has joined */
    peer->unnamed = true;
    peer->early_ns = mono_ns() + grace_ns(peer->hub);
    peer->token_ns = mono_ns() + CALLER_LIVE_NS;
    return peer;
}

/* ---- to the client ---- */

static bool reserve(struct iii_peer *peer, size_t len)
{
    struct budget *streams = peer->hub->config.streams;
    size_t worst = peer->hub->config.unsent_max;

    if (peer->unsent + len > (worst ? worst : UNSENT_WORST))
        return false;
    if (streams && !budget_take_share(streams, peer->asker.share->who, len)) {
        /* Others hold it all. One that takes what it is sent does not suffer for that. */
        if (peer->reserved + len > FREE_MESSAGE)
            return false;
        budget_add_share(streams, peer->asker.share->who, len);
    }
    peer->reserved += len;
    return true;
}

static void give_back(struct iii_peer *peer, size_t len)
{
    if (peer->hub->config.streams && len)
        budget_give_share(peer->hub->config.streams, peer->asker.share->who, len);
    peer->reserved -= len;
}

static void queue(struct iii_peer *peer, char *text, size_t len)
{
    struct iii_unsent *u = xmalloc(sizeof(*u));

    *u = (struct iii_unsent){.text = text, .len = len};
    *peer->last = u;
    peer->last = &u->next;
    peer->unsent += len;
}

/* Now, without waking a worker; false when it must wait for its turn. */
static bool tell(struct iii_peer *peer, const char *text, size_t len)
{
    if (peer->first || !http_tell_begin(peer->req))
        return false;
    (void)websocket_send(peer->ws, true, text, len);
    if (http_tell_end(peer->req))
        give_back(peer, len);
    else
        http_wake(peer->req); /* which also finds out if it has gone */
    return true;
}

/* Under its lock. False when there is no room. One that has gone has all the room. */
static bool send_text(struct iii_peer *peer, char *text)
{
    auto_free char *own = text;
    size_t len = strlen(text);

    if (!peer->req || peer->too_slow)
        return true;
    if (!reserve(peer, len))
        return false;
    if (!tell(peer, text, len)) {
        queue(peer, steal_ptr(own), len);
        http_wake(peer->req);
    }
    return true;
}

void iii_peer_send(struct iii_peer *peer, char *text)
{
    (void)pthread_mutex_lock(&peer->lock);
    if (!send_text(peer, text)) {
        peer->too_slow = true;
        http_wake(peer->req);
    }
    (void)pthread_mutex_unlock(&peer->lock);
}

bool iii_peer_offer(struct iii_peer *peer, char *text)
{
    bool sent;

    (void)pthread_mutex_lock(&peer->lock);
    sent = send_text(peer, text);
    (void)pthread_mutex_unlock(&peer->lock);
    return sent;
}

void iii_peer_evict(struct iii_peer *peer)
{
    (void)pthread_mutex_lock(&peer->lock);
    peer->evicted = true;
    if (peer->req)
        http_wake(peer->req);
    (void)pthread_mutex_unlock(&peer->lock);
}

static void read_on(struct iii_peer *peer)
{
    (void)pthread_mutex_lock(&peer->lock);
    if (peer->throttled && peer->req)
        http_wake(peer->req);
    peer->throttled = false;
    (void)pthread_mutex_unlock(&peer->lock);
}

void iii_peer_served(struct iii_peer *peer)
{
    atomic_fetch_sub(&peer->in_flight, 1);
    read_on(peer);
}

void iii_peer_serves(struct iii_peer *peer)
{
    atomic_fetch_add(&peer->serving, 1);
    read_on(peer);
}

/* In a step: what waits, while the client takes it. */
static void send_unsent(struct iii_peer *peer)
{
    (void)pthread_mutex_lock(&peer->lock);
    while (peer->first && http_unsent(peer->req) == 0) {
        struct iii_unsent *u = peer->first;

        peer->first = u->next;
        if (!peer->first)
            peer->last = &peer->first;
        peer->unsent -= u->len;
        (void)websocket_send(peer->ws, true, u->text, u->len);
        free(u->text);
        free(u);
    }
    if (http_unsent(peer->req) == 0)
        give_back(peer, peer->reserved - peer->unsent);
    (void)pthread_mutex_unlock(&peer->lock);
}

/* ---- from the client ---- */

/* One that others wait for is read on: its answers may be what ends its own calls. */
static bool may_read(struct iii_peer *peer)
{
    bool may;

    if (peer->refused)
        return false;
    (void)pthread_mutex_lock(&peer->lock);
    peer->throttled =
        atomic_load(&peer->in_flight) >= III_IN_FLIGHT_MAX + atomic_load(&peer->forwarded) &&
        atomic_load(&peer->serving) == 0;
    may = !peer->throttled && peer->unsent < UNSENT_MAX;
    (void)pthread_mutex_unlock(&peer->lock);
    return may;
}

/* Telemetry of clients comes as bytes, with four letters first; nobody here wants it. What else is
 * binary is a message too. */
static bool is_telemetry(const struct websocket_message *m)
{
    static const char *const marks[] = {"OTLP", "MTRC", "LOGS"};

    for (size_t i = 0; i < ARRAY_LEN(marks) && !m->is_text && m->len >= 4; i++)
        if (memcmp(m->data, marks[i], 4) == 0)
            return true;
    return false;
}

/* False when there will be nothing any more. */
static bool read_messages(struct iii_peer *peer)
{
    struct websocket_message m;

    for (int i = 0; i < AT_ONCE && may_read(peer); i++) {
        int r = websocket_next(peer->ws, &m);

        if (r <= 0)
            return r == 0;
        if (is_telemetry(&m))
            iii_peer_ignore(peer, IGNORED_TELEMETRY, "telemetry");
        else
            iii_peer_take(peer, m.data, m.len);
        iii_intake_taken(&peer->intake, peer->ws);
    }
    return true;
}

/* ---- the connection ---- */

static const char *why_over(struct iii_peer *peer, unsigned *ret_code)
{
    const char *why = NULL;

    (void)pthread_mutex_lock(&peer->lock);
    *ret_code = WEBSOCKET_NORMAL;
    if (peer->evicted)
        why = "another connection has taken its place";
    else if (peer->too_slow)
        why = "it does not take what is sent", *ret_code = WEBSOCKET_TOO_SLOW;
    (void)pthread_mutex_unlock(&peer->lock);
    if (!why && mono_ns() >= peer->token_ns) {
        peer->token_ns = mono_ns() + CALLER_LIVE_NS;
        if (!caller_token_live(peer->hub->config.services, peer->asker.caller.token_id))
            why = "its token has ended", *ret_code = WEBSOCKET_POLICY;
    }
    return why;
}

/* Of one that is over: nobody sends to it any more. */
static void leave(struct iii_peer *peer)
{
    atomic_store(&peer->asker.gone, true);
    atomic_store(&peer->asker.share->gone, true);
    (void)pthread_mutex_lock(&peer->lock);
    peer->req = NULL;
    drop_unsent(peer);
    give_back(peer, peer->reserved);
    (void)pthread_mutex_unlock(&peer->lock);
    iii_intake_give(&peer->intake);
    websocket_free(peer->ws);
    peer->ws = NULL;
    iii_registry_unkeep(peer->hub->registry, peer, peer->early_bytes);
    iii_registry_forget(peer->hub->registry, peer);
    iii_rows_wake(peer->hub, &peer->asker);
    iii_asker_unref(&peer->asker);
}

static void set_wait(struct iii_peer *peer, struct http_wait *wait)
{
    int64_t until = websocket_ping_ns(peer->ws);
    bool may;

    if (peer->unnamed && peer->early_ns < until)
        until = peer->early_ns;
    if (peer->asker.caller.token_id[0] && peer->token_ns < until)
        until = peer->token_ns;
    may = may_read(peer);
    if (may && websocket_has_message(peer->ws))
        until = 1; /* at once */
    *wait =
        (struct http_wait){.fd = -1, .input = may && websocket_takes(peer->ws), .until_ns = until};
}

/* It is one of the clients from here on. */
static void join(struct iii_peer *peer)
{
    auto_free char *hello = wire_worker_registered(peer->asker.worker_id, peer->reattach_token);

    peer->early_ns = mono_ns() + grace_ns(peer->hub);
    (void)websocket_send(peer->ws, true, hello, strlen(hello));
    iii_registry_join(peer->hub->registry, peer);
}

static bool on_news(struct http_req *req, unsigned news, struct http_wait *wait, void *arg)
{
    struct iii_peer *peer = arg;
    unsigned code = WEBSOCKET_RESTART;
    const char *why = news & HTTP_DRAIN ? "the daemon ends" : why_over(peer, &code);

    if (!(news & HTTP_GONE) && !why) {
        send_unsent(peer);
        if (peer->unnamed && mono_ns() >= peer->early_ns)
            iii_peer_replay(peer);
        if (read_messages(peer) && !websocket_is_closed(peer->ws) &&
            websocket_keep_alive(peer->ws, may_read(peer)) == 0) {
            send_unsent(peer);
            if (!peer->refused) {
                set_wait(peer, wait);
                return true;
            }
            why = "another worker has that name";
            code = WEBSOCKET_POLICY;
        }
    }
    /* One that takes nothing would not take that either. */
    if (!(news & HTTP_GONE) && why && http_unsent(req) == 0)
        websocket_close(peer->ws, code, why);
    leave(peer);
    return false;
}

bool iii_handle_worker(struct http_req *req, const struct caller *caller, struct rates *rates,
                       const struct rate_state *rate, void *arg)
{
    struct iii_hub *hub = arg;
    struct http_wait wait = {.fd = -1, .input = true};
    struct websocket *ws = iii_socket_accept(req, III_MESSAGE_MAX);
    struct iii_peer *peer;
    struct err err = {0};

    (void)rate;
    if (!ws)
        return true;
    peer = peer_new(hub, req, caller, rates);
    peer->ws = ws;
    websocket_set_room(ws, iii_intake_room, &peer->intake);
    join(peer);
    wait.until_ns = websocket_ping_ns(ws);
    if (http_park(req, &wait, on_news, peer, &err) < 0)
        leave(peer);
    return true;
}
