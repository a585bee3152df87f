/* DNS messages and what becomes of a question. The worker's whole way is test_worker.py's. */
#include <arpa/inet.h>
#include <errno.h>

#include "base/mem.h"
#include "gateway/dns_internal.h"
#include "tap.h"

/* ---- messages, by hand ---- */

struct message {
    uint8_t data[70000];
    size_t len;
};

static void put(struct message *m, const void *data, size_t len)
{
    memcpy(m->data + m->len, data, len);
    m->len += len;
}

static void put16(struct message *m, unsigned n)
{
    put(m, (uint8_t[]){(uint8_t)(n >> 8), (uint8_t)n}, 2);
}

static void put_name(struct message *m, const char *name)
{
    while (*name) {
        size_t n = strcspn(name, ".");
        uint8_t len = (uint8_t)n;

        put(m, &len, 1);
        put(m, name, n);
        name += n + (name[n] == '.');
    }
    put(m, "", 1);
}

static void begin(struct message *m, unsigned id, unsigned flags, unsigned answers)
{
    m->len = 0;
    put16(m, id);
    put16(m, flags);
    put16(m, 1);
    put16(m, answers);
    put16(m, 0);
    put16(m, 0);
}

static void put_question(struct message *m, const char *name, unsigned type)
{
    put_name(m, name);
    put16(m, type);
    put16(m, 1);
}

static void put_record(struct message *m, const char *name, unsigned type, unsigned ttl,
                       const void *data, size_t len)
{
    put_name(m, name);
    put16(m, type);
    put16(m, 1);
    put16(m, ttl >> 16);
    put16(m, ttl & 0xffff);
    put16(m, (unsigned)len);
    put(m, data, len);
}

static void put_a(struct message *m, const char *name, const char *address)
{
    uint8_t four[4];

    CHECK_INT(inet_pton(AF_INET, address, four), 1);
    put_record(m, name, 1, 300, four, 4);
}

static void put_cname(struct message *m, const char *name, const char *to)
{
    struct message wire = {.len = 0};

    put_name(&wire, to);
    put_record(m, name, 5, 300, wire.data, wire.len);
}

static struct dns_question ask(const char *name, unsigned type)
{
    static struct message m;
    struct dns_question q;

    begin(&m, 7, 0x0100, 0);
    put_question(&m, name, type);
    CHECK_INT(dns_question_parse(m.data, m.len, &q), 0);
    return q;
}

/* ---- questions ---- */

TEST(a_question_is_read)
{
    struct dns_question q = ask("Www.Good.TEST", 28);

    CHECK_STR(q.name, "www.good.test");
    CHECK_INT(q.type, 28);
    CHECK_INT(q.id, 7);
    CHECK_INT(q.room, 512);
    CHECK(q.recursion && !q.edns);
}

TEST(a_name_that_points_to_itself_is_malformed)
{
    static struct message m;
    struct dns_question q;

    begin(&m, 7, 0x0100, 0);
    put(&m, "\xc0\x0c\0\1\0\1", 6);
    CHECK_INT(dns_question_parse(m.data, m.len, &q), LDNS_RCODE_FORMERR);
    begin(&m, 7, 0x0100, 0);
    put(&m,
        "\x01"
        "a\xc0\x0c\0\1\0\1",
        8);
    CHECK_INT(dns_question_parse(m.data, m.len, &q), LDNS_RCODE_FORMERR);
}

TEST(a_dot_inside_a_label_makes_no_other_name)
{
    static struct message m;
    struct dns_question q;

    begin(&m, 7, 0x0100, 0);
    put(&m, "\x09good.test\0\0\1\0\1", 15);
    CHECK_INT(dns_question_parse(m.data, m.len, &q), LDNS_RCODE_NXDOMAIN);
}

TEST(what_cannot_be_a_question_gets_its_rcode)
{
    static struct message m;
    struct dns_question q;

    CHECK_INT(dns_question_parse((const uint8_t *)"", 0, &q), -1);
    CHECK_INT(dns_question_parse((const uint8_t *)"1234567890", 10, &q), -1);
    begin(&m, 7, 0x8100, 0);
    put_question(&m, "a.test", 1);
    CHECK_INT(dns_question_parse(m.data, m.len, &q), -1); /* an answer */
    begin(&m, 7, 0x2800, 0);
    put_question(&m, "a.test", 1);
    CHECK_INT(dns_question_parse(m.data, m.len, &q), LDNS_RCODE_NOTIMPL); /* an update */
    begin(&m, 7, 0x0100, 1);
    put_question(&m, "a.test", 1);
    put_a(&m, "a.test", "11.1.1.1");
    CHECK_INT(dns_question_parse(m.data, m.len, &q), LDNS_RCODE_FORMERR);
    begin(&m, 7, 0x0100, 0);
    put_name(&m, "a.test");
    put16(&m, 1);
    put16(&m, 3); /* CHAOS */
    CHECK_INT(dns_question_parse(m.data, m.len, &q), LDNS_RCODE_REFUSED);
}

/* ---- answers ---- */

static int parse(const struct message *m, const struct dns_question *q, unsigned id,
                 struct dns_answer *ret)
{
    return dns_answer_parse(m->data, m->len, q, (uint16_t)id, ret);
}

TEST(only_an_answer_to_the_question_is_one)
{
    static struct message m;
    struct dns_question q = ask("good.test", 1);
    struct dns_answer a;

    begin(&m, 9, 0x8180, 1);
    put_question(&m, "good.test", 1);
    put_a(&m, "good.test", "11.1.1.1");
    CHECK_INT(parse(&m, &q, 8, &a), -EBADMSG); /* another id */
    CHECK_INT(parse(&m, &q, 9, &a), 0);
    CHECK_INT(a.address_count, 1);
    dns_answer_done(&a);
    m.data[2] &= 0x7f;
    CHECK_INT(parse(&m, &q, 9, &a), -EBADMSG); /* a question */
    begin(&m, 9, 0x8180, 0);
    put_question(&m, "evil.test", 1);
    CHECK_INT(parse(&m, &q, 9, &a), -EBADMSG);
    begin(&m, 9, 0x8180, 0);
    put_question(&m, "good.test", 28);
    CHECK_INT(parse(&m, &q, 9, &a), -EBADMSG);
    m.len = 30;
    CHECK_INT(parse(&m, &q, 9, &a), -EBADMSG);
}

TEST(what_was_not_asked_for_is_left_out)
{
    static struct message m;
    struct dns_question q = ask("good.test", 1);
    struct dns_answer a;
    static uint8_t wire[DNS_WIRE_MAX];

    begin(&m, 9, 0x8180, 4);
    put_question(&m, "good.test", 1);
    put_a(&m, "other.test", "11.2.2.2");
    put_cname(&m, "good.test", "cdn.test");
    put_a(&m, "cdn.test", "11.1.1.1");
    put_record(&m, "cdn.test", 16, 300, "\x02hi", 3);
    CHECK_INT(parse(&m, &q, 9, &a), 0);
    CHECK_INT((intmax_t)ldns_rr_list_rr_count(a.records), 2);
    CHECK_INT(a.address_count, 1);
    CHECK_INT(a.addresses[0].bytes[1], 1);
    CHECK(dns_answer_build(&q, &a, 512, wire, sizeof(wire)) > 0);
    CHECK_INT(wire[7], 2);            /* answers */
    CHECK_INT(wire[9] | wire[11], 0); /* and nothing else */
    dns_answer_done(&a);
}

TEST(a_chain_that_is_too_long_or_a_ring_is_a_failure)
{
    static struct message m;
    struct dns_question q = ask("n0.test", 1);
    struct dns_answer a;

    begin(&m, 9, 0x8180, DNS_CHAIN_MAX + 2);
    put_question(&m, "n0.test", 1);
    for (int i = 0; i <= DNS_CHAIN_MAX; i++) {
        char from[16], to[16];

        (void)snprintf(from, sizeof(from), "n%d.test", i);
        (void)snprintf(to, sizeof(to), "n%d.test", i + 1);
        put_cname(&m, from, to);
    }
    put_a(&m, "n17.test", "11.1.1.1");
    CHECK_INT(parse(&m, &q, 9, &a), 0);
    CHECK_INT(a.rcode, LDNS_RCODE_SERVFAIL);
    CHECK_INT(a.address_count, 0);
    dns_answer_done(&a);
}

TEST(an_ipv4_address_in_ipv6_clothes_is_judged_as_what_it_is)
{
    static struct message m;
    struct dns_question q = ask("good.test", 28);
    struct dns_answer a;
    uint8_t mapped[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};

    begin(&m, 9, 0x8180, 1);
    put_question(&m, "good.test", 28);
    put_record(&m, "good.test", 28, 0, mapped, 16);
    CHECK_INT(parse(&m, &q, 9, &a), 0);
    CHECK_INT(a.address_count, 1);
    CHECK_INT(a.addresses[0].family, AF_INET);
    CHECK_INT(a.addresses[0].bytes[0], 127);
    CHECK_INT(a.ttl, 0);
    dns_answer_done(&a);
}

TEST(no_more_addresses_are_told_than_can_be_pinned)
{
    static struct message m;
    struct dns_question q = ask("good.test", 1);
    struct dns_answer a;

    begin(&m, 9, 0x8180, 200);
    put_question(&m, "good.test", 1);
    for (int i = 0; i < 200; i++)
        put_record(&m, "good.test", 1, 999999, (uint8_t[]){11, 0, 0, (uint8_t)i}, 4);
    CHECK_INT(parse(&m, &q, 9, &a), 0);
    CHECK_INT(a.address_count, DNS_ADDRESSES_MAX);
    CHECK_INT((intmax_t)ldns_rr_list_rr_count(a.records), DNS_ADDRESSES_MAX);
    CHECK_INT(a.ttl, DNS_TTL_MAX);
    dns_answer_done(&a);
}

TEST(what_does_not_fit_is_truncated)
{
    struct dns_question q = ask("good.test", 1);
    struct dns_answer a;
    uint8_t wire[4096];
    struct net_address address = {AF_INET, {11, 1, 1, 1}};

    dns_answer_init(&a, 0);
    for (int i = 0; i < 60; i++)
        dns_answer_add(&a, &q, &address, 60);
    CHECK(dns_answer_build(&q, &a, 512, wire, sizeof(wire)) < 512);
    CHECK(wire[2] & 0x02);
    CHECK_INT(wire[7], 0);
    CHECK(dns_answer_build(&q, &a, 4096, wire, sizeof(wire)) > 512);
    CHECK(!(wire[2] & 0x02));
    dns_answer_done(&a);
}

TEST(our_own_question_has_another_id_and_one_question)
{
    struct dns_question q = ask("Good.test", 1), again;
    uint8_t wire[512];
    ssize_t n = dns_question_build(&q, 0xbeef, wire, sizeof(wire));

    CHECK(n > 0);
    CHECK_INT(dns_question_parse(wire, (size_t)n, &again), 0);
    CHECK_INT(again.id, 0xbeef);
    CHECK_STR(again.name, "good.test");
    CHECK(again.edns && again.recursion);
}

/* ---- decisions ---- */

static struct worker world;
static struct guest box;

static void set_policy(const char *text, const char *peers)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    struct err err = {0};

    box.worker = &world;
    box.policy = NULL;
    CHECK_INT(net_address_parse("10.241.0.1", &world.world.gateway), 0);
    CHECK_INT(net_address_parse("fd63::1", &world.world.gateway6), 0);
    CHECK_INT(policy_parse(json, &box.policy, &err), 0);
    json_decref(json);
    box.peers = json_loads(peers, 0, NULL);
}

static const char *decide(const char *name, unsigned type)
{
    static char said[200];
    struct dns_question q = ask(name, type);
    struct policy_verdict why = {0};
    struct dns_answer a = {0};

    switch (dns_decide(&box, &q, &a, &why)) {
    case DECIDED_FORWARD:
        return "forward";
    case DECIDED_DENIED:
        CHECK(why.why[0] != '\0');
        return "denied";
    case DECIDED_HERE:
    default:
        (void)snprintf(said, sizeof(said), "rcode %d, %zu records, %u to pin", a.rcode,
                       ldns_rr_list_rr_count(a.records), a.address_count);
        dns_answer_done(&a);
        return said;
    }
}

TEST(the_table_of_decisions_under_an_allow_list)
{
    static const struct {
        const char *name;
        unsigned type;
        const char *want;
    } rows[] = {
        {"good.test", 1, "forward"},
        {"good.test", 16, "forward"},
        {"good.test", 5, "forward"},
        {"good.test", 28, "rcode 0, 0 records, 0 to pin"}, /* the box has no IPv6 */
        {"good.test", 65, "rcode 0, 0 records, 0 to pin"},
        {"good.test", 64, "rcode 0, 0 records, 0 to pin"},
        {"good.test", 255, "rcode 0, 0 records, 0 to pin"},
        {"a.wild.test", 1, "forward"},
        {"wild.test.evil.test", 1, "denied"},
        {"xgood.test", 1, "denied"},
        {"data.evil.test", 1, "denied"},
        {"data.evil.test", 65, "denied"},
        {"db", 1, "rcode 0, 1 records, 0 to pin"},
        {"db", 28, "rcode 0, 1 records, 0 to pin"},
        {"db", 16, "rcode 0, 0 records, 0 to pin"},
        {"localhost", 1, "rcode 0, 1 records, 0 to pin"},
        {"gateway.cay.internal", 1, "rcode 0, 1 records, 0 to pin"},
        {"gateway.cay.internal", 28, "rcode 0, 0 records, 0 to pin"},
        {"host.cay.internal", 1, "denied"},
        {"other.cay.internal", 1, "rcode 3, 0 records, 0 to pin"},
        {"1.0.0.10.in-addr.arpa", 12, "denied"},
    };

    set_policy("{\"default\": \"deny\", \"rules\": ["
               "{\"action\": \"allow\", \"destination\": \"good.test\"},"
               "{\"action\": \"allow\", \"destination\": \"*.wild.test\"}]}",
               "{\"db\": [\"10.241.0.9\", \"fd63::9\"]}");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *got = decide(rows[i].name, rows[i].type);

        if (strcmp(got, rows[i].want) != 0)
            TAP_FAIL("%s %u: %s, not %s", rows[i].name, rows[i].type, got, rows[i].want);
    }
}

TEST(the_host_is_told_to_who_may_reach_it)
{
    set_policy("{\"rules\": [{\"action\": \"allow\", \"destination\": \"host\"}]}", "{}");
    CHECK_STR(decide("host.cay.internal", 16), "rcode 0, 0 records, 0 to pin");
    CHECK(strncmp(decide("host.cay.internal", 1), "rcode 0, 1 records", 18) == 0);
}

TEST(who_has_no_policy_knows_its_peers_only)
{
    box.worker = &world;
    box.peers = json_loads("{\"db\": [\"10.241.0.9\"]}", 0, NULL);
    CHECK_STR(decide("db", 1), "rcode 0, 1 records, 0 to pin");
    CHECK_STR(decide("good.test", 1), "denied");
}

TEST(a_public_policy_asks_for_all_but_leads_to_nothing_private)
{
    static const char *const bad[] = {
        "127.0.0.1",       "10.0.0.1",      "192.168.1.1", "100.64.0.1",
        "169.254.169.254", "224.0.0.1",     "0.0.0.0",     "::1",
        "fe80::1",         "fd00:ec2::254", "::"};
    struct dns_question q;
    struct policy_verdict why;
    struct dns_answer a;

    set_policy("true", "{}");
    CHECK_STR(decide("any.test", 1), "forward");
    q = ask("any.test", 1);
    dns_answer_init(&a, 0);
    a.address_count = 2;
    CHECK_INT(net_address_parse("11.1.1.1", &a.addresses[0]), 0);
    CHECK_INT(net_address_parse("11.1.1.2", &a.addresses[1]), 0);
    CHECK(dns_answer_allowed(&box, &q, &a, &why));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK_INT(net_address_parse(bad[i], &a.addresses[1]), 0);
        if (dns_answer_allowed(&box, &q, &a, &why))
            TAP_FAIL("told: %s", bad[i]);
        CHECK(strstr(why.why, "rebinding") != NULL);
    }
    dns_answer_done(&a);
}

TEST(a_pin_outlives_what_was_told)
{
    CHECK_INT(dns_pin_seconds(0), PIN_SECONDS_MIN + PIN_SECONDS_GRACE);
    CHECK_INT(dns_pin_seconds(DNS_TTL_MAX), DNS_TTL_MAX + PIN_SECONDS_GRACE);
}

TAP_MAIN
