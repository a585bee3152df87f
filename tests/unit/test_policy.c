#include "policy/policy.h"
#include "tap.h"

#include <netinet/in.h>

static struct policy *parse(const char *text)
{
    json_t *in = json_loads(text, JSON_DECODE_ANY, NULL);
    struct policy *p = NULL;
    struct err err = {0};

    if (!in)
        TAP_FAIL("no JSON: %s", text);
    if (policy_parse(in, &p, &err) < 0)
        TAP_FAIL("%s: %s", text, err.text);
    json_decref(in);
    return p;
}

/* Of the tests' worlds: pin 0 to 3 have 11.0.0.<pin>, the host is 192.168.7.7 and 22.0.0.1. */
static bool pinned(unsigned pin, const struct net_address *a, void *arg)
{
    (void)arg;
    return a->family == AF_INET && a->bytes[0] == 11 && a->bytes[3] == pin;
}

static bool is_host(const struct net_address *a, void *arg)
{
    struct net_address h[3];

    (void)arg;
    net_address_parse("192.168.7.7", &h[0]);
    net_address_parse("22.0.0.1", &h[1]);
    net_address_parse("2600:1::7", &h[2]);
    return net_address_equal(a, &h[0]) || net_address_equal(a, &h[1]) ||
           net_address_equal(a, &h[2]);
}

/* "tcp 1.2.3.4 443" */
static struct policy_flow flow_of(const char *text)
{
    struct policy_flow f = {.direction = POLICY_EGRESS};
    char protocol[8], address[64];
    unsigned port;

    if (sscanf(text, "%7s %63s %u", protocol, address, &port) != 3 ||
        net_address_parse(address, &f.to) < 0)
        TAP_FAIL("no flow: %s", text);
    f.port = (uint16_t)port;
    f.protocol = strcmp(protocol, "tcp") == 0    ? IPPROTO_TCP
                 : strcmp(protocol, "udp") == 0  ? IPPROTO_UDP
                 : strcmp(protocol, "icmp") == 0 ? IPPROTO_ICMP
                 : strcmp(protocol, "sctp") == 0 ? IPPROTO_SCTP
                                                 : IPPROTO_ICMPV6;
    return f;
}

/* A flow and what becomes of it: "no", "yes" or "look" (inspect), and which rule says so. */
struct flow_case {
    const char *flow, *verdict;
    int rule;
};

static void check_flows(const char *policy, const struct flow_case *cases)
{
    struct policy *p = parse(policy);

    for (const struct flow_case *c = cases; c->flow; c++) {
        struct policy_flow f = flow_of(c->flow);
        struct policy_verdict v;
        const char *got;

        policy_judge(p, &f, pinned, is_host, NULL, &v);
        got = !v.allowed ? "no" : v.inspect ? "look" : "yes";
        if (strcmp(got, c->verdict) != 0 || v.rule != c->rule)
            TAP_FAIL("%s: %s is %s by %d (%s), not %s by %d", policy, c->flow, got, v.rule, v.why,
                     c->verdict, c->rule);
        CHECK(v.why[0]);
    }
    policy_free(p);
}

TEST(true_is_the_public_internet_only)
{
    static const struct flow_case cases[] = {
        {"tcp 93.184.216.34 443", "yes", 0},
        {"udp 93.184.216.34 443", "yes", 0},
        {"tcp 2600:1f00::1 443", "yes", 0},
        {"icmp 93.184.216.34 0", "no", -1},
        {"sctp 93.184.216.34 80", "no", -1},
        {"tcp 10.0.0.1 80", "no", -1},
        {"tcp 172.16.0.1 80", "no", -1},
        {"tcp 172.32.0.1 80", "yes", 0},
        {"tcp 192.168.1.1 80", "no", -1},
        {"tcp 100.64.0.1 80", "no", -1},
        {"tcp 100.128.0.1 80", "yes", 0},
        {"tcp 127.0.0.1 80", "no", -1},
        {"tcp 0.0.0.0 80", "no", -1},
        {"tcp 0.1.2.3 80", "no", -1},
        {"tcp 169.254.1.1 80", "no", -1},
        {"tcp 169.254.169.254 80", "no", -1},
        {"tcp 100.100.100.200 80", "no", -1},
        {"tcp 168.63.129.16 80", "no", -1},
        {"tcp 168.63.129.17 80", "yes", 0},
        {"tcp 192.0.0.8 80", "no", -1},
        {"tcp 192.0.2.1 80", "no", -1},
        {"tcp 198.18.0.1 80", "no", -1},
        {"tcp 198.19.255.255 80", "no", -1},
        {"tcp 198.51.100.1 80", "no", -1},
        {"tcp 203.0.113.1 80", "no", -1},
        {"tcp 224.0.0.251 80", "no", -1},
        {"tcp 240.0.0.1 80", "no", -1},
        {"tcp 255.255.255.255 80", "no", -1},
        {"tcp ::1 80", "no", -1},
        {"tcp :: 80", "no", -1},
        {"tcp fc00::1 80", "no", -1},
        {"tcp fd00:ec2::254 80", "no", -1},
        {"tcp fe80::1 80", "no", -1},
        {"tcp fec0::1 80", "no", -1},
        {"tcp ff02::1 80", "no", -1},
        {"tcp 2001:db8::1 80", "no", -1},
        {"tcp ::ffff:10.0.0.1 80", "no", -1},
        {"tcp ::ffff:93.184.216.34 80", "yes", 0},
        {"tcp 64:ff9b::a00:1 80", "no", -1},
        {"tcp 64:ff9b:1::a00:1 80", "no", -1},
        {"tcp 2002:a00:1::1 80", "no", -1},
        {"tcp 2001:0:1::1 80", "no", -1},
        {"tcp ::10.0.0.1 80", "no", -1},
        {"tcp 22.0.0.1 80", "no", -1}, /* the host's own */
        {"tcp 2600:1::7 80", "no", -1},
        {"udp 8.8.8.8 53", "yes", -2}, /* never gets there */
        {"tcp 8.8.8.8 853", "no", -2},
        {"udp 8.8.8.8 853", "no", -2},
        {"udp 93.184.216.34 5353", "no", -2},
        {"udp 93.184.216.34 137", "no", -2},
        {"tcp 93.184.216.34 5353", "yes", 0},
        {NULL, NULL, 0},
    };

    check_flows("true", cases);
    check_flows("\"public\"", cases);
}

TEST(nothing_said_allows_nothing)
{
    static const struct flow_case cases[] = {
        {"tcp 93.184.216.34 443", "no", -1}, {"tcp 10.0.0.1 443", "no", -1}, {NULL, NULL, 0}};
    struct policy_verdict v;
    struct policy *p = parse("{}");

    check_flows("{}", cases);
    check_flows("{\"rules\": []}", cases);
    check_flows("{\"rules\": [], \"profiles\": []}", cases);
    policy_judge_name(p, "example.com", &v);
    CHECK(!v.allowed);
    policy_free(p);
    CHECK(parse("false") == NULL);
    CHECK(parse("\"none\"") == NULL);
}

TEST(the_first_rule_that_matches_decides)
{
    check_flows("{\"rules\": [\"deny@93.184.216.0/24\", \"allow@public\"]}",
                (const struct flow_case[]){{"tcp 93.184.216.34 443", "no", 0},
                                           {"tcp 93.184.217.34 443", "yes", 1},
                                           {NULL, NULL, 0}});
    check_flows("{\"rules\": [\"allow@public\", \"deny@93.184.216.0/24\"]}",
                (const struct flow_case[]){{"tcp 93.184.216.34 443", "yes", 0}, {NULL, NULL, 0}});
    check_flows("{\"default\": \"allow\", \"rules\": [\"deny@*:tcp:25\", \"deny@*:udp\"]}",
                (const struct flow_case[]){{"tcp 93.184.216.34 25", "no", 0},
                                           {"udp 93.184.216.34 25", "no", 1},
                                           {"tcp 93.184.216.34 26", "yes", -1},
                                           {NULL, NULL, 0}});
    check_flows("{\"default\": \"allow\", \"rules\": [\"deny:ingress@*\"]}",
                (const struct flow_case[]){{"tcp 93.184.216.34 25", "yes", -1}, {NULL, NULL, 0}});
}

TEST(what_is_general_reaches_public_addresses_only)
{
    static const char *const general[] = {
        "{\"default\": \"allow\"}",
        "{\"rules\": [\"allow@*\"]}",
        "{\"rules\": [\"allow@any\"]}",
        "{\"rules\": [{\"action\": \"allow\"}]}",
        "{\"rules\": [\"allow@0.0.0.0/0\"]}",
        "{\"rules\": [\"allow@0.0.0.0/1\", \"allow@128.0.0.0/1\"]}"};

    for (size_t i = 0; i < sizeof(general) / sizeof(general[0]); i++) {
        static const char *const refused[] = {"tcp 10.0.0.1 80",      "tcp 169.254.169.254 80",
                                              "tcp 168.63.129.16 80", "tcp 192.168.7.7 80",
                                              "tcp 22.0.0.1 80",      "tcp 127.0.0.1 80",
                                              "tcp 192.0.2.1 80",     "tcp 224.0.0.1 80",
                                              "udp 22.0.0.1 80",      "icmp 93.184.216.34 0"};
        struct policy *p = parse(general[i]);
        struct policy_verdict v;

        for (size_t k = 0; k < sizeof(refused) / sizeof(refused[0]); k++) {
            struct policy_flow f = flow_of(refused[k]);

            policy_judge(p, &f, pinned, is_host, NULL, &v);
            if (v.allowed)
                TAP_FAIL("%s allows %s", general[i], refused[k]);
        }
        policy_judge(p,
                     &(struct policy_flow){.to = flow_of("tcp 93.184.216.34 1").to,
                                           .protocol = IPPROTO_TCP,
                                           .port = 443},
                     pinned, is_host, NULL, &v);
        CHECK(v.allowed);
        policy_free(p);
    }
}

TEST(what_is_special_is_reached_by_its_name)
{
    check_flows("{\"rules\": [\"allow@private\"]}",
                (const struct flow_case[]){{"tcp 10.0.0.1 80", "yes", 0},
                                           {"tcp 100.64.0.1 80", "yes", 0},
                                           {"tcp fd00::1 80", "yes", 0},
                                           {"tcp 100.100.100.200 80", "no", -1},
                                           {"tcp fd00:ec2::254 80", "no", -1},
                                           {"tcp 192.168.7.7 80", "no", -1},
                                           {"tcp 93.184.216.34 80", "no", -1},
                                           {NULL, NULL, 0}});
    check_flows("{\"rules\": [\"allow@link-local\"]}",
                (const struct flow_case[]){{"tcp 169.254.1.1 80", "yes", 0},
                                           {"tcp 169.254.169.254 80", "no", -1},
                                           {NULL, NULL, 0}});
    check_flows("{\"rules\": [\"allow@metadata\"]}",
                (const struct flow_case[]){{"tcp 169.254.169.254 80", "yes", 0},
                                           {"tcp fd00:ec2::254 80", "yes", 0},
                                           {"tcp 169.254.1.1 80", "no", -1},
                                           {NULL, NULL, 0}});
    check_flows("{\"rules\": [\"allow@169.254.0.0/16\"]}",
                (const struct flow_case[]){{"tcp 169.254.1.1 80", "yes", 0},
                                           {"tcp 169.254.169.254 80", "no", -1},
                                           {NULL, NULL, 0}});
    check_flows("{\"rules\": [\"allow@169.254.169.254\", \"allow@192.0.2.0/24\"]}",
                (const struct flow_case[]){{"tcp 169.254.169.254 80", "yes", 0},
                                           {"tcp 192.0.2.9 80", "yes", 1},
                                           {NULL, NULL, 0}});
    check_flows("{\"rules\": [\"allow@192.168.0.0/16\"]}",
                (const struct flow_case[]){{"tcp 192.168.7.8 80", "yes", 0},
                                           {"tcp 192.168.7.7 80", "no", -1}, /* the host */
                                           {NULL, NULL, 0}});
    check_flows("\"allow-all\"", (const struct flow_case[]){{"tcp 10.0.0.1 80", "yes", 0},
                                                            {"tcp 93.184.216.34 80", "yes", -1},
                                                            {"tcp 22.0.0.1 80", "no", -1},
                                                            {"tcp 169.254.169.254 80", "no", -1},
                                                            {NULL, NULL, 0}});
}

TEST(the_host_is_reached_through_the_worker_by_tcp)
{
    check_flows("{\"rules\": [\"allow@host:tcp:8000-8100\"]}",
                (const struct flow_case[]){{"tcp 192.168.7.7 8000", "look", 0},
                                           {"tcp 22.0.0.1 8100", "look", 0},
                                           {"tcp 22.0.0.1 8101", "no", -1},
                                           {NULL, NULL, 0}});
    check_flows("{\"rules\": [\"allow@host\", \"allow@public\"]}",
                (const struct flow_case[]){{"udp 22.0.0.1 8000", "no", -1},
                                           {"tcp 22.0.0.1 22", "look", 0},
                                           {NULL, NULL, 0}});
    check_flows("{\"rules\": [\"allow@host.cay.internal:tcp:11434\"]}",
                (const struct flow_case[]){{"tcp 22.0.0.1 11434", "look", 0},
                                           {"tcp 22.0.0.1 22", "no", -1},
                                           {NULL, NULL, 0}});
    check_flows("{\"rules\": [\"allow@22.0.0.1:tcp:80\"]}",
                (const struct flow_case[]){{"tcp 22.0.0.1 80", "look", 0}, {NULL, NULL, 0}});
}

TEST(a_name_is_the_addresses_that_were_given_for_it)
{
    /* Rules 0 and 1 are one pin, 2 is its own. */
    const char *policy = "{\"rules\": [\"allow@a.test:tcp:443\", \"allow@*.b.test:tcp:443\", "
                         "\"allow@c.test:udp:443\", \"allow@d.test\"]}";
    struct policy *p = parse(policy);
    unsigned pins[4];

    check_flows(policy, (const struct flow_case[]){{"tcp 11.0.0.0 443", "look", 0},
                                                   {"tcp 11.0.0.0 80", "no", -1},
                                                   {"udp 11.0.0.0 443", "no", -1},
                                                   {"tcp 11.0.0.9 443", "no", -1},
                                                   {"udp 11.0.0.2 443", "yes", 2},
                                                   {"tcp 11.0.0.2 443", "no", -1},
                                                   {"tcp 11.0.0.3 8080", "look", 3},
                                                   {"udp 11.0.0.3 8080", "no", -1},
                                                   {NULL, NULL, 0}});
    CHECK_INT(policy_rules_for_name(p, "A.test.", pins, 4), 1);
    CHECK_INT(pins[0], 0);
    CHECK_INT(policy_rules_for_name(p, "x.b.test", pins, 4), 1);
    CHECK_INT(pins[0], 0);
    CHECK_INT(policy_rules_for_name(p, "b.test", pins, 4), 1);
    CHECK_INT(policy_rules_for_name(p, "xb.test", pins, 4), 0);
    CHECK_INT(policy_rules_for_name(p, "d.test", pins, 4), 1);
    CHECK_INT(pins[0], 3);
    policy_free(p);
}

/* name, flow, allowed, rule */
static void check_named(const char *policy, const char *name, const char *flow, bool allowed,
                        int rule)
{
    struct policy *p = parse(policy);
    struct policy_flow f = flow_of(flow);
    struct policy_verdict v;

    policy_judge_named(p, name, &f, pinned, is_host, NULL, &v);
    if (v.allowed != allowed || v.rule != rule || v.inspect)
        TAP_FAIL("%s: %s at %s is %d by %d (%s)", policy, name ? name : "-", flow, v.allowed,
                 v.rule, v.why);
    policy_free(p);
}

TEST(name_and_address_must_both_be_right)
{
    const char *names = "{\"rules\": [\"allow@a.test:tcp:443\", \"allow@b.test:tcp:80\"]}";
    const char *denied = "{\"rules\": [\"deny@evil.test\", \"allow@public\"]}";

    check_named(names, "a.test", "tcp 11.0.0.0 443", true, 0);
    check_named(names, "A.TEST.", "tcp 11.0.0.0 443", true, 0);
    check_named(names, NULL, "tcp 11.0.0.0 443", true, 0);
    check_named(names, "evil.test", "tcp 11.0.0.0 443", false, -1);
    check_named(names, "b.test", "tcp 11.0.0.0 443", false, -1);
    check_named(names, "a.test", "tcp 66.0.0.1 443", false, -1);
    check_named(names, "11.0.0.0", "tcp 11.0.0.0 443", false, -1);
    check_named(names, "10.0.0.1", "tcp 11.0.0.0 443", false, -2);
    check_named(names, "0x7f.1", "tcp 11.0.0.0 443", false, -2);
    check_named(names, "a b", "tcp 11.0.0.0 443", false, -2);
    check_named(denied, "evil.test", "tcp 66.0.0.1 443", false, 0);
    check_named(denied, "www.evil.test", "tcp 66.0.0.1 443", true, 1);
    check_named(denied, NULL, "tcp 66.0.0.1 443", true, 1);
    check_named("{\"rules\": [\"allow@host\"]}", "localhost", "tcp 22.0.0.1 80", true, 0);
    check_flows(denied, (const struct flow_case[]){{"tcp 66.0.0.1 443", "look", 1},
                                                   {"tcp 66.0.0.1 80", "look", 1},
                                                   {"tcp 66.0.0.1 22", "yes", 1},
                                                   {"udp 66.0.0.1 443", "no", 0},
                                                   {"udp 66.0.0.1 123", "yes", 1},
                                                   {NULL, NULL, 0}});
}

static void check_name(const char *policy, const char *name, bool allowed, int rule)
{
    struct policy *p = parse(policy);
    struct policy_verdict v;

    policy_judge_name(p, name, &v);
    if (v.allowed != allowed || v.rule != rule)
        TAP_FAIL("%s: %s is %d by %d (%s)", policy, name, v.allowed, v.rule, v.why);
    policy_free(p);
}

TEST(names_are_asked_for_when_a_rule_is_about_them)
{
    const char *list = "{\"rules\": [\"allow@a.test:tcp:443\", \"deny@no.b.test\", "
                       "\"allow@*.b.test\"]}";

    check_name(list, "a.test", true, 0);
    check_name(list, "A.Test.", true, 0);
    check_name(list, "x.a.test", false, -1);
    check_name(list, "b.test", true, 2);
    check_name(list, "x.y.b.test", true, 2);
    check_name(list, "no.b.test", false, 1);
    check_name(list, "data.evil.test", false, -1);
    check_name("true", "example.com", true, 0);
    check_name("true", "metadata.google.internal", false, -1);
    check_name("true", "host.cay.internal", false, -1);
    check_name("true", "localhost", false, -2);
    check_name("true", "printer.local", false, -2);
    check_name("true", "2130706433", false, -2);
    check_name("{\"default\": \"allow\"}", "metadata.google.internal", false, -2);
    check_name("{\"default\": \"allow\"}", "host.cay.internal", false, -2);
    check_name("{\"rules\": [\"allow@*.google.internal\"]}", "metadata.google.internal", false, -1);
    check_name("{\"rules\": [\"allow@metadata\"]}", "metadata.google.internal", true, 0);
    check_name("{\"rules\": [\"allow@host\"]}", "host.cay.internal", true, 0);
    check_name("{\"rules\": [\"allow@host\"]}", "example.com", false, -1);
    check_name("{\"rules\": [\"allow@10.0.0.0/8\"]}", "example.com", false, -1);
    check_name("{\"rules\": [\"allow@private\", \"allow@dns\"]}", "db.corp.test", true, 1);
    /* What is denied on one port can be asked for; what is denied is not. */
    check_name("{\"default\": \"allow\", \"rules\": [\"deny@a.test:tcp:80\"]}", "a.test", true, -1);
    check_name("{\"default\": \"allow\", \"rules\": [\"deny@a.test\"]}", "a.test", false, 0);
    check_name("{\"default\": \"allow\", \"rules\": [\"deny@*:udp\"]}", "a.test", true, -1);
    check_name("\"pypi\"", "files.pythonhosted.org", true, 1);
    check_name("\"packages\"", "registry.npmjs.org", true, 3);
    check_name("\"packages\"", "github.com", false, -1);
}

TEST(an_answer_with_a_private_address_is_none)
{
    static const struct {
        const char *policy, *address;
        bool ok;
    } cases[] = {
        {"true", "93.184.216.34", true},
        {"true", "10.0.0.1", false},
        {"true", "127.0.0.1", false},
        {"true", "::ffff:10.0.0.1", false},
        {"true", "64:ff9b::a00:1", false},
        {"true", "100.64.0.1", false},
        {"true", "192.0.2.1", false},
        {"true", "169.254.169.254", false},
        {"{\"default\": \"allow\"}", "10.0.0.1", false},
        {"{\"rules\": [\"allow@*\"]}", "10.0.0.1", false},
        {"{\"rules\": [\"allow@10.0.0.0/8\"]}", "10.0.0.1", true},
        {"{\"rules\": [\"allow@private\"]}", "10.0.0.1", true},
        {"{\"rules\": [\"allow@private\"]}", "169.254.169.254", false},
        {"{\"rules\": [\"allow@10.0.0.0/8:tcp:80\"]}", "10.0.0.1", false},
        {"{\"rules\": [\"deny@10.0.0.1\", \"allow@private\"]}", "10.0.0.1", false},
        {"{\"dns\": {\"rebindProtection\": false}}", "10.0.0.1", true},
        {"{\"dns\": {\"rebindProtection\": false}}", "169.254.169.254", false},
        {"{\"dns\": {\"rebindProtection\": false}}", "127.0.0.1", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct policy *p = parse(cases[i].policy);
        struct net_address a;

        CHECK_INT(net_address_parse(cases[i].address, &a), 0);
        if (policy_answer_ok(p, &a) != cases[i].ok)
            TAP_FAIL("%s: %s", cases[i].policy, cases[i].address);
        policy_free(p);
    }
}

TEST(other_ways_to_ask_for_names_take_address_and_port)
{
    check_flows(
        "{\"default\": \"allow\", \"rules\": [\"allow@9.9.9.9:tcp:853\", \"allow@8.8.8.8\"]}",
        (const struct flow_case[]){{"tcp 9.9.9.9 853", "yes", 0},
                                   {"tcp 8.8.8.8 853", "no", -2},
                                   {"tcp 1.1.1.1 853", "no", -2},
                                   {"udp 9.9.9.9 853", "no", -2},
                                   {NULL, NULL, 0}});
}

TEST(callers_are_judged_by_their_address)
{
    static const struct {
        const char *policy, *from;
        bool allowed;
        int rule;
    } cases[] = {
        {"true", "tcp 127.0.0.1 8080", true, -1},
        {"{\"defaultIngress\": \"deny\"}", "tcp 127.0.0.1 8080", false, -1},
        {"{\"rules\": [\"deny:ingress@*\"]}", "tcp 127.0.0.1 8080", false, 0},
        {"{\"rules\": [\"allow:in@127.0.0.0/8\", \"deny:in@*\"]}", "tcp 127.0.0.1 80", true, 0},
        {"{\"rules\": [\"allow:in@loopback\", \"deny:in@*\"]}", "tcp 9.9.9.9 80", false, 1},
        {"{\"rules\": [\"deny:any@10.0.0.0/8\"]}", "tcp 10.0.0.1 80", false, 0},
        {"{\"rules\": [\"deny@10.0.0.0/8\"]}", "tcp 10.0.0.1 80", true, -1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct policy *p = parse(cases[i].policy);
        struct policy_flow f = flow_of(cases[i].from);
        struct policy_verdict v;

        f.direction = POLICY_INGRESS;
        policy_judge(p, &f, NULL, NULL, NULL, &v);
        if (v.allowed != cases[i].allowed || v.rule != cases[i].rule)
            TAP_FAIL("%s: %s is %d by %d", cases[i].policy, cases[i].from, v.allowed, v.rule);
        policy_free(p);
    }
}

TEST(what_cannot_be_meant_is_refused_and_says_where)
{
    static const struct {
        const char *policy, *words;
    } cases[] = {
        {"5", "network: "},
        {"[]", "network: "},
        {"\"\"", "network: is an empty text"},
        {"\"pipy\"", "did you mean pypi?"},
        {"\"yes\"", "no profile \"yes\""},
        {"{\"rulez\": []}", "rulez is not known"},
        {"{\"default\": \"maybe\"}", "default: write"},
        {"{\"rules\": {}}", "rules: write a list"},
        {"{\"rules\": [5]}", "rules[0]: write an object"},
        {"{\"rules\": [\"allow@*\", \"permit@*\"]}", "rules[1].action: "},
        {"{\"rules\": [\"allow\"]}", "rules[0]: \"allow\" is no rule"},
        {"{\"rules\": [\"allow@\"]}", "is no rule"},
        {"{\"rules\": [\"allow@[::1\"]}", "is no rule"},
        {"{\"rules\": [\"allow:sideways@*\"]}", "rules[0].direction: "},
        {"{\"rules\": [{\"action\": \"allow\", \"dest\": \"*\"}]}", "rules[0].dest: "},
        {"{\"rules\": [\"allow@0x7f.1\"]}", "four decimal numbers"},
        {"{\"rules\": [\"allow@2130706433\"]}", "four decimal numbers"},
        {"{\"rules\": [\"allow@017700000001\"]}", "four decimal numbers"},
        {"{\"rules\": [\"allow@10.0.0.01\"]}", "four decimal numbers"},
        {"{\"rules\": [\"allow@1.2.3\"]}", "four decimal numbers"},
        {"{\"rules\": [\"allow@127.0.0.0/8\"]}", "can never apply"},
        {"{\"rules\": [\"deny@127.0.0.1\"]}", "can never apply"},
        {"{\"rules\": [\"allow@0.0.0.0/8\"]}", "can never apply"},
        {"{\"rules\": [\"allow@[::1]\"]}", "can never apply"},
        {"{\"rules\": [\"allow@[::ffff:127.0.0.1]\"]}", "can never apply"},
        {"{\"rules\": [\"allow@[fe80::]/10\"]}", "can never apply"},
        {"{\"rules\": [\"allow@224.0.0.0/4\"]}", "can never apply"},
        {"{\"rules\": [\"allow@loopback\"]}", "can never be allowed"},
        {"{\"rules\": [\"allow@localhost\"]}", "neither a domain nor a group"},
        {"{\"rules\": [\"allow@x.localhost\"]}", "never leaves the sandbox"},
        {"{\"rules\": [\"allow@10.0.0.1/8\"]}", "bits set below its prefix"},
        {"{\"rules\": [\"allow@10.0.0.0/33\"]}", "prefix length"},
        {"{\"rules\": [\"allow@x/8\"]}", "is no range"},
        {"{\"rules\": [\"allow@*.com\"]}", "two labels"},
        {"{\"rules\": [\"allow@*\", \"allow@*.\"]}", "rules[1].destination: "},
        {"{\"rules\": [\"allow@a..b\"]}", "is no address, range, domain"},
        {"{\"rules\": [\"allow@-a.test\"]}", "is no address, range, domain"},
        {"{\"rules\": [\"allow@a*.test\"]}", "is no address, range, domain"},
        {"{\"rules\": [\"allow@https://a.test\"]}", "rules[0]"},
        {"{\"rules\": [\"allow@b\u00fccher.test\"]}", "xn--"},
        {"{\"rules\": [\"allow@a.test:tcp:0\"]}", "rules[0].port: "},
        {"{\"rules\": [\"allow@a.test:tcp:65536\"]}", "rules[0].port: "},
        {"{\"rules\": [\"allow@a.test:tcp:9-8\"]}", "rules[0].port: "},
        {"{\"rules\": [{\"action\": \"allow\", \"port\": -1}]}", "rules[0].port: "},
        {"{\"rules\": [{\"action\": \"allow\", \"port\": []}]}", "rules[0].port: "},
        {"{\"rules\": [\"allow@*:sctp\"]}", "rules[0].protocol: "},
        {"{\"rules\": [\"allow@*:icmp:80\"]}", "ICMP has no ports"},
        {"{\"rules\": [\"allow:ingress@a.test\"]}", "cannot be known of who calls"},
        {"{\"rules\": [\"allow@dns:tcp\"]}", "dns has neither"},
        {"{\"profiles\": [\"pypi\", \"nmp\"]}", "profiles[1]: "},
        {"{\"profiles\": \"pypi\"}", "profiles: write a list"},
        {"{\"dns\": {\"nameservers\": [\"127.0.0.1\"]}}", "dns.nameservers[0]: "},
        {"{\"dns\": {\"nameservers\": [\"a.test\"]}}", "dns.nameservers[0]: "},
        {"{\"dns\": {\"queryTimeout\": 5}}", "dns.queryTimeout: "},
        {"{\"dns\": {\"server\": 5}}", "dns.server is not known"},
        {"{\"rateLimit\": {\"egress\": {}}}", "rateLimit.egress: "},
        {"{\"rateLimit\": {\"egress\": {\"bytesPerSecond\": 5000, \"burst\": 1}}}", "burst is"},
        {"{\"maxConnections\": 0}", "maxConnections: "},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *in = json_loads(cases[i].policy, JSON_DECODE_ANY, NULL);
        struct policy *p = NULL;
        struct err err = {0};

        CHECK(in);
        if (policy_parse(in, &p, &err) == 0)
            TAP_FAIL("%s was taken", cases[i].policy);
        if (err.kind != ERR_INVALID || strcmp(err.code, "bad_policy") != 0 ||
            !strstr(err.text, cases[i].words))
            TAP_FAIL("%s: %s", cases[i].policy, err.text);
        json_decref(in);
    }
}

TEST(what_is_too_much_is_refused)
{
    json_t *rules = json_array(), *in = json_pack("{s:o}", "rules", rules);
    char name[300] = "allow@";
    struct policy *p = NULL;
    struct err err = {0};

    for (int i = 0; i < 256; i++)
        json_array_append_new(rules, json_sprintf("deny@n%d.test:tcp:%d", i, i + 1));
    CHECK_INT(policy_parse(in, &p, &err), 0);
    policy_free(p);
    json_array_append_new(rules, json_string("allow@*"));
    CHECK_INT(policy_parse(in, &p, &err), -1);
    CHECK(strstr(err.text, "more than 256"));
    /* Each denied port list would be held against each rule that lets out. */
    for (int i = 0; i < 257; i++)
        json_array_remove(rules, 0);
    for (int i = 0; i < 128; i++)
        json_array_append_new(rules, json_sprintf("deny@n%d.test:tcp:%d", i, i + 1));
    for (int i = 0; i < 128; i++)
        json_array_append_new(rules, json_string("allow@*"));
    CHECK_INT(policy_parse(in, &p, &err), -1);
    CHECK(strstr(err.text, "too many for the kernel"));
    json_decref(in);
    memset(name + 6, 'a', 290);
    name[299] = '\0';
    in = json_pack("{s:[s]}", "rules", name);
    CHECK_INT(policy_parse(in, &p, &err), -1);
    json_decref(in);
    in = json_pack("{s:[o]}", "rules", json_sprintf("allow@%0*d", 70000, 1));
    CHECK_INT(policy_parse(in, &p, &err), -1);
    CHECK(strstr(err.text, "64 KiB"));
    json_decref(in);
}

/* Short as it was written, but not as it is stored and sent. */
TEST(what_is_too_long_in_its_canonical_form_is_refused)
{
    json_t *rules = json_array(), *in = json_pack("{s:o}", "rules", rules);
    struct policy *p = NULL;
    struct err err = {0};

    for (int i = 0; i < 256; i++)
        json_array_append_new(rules,
                              json_sprintf("allow@a%059d.b%059d.c%059d.test:tcp:443", i, i, i));
    CHECK_INT(policy_parse(in, &p, &err), -1);
    CHECK(strstr(err.text, "64 KiB"));
    json_decref(in);
}

TEST(the_canonical_form_means_the_same)
{
    static const struct {
        const char *policy, *canonical;
    } cases[] = {
        {"true", "true"},
        {"\"public\"", "true"},
        {"{}", "{\"default\":\"deny\",\"defaultIngress\":\"allow\",\"rules\":[]}"},
        {"\"pypi,npm\"", "{\"default\":\"deny\",\"defaultIngress\":\"allow\",\"rules\":[],"
                         "\"profiles\":[\"pypi\",\"npm\"]}"},
        {"\"allow@A.Test.:tcp:443,80,81\"",
         "{\"default\":\"deny\",\"defaultIngress\":\"allow\",\"rules\":[{\"action\":\"allow\","
         "\"direction\":\"egress\",\"destination\":\"a.test\",\"protocol\":\"tcp\","
         "\"port\":\"80-81,443\"}]}"},
        {"{\"rules\":[{\"action\":\"deny\",\"destination\":\"::ffff:9.9.9.9\",\"protocol\":"
         "[\"udp\",\"tcp\"],\"port\":[5,\"7-9\"]}]}",
         "{\"default\":\"deny\",\"defaultIngress\":\"allow\",\"rules\":[{\"action\":\"deny\","
         "\"direction\":\"egress\",\"destination\":\"9.9.9.9\",\"protocol\":\"tcp,udp\","
         "\"port\":\"5,7-9\"}]}"},
        {"{\"rules\":[\"allow@suffix=.a.test\"],\"maxConnections\":5,\"dns\":{\"nameservers\":"
         "[\"9.9.9.9:99\",\"[2600::1]:5\"]},\"rateLimit\":{\"ingress\":{\"bytesPerSecond\":5000}}}",
         "{\"default\":\"deny\",\"defaultIngress\":\"allow\",\"rules\":[{\"action\":\"allow\","
         "\"direction\":\"egress\",\"destination\":\"*.a.test\"}],\"dns\":{\"nameservers\":"
         "[\"9.9.9.9:99\",\"[2600::1]:5\"],\"rebindProtection\":true,\"queryTimeout\":5000},"
         "\"rateLimit\":{\"ingress\":{\"bytesPerSecond\":5000,\"burst\":131072}},"
         "\"maxConnections\":5}"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct policy *p = parse(cases[i].policy), *again;
        json_t *o = policy_json(p);
        char *text = json_dumps(o, JSON_COMPACT | JSON_ENCODE_ANY), *second;
        char key[POLICY_KEY], key_again[POLICY_KEY];

        CHECK_STR(text, cases[i].canonical);
        again = parse(text);
        json_decref(o);
        o = policy_json(again);
        second = json_dumps(o, JSON_COMPACT | JSON_ENCODE_ANY);
        CHECK_STR(second, text);
        policy_key(p, key);
        policy_key(again, key_again);
        CHECK_STR(key, key_again);
        free(text);
        free(second);
        json_decref(o);
        policy_free(p);
        policy_free(again);
    }
}

TEST(who_has_the_same_key_can_share_a_chain)
{
    struct policy *a = parse("\"allow@a.test:tcp:443\""), *b = parse("\"allow@b.test:tcp:443\"");
    struct policy *c = parse("\"allow@b.test:tcp:80\"");
    char ka[POLICY_KEY], kb[POLICY_KEY], kc[POLICY_KEY];

    policy_key(a, ka);
    policy_key(b, kb);
    policy_key(c, kc);
    CHECK_STR(ka, kb); /* the name is the pins' matter */
    CHECK(strcmp(ka, kc) != 0);
    policy_free(a);
    policy_free(b);
    policy_free(c);
}

TAP_MAIN
