#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/network_internal.h"
#include "functions/audited.h"
#include "service/audit.h"
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
