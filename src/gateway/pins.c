/* Which addresses a box was given for which names, for as long as they hold: the kernel has them in
 * sets with timeouts, and a worker that starts anew is told. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gateway/warden.h"

#define ADDRESSES_MAX 64    /* of a name; the one that ends first makes room */
#define PINNED_MAX    16384 /* of a box: each is in the kernel's memory too */
#define RULES_MAX     64
/* What the kernel has for about as long already is not entered again: a pin outlives what the box
 * was told by more than this. */
#define FRESH_NS (10 * 1000000000ll)

/* Answers for IPv4 and IPv6 come one after the other, and many servers give others each time: what
 * a box was told counts for as long as it was told to. */
struct pinned {
    struct net_address address;
    int64_t until_ns;
};

struct pin {
    struct pin *next;
    unsigned n, room;
    struct pinned *addresses;
    char name[];
};

static void pin_free(struct pin *p)
{
    free(p->addresses);
    free(p);
}

void pins_free(struct box *b)
{
    while (b->pins) {
        struct pin *next = b->pins->next;

        pin_free(b->pins);
        b->pins = next;
    }
    b->n_pins = b->n_pinned = 0;
}

/* Those that are over. */
static void drop(struct box *b)
{
    int64_t now = mono_ns();

    for (struct pin **at = &b->pins; *at;) {
        struct pin *p = *at;
        unsigned kept = 0;

        for (unsigned i = 0; i < p->n; i++)
            if (p->addresses[i].until_ns > now)
                p->addresses[kept++] = p->addresses[i];
        b->n_pinned -= p->n - kept;
        p->n = kept;
        if (kept > 0) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        pin_free(p);
        b->n_pins--;
    }
}

static void put(struct elements *e, const struct box *b, const struct net_address *a, unsigned pin,
                uint64_t ms, bool add)
{
    element_begin(e, add, a->family == AF_INET ? "pins4" : "pins6");
    element_key_link(e, b->link);
    element_key_address(e, a);
    element_key_u32(e, POLICY_PIN_MARK + pin);
    if (add)
        element_timeout(e, ms);
    element_end(e);
}

/* What is over may be gone from the kernel or not: adding it before it is deleted, in the same
 * transaction, is right in both cases. A longer time for one that is there needs the same. */
static void put_address(struct elements *e, const struct box *b, const char *name,
                        const struct pinned *a, bool add)
{
    unsigned rules[RULES_MAX], n = policy_rules_for_name(b->policy, name, rules, RULES_MAX);
    int64_t left = (a->until_ns - mono_ns()) / 1000000;
    uint64_t ms = left > 1 ? (uint64_t)left : 1;

    for (unsigned i = 0; i < n; i++) {
        put(e, b, &a->address, rules[i], ms, true);
        put(e, b, &a->address, rules[i], ms, false);
        if (add)
            put(e, b, &a->address, rules[i], ms, true);
    }
}

void pins_elements(const struct warden *w, struct elements *e, const struct box *b, bool add)
{
    (void)w;
    for (const struct pin *p = b->pins; p; p = p->next)
        for (unsigned i = 0; i < p->n; i++)
            put_address(e, b, p->name, &p->addresses[i], add);
}

static struct pin *pin_of(struct box *b, const char *name)
{
    struct pin *p = b->pins;

    while (p && strcmp(p->name, name) != 0)
        p = p->next;
    if (p || b->n_pins >= PINS_MAX)
        return p;
    p = xcalloc(1, sizeof(*p) + strlen(name) + 1);
    memcpy(p->name, name, strlen(name) + 1);
    p->next = b->pins;
    b->pins = p;
    b->n_pins++;
    return p;
}

static struct pinned *place_new(struct box *b, struct pin *p)
{
    b->n_pinned++;
    if (p->n == p->room) {
        p->room = p->room ? p->room * 2 : 4;
        p->addresses = xrealloc(p->addresses, p->room * sizeof(*p->addresses));
    }
    p->addresses[p->n] = (struct pinned){0};
    return &p->addresses[p->n++];
}

/* Where the address is, or is to be; NULL = the box has too many, and this name none. */
static struct pinned *place_of(struct box *b, struct pin *p, const struct net_address *a)
{
    unsigned first = 0;

    for (unsigned i = 0; i < p->n; i++) {
        if (net_address_equal(&p->addresses[i].address, a))
            return &p->addresses[i];
        if (p->addresses[i].until_ns < p->addresses[first].until_ns)
            first = i;
    }
    if (p->n < ADDRESSES_MAX && b->n_pinned < PINNED_MAX)
        return place_new(b, p);
    return p->n > 0 ? &p->addresses[first] : NULL;
}

void pins_add(struct warden *w, struct box *b, const char *name, const struct net_address *v,
              unsigned n, unsigned ttl_s, int *ret_error)
{
    int64_t until = mono_ns() + (int64_t)ttl_s * 1000000000;
    struct elements *e;
    struct pin *p;
    int r;

    drop(b);
    p = pin_of(b, name);
    if (!p) {
        *ret_error = ENOSPC;
        return;
    }
    e = elements_new(w);
    for (unsigned i = 0; i < n; i++) {
        struct pinned *at = place_of(b, p, &v[i]);

        if (!at) {
            *ret_error = ENOSPC;
            break;
        }
        if (at->until_ns != 0 && !net_address_equal(&at->address, &v[i])) {
            put_address(e, b, name, at, false);
            at->until_ns = 0;
        }
        if (at->until_ns + FRESH_NS >= until)
            continue;
        at->address = v[i];
        at->until_ns = until;
        put_address(e, b, name, at, true);
    }
    r = elements_commit(e);
    if (r == 0)
        return;
    *ret_error = -r;
    for (unsigned i = 0; i < p->n; i++)
        if (p->addresses[i].until_ns == until)
            p->addresses[i].until_ns -= FRESH_NS + 1; /* the next answer tries again */
}

bool pins_has(unsigned pin, const struct net_address *a, void *box)
{
    const struct box *b = box;
    int64_t now = mono_ns();

    for (const struct pin *p = b->pins; p; p = p->next) {
        unsigned rules[RULES_MAX], n = 0;

        for (unsigned k = 0; k < p->n; k++)
            if (p->addresses[k].until_ns > now && net_address_equal(&p->addresses[k].address, a)) {
                n = policy_rules_for_name(b->policy, p->name, rules, RULES_MAX);
                break;
            }
        for (unsigned i = 0; i < n; i++)
            if (rules[i] == pin)
                return true;
    }
    return false;
}

void pins_each(const struct box *b,
               void (*each)(const struct box *b, const char *name, const struct net_address *v,
                            unsigned n, unsigned ttl_s, void *arg),
               void *arg)
{
    int64_t now = mono_ns();

    for (const struct pin *p = b->pins; p; p = p->next)
        for (unsigned i = 0; i < p->n; i++) {
            const struct pinned *a = &p->addresses[i];

            if (a->until_ns > now + 1000000000)
                each(b, p->name, &a->address, 1, (unsigned)((a->until_ns - now) / 1000000000), arg);
        }
}
