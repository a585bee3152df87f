/* The tables of nftables. In G one that judges every packet; in H one that lets G's traffic out and
 * nothing of it in. Rules are made as text by libnftables, elements by elements.c. */
#include "gateway/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

#define TEXT_MAX    (64u << 20) /* of all chains of all policies */
#define SPARE_MAX   32          /* chains that nobody has and that are kept for the next */
#define CHAIN_BYTES 24

/* One policy in the kernel, shared by all boxes that have the same. */
struct chain {
    struct chain *next;
    char key[POLICY_KEY];
    char name[CHAIN_BYTES]; /* of the policy's own chains; ours before them are w_… */
    struct policy *policy;  /* a copy, for its text */
    unsigned users;
    uint64_t put; /* when the last one left; of spares */
};

/* ---- libnftables ---- */

/* A context in the namespace that the process is in. Its socket is the next descriptor. */
static struct nft_ctx *open_context(int *ret_fd)
{
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct nft_ctx *ctx;

    (void)close(next);
    ctx = nft_ctx_new(NFT_CTX_DEFAULT);
    if (!ctx)
        return NULL;
    (void)nft_ctx_buffer_output(ctx);
    (void)nft_ctx_buffer_error(ctx);
    *ret_fd = next;
    return ctx;
}

static int run(struct nft_ctx *ctx, const char *text, const char *what, struct err *err)
{
    const char *said;
    int line;

    if (nft_run_cmd_from_buffer(ctx, text) == 0) {
        (void)nft_ctx_get_output_buffer(ctx);
        (void)nft_ctx_get_error_buffer(ctx);
        return 0;
    }
    said = nft_ctx_get_error_buffer(ctx);
    said = said ? said : "?";
    line = (int)strcspn(said, "\n"); /* the others repeat it, with the text of the rules */
    return err_code(err, ERR_UNAVAILABLE, "gateway_failed", "%s: %.*s", what,
                    line < 160 ? line : 160, said);
}

static int open_nft(struct nft_ctx **ret, uint32_t *ret_portid, struct err *err)
{
    struct sockaddr_nl sa = {0};
    socklen_t len = sizeof(sa);
    struct err why = {0};
    int fd = -1;

    *ret = open_context(&fd);
    if (!*ret || run(*ret, "list tables", "ask for tables", &why) < 0)
        return err_code(err, ERR_UNSUPPORTED, "network_unsupported",
                        "this kernel has no nftables (CONFIG_NF_TABLES), or does not let us use "
                        "them%s%s",
                        why.text[0] ? ": " : "", why.text);
    /* It has a number since it has sent something: what we did is told from what others did. */
    if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0 && sa.nl_family == AF_NETLINK)
        *ret_portid = sa.nl_pid;
    return 0;
}

int rules_open_host(struct warden *w, struct err *err)
{
    return open_nft(&w->host_nft, &w->host_nft_portid, err);
}

int rules_open_cross(struct warden *w, struct err *err)
{
    return open_nft(&w->cross_nft, &w->cross_nft_portid, err);
}

/* ---- G's table ---- */

static const char base_sets[] = "map policy4 { type ifname . ipv4_addr : verdict; }\n"
                                "map policy6 { type ifname . ipv6_addr : verdict; }\n"
                                "map ingress { type ifname : verdict; }\n"
                                "set peers4 { type ifname . ipv4_addr; }\n"
                                "set peers6 { type ifname . ipv6_addr; }\n"
                                "set pins4 { type ifname . ipv4_addr . mark; flags timeout; }\n"
                                "set pins6 { type ifname . ipv6_addr . mark; flags timeout; }\n"
                                "set host4 { type ipv4_addr; }\n"
                                "set host6 { type ipv6_addr; }\n"
                                "set logged { type ifname; size 65536; flags dynamic, timeout; }\n"
                                "set asked { type ifname; size 65536; flags dynamic, timeout; }\n"
                                "set asking { type ifname; size 65536; flags dynamic; }\n"
                                "set peering { type ifname; size 65536; flags dynamic; }\n";

/* Where a packet of a box can end: out, at the worker, at a peer, or refused. */
static const char base_ends[] =
    "chain allow { meta mark set 1 accept; }\n"
    "chain inspect { meta mark set 4 accept; }\n"
    "chain replies { ct state established,related meta mark set 2 accept; drop; }\n"
    "chain refuse {\n"
    " meta l4proto tcp reject with tcp reset\n"
    " reject with icmpx type admin-prohibited\n"
    "}\n"
    "chain odd {\n"
    " update @logged { iifname timeout 1m limit rate 20/second burst 40 packets } "
    "log prefix \"odd -2 \" group 12\n"
    " drop\n"
    "}\n";

/* What comes before every policy: names are ours, peers are free. A flow that a policy let out has
 * a mark, and is neither; most packets are of such. All boxes share the worker's socket and the
 * kernel's table of flows: no box may have so much of either that others come short. */
static const char base_common[] =
    "chain names {\n"
    " update @asked { iifname timeout 1m limit rate over 500/second burst 1000 packets } drop\n"
    " ct state new update @asking { iifname ct count over 2048 } drop\n"
    " meta mark set 3 accept\n"
    "}\n"
    "chain peer {\n"
    " ct state new update @peering { iifname ct count over 4096 } drop\n"
    " meta mark set 2 accept\n"
    "}\n"
    "chain common {\n"
    " ct state established ct mark != 0 ct direction original return\n"
    " ct state invalid drop\n"
    " udp dport 53 goto names\n"
    " tcp dport 53 goto names\n"
    " meta nfproto ipv4 iifname . ip daddr @peers4 goto peer\n"
    " meta nfproto ipv6 iifname . ip6 daddr @peers6 goto peer\n"
    " ct direction reply drop\n"
    " jump pool\n"
    "}\n";

/* Before the kernel puts fragments together (the first rule is for what nearly every packet is);
 * then by the source that a link may have. */
static const char base_hooks[] =
    "chain early { type filter hook prerouting priority -450; policy accept;\n"
    " ip frag-off & 0x3fff == 0 ip hdrlength 5 accept\n"
    " iifname \"" UPLINK "\" accept\n"
    " ip frag-off & 0x3fff != 0 goto odd\n"
    " exthdr frag exists goto odd\n"
    " ip option lsrr exists goto odd\n"
    " ip option ssrr exists goto odd\n"
    " exthdr rt exists goto odd\n"
    "}\n"
    "chain prerouting { type filter hook prerouting priority mangle; policy drop;\n"
    " iifname \"" UPLINK "\" goto replies\n"
    " meta nfproto ipv4 iifname . ip saddr vmap @policy4\n"
    " meta nfproto ipv6 iifname . ip6 saddr vmap @policy6\n"
    "}\n"
    "chain input { type filter hook input priority filter; policy drop;\n"
    " meta mark { 3, 4 } accept\n"
    "}\n"
    "chain forward { type filter hook forward priority filter; policy drop;\n"
    " meta mark 1 oifname \"" UPLINK "\" accept\n"
    " meta mark 2 oifname != \"" UPLINK "\" accept\n"
    "}\n";

/* Only when a policy limits what comes in: every hook costs every packet. */
static const char ingress_hook[] =
    "chain postrouting { type filter hook postrouting priority mangle; policy accept;\n"
    " oifname vmap @ingress\n"
    "}\n";

/* Addresses of the pool are sandboxes', whatever a policy says of their group: one that is no
 * peer's would leave by the uplink. The gateway's is the host's. */
static void put_pool(const struct warden *w, struct buf *out)
{
    char base[NET_ADDRESS_TEXT], base6[NET_ADDRESS_TEXT];

    net_address_text(&w->pool.base, base);
    net_address_text(&w->pool6.base, base6);
    (void)buf_addf(out,
                   "chain no_peer {\n"
                   " update @logged { iifname timeout 1m limit rate 20/second burst 40 packets } "
                   "log prefix \"pool %d \" group %d\n"
                   " goto refuse\n"
                   "}\n"
                   "chain pool {\n"
                   " ip daddr %s/%u ip daddr != @host4 goto no_peer\n"
                   " ip6 daddr %s/%u ip6 daddr != @host6 goto no_peer\n"
                   "}\n",
                   POLICY_BUILT_IN, POLICY_LOG_GROUP, base, w->pool.bits, base6, w->pool6.bits);
}

static void put_nat(const struct warden *w, struct buf *out)
{
    char gateway[NET_ADDRESS_TEXT], gateway6[NET_ADDRESS_TEXT];

    net_address_text(&w->gateway, gateway);
    net_address_text(&w->gateway6, gateway6);
    (void)buf_addf(out,
                   "chain to_worker { type nat hook prerouting priority dstnat; policy accept;\n"
                   " meta nfproto ipv4 meta mark 3 meta l4proto { tcp, udp } dnat ip to %s:%d\n"
                   " meta nfproto ipv4 meta mark 4 meta l4proto tcp dnat ip to %s:%d\n"
                   " meta nfproto ipv6 meta mark 3 meta l4proto { tcp, udp } dnat ip6 to [%s]:%d\n"
                   " meta nfproto ipv6 meta mark 4 meta l4proto tcp dnat ip6 to [%s]:%d\n"
                   "}\n"
                   "chain to_uplink { type nat hook postrouting priority srcnat; policy accept;\n"
                   " oifname \"" UPLINK "\" masquerade\n"
                   "}\n",
                   gateway, DNS_PORT, gateway, LOOK_PORT, gateway6, DNS_PORT, gateway6, LOOK_PORT);
}

/* Ours before the policy's own: w_<name>_4 and _6. */
static int put_chain(const struct chain *c, struct buf *out)
{
    if (policy_nft(c->policy, c->name, out) < 0)
        return -EMSGSIZE;
    return buf_addf(out,
                    "chain w_%s_4 { jump common; goto %s_4; }\n"
                    "chain w_%s_6 { jump common; goto %s_6; }\n",
                    c->name, c->name, c->name, c->name);
}

static void put_host(const struct warden *w, struct elements *e, bool add)
{
    for (unsigned i = 0; i < w->n_host; i++) {
        element_begin(e, add, w->host[i].family == AF_INET ? "host4" : "host6");
        element_key_address(e, &w->host[i]);
        element_end(e);
    }
}

/* All in one transaction but the elements: until those are there, everything is dropped. */
int rules_assert(struct warden *w, struct err *err)
{
    auto_buf struct buf text = {0};
    struct elements *e;
    int r;

    buf_init(&text, TEXT_MAX);
    (void)buf_add_str(&text, "add table inet cay\ndelete table inet cay\ntable inet cay {\n");
    (void)buf_add_str(&text, base_sets);
    (void)policy_nft_groups(&text);
    (void)buf_add_str(&text, base_ends);
    put_pool(w, &text);
    (void)buf_add_str(&text, base_common);
    for (const struct chain *c = w->chains; c; c = c->next)
        (void)put_chain(c, &text);
    if (w->limits_ingress)
        (void)buf_add_str(&text, ingress_hook);
    put_nat(w, &text);
    (void)buf_add_str(&text, base_hooks);
    if (buf_add_str(&text, "}\n") < 0)
        return err_set(err, ERR_INTERNAL, "the rules of all policies are too long");
    if (run(w->cross_nft, text.data, "set the rules of the crossroads", err) < 0)
        return -1;
    e = elements_new(w);
    put_host(w, e, true);
    for (const struct box *b = w->boxes; b; b = b->next)
        box_elements(w, e, b, true);
    r = elements_commit(e);
    return r < 0 ? err_sys(err, -r, "enter the boxes into the rules") : 0;
}

/* ---- chains of policies ---- */

const char *chain_name(const struct chain *c)
{
    return c->name;
}

/* The names of all that a policy has in the table, in the order of the text. */
static void each_object(const char *text, const char *kind, struct buf *out, const char *verb)
{
    size_t len = strlen(kind);

    for (const char *line = text; line && *line;) {
        const char *end = strchr(line, '\n');

        if (strncmp(line, kind, len) == 0 && line[len] == ' ')
            (void)buf_addf(out, "%s %s inet cay %.*s\n", verb, kind,
                           (int)strcspn(line + len + 1, " "), line + len + 1);
        line = end ? end + 1 : NULL;
    }
}

/* A warden before us may have made it already. */
static void put_clean(const struct chain *c, struct buf *out)
{
    auto_buf struct buf text = {0};

    buf_init(&text, POLICY_NFT_BYTES_MAX + 1024);
    (void)put_chain(c, &text);
    each_object(text.data, "chain", out, "add");
    each_object(text.data, "chain", out, "flush");
}

static void chain_remove(struct warden *w, struct chain *c)
{
    auto_buf struct buf text = {0}, command = {0};
    struct err err = {0};

    buf_init(&text, POLICY_NFT_BYTES_MAX + 1024);
    buf_init(&command, POLICY_NFT_BYTES_MAX);
    if (put_chain(c, &text) == 0) {
        each_object(text.data, "chain", &command, "flush");
        each_object(text.data, "chain", &command, "delete");
        each_object(text.data, "set", &command, "delete");
        (void)run(w->cross_nft, command.data, "remove a policy", &err);
    }
    for (struct chain **p = &w->chains; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    policy_free(c->policy);
    free(c);
}

void chain_put(struct warden *w, struct chain *c)
{
    static uint64_t clock;
    struct chain *oldest = NULL;
    unsigned spare = 0;

    if (!c || --c->users > 0)
        return;
    c->put = ++clock;
    for (struct chain *i = w->chains; i; i = i->next) {
        if (i->users > 0)
            continue;
        spare++;
        if (!oldest || i->put < oldest->put)
            oldest = i;
    }
    if (spare > SPARE_MAX)
        chain_remove(w, oldest);
}

static struct policy *copy_policy(const struct policy *p)
{
    json_t *json = policy_json(p);
    struct policy *copy = NULL;
    struct err err = {0};

    (void)policy_parse(json, &copy, &err);
    json_decref(json);
    return copy;
}

struct chain *chain_get(struct warden *w, const struct policy *p, struct err *err)
{
    auto_buf struct buf text = {0};
    char key[POLICY_KEY];
    struct chain *c;

    policy_key(p, key);
    for (c = w->chains; c; c = c->next)
        if (strcmp(c->key, key) == 0) {
            c->users++;
            return c;
        }
    c = xcalloc(1, sizeof(*c));
    memcpy(c->key, key, sizeof(key));
    (void)snprintf(c->name, sizeof(c->name), "p%.16s", key);
    c->policy = copy_policy(p);
    c->users = 1;
    buf_init(&text, 3 * POLICY_NFT_BYTES_MAX);
    if (w->inherited && c->policy)
        put_clean(c, &text);
    (void)buf_add_str(&text, "table inet cay {\n");
    if (policy_has_ingress_rate(p) && !w->limits_ingress)
        (void)buf_add_str(&text, ingress_hook);
    if (!c->policy || put_chain(c, &text) < 0 || buf_add_str(&text, "}\n") < 0 ||
        run(w->cross_nft, text.data, "set the rules of a policy", err) < 0) {
        if (err->kind == ERR_NONE)
            (void)err_set(err, ERR_INTERNAL, "the rules of a policy are too long");
        policy_free(c->policy);
        free(c);
        return NULL;
    }
    w->limits_ingress = w->limits_ingress || policy_has_ingress_rate(p);
    c->next = w->chains;
    w->chains = c;
    return c;
}

/* ---- H's table ---- */

static const char *said(struct nft_ctx *ctx, const char *command)
{
    const char *text =
        nft_run_cmd_from_buffer(ctx, command) == 0 ? nft_ctx_get_output_buffer(ctx) : "";

    (void)nft_ctx_get_error_buffer(ctx);
    return text ? text : "";
}

bool rules_are_there(struct warden *w)
{
    return strstr(said(w->cross_nft, "list chain inet cay prerouting"), "vmap @policy4") &&
           strstr(said(w->cross_nft, "list chain inet cay forward"), "policy drop");
}

/* Did one before us switch it on? Its rules say so. */
bool rules_host_forwards(struct warden *w, const char *family)
{
    auto_free char *command = xasprintf("list chain inet %s forward", w->table);
    auto_free char *rule = xasprintf("meta nfproto %s iifname !=", family);

    return strstr(said(w->host_nft, command), rule) != NULL;
}

static void put_masquerade(const struct warden *w, struct buf *out, const char *family,
                           const struct net_address *from)
{
    char text[NET_ADDRESS_TEXT];

    net_address_text(from, text);
    (void)buf_addf(out, " %s saddr %s oifname != \"%s\" masquerade\n", family, text, w->uplink);
}

/* If we had to switch forwarding on, this host is to forward for sandboxes and for nobody else. */
static void put_forward(const struct warden *w, struct buf *out)
{
    if (!w->forwards && !w->forwards6)
        return;
    (void)buf_add_str(out,
                      "chain forward { type filter hook forward priority filter; policy accept;\n");
    if (w->forwards)
        (void)buf_add_str(out,
                          " meta nfproto ipv4 iifname != \"cay-*\" oifname != \"cay-*\" drop\n");
    if (w->forwards6)
        (void)buf_add_str(out,
                          " meta nfproto ipv6 iifname != \"cay-*\" oifname != \"cay-*\" drop\n");
    (void)buf_add_str(out, "}\n");
}

int rules_assert_host(struct warden *w, struct err *err)
{
    auto_buf struct buf text = {0};

    buf_init(&text, 16384);
    (void)buf_addf(&text, "add table inet %s\ndelete table inet %s\ntable inet %s {\n", w->table,
                   w->table, w->table);
    (void)buf_add_str(&text, "chain out { type nat hook postrouting priority srcnat; policy "
                             "accept;\n");
    put_masquerade(w, &text, "ip", &w->up_cross);
    if (w->ipv6)
        put_masquerade(w, &text, "ip6", &w->up_cross6);
    (void)buf_addf(&text,
                   "}\nchain input { type filter hook input priority filter; policy accept;\n"
                   " iifname \"%s\" drop\n}\n",
                   w->uplink);
    put_forward(w, &text);
    (void)buf_add_str(&text, "}\n");
    return run(w->host_nft, text.data, "set the host's rules for the way out", err);
}

void rules_remove_host(struct warden *w)
{
    auto_free char *text = xasprintf("delete table inet %s\n", w->table);
    struct err err = {0};

    (void)run(w->host_nft, text, "remove the host's rules", &err);
}
