/* A policy that is taken means the same when it is written and read again, has a form for the
 * kernel, and judges whatever it is asked; one that is refused says why. */
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static bool pinned(unsigned pin, const struct net_address *a, void *arg)
{
    (void)arg;
    return (pin + a->bytes[3]) % 2 == 0;
}

static void check_judges(const struct policy *p, const uint8_t *data, size_t size)
{
    struct policy_flow f = {.to.family = AF_INET, .protocol = IPPROTO_TCP, .port = 443};
    struct policy_verdict v, named;
    unsigned pins[16];
    char name[300];

    memcpy(f.to.bytes, data, size < 4 ? size : 4);
    policy_judge(p, &f, pinned, NULL, NULL, &v);
    require(v.why[0] && v.rule >= POLICY_BUILT_IN && v.rule < POLICY_ALL_RULES_MAX);
    /* What is refused by address stays so, whatever name is said. */
    snprintf(name, sizeof(name), "%.*s", (int)(size < 290 ? size : 290), (const char *)data);
    policy_judge_named(p, name, &f, pinned, NULL, NULL, &named);
    require(!named.inspect && (v.allowed || !named.allowed));
    policy_judge_name(p, name, &v);
    require(v.why[0]);
    require(policy_rules_for_name(p, name, pins, 16) <= 16);
    (void)policy_answer_ok(p, &f.to);
}

static void check_again(const struct policy *p)
{
    char key[POLICY_KEY], again[POLICY_KEY];
    json_t *canonical = policy_json(p), *second;
    struct policy *q = NULL;

    require(policy_parse(canonical, &q, NULL) == 0 && q);
    second = policy_json(q);
    require(json_equal(canonical, second));
    policy_key(p, key);
    policy_key(q, again);
    require(strcmp(key, again) == 0);
    policy_free(q);
    json_decref(second);
    json_decref(canonical);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *in = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    struct policy *p = NULL;
    struct err err = {0};

    if (!in)
        in = json_stringn_nocheck("", 0);
    if (policy_parse(in, &p, &err) < 0) {
        require(err.kind == ERR_INVALID && err.code && err.text[0]);
    } else if (p) {
        check_judges(p, data, size);
        check_again(p);
    }
    policy_free(p);
    json_decref(in);
    return 0;
}
