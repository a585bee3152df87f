#include "policy/policy_internal.h"

#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int bad(struct err *err, const char *place, const char *what)
{
    return err_code(err, ERR_INVALID, "bad_policy", "%s: %s", place, what);
}

/* What is null was not said. */
static const json_t *said(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    return json_is_null(v) ? NULL : v;
}

static int check_keys(const json_t *in, const char *place, const char *const *known,
                      struct err *err)
{
    struct buf list;
    const char *key;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)in, key, value)
    {
        const char *const *k = known;

        while (*k && strcmp(*k, key) != 0)
            k++;
        if (*k || r < 0)
            continue;
        buf_init(&list, 240);
        for (k = known; *k; k++)
            (void)buf_addf(&list, "%s%s", k == known ? "" : ", ", *k);
        r = err_code(err, ERR_INVALID, "bad_policy", "%s%.60s is not known; known are %s", place,
                     key, list.data);
        buf_done(&list);
    }
    return r;
}

static int parse_default(const json_t *in, const char *place, bool *ret, struct err *err)
{
    const char *word = json_string_value(in);

    if (!in)
        return 0;
    if (!word || (strcmp(word, "allow") != 0 && strcmp(word, "deny") != 0))
        return bad(err, place, "write \"allow\" or \"deny\"");
    *ret = strcmp(word, "allow") == 0;
    return 0;
}

static void add_rule(struct rule *r, void *arg)
{
    struct policy *p = arg;

    p->rules = xrealloc(p->rules, (p->n_rules + 1) * sizeof(*p->rules));
    p->rules[p->n_rules++] = *r;
}

static int parse_rules(struct policy *p, const json_t *in, struct err *err)
{
    json_t *one;
    size_t i;

    if (!in)
        return 0;
    if (!json_is_array(in))
        return bad(err, "rules", "write a list");
    if (json_array_size(in) > POLICY_RULES_MAX)
        return bad(err, "rules", "are more than 256; a suffix, a range or a profile says more");
    json_array_foreach((json_t *)in, i, one)
    {
        char place[32];
        struct rule r;

        snprintf(place, sizeof(place), "rules[%zu]", i);
        if (rule_parse(one, place, &r, err) < 0)
            return -1;
        add_rule(&r, p);
    }
    return 0;
}

static bool has_profile(const struct policy *p, const struct profile *profile)
{
    for (unsigned i = 0; i < p->n_profiles; i++)
        if (p->profiles[i] == profile)
            return true;
    return false;
}

static void add_profile(struct policy *p, const struct profile *profile)
{
    if (!has_profile(p, profile))
        p->profiles[p->n_profiles++] = profile;
}

/* A name of the table, or "packages", which is all registries. */
static int add_profile_word(struct policy *p, const char *word, const char *place, struct err *err)
{
    const struct profile *found = profile_find(word), *near = profiles;

    if (strcmp(word, "packages") == 0) {
        for (found = profiles; found->name; found++)
            if (found->registry)
                add_profile(p, found);
        return 0;
    }
    if (found) {
        add_profile(p, found);
        return 0;
    }
    for (found = profiles; found->name; found++)
        if (str_distance(found->name, word) < str_distance(near->name, word))
            near = found;
    if (str_distance(near->name, word) <= 2)
        return err_code(err, ERR_INVALID, "bad_policy",
                        "%s: there is no profile \"%.40s\"; did you mean %s? "
                        "(docs/network-policy.md lists them)",
                        place, word, near->name);
    return err_code(err, ERR_INVALID, "bad_policy",
                    "%s: there is no profile \"%.40s\" (docs/network-policy.md lists them; a "
                    "network of sandboxes is joined with --connect, \"networks\" in the API)",
                    place, word);
}

static int parse_profiles(struct policy *p, const json_t *in, struct err *err)
{
    json_t *one;
    size_t i;

    if (!in)
        return 0;
    if (!json_is_array(in) || json_array_size(in) > 64)
        return bad(err, "profiles", "write a list of names, as [\"pypi\", \"npm\"]");
    json_array_foreach((json_t *)in, i, one)
    {
        char place[32];

        snprintf(place, sizeof(place), "profiles[%zu]", i);
        if (!json_is_string(one))
            return bad(err, place, "write a name, as \"pypi\"");
        if (add_profile_word(p, json_string_value(one), place, err) < 0)
            return -1;
    }
    return 0;
}

/* "1.1.1.1", "1.1.1.1:5353", "[2606:4700::1111]:53", "2606:4700::1111". */
static int parse_nameserver(const char *text, struct policy_nameserver *ret)
{
    char address[80];
    const char *colon = strrchr(text, ':'), *start = text;
    uint64_t port = 53;
    enum net_class c;

    if (strlen(text) >= sizeof(address))
        return -1;
    if (text[0] == '[') {
        const char *close = strchr(text, ']');

        if (!close || (close[1] && close[1] != ':'))
            return -1;
        start++;
        colon = close[1] ? close + 1 : NULL;
        snprintf(address, sizeof(address), "%.*s", (int)(close - start), start);
    } else {
        if (colon && strchr(text, ':') != colon)
            colon = NULL; /* IPv6 without a port */
        snprintf(address, sizeof(address), "%.*s", colon ? (int)(colon - start) : 79, start);
    }
    if ((colon && str_u64(colon + 1, &port) < 0) || port < 1 || port > 65535 ||
        net_address_parse(address, &ret->address) < 0)
        return -1;
    ret->port = (uint16_t)port;
    c = net_classify(&ret->address);
    return c == CLASS_PUBLIC || c == CLASS_PRIVATE || c == CLASS_RESERVED ? 0 : -1;
}

static int parse_nameservers(struct policy_dns *dns, const json_t *in, struct err *err)
{
    json_t *one;
    size_t i;

    if (!in)
        return 0;
    if (!json_is_array(in) || json_array_size(in) > POLICY_NAMESERVERS_MAX)
        return bad(err, "dns.nameservers", "write a list of at most 4 addresses");
    json_array_foreach((json_t *)in, i, one)
    {
        char place[40];

        snprintf(place, sizeof(place), "dns.nameservers[%zu]", i);
        if (!json_is_string(one) ||
            parse_nameserver(json_string_value(one), &dns->nameservers[dns->n]) < 0)
            return bad(err, place,
                       "write an address, as \"1.1.1.1\" or \"[2606:4700:4700::1111]:53\"; neither "
                       "loopback nor link-local");
        dns->n++;
    }
    return 0;
}

static int parse_dns(struct policy *p, const json_t *in, struct err *err)
{
    static const char *const known[] = {"nameservers", "rebindProtection", "queryTimeout", NULL};
    const json_t *v;

    if (!in)
        return 0;
    p->dns_given = true;
    if (!json_is_object(in))
        return bad(err, "dns", "write an object");
    if (check_keys(in, "dns.", known, err) < 0 ||
        parse_nameservers(&p->dns, said(in, "nameservers"), err) < 0)
        return -1;
    v = said(in, "rebindProtection");
    if (v && !json_is_boolean(v))
        return bad(err, "dns.rebindProtection", "write true or false");
    if (v)
        p->dns.rebind_protection = json_is_true(v);
    v = said(in, "queryTimeout");
    if (v && (!json_is_integer(v) || json_integer_value(v) < 100 || json_integer_value(v) > 30000))
        return bad(err, "dns.queryTimeout", "write milliseconds, from 100 to 30000");
    if (v)
        p->dns.query_timeout_ms = (unsigned)json_integer_value(v);
    return 0;
}

static int parse_rate(const json_t *in, const char *place, struct rate *ret, struct err *err)
{
    static const char *const known[] = {"bytesPerSecond", "burst", NULL};
    const json_t *rate = said(in, "bytesPerSecond"), *burst = said(in, "burst");
    char key[48];

    if (!in)
        return 0;
    snprintf(key, sizeof(key), "%s.", place);
    if (!json_is_object(in))
        return bad(err, place, "write an object, as {\"bytesPerSecond\": 1000000}");
    if (check_keys(in, key, known, err) < 0)
        return -1;
    if (!json_is_integer(rate) || json_integer_value(rate) < 1024 ||
        json_integer_value(rate) > 12500000000)
        return bad(err, place, "bytesPerSecond is a number from 1024 to 12500000000");
    ret->bytes_per_second = (uint64_t)json_integer_value(rate);
    /* A tenth of a second, and never less than a packet that the kernel has put together. */
    ret->burst = ret->bytes_per_second / 10 > 128 << 10 ? ret->bytes_per_second / 10 : 128 << 10;
    if (burst && (!json_is_integer(burst) || json_integer_value(burst) < 65536 ||
                  json_integer_value(burst) > 1 << 30))
        return bad(err, place, "burst is a number of bytes from 65536 to 1073741824");
    if (burst)
        ret->burst = (uint64_t)json_integer_value(burst);
    return 0;
}

static int parse_limits(struct policy *p, const json_t *in, struct err *err)
{
    static const char *const known[] = {"egress", "ingress", NULL};
    const json_t *limit = said(in, "rateLimit"), *n = said(in, "maxConnections");

    if (limit && !json_is_object(limit))
        return bad(err, "rateLimit", "write an object with egress, ingress or both");
    if (limit && (check_keys(limit, "rateLimit.", known, err) < 0 ||
                  parse_rate(said(limit, "egress"), "rateLimit.egress", &p->egress, err) < 0 ||
                  parse_rate(said(limit, "ingress"), "rateLimit.ingress", &p->ingress, err) < 0))
        return -1;
    if (n && (!json_is_integer(n) || json_integer_value(n) < 1 ||
              json_integer_value(n) > POLICY_CONNECTIONS_MAX))
        return bad(err, "maxConnections", "write a number from 1 to 65536");
    if (n) {
        p->max_connections = (unsigned)json_integer_value(n);
        p->max_connections_given = true;
    }
    return 0;
}

static int parse_object(struct policy *p, const json_t *in, struct err *err)
{
    static const char *const known[] = {"default", "defaultIngress", "rules",          "profiles",
                                        "dns",     "rateLimit",      "maxConnections", NULL};

    if (check_keys(in, "", known, err) < 0 ||
        parse_default(said(in, "default"), "default", &p->allow, err) < 0 ||
        parse_default(said(in, "defaultIngress"), "defaultIngress", &p->allow_ingress, err) < 0 ||
        parse_rules(p, said(in, "rules"), err) < 0 ||
        parse_profiles(p, said(in, "profiles"), err) < 0 || parse_dns(p, said(in, "dns"), err) < 0)
        return -1;
    return parse_limits(p, in, err);
}

/* One word of a text: a preset, a profile, or a rule. */
static int parse_word(struct policy *p, const char *word, unsigned i, struct err *err)
{
    char place[32];
    struct rule r;
    json_t *text;
    int n;

    snprintf(place, sizeof(place), "network[%u]", i);
    if (strcmp(word, "allow-all") == 0) {
        p->allow = true;
        add_profile(p, profile_find("private"));
        return 0;
    }
    if (!strchr(word, '@'))
        return add_profile_word(p, word, place, err);
    if (p->n_rules == POLICY_RULES_MAX)
        return bad(err, place, "is more than 256 rules");
    text = json_string(word);
    n = rule_parse(text, place, &r, err);
    json_decref(text);
    if (n == 0)
        add_rule(&r, p);
    return n;
}

/* Words with commas between. Numbers after a rule are more of its ports: allow@a.test:tcp:80,443.
 */
static int parse_text(struct policy *p, const char *text, struct err *err)
{
    char *copy = xstrdup(text), *start = copy;
    unsigned i = 0;
    int n = 0;

    if (!*text)
        n = bad(err, "network",
                "is an empty text; write public, packages, a profile or a rule as "
                "allow@pypi.org:tcp:443");
    while (n == 0 && *start) {
        char *end = start + strcspn(start, ","), *next;

        while (*end && strspn(end + 1, "0123456789-") > 0 &&
               strcspn(end + 1, ",") == strspn(end + 1, "0123456789-"))
            end += 1 + strcspn(end + 1, ",");
        next = *end ? end + 1 : end;
        *end = '\0';
        n = parse_word(p, start, i++, err);
        start = next;
    }
    free(copy);
    return n;
}

/* Rules beside each other that differ in the name only are one look into the pins. */
static bool same_pin(const struct rule *a, const struct rule *b)
{
    return rule_is_name(a) && rule_is_name(b) && a->allow == b->allow &&
           a->directions == b->directions && a->protocols == b->protocols &&
           a->n_ports == b->n_ports &&
           memcmp(a->ports, b->ports, a->n_ports * sizeof(a->ports[0])) == 0;
}

/* Denied names with ports of their own are held against each rule after them. */
static int check_kernel_form(const struct policy *p, struct err *err)
{
    struct buf text;
    int n;

    buf_init(&text, POLICY_NFT_BYTES_MAX);
    n = policy_nft(p, "p_0123456789abcdef0123456789abcdef", &text);
    buf_done(&text);
    if (n < 0)
        return bad(err, "rules",
                   "are too many for the kernel; deny names with fewer different lists of ports");
    return 0;
}

static int finish(struct policy *p, struct err *err)
{
    p->n_written = p->n_rules;
    for (unsigned i = 0; i < p->n_profiles; i++)
        profile_rules(p->profiles[i], add_rule, p);
    if (p->n_rules > POLICY_ALL_RULES_MAX)
        return bad(err, "profiles", "have more rules than a policy can");
    for (unsigned i = 0; i < p->n_rules; i++)
        p->rules[i].pin =
            i > 0 && same_pin(&p->rules[i - 1], &p->rules[i]) ? p->rules[i - 1].pin : i;
    return check_kernel_form(p, err);
}

/* jansson's own dump is the measure: what is stored and sent is that text. */
static int check_size(const json_t *in, struct err *err)
{
    if (json_dumpb(in, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) > POLICY_JSON_BYTES_MAX)
        return bad(err, "network", "is longer than 64 KiB");
    return 0;
}

/* The canonical form says more than what was written, and is what all others read. */
static int check_canonical(const struct policy *p, struct err *err)
{
    json_t *canonical = policy_json(p);
    int r = check_size(canonical, err);

    json_decref(canonical);
    return r;
}

int policy_parse(const json_t *in, struct policy **ret, struct err *err)
{
    struct policy *p;
    int n;

    if (!in || json_is_null(in) || json_is_false(in) ||
        (json_is_string(in) && strcmp(json_string_value(in), "none") == 0)) {
        *ret = NULL;
        return 0;
    }
    if (check_size(in, err) < 0)
        return -1;
    p = xcalloc(1, sizeof(*p));
    p->allow_ingress = true;
    p->max_connections = POLICY_CONNECTIONS;
    p->dns.rebind_protection = true;
    p->dns.query_timeout_ms = 5000;
    if (json_is_true(in) || (json_is_string(in) && strcmp(json_string_value(in), "public") == 0)) {
        p->plain = true;
        add_profile(p, profile_find("public"));
        n = 0;
    } else if (json_is_string(in)) {
        n = parse_text(p, json_string_value(in), err);
    } else if (json_is_object(in)) {
        n = parse_object(p, in, err);
    } else {
        n = bad(err, "network", "write true, false, an object with rules, or a text as \"public\"");
    }
    if (n == 0)
        n = finish(p, err);
    if (n == 0)
        n = check_canonical(p, err);
    if (n < 0) {
        policy_free(p);
        return -1;
    }
    *ret = p;
    return 0;
}

void policy_free(struct policy *p)
{
    if (!p)
        return;
    for (unsigned i = 0; i < p->n_rules; i++)
        rule_done(&p->rules[i]);
    free(p->rules);
    free(p);
}

static json_t *dns_json(const struct policy_dns *dns)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < dns->n; i++) {
        const struct policy_nameserver *s = &dns->nameservers[i];
        char address[NET_ADDRESS_TEXT];

        net_address_text(&s->address, address);
        if (s->port == 53)
            json_array_append_new(list, json_string(address));
        else
            json_array_append_new(
                list, json_sprintf(strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, s->port));
    }
    return json_pack("{s:o, s:b, s:i}", "nameservers", list, "rebindProtection",
                     dns->rebind_protection, "queryTimeout", (int)dns->query_timeout_ms);
}

static json_t *rate_json(const struct rate *r)
{
    return json_pack("{s:I, s:I}", "bytesPerSecond", (json_int_t)r->bytes_per_second, "burst",
                     (json_int_t)r->burst);
}

static void add_limits(const struct policy *p, json_t *o)
{
    json_t *limit = json_object();

    if (p->egress.bytes_per_second)
        json_object_set_new(limit, "egress", rate_json(&p->egress));
    if (p->ingress.bytes_per_second)
        json_object_set_new(limit, "ingress", rate_json(&p->ingress));
    if (json_object_size(limit) > 0)
        json_object_set(o, "rateLimit", limit);
    json_decref(limit);
    if (p->max_connections_given)
        json_object_set_new(o, "maxConnections", json_integer(p->max_connections));
}

json_t *policy_json(const struct policy *p)
{
    json_t *o, *list = json_array();

    if (p->plain) {
        json_decref(list);
        return json_true();
    }
    o = json_object();
    json_object_set_new(o, "default", json_string(p->allow ? "allow" : "deny"));
    json_object_set_new(o, "defaultIngress", json_string(p->allow_ingress ? "allow" : "deny"));
    for (unsigned i = 0; i < p->n_written; i++)
        json_array_append_new(list, rule_json(&p->rules[i]));
    json_object_set_new(o, "rules", list);
    list = json_array();
    for (unsigned i = 0; i < p->n_profiles; i++)
        json_array_append_new(list, json_string(p->profiles[i]->name));
    if (p->n_profiles > 0)
        json_object_set(o, "profiles", list);
    json_decref(list);
    if (p->dns_given)
        json_object_set_new(o, "dns", dns_json(&p->dns));
    add_limits(p, o);
    return o;
}

const struct policy_dns *policy_dns(const struct policy *p)
{
    return &p->dns;
}

unsigned policy_max_connections(const struct policy *p)
{
    return p->max_connections;
}

bool policy_has_ingress_rate(const struct policy *p)
{
    return p->ingress.bytes_per_second > 0;
}
