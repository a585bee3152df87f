#include "base/err.h"
#include "base/mem.h"
#include "policy/targets.h"
#include "tap.h"

/* Where webhooks may go. */

static struct targets *listing(char **entries)
{
    struct targets *t;
    struct err err = {0};

    if (targets_parse(entries, &t, &err) < 0)
        TAP_FAIL("%s", err.text);
    return t;
}

static bool says_host(const struct net_address *a, void *arg)
{
    struct net_address own;

    CHECK_INT(net_address_parse(arg, &own), 0);
    return net_address_equal(a, &own);
}

static const char *refuse(const struct targets *t, const char *host, const char *address)
{
    struct net_address a;
    const char *word;

    CHECK_INT(net_address_parse(address, &a), 0);
    word = targets_refuse(t, host, &a, says_host, "45.10.0.2");
    return word ? word : "";
}

TEST(only_the_public_internet_may_be_called)
{
    static const struct {
        const char *address, *word;
    } cases[] = {
        {"93.184.10.10", ""},          {"2a0f:20::10", ""},
        {"127.0.0.1", "loopback"},     {"127.255.0.9", "loopback"},
        {"::1", "loopback"},           {"::ffff:127.0.0.1", "loopback"},
        {"10.0.0.1", "private"},       {"172.31.0.1", "private"},
        {"192.168.1.1", "private"},    {"100.64.0.1", "private"},
        {"fd00::1", "private"},        {"169.254.1.1", "link-local"},
        {"fe80::1", "link-local"},     {"169.254.169.254", "metadata"},
        {"fd00:ec2::254", "metadata"}, {"100.100.100.200", "metadata"},
        {"224.0.0.1", "multicast"},    {"ff02::1", "multicast"},
        {"0.0.0.0", "reserved"},       {"::", "reserved"},
        {"240.0.0.1", "reserved"},     {"64:ff9b::7f00:1", "reserved"},
        {"2002:7f00:1::", "reserved"}, {"45.10.0.2", "host"},
    };
    struct targets *t = listing(NULL);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_STR(refuse(t, "hooks.example.com", cases[i].address), cases[i].word);
    targets_free(t);
}

TEST(what_is_listed_may_be_called_and_nothing_beside_it)
{
    char *entries[] = {"10.1.0.0/16",   "fd00::5", "hooks.corp.example",
                       "*.lan.example", "host",    NULL};
    struct targets *t = listing(entries);

    CHECK_STR(refuse(t, "x.example", "10.1.255.1"), "");
    CHECK_STR(refuse(t, "x.example", "10.2.0.1"), "private");
    CHECK_STR(refuse(t, "x.example", "fd00::5"), "");
    CHECK_STR(refuse(t, "x.example", "fd00::6"), "private");
    CHECK_STR(refuse(t, "Hooks.Corp.Example.", "127.0.0.1"), "");
    CHECK_STR(refuse(t, "evil.hooks.corp.example", "127.0.0.1"), "loopback");
    CHECK_STR(refuse(t, "a.b.lan.example", "192.168.0.1"), "");
    CHECK_STR(refuse(t, "evil-lan.example", "192.168.0.1"), "private");
    CHECK_STR(refuse(t, "x.example", "45.10.0.2"), "");
    CHECK_STR(refuse(t, "10.2.0.1", "10.2.0.1"), "private");
    targets_free(t);
}

TEST(what_a_url_says_already_is_refused_early)
{
    static const char *const refused[] = {
        "127.0.0.1", "::1",       "10.0.0.1",    "169.254.169.254",          "0x7f.1", "2130706433",
        "127.1",     "localhost", "a.localhost", "metadata.google.internal", "a b",    ""};
    static const char *const fine[] = {"93.184.10.10", "hooks.example.com", "2a0f:20::10",
                                       "a_b.example"};
    char *entries[] = {"127.0.0.1", NULL};
    struct targets *t = listing(NULL);

    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        CHECK(targets_refuse_host(t, refused[i]) != NULL);
    for (size_t i = 0; i < ARRAY_LEN(fine); i++)
        CHECK(targets_refuse_host(t, fine[i]) == NULL);
    targets_free(t);
    t = listing(entries);
    CHECK(targets_refuse_host(t, "127.0.0.1") == NULL);
    CHECK(targets_refuse_host(t, "localhost") == NULL); /* known when it is called */
    CHECK(targets_refuse_host(t, "127.0.0.2") != NULL);
    targets_free(t);
}

TEST(what_cannot_be_listed_is_told)
{
    static char *const bad[] = {"10.0.0.1/8", "10.0.0.0/33", "a b", "http://x/", "0x7f.1", "", "*"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char *entries[] = {bad[i], NULL};
        struct targets *t;
        struct err err = {0};

        CHECK_INT(targets_parse(entries, &t, &err), -1);
        CHECK_STR(err.code, "bad_target");
    }
}

TAP_MAIN
