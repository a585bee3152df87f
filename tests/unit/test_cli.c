#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/args.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "cli/create.h"
#include "cli/env_args.h"
#include "cli/escape.h"
#include "cli/help.h"
#include "cli/hints.h"
#include "cli/hostfs.h"
#include "cli/name.h"
#include "cli/network_args.h"
#include "cli/pull_view.h"
#include "cli/table.h"
#include "cli/tar.h"
#include "cli/transfer.h"
#include "cli/ui.h"
#include "source_file.h"
#include "tap.h"

/* ---- arguments ---- */

static const struct flag sample_flags[] = {
    {"name", 'n', FLAG_TEXT, "NAME", "a name"},
    {"tty", 't', FLAG_BOOL, NULL, "a terminal"},
    {"interactive", 'i', FLAG_BOOL, NULL, "input"},
    {"env", 'e', FLAG_LIST, "K=V", "environment"},
    {"tail", 0, FLAG_COUNT, "N", "lines"},
    {"cpu", 0, FLAG_NUMBER, "CORES", "cores"},
    {"timeout", 0, FLAG_TIME, "TIME", "time"},
    {"memory", 'm', FLAG_MB, "MB", "memory"},
    {0},
};

static const struct command plain = {"sample", NULL, "", "", .flags = sample_flags, .words_max = 3};
static const struct command taker = {"taker",        NULL,        "", "", .flags = sample_flags,
                                     .words_max = 1, .rest = true};
static const struct command needer = {
    "needer", NULL, "", "", .flags = sample_flags, .words_min = 1, .words_max = 1, .rest = true};

#define PARSE(args, command, err, ...)                                                             \
    ({                                                                                             \
        static char *argv_[] = {__VA_ARGS__};                                                      \
        args_parse(args, command, ARRAY_LEN(argv_), argv_, err);                                   \
    })

TEST(long_flags_take_their_value_after_a_space_or_an_equals_sign)
{
    struct args a;
    struct err err = {0};

    CHECK_INT(PARSE(&a, &plain, &err, "--name", "x", "word", "--tail=7"), 0);
    CHECK_STR(args_text(&a, "name"), "x");
    CHECK_INT((int)args_number(&a, "tail", 0), 7);
    CHECK_INT(a.n_words, 1);
    CHECK_STR(a.words[0], "word");
    CHECK(!args_has(&a, "tty"));
    args_done(&a);
}

TEST(short_flags_can_be_joined_and_hold_their_value)
{
    struct args a;
    struct err err = {0};

    CHECK_INT(PARSE(&a, &plain, &err, "-it", "-nweb", "-m", "64"), 0);
    CHECK(args_has(&a, "interactive") && args_has(&a, "tty"));
    CHECK_STR(args_text(&a, "name"), "web");
    CHECK_INT((int)args_number(&a, "memory", 0), 64);
    args_done(&a);
}

TEST(a_repeated_flag_keeps_every_value_in_order)
{
    struct args a;
    struct err err = {0};

    CHECK_INT(PARSE(&a, &plain, &err, "-e", "A=1", "--env=B=2"), 0);
    CHECK_INT(strv_len(args_list(&a, "env")), 2);
    CHECK_STR(args_list(&a, "env")[0], "A=1");
    CHECK_STR(args_list(&a, "env")[1], "B=2");
    args_done(&a);
}

TEST(what_follows_two_dashes_is_never_a_flag)
{
    struct args a;
    struct err err = {0};

    CHECK_INT(PARSE(&a, &taker, &err, "host", "--", "ls", "--name", "--"), 0);
    CHECK_INT(a.n_words, 1);
    CHECK_INT(a.n_rest, 3);
    CHECK_STR(a.rest[1], "--name");
    CHECK(!args_has(&a, "name"));
    args_done(&a);
    CHECK_INT(PARSE(&a, &plain, &err, "--", "-x"), 0);
    CHECK_STR(a.words[0], "-x");
    CHECK(!a.rest);
    args_done(&a);
}

TEST(a_lone_dash_is_a_word)
{
    struct args a;
    struct err err = {0};

    CHECK_INT(PARSE(&a, &plain, &err, "-", "web:x"), 0);
    CHECK_INT(a.n_words, 2);
    args_done(&a);
}

TEST(times_and_sizes_have_units)
{
    static const struct {
        const char *flag, *name;
        double value;
    } rows[] = {
        {"--timeout=30", "timeout", 30},     {"--timeout=500ms", "timeout", 0.5},
        {"--timeout=5m", "timeout", 300},    {"--timeout=2h", "timeout", 7200},
        {"--timeout=1.5s", "timeout", 1.5},  {"--memory=512", "memory", 512},
        {"--memory=2G", "memory", 2048},     {"--memory=256M", "memory", 256},
        {"--cpu=0.5", "cpu", 0.5},           {"--timeout=7d", "timeout", 604800},
        {"--timeout=12h", "timeout", 43200}, {"--memory=10G", "memory", 10240},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct args a;
        struct err err = {0};
        char *argv[] = {(char *)rows[i].flag};

        CHECK_INT(args_parse(&a, &plain, 1, argv, &err), 0);
        CHECK(args_number(&a, rows[i].name, -1) > rows[i].value - 1e-9);
        CHECK(args_number(&a, rows[i].name, -1) < rows[i].value + 1e-9);
        args_done(&a);
    }
}

TEST(values_that_make_no_sense_are_refused)
{
    static const char *const rows[] = {
        "--tail=-1",    "--tail=x",     "--tail=",     "--tail=1.5",  "--tail=99999999999999999999",
        "--cpu=inf",    "--cpu=0x10",   "--cpu=nan",   "--cpu=1e999", "--cpu= 1",
        "--timeout=5x", "--timeout=-1", "--memory=1T", "--tty=yes",   "--cpu=.",
        "--timeout=s",  "--name",       "--cpu=1.2.3", "--cpu=1e17",  "--timeout=1e30"};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct args a;
        struct err err = {0};
        char *argv[] = {(char *)rows[i]};

        if (args_parse(&a, &plain, 1, argv, &err) == 0)
            TAP_FAIL("%s was accepted", rows[i]);
        CHECK_INT(err.kind, ERR_INVALID);
    }
}

TEST(an_unknown_flag_is_answered_with_the_nearest_one)
{
    struct args a;
    struct err err = {0};

    CHECK_INT(PARSE(&a, &plain, &err, "--nmae", "x"), -1);
    CHECK_STR(err.text, "unknown flag \"--nmae\": did you mean \"--name\"?");
    CHECK_INT(PARSE(&a, &plain, &err, "--timeot=5"), -1);
    CHECK(strstr(err.text, "\"--timeout\""));
}

TEST(a_flag_of_another_tool_is_answered_with_what_to_do)
{
    static const struct command create = {"create", NULL, "", "", .words_max = 1, .rest = true};
    struct args a;
    struct err err = {0};

    CHECK_INT(PARSE(&a, &create, &err, "-P"), -1);
    CHECK(str_starts(err.text, "-P: name each port with -p"));
    CHECK_INT(PARSE(&a, &create, &err, "--volumes-from=web"), -1);
    CHECK(str_starts(err.text, "--volumes-from: name each volume with -v"));
    CHECK_INT(PARSE(&a, &create, &err, "--dns", "1.1.1.1"), -1);
    CHECK(str_starts(err.text, "--dns: name servers are part of a policy"));
    CHECK_INT(PARSE(&a, &create, &err, "--ulimit", "nproc=5"), -1);
    CHECK(str_starts(err.text, "--ulimit: the limit on processes is --pids"));
    CHECK_INT(PARSE(&a, &plain, &err, "--publish", "80"), -1);
    CHECK(str_starts(err.text, "unknown flag"));
}

TEST(a_flag_that_may_have_a_value_takes_only_words_it_knows)
{
    static const struct flag flags[] = {
        {"network", 0, FLAG_MAYBE, "[=WHAT]", "", .choices = "none public"}, {0}};
    static const struct command run = {"run",          NULL,           "",          "",
                                       .flags = flags, .words_max = 1, .rest = true};
    struct args a;
    struct err err = {0};

    CHECK_INT(PARSE(&a, &run, &err, "--network", "python:3", "true"), 0);
    CHECK_STR(args_text(&a, "network"), "");
    CHECK_STR(a.words[0], "python:3");
    args_done(&a);
    CHECK_INT(PARSE(&a, &run, &err, "--network", "none", "python:3"), 0);
    CHECK_STR(args_text(&a, "network"), "none");
    CHECK_STR(a.words[0], "python:3");
    args_done(&a);
    CHECK_INT(PARSE(&a, &run, &err, "--network=pypi,npm", "host"), 0);
    CHECK_STR(args_text(&a, "network"), "pypi,npm");
    args_done(&a);
    CHECK_INT(PARSE(&a, &run, &err, "--network"), 0);
    CHECK(args_has(&a, "network"));
    args_done(&a);
    CHECK_INT(PARSE(&a, &run, &err, "--network=", "host"), -1);
    CHECK(strstr(err.text, "has no value"));
    args_done(&a);
}

TEST(words_for_a_network_become_what_a_create_takes)
{
    static char *const api[] = {"api.test:8443",
                                "[fd00::1]:80",
                                "1.1.1.1:53/udp",
                                "*.cdn.test",
                                "10.0.0.0/8:5432",
                                "a.test:tcp:1-9",
                                NULL};
    static char *const bad[] = {"evil.test", NULL};
    static const struct {
        const char *word;
        char *const *allow, *const *deny;
        const char *json;
    } rows[] = {
        {NULL, NULL, NULL, NULL},
        {"", NULL, NULL, "true"},
        {"bridge", NULL, NULL, "true"},
        {"none", NULL, NULL, "false"},
        {"pypi,npm", NULL, NULL, "\"pypi,npm\""},
        {"public", NULL, bad, "\"deny@evil.test,public\""},
        {"packages", NULL, bad, "\"deny@evil.test,packages\""},
        {NULL, api, bad,
         "\"deny@evil.test,allow@api.test::8443,allow@[fd00::1]::80,allow@1.1.1.1:udp:53,"
         "allow@*.cdn.test,allow@10.0.0.0/8::5432,allow@a.test:tcp:1-9\""},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *got = NULL,
               *want = rows[i].json ? json_loads(rows[i].json, JSON_DECODE_ANY, NULL) : NULL;
        struct err err = {0};

        CHECK_INT(network_of_words(rows[i].word, rows[i].allow, rows[i].deny, &got, &err), 0);
        CHECK(got == want || json_equal(got, want));
        json_decref(got);
        json_decref(want);
    }
}

TEST(a_network_that_no_sandbox_has_is_refused_with_what_to_do)
{
    static char *const bad[] = {"evil.test", NULL};
    struct err err = {0};
    json_t *got = NULL;

    CHECK_INT(network_of_words("host", NULL, NULL, &got, &err), -1);
    CHECK(strstr(err.text, "host.cay.internal"));
    CHECK_INT(network_of_words("container:web", NULL, NULL, &got, &err), -1);
    CHECK(strstr(err.text, "cay network"));
    CHECK_INT(network_of_words("./nothing.json", NULL, NULL, &got, &err), -1);
    CHECK_INT(network_of_words(NULL, NULL, bad, &got, &err), -1);
    CHECK(strstr(err.text, "--network=public --deny evil.test"));
    CHECK(!got);
}

TEST(flags_end_at_the_first_word_of_a_command_line)
{
    struct args a;
    struct err err = {0};

    CHECK_INT(PARSE(&a, &taker, &err, "-t", "web", "ls", "-l", "--name", "x"), 0);
    CHECK(args_has(&a, "tty") && !args_has(&a, "name") && !a.exact);
    CHECK_INT(a.n_words, 1);
    CHECK_STR(a.words[0], "web");
    CHECK_INT(a.n_rest, 4);
    CHECK_STR(a.rest[0], "ls");
    CHECK_STR(a.rest[3], "x");
    args_done(&a);
    CHECK_INT(PARSE(&a, &taker, &err, "web", "--", "-x", "--"), 0);
    CHECK(a.exact);
    CHECK_INT(a.n_rest, 2);
    CHECK_STR(a.rest[0], "-x");
    args_done(&a);
    CHECK_INT(PARSE(&a, &taker, &err, "--", "echo", "hello"), 0);
    CHECK_INT(a.n_words, 0);
    CHECK_INT(a.n_rest, 2);
    args_done(&a);
    CHECK_INT(PARSE(&a, &needer, &err, "--", "web", "echo", "-n"), 0);
    CHECK_STR(a.words[0], "web");
    CHECK_INT(a.n_words, 1);
    CHECK_INT(a.n_rest, 2);
    args_done(&a);
    CHECK_INT(PARSE(&a, &taker, &err, "web"), 0);
    CHECK(!a.rest && a.n_rest == 0);
    args_done(&a);
}

TEST(a_flag_that_comes_too_late_is_not_taken_for_a_program)
{
    struct args a;
    struct err err = {0};

    CHECK_INT(PARSE(&a, &taker, &err, "web", "-t", "bash"), -1);
    CHECK(strstr(err.text, "flags of cay stand before it"));
}

TEST(too_many_words_are_refused)
{
    struct args a;
    struct err err = {0};

    CHECK_INT(PARSE(&a, &plain, &err, "a", "b", "c", "d"), -1);
    CHECK(strstr(err.text, "too many"));
}

TEST(a_flag_with_choices_takes_no_other_value)
{
    static const struct flag flags[] = {
        {"status", 0, FLAG_TEXT, "STATUS", "", .choices = "running paused", .also = "state"}, {0}};
    static const struct command chooser = {"chooser", NULL, "", "", .flags = flags};
    struct args a;
    struct err err = {0};

    CHECK_INT(PARSE(&a, &chooser, &err, "--status", "bogus"), -1);
    CHECK_STR(err.text, "--status needs one of: running paused; not \"bogus\"");
    CHECK_INT(PARSE(&a, &chooser, &err, "--status", "run"), -1);
    CHECK_INT(PARSE(&a, &chooser, &err, "--state=paused"), 0);
    CHECK_STR(args_text(&a, "status"), "paused");
    args_done(&a);
}

TEST(help_is_given_even_when_words_are_missing)
{
    static const struct command needs = {"needs", NULL, "", "", .words_min = 2, .words_max = 2};
    struct args a;
    struct err err = {0};

    CHECK_INT(PARSE(&a, &needs, &err, "one"), -1);
    CHECK_INT(PARSE(&a, &needs, &err, "-h"), 0);
    CHECK(args_has(&a, "help"));
    args_done(&a);
}

/* ---- the table of commands ---- */

TEST(every_command_fits_the_parser_and_has_help)
{
    for (const struct command *c = commands; c->name; c++) {
        size_t n = 0;

        CHECK(c->usage && c->help && *c->help);
        CHECK(c->help[strlen(c->help) - 1] != '.');
        CHECK(c->words_min <= c->words_max);
        for (const struct flag *f = c->flags; f && f->name; f++, n++) {
            CHECK((f->kind == FLAG_BOOL) == (f->value == NULL));
            for (const struct flag *g = c->flags; g < f; g++) {
                CHECK(strcmp(f->name, g->name) != 0);
                CHECK(!f->letter || f->letter != g->letter);
            }
        }
        CHECK(n + 2 <= ARGS_FLAGS_MAX);
    }
}

TEST(commands_are_found_by_name_by_alias_and_as_one_or_two_words)
{
    int used;

    CHECK_STR(command_find(1, (char *[]){"ls"}, &used)->name, "ls");
    CHECK_STR(command_find(1, (char *[]){"list"}, &used)->name, "ls");
    CHECK_STR(command_find(1, (char *[]){"kill"}, &used)->name, "kill");
    CHECK_STR(command_find(1, (char *[]){"rm"}, &used)->name, "rm");
    CHECK_STR(command_find(3, (char *[]){"env", "ls", "web"}, &used)->name, "env list");
    CHECK_INT(used, 2);
    CHECK_STR(command_find(2, (char *[]){"pull", "alpine"}, &used)->name, "image pull");
    CHECK_INT(used, 1);
    CHECK_STR(command_find(1, (char *[]){"images"}, &used)->name, "image ls");
    CHECK_STR(command_find(1, (char *[]){"rmi"}, &used)->name, "image rm");
    CHECK_STR(command_find(1, (char *[]){"commit"}, &used)->name, "image commit");
    CHECK_STR(command_find(3, (char *[]){"file", "read", "x"}, &used)->name, "file read");
    CHECK_INT(used, 2);
    CHECK_STR(command_find(2, (char *[]){"file read", "x"}, &used)->name, "file read");
    CHECK_INT(used, 1);
    CHECK(!command_find(1, (char *[]){"file"}, &used));
    CHECK(command_is_group("file") && command_is_group("image") && !command_is_group("fil"));
    CHECK(!command_find(1, (char *[]){"lss"}, &used));
}

TEST(a_word_that_no_command_is_called_gets_the_right_hint)
{
    static const struct {
        const char *word, *hint;
    } rows[] = {
        {"ssh", "cay shell ID"},
        {"push", "cay image export"},
        {"login", "--password-stdin"},
        {"restart", "cay start"},
        {"unpause", "cay resume"},
        {"image build", "cay build DIR"},
        {"branch", "cay fork"},
        {"rollback", "cay snapshot restore"},
        {"prewarm", "cay pool add"},
        {"volume zzzzzz", "see \"cay help volume\""},
        {"checkpoint", "cay snapshot create"},
        {"metrics", "cay stats"},
        {"config", "cay serve --help"},
        {"fs", "cay file ls"},
        {"imge", "did you mean \"image\"?"},
        {"crate", "did you mean \"create\"?"},
        {"lst", "did you mean \"ls\"?"},
        {"image lss", "did you mean \"image ls\"?"},
        {"jbos", "did you mean \"jobs\"?"},
        {"zzzzzz", "see \"cay help\""},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_free char *hint = hint_word(rows[i].word);

        if (!strstr(hint, rows[i].hint))
            TAP_FAIL("%s: %s", rows[i].word, hint);
    }
}

/* No hint may stand in the way of a command that is there. */
TEST(no_word_of_another_tool_is_a_command)
{
    static const char *const also_commands[] = {"build",    "clone",    "restore",
                                                "template", "network",  "templates",
                                                "volume",   "snapshot", NULL};

    for (const struct command *c = commands; c->name; c++) {
        auto_free char *hint = hint_word(c->name);

        if (str_starts(hint, "there is no command"))
            TAP_FAIL("%s", hint);
        for (const struct flag *f = c->flags; f && f->name; f++)
            if (hint_flag(c->name, f->name))
                TAP_FAIL("%s --%s: %s", c->name, f->name, hint_flag(c->name, f->name));
    }
    for (const char *const *w = also_commands; *w; w++) {
        auto_free char *hint = hint_word(*w);

        if (str_starts(hint, "there is no command"))
            TAP_FAIL("%s", hint);
    }
}

TEST(the_columns_of_a_group_are_straight)
{
    auto_buf struct buf out;
    const char *create, *inspect;

    buf_init(&out, 10000);
    help_group(&out, "snapshot");
    (void)buf_add(&out, "", 1);
    create = strstr(out.data, "snapshot create ");
    inspect = strstr(out.data, "snapshot inspect ");
    CHECK(create && inspect);
    CHECK_INT(strstr(create, "keep a") - create, strstr(inspect, "show all") - inspect);
}

TEST(names_are_plain_and_never_like_ids)
{
    static const char *const good[] = {"web", "a", "7", "my-box_2.0", "SBX", "sbx", "host"};
    static const char *const bad[] = {"",      "a b",  "-x",   ".x",         "_x",  "a/b", "a:b",
                                      "sbx_1", "bg_x", "ex_1", "gr\xc3\xbc", "a\n", "a$"};
    char longest[66];
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        CHECK_INT(name_check(good[i], &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (name_check(bad[i], &err) == 0)
            TAP_FAIL("\"%s\" was accepted", bad[i]);
        CHECK_INT(err.kind, ERR_INVALID);
    }
    memset(longest, 'a', sizeof(longest));
    longest[63] = '\0';
    CHECK_INT(name_check(longest, &err), 0);
    longest[63] = 'a';
    longest[64] = '\0';
    CHECK_INT(name_check(longest, &err), -1);
}

/* ---- the environment ---- */

TEST(variables_are_given_passed_on_or_left_out)
{
    json_t *o = json_object();
    struct err err = {0};

    (void)setenv("CAY_TEST_ONE", "1 = one", 1);
    (void)unsetenv("CAY_TEST_TWO");
    CHECK_INT(env_add(o, "A=b=c", "--env", &err), 0);
    CHECK_INT(env_add(o, "E=", "--env", &err), 0);
    CHECK_INT(env_add(o, "CAY_TEST_ONE", "--env", &err), 0);
    CHECK_INT(env_add(o, "CAY_TEST_TWO", "--env", &err), 0);
    CHECK_INT(env_add(o, "=x", "--env", &err), -1);
    CHECK_INT(env_add(o, "", "--env", &err), -1);
    CHECK_INT(env_add(o, "X=\xff", "--env", &err), -1);
    CHECK_STR(json_text(o, "A"), "b=c");
    CHECK_STR(json_text(o, "CAY_TEST_ONE"), "1 = one");
    CHECK_INT(json_object_size(o), 3);
    json_decref(o);
}

TEST(a_file_of_variables_is_read_as_docker_does)
{
    static const char text[] = "# comment\n\nA=1\r\n  B='quoted'\nCAY_TEST_ONE\nCAY_TEST_TWO\n";
    char path[] = "/tmp/cay-test-XXXXXX";
    int fd = mkstemp(path);
    int used;
    const struct command *exec = command_find(1, (char *[]){"exec"}, &used);
    char *argv[] = {"--env-file", path, "-e", "A=2", "web", "true"};
    struct args a;
    struct err err = {0};
    json_t *env = NULL;

    CHECK(fd >= 0 && write_all(fd, text, sizeof(text) - 1) == 0);
    (void)setenv("CAY_TEST_ONE", "own", 1);
    (void)unsetenv("CAY_TEST_TWO");
    CHECK_INT(args_parse(&a, exec, ARRAY_LEN(argv), argv, &err), 0);
    CHECK_INT(env_read_args(&a, &env, &err), 0);
    CHECK_INT(json_object_size(env), 3);
    CHECK_STR(json_text(env, "A"), "2");
    CHECK_STR(json_text(env, "B"), "'quoted'");
    CHECK_STR(json_text(env, "CAY_TEST_ONE"), "own");
    json_decref(env);
    (void)close(fd);
    CHECK_INT(unlink(path), 0);
    CHECK_INT(env_read_args(&a, &env, &err), -1);
    CHECK(strstr(err.text, path));
    args_done(&a);
}

/* ---- columns ---- */

static char *printed(const struct table *t)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    table_print(t, out, 0);
    (void)fclose(out);
    return text;
}

TEST(columns_are_aligned_by_characters)
{
    struct table t;
    char *text;

    table_init(&t, "ID|>SIZE|NAME");
    table_cell(&t, "a");
    table_cell(&t, "12");
    table_cell(&t, "x");
    table_cell(&t, "\xc3\xa4\xc3\xb6\xc3\xbc");
    table_cellf(&t, "%d", 12345);
    table_cell(&t, "y");
    text = printed(&t);
    CHECK_STR(text, "ID    SIZE  NAME\n"
                    "a       12  x\n"
                    "\xc3\xa4\xc3\xb6\xc3\xbc  12345  y\n");
    free(text);
    table_done(&t);
}

TEST(rows_are_cut_to_a_narrow_terminal)
{
    struct table t;

    table_init(&t, "ID|NAME|>AGE");
    table_cell(&t, "sbx_0123456789abcdef01234567");
    table_cell(&t, "a-name-that-is-\xc3\xa4\xc3\xb6\xc3\xbc-long");
    table_cell(&t, "59m");
    for (size_t cols = 1; cols < 80; cols++) {
        char *text = NULL, *save = NULL;
        size_t len;
        FILE *out = open_memstream(&text, &len);

        table_print_within(&t, out, 0, cols);
        (void)fclose(out);
        if (cols == 40)
            CHECK(strstr(text, "sbx_0123456789abcdef012345…  a-nam…  59m\n"));
        if (cols == 79)
            CHECK(!strstr(text, "…"));
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            size_t n = 0;

            for (const char *p = line; *p; p++)
                n += ((unsigned char)*p & 0xc0) != 0x80;
            if (n > cols)
                TAP_FAIL("%zu characters for %zu: %s", n, cols, line);
        }
        free(text);
    }
    table_done(&t);
}

TEST(a_hostile_name_cannot_leave_its_cell)
{
    struct table t;
    char *text;

    table_init(&t, "NAME|X");
    table_cell(&t, "a\nb\033]52;c;eA==\a\t");
    table_cell(&t, "1");
    text = printed(&t);
    CHECK(strstr(text, "a\\x0ab\\x1b]52;c;eA==\\x07\\x09  1\n"));
    free(text);
    table_done(&t);
}

/* ---- what a pull shows ---- */

#define SECOND 1000000000LL
#define MIB    (1LL << 20)

static void tell(struct pull_view *v, const char *text)
{
    json_t *event = json_loads(text, 0, NULL);

    CHECK(event);
    pull_view_event(v, event);
    json_decref(event);
}

static void tell_layer(struct pull_view *v, int index, const char *state, long long downloaded,
                       long long total)
{
    auto_free char *text =
        xasprintf("{\"event\": \"layer\", \"index\": %d, \"digest\": \"sha256:%012dffff\", "
                  "\"state\": \"%s\", \"downloaded\": %lld, \"total\": %lld, \"unpacked\": 0}",
                  index, index, state, downloaded, total);

    tell(v, text);
}

static char *rendered(const struct pull_view *v, size_t rows, size_t cols)
{
    struct buf out;

    buf_init(&out, 1u << 20);
    pull_view_render(v, rows, cols, &out);
    return buf_steal(&out);
}

/* Lines, each narrower than cols. */
static size_t lines_fit(const char *text, size_t cols)
{
    size_t n = 0;

    while (*text) {
        size_t len = strcspn(text, "\n");

        CHECK(text[len] == '\n');
        if (len >= cols)
            TAP_FAIL("a line of %zu columns for %zu: %.*s", len, cols, (int)len, text);
        text += len + 1;
        n++;
    }
    return n;
}

TEST(a_pull_shows_each_layer_and_the_whole)
{
    struct pull_view v;
    auto_free char *text = NULL;

    pull_view_init(&v, "python:3.12-slim");
    tell(&v, "{\"event\": \"resolved\", \"layers\": 4, \"bytes\": 41943040}");
    tell_layer(&v, 0, "present", 0, 5 * MIB);
    tell_layer(&v, 1, "downloading", 0, 20 * MIB);
    tell_layer(&v, 2, "done", 10 * MIB, 10 * MIB);
    pull_view_tick(&v, 0);
    tell_layer(&v, 1, "downloading", 5 * MIB, 20 * MIB);
    pull_view_tick(&v, 1 * SECOND);
    text = rendered(&v, 24, 100);
    CHECK_STR(
        text,
        "000000000000  already here\n"
        "000000000001  downloading  [=======>                         ]       5.0 MiB/20.0 MiB"
        "     5.0 MiB/s\n"
        "000000000002  done         10.0 MiB\n"
        "              waiting\n"
        "python:3.12-slim  37%  15.0 MiB of 40.0 MiB  5.0 MiB/s  5s left  2 of 4 layers\n");
    pull_view_done(&v);
}

TEST(a_rate_is_that_of_the_last_seconds_and_falls_when_nothing_comes)
{
    struct rate r = {0};

    CHECK(rate_per_second(&r) == 0);
    rate_add(&r, 0, 0);
    CHECK(rate_per_second(&r) == 0);
    rate_add(&r, SECOND / 10, 999 * MIB); /* too soon after the last one to measure */
    CHECK_INT(r.n, 1);
    for (int i = 1; i <= 20; i++)
        rate_add(&r, i * SECOND, i * MIB);
    CHECK_INT((int64_t)rate_per_second(&r), MIB);
    for (int i = 21; i <= 40; i++)
        rate_add(&r, i * SECOND, 20 * MIB);
    CHECK(rate_per_second(&r) == 0);
}

TEST(lines_fit_any_terminal)
{
    struct pull_view v;

    pull_view_init(&v, "registry.example.org/some/very/long/path/to/an/image:with-a-long-tag");
    tell(&v, "{\"event\": \"resolved\", \"layers\": 3, \"bytes\": 99999999999}");
    tell_layer(&v, 0, "downloading", 123456789012, 999999999999);
    tell_layer(&v, 1, "unpacking", 1023 * MIB + 1023 * 1024, 1024 * MIB - 1);
    tell_layer(&v, 2, "downloading", 5, 0);
    pull_view_tick(&v, 0);
    pull_view_tick(&v, SECOND);
    for (size_t cols = 2; cols < 300; cols++) {
        auto_free char *text = rendered(&v, 10, cols);

        CHECK_INT(lines_fit(text, cols), 4);
    }
    pull_view_done(&v);
}

TEST(layers_that_do_not_fit_are_counted)
{
    struct pull_view v;

    pull_view_init(&v, "big");
    tell(&v, "{\"event\": \"resolved\", \"layers\": 127, \"bytes\": 1270}");
    for (int i = 0; i < 127; i++)
        tell_layer(&v, i,
                   i < 60   ? "done"
                   : i < 64 ? "downloading"
                            : "waiting",
                   i < 60 ? 10 : 1, 10);
    for (size_t rows = 1; rows < 140; rows++) {
        auto_free char *text = rendered(&v, rows, 80);

        CHECK(lines_fit(text, 80) <= rows);
        CHECK(strstr(text, "60 of 127 layers"));
        if (rows == 10) {
            CHECK(strstr(text, "000000000063  downloading"));
            CHECK(strstr(text, "\n123 more: 0 at work, 63 waiting, 60 done, 0 already here\n"));
            CHECK_INT(lines_fit(text, 80), 6);
        }
        if (rows == 4)
            CHECK(strstr(text, "\n125 more: 2 at work, 63 waiting, 60 done, 0 already here\n"));
        if (rows == 128)
            CHECK_INT(lines_fit(text, 80), 128);
    }
    pull_view_done(&v);
}

TEST(events_that_make_no_sense_are_passed_over)
{
    static const char *const rows[] = {
        "{}",
        "[]",
        "{\"event\": 5}",
        "{\"event\": \"later\"}",
        "{\"event\": \"layer\", \"index\": -1}",
        "{\"event\": \"layer\", \"index\": 100000000}",
        "{\"event\": \"resolved\", \"layers\": 100000000000, \"bytes\": -5}",
        "{\"event\": \"resolved\", \"layers\": -1}",
        "{\"event\": \"layer\", \"index\": 3, \"digest\": \"sha256:\\u001b[2J\", \"state\": "
        "\"odd\","
        " \"downloaded\": -7, \"total\": \"x\"}",
        "{\"event\": \"layer\", \"index\": 2, \"state\": \"downloading\", \"downloaded\": 50, "
        "\"total\": 7}",
    };
    struct pull_view v;
    auto_free char *text = NULL;

    pull_view_init(&v, "a\033[31mb");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        tell(&v, rows[i]);
    CHECK_INT(v.n_layers, PULL_LAYERS_MAX);
    text = rendered(&v, 300, 80);
    CHECK(!strchr(text, '\033'));
    CHECK(strstr(text, "a\\x1b[31mb  0 of 256 layers\n"));
    pull_view_done(&v);
}

TEST(a_pull_says_what_it_does_before_and_after_the_layers)
{
    struct pull_view v;
    char *text;

    pull_view_init(&v, "alpine");
    text = rendered(&v, 10, 80);
    CHECK_STR(text, "alpine  resolving\n");
    free(text);
    tell(&v, "{\"event\": \"resolved\", \"layers\": 1, \"bytes\": 100}");
    tell_layer(&v, 0, "done", 100, 100);
    tell(&v, "{\"event\": \"storing\"}");
    text = rendered(&v, 10, 80);
    CHECK(strstr(text, "alpine  writing to disk\n"));
    free(text);
    pull_view_done(&v);
}

TEST(a_command_is_words_in_brackets_or_a_line_for_the_shell)
{
    static const struct {
        const char *text, *json;
    } rows[] = {
        {"python3 -m app", "[\"/bin/sh\", \"-c\", \"python3 -m app\"]"},
        {"[\"a\", \"b c\"]", "[\"a\", \"b c\"]"},
        {"[]", "[]"},
        {"[\"a\", 1]", NULL},
        {"[a]", NULL},
        {"[\"a\"", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        json_t *words;
        int r = command_words(rows[i].text, "--cmd", &words, &err);

        CHECK_INT(r, rows[i].json ? 0 : -1);
        if (r == 0) {
            auto_free char *text = json_dumps(words, 0);

            CHECK_STR(text, rows[i].json);
            json_decref(words);
        } else {
            CHECK(strstr(err.text, "--cmd needs"));
        }
    }
}

/* ---- control bytes ---- */

TEST(control_bytes_are_made_visible)
{
    static const struct {
        enum escape_mode mode;
        const char *in, *out;
    } rows[] = {
        {ESCAPE_CELL, "plain text", "plain text"},
        {ESCAPE_CELL, "a\tb\n", "a\\x09b\\x0a"},
        {ESCAPE_LINES, "a\tb\n", "a\tb\n"},
        {ESCAPE_LINES, "over\rwrite", "over\\x0dwrite"},
        {ESCAPE_OUTPUT, "over\rwrite\b", "over\rwrite\b"},
        {ESCAPE_LINES, "\033[31mred", "\\x1b[31mred"},
        {ESCAPE_OUTPUT, "\033[1;31mred\033[0m\033[K", "\033[1;31mred\033[0m\033[K"},
        {ESCAPE_OUTPUT, "\033[2J", "\\x1b[2J"},
        {ESCAPE_OUTPUT, "\033]0;title\a", "\\x1b]0;title\\x07"},
        {ESCAPE_OUTPUT, "\033[>4;2m", "\\x1b[>4;2m"},
        {ESCAPE_OUTPUT, "\033\033[31m", "\\x1b\033[31m"},
        {ESCAPE_OUTPUT, "\033P$q\"p\033\\", "\\x1bP$q\"p\\x1b\\"},
        {ESCAPE_OUTPUT, "\033[31", "\\x1b[31"},
        {ESCAPE_CELL, "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {ESCAPE_CELL, "\xe2\x82\xac \xf0\x9f\x8f\x9d", "\xe2\x82\xac \xf0\x9f\x8f\x9d"},
        {ESCAPE_CELL,
         "\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m"},
        {ESCAPE_CELL,
         "\x9b"
         "31m",
         "\\x9b31m"},
        {ESCAPE_CELL, "\xc3(", "\\xc3("},
        {ESCAPE_CELL, "\xe2\x82", "\\xe2\\x82"},
        {ESCAPE_CELL, "\xe0\x82\x9b", "\\xe0\\x82\\x9b"},
        {ESCAPE_CELL, "\xe0\xa0\x80", "\xe0\xa0\x80"},
        {ESCAPE_CELL, "\xed\xa0\x80", "\\xed\\xa0\\x80"},
        {ESCAPE_CELL, "\xed\x9f\xbf", "\xed\x9f\xbf"},
        {ESCAPE_CELL, "\xf0\x80\x82\x9b", "\\xf0\\x80\\x82\\x9b"},
        {ESCAPE_CELL, "\xf0\x90\x80\x80", "\xf0\x90\x80\x80"},
        {ESCAPE_CELL, "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
        {ESCAPE_CELL, "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {ESCAPE_CELL, "\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"},
        {ESCAPE_CELL, "\xe0\xc3\xbc", "\\xe0\xc3\xbc"},
        {ESCAPE_CELL, "\x7f", "\\x7f"},
        /* U+202E, U+2028, U+2069, U+061C, U+200F; and their neighbours. */
        {ESCAPE_CELL,
         "a\xe2\x80\xae"
         "b",
         "a\\xe2\\x80\\xae"
         "b"},
        {ESCAPE_LINES, "a\xe2\x80\xa8\n", "a\\xe2\\x80\\xa8\n"},
        {ESCAPE_LINES, "\xe2\x81\xa9\xd8\x9c", "\\xe2\\x81\\xa9\\xd8\\x9c"},
        {ESCAPE_CELL, "\xe2\x80\x8f\xe2\x80\x90", "\\xe2\\x80\\x8f\xe2\x80\x90"},
        {ESCAPE_CELL, "\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xa5",
         "\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xa5"},
        {ESCAPE_OUTPUT, "\xe2\x80\xae\xe2\x80\xa8", "\xe2\x80\xae\xe2\x80\xa8"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *text = escape_text(rows[i].mode, rows[i].in);

        CHECK_STR(text, rows[i].out);
        free(text);
    }
}

TEST(a_sequence_cut_in_pieces_is_judged_whole)
{
    static const char in[] = "\xc3\xa4\033[31m\033]0;x\a\xc2\x85";
    struct escape state = {0};
    struct buf out;

    buf_init(&out, 1000);
    for (size_t i = 0; i < sizeof(in) - 1; i++)
        escape_add(&state, ESCAPE_OUTPUT, in + i, 1, &out);
    escape_end(&state, &out);
    CHECK_STR(out.data, "\xc3\xa4\033[31m\\x1b]0;x\\x07\\xc2\\x85");
    buf_done(&out);
}

TEST(an_endless_sequence_is_not_held_for_ever)
{
    struct escape state = {0};
    struct buf out;

    buf_init(&out, 10000);
    escape_add(&state, ESCAPE_OUTPUT, "\033[", 2, &out);
    for (int i = 0; i < 1000; i++)
        escape_add(&state, ESCAPE_OUTPUT, "1", 1, &out);
    CHECK(out.len > 900);
    buf_done(&out);
}

TEST(escaped_text_is_cut_between_sequences_and_characters)
{
    static const char text[] = "a\033[1;31m\xc3\xa4\xf0\x9f\x8f\x9d\033[Kb";
    static const size_t ends[] = {0, 1, 8, 10, 14, 17, 18};

    for (size_t max = 0, i = 0; max <= sizeof(text); max++) {
        while (i + 1 < ARRAY_LEN(ends) && ends[i + 1] <= max)
            i++;
        CHECK_INT((int)escape_cut(text, sizeof(text) - 1, max), (int)ends[i]);
    }
}

/* ---- addresses ---- */

TEST(query_values_are_percent_encoded)
{
    char *text = url_encoded("/a b+c&d=\xc3\xa4%2e?#~-._Z9\n");

    CHECK_STR(text, "%2Fa%20b%2Bc%26d%3D%C3%A4%252e%3F%23~-._Z9%0A");
    free(text);
}

TEST(the_daemon_is_found_where_the_settings_say)
{
    static const struct {
        const char *host, *target;
    } rows[] = {
        {"unix:/run/x.sock", "unix:/run/x.sock"},
        {"/run/x.sock", "unix:/run/x.sock"},
        {"http://localhost:3111/", "http://localhost:3111"},
        {"box:4000", "http://box:4000"},
        {"box", "http://box:3111"},
        {"http://box", "http://box:80"},
    };
    char *target;
    bool chosen;
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_INT(api_address(rows[i].host, &target, &chosen, &err), 0);
        CHECK_STR(target, rows[i].target);
        CHECK(chosen);
        free(target);
    }
    CHECK_INT(api_address("https://box", &target, &chosen, &err), -1);
    CHECK_INT(api_address("http://a@box/x", &target, &chosen, &err), -1);
    (void)unsetenv("CAY_HOST");
    (void)unsetenv("III_SANDBOX_URL");
    (void)setenv("CAY_RUN", "/nonexistent", 1);
    (void)setenv("CAY_REST_PORT", "4111", 1);
    CHECK_INT(api_address(NULL, &target, &chosen, &err), 0);
    CHECK_STR(target, "http://127.0.0.1:4111");
    CHECK(!chosen);
    free(target);
    (void)setenv("III_SANDBOX_URL", "http://other:1", 1);
    CHECK_INT(api_address(NULL, &target, &chosen, &err), 0);
    CHECK_STR(target, "http://other:1");
    free(target);
    (void)unsetenv("III_SANDBOX_URL");
    (void)setenv("CAY_REST_PORT", "70000", 1);
    CHECK_INT(api_address(NULL, &target, &chosen, &err), -1);
}

TEST(without_a_daemon_the_error_says_how_to_start_one)
{
    struct api api = {0};
    struct err err = {0};

    api_open_target(&api, "unix:/nonexistent/cay.sock");
    CHECK_INT(api_call(&api, "GET", NULL, NULL, &err, "/health"), -1);
    CHECK_STR(err.text, "no daemon is running at unix:/nonexistent/cay.sock: start one with `cay "
                        "serve`");
    CHECK(api_no_daemon());
    api_close(&api);
}

/* ---- cp ---- */

TEST(places_of_cp_are_told_apart)
{
    static const struct {
        const char *text, *sandbox, *path;
    } rows[] = {
        {"sbx_0123456789abcdef01234567:/tmp/x", "sbx_0123456789abcdef01234567", "/tmp/x"},
        {"web:out.txt", "web", "out.txt"},
        {"web:", "web", "."},
        {"web:a:b", "web", "a:b"},
        {"./web:x", NULL, "./web:x"},
        {"dir/web:x", NULL, "dir/web:x"},
        {"/web:x", NULL, "/web:x"},
        {"../a:b", NULL, "../a:b"},
        {":x", NULL, ":x"},
        {"-", NULL, "-"},
        {"file", NULL, "file"},
        {"C:", "C", "."},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct location p = {0};

        location_parse(&p, rows[i].text);
        CHECK_STR(p.sandbox ? p.sandbox : "(here)", rows[i].sandbox ? rows[i].sandbox : "(here)");
        CHECK_STR(p.path, rows[i].path);
        location_done(&p);
    }
}

TEST(permission_letters_become_bits_without_set_id)
{
    struct remote_info info;

    remote_mode("-rwsr-xr-t", &info);
    CHECK_INT(info.type, '-');
    CHECK_INT(info.mode, 0755);
    remote_mode("prw-------", &info);
    CHECK_INT(info.type, 'p');
    CHECK_INT(info.mode, 0600);
    remote_mode("", &info);
    CHECK_INT(info.type, '?');
    remote_mode("d", &info);
    CHECK_INT(info.mode, 0);
}

TEST(paths_split_into_folder_and_name)
{
    static const struct {
        const char *path, *dir, *name;
    } rows[] = {{"a", ".", "a"}, {"/a", "/", "a"},  {"/a/b/", "/a", "b"}, {"a//b", "a", "b"},
                {"/", "/", ""},  {"..", ".", ".."}, {"x/y/z", "x/y", "z"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *dir, *name;

        host_split(rows[i].path, &dir, &name);
        CHECK_STR(dir, rows[i].dir);
        CHECK_STR(name, rows[i].name);
        free(dir);
        free(name);
    }
}

TEST(names_from_a_sandbox_must_be_plain)
{
    CHECK(host_name_ok("a") && host_name_ok("...") && host_name_ok("-rf"));
    CHECK(!host_name_ok("") && !host_name_ok(".") && !host_name_ok("..") && !host_name_ok("a/b"));
}

/* Runs with a fresh working directory that is removed at the end. */
static void in_folder(void (*run)(void))
{
    char folder[] = "/tmp/cay-test-XXXXXX";
    int out;

    CHECK(mkdtemp(folder));
    CHECK_INT(chdir(folder), 0);
    CHECK_INT(mkdir("real", 0755), 0);
    CHECK_INT(symlink("real", "link"), 0);
    CHECK_INT(symlink("/etc/passwd", "evil"), 0);
    CHECK_INT(mkfifo("pipe", 0600), 0);
    run();
    out = unlink("evil") | unlink("link") | unlink("pipe");
    (void)unlink("real/file");
    CHECK_INT(out | rmdir("real") | chdir("/") | rmdir(folder), 0);
}

static void write_through_links(void)
{
    struct err err = {0};
    struct host_file f;
    int fd = -1;

    CHECK_INT(host_open_dir("link", false, &fd, &err), -1);
    CHECK(strstr(err.text, "symbolic link"));
    CHECK_INT(host_open_dir("link/deeper", true, &fd, &err), -1);
    CHECK_INT(host_open_dir(".", false, &fd, &err), 0);
    CHECK_INT(host_file_begin(&f, fd, "evil", &err), -1);
    CHECK(strstr(err.text, "symbolic link"));
    host_file_done(&f);
    CHECK_INT(host_file_begin(&f, fd, "pipe", &err), -1);
    host_file_done(&f);
    CHECK_INT(host_file_begin(&f, fd, "real", &err), -1);
    host_file_done(&f);
    CHECK_INT(host_make_dir(fd, "link", &(int){-1}, &err), -1);
    (void)close(fd);
}

TEST(writing_never_follows_a_symbolic_link)
{
    in_folder(write_through_links);
}

static void write_in_two_steps(void)
{
    struct err err = {0};
    struct host_file f;
    struct stat st;
    int fd = -1;

    CHECK_INT(host_open_dir("./real", false, &fd, &err), 0);
    CHECK_INT(host_file_begin(&f, fd, "file", &err), 0);
    CHECK_INT(write_all(f.fd, "half", 4), 0);
    host_file_done(&f); /* given up */
    CHECK_INT(stat("real/file", &st), -1);
    CHECK_INT(rmdir("real"), 0); /* nothing is left of it */
    CHECK_INT(mkdir("real", 0755), 0);
    (void)close(fd);
    (void)umask(022);
    CHECK_INT(host_open_dir("real", false, &fd, &err), 0);
    CHECK_INT(host_file_begin(&f, fd, "file", &err), 0);
    CHECK_INT(write_all(f.fd, "whole", 5), 0);
    CHECK_INT(host_file_commit(&f, 06777, 1000000, &err), 0);
    host_file_done(&f);
    CHECK_INT(stat("real/file", &st), 0);
    CHECK_INT(st.st_size, 5);
    CHECK_INT(st.st_mode & 07777, 0755);
    CHECK_INT(st.st_mtime, 1000000);
    (void)close(fd);
}

TEST(a_file_appears_whole_or_not_at_all)
{
    in_folder(write_in_two_steps);
}

/* ---- archives ---- */

static int archive_fd(const struct buf *b)
{
    int fd = memfd_create("archive", MFD_CLOEXEC);

    CHECK(fd >= 0 && write_all(fd, b->data, b->len) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

TEST(what_was_packed_is_read_back)
{
    static char long_name[300], long_link[3000];
    struct tar_entry in[] = {
        {"dir", NULL, TAR_DIR, 0750, 0, 1000000000},
        {"dir/file \xff\n", NULL, TAR_FILE, 0644, 700, 1},
        {"dir/link", "../elsewhere", TAR_LINK, 0777, 0, 2},
        {long_name, NULL, TAR_FILE, 0600, 0, 0},
        {"far", long_link, TAR_LINK, 0777, 0, (int64_t)1 << 40},
        {"dir/again", "dir/file", TAR_HARD_LINK, 0644, 0, 3},
        {"before 1970", NULL, TAR_FILE, 0644, 0, -1},
        {"long before", NULL, TAR_DIR, 0755, 0, INT64_MIN / 2},
    };
    struct tar_reader r = {0};
    struct err err = {0};
    struct tar_entry e;
    struct buf b;
    char data[2048] = {0};

    memset(long_name, 'n', sizeof(long_name) - 1);
    memset(long_link, 'l', sizeof(long_link) - 1);
    buf_init(&b, 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(in); i++) {
        tar_put(&b, &in[i]);
        CHECK_INT(buf_add(&b, data, (size_t)in[i].size + tar_padding(in[i].size)), 0);
    }
    CHECK_INT(buf_add(&b, data, TAR_END_SIZE), 0);
    r.fd = archive_fd(&b);
    for (size_t i = 0; i < ARRAY_LEN(in); i++) {
        CHECK_INT(tar_next(&r, &e, &err), 1);
        CHECK_STR(e.name, in[i].name);
        CHECK_STR(e.link ? e.link : "-", in[i].link ? in[i].link : "-");
        CHECK_INT(e.type, in[i].type);
        CHECK_INT(e.mode, in[i].mode);
        CHECK_INT(e.size, in[i].size);
        CHECK_INT(e.mtime, in[i].mtime);
        if (i == 1)
            CHECK_INT(tar_read(&r, data, sizeof(data), &err), 700);
        tar_entry_done(&e);
    }
    CHECK_INT(tar_next(&r, &e, &err), 0);
    (void)close(r.fd);
    buf_done(&b);
}

/* Every cut and every changed byte of an archive is an end or an error, never more. */
TEST(a_broken_archive_is_refused)
{
    struct tar_entry in = {"name", NULL, TAR_FILE, 0644, 5, 1};
    char data[512] = "hello";
    struct buf whole;

    buf_init(&whole, 4096);
    tar_put(&whole, &in);
    (void)buf_add(&whole, data, sizeof(data));
    for (size_t i = 0; i < whole.len; i += 7) {
        struct tar_reader r = {0};
        struct buf part;
        struct tar_entry e;
        struct err err = {0};
        int got;

        buf_init(&part, 4096);
        (void)buf_add(&part, whole.data, i);
        r.fd = archive_fd(&part);
        got = tar_next(&r, &e, &err);
        CHECK_INT(got, i == 0 ? 0 : i < 512 ? -1 : 1);
        tar_entry_done(&e);
        if (got > 0)
            CHECK_INT(tar_next(&r, &e, &err), -1);
        (void)close(r.fd);
        buf_clear(&part);
        (void)buf_add(&part, whole.data, whole.len);
        part.data[i] ^= 0x40;
        r = (struct tar_reader){.fd = archive_fd(&part)};
        got = tar_next(&r, &e, &err);
        CHECK(i >= 512 ? got == 1 : got <= 0);
        tar_entry_done(&e);
        (void)close(r.fd);
        buf_done(&part);
    }
    buf_done(&whole);
}

static void make_links(void)
{
    struct err err = {0};
    struct stat st;
    char text[64] = "";
    int fd = -1;

    CHECK_INT(host_open_dir(".", false, &fd, &err), 0);
    CHECK_INT(host_make_link(fd, "evil", "new target", 1000000, &err),
              0); /* replaced, not followed */
    CHECK_INT(readlinkat(fd, "evil", text, sizeof(text) - 1), 10);
    CHECK_INT(fstatat(fd, "evil", &st, AT_SYMLINK_NOFOLLOW), 0);
    CHECK_INT(st.st_mtime, 1000000);
    CHECK_INT(host_make_link(fd, "real", "x", -1, &err), -1);
    CHECK_INT(host_make_link(fd, "pipe", "x", -1, &err), -1);
    CHECK_INT(host_make_name(fd, "evil", fd, "second", &err), -1);
    CHECK_INT(host_make_name(fd, "missing", fd, "second", &err), -1);
    (void)close(fd);
}

TEST(links_replace_links_and_nothing_else)
{
    in_folder(make_links);
}

/* ---- what is made from the table ---- */

static void compare(const char *file, void (*make)(struct buf *out))
{
    char *stored = source_file(file);
    struct buf text;

    buf_init(&text, HELP_MAX);
    make(&text);
    if (strcmp(stored, text.data) != 0)
        TAP_FAIL("%s is old: write it again with `cay completion` or `cay help --man`", file);
    buf_done(&text);
    free(stored);
}

TEST(the_bash_completion_in_the_package_is_that_of_the_table)
{
    compare("packaging/completion/cay.bash", completion_bash);
}

TEST(the_zsh_completion_in_the_package_is_that_of_the_table)
{
    compare("packaging/completion/_cay", completion_zsh);
}

TEST(the_manual_page_in_the_package_is_that_of_the_table)
{
    compare("packaging/man/cay.1", help_man);
}

TEST(the_reference_in_the_docs_is_that_of_the_table)
{
    char *stored = source_file("docs/cli.md");
    struct buf text;

    buf_init(&text, HELP_MAX);
    help_markdown(&text);
    CHECK(strlen(stored) > text.len);
    CHECK_STR(stored + strlen(stored) - text.len, text.data);
    buf_done(&text);
    free(stored);
}

TEST(the_fish_completion_in_the_package_is_that_of_the_table)
{
    compare("packaging/completion/cay.fish", completion_fish);
}

/* ---- completion ---- */

/* What is offered for a line, without a daemon; the caller frees it. */
static char *offered(int n, char **words)
{
    struct wanted wanted;
    struct buf out;

    buf_init(&out, HELP_MAX);
    completion_wanted(&wanted, n, words);
    completion_lines(&wanted, "unix:/nonexistent/cay.sock", &out);
    return buf_steal(&out);
}

static bool offers(const char *lines, const char *word)
{
    auto_free char *line = xasprintf("\n%s\t", word), *all = xasprintf("\n%s", lines);

    return strstr(all, line) != NULL;
}

#define OFFERED(...) offered(ARRAY_LEN(((char *[]){__VA_ARGS__})), (char *[]){__VA_ARGS__})

TEST(completion_offers_every_command_and_flag)
{
    auto_free char *first = OFFERED("");

    for (const struct command *c = commands; c->name; c++) {
        auto_free char *copy = xstrdup(c->name), *flags = NULL, *second = NULL;
        char *space = strchr(copy, ' ');

        if (space) {
            *space = '\0';
            second = OFFERED(copy, "");
            CHECK(offers(second, space + 1));
            flags = OFFERED(copy, space + 1, "-");
        } else {
            flags = OFFERED(copy, "-");
        }
        CHECK(offers(first, copy));
        for (const struct flag *f = c->flags; f && f->name; f++) {
            auto_free char *flag = xasprintf("--%s", f->name);

            CHECK(offers(flags, flag));
        }
        CHECK(offers(flags, "--help"));
    }
}

TEST(completion_knows_what_stands_where)
{
    static const struct {
        char *words[6];
        const char *kind;
    } rows[] = {
        {{"exec", ""}, "sandbox"},
        {{"exec", "-it", ""}, "sandbox"},
        {{"exec", "-u", "root", "w"}, "sandbox"},
        {{"exec", "-u", ""}, ""},
        {{"exec", "web", ""}, ""},
        {{"exec", "web", "ls", "-"}, ""},
        {{"exec", "web", "--", ""}, ""},
        {{"run", "--", ""}, ""},
        {{"run", "-d", "py"}, "image"},
        {{"run", "host", ""}, ""},
        {{"run", "--env-file", ""}, "file"},
        {{"run", "-e", "H"}, "variable"},
        {{"run", "--pull", ""}, "choice"},
        {{"run", "--pull=a"}, "choice"},
        {{"rm", "a", "b", ""}, "sandbox"},
        {{"cp", "x", "w"}, "place"},
        {{"cp", "x", "w", ""}, ""},
        {{"image", "tag", "a", ""}, "installed"},
        {{"pull", ""}, "image"},
        {{"rmi", ""}, "installed"},
        {{"job", "wait", ""}, "job"},
        {{"job", "l"}, "subcommand"},
        {{"logs", "web", ""}, "job"},
        {{"kill", "web", ""}, "process"},
        {{"kill", "-s", "K"}, "signal"},
        {{"file", "upload", "web", ""}, "file"},
        {{"file", "read", "web", ""}, ""},
        {{"volume", "rm", "a", ""}, "volume"},
        {{"volume", "attach", "a", ""}, "sandbox"},
        {{"volume", "attach", "a", "web", ""}, ""},
        {{"volume", "cp", ""}, "volume-place"},
        {{"run", "-v", ""}, "volume-place"},
        {{"snapshot", "clone", ""}, "snapshot"},
        {{"template", "build", ""}, "build"},
        {{"ls", "--st"}, "flag"},
        {{"nonsense", ""}, ""},
        {{"--host", "x", "l"}, "command"},
        {{"--host=x", "exec", ""}, "sandbox"},
        {{"--host", ""}, ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct wanted w;
        int n = 0;

        while (n < 6 && rows[i].words[n])
            n++;
        completion_wanted(&w, n, (char **)(uintptr_t)rows[i].words);
        if (strlen(rows[i].kind) != w.kind_len || memcmp(rows[i].kind, w.kind, w.kind_len) != 0)
            TAP_FAIL("row %zu: \"%.*s\" instead of \"%s\"", i, (int)w.kind_len, w.kind,
                     rows[i].kind);
    }
}

TEST(completion_offers_words_that_go_on_from_what_was_typed)
{
    auto_free char *states = OFFERED("ls", "--status", "p");
    auto_free char *equals = OFFERED("run", "--pull=n");
    auto_free char *place = OFFERED("cp", "x");
    auto_free char *none = OFFERED("exec", "web", "");

    CHECK_STR(states, "paused\t\n");
    CHECK_STR(equals, "--pull=never\t\n");
    CHECK_STR(place, ":nospace\n:file\n");
    CHECK_STR(none, "");
}

TEST(durations_and_sizes_read_well)
{
    char text[24];

    ui_duration(-5, text);
    CHECK_STR(text, "0s");
    ui_duration(59999, text);
    CHECK_STR(text, "59s");
    ui_duration(3599000, text);
    CHECK_STR(text, "59m");
    ui_duration(86400000LL * 3, text);
    CHECK_STR(text, "3d");
    ui_size(1023, text);
    CHECK_STR(text, "1023 B");
    ui_size(1536, text);
    CHECK_STR(text, "1.5 KiB");
}

TEST(a_command_line_is_an_array_of_text)
{
    char *good[] = {"sh", "-c", "ü"}, *bad[] = {"sh", "\xff"};
    struct args args = {.rest = good, .n_rest = 3};
    json_t *line = command_line_json(&args);

    CHECK_INT(json_array_size(line), 3);
    CHECK_STR(json_string_value(json_array_get(line, 2)), "ü");
    json_decref(line);
    args = (struct args){.rest = bad, .n_rest = 2};
    CHECK(!command_line_json(&args));
}

TAP_MAIN
