#include "agent/path_glob.h"
#include "agent/regex.h"
#include "base/err.h"
#include "base/mem.h"
#include "regex_cases.h"
#include "tap.h"

static struct regex *compiled_as(const char *pattern, unsigned flags)
{
    struct regex *re = NULL;
    struct err err = {0};

    if (regex_compile(pattern, flags, REGEX_MEMORY_MAX, &re, &err) < 0)
        TAP_FAIL("%s: %s", pattern, err.text);
    return re;
}

static struct regex *compiled(const char *pattern)
{
    return compiled_as(pattern, 0);
}

/* As in the table, from a place on; lives until the next call. */
static const char *found_from(struct regex *re, const char *text, size_t from)
{
    static char said[1024];
    size_t groups = regex_groups(re), n = 0;
    auto_free uint32_t *slots = xcalloc(2 * groups, sizeof(*slots));

    if (regex_find(re, text, strlen(text), from, slots) != 1)
        return "none";
    for (size_t i = 0; i < groups; i++)
        n += (size_t)snprintf(said + n, sizeof(said) - n, "%s%d,%d", i ? " " : "",
                              (int)slots[2 * i], (int)slots[2 * i + 1]);
    return said;
}

static const char *found(struct regex *re, const char *text)
{
    return found_from(re, text, 0);
}

static enum regex_verdict verdict(struct regex *re, const char *text, size_t len, size_t piece)
{
    regex_begin(re);
    for (size_t at = 0; at < len; at += piece)
        regex_feed(re, text + at, len - at < piece ? len - at : piece);
    return regex_end(re);
}

static char *repeated(const char *text, size_t times)
{
    size_t len = strlen(text);
    char *all = xmalloc(len * times + 1);

    for (size_t i = 0; i < times; i++)
        memcpy(all + i * len, text, len);
    all[len * times] = '\0';
    return all;
}

TEST(patterns_match_what_they_do_in_rust)
{
    for (size_t i = 0; i < ARRAY_LEN(matches); i++) {
        auto_regex struct regex *re = compiled(matches[i].pattern);
        const char *said = found(re, matches[i].text);

        if (strcmp(said, matches[i].want) != 0)
            TAP_FAIL("\"%s\" in \"%s\" is %s, not %s", matches[i].pattern, matches[i].text, said,
                     matches[i].want);
    }
}

TEST(a_text_in_pieces_has_a_match_if_it_has_one_as_a_whole)
{
    for (size_t i = 0; i < ARRAY_LEN(matches); i++) {
        auto_regex struct regex *re = compiled_as(matches[i].pattern, REGEX_NO_GROUPS);
        enum regex_verdict want = strcmp(matches[i].want, "none") == 0 ? REGEX_NO : REGEX_YES;

        for (size_t piece = 1; piece < 6; piece++)
            if (verdict(re, matches[i].text, strlen(matches[i].text), piece) != want)
                TAP_FAIL("\"%s\" in \"%s\", pieces of %zu", matches[i].pattern, matches[i].text,
                         piece);
    }
}

TEST(mistakes_are_told_with_their_place)
{
    for (size_t i = 0; i < ARRAY_LEN(mistakes); i++) {
        auto_regex struct regex *re = NULL;
        struct err err = {0};
        char want[240];

        snprintf(want, sizeof(want), "the pattern is wrong at its character %u: %s", mistakes[i].at,
                 mistakes[i].why);
        if (regex_compile(mistakes[i].pattern, 0, REGEX_MEMORY_MAX, &re, &err) == 0)
            TAP_FAIL("%s is taken for a pattern", mistakes[i].pattern);
        CHECK_INT(err.kind, ERR_INVALID);
        CHECK_STR(err.code, "bad_regex");
        if (strcmp(err.text, want) != 0)
            TAP_FAIL("%s: \"%s\", not \"%s\"", mistakes[i].pattern, err.text, want);
    }
}

TEST(a_pattern_that_is_not_text_is_a_mistake)
{
    struct regex *re = NULL;
    struct err err = {0};

    CHECK_INT(regex_compile("a\xff", 0, REGEX_MEMORY_MAX, &re, &err), -1);
    CHECK_STR(err.code, "bad_regex");
    CHECK_INT(regex_compile("\xed\xa0\x80", REGEX_LITERAL, REGEX_MEMORY_MAX, &re, &err), -1);
}

TEST(a_literal_pattern_stands_for_itself)
{
    auto_regex struct regex *re = compiled_as("a.(b)*\\d", REGEX_LITERAL);
    auto_regex struct regex *any = compiled_as("a.B", REGEX_LITERAL | REGEX_IGNORE_CASE);
    auto_regex struct regex *none = compiled_as("", REGEX_LITERAL);

    CHECK_STR(found(re, "xa.(b)*\\dx"), "1,9");
    CHECK_STR(found(re, "xab1"), "none");
    CHECK_STR(found(any, "A.b"), "0,3");
    CHECK_STR(found(any, "axb"), "none");
    CHECK_STR(found(none, "abc"), "0,0");
}

TEST(case_is_ignored_when_that_is_asked_for)
{
    auto_regex struct regex *re = compiled_as("h\xc3\xa9[x]", REGEX_IGNORE_CASE);

    CHECK_STR(found(re, "H\xc3\x89X"), "0,4");
}

TEST(a_search_goes_on_behind_a_place)
{
    auto_regex struct regex *re = compiled("a");
    auto_regex struct regex *start = compiled("^a");
    auto_regex struct regex *word = compiled("\\ba");
    auto_regex struct regex *empty = compiled("");

    CHECK_STR(found_from(re, "aba", 1), "2,3");
    CHECK_STR(found_from(re, "aba", 3), "none");
    CHECK_STR(found_from(start, "aaa", 1), "none");
    CHECK_STR(found_from(word, "aa a", 1), "3,4");
    CHECK_STR(found_from(empty, "abc", 2), "2,2");
    CHECK_STR(found_from(empty, "abc", 3), "3,3");
}

TEST(groups_are_found_by_name)
{
    auto_regex struct regex *re = compiled("(?P<first>a)(b)(?<second>c)");

    CHECK_INT(regex_groups(re), 4);
    CHECK_INT(regex_group(re, "first", 5), 1);
    CHECK_INT(regex_group(re, "second", 6), 3);
    CHECK_INT(regex_group(re, "firs", 4), -1);
    CHECK_INT(regex_group(re, "", 0), -1);
}

TEST(a_text_that_is_not_utf8_has_no_match)
{
    static const char *const bad[] = {
        "a\xff",   "\x80",     "\xc3", "a\xe2\x82", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80",
        "a\xc3(b", "\xe2(\xa1"};
    auto_regex struct regex *re = compiled("a|.|");

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        for (size_t piece = 1; piece < 6; piece++)
            if (verdict(re, bad[i], strlen(bad[i]), piece) != REGEX_NOT_TEXT)
                TAP_FAIL("text %zu in pieces of %zu", i, piece);
    CHECK_INT(verdict(re, "\xe2\x82\xac", 3, 1), REGEX_YES);
    CHECK_INT(verdict(re, "", 0, 1), REGEX_YES);
}

/* ---- whatever a pattern is, it costs no more than its size times that of the text */

TEST(patterns_that_blow_up_elsewhere_take_steps_in_proportion)
{
    static const char *const patterns[] = {
        "(a*)*b",           "(a+)+$b",          "(a|aa)+$",
        "(a|a|a)*c",        "(a?){30}a{30}",    "(.*)(.*)(.*)=x",
        "(x+x+)+y",         "([a-z]+)*[0-9]",   "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(?:a?){50}a{50}$", "(a{1,10}){1,10}b", "((((a*)*)*)*)*c",
    };
    auto_free char *text = repeated("a", 20000), *more = repeated("a", 40000);

    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        auto_regex struct regex *re = compiled(patterns[i]);
        auto_free uint32_t *slots = xcalloc(2 * regex_groups(re), sizeof(*slots));
        uint64_t once, twice;

        CHECK(regex_find(re, text, 20000, 0, slots) >= 0);
        once = regex_steps(re);
        CHECK(regex_find(re, more, 40000, 0, slots) >= 0);
        twice = regex_steps(re) - once;
        if (once > 20001ull * 400 || twice > 2 * once + once / 10)
            TAP_FAIL("%s takes %llu steps, and %llu for a text twice as long", patterns[i],
                     (unsigned long long)once, (unsigned long long)twice);
    }
}

TEST(what_cannot_begin_a_match_is_passed_over)
{
    auto_regex struct regex *re = compiled_as("needle", REGEX_NO_GROUPS);
    auto_free char *text = repeated("hay ", 10000);

    CHECK_INT(verdict(re, text, 40000, 4096), REGEX_NO);
    CHECK(regex_steps(re) < 100);
}

TEST(a_start_that_is_not_there_ends_the_search)
{
    auto_regex struct regex *re = compiled_as("^a.*b", REGEX_NO_GROUPS);
    auto_free char *text = repeated("b", 40000);

    CHECK_INT(verdict(re, text, 40000, 4096), REGEX_NO);
    CHECK(regex_steps(re) < 100);
}

/* In memory and, as they are not followed when there is none, in time. */
TEST(size_bombs_are_refused)
{
    static const char *const bombs[] = {
        "a{1000}{1000}",
        "((((a{20}){20}){20}){20}){20}",
        "(?:a{1000}){100}",
        "(a|b|c|d){50000}",
        "\\w{1000}{1000}{1000}{1000}",
        "(((a{999999999}){999999999}){999999999})",
        ".{65537}",
    };

    for (size_t i = 0; i < ARRAY_LEN(bombs); i++) {
        struct regex *re = NULL;
        struct err err = {0};

        if (regex_compile(bombs[i], 0, REGEX_MEMORY_MAX, &re, &err) == 0)
            TAP_FAIL("%s is taken", bombs[i]);
        CHECK_STR(err.code, "bad_regex");
    }
}

TEST(nothing_repeated_often_is_nothing)
{
    auto_free char *empties = repeated("(?:)", 5000);
    auto_free char *pattern = xasprintf("(?:a%s){60000}", empties);
    auto_regex struct regex *re = compiled_as(pattern, REGEX_NO_GROUPS);
    auto_regex struct regex *none = compiled_as("(?:(?:){999999999}){999999999}b", REGEX_NO_GROUPS);
    auto_regex struct regex *grouped = compiled("(?:(?:){999999999}){999999999}b");

    CHECK_INT(verdict(re, "aaa", 3, 1), REGEX_NO);
    CHECK_STR(found(grouped, "ab"), "1,2");
    CHECK_INT(verdict(none, "ab", 2, 1), REGEX_YES);
}

TEST(nesting_has_an_end)
{
    auto_free char *open = repeated("(", 10000), *classes = repeated("[a", 10000);
    auto_free char *stars = repeated("*", 20000), *starred = xasprintf("a%s", stars);
    const char *const patterns[] = {open, classes, starred};
    auto_free char *in = repeated("(", 250), *out = repeated(")", 250);
    auto_free char *nested = xasprintf("%sa%s", in, out);
    auto_regex struct regex *re = compiled(nested);

    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        struct regex *none = NULL;
        struct err err = {0};

        CHECK_INT(regex_compile(patterns[i], 0, REGEX_MEMORY_MAX, &none, &err), -1);
        CHECK_STR(err.code, "bad_regex");
    }
    CHECK_INT(regex_groups(re), 251);
}

TEST(a_pattern_gets_no_more_memory_than_it_may_have)
{
    static const char *const patterns[] = {"[\\w\\W&&[\\w&&[\\w&&[\\w]]]]", "a{5000}",
                                           "(a)(b)(c)(d)(e)(f)(g)(h)(i)(j){500}"};

    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        struct regex *re = NULL;
        struct err err = {0};

        CHECK_INT(regex_compile(patterns[i], 0, 16 << 10, &re, &err), -1);
        CHECK_INT(err.kind, ERR_TOO_LARGE);
        CHECK_STR(err.code, "bad_regex");
        regex_free(compiled(patterns[i]));
    }
}

TEST(a_long_pattern_is_refused_and_one_that_just_fits_is_not)
{
    auto_free char *fits = repeated("a", REGEX_PATTERN_MAX),
                   *not = repeated("a", REGEX_PATTERN_MAX + 1);
    auto_regex struct regex *re = compiled(fits);
    struct regex *none = NULL;

    CHECK_INT(regex_compile(not, 0, REGEX_MEMORY_MAX, &none, NULL), -1);
    CHECK_INT(verdict(re, "aaa", 3, 1), REGEX_NO);
}

static bool not_for_long(void *arg)
{
    return ++*(unsigned *)arg < 3;
}

TEST(who_watches_can_end_it)
{
    auto_regex struct regex *re = compiled("(.*)*x");
    auto_free char *text = repeated("a", 1 << 20);
    auto_free uint32_t *slots = xcalloc(2 * regex_groups(re), sizeof(*slots));
    unsigned asked = 0;

    regex_watch(re, not_for_long, &asked);
    for (int i = 0; i < 20 && asked < 3; i++)
        if (regex_find(re, text, 1 << 20, 0, slots) < 0)
            break;
    CHECK_INT(asked, 3);
    CHECK_INT(verdict(re, "aaa", 3, 1), REGEX_NO); /* it can be used again */
}

/* ---- globs of paths */

TEST(globs_match_paths)
{
    static const struct {
        const char *glob, *path;
        bool want;
    } cases[] = {
        {"*.c", "a.c", true},
        {"*.c", "src/a.c", true},
        {"*.c", "a.h", false},
        {"*.c", ".c", true},
        {"?.c", "a.c", true},
        {"?.c", "\xc3\xa9.c", true},
        {"?.c", "ab.c", false},
        {"\xc3\xa9*", "\xc3\xa9t\xc3\xa9", true},
        {"src/*.c", "src/a.c", true},
        {"src/*.c", "src/b/a.c", false},
        {"src/*.c", "x/src/a.c", false},
        {"src/?.c", "src//.c", false},
        {"**/*.c", "a.c", true},
        {"**/*.c", "a/b/c.c", true},
        {"**/b/*.c", "a/b/c.c", true},
        {"**/b/*.c", "b/c.c", true},
        {"**/b/*.c", "ab/c.c", false},
        {"**", "a/b/c", true},
        {"**", "a", true},
        {"a/**", "a/b/c", true},
        {"a/**", "a/", true},
        {"a/**", "b/a/c", false},
        {"a/**/c", "a/c", true},
        {"a/**/c", "a/b/b/c", true},
        {"a/**/c", "a/bc", false},
        {"a**c/d", "a/b/c/d", true},
        {"**/node_modules/**", "x/node_modules/y/z.js", true},
        {"**/node_modules/**", "node_modules/z.js", true},
        {"**/node_modules/**", "my_node_modules/z.js", false},
        {"skip/*", "skip/b.py", true},
        {"skip/*", "skip/x/b.py", false},
        {"[a].c", "[a].c", true},
        {"[a].c", "a.c", false},
        {"a", "a", true},
        {"a", "b/a", true},
        {"a", "ab", false},
        {"*", "", true},
        {"?", "", false},
        {"/*", "/a", true},
        {"a*b*c", "aXbYbZc", true},
        {"a*b*c", "aXbYbZ", false},
        {"\xff*", "\xffx", true},
        {"*?\xff", "a\xff", true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (path_glob(cases[i].glob, cases[i].path) != cases[i].want)
            TAP_FAIL("%s and %s", cases[i].glob, cases[i].path);
}

TEST(a_glob_with_many_stars_ends_soon)
{
    auto_free char *stars = repeated("*a", 100), *twice = repeated("**/", 60);
    auto_free char *path = repeated("a/", 2000), *name = repeated("a", 4000);

    CHECK(!path_glob(stars, "aaaaaaaaaaaaaaaaaaaaaaaaaaab"));
    CHECK(path_glob(stars, name));
    CHECK(path_glob(twice, path));
}

TAP_MAIN
