#include "base/err.h"
#include "base/mem.h"
#include "cli/config_text.h"
#include "tap.h"

#define ENTRY "{\n \"command\": \"c\"\n}"

static char *put(const char *text, const char *value)
{
    struct err err = {0};
    char *ret = NULL;

    if (config_json_put(text, "servers", "cay", value, &ret, &err) < 0)
        TAP_FAIL("%s: %s", text, err.text);
    return ret;
}

/* Puts it in, sees that, puts it in once more, and takes it out. */
static void both_ways(const char *text, const char *with, const char *without)
{
    auto_free char *first = put(text, ENTRY), *again = put(first, ENTRY), *gone = put(first, NULL);

    CHECK_STR(first, with);
    CHECK_STR(again, with);
    CHECK_STR(gone, without);
}

TEST(a_file_that_is_not_there)
{
    both_ways("", "{\n  \"servers\": {\n    \"cay\": {\n      \"command\": \"c\"\n    }\n  }\n}\n",
              "{\n  \"servers\": {\n  }\n}\n");
}

TEST(others_stay_as_they_are)
{
    both_ways(
        "{\n\t\"a\": [1.50, \"}\"],\n\t\"servers\": {\n\t\t\"x\": {\"command\": \"y\"}\n\t}\n}",
        "{\n\t\"a\": [1.50, \"}\"],\n\t\"servers\": {\n\t\t\"x\": {\"command\": \"y\"},\n"
        "\t\t\"cay\": {\n\t\t\t\"command\": \"c\"\n\t\t}\n\t}\n}",
        "{\n\t\"a\": [1.50, \"}\"],\n\t\"servers\": {\n\t\t\"x\": {\"command\": \"y\"}\n\t}\n}");
}

TEST(comments_and_last_commas)
{
    both_ways("// mine\n{\n  \"servers\": {\n    \"x\": {}, /* } */ // \"cay\": {\n  },\n}\n",
              "// mine\n{\n  \"servers\": {\n    \"x\": {}, /* } */ // \"cay\": {\n"
              "    \"cay\": {\n      \"command\": \"c\"\n    }\n  },\n}\n",
              "// mine\n{\n  \"servers\": {\n    \"x\": {} /* } */ // \"cay\": {\n  },\n}\n");
}

TEST(a_comment_stays_with_its_value)
{
    auto_free char *with = put("{\n  \"a\": 1 // one\n}\n", ENTRY);

    CHECK_STR(with, "{\n  \"a\": 1, // one\n  \"servers\": {\n    \"cay\": {\n"
                    "      \"command\": \"c\"\n    }\n  }\n}\n");
}

TEST(the_first_of_several_goes)
{
    auto_free char *without =
        put("{\"servers\": {\"cay\": {\"command\": \"old\"}, \"x\": {}}}", NULL);

    CHECK_STR(without, "{\"servers\": { \"x\": {}}}");
}

TEST(an_old_entry_is_replaced)
{
    auto_free char *with = put("{\"servers\":{\"cay\":{\"command\":\"old\"},\"x\":{}}}", ENTRY);

    CHECK_STR(with, "{\"servers\":{\"cay\":{\n      \"command\": \"c\"\n    },\"x\":{}}}");
}

TEST(what_is_not_understood_is_left)
{
    static const char *const bad[] = {
        "[]",           "{",         "{\"servers\": []}", "{\"servers\": {\"a\"}}",
        "{\"a\": 1} x", "{\"a\" 1}", "{\"a\": \"x\n\"}",  "{\"servers\": {\"a\": {]}",
        "{\"a\": }",    "nonsense",  "{\"a\": 1 /* }",    "{\"a\": 1, b: 2}",
        "{\"a\": /x}",  "{\"a\"",    "{\"servers\":",     "{\"a\": [\"\\",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        char *ret = NULL;

        if (config_json_put(bad[i], "servers", "cay", ENTRY, &ret, &err) == 0)
            TAP_FAIL("%s was taken, and became %s", bad[i], ret);
        CHECK(err.kind == ERR_INVALID);
    }
}

TEST(toml)
{
    auto_free char *fresh = config_toml_put("", "s", "cay", "a = 1\n");
    auto_free char *more = config_toml_put("model = \"x\"", "s", "cay", "a = 1\n");
    auto_free char *over =
        config_toml_put("[s.cay]\na = 0\nb = 0\n[s.cay.env]\nK = 1\n[t]\n", "s", "cay", "a = 1\n");
    auto_free char *out =
        config_toml_put("[r]\n[s.cay]\na = 0\n[s.cay.env]\nK = 1\n[t]\n", "s", "cay", NULL);

    CHECK_STR(fresh, "[s.cay]\na = 1\n");
    CHECK_STR(more, "model = \"x\"\n\n[s.cay]\na = 1\n");
    CHECK_STR(over, "[s.cay]\na = 1\n\n[s.cay.env]\nK = 1\n[t]\n");
    CHECK_STR(out, "[r]\n[t]\n");
}

TEST(what_has_changed)
{
    auto_free char *none = config_diff("a\n", "a\n", "f", false, false);
    auto_free char *one = config_diff("1\n2\n3\n4\n5\n", "1\n2\n3\n4\nx\n5\n", "f", false, false);
    auto_free char *all = config_diff("", "x\n", "f", false, false);

    CHECK_STR(none, "");
    CHECK_STR(one, "--- f\n+++ f\n@@ -2,4 +2,5 @@\n 2\n 3\n 4\n+x\n 5\n");
    CHECK_STR(all, "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+x\n");
}

TAP_MAIN
