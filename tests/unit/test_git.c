#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "service/git.h"
#include "service/git_internal.h"
#include "tap.h"

/* What needs no sandbox: questions in a stream of errors, URLs, and what git puts out. */

static struct buf texts, questions;

static void on_text(const char *data, size_t len, void *arg)
{
    (void)arg;
    CHECK_INT(buf_add(&texts, data, len), 0);
}

static void on_asked(const char *protocol, const char *host, void *arg)
{
    (void)arg;
    CHECK_INT(buf_addf(&questions, "%s|%s;", protocol, host), 0);
}

static const struct git_asks_ops ops = {.text = on_text, .asked = on_asked};

static void asks_up(struct git_asks *a)
{
    buf_init(&texts, 1 << 20);
    buf_init(&questions, 1 << 20);
    git_asks_init(a);
}

static void asks_down(struct git_asks *a)
{
    buf_done(&texts);
    buf_done(&questions);
    git_asks_done(a);
}

static const char *of(const struct buf *b)
{
    return b->data ? b->data : "";
}

TEST(a_question_is_taken_out_however_it_is_cut)
{
    struct git_asks a;

    for (size_t cut = 0;; cut++) {
        auto_free char *all = NULL;

        asks_up(&a);
        all = xasprintf("before\036%s https a.test:8443\036after", a.word);
        if (cut > strlen(all)) {
            asks_down(&a);
            break;
        }
        git_asks_add(&a, all, cut, false, &ops);
        git_asks_add(&a, all + cut, strlen(all) - cut, false, &ops);
        git_asks_add(&a, "", 0, true, &ops);
        CHECK_STR(of(&texts), "beforeafter");
        CHECK_STR(of(&questions), "https|a.test:8443;");
        asks_down(&a);
    }
}

TEST(what_only_looks_like_a_question_is_text)
{
    auto_free char *long_one = NULL, *filler = xcalloc(1, 2 * GIT_ASK_MAX);
    struct git_asks a;

    asks_up(&a);
    git_asks_add(&a, "\036\036ask_0 https a\036x\036", 19, true, &ops);
    CHECK_INT(texts.len, 19);
    buf_clear(&texts);
    memset(filler, 'x', 2 * GIT_ASK_MAX - 1);
    long_one = xasprintf("\036%s %s", a.word, filler);
    git_asks_add(&a, long_one, strlen(long_one), false, &ops);
    git_asks_add(&a, "", 0, true, &ops);
    CHECK_STR(of(&texts), long_one);
    CHECK_STR(of(&questions), "");
    asks_down(&a);
}

static void check_url(const char *url, const char *clean, const char *protocol, const char *host,
                      const char *user, const char *password)
{
    auto_git_secret struct git_secret s = {0};
    auto_free char *got = NULL;
    struct err err = {0};

    CHECK_INT(git_url_take(url, &got, &s, &err), 0);
    CHECK_STR(got, clean);
    CHECK_STR(s.protocol ? s.protocol : "", protocol);
    CHECK_STR(s.host ? s.host : "", host);
    CHECK_STR(s.username ? s.username : "-", user);
    CHECK_STR(s.password ? s.password : "-", password);
}

TEST(a_url_gives_up_its_password)
{
    check_url("https://a.test/x.git", "https://a.test/x.git", "https", "a.test", "-", "-");
    check_url("https://u:p@a.test:8443/x", "https://a.test:8443/x", "https", "a.test:8443", "u",
              "p");
    check_url("HTTP://u:p%40%3a@q@a.test/x@y", "http://a.test/x@y", "http", "a.test", "u", "p@:@q");
    check_url("https://token@a.test", "https://a.test", "https", "a.test", "token", "-");
    check_url("https://%zz:%4@a.test/", "https://a.test/", "https", "a.test", "%zz", "%4");
    check_url("git@a.test:x.git", "git@a.test:x.git", "", "", "-", "-");
    check_url("ssh://u:p@a.test/x", "ssh://u:p@a.test/x", "", "", "-", "-");
    check_url("/srv/x.git", "/srv/x.git", "", "", "-", "-");
}

TEST(what_is_an_option_or_has_a_line_end_is_refused)
{
    static const char *const bad[] = {"-x", "--upload-pack=x", "a\nb", "$(x)", "`x`", "a\177"};
    auto_git_secret struct git_secret s = {0};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        char *clean = NULL;

        CHECK_INT(git_url_take(bad[i], &clean, &s, &err), -1);
        CHECK_STR(err.code, "bad_url");
        CHECK(!clean);
    }
    CHECK_INT(git_ref_check("ref", "-x", NULL), -1);
    CHECK_INT(git_ref_check("ref", "a\tb", NULL), -1);
    CHECK_INT(git_ref_check("ref", "a-b/$(c)", NULL), 0);
    CHECK_INT(git_ref_check("ref", NULL, NULL), 0);
    s.password = xstrdup("a\nhost=evil");
    CHECK_INT(git_secret_check(&s, NULL), -1);
}

static void check_json(json_t *got, const char *want)
{
    json_t *w = json_loads(want, JSON_DECODE_ANY, NULL);
    auto_free char *text = json_dumps(got, JSON_ENCODE_ANY | JSON_SORT_KEYS);

    CHECK(w);
    if (!json_equal(got, w))
        TAP_FAIL("%s is not %s", text, want);
    json_decref(w);
    json_decref(got);
}

#define BYTES(s) (&(struct buf){.data = (char *)(s), .len = sizeof(s) - 1})

TEST(a_status_is_taken_apart)
{
    check_json(
        git_status_json(
            BYTES("# branch.oid 1\0# branch.head main\0# branch.upstream o/m\0# branch.ab +1 -2\0"
                  "1 .M N... 1 1 1 a b sp ace\0"
                  "2 R. N... 1 1 1 a b R100 new\0old\0"
                  "u UU N... 1 1 1 1 a b c both\0"
                  "? new\n\377\0")),
        "{\"branch\":\"main\",\"repository\":true,\"clean\":false,\"upstream\":\"o/m\",\"ahead\":1,"
        "\"behind\":2,\"files\":["
        "{\"status\":\"M\",\"path\":\"sp ace\",\"staged\":false},"
        "{\"status\":\"R\",\"path\":\"new\",\"staged\":true,\"from\":\"old\"},"
        "{\"status\":\"UU\",\"path\":\"both\",\"staged\":false},"
        "{\"status\":\"??\",\"path\":\"new\\n\xef\xbf\xbd\",\"staged\":false}]}");
    check_json(git_status_json(BYTES("# branch.head (detached)\0")),
               "{\"branch\":\"HEAD\",\"repository\":true,\"clean\":true,\"files\":[]}");
}

TEST(nonsense_is_left_out)
{
    static const char *const none = "{\"branch\":\"HEAD\",\"repository\":true,\"clean\":true,"
                                    "\"files\":[]}";

    check_json(git_status_json(BYTES("1\0002\0u\0?\0? \0001 .M\0x y z\0#\0# branch.ab x\0")), none);
    check_json(git_status_json(&(struct buf){0}), none);
    check_json(git_log_json(BYTES("a\0b\0c")), "[]");
    check_json(git_log_json(&(struct buf){0}), "[]");
    check_json(git_branches_json(BYTES("*\n\n*main\n(HEAD\n")),
               "{\"branches\":[],\"current\":\"\"}");
    CHECK(!git_progress_json("", 0));
    CHECK(!git_progress_json("a: 101% (1/2)", 13));
    CHECK(!git_progress_json("Cloning into 'x'...", 19));
}

static struct buf *many(const char *what, size_t size, size_t n)
{
    static struct buf b;

    buf_done(&b);
    buf_init(&b, size * n);
    for (size_t i = 0; i < n; i++)
        CHECK(buf_add(&b, what, size) == 0);
    return &b;
}

/* A box that lies with a few bytes an entry must not fill the daemon's memory. */
TEST(no_more_entries_than_may_be)
{
    json_t *status = git_status_json(many("? a", 4, GIT_FILES_MAX + 1));
    json_t *entries = git_log_json(many("", 1, 5 * (GIT_ENTRIES_MAX + 1)));
    json_t *branches = git_branches_json(many(" \0refs/heads/a\n", 15, GIT_BRANCHES_MAX + 1));

    CHECK(json_array_size(json_object_get(status, "files")) == GIT_FILES_MAX);
    CHECK(json_is_true(json_object_get(status, "truncated")));
    CHECK(json_array_size(entries) == GIT_ENTRIES_MAX);
    CHECK(json_array_size(json_object_get(branches, "branches")) == GIT_BRANCHES_MAX);
    CHECK(json_is_true(json_object_get(branches, "truncated")));
    json_decref(status);
    json_decref(entries);
    json_decref(branches);
    (void)many("", 1, 0);
}

TEST(logs_and_branches_are_taken_apart)
{
    check_json(git_log_json(BYTES("h1\0A\0a@b\0d1\0one\0h2\0B\0\0d2\0\0")),
               "[{\"hash\":\"h1\",\"author\":\"A\",\"email\":\"a@b\",\"date\":\"d1\",\"message\":"
               "\"one\"},{\"hash\":\"h2\",\"author\":\"B\",\"email\":\"\",\"date\":\"d2\","
               "\"message\":\"\"}]");
    check_json(git_branches_json(BYTES(" \0refs/heads/a\n*\0refs/heads/main\n"
                                       " refs/remotes/o/main\0refs/remotes/o/HEAD\n"
                                       " \0refs/remotes/o/main\n")),
               "{\"branches\":[\"a\",\"main\",\"remotes/o/main\"],\"current\":\"main\"}");
}

TEST(progress_is_a_phase_and_numbers)
{
    static const char line[] = "remote: Counting objects:  45% (9/20), 1 MiB | 2 MiB/s   ";

    check_json(
        git_progress_json(line, sizeof(line) - 1),
        "{\"event\":\"progress\",\"phase\":\"Counting objects\",\"percent\":45,\"current\":9,"
        "\"total\":20,\"text\":\"remote: Counting objects:  45% (9/20), 1 MiB | 2 MiB/s\"}");
}

TAP_MAIN
