#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "gateway/worker_internal.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define NS_A_S 1000000000LL

/* ---- finding ---- */

static size_t address_bucket(const struct net_address *a)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < sizeof(a->bytes); i++)
        h = (h ^ a->bytes[i]) * 16777619u;
    return h % GUEST_BUCKETS;
}

static int family_of(const struct net_address *a)
{
    return a->family == AF_INET6 ? WORKER_V6 : WORKER_V4;
}

struct guest *guest_by_address(struct worker *w, const struct net_address *a)
{
    int f = family_of(a);
    struct guest *b = w->by_address[f][address_bucket(a)];

    while (b && !net_address_equal(&b->address[f], a))
        b = b->next_by_address[f];
    return b;
}

struct guest *guest_of_peer(struct worker *w, const struct sockaddr_storage *peer)
{
    struct net_address a = {0};

    if (peer->ss_family == AF_INET) {
        a.family = AF_INET;
        memcpy(a.bytes, &((const struct sockaddr_in *)peer)->sin_addr, 4);
    } else if (peer->ss_family == AF_INET6) {
        a.family = AF_INET6;
        memcpy(a.bytes, &((const struct sockaddr_in6 *)peer)->sin6_addr, 16);
    }
    return a.family ? guest_by_address(w, &a) : NULL;
}

static struct guest **slot_of_id(struct worker *w, const char *id)
{
    struct guest **at = &w->by_id[str_hash(id) % GUEST_BUCKETS];

    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next_by_id;
    return at;
}

static void unlink_address(struct worker *w, struct guest *b, int f)
{
    struct guest **at;

    if (b->address[f].family == 0)
        return;
    at = &w->by_address[f][address_bucket(&b->address[f])];
    while (*at != b)
        at = &(*at)->next_by_address[f];
    *at = b->next_by_address[f];
    b->address[f] = (struct net_address){0};
}

static void link_address(struct worker *w, struct guest *b, const struct net_address *a)
{
    int f = family_of(a);
    struct guest **bucket = &w->by_address[f][address_bucket(a)], *old;

    if (a->family == 0)
        return;
    /* An address is one box's. Should two claim it, the later is right: the warden gave it away
     * again, and the older one's end is on its way. */
    old = guest_by_address(w, a);
    if (old)
        unlink_address(w, old, f);
    b->address[f] = *a;
    b->next_by_address[f] = *bucket;
    *bucket = b;
}

/* ---- pins ---- */

static void pin_free(struct pin *p)
{
    free(p->numbers);
    free(p->addresses);
    free(p);
}

/* Pin numbers mean something to one policy only. */
static void number_pin(struct guest *b, struct pin *p)
{
    unsigned numbers[WIRE_RULES_MAX], n = 0;

    if (b->policy)
        n = policy_rules_for_name(b->policy, p->name, numbers, WIRE_RULES_MAX);
    p->numbers = xrealloc(p->numbers, (n ? n : 1) * sizeof(unsigned));
    memcpy(p->numbers, numbers, n * sizeof(unsigned));
    p->number_count = n;
}

/* Those whose time is over, or which the policy has no rule for any more. */
static void sweep_pins(struct guest *b)
{
    struct pin **at = &b->pins;
    int64_t now = mono_ns();

    while (*at) {
        struct pin *p = *at;
        unsigned kept = 0;

        for (unsigned i = 0; i < p->address_count; i++) {
            if (p->addresses[i].until > now)
                p->addresses[kept++] = p->addresses[i];
        }
        p->address_count = kept;
        if (kept > 0 && p->number_count > 0) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        b->pin_count--;
        pin_free(p);
    }
}

static int64_t pin_end(const struct pin *p)
{
    int64_t end = 0;

    for (unsigned i = 0; i < p->address_count; i++) {
        if (p->addresses[i].until > end)
            end = p->addresses[i].until;
    }
    return end;
}

/* A box can make up as many names as a wildcard matches: the one that would end first makes room.
 */
static void make_room(struct guest *b)
{
    struct pin **first = &b->pins, *p;

    sweep_pins(b);
    if (b->pin_count < PINS_MAX || !b->pins)
        return;
    for (struct pin **at = &b->pins; *at; at = &(*at)->next) {
        if (pin_end(*at) < pin_end(*first))
            first = at;
    }
    p = *first;
    *first = p->next;
    b->pin_count--;
    pin_free(p);
}

static struct pin *pin_of(struct guest *b, const char *name)
{
    struct pin *p = b->pins;

    while (p && strcmp(p->name, name) != 0)
        p = p->next;
    if (p)
        return p;
    if (b->pin_count >= PINS_MAX)
        make_room(b);
    p = xcalloc(1, sizeof(*p) + strlen(name) + 1);
    memcpy(p->name, name, strlen(name) + 1);
    number_pin(b, p);
    p->next = b->pins;
    b->pins = p;
    b->pin_count++;
    return p;
}

static struct pinned_address *address_new(struct pin *p)
{
    if (p->address_count == p->address_room) {
        p->address_room = p->address_room ? p->address_room * 2 : 4;
        p->addresses = xrealloc(p->addresses, p->address_room * sizeof(*p->addresses));
    }
    return &p->addresses[p->address_count++];
}

/* Of a name with many addresses the one that ends first makes room. */
static struct pinned_address *address_of(struct pin *p, const struct net_address *a)
{
    struct pinned_address *to;
    unsigned first = 0;

    for (unsigned i = 0; i < p->address_count; i++) {
        if (net_address_equal(&p->addresses[i].address, a))
            return &p->addresses[i];
        if (p->addresses[i].until < p->addresses[first].until)
            first = i;
    }
    to = p->address_count < PIN_ADDRESSES_MAX ? address_new(p) : &p->addresses[first];
    *to = (struct pinned_address){.address = *a};
    return to;
}

void guest_pin(struct guest *b, const char *name, const struct net_address *addresses,
               unsigned count, unsigned ttl)
{
    struct pin *p = pin_of(b, name);
    int64_t until = mono_ns() + ttl * NS_A_S;

    for (unsigned i = 0; i < count; i++) {
        struct pinned_address *a = address_of(p, &addresses[i]);

        if (a->until < until)
            a->until = until;
    }
}

static bool pin_has(const struct pin *p, const struct net_address *a, int64_t now)
{
    for (unsigned i = 0; i < p->address_count; i++) {
        if (p->addresses[i].until > now && net_address_equal(&p->addresses[i].address, a))
            return true;
    }
    return false;
}

static bool pin_counts_for(const unsigned *numbers, unsigned count, unsigned number)
{
    for (unsigned i = 0; i < count; i++) {
        if (numbers[i] == number)
            return true;
    }
    return false;
}

bool view_pinned(unsigned number, const struct net_address *a, void *arg)
{
    const struct view *v = arg;
    unsigned numbers[WIRE_RULES_MAX];
    int64_t now = mono_ns();

    for (const struct pin *p = v->guest->pins; p; p = p->next) {
        if (pin_counts_for(p->numbers, p->number_count, number) && pin_has(p, a, now))
            return true;
    }
    for (unsigned i = 0; i < v->name_count; i++) {
        unsigned n =
            policy_rules_for_name(v->guest->policy, v->names[i], numbers, ARRAY_LEN(numbers));

        if (pin_counts_for(numbers, n, number))
            return true;
    }
    return false;
}

bool view_is_host(const struct net_address *a, void *arg)
{
    const struct wire_world *world = &((const struct view *)arg)->guest->worker->world;

    if (net_address_equal(a, &world->gateway) || net_address_equal(a, &world->gateway6))
        return true;
    for (unsigned i = 0; i < world->host_count; i++) {
        if (net_address_equal(a, &world->host[i]))
            return true;
    }
    return false;
}

unsigned guest_names_of(struct guest *b, const struct net_address *a, const char **ret,
                        unsigned max)
{
    int64_t now = mono_ns();
    unsigned n = 0;

    for (const struct pin *p = b->pins; p; p = p->next) {
        if (!pin_has(p, a, now))
            continue;
        if (n < max)
            ret[n] = p->name;
        n++;
    }
    return n;
}

/* ---- orders ---- */

static struct policy *read_policy(const char *id, const json_t *in)
{
    struct policy *p = NULL;
    struct err err = {0};

    if (json_is_false(in))
        return NULL;
    if (policy_parse(in, &p, &err) < 0) {
        log_error("a policy of the warden's cannot be read: nothing is allowed", "sandbox", id,
                  "error", err.text);
        return NULL;
    }
    return p;
}

static struct guest *guest_new(struct worker *w, const char *id)
{
    struct guest **at = slot_of_id(w, id), *b = *at;

    if (b)
        return b;
    if (w->guest_count >= GUESTS_MAX) {
        log_error("too many sandboxes for one worker", "sandbox", id);
        return NULL;
    }
    b = *at = xcalloc(1, sizeof(*b));
    b->worker = w;
    (void)snprintf(b->id, sizeof(b->id), "%s", id);
    w->guest_count++;
    return b;
}

void guest_order(struct worker *w, struct wire_order *order)
{
    struct guest *b = guest_new(w, order->id);

    if (!b)
        return;
    for (int f = 0; f < WORKER_FAMILIES; f++)
        unlink_address(w, b, f);
    link_address(w, b, &order->address);
    link_address(w, b, &order->address6);
    policy_free(b->policy);
    b->policy = read_policy(b->id, order->policy);
    json_decref(b->peers);
    b->peers = steal_ptr(order->peers);
    for (struct pin *p = b->pins; p; p = p->next)
        number_pin(b, p);
    sweep_pins(b);
    inspect_judge_again(b);
}

void guest_pinned(struct worker *w, const struct wire_order *order)
{
    struct guest *b = *slot_of_id(w, order->id);

    if (b)
        guest_pin(b, order->name, order->addresses, order->address_count, order->ttl);
}

void guest_gone(struct worker *w, const char *id)
{
    struct guest **at = slot_of_id(w, id), *b = *at;

    if (!b)
        return;
    dns_drop_guest(b);
    inspect_drop_guest(b);
    *at = b->next_by_id;
    for (int f = 0; f < WORKER_FAMILIES; f++)
        unlink_address(w, b, f);
    w->guest_count--;
    while (b->pins) {
        struct pin *p = b->pins;

        b->pins = p->next;
        pin_free(p);
    }
    policy_free(b->policy);
    json_decref(b->peers);
    bury(w, &b->grave);
}

/* ---- what was refused ---- */

void guest_denied(struct guest *b, const char *protocol, const struct net_address *address,
                  uint16_t port, const char *name, const struct policy_verdict *verdict)
{
    struct wire_ask told = {.kind = WIRE_DENIED,
                            .protocol = protocol,
                            .port = port,
                            .rule = verdict->rule,
                            .count = 1 + b->denied_unsaid};
    int64_t now = mono_ns();

    if (now - b->denied_at > NS_A_S) {
        b->denied_at = now;
        b->denied_count = 0;
    }
    if (b->denied_count++ >= DENIED_A_SECOND) {
        b->denied_unsaid++;
        return;
    }
    if (address)
        told.address = *address;
    (void)snprintf(told.box, sizeof(told.box), "%s", b->id);
    (void)snprintf(told.name, sizeof(told.name), "%s", name ? name : "");
    (void)snprintf(told.why, sizeof(told.why), "%s", verdict->why);
    if (wire_send(b->worker->warden.fd, wire_ask_json(&told), -1) == 0)
        b->denied_unsaid = 0;
    else
        b->denied_unsaid++; /* the warden is slow: it hears of it with the next one */
}
