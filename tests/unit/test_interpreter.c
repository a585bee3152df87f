#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "service/interpreter/driver.h"
#include "service/interpreter/interpreter.h"
#include "service/interpreter/languages.h"
#include "tap.h"

TEST(a_language_has_short_names)
{
    CHECK_STR(language_find("py")->name, "python");
    CHECK_STR(language_find("node")->name, "javascript");
    CHECK_STR(language_find("sh")->name, "bash");
    CHECK(!language_find("cobol"));
    CHECK(!language_find(""));
}

static bool has(char **argv, const char *word)
{
    for (; *argv; argv++)
        if (strcmp(*argv, word) == 0)
            return true;
    return false;
}

static bool runs_as_module(const char *code)
{
    struct code_plan plan = language_plan(language_find("javascript"), code);
    bool is = has(plan.argv, "--input-type=module");

    CHECK(plan.code_is_input);
    strv_free(plan.argv);
    return is;
}

TEST(javascript_with_imports_is_a_module)
{
    CHECK(runs_as_module("import os from 'os'"));
    CHECK(runs_as_module("1;\nexport {}"));
    CHECK(!runs_as_module("important = 1"));
    CHECK(!runs_as_module("x = 'import os'"));
    CHECK(!runs_as_module(""));
}

TEST(bash_that_fits_is_an_argument_and_longer_a_file)
{
    auto_free char *longer = xcalloc(1, 200001);
    struct code_plan plan = language_plan(language_find("bash"), "echo 'a b'");

    CHECK(!plan.code_is_input);
    CHECK_STR(plan.argv[2], "--");
    CHECK_STR(plan.argv[3], "echo 'a b'");
    strv_free(plan.argv);
    memset(longer, '#', 200000);
    plan = language_plan(language_find("bash"), longer);
    CHECK(plan.code_is_input);
    CHECK(!has(plan.argv, longer));
    strv_free(plan.argv);
}

TEST(packages_are_arguments_of_their_own)
{
    char *packages[] = {(char[]){"a b"}, (char[]){"$(x)"}, NULL};
    char **argv = install_plan("npm", packages);

    CHECK(has(argv, "a b"));
    CHECK(has(argv, "$(x)"));
    strv_free(argv);
    CHECK(!install_plan("cpan", packages));
}

TEST(a_context_is_known_by_how_its_command_begins)
{
    CHECK_STR(driver_language(": cay-context python;\ncommand")->name, "python");
    CHECK_STR(driver_language(": cay-context javascript;")->name, "javascript");
    CHECK(!driver_language(": cay-context bash;"));
    CHECK(!driver_language(": cay-code python;"));
    CHECK(!driver_language("python3"));
    CHECK(!driver_language(""));
}

TEST(only_python_waits_in_boxes)
{
    json_t *o = json_pack("{s:s, s:[s, s]}", "language", "python", "imports", "json", "re");
    char **argv = driver_waiting_argv(o);

    CHECK(has(argv, "wait"));
    CHECK(has(argv, "re"));
    strv_free(argv);
    (void)json_object_set_new(o, "language", json_string("go"));
    CHECK(!driver_waiting_argv(o));
    json_decref(o);
    CHECK(!driver_waiting_argv(NULL));
}

TEST(who_makes_a_context_sees_the_others_of_its_sandbox)
{
    struct interpreter *i = interpreter_new(0);
    json_t *one = interpreter_enter(i, "sbx_1", "ex_1");
    json_t *two = interpreter_enter(i, "sbx_1", "ex_2");
    json_t *other = interpreter_enter(i, "sbx_2", "ex_3"), *again;

    CHECK_INT(json_object_size(one), 1);
    CHECK_INT(json_object_size(two), 2);
    CHECK_INT(json_object_size(other), 1);
    interpreter_leave(i, "ex_1");
    interpreter_leave(i, "ex_9");
    again = interpreter_enter(i, "sbx_1", "ex_4");
    CHECK_INT(json_object_size(again), 2);
    json_decref(one);
    json_decref(two);
    json_decref(other);
    json_decref(again);
    interpreter_free(i);
}

TAP_MAIN
