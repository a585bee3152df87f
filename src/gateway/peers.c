/* Named networks: who is in one sees its other members, by address and by name, and nobody else. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "gateway/warden.h"

#define MEMBERS_MAX   1024
#define NAMESAKES_MAX 16 /* addresses of one name: names of sandboxes may repeat */

struct member {
    struct box *box;
    char *name; /* of the network */
};

struct network {
    struct network *next;
    char *id;
    struct member *members;
    unsigned n;
};

static struct network *find(const struct warden *w, const char *id)
{
    struct network *n = w->networks;

    while (n && strcmp(n->id, id) != 0)
        n = n->next;
    return n;
}

static struct member *member_of(const struct network *n, const struct box *b)
{
    for (unsigned i = 0; i < n->n; i++)
        if (n->members[i].box == b)
            return &n->members[i];
    return NULL;
}

bool network_has(const struct network *n, const struct box *b)
{
    return member_of(n, b) != NULL;
}

bool peers_share(const struct warden *w, const struct box *a, const struct box *b)
{
    for (const struct network *n = w->networks; n; n = n->next)
        if (member_of(n, a) && member_of(n, b))
            return true;
    return false;
}

static bool is_dns(const struct policy_flow *flow)
{
    return flow->port == DNS_PORT &&
           (flow->protocol == IPPROTO_TCP || flow->protocol == IPPROTO_UDP);
}

void box_judge(const struct warden *w, const struct box *b, const struct policy_flow *flow,
               struct policy_verdict *ret)
{
    const struct box *peer = pools_have(w, &flow->to) ? box_by_address(w, &flow->to) : NULL;

    if (peer && peers_share(w, b, peer)) {
        *ret = (struct policy_verdict){.allowed = true, .rule = POLICY_BUILT_IN};
        (void)snprintf(ret->why, sizeof(ret->why), "%.40s is in a network with it", peer->id);
    } else if (pools_have(w, &flow->to) && !uplink_is_host(w, &flow->to) && !is_dns(flow)) {
        *ret = (struct policy_verdict){.rule = POLICY_BUILT_IN};
        (void)snprintf(ret->why, sizeof(ret->why),
                       "built in: an address of sandboxes (CAY_NET_POOL), but of none that is in a "
                       "network with this one");
    } else {
        policy_judge(b->policy, flow, pins_has, helper_is_host, (void *)(uintptr_t)b, ret);
    }
}

/* ---- the kernel's form: may this link send to that address? ---- */

static void put(const struct warden *w, struct elements *e, const struct box *from,
                const struct box *to, bool add)
{
    element_begin(e, add, "peers4");
    element_key_link(e, from->link);
    element_key_address(e, &to->address);
    element_end(e);
    if (!w->ipv6)
        return;
    element_begin(e, add, "peers6");
    element_key_link(e, from->link);
    element_key_address(e, &to->address6);
    element_end(e);
}

void peers_elements(const struct warden *w, struct elements *e, const struct box *b, bool add)
{
    for (const struct box *other = w->boxes; other && w->networks; other = other->next)
        if (other != b && peers_share(w, b, other))
            put(w, e, b, other, add);
}

/* ---- names ---- */

static void add_name(json_t *names, const char *name, const struct box *b)
{
    char text[NET_ADDRESS_TEXT];
    json_t *list = json_object_get(names, name);

    if (!list) {
        list = json_array();
        (void)json_object_set_new(names, name, list);
    }
    if (json_array_size(list) >= NAMESAKES_MAX)
        return;
    net_address_text(&b->address, text);
    (void)json_array_append_new(list, json_string(text));
    if (b->address6.family == 0)
        return;
    net_address_text(&b->address6, text);
    (void)json_array_append_new(list, json_string(text));
}

json_t *peers_json(const struct warden *w, const struct box *b)
{
    json_t *names = json_object();

    for (const struct network *n = w->networks; n; n = n->next) {
        if (!member_of(n, b))
            continue;
        for (unsigned i = 0; i < n->n; i++) {
            const struct box *other = n->members[i].box;

            for (unsigned k = 0; k < other->n_names; k++) {
                auto_free char *full = xasprintf("%s.%s", other->names[k], n->members[i].name);

                add_name(names, other->names[k], other);
                add_name(names, full, other);
            }
        }
    }
    return names;
}

static void tell_network(struct warden *w, const struct network *n)
{
    for (unsigned i = 0; i < n->n; i++)
        helper_tell_box(w, n->members[i].box);
}

void peers_tell(struct warden *w, const struct box *b)
{
    for (const struct network *n = w->networks; n; n = n->next)
        if (member_of(n, b))
            tell_network(w, n);
}

/* ---- joining and leaving ---- */

static int enter_pairs(struct warden *w, const struct network *n, struct box *b, struct err *err)
{
    struct elements *e = elements_new(w);

    for (unsigned i = 0; i < n->n; i++) {
        if (n->members[i].box == b)
            continue;
        put(w, e, b, n->members[i].box, true);
        put(w, e, n->members[i].box, b, true);
    }
    return rules_commit(w, e, err);
}

int network_join(struct warden *w, const char *network, const char *name, struct box *b,
                 struct err *err)
{
    struct network *n = find(w, network);
    struct member *m;
    int r;

    if (!n) {
        n = xcalloc(1, sizeof(*n));
        n->id = xstrdup(network);
        n->next = w->networks;
        w->networks = n;
    }
    m = member_of(n, b);
    if (!m && n->n >= MEMBERS_MAX)
        return err_code(err, ERR_LIMIT, "network_full", "a network has at most %d members",
                        MEMBERS_MAX);
    if (!m) {
        n->members = xrealloc(n->members, (n->n + 1) * sizeof(*n->members));
        m = &n->members[n->n++];
        *m = (struct member){.box = b};
    }
    free(m->name);
    m->name = xstrdup(name);
    r = enter_pairs(w, n, b, err);
    tell_network(w, n);
    return r;
}

static void network_free_empty(struct warden *w)
{
    for (struct network **p = &w->networks; *p;) {
        struct network *n = *p;

        if (n->n > 0) {
            p = &n->next;
            continue;
        }
        *p = n->next;
        free(n->members);
        free(n->id);
        free(n);
    }
}

/* Who shares another network still may go on. */
static int leave(struct warden *w, struct network *n, struct box *b, bool cut, struct err *err)
{
    struct member *m = member_of(n, b);
    struct elements *e;
    int r;

    free(m->name);
    *m = n->members[--n->n];
    e = elements_new(w);
    for (unsigned i = 0; i < n->n; i++) {
        struct box *other = n->members[i].box;

        if (peers_share(w, b, other))
            continue;
        put(w, e, b, other, false);
        put(w, e, other, b, false);
    }
    r = rules_commit(w, e, err);
    if (cut)
        (void)flows_cut_parted(w, b, n);
    tell_network(w, n);
    return r;
}

int network_leave(struct warden *w, const char *network, struct box *b, struct err *err)
{
    struct network *n = find(w, network);
    int r;

    if (!n || !member_of(n, b)) /* it may have left with rules that the kernel refused */
        return rules_commit(w, elements_new(w), err);
    r = leave(w, n, b, true, err);
    helper_tell_box(w, b);
    network_free_empty(w);
    return r;
}

/* Its flows go with its address. */
void networks_leave_all(struct warden *w, struct box *b)
{
    for (struct network *n = w->networks; n; n = n->next)
        if (member_of(n, b))
            (void)leave(w, n, b, false, NULL);
    network_free_empty(w);
}
