#include "policy/policy_internal.h"

#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static int bad(struct err *err, const char *place, const char *field, const char *what)
{
    return err_code(err, ERR_INVALID, "bad_policy", "%s.%s: %s", place, field, what);
}

static int bad_text(struct err *err, const char *place, const char *field, const char *text,
                    const char *what)
{
    return err_code(err, ERR_INVALID, "bad_policy", "%s.%s: \"%.80s\" %s", place, field, text,
                    what);
}

static int parse_action(const json_t *in, const char *place, struct rule *r, struct err *err)
{
    const char *word = json_string_value(in);

    if (word && strcmp(word, "allow") == 0)
        r->allow = true;
    else if (!word || strcmp(word, "deny") != 0)
        return bad(err, place, "action", "write \"allow\" or \"deny\"");
    return 0;
}

static int parse_direction(const json_t *in, const char *place, struct rule *r, struct err *err)
{
    const char *word = in ? json_string_value(in) : "egress";

    if (word && (strcmp(word, "egress") == 0 || strcmp(word, "out") == 0))
        r->directions = DIRECTION_EGRESS;
    else if (word && (strcmp(word, "ingress") == 0 || strcmp(word, "in") == 0))
        r->directions = DIRECTION_INGRESS;
    else if (word && strcmp(word, "any") == 0)
        r->directions = DIRECTION_EGRESS | DIRECTION_INGRESS;
    else
        return bad(err, place, "direction", "write \"egress\", \"ingress\" or \"any\"");
    return 0;
}

/* "10.0.0.0/8", "1.2.3.4", "fd00::/8": 0, -ENOENT when it is no address at all, or -1 with err. */
static int parse_range(const char *text, const char *place, struct rule *r, struct err *err)
{
    switch (net_range_parse(text, &r->range, &r->bits)) {
    case 0:
        r->kind = DEST_RANGE;
        return 0;
    case -ERANGE:
        return bad_text(err, place, "destination", text,
                        "has no prefix length of its kind after /");
    case -EDOM:
        return bad_text(err, place, "destination", text,
                        "has bits set below its prefix; write the range's first address");
    default:
        if (strchr(text, '/'))
            return bad_text(err, place, "destination", text,
                            "is no range; write one as 10.0.0.0/8 or fd00::/8");
        return -ENOENT;
    }
}

static size_t labels(const char *name)
{
    size_t n = 1;

    for (const char *c = name; *c; c++)
        n += *c == '.';
    return n;
}

static int parse_name(const char *text, const char *place, struct rule *r, struct err *err)
{
    char name[POLICY_NAME_MAX + 1];
    bool suffix = strncmp(text, "*.", 2) == 0;

    if (net_name_is_number(text))
        return bad_text(err, place, "destination", text,
                        "is no IPv4 address as it is written here: four decimal numbers, "
                        "without leading zeros");
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c >= 128)
            return bad_text(err, place, "destination", text,
                            "has letters that DNS does not; write the name as xn--…");
    if (net_name_canonical(suffix ? text + 2 : text, name) < 0) {
        if (strlen(text) > POLICY_NAME_MAX)
            return bad(err, place, "destination", "is longer than a name can be, 253 bytes");
        return bad_text(err, place, "destination", text,
                        "is no address, range, domain, *.suffix or group");
    }
    if (labels(name) < 2 && suffix)
        return bad_text(err, place, "destination", text,
                        "is a whole top-level domain; write at least two labels after *.");
    if (labels(name) < 2)
        return bad_text(err, place, "destination", text,
                        "is neither a domain nor a group (public, private, link-local, metadata, "
                        "multicast, host, dns)");
    if (net_name_is_own(name))
        return bad_text(err, place, "destination", text,
                        "never leaves the sandbox; for the host write the group host");
    r->kind = suffix ? DEST_SUFFIX : DEST_NAME;
    r->name = xstrdup(name);
    return 0;
}

/* Can a packet ever get there? A policy that says so of none promises what it does not keep. */
static int check_applies(const struct rule *r, const char *text, const char *place, struct err *err)
{
    if (r->directions & DIRECTION_INGRESS) {
        if (rule_is_name(r) || r->kind == DEST_DNS)
            return bad_text(err, place, "destination", text,
                            "cannot be known of who calls; write an address, a range or a group");
        if (r->directions == DIRECTION_INGRESS)
            return 0;
    }
    if (r->kind == DEST_RANGE && net_range_never_applies(&r->range, r->bits))
        return bad_text(err, place, "destination", text,
                        "can never apply: nothing of a sandbox gets there; for the host write the "
                        "group host");
    if (r->kind == DEST_GROUP && r->allow &&
        (r->group == CLASS_LOOPBACK || r->group == CLASS_MULTICAST))
        return bad_text(err, place, "destination", text,
                        "can never be allowed: it does not leave a sandbox's own link; for the "
                        "host write the group host");
    return 0;
}

static int parse_destination(const json_t *in, const char *place, struct rule *r, struct err *err)
{
    const char *text = in ? json_string_value(in) : "*";
    int n;

    if (!text || json_string_length(in ? in : NULL) != (in ? strlen(text) : 0))
        return bad(err, place, "destination", "write an address, a range, a domain or a group");
    if (strcmp(text, "*") == 0 || strcmp(text, "any") == 0) {
        r->kind = DEST_ANY;
    } else if (strcmp(text, "dns") == 0) {
        r->kind = DEST_DNS;
    } else if (net_class_of_word(text, &r->group) == 0) {
        r->kind = DEST_GROUP;
    } else {
        n = parse_range(text, place, r, err);
        if (n == -ENOENT)
            n = parse_name(text, place, r, err);
        if (n < 0)
            return -1;
    }
    return check_applies(r, text, place, err);
}

static const struct {
    const char *word;
    unsigned protocol;
    uint8_t number;
} protocols[] = {
    {"tcp", PROTO_TCP, IPPROTO_TCP},      {"udp", PROTO_UDP, IPPROTO_UDP},
    {"icmp", PROTO_ICMP, IPPROTO_ICMP},   {"icmpv6", PROTO_ICMPV6, IPPROTO_ICMPV6},
    {"icmpv4", PROTO_ICMP, IPPROTO_ICMP},
};
#define N_PROTOCOLS (sizeof(protocols) / sizeof(protocols[0]))

static unsigned protocol_of(const char *word, size_t len)
{
    for (size_t i = 0; i < N_PROTOCOLS; i++)
        if (strlen(protocols[i].word) == len && memcmp(word, protocols[i].word, len) == 0)
            return protocols[i].protocol;
    return 0;
}

/* "tcp", or several with commas between. */
static int add_protocol(const json_t *in, const char *place, struct rule *r, struct err *err)
{
    const char *word = json_string_value(in);
    unsigned one = 0;

    while (word) {
        size_t len = strcspn(word, ",");

        one = protocol_of(word, len);
        r->protocols |= one;
        word = one && word[len] ? word + len + 1 : NULL;
    }
    if (!one)
        return bad(err, place, "protocol", "write \"tcp\", \"udp\", \"icmp\" or \"icmpv6\"");
    return 0;
}

static int parse_protocol(const json_t *in, const char *place, struct rule *r, struct err *err)
{
    size_t i;
    json_t *one;

    if (!in)
        return 0;
    if (!json_is_array(in))
        return add_protocol(in, place, r, err);
    if (json_array_size(in) == 0)
        return bad(err, place, "protocol", "is an empty list; leave it out, or name one");
    json_array_foreach((json_t *)in, i, one) if (add_protocol(one, place, r, err) < 0) return -1;
    return 0;
}

static int add_port(struct rule *r, uint64_t lo, uint64_t hi)
{
    if (lo < 1 || hi > 65535 || lo > hi || r->n_ports == POLICY_PORTS_MAX)
        return -EINVAL;
    r->ports[r->n_ports++] = (struct port_range){(uint16_t)lo, (uint16_t)hi};
    return 0;
}

/* "443", "8000-8100", and several of them with commas between. */
static int add_port_text(struct rule *r, const char *text)
{
    char copy[256], *rest = copy, *part;

    if (strlen(text) >= sizeof(copy))
        return -EINVAL;
    snprintf(copy, sizeof(copy), "%s", text);
    while ((part = strsep(&rest, ","))) {
        char *dash = strchr(part, '-');
        uint64_t lo, hi;

        if (dash)
            *dash = '\0';
        if (str_u64(part, &lo) < 0 || (dash && str_u64(dash + 1, &hi) < 0) ||
            add_port(r, lo, dash ? hi : lo) < 0)
            return -EINVAL;
    }
    return 0;
}

static int add_port_json(struct rule *r, const json_t *in)
{
    if (json_is_integer(in) && json_integer_value(in) > 0)
        return add_port(r, (uint64_t)json_integer_value(in), (uint64_t)json_integer_value(in));
    return json_is_string(in) ? add_port_text(r, json_string_value(in)) : -EINVAL;
}

static int compare_ports(const void *a, const void *b)
{
    const struct port_range *x = a, *y = b;

    return x->lo != y->lo ? x->lo - y->lo : x->hi - y->hi;
}

/* In their order, and those that touch made one. */
static void join_ports(struct rule *r)
{
    unsigned n = 0;

    qsort(r->ports, r->n_ports, sizeof(r->ports[0]), compare_ports);
    for (unsigned i = 0; i < r->n_ports; i++) {
        if (n > 0 && r->ports[i].lo <= r->ports[n - 1].hi + 1) {
            if (r->ports[i].hi > r->ports[n - 1].hi)
                r->ports[n - 1].hi = r->ports[i].hi;
        } else {
            r->ports[n++] = r->ports[i];
        }
    }
    r->n_ports = n;
}

static int parse_port(const json_t *in, const char *place, struct rule *r, struct err *err)
{
    int n = 0;
    size_t i;
    json_t *one;

    if (!in)
        return 0;
    if (json_is_array(in) && json_array_size(in) > 0) {
        json_array_foreach((json_t *)in, i, one) if (n == 0) n = add_port_json(r, one);
    } else {
        n = add_port_json(r, in);
    }
    if (n < 0)
        return bad(err, place, "port",
                   "write a number from 1 to 65535, a range as \"8000-8100\", or a list of at most "
                   "32 of them");
    join_ports(r);
    if (r->protocols & (PROTO_ICMP | PROTO_ICMPV6))
        return bad(err, place, "port", "ICMP has no ports; leave it out");
    return 0;
}

static int check_keys(const json_t *in, const char *place, struct err *err)
{
    static const char *const known[] = {"action", "direction", "destination", "protocol", "port"};
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)in, key, value)
    {
        bool found = false;

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            found |= strcmp(key, known[i]) == 0;
        if (!found)
            return err_code(err, ERR_INVALID, "bad_policy",
                            "%s.%.60s: no rule has that; known are action, direction, "
                            "destination, protocol, port",
                            place, key);
    }
    return 0;
}

/* What is null was not said. */
static const json_t *said(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    return json_is_null(v) ? NULL : v;
}

static int parse_object(const json_t *in, const char *place, struct rule *r, struct err *err)
{
    if (check_keys(in, place, err) < 0 || parse_action(said(in, "action"), place, r, err) < 0 ||
        parse_direction(said(in, "direction"), place, r, err) < 0 ||
        parse_destination(said(in, "destination"), place, r, err) < 0 ||
        parse_protocol(said(in, "protocol"), place, r, err) < 0 ||
        parse_port(said(in, "port"), place, r, err) < 0)
        return -1;
    if (r->kind == DEST_DNS && !rule_is_whole(r))
        return bad(err, place, "destination", "dns has neither protocol nor port; leave them out");
    return 0;
}

int rule_parse(const json_t *in, const char *place, struct rule *ret, struct err *err)
{
    struct rule r = {0};
    json_t *object = NULL;
    int n;

    if (json_is_string(in)) {
        object = rule_of_text(json_string_value(in), place, err);
        if (!object)
            return -1;
        in = object;
    }
    if (!json_is_object(in))
        return err_code(err, ERR_INVALID, "bad_policy",
                        "%s: write an object with action and destination, or a text as "
                        "\"allow@pypi.org:tcp:443\"",
                        place);
    n = parse_object(in, place, &r, err);
    json_decref(object);
    if (n < 0) {
        rule_done(&r);
        return -1;
    }
    *ret = r;
    return 0;
}

void rule_done(struct rule *r)
{
    free(r->name);
    r->name = NULL;
}

static void destination_text(const struct rule *r, char *ret, size_t size)
{
    char address[NET_ADDRESS_TEXT];

    switch (r->kind) {
    case DEST_ANY:
        snprintf(ret, size, "*");
        break;
    case DEST_DNS:
        snprintf(ret, size, "dns");
        break;
    case DEST_GROUP:
        snprintf(ret, size, "%s", net_class_word(r->group));
        break;
    case DEST_NAME:
        snprintf(ret, size, "%s", r->name);
        break;
    case DEST_SUFFIX:
        snprintf(ret, size, "*.%s", r->name);
        break;
    case DEST_RANGE:
        net_address_text(&r->range, address);
        if (rule_is_exact(r))
            snprintf(ret, size, "%s", address);
        else
            snprintf(ret, size, "%s/%u", address, r->bits);
        break;
    }
}

static void add_protocols(const struct rule *r, struct buf *b)
{
    size_t n = 0;

    for (size_t i = 0; i < N_PROTOCOLS - 1; i++)
        if (r->protocols & protocols[i].protocol)
            (void)buf_addf(b, "%s%s", n++ ? "," : "", protocols[i].word);
}

static void add_ports(const struct rule *r, struct buf *b)
{
    for (unsigned i = 0; i < r->n_ports; i++) {
        (void)buf_addf(b, "%s%u", i ? "," : "", r->ports[i].lo);
        if (r->ports[i].hi != r->ports[i].lo)
            (void)buf_addf(b, "-%u", r->ports[i].hi);
    }
}

/* Lists as one text, so that a client has one type to know. */
static json_t *list_json(const struct rule *r, void (*add)(const struct rule *r, struct buf *b))
{
    struct buf text;
    json_t *o;

    buf_init(&text, 1024);
    add(r, &text);
    o = json_string(text.data);
    buf_done(&text);
    return o;
}

json_t *rule_json(const struct rule *r)
{
    char destination[POLICY_NAME_MAX + 3];
    json_t *o = json_object();

    destination_text(r, destination, sizeof(destination));
    json_object_set_new(o, "action", json_string(r->allow ? "allow" : "deny"));
    json_object_set_new(o, "direction",
                        json_string(r->directions == DIRECTION_EGRESS    ? "egress"
                                    : r->directions == DIRECTION_INGRESS ? "ingress"
                                                                         : "any"));
    json_object_set_new(o, "destination", json_string(destination));
    if (r->protocols)
        json_object_set_new(o, "protocol", list_json(r, add_protocols));
    if (r->n_ports > 0)
        json_object_set_new(o, "port", list_json(r, add_ports));
    return o;
}

void rule_text(const struct rule *r, char *ret, size_t size)
{
    char destination[POLICY_NAME_MAX + 3];
    struct buf b;

    destination_text(r, destination, sizeof(destination));
    buf_init(&b, 1024);
    (void)buf_addf(&b, "%s %s", r->allow ? "allow" : "deny", destination);
    if (r->protocols) {
        (void)buf_add_str(&b, " ");
        add_protocols(r, &b);
    }
    if (r->n_ports > 0) {
        (void)buf_add_str(&b, " ");
        add_ports(r, &b);
    }
    snprintf(ret, size, "%s", b.data);
    buf_done(&b);
}

/* -- What a rule is about -- */

bool rule_is_name(const struct rule *r)
{
    return r->kind == DEST_NAME || r->kind == DEST_SUFFIX;
}

bool rule_is_whole(const struct rule *r)
{
    return r->protocols == 0 && r->n_ports == 0;
}

bool rule_is_exact(const struct rule *r)
{
    return r->kind == DEST_RANGE && r->bits == net_address_bits(&r->range);
}

unsigned rule_protocols(const struct rule *r)
{
    if (r->protocols)
        return r->protocols;
    if (!r->allow)
        return PROTO_TCP | PROTO_UDP | (r->n_ports ? 0 : PROTO_ICMP | PROTO_ICMPV6);
    return rule_is_name(r) ? PROTO_TCP : PROTO_TCP | PROTO_UDP;
}

bool rule_covers(const struct rule *r, uint8_t protocol, uint16_t port)
{
    unsigned about = rule_protocols(r), bit = 0;

    for (size_t i = 0; i < N_PROTOCOLS; i++)
        if (protocols[i].number == protocol)
            bit = protocols[i].protocol;
    if (!(about & bit))
        return false;
    for (unsigned i = 0; i < r->n_ports; i++)
        if (port >= r->ports[i].lo && port <= r->ports[i].hi)
            return true;
    return r->n_ports == 0;
}

bool rule_has_name(const struct rule *r, const char *name)
{
    if (r->kind == DEST_NAME)
        return strcmp(r->name, name) == 0;
    return r->kind == DEST_SUFFIX && net_name_below(name, r->name);
}

const uint16_t watched_ports[2] = {80, 443};

bool rule_watches(const struct rule *r, uint16_t port)
{
    if (r->allow || !rule_is_name(r) || !(rule_protocols(r) & PROTO_TCP))
        return false;
    return r->n_ports > 0 ? rule_covers(r, IPPROTO_TCP, port)
                          : port == watched_ports[0] || port == watched_ports[1];
}
