#include "engine/network_internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/gateway_internal.h"
#include "engine/network.h"
#include "engine/networks_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "policy/address.h"
#include "policy/policy.h"
#include "runtime/runtime.h"

#define STALE_MAX 65536

struct network {
    pthread_mutex_t lock;  /* all below but log; short */
    struct sandbox *first; /* those with a place at the gateway; a reference each */
    json_t *stale;         /* ids that could not be detached yet */
    atomic_bool works;     /* it did once, so that nobody need ask again */
    struct network_log *log;
};

struct network *network_new(const char *data_dir)
{
    struct network *n = xcalloc(1, sizeof(*n));

    pthread_mutex_init(&n->lock, NULL);
    n->stale = json_object();
    n->log = network_log_new(data_dir);
    return n;
}

struct network_log *network_log_of(struct engine *e)
{
    return e->network->log;
}

void sandbox_net_init(struct sandbox_net *n)
{
    pthread_mutex_init(&n->lock, NULL);
}

void sandbox_net_done(struct sandbox_net *n)
{
    json_decref(n->policy);
    json_decref(n->denied);
    pthread_mutex_destroy(&n->lock);
}

/* ---- who has a place at the gateway ---- */

static void list_add(struct network *n, struct sandbox *sb)
{
    pthread_mutex_lock(&n->lock);
    if (!sb->net.listed) {
        sb->net.listed = true;
        sb->net.prev = NULL;
        sb->net.next = n->first;
        if (n->first)
            n->first->net.prev = sb;
        n->first = sandbox_ref(sb);
    }
    pthread_mutex_unlock(&n->lock);
}

static bool is_listed(struct network *n, struct sandbox *sb)
{
    bool yes;

    pthread_mutex_lock(&n->lock);
    yes = sb->net.listed;
    pthread_mutex_unlock(&n->lock);
    return yes;
}

/* True = it was, and the list's reference is the caller's. */
static bool list_remove(struct network *n, struct sandbox *sb)
{
    bool was;

    pthread_mutex_lock(&n->lock);
    was = sb->net.listed;
    if (was) {
        sb->net.listed = false;
        if (sb->net.prev)
            sb->net.prev->net.next = sb->net.next;
        else
            n->first = sb->net.next;
        if (sb->net.next)
            sb->net.next->net.prev = sb->net.prev;
    }
    pthread_mutex_unlock(&n->lock);
    return was;
}

static struct sandbox **list_all(struct network *n, size_t *ret_n)
{
    struct sandbox **all;
    size_t count = 0, i = 0;

    pthread_mutex_lock(&n->lock);
    for (struct sandbox *sb = n->first; sb; sb = sb->net.next)
        count++;
    all = xcalloc(count + 1, sizeof(struct sandbox *));
    for (struct sandbox *sb = n->first; sb; sb = sb->net.next)
        all[i++] = sandbox_ref(sb);
    pthread_mutex_unlock(&n->lock);
    *ret_n = count;
    return all;
}

void network_free(struct network *n)
{
    if (!n)
        return;
    while (n->first) {
        struct sandbox *sb = n->first;

        (void)list_remove(n, sb);
        sandbox_unref(sb);
    }
    json_decref(n->stale);
    network_log_free(n->log);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

/* ---- policies ---- */

int network_read(const json_t *network, json_t **ret, struct err *err)
{
    struct policy *policy = NULL;

    *ret = NULL;
    if (!network || json_is_false(network) ||
        (json_is_string(network) && strcmp(json_string_value(network), "none") == 0))
        return 0;
    if (policy_parse(network, &policy, err) < 0)
        return -1;
    *ret = policy_json(policy);
    policy_free(policy);
    return 0;
}

json_t *network_policy_of(struct sandbox *sb)
{
    json_t *policy;

    pthread_mutex_lock(&sb->lock);
    policy = json_deep_copy(sb->spec.network);
    pthread_mutex_unlock(&sb->lock);
    return policy;
}

bool network_has(struct sandbox *sb)
{
    bool has;

    pthread_mutex_lock(&sb->lock);
    has = sb->spec.network != NULL;
    pthread_mutex_unlock(&sb->lock);
    return has;
}

int engine_check_network(struct engine *e, struct err *err)
{
    if (atomic_load(&e->network->works))
        return 0;
    if (gateway_call(e, json_pack("{s:s}", "op", "hello"), -1, NULL, err) < 0)
        return -1;
    atomic_store(&e->network->works, true);
    return 0;
}

/* ---- what the gateway is told ---- */

static void take_text(const json_t *o, const char *key, char *to, size_t size)
{
    const char *text = json_string_value(json_object_get(o, key));

    (void)snprintf(to, size, "%s", text ? text : "");
}

static void note_addresses(struct engine *e, struct sandbox *sb, const json_t *answer)
{
    pthread_mutex_lock(&sb->lock);
    take_text(answer, "address", sb->net.address, sizeof(sb->net.address));
    take_text(answer, "address6", sb->net.address6, sizeof(sb->net.address6));
    pthread_mutex_unlock(&sb->lock);
    atomic_store(&e->network->works, true);
}

static void clear_addresses(struct sandbox *sb)
{
    pthread_mutex_lock(&sb->lock);
    *sb->net.address = *sb->net.address6 = '\0';
    pthread_mutex_unlock(&sb->lock);
}

static json_t *names_of(struct sandbox *sb)
{
    auto_free char *name = networks_name_of(sb);

    return json_pack("[s]", name);
}

/* With net.lock held. The gateway has the policy in force before there is a link. */
static int tell_attach(struct engine *e, struct sandbox *sb, int ns, struct err *err)
{
    json_t *request = json_pack("{s:s, s:s, s:O, s:o}", "op", "attach", "id", sb->box.id, "policy",
                                sb->net.policy, "names", names_of(sb));
    json_t *answer = NULL;

    if (gateway_call(e, request, ns, &answer, err) < 0)
        return -1;
    note_addresses(e, sb, answer);
    json_decref(answer);
    return networks_join_all(e, sb, err);
}

static int tell_policy(struct engine *e, struct sandbox *sb, struct err *err)
{
    return gateway_call(e,
                        json_pack("{s:s, s:s, s:O, s:o}", "op", "policy", "id", sb->box.id,
                                  "policy", sb->net.policy, "names", names_of(sb)),
                        -1, NULL, err);
}

static int tell_names(struct engine *e, struct sandbox *sb, struct err *err)
{
    return gateway_call(
        e, json_pack("{s:s, s:s, s:o}", "op", "names", "id", sb->box.id, "names", names_of(sb)), -1,
        NULL, err);
}

static int tell_detach(struct engine *e, const char *id, struct err *err)
{
    return gateway_call(e, json_pack("{s:s, s:s}", "op", "detach", "id", id), -1, NULL, err);
}

/* With net.lock held. Takes policy; NULL = nothing. */
static void set_policy(struct sandbox *sb, json_t *policy)
{
    json_decref(sb->net.policy);
    sb->net.policy = policy ? policy : json_false();
}

/* Another attach of the same id is for the same box. */
static int attach_locked(struct engine *e, struct sandbox *sb, struct err *err)
{
    auto_close int ns = -1;

    if (runtime_net(e->runtime, &sb->box, &ns, err) < 0)
        return -1;
    return tell_attach(e, sb, ns, err);
}

/* ---- names ---- */

/* The gateway's own address, the first of the pool. */
bool engine_nameserver(const struct engine_config *config, char ret[NETWORK_ADDRESS_TEXT])
{
    const char *pool = config->net_pool ? config->net_pool : "";
    auto_free char *base = xstrndup(pool, strcspn(pool, "/"));
    struct net_address a;
    uint32_t n;

    if (!config->gateway || net_address_parse(base, &a) < 0 || a.family != AF_INET)
        return false;
    memcpy(&n, a.bytes, sizeof(n));
    n = htonl(ntohl(n) + 1);
    memcpy(a.bytes, &n, sizeof(n));
    net_address_text(&a, ret);
    return true;
}

/* ---- while a box comes up ---- */

static void *attach_main(void *arg)
{
    struct network_attach *a = arg;

    pthread_mutex_lock(&a->sandbox->net.lock);
    a->result = tell_attach(a->engine, a->sandbox, a->ns, &a->err);
    pthread_mutex_unlock(&a->sandbox->net.lock);
    return NULL;
}

static bool same_ns(int a, int b)
{
    struct stat one, other;

    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

void network_begin(struct engine *e, struct sandbox *sb, struct network_attach *a)
{
    json_t *policy = network_policy_of(sb);

    *a = (struct network_attach){
        .engine = e, .sandbox = sb, .wanted = policy || networks_has(sb), .ns = -1, .result = -1};
    if (!a->wanted)
        return;
    pthread_mutex_lock(&sb->net.lock);
    set_policy(sb, policy);
    list_add(e->network, sb);
    pthread_mutex_unlock(&sb->net.lock);
    if (runtime_net(e->runtime, &sb->box, &a->ns, NULL) == 0)
        a->threaded = pthread_create(&a->thread, NULL, attach_main, a) == 0;
}

/* The parked child may have been replaced by another, in a namespace of its own. */
static int settle(struct network_attach *a, struct err *err)
{
    struct engine *e = a->engine;
    struct sandbox *sb = a->sandbox;
    auto_close int ns = -1;
    int r;

    if (runtime_net(e->runtime, &sb->box, &ns, err) < 0)
        return -1;
    if (a->threaded && same_ns(a->ns, ns)) {
        if (a->result < 0 && err)
            *err = a->err;
        return a->result;
    }
    pthread_mutex_lock(&sb->net.lock);
    r = tell_attach(e, sb, ns, err);
    pthread_mutex_unlock(&sb->net.lock);
    return r;
}

int network_end(struct network_attach *a, bool up, struct err *err)
{
    int r = -1;

    if (!a->wanted)
        return 0;
    if (a->threaded)
        (void)pthread_join(a->thread, NULL);
    if (up)
        r = settle(a, err);
    close_fd(&a->ns);
    if (r < 0)
        network_detach(a->engine, a->sandbox);
    return up ? r : 0;
}

int network_attach_up(struct engine *e, struct sandbox *sb, struct err *err)
{
    struct network_attach a;
    json_t *policy = network_policy_of(sb);

    a = (struct network_attach){
        .engine = e, .sandbox = sb, .wanted = policy || networks_has(sb), .ns = -1, .result = -1};
    if (!a.wanted)
        return 0;
    pthread_mutex_lock(&sb->net.lock);
    set_policy(sb, policy);
    list_add(e->network, sb);
    pthread_mutex_unlock(&sb->net.lock);
    return network_end(&a, true, err);
}

/* ---- of one that runs ---- */

/* With net.lock held, of one that has no place yet. */
static int attach_new(struct engine *e, struct sandbox *sb, struct err *err)
{
    list_add(e->network, sb);
    if (attach_locked(e, sb, err) == 0)
        return 0;
    if (list_remove(e->network, sb))
        sandbox_unref(sb);
    return -1;
}

int network_ensure(struct engine *e, struct sandbox *sb, struct err *err)
{
    int r = 0;

    pthread_mutex_lock(&sb->net.lock);
    if (is_listed(e->network, sb)) {
        pthread_mutex_unlock(&sb->net.lock);
        return 0;
    }
    set_policy(sb, network_policy_of(sb));
    r = attach_new(e, sb, err);
    pthread_mutex_unlock(&sb->net.lock);
    return r;
}

static bool is_not_attached(const struct err *err)
{
    return err->kind == ERR_CONFLICT && err->code && strcmp(err->code, "network_not_attached") == 0;
}

/* With net.lock held. */
static int change_locked(struct engine *e, struct sandbox *sb, struct err *err)
{
    struct err why = {0};

    if (tell_policy(e, sb, &why) == 0)
        return 0;
    if (is_not_attached(&why)) /* it was started anew, and comes to this one later */
        return attach_locked(e, sb, err);
    if (err)
        *err = why;
    return -1;
}

bool network_is_refused(const struct err *err)
{
    return err->code && strcmp(err->code, "gateway_failed") == 0;
}

/* With net.lock held. The gateway keeps what the kernel refused, until it is told otherwise. */
static int take_back(struct engine *e, struct sandbox *sb, json_t *policy)
{
    set_policy(sb, policy);
    if (is_listed(e->network, sb))
        (void)tell_policy(e, sb, NULL);
    return -1;
}

int network_change(struct engine *e, struct sandbox *sb, const json_t *policy, bool keep,
                   struct err *err)
{
    json_t *before;
    bool listed;
    int r;

    if (!policy && !keep) {
        network_detach(e, sb);
        return 0;
    }
    pthread_mutex_lock(&sb->net.lock);
    listed = is_listed(e->network, sb);
    before = json_incref(sb->net.policy);
    set_policy(sb, json_deep_copy(policy));
    r = listed ? change_locked(e, sb, err) : attach_new(e, sb, err);
    if (r < 0 && network_is_refused(err))
        r = take_back(e, sb, json_incref(before));
    json_decref(before);
    pthread_mutex_unlock(&sb->net.lock);
    return r;
}

/* ---- going ---- */

static void note_stale(struct network *n, const char *id)
{
    pthread_mutex_lock(&n->lock);
    if (json_object_size(n->stale) < STALE_MAX)
        (void)json_object_set_new(n->stale, id, json_true());
    pthread_mutex_unlock(&n->lock);
}

static json_t *take_stale(struct network *n)
{
    json_t *stale = NULL;

    pthread_mutex_lock(&n->lock);
    if (json_object_size(n->stale) > 0) {
        stale = n->stale;
        n->stale = json_object();
    }
    pthread_mutex_unlock(&n->lock);
    return stale;
}

/* Of one that had no place when it was looked at; it may have been started since. */
static void detach_if_gone(struct engine *e, const char *id)
{
    auto_sandbox struct sandbox *sb = roster_find(e, id);
    bool back = false;

    if (sb) {
        pthread_mutex_lock(&sb->net.lock);
        back = is_listed(e->network, sb);
    }
    if (!back && tell_detach(e, id, NULL) < 0)
        note_stale(e->network, id);
    if (sb)
        pthread_mutex_unlock(&sb->net.lock);
}

/* It answers again: what it could not be told before. */
static void detach_stale(struct engine *e)
{
    json_t *stale = take_stale(e->network), *v;
    const char *id;

    json_object_foreach(stale, id, v)
    {
        detach_if_gone(e, id);
    }
    json_decref(stale);
}

void network_detach(struct engine *e, struct sandbox *sb)
{
    struct err err = {0};
    bool was;

    pthread_mutex_lock(&sb->net.lock);
    was = list_remove(e->network, sb);
    if (was && tell_detach(e, sb->box.id, &err) < 0) {
        note_stale(e->network, sb->box.id);
        log_warn("the network gateway could not be told of a sandbox's end; trying again", "id",
                 sb->box.id, "error", err.text);
        was = false;
        sandbox_unref(sb);
    } else if (was) {
        sandbox_unref(sb);
    }
    pthread_mutex_unlock(&sb->net.lock);
    clear_addresses(sb);
    if (was)
        detach_stale(e);
}

/* ---- a daemon or a gateway that is new ---- */

void network_adopt(struct engine *e, struct sandbox *sb)
{
    json_t *policy = network_policy_of(sb);

    if (!policy && !networks_has(sb))
        return;
    pthread_mutex_lock(&sb->net.lock);
    set_policy(sb, policy);
    list_add(e->network, sb);
    pthread_mutex_unlock(&sb->net.lock);
}

/* What it knows of one, or NULL. */
static const json_t *known_box(const json_t *hello, const char *id)
{
    const json_t *boxes = json_object_get(hello, "boxes");
    size_t i;
    json_t *box;

    json_array_foreach(boxes, i, box)
    {
        const char *its = json_string_value(json_object_get(box, "id"));

        if (its && strcmp(its, id) == 0)
            return box;
    }
    return NULL;
}

/* One that it has keeps its link: its policy, names and networks are said again. */
static void tell_again(struct engine *e, struct sandbox *sb, const json_t *hello)
{
    const json_t *known = known_box(hello, sb->box.id);
    struct err err = {0};
    int r = 0;

    pthread_mutex_lock(&sb->net.lock);
    if (is_listed(e->network, sb)) {
        if (known) {
            pthread_mutex_lock(&sb->lock);
            take_text(known, "address", sb->net.address, sizeof(sb->net.address));
            take_text(known, "address6", sb->net.address6, sizeof(sb->net.address6));
            pthread_mutex_unlock(&sb->lock);
        }
        r = known ? change_locked(e, sb, &err) : attach_locked(e, sb, &err);
        if (r == 0 && known)
            r = tell_names(e, sb, &err) < 0 ? -1 : networks_join_all(e, sb, &err);
    }
    pthread_mutex_unlock(&sb->net.lock);
    if (r < 0 && runtime_lives(e->runtime, &sb->box))
        log_error("a sandbox has no network: the gateway does not take it", "id", sb->box.id,
                  "error", err.text);
}

static void detach_unknown(struct engine *e, const json_t *hello, struct sandbox **all, size_t n)
{
    json_t *ours = json_object(), *box;
    size_t i;

    for (size_t at = 0; at < n; at++)
        (void)json_object_set_new(ours, all[at]->box.id, json_true());
    json_array_foreach(json_object_get(hello, "boxes"), i, box)
    {
        const char *id = json_string_value(json_object_get(box, "id"));

        if (id && !json_object_get(ours, id))
            detach_if_gone(e, id);
    }
    json_decref(ours);
}

/* Called with each gateway that was not told anything by us. Those that come meanwhile tell it
 * themselves; hello is older than the list, so none of them is taken for unknown. */
static void gateway_is_new(struct engine *e, const json_t *hello)
{
    size_t n;
    auto_free struct sandbox **all = list_all(e->network, &n);

    detach_unknown(e, hello, all, n);
    for (size_t i = 0; i < n; i++) {
        tell_again(e, all[i], hello);
        sandbox_unref(all[i]);
    }
    detach_stale(e);
}

/* ---- a link that went under a box ---- */

static struct sandbox *listed_by_id(struct network *n, const char *id)
{
    struct sandbox *sb;

    pthread_mutex_lock(&n->lock);
    sb = n->first;
    while (sb && strcmp(sb->box.id, id) != 0)
        sb = sb->net.next;
    if (sb)
        (void)sandbox_ref(sb);
    pthread_mutex_unlock(&n->lock);
    return sb;
}

/* With net.lock held. The namespace of a box that ended meanwhile may be another's. */
static int attach_anew(struct engine *e, struct sandbox *sb, struct err *err)
{
    if (attach_locked(e, sb, err) < 0) {
        clear_addresses(sb);
        return -1;
    }
    if (runtime_lives(e->runtime, &sb->box))
        return 0;
    return tell_detach(e, sb->box.id, err);
}

/* It goes with every box that ends; one that lives gets another, or is shown without an address. */
static void link_is_lost(struct engine *e, const char *id)
{
    struct sandbox *sb = listed_by_id(e->network, id);
    struct err err = {0};

    if (!sb)
        return;
    pthread_mutex_lock(&sb->net.lock);
    if (is_listed(e->network, sb) && runtime_lives(e->runtime, &sb->box)) {
        if (attach_anew(e, sb, &err) < 0)
            log_error("somebody took the network link of a sandbox away, and it cannot be made",
                      "id", id, "error", err.text);
        else
            log_warn("somebody took the network link of a sandbox away; it has another", "id", id);
    }
    pthread_mutex_unlock(&sb->net.lock);
    sandbox_unref(sb);
}

static void gateway_tells(struct engine *e, const json_t *event)
{
    const char *id = json_string_value(json_object_get(event, "id"));

    if (id && strcmp(json_string_value(json_object_get(event, "event")), "lost") == 0)
        link_is_lost(e, id);
    else
        network_log_add(e, event);
}

int network_start(struct engine *e, struct err *err)
{
    gateway_hooks(e, gateway_is_new, gateway_tells);
    if (gateway_start(e, err) < 0)
        return -1;
    /* Sandboxes that run want one, also if somebody has ended it and its namespace. */
    if (e->network->first)
        (void)gateway_call(e, json_pack("{s:s}", "op", "hello"), -1, NULL, NULL);
    return 0;
}
