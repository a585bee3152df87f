#include "base/err.h"
#include "base/mem.h"
#include "model/env.h"
#include "model/limits.h"
#include "model/no_network.h"
#include "model/sandbox.h"
#include "tap.h"

TEST(every_state_has_a_name_that_is_read_back)
{
    for (int i = 0; i < SANDBOX_STATES; i++) {
        enum sandbox_state back;

        CHECK_INT(sandbox_state_parse(sandbox_state_name(i), &back), 0);
        CHECK_INT(back, i);
    }
}

TEST(a_selector_is_cut_at_the_first_key_behind_a_name)
{
    static const struct {
        const char *text, *name, *key, *value;
    } good[] = {
        {"web@team=blue", "web", "team", "blue"},
        {"web@team=", "web", "team", ""},
        {"web@owner=a@b.c", "web", "owner", "a@b.c"},
        {"web@owner=a@b=c", "web", "owner", "a@b=c"},
        {"me@host@team=blue", "me@host", "team", "blue"},
        {"a=b@team=blue", "a=b", "team", "blue"},
        {"web@@team=blue", "web@", "team", "blue"},
        {"web@=@team=blue", "web@=", "team", "blue"},
        {"@x=y@team=blue", "@x=y", "team", "blue"},
    };
    static const char *const bad[] = {"",      "web",   "web@team",  "web@=blue", "@team=blue",
                                      "web@@", "a=b@c", "team=blue", "@",         "@@="};

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        auto_selector struct sandbox_selector s = {0};

        CHECK(sandbox_selector_parse(good[i].text, &s));
        CHECK_STR(s.name, good[i].name);
        CHECK_STR(s.key, good[i].key);
        CHECK_STR(s.value, good[i].value);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        auto_selector struct sandbox_selector s = {0};

        CHECK(!sandbox_selector_parse(bad[i], &s));
    }
}

TEST(an_unknown_state_is_refused)
{
    enum sandbox_state state;

    CHECK(sandbox_state_parse("sleeping", &state) < 0);
    CHECK(sandbox_state_parse("", &state) < 0);
}

TEST(the_allowed_moves_are_exactly_these)
{
    static const char table[SANDBOX_STATES][SANDBOX_STATES + 1] = {
        /*              P C R Z S X */
        [SANDBOX_PREPARED] = ".C...X", [SANDBOX_CREATING] = "..R..X", [SANDBOX_RUNNING] = "...ZSX",
        [SANDBOX_PAUSED] = "..R.SX",   [SANDBOX_STOPPED] = "..R..X",  [SANDBOX_REMOVING] = "......",
    };

    for (int from = 0; from < SANDBOX_STATES; from++)
        for (int to = 0; to < SANDBOX_STATES; to++)
            CHECK_INT(sandbox_check_move(from, to, NULL), table[from][to] == '.' ? -1 : 0);
}

TEST(the_refusal_names_both_states)
{
    struct err err = {0};

    CHECK_INT(sandbox_check_move(SANDBOX_STOPPED, SANDBOX_PAUSED, &err), -1);
    CHECK_INT(err.kind, ERR_CONFLICT);
    CHECK_STR(err.text, "a stopped sandbox cannot become paused");
}

static const char full[] =
    "{\"image\":\"host\",\"name\":\"n\",\"timeout\":90,\"memory\":128,\"cpu\":0.5,\"disk\":100,"
    "\"pids\":256,\"network\":true,\"env\":{\"A\":\"1\"},\"workdir\":\"/w\","
    "\"metadata\":{\"k\":\"v\"},\"entrypoint\":[\"sleep\",\"9\"]}";

TEST(a_spec_survives_json_and_back)
{
    json_t *in = json_loads(full, 0, NULL), *out;
    struct sandbox_spec spec;

    CHECK_INT(sandbox_spec_load(in, &spec, NULL), 0);
    CHECK_INT(spec.limits.cpu_millis, 500);
    CHECK_STR(spec.entrypoint[1], "9");
    out = sandbox_spec_json(&spec);
    CHECK(json_equal(in, out));
    sandbox_spec_done(&spec);
    json_decref(in);
    json_decref(out);
}

/* Rows of before had true or false only. */
TEST(a_network_is_true_an_object_or_none)
{
    static const char *const kept[] = {"true", "{\"default\":\"deny\"}"};
    static const char *const none[] = {"false", "null", "\"public\"", "1"};
    struct sandbox_spec spec;

    for (size_t i = 0; i < ARRAY_LEN(kept) + ARRAY_LEN(none); i++) {
        bool has = i < ARRAY_LEN(kept);
        json_t *network =
            json_loads(has ? kept[i] : none[i - ARRAY_LEN(kept)], JSON_DECODE_ANY, NULL);
        json_t *in = json_loads(full, 0, NULL), *out;

        json_object_set(in, "network", network);
        CHECK_INT(sandbox_spec_load(in, &spec, NULL), 0);
        out = sandbox_spec_json(&spec);
        CHECK(has ? json_equal(json_object_get(out, "network"), network)
                  : !json_object_get(out, "network"));
        CHECK(sandbox_network_same(spec.network, has ? network : NULL));
        CHECK(!sandbox_network_same(spec.network, has ? NULL : json_true()));
        sandbox_spec_done(&spec);
        json_decref(network);
        json_decref(in);
        json_decref(out);
    }
}

TEST(absent_parts_stay_absent)
{
    static const char *const optional[] = {"name", "network", "env", "metadata", "entrypoint"};
    json_t *in = json_loads(full, 0, NULL), *out;
    struct sandbox_spec spec;

    for (size_t i = 0; i < ARRAY_LEN(optional); i++)
        json_object_del(in, optional[i]);
    CHECK_INT(sandbox_spec_load(in, &spec, NULL), 0);
    CHECK(!spec.name && !spec.entrypoint && spec.env && spec.metadata);
    out = sandbox_spec_json(&spec);
    CHECK(json_equal(in, out));
    sandbox_spec_done(&spec);
    json_decref(in);
    json_decref(out);
}

TEST(integers_stay_integers_and_cpu_is_a_float)
{
    json_t *in = json_loads(full, 0, NULL), *out;
    struct sandbox_spec spec;

    CHECK_INT(sandbox_spec_load(in, &spec, NULL), 0);
    spec.limits.cpu_millis = 2000;
    out = sandbox_spec_json(&spec);
    CHECK(json_is_integer(json_object_get(out, "timeout")));
    CHECK(json_is_integer(json_object_get(out, "memory")));
    CHECK(json_is_real(json_object_get(out, "cpu")));
    sandbox_spec_done(&spec);
    json_decref(in);
    json_decref(out);
}

TEST(a_damaged_configuration_is_an_error_that_names_the_part)
{
    static const struct {
        const char *key, *value;
    } bad[] = {
        {"image", "7"},       {"timeout", "\"x\""},  {"memory", "-1"},        {"cpu", "\"much\""},
        {"env", "{\"A\":1}"}, {"entrypoint", "[1]"}, {"metadata", "[\"a\"]"}, {"workdir", "null"},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        json_t *in = json_loads(full, 0, NULL);
        struct sandbox_spec spec;
        struct err err = {0};

        json_object_set_new(in, bad[i].key, json_loads(bad[i].value, JSON_DECODE_ANY, NULL));
        CHECK_INT(sandbox_spec_load(in, &spec, &err), -1);
        CHECK_INT(err.kind, ERR_INTERNAL);
        CHECK(strstr(err.text, bad[i].key));
        json_decref(in);
    }
    CHECK_INT(sandbox_spec_load(NULL, &(struct sandbox_spec){0}, NULL), -1);
}

TEST(a_variable_has_a_name_that_a_shell_can_use)
{
    static const char *const good[] = {"A", "_", "a1", "PATH_2"};
    static const char *const bad[] = {"", "1", "1A", "A B", "A-B", "A=B", "A\n", "ü"};
    char longest[ENV_KEY_MAX + 2];

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        CHECK(env_key_valid(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!env_key_valid(bad[i]));
    memset(longest, 'A', sizeof(longest));
    longest[ENV_KEY_MAX + 1] = '\0';
    CHECK(!env_key_valid(longest) && env_key_valid(longest + 1));
}

TEST(what_programs_say_without_a_network_is_known)
{
    static const char *const said[] = {
        "E: Unable to locate package cowsay\n",
        "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (2: No such file or "
        "directory)\nE: Unable to acquire the dpkg frontend lock, are you root?\n",
        "WARNING: fetching https://dl-cdn.alpinelinux.org/: temporary error (try again later)\n",
        "curl: (6) Could not resolve host: example.org\n",
    };
    static const char *const other[] = {
        "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)\n",
        "error: externally-managed-environment\n",
        "",
    };

    for (size_t i = 0; i < ARRAY_LEN(said); i++)
        CHECK(output_lacks_network(said[i], strlen(said[i])));
    for (size_t i = 0; i < ARRAY_LEN(other); i++)
        CHECK(!output_lacks_network(other[i], strlen(other[i])));
}

TAP_MAIN
