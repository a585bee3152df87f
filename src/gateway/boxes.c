/* The boxes that are attached: their addresses, links, policies. */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "gateway/warden.h"

#define SWEEP_MAX         1024              /* addresses of removed boxes that wait for a sweep */
#define IDLE_NS           (250 * 1000000ll) /* time without a request before a sweep */
#define SWEEP_IDLE_FACTOR 20 /* that time is at least this many times the last sweep's duration */
#define WAIT_NS           (20 * 1000000000ll) /* longest time until a sweep, also under load */

/* ---- finding one ---- */

static struct box **bucket(const struct warden *w, const char *id)
{
    return (struct box **)&w->by_id[str_hash(id) % BOX_HASH];
}

struct box *box_find(const struct warden *w, const char *id)
{
    struct box *b = *bucket(w, id);

    while (b && strcmp(b->id, id) != 0)
        b = b->same;
    return b;
}

struct box *box_by_address(const struct warden *w, const struct net_address *a)
{
    struct box *b = w->boxes;

    while (b && !net_address_equal(&b->address, a) && !net_address_equal(&b->address6, a))
        b = b->next;
    return b;
}

/* ---- addresses: those that were not used for longest come first ---- */

static bool is_taken(const struct warden *w, uint32_t n)
{
    return w->taken[n / 8] & 1u << n % 8;
}

static void mark(struct warden *w, uint32_t n, bool taken)
{
    if (!w->taken)
        w->taken = xcalloc(OFFSETS_MAX / 8, 1);
    if (taken)
        w->taken[n / 8] |= (uint8_t)(1u << n % 8);
    else
        w->taken[n / 8] &= (uint8_t) ~(1u << n % 8);
}

static int take_offset(struct warden *w, uint32_t *ret, struct err *err)
{
    if (!w->taken)
        w->taken = xcalloc(OFFSETS_MAX / 8, 1);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < w->pool.size; i++) {
            uint32_t n = 2 + (w->next_offset + i) % w->pool.size;

            if (is_taken(w, n))
                continue;
            mark(w, n, true);
            w->next_offset = n - 1;
            *ret = n;
            return 0;
        }
        boxes_sweep(w); /* those whose flows were still to go */
    }
    return err_code(err, ERR_LIMIT, "network_full",
                    "all addresses of %s are in use: see CAY_NET_POOL", w->setup.pool);
}

static void set_addresses(const struct warden *w, struct box *b)
{
    b->address = pool_address(&w->pool, b->offset);
    b->address6 = w->ipv6 ? pool_address(&w->pool6, b->offset) : (struct net_address){0};
}

/* ---- the kernel's form of one ---- */

static void policy_element(struct elements *e, const struct box *b, const struct net_address *a,
                           bool add)
{
    char chain[40];

    (void)snprintf(chain, sizeof(chain), "w_%s_%c", chain_name(b->chain),
                   a->family == AF_INET ? '4' : '6');
    element_begin(e, add, a->family == AF_INET ? "policy4" : "policy6");
    element_key_link(e, b->link);
    element_key_address(e, a);
    if (add)
        element_jump(e, true, chain);
    element_end(e);
}

static void policy_elements(const struct warden *w, struct elements *e, const struct box *b,
                            bool add)
{
    char chain[40];

    policy_element(e, b, &b->address, add);
    if (w->ipv6)
        policy_element(e, b, &b->address6, add);
    if (!policy_has_ingress_rate(b->policy))
        return;
    (void)snprintf(chain, sizeof(chain), "%s_in", chain_name(b->chain));
    element_begin(e, add, "ingress");
    element_key_link(e, b->link);
    if (add)
        element_jump(e, false, chain);
    element_end(e);
}

void box_elements(const struct warden *w, struct elements *e, const struct box *b, bool add)
{
    policy_elements(w, e, b, add);
    peers_elements(w, e, b, add);
    pins_elements(w, e, b, add);
}

/* ---- policies ---- */

static int read_policy(const json_t *in, struct policy **ret, struct err *err)
{
    json_t *nothing = json_pack("{s:s}", "default", "deny");
    int r = policy_parse(json_is_false(in) || !in ? nothing : in, ret, err);

    if (r == 0 && !*ret)
        r = policy_parse(nothing, ret, err);

    json_decref(nothing);
    return r;
}

static void set_policy(struct box *b, const json_t *json, struct policy *p, struct chain *c)
{
    json_decref(b->policy_json);
    policy_free(b->policy);
    b->policy_json = json ? json_deep_copy(json) : json_false();
    b->policy = p;
    b->chain = c;
}

int box_policy(struct warden *w, struct box *b, const json_t *policy, unsigned *ret_cut,
               struct err *err)
{
    struct chain *chain, *old = b->chain;
    bool same = !b->untold && json_equal(b->policy_json, policy);
    struct policy *p;
    struct elements *e;
    int r;

    if (read_policy(policy, &p, err) < 0)
        return -1;
    chain = chain_get(w, p, err);
    if (!chain) {
        policy_free(p);
        return -1;
    }
    /* Old elements go and new ones come in one transaction: there is no moment without a policy. */
    e = elements_new(w);
    policy_elements(w, e, b, false);
    pins_elements(w, e, b, false);
    set_policy(b, policy, p, chain);
    b->untold = false;
    policy_elements(w, e, b, true);
    pins_elements(w, e, b, true);
    r = rules_commit(w, e, err);
    chain_put(w, old);
    helper_tell_box(w, b);
    if (r < 0)
        return -1;
    /* What this same policy let in may go on, though the name that it asked for is pinned no more:
     * a daemon that has started says all policies again. */
    *ret_cut = same ? 0 : flows_cut(w, b);
    return 0;
}

/* ---- coming and going ---- */

static void list_box(struct warden *w, struct box *b)
{
    b->next = w->boxes;
    w->boxes = b;
    b->same = *bucket(w, b->id);
    *bucket(w, b->id) = b;
    w->n_boxes++;
}

static void unlist_box(struct warden *w, struct box *b)
{
    for (struct box **p = &w->boxes; *p; p = &(*p)->next)
        if (*p == b) {
            *p = b->next;
            break;
        }
    for (struct box **p = bucket(w, b->id); *p; p = &(*p)->same)
        if (*p == b) {
            *p = b->same;
            break;
        }
    w->n_boxes--;
}

static void box_free(struct box *b)
{
    json_decref(b->policy_json);
    policy_free(b->policy);
    pins_free(b);
    for (unsigned i = 0; i < b->n_names; i++)
        free(b->names[i]);
    free(b);
}

/* An address is free again when its flows are gone. */
static void let_go(struct warden *w, uint32_t offset)
{
    if (w->n_dead == 0)
        w->dead_ns = mono_ns();
    w->dead = xrealloc(w->dead, (w->n_dead + 1) * sizeof(*w->dead));
    w->dead[w->n_dead++] = offset;
    tasks_soon(w);
}

/* A request that comes during a sweep waits until the sweep ends, and a sweep of many flows takes
 * long. So a sweep starts after a time without requests, or when SWEEP_MAX addresses wait for it,
 * or WAIT_NS after the first of them. */
static bool may_sweep(const struct warden *w)
{
    int64_t now = mono_ns(), idle = w->sweep_ns * SWEEP_IDLE_FACTOR;

    if (idle < IDLE_NS)
        idle = IDLE_NS;
    return w->n_dead > 0 &&
           (w->n_dead >= SWEEP_MAX || now - w->busy_ns > idle || now - w->dead_ns > WAIT_NS);
}

void boxes_rest(struct warden *w)
{
    if (may_sweep(w))
        boxes_sweep(w);
    else if (w->n_dead > 0)
        tasks_soon(w);
}

void boxes_sweep(struct warden *w)
{
    int64_t began = mono_ns();

    if (w->n_dead == 0)
        return;
    links_sweep(w);
    flows_sweep(w, w->dead, w->n_dead);
    for (unsigned i = 0; i < w->n_dead; i++)
        mark(w, w->dead[i], false);
    w->n_dead = 0;
    w->sweep_ns = mono_ns() - began;
}

void box_detach(struct warden *w, struct box *b)
{
    struct elements *e = elements_new(w);

    networks_leave_all(w, b);
    policy_elements(w, e, b, false);
    pins_elements(w, e, b, false);
    unlist_box(w, b);               /* first: rules that have to be made anew are without it */
    (void)rules_commit(w, e, NULL); /* its link carries nothing any more */
    link_bury(w, b);
    helper_tell_gone(w, b->id);
    chain_put(w, b->chain);
    let_go(w, b->offset);
    box_free(b);
}

static int box_new(struct warden *w, const char *id, const json_t *policy, struct box **ret,
                   struct err *err)
{
    struct box *b = xcalloc(1, sizeof(*b));
    struct policy *p;

    b->warden = w;
    (void)snprintf(b->id, sizeof(b->id), "%s", id);
    if (read_policy(policy, &p, err) < 0) {
        free(b);
        return -1;
    }
    set_policy(b, policy, p, NULL);
    b->chain = chain_get(w, p, err);
    if (!b->chain) {
        box_free(b);
        return -1;
    }
    *ret = b;
    return 0;
}

int box_attach(struct warden *w, const char *id, const json_t *policy, int netns, struct box **ret,
               struct err *err)
{
    struct box *b = box_find(w, id);
    struct elements *e;
    unsigned cut;
    int r;

    /* The same box again, as a daemon sends it that has started: its flows go on. */
    if (b && b->index > 0 && link_is_in(w, b, netns)) {
        *ret = b;
        return box_policy(w, b, policy, &cut, err);
    }
    if (b)
        box_detach(w, b);
    if (w->n_boxes >= BOXES_MAX)
        return err_code(err, ERR_LIMIT, "network_full", "too many sandboxes have a network");
    if (box_new(w, id, policy, &b, err) < 0)
        return -1;
    if (take_offset(w, &b->offset, err) < 0) {
        chain_put(w, b->chain);
        box_free(b);
        return -1;
    }
    set_addresses(w, b);
    (void)snprintf(b->link, sizeof(b->link), LINK_PREFIX "%llu",
                   (unsigned long long)++w->next_link);
    list_box(w, b);
    /* The policy is there before the link is. */
    e = elements_new(w);
    box_elements(w, e, b, true);
    r = rules_commit(w, e, err);
    if (r == 0)
        r = link_make(w, b, netns, err);
    if (r < 0) {
        box_detach(w, b);
        return -1;
    }
    helper_tell_box(w, b);
    *ret = b;
    return 0;
}

/* ---- links that somebody else takes away ---- */

/* The daemon knows whether the box lives, and attaches it anew then. */
static void lost(struct warden *w, struct box *b)
{
    b->index = 0;
    control_tell(w, json_pack("{s:s, s:s}", "event", "lost", "id", b->id));
}

void box_link_gone(struct warden *w, int index)
{
    for (struct box *b = w->boxes; b; b = b->next)
        if (b->index == index) {
            lost(w, b);
            return;
        }
}

void boxes_look(struct warden *w)
{
    for (struct box *b = w->boxes; b; b = b->next)
        if (b->index > 0 && link_index(&w->cross_rt, b->link) != b->index)
            lost(w, b);
}

/* ---- after a warden that was here before ---- */

/* Where routes lead: a link, and the offset of the address that it has. */
struct found {
    const struct pool *pool;
    struct {
        int index;
        uint32_t offset;
    } * list;
    unsigned n;
};

static int see_route(const struct nlmsghdr *msg, void *arg)
{
    const struct rtmsg *body = mnl_nlmsg_get_payload(msg);
    struct net_address to = {.family = AF_INET};
    struct found *found = arg;
    struct nlattr *a;
    int index = 0;

    mnl_attr_for_each(a, msg, sizeof(*body))
    {
        if (mnl_attr_get_type(a) == RTA_DST && mnl_attr_get_payload_len(a) == 4)
            memcpy(to.bytes, mnl_attr_get_payload(a), 4);
        else if (mnl_attr_get_type(a) == RTA_OIF)
            index = (int)mnl_attr_get_u32(a);
    }
    if (body->rtm_table != TABLE_BOX || found->n >= BOXES_MAX)
        return MNL_CB_OK;
    found->list = xrealloc(found->list, (found->n + 1) * sizeof(*found->list));
    found->list[found->n].index = index;
    found->list[found->n++].offset = pool_offset(found->pool, &to);
    return MNL_CB_OK;
}

static int find_routes(struct warden *w, struct found *ret)
{
    const struct rtmsg body = {.rtm_family = AF_INET, .rtm_table = TABLE_BOX};
    char room[NL_ROOM];

    *ret = (struct found){.pool = &w->pool};
    return netlink_dump(&w->cross_rt,
                        netlink_begin(room, RTM_GETROUTE, NLM_F_DUMP, &body, sizeof(body)),
                        see_route, ret);
}

/* 0 = it has none, or one that this pool has not. */
static uint32_t offset_of(const struct found *found, int index)
{
    for (unsigned i = 0; i < found->n; i++)
        if (found->list[i].index == index && found->list[i].offset > 0)
            return found->list[i].offset;
    return 0;
}

static void bury_named(struct warden *w, const char *name)
{
    struct box gone = {0};

    (void)snprintf(gone.link, sizeof(gone.link), "%s", name);
    link_bury(w, &gone);
}

/* Nothing is allowed until the daemon has said what: a link that is there is judged by the rules
 * that it finds meanwhile, which are replaced when it has. */
static void adopt(struct warden *w, const char *name, int index, const char *alias, bool dead,
                  void *arg)
{
    uint32_t offset = offset_of(arg, index);
    uint64_t number = strtoull(name + 1, NULL, 10);
    struct err err = {0};
    struct box *b;

    if (number > w->next_link)
        w->next_link = number;
    if (dead || offset == 0 || alias[0] == '\0' || box_find(w, alias) ||
        box_new(w, alias, NULL, &b, &err) < 0) {
        bury_named(w, name);
        return;
    }
    b->untold = true;
    b->index = index;
    b->offset = offset;
    (void)snprintf(b->link, sizeof(b->link), "%s", name);
    set_addresses(w, b);
    mark(w, b->offset, true);
    list_box(w, b);
}

/* Flows of those that ended while nobody looked: their addresses are the next ones'. */
static void sweep_unused(struct warden *w)
{
    auto_free uint32_t *unused = xcalloc(w->pool.size, sizeof(*unused));
    unsigned n = 0;

    for (uint32_t i = 2; i < 2 + w->pool.size; i++)
        if (!w->taken || !is_taken(w, i))
            unused[n++] = i;
    flows_sweep(w, unused, n);
}

int boxes_adopt(struct warden *w, struct err *err)
{
    struct found found;
    int r = find_routes(w, &found);

    if (r == 0)
        r = links_each(w, adopt, &found);
    free(found.list);
    links_sweep(w);
    if (r == 0)
        sweep_unused(w);
    return r < 0 ? err_sys(err, -r, "look at the links that are there") : 0;
}
