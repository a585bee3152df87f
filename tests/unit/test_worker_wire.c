/* What warden and worker say to each other. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "gateway/worker_internal.h"
#include "gateway/worker_wire.h"
#include "tap.h"

static struct net_address address(const char *text)
{
    struct net_address a;

    CHECK_INT(net_address_parse(text, &a), 0);
    return a;
}

/* Through JSON text and back, as it goes over the socket. */
static json_t *again(json_t *message)
{
    auto_free char *text = json_dumps(message, JSON_COMPACT);
    json_t *read = json_loads(text, 0, NULL);

    CHECK(read != NULL);
    json_decref(message);
    return read;
}

static struct wire_ask ask_again(const struct wire_ask *ask)
{
    json_t *message = again(wire_ask_json(ask));
    struct wire_ask got;

    CHECK_INT(wire_ask_parse(message, &got), 0);
    CHECK_INT(got.kind, ask->kind);
    CHECK_INT(got.number, ask->number);
    CHECK_STR(got.box, ask->box);
    json_decref(message);
    return got;
}

static int parse_ask(const char *text)
{
    json_t *message = json_loads(text, 0, NULL);
    struct wire_ask ask;
    int r;

    CHECK(message != NULL);
    r = wire_ask_parse(message, &ask);
    json_decref(message);
    return r;
}

static int parse_order(const char *text)
{
    json_t *message = json_loads(text, 0, NULL);
    struct wire_order order;
    int r;

    CHECK(message != NULL);
    r = wire_order_parse(message, &order);
    if (r == 0)
        wire_order_done(&order);
    json_decref(message);
    return r;
}

TEST(a_dial_comes_through)
{
    struct wire_ask ask = {.kind = WIRE_DIAL, .number = 4000000000u, .box = "sb_1", .port = 443};
    struct wire_ask got;

    ask.address = address("11.1.2.3");
    got = ask_again(&ask);
    CHECK(net_address_equal(&got.address, &ask.address));
    CHECK_INT(got.port, 443);
}

TEST(a_pin_comes_through)
{
    struct wire_ask ask = {.kind = WIRE_PIN,
                           .number = 1,
                           .box = "sb_1",
                           .name = "pypi.org",
                           .rules = {2, 70},
                           .rule_count = 2,
                           .address_count = 2,
                           .ttl = 60};
    struct wire_ask got;

    ask.addresses[0] = address("11.1.2.3");
    ask.addresses[1] = address("2600::1");
    got = ask_again(&ask);
    CHECK_STR(got.name, "pypi.org");
    CHECK_INT(got.rule_count, 2);
    CHECK_INT(got.rules[1], 70);
    CHECK_INT(got.address_count, 2);
    CHECK(net_address_equal(&got.addresses[1], &ask.addresses[1]));
    CHECK_INT(got.ttl, 60);
}

TEST(a_question_for_a_socket_comes_through)
{
    struct wire_ask ask = {.kind = WIRE_DNS, .number = 9, .box = "b", .port = 5353, .tcp = true};

    ask.address = address("127.0.0.53");
    CHECK(ask_again(&ask).tcp);
    ask.tcp = false;
    CHECK(!ask_again(&ask).tcp);
}

TEST(a_refusal_comes_through_without_an_address)
{
    struct wire_ask ask = {.kind = WIRE_DENIED,
                           .box = "b",
                           .protocol = "dns",
                           .name = "evil.test",
                           .rule = -1,
                           .why = "default: deny",
                           .count = 3};
    struct wire_ask got = ask_again(&ask);

    CHECK_INT(got.address.family, 0);
    CHECK_STR(got.protocol, "dns");
    CHECK_STR(got.why, "default: deny");
    CHECK_INT(got.rule, -1);
    CHECK_INT(got.count, 3);
}

TEST(what_the_worker_never_says_is_refused)
{
    static const char *const bad[] = {
        "{}",
        "{\"ask\": 1}",
        "{\"ask\": 0, \"dial\": {\"box\": \"b\", \"address\": \"1.2.3.4\", \"port\": 1}}",
        "{\"dial\": {\"box\": \"b\", \"address\": \"1.2.3.4\", \"port\": 1}}",
        "{\"ask\": 1, \"dial\": {\"box\": \"b\", \"address\": \"1.2.3.4\", \"port\": 0}}",
        "{\"ask\": 1, \"dial\": {\"box\": \"b\", \"address\": \"1.2.3.4\", \"port\": 65536}}",
        "{\"ask\": 1, \"dial\": {\"box\": \"b\", \"address\": \"0x7f.1\", \"port\": 1}}",
        "{\"ask\": 1, \"dial\": {\"box\": \"b\", \"address\": null, \"port\": 1}}",
        "{\"ask\": 1, \"dial\": {\"address\": \"1.2.3.4\", \"port\": 1}}",
        "{\"ask\": 1, \"dial\": {\"box\": \"b\", \"address\": \"1.2.3.4\", \"port\": 1, \"x\": 1}}",
        "{\"ask\": 1, \"x\": 2, \"dial\": {\"box\": \"b\", \"address\": \"1.2.3.4\", \"port\": 1}}",
        "{\"ask\": 4294967296, \"dial\": {\"box\": \"b\", \"address\": \"1.2.3.4\", \"port\": 1}}",
        "{\"ask\": 1, \"pin\": {\"box\": \"b\", \"name\": \"\", \"rules\": [1], \"addresses\": [],"
        " \"ttl\": 60}}",
        "{\"ask\": 1, \"pin\": {\"box\": \"b\", \"name\": \"a\", \"rules\": [-1],"
        " \"addresses\": [], \"ttl\": 60}}",
        "{\"ask\": 1, \"pin\": {\"box\": \"b\", \"name\": \"a\", \"rules\": [1],"
        " \"addresses\": [], \"ttl\": 0}}",
        "{\"denied\": {\"box\": \"b\", \"protocol\": \"icmp\", \"address\": null, \"port\": 0,"
        " \"name\": \"\", \"rule\": 0, \"why\": \"\", \"count\": 1}}",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (parse_ask(bad[i]) == 0)
            TAP_FAIL("taken: %s", bad[i]);
    }
    CHECK_INT(
        parse_ask(
            "{\"ask\": 1, \"dial\": {\"box\": \"b\", \"address\": \"1.2.3.4\", \"port\": 1}}"),
        0);
}

TEST(more_addresses_than_there_is_room_for_are_refused)
{
    json_t *list = json_array(), *message;
    struct wire_ask got;

    for (int i = 0; i <= WIRE_ADDRESSES_MAX; i++)
        json_array_append_new(list, json_string("1.2.3.4"));
    message = json_pack("{s:i, s:{s:s, s:s, s:[i], s:o, s:i}}", "ask", 1, "pin", "box", "b", "name",
                        "a", "rules", 1, "addresses", list, "ttl", 60);
    CHECK_INT(wire_ask_parse(message, &got), -EBADMSG);
    json_decref(message);
}

TEST(a_box_comes_through)
{
    struct net_address four = address("10.241.0.2");
    json_t *peers = json_pack("{s:[s, s]}", "db", "10.241.0.9", "fd63::9");
    json_t *message = again(wire_box_json("sb_1", &four, NULL, json_true(), peers));
    struct wire_order order;

    CHECK_INT(wire_order_parse(message, &order), 0);
    CHECK_INT(order.kind, WIRE_BOX);
    CHECK_STR(order.id, "sb_1");
    CHECK(net_address_equal(&order.address, &four));
    CHECK_INT(order.address6.family, 0);
    CHECK(json_is_true(order.policy));
    CHECK_INT((intmax_t)json_array_size(json_object_get(order.peers, "db")), 2);
    wire_order_done(&order);
    json_decref(message);
    json_decref(peers);
}

TEST(the_world_comes_through)
{
    struct wire_world world = {.server_count = 2, .host_count = 1};
    struct wire_order order;
    json_t *message;

    CHECK_INT(wire_server_parse("127.0.0.53", &world.servers[0]), 0);
    CHECK_INT(wire_server_parse("fd00::53#5353", &world.servers[1]), 0);
    world.gateway = address("10.241.0.1");
    world.host[0] = address("192.0.2.1");
    message = again(wire_world_json(&world));
    CHECK_INT(wire_order_parse(message, &order), 0);
    CHECK_INT(order.kind, WIRE_WORLD);
    CHECK_INT(order.world->servers[0].port, 53);
    CHECK_INT(order.world->servers[1].port, 5353);
    CHECK_INT(order.world->host_count, 1);
    CHECK_INT(order.world->gateway6.family, 0);
    wire_order_done(&order);
    json_decref(message);
}

TEST(answers_pins_and_ends_come_through)
{
    struct net_address a = address("11.1.1.1");
    json_t *messages[] = {again(wire_answer_json(77, ECONNREFUSED)), again(wire_gone_json("sb_1")),
                          again(wire_pin_json("sb_1", "pypi.org", &a, 1, 90))};
    struct wire_order order;

    CHECK_INT(wire_order_parse(messages[0], &order), 0);
    CHECK_INT(order.kind, WIRE_ANSWER);
    CHECK_INT(order.number, 77);
    CHECK_INT(order.error, ECONNREFUSED);
    CHECK_INT(wire_order_parse(messages[1], &order), 0);
    CHECK_INT(order.kind, WIRE_GONE);
    CHECK_INT(wire_order_parse(messages[2], &order), 0);
    CHECK_INT(order.kind, WIRE_PINNED);
    CHECK_STR(order.name, "pypi.org");
    CHECK_INT(order.ttl, 90);
    for (size_t i = 0; i < ARRAY_LEN(messages); i++)
        json_decref(messages[i]);
}

TEST(orders_that_are_not_whole_are_refused)
{
    CHECK_INT(parse_order("{\"box\": {\"id\": \"b\", \"address\": null, \"address6\": null,"
                          " \"policy\": 5, \"peers\": {}}}"),
              -EBADMSG);
    CHECK_INT(parse_order("{\"box\": {\"id\": \"b\", \"address\": null, \"address6\": null,"
                          " \"policy\": false, \"peers\": {\"x\": [\"y\"]}}}"),
              -EBADMSG);
    CHECK_INT(parse_order("{\"box\": {\"id\": \"b\", \"address\": null, \"address6\": null,"
                          " \"policy\": false, \"peers\": {}}}"),
              0);
    CHECK_INT(parse_order("{\"answer\": 1}"), -EBADMSG);
    CHECK_INT(parse_order("{\"gone\": 1}"), -EBADMSG);
    CHECK_INT(parse_order("{\"world\": {}}"), -EBADMSG);
}

TEST(a_message_crosses_with_its_descriptor)
{
    int pair[2], fd = -1, error = 1, null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    json_t *message;

    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    CHECK(!wire_recv(pair[1], &fd, &error));
    CHECK_INT(error, -EAGAIN);
    CHECK_INT(wire_send(pair[0], wire_answer_json(5, 0), null), 0);
    message = wire_recv(pair[1], &fd, &error);
    CHECK(message != NULL);
    CHECK(fd >= 0 && fd != null);
    CHECK_INT(json_integer_value(json_object_get(message, "answer")), 5);
    json_decref(message);
    CHECK_INT(send(pair[0], "nonsense", 8, 0), 8);
    CHECK(!wire_recv(pair[1], &fd, &error));
    CHECK_INT(error, -EBADMSG);
    (void)close(pair[0]);
    CHECK(!wire_recv(pair[1], &fd, &error));
    CHECK_INT(error, 0);
}

TEST(a_slow_reader_is_told_of_and_not_waited_for)
{
    int pair[2], r = 0;

    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    for (int i = 0; i < 100000 && r == 0; i++)
        r = wire_send(pair[0], wire_answer_json(5, 0), -1);
    CHECK_INT(r, -EAGAIN);
}

TEST(who_takes_all_that_is_to_be_had_leaves_some_to_others)
{
    unsigned own[10] = {0}, all = 0, before;

    do {
        before = all;
        for (int i = 0; i < 10; i++) {
            if (worker_is_short(1024, all, own[i]))
                continue;
            own[i]++;
            all++;
        }
    } while (all != before);
    CHECK(all > 900 && all < 1024);
    CHECK(!worker_is_short(1024, all, 0));
    CHECK(worker_is_short(1024, 512, 512) && worker_is_short(1024, 1024, 0));
}

TAP_MAIN
