/* policy_nft() and policy_judge() say the same thing twice. Here the kernel is asked: random
 * policies are loaded in a network namespace without a way out, random packets are put into it
 * through a tun device, and each must end where policy_judge() says. */
#include "base/buf.h"
#include "base/mem.h"
#include "policy/policy.h"
#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define POLICIES 60
#define FLOWS    120
#define BOX      "c1"

static uint32_t seed = 20240;

static unsigned any(unsigned below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}
#define ONE_OF(v) (v)[any(sizeof(v) / sizeof((v)[0]))]

static const char *const places[] = {
    "93.184.216.34",   "93.184.216.35", "8.8.8.8",       "10.0.0.1",   "10.1.0.1",
    "172.16.5.5",      "192.168.7.7",   "192.168.7.8",   "100.64.0.1", "100.100.100.200",
    "169.254.169.254", "169.254.1.1",   "168.63.129.16", "192.0.2.1",  "22.0.0.1",
    "224.0.0.5",       "240.0.0.1",     "11.0.0.1",      "11.0.0.2",   "11.0.0.3",
    "2600::1",         "2600:1::7",     "2001:db8::1",   "fd00::1",    "fd00:ec2::254",
    "64:ff9b::a00:1",  "2002:a00:1::1", "2a00::1",       "2a00::2",    "4000::1",
};
static const char *const hosts[] = {"192.168.7.7", "22.0.0.1", "2600:1::7"};
/* Given for names: to every pin with the number of this list, modulo its length. */
static const char *const given[] = {"11.0.0.1", "11.0.0.2", "2a00::1", "93.184.216.34", "22.0.0.1"};
#define N_GIVEN (sizeof(given) / sizeof(given[0]))
static const unsigned ports[] = {22, 80, 443, 444, 853, 5353, 8000, 8050, 137};

static bool is_one_of(const struct net_address *a, const char *const *v, size_t n, size_t step)
{
    struct net_address other;

    for (size_t i = 0; i < n; i += step)
        if (net_address_parse(v[i], &other) == 0 && net_address_equal(a, &other))
            return true;
    return false;
}

static bool is_host(const struct net_address *a, void *arg)
{
    (void)arg;
    return is_one_of(a, hosts, sizeof(hosts) / sizeof(hosts[0]), 1);
}

static bool pinned(unsigned pin, const struct net_address *a, void *arg)
{
    (void)arg;
    return is_one_of(a, &given[pin % N_GIVEN], 1, 1);
}

/* ---- a random policy ---- */

static void add_rule(json_t *rules)
{
    static const char *const where[] = {"*",
                                        "public",
                                        "private",
                                        "host",
                                        "metadata",
                                        "link-local",
                                        "10.0.0.0/8",
                                        "0.0.0.0/0",
                                        "93.184.216.0/24",
                                        "192.168.7.7",
                                        "8.0.0.0/5",
                                        "169.254.169.254",
                                        "192.0.2.0/24",
                                        "2600::/16",
                                        "::/0",
                                        "fd00::/8",
                                        "2001:db8::1",
                                        "a.test",
                                        "b.test",
                                        "*.c.test",
                                        "d.test",
                                        "host.cay.internal",
                                        "8.8.8.8",
                                        "64:ff9b::/96",
                                        "multicast"};
    static const char *const protocols[] = {NULL,  NULL,   "tcp",    "tcp",
                                            "udp", "icmp", "icmpv6", "tcp,udp"};
    static const char *const numbers[] = {NULL, NULL, "443", "80,443", "8000-8100", "853", "22"};
    const char *destination = ONE_OF(where), *protocol = ONE_OF(protocols), *port = ONE_OF(numbers);
    bool allow = any(3) > 0 && strcmp(destination, "multicast") != 0;
    json_t *r =
        json_pack("{s:s, s:s}", "action", allow ? "allow" : "deny", "destination", destination);

    if (protocol)
        json_object_set_new(r, "protocol", json_string(protocol));
    if (port && !(protocol && protocol[0] == 'i'))
        json_object_set_new(r, "port", json_string(port));
    json_array_append_new(rules, r);
}

static json_t *random_policy(void)
{
    json_t *rules = json_array();

    for (unsigned n = any(9); n > 0; n--)
        add_rule(rules);
    return json_pack("{s:s, s:o, s:i}", "default", any(3) ? "deny" : "allow", "rules", rules,
                     "maxConnections", 65536);
}

/* ---- the kernel ---- */

/* Runs nft with a text as its input; what it says goes to out, if there is one. */
static int nft(const char *text, const char *const *argv, struct buf *out)
{
    int in[2], said[2], status;
    char chunk[4096];
    ssize_t n;
    pid_t pid;

    CHECK(pipe(in) == 0 && pipe(said) == 0);
    pid = fork();
    if (pid == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(said[1], 1);
        close(in[1]);
        close(said[0]);
        execvp("nft", (char *const *)argv);
        _exit(127);
    }
    close(in[0]);
    close(said[1]);
    for (size_t done = 0, len = strlen(text); done < len; done += (size_t)n) {
        n = write(in[1], text + done, len - done);
        CHECK(n > 0);
    }
    close(in[1]);
    while ((n = read(said[0], chunk, sizeof(chunk))) > 0)
        if (out)
            CHECK_INT(buf_add(out, chunk, (size_t)n), 0);
    close(said[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void add_elements(struct buf *b, const char *set, const char *const *v, size_t n, int family)
{
    struct net_address a;

    for (size_t i = 0; i < n; i++)
        if (net_address_parse(v[i], &a) == 0 && a.family == family)
            (void)buf_addf(b, "add element inet cay %s { %s }\n", set, v[i]);
}

/* The table that policy.h asks for; the packets' sources, which are their numbers, are kept in sets
 * by where they ended. */
static void load(const struct policy *p)
{
    static const char *const argv[] = {"nft", "-f", "-", NULL};
    static const char *const ends[] = {"allow", "inspect", "refuse"};
    struct buf b;

    buf_init(&b, 4 << 20);
    (void)buf_add_str(&b, "flush ruleset\ntable inet cay {\n"
                          "set pins4 { type ifname . ipv4_addr . mark; flags timeout; }\n"
                          "set pins6 { type ifname . ipv6_addr . mark; flags timeout; }\n"
                          "set host4 { type ipv4_addr; }\nset host6 { type ipv6_addr; }\n"
                          "set logged { type ifname; size 65536; flags dynamic, timeout; }\n");
    for (int i = 0; i < 3; i++)
        (void)buf_addf(&b,
                       "set %s4 { type ipv4_addr; size 4096; flags dynamic; }\n"
                       "set %s6 { type ipv6_addr; size 4096; flags dynamic; }\n"
                       "chain %s { add @%s4 { ip saddr }\nadd @%s6 { ip6 saddr }\ndrop\n}\n",
                       ends[i], ends[i], ends[i], ends[i], ends[i]);
    CHECK_INT(policy_nft_groups(&b), 0);
    CHECK_INT(policy_nft(p, "p_test", &b), 0);
    (void)buf_add_str(&b, "chain pre { type filter hook prerouting priority mangle;\n"
                          "iifname \"" BOX "\" meta nfproto ipv4 goto p_test_4\n"
                          "iifname \"" BOX "\" ip6 saddr fd99::/16 goto p_test_6\n}\n}\n");
    add_elements(&b, "host4", hosts, 3, AF_INET);
    add_elements(&b, "host6", hosts, 3, AF_INET6);
    for (unsigned pin = 0; pin < 16; pin++) {
        bool six = strchr(given[pin % N_GIVEN], ':');

        (void)buf_addf(&b, "add element inet cay pins%c { \"%s\" . %s . 0x%x }\n", six ? '6' : '4',
                       BOX, given[pin % N_GIVEN], POLICY_PIN_MARK + pin);
    }
    if (nft(b.data, argv, NULL) != 0)
        TAP_FAIL("nft does not take:\n%s", b.data);
    buf_done(&b);
}

static int make_tun(void)
{
    struct ifreq r = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC), s = socket(AF_INET, SOCK_DGRAM, 0);

    snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", BOX);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &r) < 0)
        SKIP("no tun devices here");
    r.ifr_flags = IFF_UP;
    CHECK(ioctl(s, SIOCSIFFLAGS, &r) == 0);
    close(s);
    return fd;
}

static uint16_t sum(const unsigned char *v, size_t len)
{
    uint32_t start = 0;

    for (size_t i = 0; i < len; i += 2)
        start += (uint32_t)(v[i] << 8 | v[i + 1]);
    while (start >> 16)
        start = (start & 0xffff) + (start >> 16);
    return (uint16_t)~start;
}

/* A packet whose source says its number. What is above IP is complete as far as conntrack and the
 * rules look; sums of TCP and UDP are not looked at (net.netfilter.nf_conntrack_checksum). */
static void send_packet(int tun, const struct policy_flow *f, unsigned number)
{
    unsigned char p[80] = {0}, *t;
    uint16_t check;
    size_t head = f->to.family == AF_INET ? 20 : 40, len = head + 20;

    if (f->to.family == AF_INET) {
        const unsigned char ip[] = {0x45, 0, 0, (unsigned char)len, 0, 0, 0x40, 0, 64, f->protocol};

        memcpy(p, ip, sizeof(ip));
        memcpy(p + 12,
               (unsigned char[]){10, 9, (unsigned char)(number >> 8), (unsigned char)number}, 4);
        memcpy(p + 16, f->to.bytes, 4);
        check = sum(p, 20);
        p[10] = (unsigned char)(check >> 8);
        p[11] = (unsigned char)check;
    } else {
        p[0] = 0x60;
        p[5] = 20;
        p[6] = f->protocol;
        p[7] = 64;
        memcpy(p + 8, (unsigned char[]){0xfd, 0x99}, 2);
        p[22] = (unsigned char)(number >> 8);
        p[23] = (unsigned char)number;
        memcpy(p + 24, f->to.bytes, 16);
    }
    t = p + head;
    t[0] = 0x30;
    t[1] = 0x39;
    t[2] = (unsigned char)(f->port >> 8);
    t[3] = (unsigned char)f->port;
    if (f->protocol == IPPROTO_TCP) {
        t[12] = 0x50;
        t[13] = 2; /* SYN */
    } else if (f->protocol == IPPROTO_UDP) {
        t[5] = 20;
    } else {
        memset(t, 0, 4);
        t[0] = f->protocol == IPPROTO_ICMP ? 8 : 128;
    }
    CHECK_INT(write(tun, p, len), (ssize_t)len);
}

static struct policy_flow random_flow(void)
{
    struct policy_flow f = {.direction = POLICY_EGRESS};
    unsigned kind = any(6);

    CHECK_INT(net_address_parse(ONE_OF(places), &f.to), 0);
    f.port = (uint16_t)ONE_OF(ports);
    f.protocol = kind < 3                 ? IPPROTO_TCP
                 : kind < 5               ? IPPROTO_UDP
                 : f.to.family == AF_INET ? IPPROTO_ICMP
                                          : IPPROTO_ICMPV6;
    return f;
}

/* Which of the three sets has it? */
static const char *ended(const struct buf *table, const struct policy_flow *f, unsigned number)
{
    static const char *const ends[] = {"allow", "inspect", "refuse"};
    char name[16], source[NET_ADDRESS_TEXT];
    struct net_address a = {.family = f->to.family};

    memcpy(a.bytes, (unsigned char[]){10, 9, (unsigned char)(number >> 8), (unsigned char)number},
           4);
    if (a.family == AF_INET6) {
        memcpy(a.bytes, (unsigned char[]){0xfd, 0x99, 0, 0}, 4);
        a.bytes[14] = (unsigned char)(number >> 8);
        a.bytes[15] = (unsigned char)number;
    }
    net_address_text(&a, source);
    for (int i = 0; i < 3; i++) {
        const char *at, *end;

        snprintf(name, sizeof(name), "set %s%c {", ends[i], a.family == AF_INET ? '4' : '6');
        at = strstr(table->data, name);
        CHECK(at);
        end = strstr(at, "\n\t}");
        while ((at = strstr(at, source)) && at < end) {
            at += strlen(source);
            if (*at == ',' || *at == ' ')
                return ends[i];
        }
    }
    return "nowhere";
}

static void check_policy(int tun)
{
    static const char *const argv[] = {"nft", "list", "table", "inet", "cay", NULL};
    json_t *in = random_policy();
    struct policy_flow flows[FLOWS];
    struct policy *p = NULL;
    struct err err = {0};
    struct buf table;

    if (policy_parse(in, &p, &err) < 0)
        TAP_FAIL("%s", err.text);
    load(p);
    for (unsigned i = 0; i < FLOWS; i++) {
        flows[i] = random_flow();
        send_packet(tun, &flows[i], i + 1);
    }
    buf_init(&table, 4 << 20);
    CHECK_INT(nft("", argv, &table), 0);
    for (unsigned i = 0; i < FLOWS; i++) {
        char to[NET_ADDRESS_TEXT];
        struct policy_verdict v;
        const char *want, *got = ended(&table, &flows[i], i + 1);

        policy_judge(p, &flows[i], pinned, is_host, NULL, &v);
        want = !v.allowed ? "refuse" : v.inspect ? "inspect" : "allow";
        net_address_text(&flows[i].to, to);
        if (strcmp(got, want) != 0)
            TAP_FAIL("%s\n# protocol %u to %s port %u: judged %s (%s), the kernel says %s",
                     json_dumps(in, 0), flows[i].protocol, to, flows[i].port, want, v.why, got);
    }
    buf_done(&table);
    policy_free(p);
    json_decref(in);
}

TEST(the_kernel_decides_as_the_policy_is_judged)
{
    static const char *const argv[] = {"nft", "list", "tables", NULL};
    int tun;

    if (unshare(CLONE_NEWNET) < 0)
        SKIP("needs root, for a network namespace");
    if (nft("", argv, NULL) != 0)
        SKIP_WITHOUT_PROGRAM("needs nft");
    tun = make_tun();
    for (int i = 0; i < POLICIES; i++)
        check_policy(tun);
    close(tun);
}

TAP_MAIN
