#include "functions/iii.h"
#include "test_face.h"

/* sandbox::fs::grep and sandbox::fs::sed, through the engine and the real agent. */

static void put(const char *name, const char *text)
{
    int fd = open(in_files(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    CHECK(fd >= 0);
    CHECK_INT(write_all(fd, text, strlen(text)), 0);
    (void)close(fd);
}

static const char *text_of(const char *name)
{
    static char text[4096];

    CHECK(read_file_at(-1, in_files(name), text, sizeof(text)) >= 0);
    return text;
}

/* Input with the path of the workspace in it, absolute as it comes over iii. */
static char *input(const char *rest)
{
    return rig_keep(xasprintf("{\"path\": \"%s\", %s}", rig.files, rest));
}

static const json_t *item(const json_t *answer, const char *list, size_t i)
{
    return json_array_get(json_object_get(answer, list), i);
}

static size_t count(const json_t *answer, const char *list)
{
    return json_array_size(json_object_get(answer, list));
}

TEST(lines_are_found_with_what_is_preset)
{
    json_t *answer;

    up("{\"image\": \"host\"}");
    put("a.txt", "first\nneedle \xe2\x82\xac\n");
    answer = ask("sandbox::fs::grep", input("\"pattern\": \"n(e+)dle\""));
    CHECK_INT(count(answer, "matches"), 1);
    CHECK_STR(str(item(answer, "matches", 0), "path"), in_files("a.txt"));
    CHECK_INT(num(item(answer, "matches", 0), "line"), 2);
    CHECK_STR(str(item(answer, "matches", 0), "content"), "needle \xe2\x82\xac");
    CHECK(json_is_false(json_object_get(answer, "truncated")));
    json_decref(answer);
    down();
}

TEST(fields_reach_the_agent)
{
    json_t *answer;

    up("{\"image\": \"host\"}");
    put("a.txt", "NEEDLE in hay\nneedle\n");
    put("b.txt", "needle\n");
    put("c.md", "needle\n");
    answer = ask("sandbox::fs::grep",
                 input("\"pattern\": \"needle\", \"ignore_case\": true, \"max_line_bytes\": 6, "
                       "\"include_glob\": [\"*.txt\"], \"exclude_glob\": [\"b*\"]"));
    CHECK_INT(count(answer, "matches"), 2);
    CHECK_STR(str(item(answer, "matches", 0), "content"), "NEEDLE\xe2\x80\xa6");
    CHECK_STR(str(item(answer, "matches", 1), "content"), "needle");
    json_decref(answer);
    answer = ask("sandbox::fs::grep", input("\"pattern\": \"needle\", \"max_matches\": 2"));
    CHECK_INT(count(answer, "matches"), 2);
    CHECK(json_is_true(json_object_get(answer, "truncated")));
    json_decref(answer);
    down();
}

/* So many of these lines are more than an answer has: about as much as that comes. */
static void check_maximum(const char *line, int lines, int least, int most)
{
    json_t *answer;
    FILE *f = fopen(in_files("big"), "we");

    CHECK(f);
    for (int i = 0; i < lines; i++)
        CHECK(fprintf(f, "%s\n", line) > 0);
    CHECK_INT(fclose(f), 0);
    answer = ask("sandbox::fs::grep", input("\"pattern\": \"x\", \"max_line_bytes\": 1000000, "
                                            "\"max_matches\": 50000"));
    if ((int)count(answer, "matches") < least || (int)count(answer, "matches") > most)
        TAP_FAIL("%d matches", (int)count(answer, "matches"));
    CHECK(json_is_true(json_object_get(answer, "truncated")));
    CHECK(json_dumpb(answer, NULL, 0, JSON_COMPACT) < 1u << 20);
    json_decref(answer);
}

/* That of a message that every client takes. */
TEST(an_answer_has_a_maximum)
{
    static char line[64 << 10];

    up("{\"image\": \"host\"}");
    memset(line, 'x', sizeof(line) - 1);
    check_maximum(line, 300, 13, 15);
    memset(line, '\x01', sizeof(line) - 2); /* six bytes each, as JSON */
    check_maximum(line, 300, 2, 3);
    check_maximum("x", 50000, 5000, 40000); /* of which most is around the lines */
    down();
}

TEST(names_and_lines_that_are_hard_to_say_are_told)
{
    static const char late[] = "\nneedle\0\n";
    static char text[10000 + sizeof(late)];
    json_t *answer;
    int fd;

    up("{\"image\": \"host\"}");
    memset(text, 'x', sizeof(text));
    memcpy(text + 10000, late, sizeof(late));
    fd = open(in_files("\xff"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_INT(write_all(fd, text, sizeof(text)), 0);
    (void)close(fd);
    answer = ask("sandbox::fs::grep", input("\"pattern\": \"needle\""));
    CHECK_INT(count(answer, "matches"), 1);
    CHECK_INT(json_string_length(json_object_get(item(answer, "matches", 0), "content")), 7);
    CHECK(str_ends(str(item(answer, "matches", 0), "path"), "/\xef\xbf\xbd"));
    json_decref(answer);
    down();
}

TEST(matches_are_replaced_in_a_tree_and_in_files_that_are_named)
{
    auto_free char *in = NULL;
    json_t *answer;

    up("{\"image\": \"host\"}");
    put("a.txt", "one two\n");
    put("b.md", "one\n");
    answer = ask("sandbox::fs::sed", input("\"pattern\": \"(\\\\w+)\", \"replacement\": \"<$1>\", "
                                           "\"include_glob\": [\"*.txt\"]"));
    CHECK_INT(num(answer, "total_replacements"), 2);
    CHECK_INT(count(answer, "results"), 1);
    CHECK_STR(str(item(answer, "results", 0), "path"), in_files("a.txt"));
    CHECK(json_is_true(json_object_get(item(answer, "results", 0), "success")));
    CHECK_STR(text_of("a.txt"), "<one> <two>\n");
    json_decref(answer);
    in = xasprintf("{\"files\": [\"%s/none\", \"%s/b.md\"], \"pattern\": \"o.e\", \"regex\": "
                   "false, \"replacement\": \"$\", \"ignore_case\": true, \"first_only\": true}",
                   rig.files, rig.files);
    put("b.md", "O.E o.e one\n");
    answer = ask("sandbox::fs::sed", in);
    CHECK_INT(num(answer, "total_replacements"), 1);
    CHECK_INT(count(answer, "results"), 2);
    CHECK(json_is_false(json_object_get(item(answer, "results", 0), "success")));
    CHECK(strstr(str(item(answer, "results", 0), "error"), "there is no such file"));
    CHECK_STR(text_of("b.md"), "$ o.e one\n");
    json_decref(answer);
    down();
}

TEST(a_path_that_is_not_absolute_begins_at_the_root)
{
    auto_free char *in = NULL, *files = NULL;
    json_t *answer;

    up("{\"image\": \"host\"}");
    put("a.txt", "one\n");
    in = xasprintf("{\"path\": \"%s\", \"pattern\": \"one\"}", rig.files + 1);
    answer = ask("sandbox::fs::grep", in);
    CHECK_STR(str(item(answer, "matches", 0), "path"), in_files("a.txt"));
    json_decref(answer);
    files = xasprintf("{\"files\": [\"%s\"], \"pattern\": \"one\", \"replacement\": \"two\"}",
                      in_files("a.txt") + 1);
    json_decref(ask("sandbox::fs::sed", files));
    CHECK_STR(text_of("a.txt"), "two\n");
    down();
}

static void fails(const char *id, const char *in, const char *code)
{
    struct face f;

    face_text(&f, id, in);
    face_fails(&f, code);
    CHECK(strstr(f.function->errors, code) || error_code_find(code, strlen(code))->general);
    CHECK(f.err.text[0] && !f.call.out);
    face_done(&f);
}

TEST(failures_have_their_words)
{
    up("{\"image\": \"host\"}");
    fails("sandbox::fs::grep", input("\"pattern\": \"(\""), "bad_regex");
    fails("sandbox::fs::grep", input("\"pattern\": \"a{1000}{1000}\""), "bad_regex");
    fails("sandbox::fs::grep", input("\"pattern\": \"a\", \"recursive\": false"), "bad_fs_request");
    fails("sandbox::fs::grep", "{\"path\": \"/no/where\", \"pattern\": \"a\"}", "file_not_found");
    fails("sandbox::fs::grep", "{\"path\": \"/dev/null\", \"pattern\": \"a\"}", "not_a_file");
    fails("sandbox::fs::grep", "{\"pattern\": \"a\"}", "invalid");
    fails("sandbox::fs::grep",
          "{\"path\": \"/\", \"pattern\": \"a\", \"sandboxId\": \"sbx_000000000000000000000000\"}",
          "sandbox_not_found");
    fails("sandbox::fs::sed", input("\"pattern\": \"[\", \"replacement\": \"\""), "bad_regex");
    fails("sandbox::fs::sed", "{\"pattern\": \"a\", \"replacement\": \"\"}", "bad_fs_request");
    fails("sandbox::fs::sed",
          input("\"pattern\": \"a\", \"replacement\": \"\", \"files\": [\"/a\"]"),
          "bad_fs_request");
    fails("sandbox::fs::sed",
          input("\"pattern\": \"a\", \"replacement\": \"\", \"recursive\": "
                "false"),
          "bad_fs_request");
    fails("sandbox::fs::sed", "{\"path\": \"/no\", \"pattern\": \"a\", \"replacement\": \"\"}",
          "file_not_found");
    fails("sandbox::fs::sed", "{\"path\": \"/no\", \"pattern\": \"a\"}", "invalid");
    down();
}

TEST(who_may_only_read_may_search_and_not_replace)
{
    static const struct caller reader = {
        .face = "test", .scopes = 1u << SCOPE_READ, .admin = true, .local = true};
    struct face f;

    up("{\"image\": \"host\"}");
    put("a", "x\n");
    face_text(&f, "sandbox::fs::grep", input("\"pattern\": \"x\""));
    f.call.caller = &reader;
    face_succeeds(&f);
    face_done(&f);
    face_text(&f, "sandbox::fs::sed", input("\"pattern\": \"x\", \"replacement\": \"y\""));
    f.call.caller = &reader;
    face_fails(&f, "scope_missing");
    face_done(&f);
    CHECK_STR(text_of("a"), "x\n");
    down();
}

static bool is_gone(void *arg)
{
    (void)arg;
    return true;
}

/* A slow pattern: without the caller it ends at the first sign of life. */
TEST(nobody_waits_any_more_so_it_ends)
{
    static char line[16 << 20];
    struct face f;

    up("{\"image\": \"host\"}");
    memset(line, 'a', sizeof(line) - 1);
    put("big", line);
    face_text(&f, "sandbox::fs::grep", input("\"pattern\": \"(a|b|c|d){1,5000}x\""));
    f.call.gone = is_gone;
    face_fails(&f, "cancelled");
    face_done(&f);
    down();
}

/* The same with a caller who would wait for ever. */
TEST(what_takes_too_long_ends_by_itself)
{
    static const struct iii_settings settings = {.exec_ms_max = 1};
    static char line[16 << 20];
    struct face f;

    up("{\"image\": \"host\"}");
    memset(line, 'a', sizeof(line) - 1);
    put("big", line);
    face_text(&f, "sandbox::fs::grep", input("\"pattern\": \"(a|b|c|d){1,5000}x\""));
    about.iii = &settings;
    face_fails(&f, "file_failed");
    about.iii = NULL;
    face_done(&f);
    down();
}

TAP_MAIN
