#include "cli/network_args.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/args.h"

/* --network[=WHAT] --allow HOST[:PORT] --deny HOST[:PORT]. What names and rules mean is the
 * daemon's business: presets, profiles and rules go to it as one text. */

#define TEXT_MAX (16u << 10)
#define FILE_MAX (1u << 20)

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

static bool means_public(const char *word)
{
    static const char *const words[] = {"", "public", "true", "on", "bridge", "default", NULL};

    return is_one_of(word, words);
}

static bool means_none(const char *word)
{
    static const char *const words[] = {"none", "false", "off", NULL};

    return is_one_of(word, words);
}

static bool is_file(const char *word)
{
    size_t len = strlen(word);

    return strchr(word, '/') || (len > 5 && strcmp(word + len - 5, ".json") == 0);
}

static int read_file(const char *path, json_t **ret, struct err *err)
{
    json_error_t why;
    json_t *o = json_load_file(path, JSON_REJECT_DUPLICATES, &why);

    if (!o)
        return err_set(err, ERR_INVALID, "--network: %s", why.text);
    if (!json_is_object(o)) {
        json_decref(o);
        return err_set(err, ERR_INVALID, "--network: %.200s holds no policy, which is an object",
                       path);
    }
    *ret = o;
    return 0;
}

/* pypi.org, pypi.org:443, 10.0.0.0/8:5432, [fd00::1]:80, 1.1.1.1:53/udp, host:8080; what has an @
 * or names a protocol is a rule already. */
static int add_rule(struct buf *out, const char *action, const char *text, struct err *err)
{
    const char *close = *text == '[' ? strchr(text, ']') : NULL;
    const char *colon = strchr(close ? close : text, ':');
    const char *slash = colon ? strchr(colon, '/') : NULL;
    int r;

    if (!*text || strchr(text, ','))
        return err_set(err, ERR_INVALID, "--%s needs HOST or HOST:PORT, not \"%.80s\"", action,
                       text);
    if (out->len > 0 && buf_add_str(out, ",") < 0)
        return err_set(err, ERR_TOO_LARGE, "--allow and --deny are too many");
    if (strchr(text, '@'))
        r = buf_add_str(out, text);
    else if (!colon || !isdigit((unsigned char)colon[1]))
        r = buf_addf(out, "%s@%s", action, text);
    else if (slash)
        r = buf_addf(out, "%s@%.*s:%s:%.*s", action, (int)(colon - text), text, slash + 1,
                     (int)(slash - colon - 1), colon + 1);
    else
        r = buf_addf(out, "%s@%.*s::%s", action, (int)(colon - text), text, colon + 1);
    return r < 0 ? err_set(err, ERR_TOO_LARGE, "--allow and --deny are too many") : 0;
}

/* Those that forbid come first: the first rule that matches counts. */
static int read_rules(char *const *allow, char *const *deny, struct buf *ret, struct err *err)
{
    for (; deny && *deny; deny++)
        if (add_rule(ret, "deny", *deny, err) < 0)
            return -1;
    for (; allow && *allow; allow++)
        if (add_rule(ret, "allow", *allow, err) < 0)
            return -1;
    return 0;
}

/* Before those of the file. */
static json_t *with_rules(json_t *policy, const char *rules)
{
    auto_free char *copy = xstrdup(rules);
    json_t *all = json_array();
    char *save;

    for (char *one = strtok_r(copy, ",", &save); one; one = strtok_r(NULL, ",", &save))
        (void)json_array_append_new(all, json_string(one));
    (void)json_array_extend(all, json_object_get(policy, "rules"));
    (void)json_object_set_new(policy, "rules", all);
    return policy;
}

static int refuse(const char *word, struct err *err)
{
    if (strcmp(word, "host") == 0)
        return err_set(err, ERR_INVALID,
                       "--network host: no sandbox shares the network of this machine; to reach a "
                       "server on it, --allow host:PORT and connect to host.cay.internal (if host "
                       "is the image, write --network=public)");
    if (str_starts(word, "container:"))
        return err_set(err, ERR_INVALID,
                       "--network=%.60s: sandboxes do not share networks; put both into one with "
                       "`cay network`",
                       word);
    return 0;
}

int network_of_words(const char *word, char *const *allow, char *const *deny, json_t **ret,
                     struct err *err)
{
    auto_buf struct buf rules = {0};
    bool some = allow || deny;

    *ret = NULL;
    buf_init(&rules, TEXT_MAX);
    if ((word && refuse(word, err) < 0) || read_rules(allow, deny, &rules, err) < 0)
        return -1;
    if (!word && !some)
        return 0;
    if (!word && !allow)
        return err_set(err, ERR_INVALID,
                       "--deny says what is refused, and not what may be reached beside that: "
                       "--network=public --deny %.80s, or `cay net set ID public --deny %.80s`",
                       *deny, *deny);
    if (word && is_file(word)) {
        if (read_file(word, ret, err) < 0)
            return -1;
        if (some)
            *ret = with_rules(*ret, rules.data);
        return 0;
    }
    if (!word)
        word = "none";
    if (means_none(word)) {
        *ret = some ? json_string(rules.data) : json_false();
        return 0;
    }
    if (means_public(word))
        word = "public";
    *ret = some                          ? json_sprintf("%s,%s", rules.data, word)
           : strcmp(word, "public") == 0 ? json_true()
                                         : json_string(word);
    return 0;
}

int network_args(const struct args *args, json_t **ret, struct err *err)
{
    return network_of_words(args_has(args, "network") ? args_text(args, "network") : NULL,
                            args_list(args, "allow"), args_list(args, "deny"), ret, err);
}

char *network_words(const json_t *network)
{
    const json_t *profiles = json_object_get(network, "profiles");
    auto_buf struct buf out = {0};
    size_t rules = json_array_size(json_object_get(network, "rules"));

    if (!network || json_is_false(network))
        return xstrdup("none");
    if (json_is_true(network))
        return xstrdup("public internet");
    buf_init(&out, TEXT_MAX);
    (void)buf_addf(&out, "default %s",
                   json_string_value(json_object_get(network, "default"))
                       ? json_string_value(json_object_get(network, "default"))
                       : "deny");
    if (rules > 0)
        (void)buf_addf(&out, ", %zu rule%s", rules, rules == 1 ? "" : "s");
    for (size_t i = 0; i < json_array_size(profiles); i++)
        (void)buf_addf(&out, "%s%s", i == 0 ? ", profiles " : " ",
                       json_string_value(json_array_get(profiles, i)));
    return buf_steal(&out);
}
