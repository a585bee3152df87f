#include "policy/targets.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "policy/policy_internal.h"

/* Of the destinations of a rule these four. */
struct target {
    enum destination_kind kind; /* DEST_RANGE, DEST_NAME, DEST_SUFFIX, DEST_GROUP */
    struct net_address range;
    unsigned bits;
    enum net_class group;
    char name[POLICY_NAME_MAX + 1];
};

struct targets {
    size_t n;
    struct target list[];
};

static int parse(const char *text, struct target *ret, struct err *err)
{
    bool suffix = str_starts(text, "*.");
    int r = net_range_parse(text, &ret->range, &ret->bits);

    ret->kind = DEST_RANGE;
    if (r == 0)
        return 0;
    ret->kind = DEST_GROUP;
    if (net_class_of_word(text, &ret->group) == 0)
        return 0;
    ret->kind = suffix ? DEST_SUFFIX : DEST_NAME;
    if (r == -EINVAL && !net_name_is_number(text) &&
        net_name_canonical(suffix ? text + 2 : text, ret->name) == 0)
        return 0;
    return err_code(err, ERR_INVALID, "bad_target",
                    "%.80s is no address, range, name, *.name or group of addresses", text);
}

int targets_parse(char *const *entries, struct targets **ret, struct err *err)
{
    size_t n = strv_len(entries);
    struct targets *t;

    if (n > TARGETS_MAX)
        return err_code(err, ERR_INVALID, "bad_target", "more than %d targets", TARGETS_MAX);
    t = xcalloc(1, sizeof(*t) + n * sizeof(t->list[0]));
    for (; t->n < n; t->n++)
        if (parse(entries[t->n], &t->list[t->n], err) < 0) {
            targets_free(t);
            return -1;
        }
    *ret = t;
    return 0;
}

void targets_free(struct targets *t)
{
    free(t);
}

static bool covers(const struct target *t, const char *name, const struct net_address *a,
                   enum net_class class)
{
    switch (t->kind) {
    case DEST_RANGE:
        return net_address_in(a, &t->range, t->bits);
    case DEST_GROUP:
        return t->group == class;
    case DEST_NAME:
        return strcmp(t->name, name) == 0;
    case DEST_SUFFIX:
        return name[0] && net_name_below(name, t->name);
    case DEST_ANY:
    case DEST_DNS:
        break;
    }
    return false;
}

static bool is_listed(const struct targets *t, const char *name, const struct net_address *a,
                      enum net_class class)
{
    for (size_t i = 0; i < t->n; i++)
        if (covers(&t->list[i], name, a, class))
            return true;
    return false;
}

static const char *word_of(enum net_class class)
{
    const char *word = net_class_word(class);

    return word ? word : "reserved";
}

const char *targets_refuse_host(const struct targets *t, const char *host)
{
    char name[POLICY_NAME_MAX + 1];
    struct net_address a;

    if (net_address_parse(host, &a) == 0)
        return targets_refuse(t, host, &a, NULL, NULL);
    if (net_name_is_number(host))
        return "a number: write an address as 203.0.113.5";
    if (net_name_canonical(host, name) < 0)
        return "no name";
    /* What they lead to is known later; that nothing beyond the public internet is listed, now. */
    if (t->n == 0 && net_name_is_own(name))
        return word_of(CLASS_LOOPBACK);
    if (t->n == 0 && net_name_is_metadata(name))
        return word_of(CLASS_METADATA);
    return NULL;
}

const char *targets_refuse(const struct targets *t, const char *host, const struct net_address *a,
                           policy_is_host is_host, void *arg)
{
    enum net_class class = net_classify(a);
    char name[POLICY_NAME_MAX + 1];

    /* An address in place of a name is none. */
    if (net_name_is_number(host) || net_name_canonical(host, name) < 0)
        name[0] = '\0';
    if (class == CLASS_PUBLIC && is_host && is_host(a, arg))
        class = CLASS_HOST;
    if (class == CLASS_PUBLIC || is_listed(t, name, a, class))
        return NULL;
    return word_of(class);
}
