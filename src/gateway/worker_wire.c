#include "gateway/worker_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/str.h"

#define TTL_MAX 86400

/* ---- both ---- */

int wire_send(int sock, json_t *message, int fd)
{
    auto_free char *text = json_dumps(message, JSON_COMPACT);
    struct iovec iov = {.iov_base = text, .iov_len = text ? strlen(text) : 0};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    json_decref(message);
    if (!text)
        return -EINVAL;
    if (iov.iov_len > WIRE_BYTES_MAX)
        return -EMSGSIZE;
    if (fd >= 0) {
        struct cmsghdr *c;

        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(int));
    }
    do {
        n = sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* The descriptor that came with a message, -1 without one; all but the first are closed. */
static int take_fd(struct msghdr *msg, bool *ret_many)
{
    int fd = -1;

    *ret_many = (msg->msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        size_t n;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int one;

            memcpy(&one, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (fd < 0) {
                fd = one;
            } else {
                (void)close(one);
                *ret_many = true;
            }
        }
    }
    return fd;
}

json_t *wire_recv(int sock, int *ret_fd, int *ret_error)
{
    static char text[WIRE_BYTES_MAX]; /* each side is one thread */
    struct iovec iov = {.iov_base = text, .iov_len = sizeof(text)};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    auto_close int fd = -1;
    json_t *message = NULL;
    bool many;
    ssize_t n;

    do {
        n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        *ret_error = n < 0 ? -errno : 0;
        return NULL;
    }
    fd = take_fd(&msg, &many);
    if (!many && !(msg.msg_flags & MSG_TRUNC))
        message = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(message)) {
        json_decref(message);
        *ret_error = -EBADMSG;
        return NULL;
    }
    *ret_fd = steal_fd(fd);
    return message;
}

json_t *wire_address_json(const struct net_address *a)
{
    char text[NET_ADDRESS_TEXT];

    if (!a || a->family == 0)
        return json_null();
    net_address_text(a, text);
    return json_string(text);
}

int wire_server_parse(const char *text, struct wire_server *ret)
{
    const char *hash = strchr(text, '#');
    auto_free char *address = hash ? xstrndup(text, (size_t)(hash - text)) : xstrdup(text);
    struct wire_server s = {.port = 53};
    uint64_t port;

    if (net_address_parse(address, &s.address) < 0)
        return -EINVAL;
    if (hash) {
        if (str_u64(hash + 1, &port) < 0 || port == 0 || port > UINT16_MAX)
            return -EINVAL;
        s.port = (uint16_t)port;
    }
    *ret = s;
    return 0;
}

/* ---- reading members: each returns 0 or -EBADMSG, and counts what it read, so that what nobody
 * read can be refused ---- */

struct members {
    const json_t *object;
    size_t seen;
};

static const json_t *member(struct members *m, const char *name)
{
    const json_t *v = json_object_get(m->object, name);

    if (v)
        m->seen++;
    return v;
}

static int get_text(struct members *m, const char *name, char *ret, size_t size)
{
    const json_t *v = member(m, name);
    const char *text = json_string_value(v);

    if (!text || json_string_length(v) >= size || strlen(text) != json_string_length(v))
        return -EBADMSG;
    memcpy(ret, text, strlen(text) + 1);
    return 0;
}

static int get_number(struct members *m, const char *name, int64_t least, int64_t most,
                      int64_t *ret)
{
    const json_t *v = member(m, name);

    if (!json_is_integer(v) || json_integer_value(v) < least || json_integer_value(v) > most)
        return -EBADMSG;
    *ret = json_integer_value(v);
    return 0;
}

static int get_address(struct members *m, const char *name, struct net_address *ret)
{
    const json_t *v = member(m, name);

    *ret = (struct net_address){0};
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_string(v) || net_address_parse(json_string_value(v), ret) < 0)
        return -EBADMSG;
    return 0;
}

static int get_addresses(struct members *m, const char *name, struct net_address *ret, unsigned max,
                         unsigned *ret_count)
{
    const json_t *v = member(m, name), *one;
    size_t i;

    if (!json_is_array(v) || json_array_size(v) > max)
        return -EBADMSG;
    json_array_foreach(v, i, one)
    {
        if (!json_is_string(one) || net_address_parse(json_string_value(one), &ret[i]) < 0)
            return -EBADMSG;
    }
    *ret_count = (unsigned)json_array_size(v);
    return 0;
}

static json_t *addresses_json(const struct net_address *a, unsigned count)
{
    json_t *array = json_array();

    for (unsigned i = 0; i < count; i++)
        (void)json_array_append_new(array, wire_address_json(&a[i]));
    return array;
}

static int all_read(const struct members *m)
{
    return m->seen == json_object_size(m->object) ? 0 : -EBADMSG;
}

/* ---- the worker's messages ---- */

static const char *const protocols[] = {"dns", "tcp", "tls", "http"};

static json_t *pin_json(const struct wire_ask *ask)
{
    json_t *rules = json_array();

    for (unsigned i = 0; i < ask->rule_count; i++)
        (void)json_array_append_new(rules, json_integer(ask->rules[i]));
    return json_pack("{s:s, s:s, s:o, s:o, s:i}", "box", ask->box, "name", ask->name, "rules",
                     rules, "addresses", addresses_json(ask->addresses, ask->address_count), "ttl",
                     (int)ask->ttl);
}

static json_t *denied_json(const struct wire_ask *ask)
{
    return json_pack("{s:{s:s, s:s, s:o, s:i, s:s, s:i, s:s, s:i}}", "denied", "box", ask->box,
                     "protocol", ask->protocol, "address", wire_address_json(&ask->address), "port",
                     (int)ask->port, "name", ask->name, "rule", ask->rule, "why", ask->why, "count",
                     (int)ask->count);
}

json_t *wire_ask_json(const struct wire_ask *ask)
{
    switch (ask->kind) {
    case WIRE_DIAL:
        return json_pack("{s:I, s:{s:s, s:o, s:i}}", "ask", (json_int_t)ask->number, "dial", "box",
                         ask->box, "address", wire_address_json(&ask->address), "port",
                         (int)ask->port);
    case WIRE_DNS:
        return json_pack("{s:I, s:{s:s, s:o, s:i, s:b}}", "ask", (json_int_t)ask->number, "dns",
                         "box", ask->box, "server", wire_address_json(&ask->address), "port",
                         (int)ask->port, "tcp", (int)ask->tcp);
    case WIRE_PIN:
        return json_pack("{s:I, s:o}", "ask", (json_int_t)ask->number, "pin", pin_json(ask));
    case WIRE_DENIED:
        return denied_json(ask);
    default:
        return NULL;
    }
}

static int parse_port(struct members *m, int64_t least, struct wire_ask *ret)
{
    int64_t port;

    if (get_number(m, "port", least, UINT16_MAX, &port) < 0)
        return -EBADMSG;
    ret->port = (uint16_t)port;
    return 0;
}

static int parse_dial(struct members *m, struct wire_ask *ret)
{
    if (get_address(m, "address", &ret->address) < 0 || ret->address.family == 0)
        return -EBADMSG;
    return parse_port(m, 1, ret);
}

static int parse_dns(struct members *m, struct wire_ask *ret)
{
    const json_t *tcp = member(m, "tcp");

    if (get_address(m, "server", &ret->address) < 0 || ret->address.family == 0 ||
        !json_is_boolean(tcp))
        return -EBADMSG;
    ret->tcp = json_is_true(tcp);
    return parse_port(m, 1, ret);
}

static int parse_pin(struct members *m, struct wire_ask *ret)
{
    const json_t *rules = member(m, "rules"), *one;
    int64_t ttl;
    size_t i;

    if (!json_is_array(rules) || json_array_size(rules) > WIRE_RULES_MAX ||
        get_text(m, "name", ret->name, sizeof(ret->name)) < 0 || ret->name[0] == '\0' ||
        get_addresses(m, "addresses", ret->addresses, WIRE_ADDRESSES_MAX, &ret->address_count) <
            0 ||
        get_number(m, "ttl", 1, TTL_MAX, &ttl) < 0)
        return -EBADMSG;
    json_array_foreach(rules, i, one)
    {
        if (!json_is_integer(one) || json_integer_value(one) < 0 ||
            json_integer_value(one) > UINT16_MAX)
            return -EBADMSG;
        ret->rules[i] = (unsigned)json_integer_value(one);
    }
    ret->rule_count = (unsigned)json_array_size(rules);
    ret->ttl = (unsigned)ttl;
    return 0;
}

static int parse_denied(struct members *m, struct wire_ask *ret)
{
    int64_t rule, count;
    char protocol[8];

    if (get_text(m, "protocol", protocol, sizeof(protocol)) < 0 ||
        get_address(m, "address", &ret->address) < 0 || parse_port(m, 0, ret) < 0 ||
        get_text(m, "name", ret->name, sizeof(ret->name)) < 0 ||
        get_number(m, "rule", -2, UINT16_MAX, &rule) < 0 ||
        get_text(m, "why", ret->why, sizeof(ret->why)) < 0 ||
        get_number(m, "count", 1, INT32_MAX, &count) < 0)
        return -EBADMSG;
    for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
        if (strcmp(protocol, protocols[i]) == 0)
            ret->protocol = protocols[i];
    }
    ret->rule = (int)rule;
    ret->count = (unsigned)count;
    return ret->protocol ? 0 : -EBADMSG;
}

static const struct {
    const char *name;
    int (*parse)(struct members *m, struct wire_ask *ret);
} asks[] = {
    [WIRE_DIAL] = {"dial", parse_dial},
    [WIRE_DNS] = {"dns", parse_dns},
    [WIRE_PIN] = {"pin", parse_pin},
    [WIRE_DENIED] = {"denied", parse_denied},
};

int wire_ask_parse(const json_t *message, struct wire_ask *ret)
{
    struct members m = {.object = message};
    int64_t number = 0;

    *ret = (struct wire_ask){0};
    if (json_object_get(message, "ask") && get_number(&m, "ask", 1, UINT32_MAX, &number) < 0)
        return -EBADMSG;
    ret->number = (uint32_t)number;
    for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
        struct members in = {.object = json_object_get(message, asks[i].name)};

        if (!in.object)
            continue;
        m.seen++;
        ret->kind = (enum wire_kind)i;
        if (!json_is_object(in.object) || all_read(&m) < 0 ||
            (ret->number == 0) != (i == WIRE_DENIED) ||
            get_text(&in, "box", ret->box, sizeof(ret->box)) < 0 || asks[i].parse(&in, ret) < 0)
            return -EBADMSG;
        return all_read(&in);
    }
    return -EBADMSG;
}

/* ---- the warden's messages ---- */

static json_t *server_json(const struct wire_server *s)
{
    auto_free char *text = NULL;
    char address[NET_ADDRESS_TEXT];

    net_address_text(&s->address, address);
    text = xasprintf("%s#%u", address, s->port);
    return json_string(text);
}

json_t *wire_world_json(const struct wire_world *w)
{
    json_t *servers = json_array();

    for (unsigned i = 0; i < w->server_count; i++)
        (void)json_array_append_new(servers, server_json(&w->servers[i]));
    return json_pack("{s:{s:o, s:o, s:o, s:o}}", "world", "nameservers", servers, "gateway",
                     wire_address_json(&w->gateway), "gateway6", wire_address_json(&w->gateway6),
                     "host", addresses_json(w->host, w->host_count));
}

json_t *wire_box_json(const char *id, const struct net_address *address,
                      const struct net_address *address6, json_t *policy, json_t *peers)
{
    return json_pack("{s:{s:s, s:o, s:o, s:o, s:o}}", "box", "id", id, "address",
                     wire_address_json(address), "address6", wire_address_json(address6), "policy",
                     policy ? json_incref(policy) : json_false(), "peers",
                     peers ? json_incref(peers) : json_object());
}

json_t *wire_pin_json(const char *id, const char *name, const struct net_address *addresses,
                      unsigned count, unsigned ttl)
{
    return json_pack("{s:{s:s, s:s, s:o, s:i}}", "pin", "box", id, "name", name, "addresses",
                     addresses_json(addresses, count), "ttl", (int)ttl);
}

json_t *wire_gone_json(const char *id)
{
    return json_pack("{s:s}", "gone", id);
}

json_t *wire_answer_json(uint32_t number, int error)
{
    return json_pack("{s:I, s:i}", "answer", (json_int_t)number, "errno", error);
}

static int parse_world(struct members *m, struct wire_order *ret)
{
    const json_t *servers = member(m, "nameservers"), *one;
    struct wire_world *w = ret->world = xcalloc(1, sizeof(*w));
    size_t i;

    if (!json_is_array(servers) || json_array_size(servers) > WIRE_SERVERS_MAX)
        return -EBADMSG;
    json_array_foreach(servers, i, one)
    {
        if (!json_is_string(one) || wire_server_parse(json_string_value(one), &w->servers[i]) < 0)
            return -EBADMSG;
    }
    w->server_count = (unsigned)json_array_size(servers);
    if (get_address(m, "gateway", &w->gateway) < 0 || get_address(m, "gateway6", &w->gateway6) < 0)
        return -EBADMSG;
    return get_addresses(m, "host", w->host, WIRE_HOST_MAX, &w->host_count);
}

static int check_peers(const json_t *peers)
{
    struct net_address a[WIRE_ADDRESSES_MAX];
    const json_t *list;
    const char *name;
    unsigned n;

    if (!json_is_object(peers) || json_object_size(peers) > WIRE_PEERS_MAX)
        return -EBADMSG;
    json_object_foreach((json_t *)peers, name, list)
    {
        struct members m = {.object = peers};

        if (strlen(name) > WIRE_NAME_MAX || get_addresses(&m, name, a, ARRAY_LEN(a), &n) < 0)
            return -EBADMSG;
    }
    return 0;
}

static int parse_box(struct members *m, struct wire_order *ret)
{
    const json_t *policy = member(m, "policy"), *peers = member(m, "peers");

    if (get_text(m, "id", ret->id, sizeof(ret->id)) < 0 ||
        get_address(m, "address", &ret->address) < 0 ||
        get_address(m, "address6", &ret->address6) < 0 || check_peers(peers) < 0 ||
        !(json_is_object(policy) || json_is_boolean(policy)))
        return -EBADMSG;
    ret->policy = json_incref((json_t *)policy);
    ret->peers = json_incref((json_t *)peers);
    return 0;
}

static int parse_pinned(struct members *m, struct wire_order *ret)
{
    int64_t ttl;

    if (get_text(m, "box", ret->id, sizeof(ret->id)) < 0 ||
        get_text(m, "name", ret->name, sizeof(ret->name)) < 0 ||
        get_addresses(m, "addresses", ret->addresses, WIRE_ADDRESSES_MAX, &ret->address_count) <
            0 ||
        get_number(m, "ttl", 1, TTL_MAX, &ttl) < 0)
        return -EBADMSG;
    ret->ttl = (unsigned)ttl;
    return 0;
}

/* {"world": {…}}, {"box": {…}}, {"pin": {…}}: one member that is an object. */
static int parse_inner(const json_t *message, const char *name,
                       int (*parse)(struct members *m, struct wire_order *ret),
                       struct wire_order *ret)
{
    struct members in = {.object = json_object_get(message, name)};

    if (json_object_size(message) != 1 || !json_is_object(in.object) || parse(&in, ret) < 0)
        return -EBADMSG;
    return all_read(&in);
}

static int parse_answer(const json_t *message, struct wire_order *ret)
{
    struct members m = {.object = message};
    int64_t number, error;

    if (get_number(&m, "answer", 1, UINT32_MAX, &number) < 0 ||
        get_number(&m, "errno", 0, 4095, &error) < 0)
        return -EBADMSG;
    ret->number = (uint32_t)number;
    ret->error = (int)error;
    return all_read(&m);
}

static int parse_gone(const json_t *message, struct wire_order *ret)
{
    struct members m = {.object = message};

    return get_text(&m, "gone", ret->id, sizeof(ret->id)) < 0 ? -EBADMSG : all_read(&m);
}

static int parse_order(const json_t *message, struct wire_order *ret)
{
    if (json_object_get(message, "answer")) {
        ret->kind = WIRE_ANSWER;
        return parse_answer(message, ret);
    }
    if (json_object_get(message, "box")) {
        ret->kind = WIRE_BOX;
        return parse_inner(message, "box", parse_box, ret);
    }
    if (json_object_get(message, "pin")) {
        ret->kind = WIRE_PINNED;
        return parse_inner(message, "pin", parse_pinned, ret);
    }
    if (json_object_get(message, "world")) {
        ret->kind = WIRE_WORLD;
        return parse_inner(message, "world", parse_world, ret);
    }
    ret->kind = WIRE_GONE;
    return parse_gone(message, ret);
}

int wire_order_parse(const json_t *message, struct wire_order *ret)
{
    *ret = (struct wire_order){0};
    if (parse_order(message, ret) == 0)
        return 0;
    wire_order_done(ret);
    return -EBADMSG;
}

void wire_order_done(struct wire_order *order)
{
    free(order->world);
    json_decref(order->policy);
    json_decref(order->peers);
    order->world = NULL;
    order->policy = order->peers = NULL;
}
