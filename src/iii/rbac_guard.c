#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "iii/rbac.h"

#define RULES_MAX 256

/* ---- patterns ---- */

bool iii_pattern_matches(const char *pattern, const char *text)
{
    const char *star = NULL, *from = NULL;

    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            from = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star) { /* the last star takes one more */
            pattern = star + 1;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

/* What is in match("…") or match('…'); NULL when it is none. */
static char *pattern_of(const json_t *value)
{
    const char *s = json_string_value(value);
    size_t len = s ? strlen(s) : 0;

    if (len < strlen("match('')") || !str_starts(s, "match(") || s[len - 1] != ')' ||
        (s[6] != '"' && s[6] != '\'') || s[len - 2] != s[6])
        return NULL;
    return xstrndup(s + 7, len - 9);
}

/* ---- rules ---- */

static bool metadata_fits(const json_t *wanted, const json_t *metadata)
{
    const char *key;
    json_t *want;

    json_object_foreach((json_t *)(uintptr_t)wanted, key, want)
    {
        const json_t *has = json_object_get(metadata, key), *is = json_object_get(want, "is");
        const char *pattern = json_string_value(json_object_get(want, "match"));

        if (!has || (is && !json_equal(is, has)) ||
            (pattern &&
             (!json_is_string(has) || !iii_pattern_matches(pattern, json_string_value(has)))))
            return false;
    }
    return true;
}

bool iii_guard_exposes(const struct iii_guard *g, const char *namespace, const char *id,
                       const json_t *metadata)
{
    for (size_t i = 0; i < g->n_rules; i++) {
        const struct iii_rule *r = &g->rules[i];

        if (strcmp(r->namespace, namespace) != 0)
            continue;
        if (r->pattern ? iii_pattern_matches(r->pattern, id)
                       : json_is_object(metadata) && metadata_fits(r->metadata, metadata))
            return true;
    }
    return g->all;
}

/* ---- reading ---- */

static json_t *read_metadata(json_t *metadata)
{
    json_t *out = json_object(), *value;
    const char *key;

    json_object_foreach(metadata, key, value)
    {
        auto_free char *pattern = pattern_of(value);

        (void)json_object_set_new(out, key,
                                  pattern ? json_pack("{s:s}", "match", pattern)
                                          : json_pack("{s:O}", "is", value));
    }
    return out;
}

static int check_keys(const json_t *entry, struct err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)entry, key, value)
    {
        if (strcmp(key, "match") != 0 && strcmp(key, "namespace") != 0 &&
            strcmp(key, "metadata") != 0)
            return err_set(err, ERR_INVALID, "a rule of expose_functions has no \"%.60s\"", key);
    }
    return 0;
}

static int read_rule(const json_t *entry, struct iii_rule *ret, struct err *err)
{
    const json_t *match = json_object_get(entry, "match"),
                 *in = json_object_get(entry, "namespace");
    json_t *metadata = json_object_get(entry, "metadata");
    char *pattern = json_is_string(entry)   ? pattern_of(entry)
                    : json_is_string(match) ? xstrdup(json_string_value(match))
                                            : NULL;

    if (check_keys(entry, err) < 0) {
        free(pattern);
        return -1;
    }
    if (!pattern == (json_object_size(metadata) == 0) || (in && !json_is_string(in))) {
        free(pattern);
        return err_set(err, ERR_INVALID,
                       "expose_functions must hold match(\"PATTERN\"), {match: PATTERN} or "
                       "{metadata: {KEY: VALUE}}, and maybe a namespace with these");
    }
    *ret = (struct iii_rule){.namespace = xstrdup(in ? json_string_value(in) : III_NAMESPACE),
                             .pattern = pattern,
                             .metadata = pattern ? NULL : read_metadata(metadata)};
    return 0;
}

static int read_rules(struct iii_guard *g, const json_t *list, struct err *err)
{
    size_t n = json_array_size(list);

    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list) || n > RULES_MAX)
        return err_set(err, ERR_INVALID, "expose_functions must be a list of at most %d rules",
                       RULES_MAX);
    g->rules = xcalloc(n + 1, sizeof(*g->rules));
    for (size_t i = 0; i < n; i++) {
        if (read_rule(json_array_get(list, i), &g->rules[i], err) < 0)
            return -1;
        g->n_rules++;
        g->by_metadata |= !g->rules[i].pattern;
    }
    return 0;
}

static int read_id(const json_t *value, const char *key, char **ret, struct err *err)
{
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_string(value) || json_string_length(value) == 0 ||
        json_string_length(value) > III_NAME_MAX)
        return err_set(err, ERR_INVALID, "%s must be the id of a function", key);
    *ret = xstrdup(json_string_value(value));
    return 0;
}

static int read_rbac(struct iii_guard *g, json_t *rbac, struct err *err)
{
    const struct {
        const char *key;
        char **at;
    } ids[] = {{"auth_function_id", &g->auth},
               {"on_function_registration_function_id", &g->on_function},
               {"on_trigger_registration_function_id", &g->on_trigger},
               {"on_trigger_type_registration_function_id", &g->on_type}};
    const char *key;
    json_t *value;

    if (!json_is_object(rbac))
        return err_set(err, ERR_INVALID, "rbac must hold settings");
    json_object_foreach(rbac, key, value)
    {
        size_t i = 0;

        while (i < ARRAY_LEN(ids) && strcmp(ids[i].key, key) != 0)
            i++;
        if (i < ARRAY_LEN(ids) && read_id(value, key, ids[i].at, err) < 0)
            return -1;
        if (i == ARRAY_LEN(ids) && strcmp(key, "expose_functions") != 0)
            return err_set(err, ERR_INVALID, "rbac has no setting \"%.60s\"", key);
    }
    return read_rules(g, json_object_get(rbac, "expose_functions"), err);
}

struct iii_guard *iii_guard_new(const json_t *listener, struct err *err)
{
    struct iii_guard *g = xcalloc(1, sizeof(*g));
    json_t *rbac = json_object_get(listener, "rbac");
    int r = 0;

    g->all = !rbac || json_is_null(rbac);
    if (!g->all)
        r = read_rbac(g, rbac, err);
    if (r == 0)
        r = read_id(json_object_get(listener, "middleware_function_id"), "middleware_function_id",
                    &g->middleware, err);
    if (r == 0)
        return g;
    iii_guard_free(g);
    return NULL;
}

void iii_guard_free(struct iii_guard *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_rules; i++) {
        free(g->rules[i].namespace);
        free(g->rules[i].pattern);
        json_decref(g->rules[i].metadata);
    }
    free(g->rules);
    free(g->auth);
    free(g->middleware);
    free(g->on_function);
    free(g->on_trigger);
    free(g->on_type);
    free(g);
}

bool iii_guard_asks(const struct iii_guard *g)
{
    return g->auth;
}
