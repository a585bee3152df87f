/* Parts of the gateway's warden, in network namespaces of the test's own. */
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <sched.h>

#include "base/mem.h"
#include "gateway/warden.h"
#include "tap.h"

/* The loop is main.c's. */
void source_add(struct warden *w, struct source *s, int fd,
                void (*ready)(struct warden *, struct source *))
{
    (void)w;
    (void)s;
    (void)fd;
    (void)ready;
}

void source_drop(struct warden *w, struct source *s)
{
    (void)w;
    close_fd(&s->fd);
}

void warden_take_down(struct warden *w)
{
    (void)w;
}

static int new_namespace(void)
{
    int fd;

    if (unshare(CLONE_NEWNET) < 0)
        SKIP("network namespaces need root");
    fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static const char *text_of(struct net_address a)
{
    static char text[NET_ADDRESS_TEXT];

    net_address_text(&a, text);
    return text;
}

/* ---- pools ---- */

TEST(addresses_of_a_pool_follow_each_other)
{
    struct pool p;

    CHECK_INT(pool_parse("10.241.0.0/16", AF_INET, &p), 0);
    CHECK_INT(p.size, 65533);
    CHECK_STR(text_of(pool_address(&p, 1)), "10.241.0.1");
    CHECK_STR(text_of(pool_address(&p, 2)), "10.241.0.2");
    CHECK_STR(text_of(pool_address(&p, 258)), "10.241.1.2");
    CHECK_INT(pool_parse("fd63:6179::/64", AF_INET6, &p), 0);
    CHECK_STR(text_of(pool_address(&p, 258)), "fd63:6179::102");
}

TEST(the_last_address_of_a_small_pool_is_in_it)
{
    struct pool p;
    struct net_address last;

    CHECK_INT(pool_parse("10.9.8.0/29", AF_INET, &p), 0);
    last = pool_address(&p, 2 + p.size - 1);
    CHECK(net_address_in(&last, &p.base, p.bits));
    CHECK_STR(text_of(last), "10.9.8.6"); /* the next is for all of them */
}

TEST(what_is_no_pool_is_refused)
{
    static const char *const bad[] = {"",
                                      "10.241.0.0",
                                      "10.241.0.0/",
                                      "10.241.0.0/33",
                                      "10.0.0.0/7",
                                      "10.241.0.0/31",
                                      "fd63::/64",
                                      "10.241/16",
                                      "x/16",
                                      "10.241.0.0/16x",
                                      "10.241.0.0/-1",
                                      "10.241.255.0/16",
                                      "10.241.0.5/30"};
    struct pool p;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_INT(pool_parse(bad[i], AF_INET, &p), -EINVAL);
}

/* ---- netlink ---- */

TEST(requests_that_were_held_are_all_made)
{
    struct net_address a;
    struct netlink nl = {0};

    (void)new_namespace();
    CHECK_INT(netlink_open(&nl, NETLINK_ROUTE, 0), 0);
    CHECK_INT(net_address_parse("10.1.2.3", &a), 0);
    netlink_hold(&nl);
    CHECK_INT(link_up(&nl, 1, NULL), 0);
    CHECK_INT(address_add(&nl, 1, &a, 32), 0);
    CHECK_INT(netlink_release(&nl), 0);
    /* A route that needs both. */
    CHECK_INT(route_add(&nl, AF_INET, 100, NULL, NULL, &a, 1), 0);
    netlink_close(&nl);
}

TEST(of_requests_that_were_held_the_first_failure_is_told)
{
    struct netlink nl = {0};

    (void)new_namespace();
    CHECK_INT(netlink_open(&nl, NETLINK_ROUTE, 0), 0);
    netlink_hold(&nl);
    CHECK_INT(link_up(&nl, 1, NULL), 0);
    CHECK_INT(link_up(&nl, 4711, NULL), 0);
    CHECK_INT(link_up(&nl, 1, NULL), 0);
    CHECK_INT(netlink_release(&nl), -ENODEV);
    /* And what comes later is not answered with what is left. */
    CHECK_INT(link_index(&nl, "lo"), 1);
    netlink_close(&nl);
}

/* ---- links ---- */

/* A crossroads without rules, in which the test is afterwards. */
static void make_crossroads(struct warden *w)
{
    w->host_ns = w->cross_ns = new_namespace();
    CHECK_INT(netlink_open(&w->cross_rt, NETLINK_ROUTE, 0), 0);
    CHECK_INT(pool_parse("10.241.0.0/16", AF_INET, &w->pool), 0);
    w->gateway = pool_address(&w->pool, 1);
    CHECK_INT(link_up(&w->cross_rt, 1, NULL), 0);
    CHECK_INT(address_add(&w->cross_rt, 1, &w->gateway, 32), 0);
}

static int make_box(const struct warden *w, struct box *b, const char *id, uint32_t offset)
{
    struct err err = {0};
    int ns = new_namespace();

    CHECK_INT(in_namespace(w->host_ns, &err), 0);
    (void)snprintf(b->id, sizeof(b->id), "%s", id);
    (void)snprintf(b->link, sizeof(b->link), "c%u", offset);
    b->offset = offset;
    b->address = pool_address(&w->pool, offset);
    return ns;
}

TEST(a_link_is_made_and_known_by_its_namespace)
{
    static struct warden w;
    struct box one = {0}, other = {0};
    struct err err = {0};
    int ns, other_ns;

    make_crossroads(&w);
    ns = make_box(&w, &one, "sbx_1", 2);
    other_ns = make_box(&w, &other, "sbx_2", 3);
    if (link_make(&w, &one, ns, &err) < 0 && err.sys == EOPNOTSUPP)
        SKIP("this kernel has no veth");
    CHECK_STR(err.text, "");
    CHECK_INT(link_make(&w, &other, other_ns, &err), 0);
    CHECK_INT(link_index(&w.cross_rt, "c2"), one.index);
    CHECK(link_is_in(&w, &one, ns));
    CHECK(!link_is_in(&w, &one, other_ns));
}

TEST(a_namespace_that_has_a_link_already_gets_the_new_one)
{
    static struct warden w;
    struct box one = {0}, next = {0};
    struct err err = {0};
    int ns;

    make_crossroads(&w);
    ns = make_box(&w, &one, "sbx_1", 2);
    if (link_make(&w, &one, ns, &err) < 0 && err.sys == EOPNOTSUPP)
        SKIP("this kernel has no veth");
    CHECK_STR(err.text, "");
    (void)close(make_box(&w, &next, "sbx_2", 3));
    CHECK_INT(link_make(&w, &next, ns, &err), 0);
    CHECK(link_is_in(&w, &next, ns));
    CHECK_INT(link_index(&w.cross_rt, "c2"), -ENODEV);
}

static unsigned seen_dead, seen_alive;

static void count(struct warden *w, const char *name, int index, const char *alias, bool dead,
                  void *arg)
{
    (void)w;
    (void)name;
    (void)index;
    (void)arg;
    if (dead)
        seen_dead++;
    else if (strcmp(alias, "sbx_2") == 0)
        seen_alive++;
}

TEST(buried_links_go_together_and_others_stay)
{
    static struct warden w;
    struct box one = {0}, other = {0};
    struct err err = {0};
    int ns, other_ns;

    make_crossroads(&w);
    ns = make_box(&w, &one, "sbx_1", 2);
    other_ns = make_box(&w, &other, "sbx_2", 3);
    if (link_make(&w, &one, ns, &err) < 0 && err.sys == EOPNOTSUPP)
        SKIP("this kernel has no veth");
    CHECK_INT(link_make(&w, &other, other_ns, &err), 0);
    link_bury(&w, &one);
    CHECK_INT(links_each(&w, count, NULL), 0);
    CHECK_INT(seen_dead, 1);
    CHECK_INT(seen_alive, 1);
    links_sweep(&w);
    seen_dead = seen_alive = 0;
    CHECK_INT(links_each(&w, count, NULL), 0);
    CHECK_INT(seen_dead, 0);
    CHECK_INT(seen_alive, 1);
}

TAP_MAIN
