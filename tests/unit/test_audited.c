#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/network_internal.h"
#include "functions/audited.h"
#include "service/audit.h"
#include "service/audit_internal.h"
#include "test_face.h"

/* The audit log: what is in it, what is not, and what shows when somebody changes it. */

static const char *problem_of(json_t **report)
{
    json_decref(*report);
    *report = ask("audit::verify", "{}");
    return json_is_true(json_object_get(*report, "ok")) ? "" : str(*report, "problem");
}

static char *path_of(void)
{
    return xasprintf("%s/audit/audit-0000000000000001.jsonl", data_dir);
}

static void file_read(const char *path, struct buf *b)
{
    FILE *f = fopen(path, "r");
    char piece[4096];
    size_t n;

    CHECK(f);
    buf_init(b, 64 << 20);
    while ((n = fread(piece, 1, sizeof(piece), f)) > 0)
        (void)buf_add(b, piece, n);
    (void)fclose(f);
}

static void file_write(const char *path, const char *data, size_t len)
{
    FILE *f = fopen(path, "w");

    CHECK(f && fwrite(data, 1, len, f) == len);
    (void)fclose(f);
}

static char *line_at(char *text, unsigned n)
{
    while (n-- > 0)
        text = strchr(text, '\n') + 1;
    return text;
}

static void call_some(void)
{
    do_call("cmd::run", "{\"command\": \"true\", \"stdin\": \"CANARY\"}");
    do_call("fs::write", "{\"path\": \"a\", \"content\": \"CANARY\"}");
    do_call("env::set", "{\"vars\": {\"A\": \"CANARY\"}}");
    do_call("cmd::run", "{\"command\": \"true\"}");
}

TEST(what_was_done_is_there_and_what_is_secret_is_not)
{
    auto_buf struct buf b = {0};
    auto_free char *path = NULL;
    json_t *report = NULL;

    up("{\"image\": \"host\", \"env\": {\"A\": \"CANARY\"}}");
    call_some();
    do_call("proxy::sign", "{\"port\": 80, \"path\": \"/a?code=CANARY\"}");
    CHECK_STR(problem_of(&report), "");
    path = path_of();
    file_read(path, &b);
    CHECK(strstr(b.data, "\"function\":\"sandbox::create\"") && strstr(b.data, sandbox));
    CHECK(strstr(b.data, "\"function\":\"fs::write\"") && strstr(b.data, "\"path\":\"a\""));
    CHECK(strstr(b.data, "\"stdin\":\"***\"") && strstr(b.data, "\"path\":\"/a?***\""));
    CHECK(!strstr(b.data, "CANARY"));
    CHECK(!strstr(b.data, "audit::verify"));
    json_decref(report);
    down();
}

TEST(what_a_policy_denies_is_there)
{
    json_t *answer, *event;

    up("{\"image\": \"host\"}");
    event = json_pack("{s:s, s:s, s:s, s:i}", "event", "denied", "id", sandbox, "address",
                      "10.0.0.1", "port", 80);
    network_log_add(engine, event);
    json_decref(event);
    answer = ask("audit::list", "{\"function\": \"network.denied\"}");
    CHECK_INT(json_array_size(json_object_get(answer, "entries")), 1);
    event = json_array_get(json_object_get(answer, "entries"), 0);
    CHECK_STR(str(event, "sandboxId"), sandbox);
    CHECK_STR(str(event, "result"), "refused");
    CHECK_STR(str(json_object_get(event, "detail"), "address"), "10.0.0.1");
    json_decref(answer);
    down();
}

/* Each is done to the log of the same calls. */
static void change(const char *how, char *text, size_t *len)
{
    char *second = line_at(text, 1), *third = line_at(text, 2), *fourth = line_at(text, 3);
    size_t line = (size_t)(third - second);

    if (strcmp(how, "changed") == 0) {
        memcpy(strstr(second, "\"ok\""), "\"no\"", 4);
    } else if (strcmp(how, "removed") == 0) {
        memmove(second, third, *len - (size_t)(third - text));
        *len -= line;
    } else if (strcmp(how, "swapped") == 0) {
        auto_free char *copy = xstrndup(second, line);
        size_t next = (size_t)(fourth - third);

        memmove(second, third, next);
        memcpy(second + next, copy, line);
    } else if (strcmp(how, "cut") == 0) {
        *len = (size_t)(fourth - text);
    } else if (strcmp(how, "beheaded") == 0) {
        memmove(text, second, *len - (size_t)(second - text));
        *len -= (size_t)(second - text);
    } else if (strcmp(how, "garbled") == 0) {
        memset(second, 'x', line - 1);
    }
}

TEST(a_line_that_was_changed_removed_or_moved_shows)
{
    static const struct {
        const char *how, *problem;
        int line;
    } rows[] = {
        {"", "", 0},
        {"changed", "a line was changed: its hash is another", 2},
        {"removed", "lines were removed before this one", 2},
        {"swapped", "lines were removed before this one", 2},
        {"garbled", "a line was changed, and is none of the log any more", 2},
        {"cut", "lines were removed from the end", 3},
        {"beheaded", "lines were removed from the beginning", 0},
    };
    auto_buf struct buf b = {0};
    auto_free char *path = NULL;
    json_t *report = NULL;

    up("{\"image\": \"host\"}");
    call_some();
    path = path_of();
    file_read(path, &b);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_free char *text = xstrndup(b.data, b.len);
        size_t len = b.len;

        change(rows[i].how, text, &len);
        file_write(path, text, len);
        CHECK_STR(problem_of(&report), rows[i].problem);
        if (rows[i].line)
            CHECK_INT(json_integer_value(json_object_get(report, "line")), rows[i].line);
    }
    json_decref(report);
    down();
}

TEST(the_chain_goes_on_over_starts_torn_lines_and_files)
{
    const struct audit_config config = {.data_dir = dir_new(), .file_mb = 1, .files = 2};
    const struct audit_entry entry = {.who = "root", .function = "a", .result = "ok"};
    auto_free char *path = xasprintf("%s/audit/audit-0000000000000001.jsonl", config.data_dir);
    char *dir = (char *)(uintptr_t)config.data_dir;
    json_t *report = NULL;
    struct audit *a = NULL;
    FILE *f;

    CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
    audit_write(a, &entry);
    audit_close(a);
    f = fopen(path, "a");
    CHECK(f && fputs("{\"n\":2,\"ti", f) >= 0 && fclose(f) == 0);
    CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
    for (int i = 0; i < 12000; i++) /* more than two files of them */
        audit_write(a, &entry);
    CHECK_INT(audit_verify(a, NULL, &report, NULL), 0);
    CHECK(json_is_true(json_object_get(report, "ok")));
    CHECK(json_integer_value(json_object_get(report, "firstN")) > 1);
    CHECK_INT(json_integer_value(json_object_get(report, "files")), 2);
    json_decref(report);
    audit_close(a);
    dir_remove(&dir);
}

static void append(const char *path, const char *text)
{
    FILE *f = fopen(path, "a");

    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void verify(struct audit *a, const char *head, json_t **report)
{
    struct audit_head at;
    struct err err = {0};

    json_decref(*report);
    if (head && audit_head_parse(head, &at, &err) < 0)
        TAP_FAIL("%s: %s", head, err.text);
    CHECK_INT(audit_verify(a, head ? &at : NULL, report, NULL), 0);
}

static char *head_of(struct audit *a)
{
    json_t *report = NULL;
    char *head;

    verify(a, NULL, &report);
    head = xasprintf("%lld:%s", (long long)num(report, "n"), str(report, "hash"));
    json_decref(report);
    return head;
}

/* The line that another writer with the right chain would add to the log in the file. */
static char *forged_line(const char *path)
{
    const struct audit_config config = {.data_dir = dir_new(), .file_mb = 1, .files = 2};
    const struct audit_entry entry = {.who = "root", .function = "forged", .result = "ok"};
    auto_free char *folder = xasprintf("%s/audit", config.data_dir);
    auto_free char *copy = xasprintf("%s/audit-0000000000000001.jsonl", folder);
    char *dir = (char *)(uintptr_t)config.data_dir, *line;
    auto_buf struct buf b = {0};
    struct audit *a;
    size_t before;

    file_read(path, &b);
    before = b.len;
    CHECK(mkdir(folder, 0700) == 0);
    file_write(copy, b.data, b.len);
    CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
    audit_write(a, &entry);
    audit_close(a);
    buf_done(&b);
    file_read(copy, &b);
    CHECK(b.len > before);
    line = xstrndup(b.data + before, b.len - before);
    dir_remove(&dir);
    return line;
}

TEST(what_another_appends_shows_while_the_daemon_runs)
{
    const struct audit_config config = {.data_dir = dir_new(), .file_mb = 1, .files = 2};
    const struct audit_entry entry = {.who = "root", .function = "a", .result = "ok"};
    auto_free char *path = xasprintf("%s/audit/audit-0000000000000001.jsonl", config.data_dir);
    auto_free char *later = xasprintf("%s/audit/audit-0000000000000009.jsonl", config.data_dir);
    auto_free char *aside = xasprintf("%s/aside", config.data_dir);
    char *dir = (char *)(uintptr_t)config.data_dir, *texts[5];
    auto_free char *forged = NULL, *twice = NULL, *two = NULL;
    auto_buf struct buf b = {0};
    json_t *report = NULL;
    struct audit *a = NULL;

    CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
    for (int i = 0; i < 3; i++)
        audit_write(a, &entry);
    file_read(path, &b);
    forged = forged_line(path);
    twice = xstrdup(line_at(b.data, 2));
    two = xasprintf("%s%s", forged, twice);
    memcpy(texts, (char *[]){forged, twice, (char[]){"noise\n"}, (char[]){"noise"}, (char[]){"\n"}},
           sizeof(texts));
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        append(path, texts[i]);
        verify(a, NULL, &report);
        CHECK(json_is_false(json_object_get(report, "ok")));
        CHECK_STR(str(report, "problem"), "something was appended that the daemon did not write");
        CHECK_INT(num(report, "line"), 4);
        CHECK_INT(num(report, "lastGoodN"), 3);
        CHECK_INT(truncate(path, (off_t)b.len), 0);
        verify(a, NULL, &report);
        CHECK(json_is_true(json_object_get(report, "ok")));
    }
    file_write(later, forged, strlen(forged));
    verify(a, NULL, &report);
    CHECK_STR(str(report, "problem"), "there is a later file, which the daemon did not write");
    CHECK_INT(unlink(later), 0);
    CHECK_INT(rename(path, aside), 0);
    file_write(path, b.data, b.len);
    verify(a, NULL, &report);
    CHECK_STR(str(report, "problem"), "the file that the daemon writes to was replaced");
    CHECK_INT(rename(aside, path), 0);
    append(path, forged); /* and the daemon goes on behind it */
    audit_write(a, &entry);
    verify(a, NULL, &report);
    CHECK(json_is_false(json_object_get(report, "ok")));
    json_decref(report);
    audit_close(a);
    dir_remove(&dir);
}

/* While it is stopped: what is cut off or written anew leaves a chain that is whole. */
TEST(an_earlier_head_shows_what_was_done_while_the_daemon_was_stopped)
{
    const struct audit_config config = {.data_dir = dir_new(), .file_mb = 1, .files = 2};
    const struct audit_entry entry = {.who = "root", .function = "a", .result = "ok"};
    auto_free char *path = xasprintf("%s/audit/audit-0000000000000001.jsonl", config.data_dir);
    auto_free char *early = NULL, *head = NULL, *forged = NULL;
    char *dir = (char *)(uintptr_t)config.data_dir;
    auto_buf struct buf b = {0};
    json_t *report = NULL;
    struct audit *a = NULL;
    size_t cut;

    CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
    audit_write(a, &entry);
    early = head_of(a);
    audit_write(a, &entry);
    head = head_of(a);
    audit_close(a);
    file_read(path, &b);
    cut = (size_t)(line_at(b.data, 1) - b.data);
    for (int replaced = 0; replaced < 2; replaced++) {
        CHECK_INT(truncate(path, (off_t)cut), 0);
        if (replaced) {
            forged = forged_line(path);
            append(path, forged);
        }
        CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
        verify(a, head, &report);
        CHECK(json_is_true(json_object_get(report, "ok")));
        CHECK(json_is_false(json_object_get(report, "headFound")));
        CHECK_STR(str(report, "headProblem"),
                  replaced ? "the line of the head was replaced"
                           : "the log ends before the line of the head: lines were cut off");
        verify(a, early, &report);
        CHECK(json_is_true(json_object_get(report, "headFound")));
        verify(a, strchr(head, ':') + 1, &report);
        CHECK(json_is_false(json_object_get(report, "headFound")));
        audit_close(a);
    }
    json_decref(report);
    dir_remove(&dir);
}

TEST(rotated_files_are_checked_to_their_ends_and_heads_outlive_them)
{
    const struct audit_config config = {.data_dir = dir_new(), .file_mb = 1, .files = 2};
    const struct audit_entry entry = {.who = "root", .function = "a", .result = "ok"};
    auto_free char *folder = xasprintf("%s/audit", config.data_dir), *head = NULL, *early = NULL;
    auto_free char *before = NULL;
    char *dir = (char *)(uintptr_t)config.data_dir;
    auto_buf struct buf b = {0};
    json_t *report = NULL;
    struct audit *a = NULL;
    char file[200], *last;

    CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
    audit_write(a, &entry);
    early = head_of(a);
    for (int i = 0; i < 12000; i++) /* more than two files of them */
        audit_write(a, &entry);
    head = head_of(a);
    verify(a, head, &report);
    CHECK(json_is_true(json_object_get(report, "headFound")));
    verify(a, early, &report);
    CHECK(json_is_true(json_object_get(report, "ok")));
    CHECK_STR(str(report, "headProblem"),
              "the line of the head is older than all that are kept: its file was retired");
    (void)snprintf(file, sizeof(file), "%s/audit-%016lld.jsonl", folder,
                   (long long)num(report, "firstN"));
    file_read(file, &b);
    before = xasprintf("%lld:%.64s", (long long)num(report, "firstN") - 1,
                       strstr(b.data, "\"prev\":\"") + strlen("\"prev\":\""));
    verify(a, before, &report);
    CHECK(json_is_true(json_object_get(report, "headFound")));
    /* At the end of a file that is not written to any more. */
    last = (char *)memrchr(b.data, '\n', b.len - 1) + 1;
    for (int i = 0; i < 2; i++) {
        append(file, i ? "noise" : last);
        verify(a, NULL, &report);
        CHECK(json_is_false(json_object_get(report, "ok")));
        CHECK_INT(truncate(file, (off_t)b.len), 0);
    }
    verify(a, NULL, &report);
    CHECK(json_is_true(json_object_get(report, "ok")));
    json_decref(report);
    audit_close(a);
    dir_remove(&dir);
}

/* What a kill in the middle of a write leaves: the file ends before the end of its last line. */
TEST(a_line_that_was_cut_anywhere_is_explained)
{
    const struct audit_config config = {.data_dir = dir_new(), .file_mb = 1, .files = 2};
    const struct audit_entry entry = {.who = "root", .function = "a", .result = "ok"};
    const struct rlimit none = {0, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    auto_free char *path = xasprintf("%s/audit/audit-0000000000000001.jsonl", config.data_dir);
    char *dir = (char *)(uintptr_t)config.data_dir;
    json_t *report = NULL;
    struct audit *a = NULL;

    CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
    for (off_t cut = 1; cut < 200; cut = cut < 3 ? cut + 1 : cut * 3) {
        struct stat st;
        json_int_t n;

        audit_write(a, &entry);
        verify(a, NULL, &report);
        n = num(report, "n");
        audit_close(a);
        CHECK_INT(stat(path, &st), 0);
        CHECK_INT(truncate(path, st.st_size - cut), 0);
        CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
        verify(a, NULL, &report);
        CHECK_STR(json_is_true(json_object_get(report, "ok")) ? "" : str(report, "problem"), "");
        CHECK_INT(num(report, "n"), n); /* without its end it is there, else audit.recovered is */
        audit_write(a, &entry);
        verify(a, NULL, &report);
        CHECK_STR(json_is_true(json_object_get(report, "ok")) ? "" : str(report, "problem"), "");
        CHECK_INT(num(report, "n"), n + 1);
    }
    audit_close(a);
    /* It is said when the disk takes it. */
    append(path, "{\"n\":");
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &none), 0);
    CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &all), 0);
    audit_write(a, &entry);
    verify(a, NULL, &report);
    CHECK_STR(json_is_true(json_object_get(report, "ok")) ? "" : str(report, "problem"), "");
    json_decref(report);
    audit_close(a);
    dir_remove(&dir);
}

TEST(the_head_of_a_log_without_lines_is_found)
{
    const struct audit_config config = {.data_dir = dir_new(), .file_mb = 1, .files = 2};
    const struct audit_entry entry = {.who = "root", .function = "a", .result = "ok"};
    auto_free char *head = NULL, *other = NULL;
    char *dir = (char *)(uintptr_t)config.data_dir;
    struct audit_head at;
    json_t *report = NULL;
    struct audit *a = NULL;

    CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
    head = head_of(a);
    for (int i = 0; i < 2; i++) {
        verify(a, head, &report);
        CHECK(json_is_true(json_object_get(report, "headFound")));
        audit_write(a, &entry);
    }
    verify(a, strchr(head, ':') + 1, &report); /* no line has that hash */
    CHECK(json_is_false(json_object_get(report, "headFound")));
    other = xasprintf("0:%s", strchr(head, ':') + 1);
    other[2] = '1';
    CHECK_INT(audit_head_parse(other, &at, NULL), -1);
    json_decref(report);
    audit_close(a);
    dir_remove(&dir);
}

/* The newest lines stand behind it, and are read. The longest line has no end in the buffer. */
TEST(what_another_appends_hides_no_line)
{
    const struct audit_config config = {.data_dir = dir_new(), .file_mb = 1, .files = 2};
    const struct audit_entry entry = {.who = "root", .function = "a", .result = "ok"};
    const struct audit_query query = {.limit = 10, .after = 1};
    auto_free char *path = xasprintf("%s/audit/audit-0000000000000001.jsonl", config.data_dir);
    auto_free char *digits = xasprintf("{\"n\":%0*d\n", (int)AUDIT_LINE_MAX - 5, 1);
    char *dir = (char *)(uintptr_t)config.data_dir;
    json_t *answer = NULL;
    struct audit *a = NULL;

    CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
    audit_write(a, &entry);
    append(path, digits);
    audit_write(a, &entry);
    CHECK_INT(audit_read(a, &query, &answer, NULL), 0);
    CHECK_INT(json_array_size(json_object_get(answer, "entries")), 1);
    CHECK_INT(num(json_array_get(json_object_get(answer, "entries"), 0), "n"), 2);
    json_decref(answer);
    audit_close(a);
    dir_remove(&dir);
}

TEST(a_file_that_is_kept_for_a_reader_goes_with_it)
{
    const struct audit_config config = {.data_dir = dir_new(), .file_mb = 1, .files = 1};
    const struct audit_entry entry = {.who = "root", .function = "a", .result = "ok"};
    auto_free char *path = xasprintf("%s/audit/audit-0000000000000001.jsonl", config.data_dir);
    char *dir = (char *)(uintptr_t)config.data_dir;
    struct audit_end one, two;
    json_t *report = NULL;
    struct audit *a = NULL;

    CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
    CHECK_INT(audit_read_begin(a, &one, NULL), 0);
    CHECK_INT(audit_read_begin(a, &two, NULL), 0);
    for (int i = 0; i < 6000; i++) /* more than a file of them, less than two */
        audit_write(a, &entry);
    audit_read_end(a, &one);
    CHECK_INT(access(path, F_OK), 0);
    audit_read_end(a, &two);
    CHECK_INT(access(path, F_OK), -1);
    verify(a, NULL, &report);
    CHECK(json_is_true(json_object_get(report, "ok")));
    json_decref(report);
    audit_close(a);
    dir_remove(&dir);
}

/* All descriptors but those that are open are taken away, or given back. */
static void allow_descriptors(bool more)
{
    static struct rlimit all;
    struct rlimit few;
    int next;

    if (more) {
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &all), 0);
        return;
    }
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &all), 0);
    next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(next >= 0 && close(next) == 0);
    few = (struct rlimit){(rlim_t)next, all.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
}

TEST(a_file_that_cannot_be_opened_loses_no_line)
{
    const struct audit_config config = {.data_dir = dir_new(), .file_mb = 1, .files = 2};
    const struct audit_entry entry = {.who = "root", .function = "a", .result = "ok"};
    char *dir = (char *)(uintptr_t)config.data_dir;
    json_t *report = NULL;
    struct audit *a = NULL;

    CHECK_INT(audit_open(&config, NULL, &a, NULL), 0);
    allow_descriptors(false);
    for (int i = 0; i < 6000; i++) /* more than a file of them */
        audit_write(a, &entry);
    allow_descriptors(true);
    audit_write(a, &entry);
    CHECK_INT(audit_verify(a, NULL, &report, NULL), 0);
    CHECK(json_is_true(json_object_get(report, "ok")));
    CHECK_INT(json_integer_value(json_object_get(report, "n")), 6001);
    CHECK_INT(json_integer_value(json_object_get(report, "files")), 2);
    json_decref(report);
    audit_close(a);
    dir_remove(&dir);
}

static bool is_in_trouble(void)
{
    json_t *health = ask("metrics::health", "{}"), *one;
    bool found = false;
    size_t i;

    json_array_foreach(json_object_get(health, "problems"), i, one)
    {
        found |= strcmp(str(one, "what"), "audit_not_written") == 0;
    }
    json_decref(health);
    return found;
}

/* A disk that takes no more, by a limit on the size of files. */
TEST(a_full_disk_stops_no_call_and_is_told)
{
    struct rlimit none = {0, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    const struct audit_entry entry = {.who = "root", .function = "later", .result = "ok"};
    auto_buf struct buf b = {0};
    auto_free char *path = NULL;
    json_t *report = NULL;

    up("{\"image\": \"host\"}");
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &none), 0);
    audit_write(services.audit, &entry);
    audit_write(services.audit, &entry);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &all), 0);
    CHECK(is_in_trouble());
    CHECK_STR(problem_of(&report), "");
    audit_write(services.audit, &entry);
    CHECK_STR(problem_of(&report), "");
    path = path_of();
    file_read(path, &b);
    CHECK(strstr(b.data, "\"function\":\"audit.lost\",\"result\":\"ok\",\"detail\":{\"lines\":2}"));
    CHECK(!is_in_trouble());
    json_decref(report);
    down();
}

TEST(what_anybody_can_cause_does_not_fill_the_log)
{
    const struct audit_entry entry = {
        .who = "anyone", .function = "flood", .result = "refused", .is_common = true};
    json_t *answer;

    up("{\"image\": \"host\"}");
    for (int i = 0; i < 5000; i++)
        audit_write(services.audit, &entry);
    answer = ask("audit::list", "{\"function\": \"flood\", \"limit\": 1000}");
    CHECK(json_array_size(json_object_get(answer, "entries")) < 400);
    json_decref(answer);
    down();
}

TEST(secrets_are_taken_out_of_commands)
{
    static const char *const rows[][2] = {
        {"make -j4 all", "make -j4 all"},
        {"API_TOKEN=abc PATH=/bin run", "API_TOKEN=*** PATH=/bin run"},
        {"curl --token abc --data x", "curl --token *** --data x"},
        {"curl --password=abc", "curl --password=***"},
        {"curl -H Authorization: Bearer abc x", "curl -H Authorization: Bearer *** x"},
        {"curl -u me:abc host", "curl -u *** host"},
        {"git clone https://me:abc@h.org/x.git y", "git clone https://***@h.org/x.git y"},
        {"curl https://h.org/?key=abc", "curl https://h.org/?***"},
        {"echo ghp_abc", "echo ***"},
        {"a=1&&PASSWORD=abc run", "a=1&&PASSWORD=*** run"},
        {"PASSWORD=\"abc def ghi\" run 'it'", "PASSWORD=*** run 'it'"},
        {"run --password 'abc def' x", "run --password *** x"},
        {"curl -H 'X-Api-Key: abc def' x", "curl -H 'X-Api-Key: *** x"},
        {"curl -H X-Api-Key:abc x", "curl -H X-Api-Key:*** x"},
        {"curl -d '{\"password\":\"abc\",\"a\":\"b c\"}' x", "curl -d '{\"password\":*** x"},
        {"KEY_URL=https://abc x", "KEY_URL=*** x"},
        {"curl https://token.h.org:80/x y", "curl https://token.h.org:80/x y"},
        {"URL=redis://me:abc@h.org run", "URL=redis://***@h.org run"},
        {"", ""},
    };
    char many[1000];
    char *text;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        text = audited_text(rows[i][0]);
        CHECK_STR(text, rows[i][1]);
        free(text);
    }
    memset(many, 'a', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    text = audited_text(many);
    CHECK_INT(strlen(text), AUDITED_TEXT_MAX + strlen("…"));
    free(text);
}

TAP_MAIN
