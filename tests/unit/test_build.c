/* Dockerfiles: what they mean, and what is said about those that we cannot build. */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "service/build/build.h"
#include "service/build/build_internal.h"
#include "tap.h"

static struct build_plan *parse(const char *text)
{
    struct build_plan *plan;
    struct err err = {0};

    if (build_dockerfile("Dockerfile", text, strlen(text), &plan, &err) < 0)
        TAP_FAIL("%s", err.text);
    return plan;
}

static void check_bad(const char *text, const char *why)
{
    struct build_plan *plan;
    struct err err = {0};

    if (build_dockerfile("Dockerfile", text, strlen(text), &plan, &err) == 0)
        TAP_FAIL("it was taken: %s", text);
    CHECK_INT(err.kind, ERR_INVALID);
    CHECK_STR(err.code, "bad_dockerfile");
    if (strncmp(err.text, why, strlen(why)) != 0)
        TAP_FAIL("\"%s\" does not begin with \"%s\"", err.text, why);
}

static void check_words(const struct build_step *s, const char *joined)
{
    char got[512] = "";

    for (char **w = s->words; *w; w++) {
        strncat(got, got[0] ? "|" : "", sizeof(got) - strlen(got) - 1);
        strncat(got, *w, sizeof(got) - strlen(got) - 1);
    }
    CHECK_STR(got, joined);
}

TEST(lines_go_on_after_an_escape_and_over_comments)
{
    auto_build_plan struct build_plan *p = parse("# a comment\n"
                                                 "\n"
                                                 "from host\n"
                                                 "RUN a \\\n"
                                                 "  # not part of it\n"
                                                 "\n"
                                                 "  b \\  \n"
                                                 "  c\\\\\n"
                                                 "RUN d\r\n"
                                                 "RUN e \\");

    CHECK_INT(p->n, 4);
    CHECK_STR(p->steps[1].words[0], "a   b   c\\\\");
    CHECK_INT(p->steps[1].line, 4);
    CHECK(p->steps[1].shell);
    CHECK_STR(p->steps[2].words[0], "d");
    CHECK_INT(p->steps[2].line, 9);
    CHECK_STR(p->steps[3].words[0], "e");
}

TEST(the_escape_directive_is_only_at_the_top)
{
    auto_build_plan struct build_plan *p =
        parse("# syntax=docker/dockerfile:1\n# Escape = `\nFROM host\nRUN a `\nb \\\nRUN c\n");
    auto_build_plan struct build_plan *late = parse("# text\n# escape=`\nFROM host\nRUN a \\\nb\n");

    CHECK_INT(p->escape, '`');
    CHECK_STR(p->steps[1].words[0], "a b \\");
    CHECK_STR(p->steps[2].words[0], "c");
    CHECK_INT(late->escape, '\\');
    CHECK_STR(late->steps[1].words[0], "a b");
    check_bad("# escape=x\nFROM host\n", "Dockerfile:1: escape must be");
}

TEST(stages_have_names_and_platforms)
{
    auto_build_plan struct build_plan *p =
        parse("ARG V=3\nFROM --platform=linux/amd64 a:$V AS Build\nFROM scratch\n"
              "COPY --from=build --chown=1:2 --chmod=755 --link a \"b c\" /d/\n");

    CHECK_INT(p->steps[0].op, BUILD_ARG);
    check_words(&p->steps[0], "V|3");
    CHECK_STR(p->steps[1].stage, "build");
    CHECK_STR(p->steps[1].platform, "linux/amd64");
    check_words(&p->steps[3], "a|\"b c\"|/d/");
    CHECK_STR(p->steps[3].from, "build");
    CHECK_STR(p->steps[3].chown, "1:2");
    CHECK_STR(p->steps[3].chmod, "755");
}

TEST(commands_have_two_forms)
{
    auto_build_plan struct build_plan *p =
        parse("FROM host\nRUN [\"a\", \"b c\"]\nCMD []\nENTRYPOINT x y\nRUN [ -f x ]\n"
              "SHELL [\"/bin/bash\", \"-c\"]\nCOPY [\"a b\", \"/c\"]\n");

    CHECK(!p->steps[1].shell);
    check_words(&p->steps[1], "a|b c");
    CHECK(!p->steps[2].shell);
    check_words(&p->steps[2], "");
    CHECK(p->steps[3].shell);
    check_words(&p->steps[3], "x y");
    CHECK(p->steps[4].shell);
    check_words(&p->steps[4], "[ -f x ]");
    check_words(&p->steps[5], "/bin/bash|-c");
    check_words(&p->steps[6], "a b|/c");
}

TEST(env_and_labels_have_two_forms)
{
    auto_build_plan struct build_plan *p =
        parse("FROM host\nENV A=1 B=\"2 3\" C=\nENV D all the rest\nLABEL \"x y\"=z\nARG E F=1\n"
              "MAINTAINER me $you\nEXPOSE 80 53/udp\n");

    check_words(&p->steps[1], "A|1|B|\"2 3\"|C|");
    check_words(&p->steps[2], "D|all the rest");
    check_words(&p->steps[3], "\"x y\"|z");
    check_words(&p->steps[4], "E");
    check_words(&p->steps[5], "F|1");
    check_words(&p->steps[6], "maintainer|me $you");
    check_words(&p->steps[7], "80|53/udp");
}

TEST(here_documents_are_scripts_and_files)
{
    auto_build_plan struct build_plan *p = parse("FROM host\n"
                                                 "RUN <<EOF\na\n# b\nEOF\n"
                                                 "RUN python3 <<-'X' && y\n\tc\n\tX\n"
                                                 "COPY --chmod=700 <<\"E\" /f\n$d\nE\n"
                                                 "RUN cat <<<word\n"
                                                 "RUN echo 'a <<E' \"b <<E\" c\\' <<E\nd\nE\n");

    CHECK_STR(p->steps[1].words[0], "a\n# b\n");
    CHECK_STR(p->steps[2].words[0], "python3 <<-'X' && y\nc\nX\n");
    CHECK_INT(p->steps[3].op, BUILD_WRITE);
    check_words(&p->steps[3], "/f|$d\n");
    CHECK(p->steps[3].plain);
    CHECK_STR(p->steps[3].chmod, "700");
    CHECK_STR(p->steps[4].words[0], "cat <<<word");
    CHECK_STR(p->steps[5].words[0], "echo 'a <<E' \"b <<E\" c\\' <<E\nd\nE\n");
    check_bad("FROM host\nRUN <<E\nx\n", "Dockerfile:2: RUN has a here-document without its end");
}

TEST(what_is_not_supported_has_its_line)
{
    check_bad("FROM host\n\nHEALTHCHECK CMD true\n", "Dockerfile:3: HEALTHCHECK is not supported");
    check_bad("FROM host\nVOLUME /x\n", "Dockerfile:2: VOLUME is not supported");
    check_bad("FROM host\nONBUILD RUN x\n", "Dockerfile:2: ONBUILD is not supported");
    check_bad("FROM host\nRUN --mount=type=cache,target=/x y\n",
              "Dockerfile:2: RUN --mount=type=cache,target=/x is not supported: leave it out, a "
              "step that was done is kept as it is; files come with COPY");
    check_bad("FROM host\nCOPY --parents a /b\n", "Dockerfile:2: COPY --parents is not supported");
    check_bad("FROM host\nRUN <<E\n#!/usr/bin/python3\nE\n",
              "Dockerfile:2: a here-document that begins with #! is not supported");
    check_bad("FROM host\nADD --from=x a /b\n", "Dockerfile:2: ADD --from=x is not supported");
    check_bad("FROM host\nADD https://x/y /z\n", "Dockerfile:2: ADD of a URL is not supported");
    check_bad("FROM host\nFETCH x\n", "Dockerfile:2: FETCH is not an instruction");
}

TEST(what_is_wrong_has_its_line)
{
    check_bad("", "Dockerfile has no FROM");
    check_bad("ARG X\n", "Dockerfile has no FROM");
    check_bad("RUN x\nFROM host\n", "Dockerfile:1: RUN before the first FROM");
    check_bad("FROM\n", "Dockerfile:1: FROM needs an image");
    check_bad("FROM a b\n", "Dockerfile:1: FROM needs an image");
    check_bad("FROM a AS 1x\n", "Dockerfile:1: 1x cannot be the name");
    check_bad("FROM a\nRUN\n", "Dockerfile:2: RUN needs a command");
    check_bad("FROM a\nCOPY x\n", "Dockerfile:2: COPY needs what to copy");
    check_bad("FROM a\nENV X\n", "Dockerfile:2: ENV X has no value");
    check_bad("FROM a\nENV X=1 Y\n", "Dockerfile:2: ENV: Y is not name=value");
    check_bad("FROM a\nENV X=\"1\n", "Dockerfile:2: ENV: a quote has no end");
    check_bad("FROM a\nSHELL bash\n", "Dockerfile:2: SHELL needs a list");
    check_bad("FROM a\nARG 1-2=3\n", "Dockerfile:2: ARG: 1-2 is not a name");
}

TEST(steps_are_counted)
{
    auto_buf struct buf text = {0};
    struct build_plan *plan;
    struct err err = {0};

    buf_init(&text, DOCKERFILE_BYTES_MAX);
    (void)buf_add_str(&text, "FROM host\n");
    for (int i = 0; i < BUILD_STEPS_MAX; i++)
        (void)buf_add_str(&text, "ENV A=1\n");
    CHECK_INT(build_dockerfile("Dockerfile", text.data, text.len, &plan, &err), -1);
    CHECK_STR(err.code, "too_many_steps");
}

/* ---- words ---- */

static const char *lookup(const char *name, void *arg)
{
    (void)arg;
    if (strcmp(name, "x") == 0)
        return "X y";
    return strcmp(name, "empty") == 0 ? "" : NULL;
}

static void check_expand(const char *word, const char *want)
{
    auto_free char *got = NULL;
    struct err err = {0};

    if (words_expand(word, '\\', lookup, NULL, &got, &err) < 0)
        TAP_FAIL("%s: %s", word, err.text);
    CHECK_STR(got, want);
}

TEST(variables_are_replaced)
{
    check_expand("a$x-${x}b", "aX y-X yb");
    check_expand("$none|${none}", "|");
    check_expand("${none:-d}${empty:-e}${empty-f}${x:-g}", "deX y");
    check_expand("${x:+a}${empty:+b}${empty+c}${none+d}", "ac");
    check_expand("${none:-${x}/${none:-\"q r\"}}", "X y/q r");
    check_expand("$ $1", "$ $1");
}

TEST(quotes_and_escapes_are_taken_off)
{
    check_expand("'$x' \"$x\" \\$x", "$x X y $x");
    check_expand("\"a\\\"b\\\\c\\d\"", "a\"b\\c\\d");
    check_expand("a\\ b", "a b");
}

TEST(a_text_keeps_its_quotes)
{
    auto_free char *got = NULL;

    CHECK_INT(words_expand_text("'$x' \"a\" \\$x \\n", '\\', lookup, NULL, &got, NULL), 0);
    CHECK_STR(got, "'X y' \"a\" \\$x \\n");
}

TEST(words_that_have_no_end_are_refused)
{
    static const char *const words[] = {"'a",  "\"a",     "${x",    "${",
                                        "${}", "${x:?e}", "${x:-a", "${x%y}"};
    struct err err = {0};
    char *got;

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (words_expand(words[i], '\\', lookup, NULL, &got, &err) == 0)
            TAP_FAIL("%s was taken", words[i]);
}

TAP_MAIN
