/* .dockerignore: the cases of Docker's own documentation, and those where it surprises. */
#include "cli/ignore.h"

#include "tap.h"

static void check(const char *text, const char *path, bool out)
{
    struct ignore i;

    ignore_parse(&i, text, strlen(text));
    if (ignore_has(&i, path) != out)
        TAP_FAIL("%s %s left out by\n%s", path, out ? "is not" : "is", text);
    ignore_done(&i);
}

TEST(a_pattern_is_a_path_from_the_top)
{
    check("a\n", "a", true);
    check("a\n", "b/a", false);
    check("/a/b/\n", "a/b", true);
    check("a//b/./c\n", "a/b/c", true);
    check("a/../b\n", "b", true);
    check("", "a", false);
    check(".\n", "a", false);
}

TEST(what_matches_a_folder_matches_all_in_it)
{
    check("a\n", "a/b/c", true);
    check("a*\n", "abc/d", true);
    check("a/b\n", "a", false);
}

TEST(stars_stay_within_a_name_and_two_do_not)
{
    check("*/temp*\n", "sub/temporary.txt", true);
    check("*/temp*\n", "temporary.txt", false);
    check("*/*/temp*\n", "sub/more/temp", true);
    check("temp?\n", "tempa", true);
    check("temp?\n", "temp", false);
    check("**/*.go\n", "a.go", true);
    check("**/*.go\n", "a/b/c.go", true);
    check("**\n", "a/b", true);
    check("a/**/z\n", "a/z", true);
    check("a/**/z\n", "a/b/c/z", true);
    check("a/**\n", "a/b", true);
    check("[a-c].txt\n", "b.txt", true);
    check("[a-c].txt\n", "d.txt", false);
    check("a\\*b\n", "a*b", true);
    check("a\\*b\n", "axb", false);
}

TEST(the_last_line_that_matches_decides)
{
    check("*.md\n!README.md\n", "README.md", false);
    check("*.md\n!README*.md\nREADME-secret.md\n", "README-secret.md", true);
    check("*.md\nREADME-secret.md\n!README*.md\n", "README-secret.md", false);
    check("!a\n", "a", false);
    check("node_modules\n!node_modules/keep\n", "node_modules/keep/x", false);
    check("node_modules\n!node_modules/keep\n", "node_modules/other", true);
}

TEST(comments_and_white_space)
{
    check("# a\n\n  b  \r\n", "b", true);
    check("#a\n", "#a", false);
    check("\\#a\n", "#a", true);
    check("a\n! a\n", "a", false);
    check("\xef\xbb\xbf"
          "a\n",
          "a", true);
}

TEST(a_folder_that_is_left_out_is_walked_only_if_something_may_be_taken_back)
{
    static const struct {
        const char *text, *dir;
        bool may;
    } cases[] = {
        {"a\n", "a", false},       {"a\n!a/b\n", "a", true},     {"a\n!b\n", "a", false},
        {"a\n!**/x\n", "a", true}, {"a\n!a/*/c\n", "a/b", true}, {"a\n!a/x/c\n", "a/b", false},
    };

    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct ignore i;

        ignore_parse(&i, cases[k].text, strlen(cases[k].text));
        if (ignore_may_take_back(&i, cases[k].dir) != cases[k].may)
            TAP_FAIL("%s: %s", cases[k].dir, cases[k].text);
        ignore_done(&i);
    }
}

TAP_MAIN
