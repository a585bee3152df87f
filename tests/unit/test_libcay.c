#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "fake_http.h"
#include "functions/function.h"
#include "libcay/libcay_internal.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "tap.h"

static struct cay *open_at(const char *address, int timeout_ms, int retry_ms)
{
    struct cay_options options = {
        .address = address, .token = "", .timeout_ms = timeout_ms, .retry_ms = retry_ms};
    struct cay_error err;
    struct cay *cay;

    if (cay_open(&options, &cay, &err) < 0)
        TAP_FAIL("%s", err.message);
    return cay;
}

static bool say_hello(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    return fake_reply(fd, "200 OK", "", "{\"hello\": [1, {\"a/b\": \"x\"}, 2.9]}");
}

/* ---- what needs no daemon ---- */

static int check_key(const struct function *f, void *arg)
{
    auto_free char *path = xasprintf("/sandbox%s", f->route);

    (void)arg;
    if (strcmp(f->method, "POST") == 0 &&
        path_takes_key(path) != ((f->flags & FUNCTION_MAKES) != 0))
        TAP_FAIL("POST %s", path);
    return 0;
}

TEST(paths_that_take_a_key_are_those_of_the_table)
{
    (void)functions_each(check_key, NULL);
    CHECK(path_takes_key("/sandbox/sandboxes?x=1"));
    CHECK(!path_takes_key("/sandbox/sandboxes/"));
    CHECK(!path_takes_key("/other"));
}

TEST(json_is_read_by_pointers)
{
    static const char text[] =
        "{\"a\": [{\"b\": \"x\\u00e4\"}, 7, -2.9, null], \"c/d\": {\"~\": 1}}";
    char *s = cay_json_get(text, "/a/0/b");

    CHECK_STR(s, "x\xc3\xa4");
    cay_free(s);
    s = cay_json_get(text, "/a/0");
    CHECK_STR(s, "{\"b\":\"x\xc3\xa4\"}");
    cay_free(s);
    s = cay_json_get(text, "/a/3");
    CHECK_STR(s, "null");
    cay_free(s);
    CHECK_INT(cay_json_int(text, "/a/1", 0), 7);
    CHECK_INT(cay_json_int(text, "/a/2", 0), -2);
    CHECK_INT(cay_json_int(text, "/a/0", 5), 5);
    CHECK_INT(cay_json_int(text, "/c~1d/~0", 0), 1);
    CHECK_INT(cay_json_count(text, "/a"), 4);
    CHECK_INT(cay_json_count(text, ""), 2);
    CHECK_INT(cay_json_count(text, "/none"), 0);
    CHECK(!cay_json_get(text, "/a/x"));
    CHECK(!cay_json_get(text, "/a/9"));
    CHECK(!cay_json_get(text, "a"));
    CHECK(!cay_json_get("no json", ""));
    s = cay_json_quote("a\"\n\xc3\xa4");
    CHECK_STR(s, "\"a\\\"\\n\xc3\xa4\"");
    cay_free(s);
    CHECK(!cay_json_quote("\xff"));
    s = cay_url_encode("a b/\xc3\xa4");
    CHECK_STR(s, "a%20b%2F%C3%A4");
    cay_free(s);
}

TEST(what_has_no_form_in_json_is_refused)
{
    struct cay *cay = open_at("unix:/nonexistent/cay.sock", 0, 0);
    struct cay_command bytes = {.line = "\xff"}, more = {.line = "true", .more = "[]"};
    struct cay_create pairs = {.env = (const char *const[]){"NO_VALUE", NULL}};
    struct cay_output output;
    struct cay_error err;

    CHECK_INT(cay_exec(cay, "a", &bytes, &output, &err), -1);
    CHECK_STR(err.code, "invalid");
    CHECK_INT(cay_exec(cay, "a", &more, &output, &err), -1);
    CHECK_STR(err.code, "invalid");
    CHECK_INT(cay_create(cay, &pairs, NULL, &err), -1);
    CHECK_STR(err.code, "invalid");
    CHECK_INT(cay_upload(cay, "a", "x", 0, -1, -1, -1, &err), -1);
    CHECK_STR(err.code, "failed");
    CHECK_INT(err.sys, EBADF);
    cay_close(cay);
}

TEST(addresses_that_are_none_are_refused)
{
    struct cay_options options = {.address = "https://example:1"};
    struct cay_error err;
    struct cay *cay;

    CHECK_INT(cay_open(&options, &cay, &err), -1);
    CHECK_STR(err.code, "invalid");
    CHECK_INT(cay_open(&options, &cay, NULL), -1);
}

TEST(without_a_daemon_nobody_waits_for_one)
{
    struct cay *cay = open_at("unix:/nonexistent/cay.sock", 0, 60000);
    struct cay_error err;

    CHECK_INT(cay_call(cay, "GET", "/sandbox/health", NULL, NULL, &err), -1);
    CHECK_STR(err.code, "daemon_unreachable");
    CHECK_INT(err.status, 0);
    CHECK_STR(err.method, "GET");
    CHECK_STR(err.path, "/sandbox/health");
    CHECK_STR(cay_address(cay), "unix:/nonexistent/cay.sock");
    cay_close(cay);
}

TEST(a_process_without_descriptors_is_not_told_that_there_is_no_daemon)
{
    struct cay *cay = open_at("unix:/nonexistent/cay.sock", 0, 0);
    struct rlimit usual, none;
    struct cay_error err;

    CHECK_INT(getrlimit(RLIMIT_NOFILE, &usual), 0);
    none = (struct rlimit){.rlim_max = usual.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
    CHECK_INT(cay_call(cay, "GET", "/sandbox/health", NULL, NULL, &err), -1);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &usual), 0);
    CHECK_STR(err.code, "failed");
    CHECK_INT(err.sys, EMFILE);
    cay_close(cay);
}

/* ---- against a server that says what the test wants ---- */

TEST(answers_come_as_text_and_connections_are_kept)
{
    static struct fake_http s;
    struct cay_error err;
    struct cay *cay;
    char *text;

    fake_http_start(&s, say_hello);
    cay = open_at(s.host, 0, 0);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(cay_call(cay, "GET", "/x", NULL, &text, &err), 0);
        CHECK_INT(cay_json_int(text, "/hello/2", 0), 2);
        cay_free(text);
    }
    CHECK_INT(fake_requests(&s), 3);
    CHECK_INT(fake_connections(&s), 1);
    cay_close(cay);
}

static bool refuse(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    return fake_reply(fd, "404 Not Found", "",
                      "{\"error\": \"No such thing: é\", \"code\": \"thing_not_found\"}");
}

TEST(errors_have_the_daemons_words)
{
    static struct fake_http s;
    struct cay_error err;
    struct cay *cay;

    fake_http_start(&s, refuse);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_call(cay, "POST", "/sandbox/things", "{}", NULL, &err), -1);
    CHECK_STR(err.code, "thing_not_found");
    CHECK_STR(err.message, "No such thing: é");
    CHECK_INT(err.status, 404);
    CHECK_STR(err.method, "POST");
    CHECK_INT(cay_call(cay, "POST", "/sandbox/things", "{}", NULL, NULL), -1);
    cay_close(cay);
}

static bool talk_nonsense(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    return fake_reply(fd, "500 What", "", "<html>");
}

TEST(who_is_no_daemon_is_said_to_be_none)
{
    static struct fake_http s;
    struct cay_error err;
    struct cay *cay;

    fake_http_start(&s, talk_nonsense);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_get(cay, "a", NULL, &err), -1);
    CHECK_STR(err.code, "bad_answer");
    CHECK_INT(err.status, 500);
    cay_close(cay);
}

/* Hangs up on the first of every two requests. */
static bool lose_every_other(struct fake_http *s, int fd, const struct fake_request *q)
{
    return fake_requests(s) % 2 == 1 ? false : say_hello(s, fd, q);
}

TEST(what_was_lost_is_sent_again_where_that_is_safe)
{
    static struct fake_http s;
    struct cay_error err;
    struct cay *cay;

    fake_http_start(&s, lose_every_other);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_call(cay, "GET", "/sandbox/sandboxes", NULL, NULL, &err), 0);
    CHECK_INT(fake_requests(&s), 2);
    CHECK_INT(cay_call(cay, "POST", "/sandbox/sandboxes", "{}", NULL, &err), 0);
    CHECK_INT(fake_requests(&s), 4);
    /* The first of two has to come on a new connection, where nobody repeats it unasked. */
    CHECK_INT(cay_call(cay, "POST", "/sandbox/sandboxes/a/pause", "{}", NULL, &err), -1);
    CHECK_STR(err.code, "connection_lost");
    CHECK_INT(fake_requests(&s), 5);
    cay_close(cay);
}

static char keys[4][64];

static bool keep_key(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)snprintf(keys[(fake_requests(s) - 1) % 4], sizeof(keys[0]), "%.60s", q->key);
    return lose_every_other(s, fd, q);
}

TEST(the_second_try_has_the_key_of_the_first)
{
    static struct fake_http s;
    struct cay_error err;
    struct cay *cay;

    fake_http_start(&s, keep_key);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_call(cay, "POST", "/sandbox/volumes", "{}", NULL, &err), 0);
    CHECK_INT(cay_call(cay, "POST", "/sandbox/volumes", "{}", NULL, &err), 0);
    CHECK(keys[0][0]);
    CHECK_STR(keys[0], keys[1]);
    CHECK_STR(keys[2], keys[3]);
    CHECK(strcmp(keys[0], keys[2]) != 0);
    cay_close(cay);
}

static bool be_busy(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)q;
    if (fake_requests(s) > 1)
        return say_hello(s, fd, q);
    return fake_reply(fd, "503 Busy", "Retry-After: 1\r\n",
                      "{\"error\": \"busy\", \"code\": \"sandbox_busy\"}");
}

TEST(who_is_told_to_come_again_does)
{
    static struct fake_http s;
    struct cay_error err;
    struct cay *cay;

    fake_http_start(&s, be_busy);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_call(cay, "GET", "/sandbox/sandboxes", NULL, NULL, &err), 0);
    CHECK_INT(fake_requests(&s), 2);
    cay_close(cay);
}

TEST(unless_it_cannot_be_repeated_or_has_no_patience)
{
    static struct fake_http s;
    struct cay_error err;
    struct cay *cay;

    fake_http_start(&s, be_busy);
    cay = open_at(s.host, 0, -1);
    CHECK_INT(cay_call(cay, "GET", "/sandbox/sandboxes", NULL, NULL, &err), -1);
    CHECK_STR(err.code, "sandbox_busy");
    CHECK_INT(err.retry_after, 1);
    cay_close(cay);
}

/* ---- giving up ---- */

static bool say_nothing(struct fake_http *s, int fd, const struct fake_request *q)
{
    char byte;

    if (strcmp(q->path, "/y") == 0)
        return say_hello(s, fd, q);
    (void)read(fd, &byte, 1); /* until the client hangs up */
    return false;
}

TEST(a_silent_daemon_is_given_up)
{
    static struct fake_http s;
    struct cay_error err;
    struct cay *cay;

    fake_http_start(&s, say_nothing);
    cay = open_at(s.host, 50, 0);
    CHECK_INT(cay_call(cay, "GET", "/x", NULL, NULL, &err), -1);
    CHECK_STR(err.code, "timeout");
    CHECK_INT(err.status, 0);
    cay_close(cay);
}

static void *cancel_when_asked(void *arg)
{
    struct fake_http *s = ((void **)arg)[0];

    while (fake_requests(s) == 0)
        (void)sched_yield();
    cay_cancel(((void **)arg)[1]);
    return NULL;
}

TEST(another_thread_can_cancel_for_good)
{
    static struct fake_http s;
    struct cay_error err;
    struct cay *cay, *other;
    pthread_t thread;
    void *arg[2];

    fake_http_start(&s, say_nothing);
    cay = open_at(s.host, 0, 0);
    other = cay_dup(cay);
    arg[0] = &s;
    arg[1] = cay;
    CHECK_INT(pthread_create(&thread, NULL, cancel_when_asked, arg), 0);
    CHECK_INT(cay_call(cay, "GET", "/x", NULL, NULL, &err), -1);
    CHECK_STR(err.code, "cancelled");
    (void)pthread_join(thread, NULL);
    CHECK_INT(cay_call(cay, "GET", "/x", NULL, NULL, &err), -1);
    CHECK_STR(err.code, "cancelled");
    CHECK_INT(fake_asked(&s, "/x"), 1);
    CHECK_INT(cay_call(other, "GET", "/y", NULL, NULL, &err), 0);
    cay_close(cay);
    cay_close(other);
}

static void *call_often(void *arg)
{
    for (int i = 0; i < 50; i++) {
        char *text = NULL;

        if (cay_call(arg, "GET", "/x", NULL, &text, NULL) < 0)
            return arg;
        cay_free(text);
    }
    return NULL;
}

TEST(many_threads_use_one_client)
{
    static struct fake_http s;
    struct cay *cay;
    pthread_t threads[8];
    void *failed = NULL;

    fake_http_start(&s, say_hello);
    cay = open_at(s.host, 0, 0);
    for (size_t i = 0; i < 8; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, call_often, cay), 0);
    for (size_t i = 0; i < 8; i++) {
        (void)pthread_join(threads[i], &failed);
        CHECK(!failed);
    }
    CHECK_INT(fake_requests(&s), 400);
    CHECK(fake_connections(&s) <= 8);
    cay_close(cay);
}

/* ---- commands ---- */

static void upgrade(int fd)
{
    fake_sendf(fd, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
                   "cay-exec\r\n\r\n");
}

static void put_output(struct buf *b, unsigned type, const char *text)
{
    (void)frame_put(b, type, text, strlen(text));
}

static void put_exit(struct buf *b, uint32_t code)
{
    auto_buf struct buf payload = {.max = 256};

    call_exit_put(&payload, &(struct call_exit){.how = EXIT_CODE, .code = code});
    (void)frame_put(b, FRAME_EXIT, payload.data, payload.len);
}

/* Goes when it is asked, and again when the command has put out some of it. */
static bool go_while_it_runs(struct fake_http *s, int fd, const struct fake_request *q)
{
    auto_buf struct buf b = {.max = 4096};

    if (fake_requests(s) == 1)
        return false;
    upgrade(fd);
    if (strstr(q->body, "\"cursor\":0")) {
        (void)frame_put(&b, FRAME_STARTED, "\7\0\0\0", 4);
        put_output(&b, FRAME_STDOUT, "abc");
    } else if (strstr(q->body, "\"cursor\":3")) {
        put_output(&b, FRAME_STDOUT, "def");
        put_output(&b, FRAME_STDERR, "\xff");
        put_exit(&b, 3);
    }
    fake_send(fd, b.data, b.len);
    return false;
}

TEST(a_command_is_come_back_to_where_its_output_ended)
{
    struct cay_command command = {.line = "x"};
    struct cay_output output;
    struct cay_error err;
    static struct fake_http s;
    struct cay *cay;
    char path[64];

    fake_http_start(&s, go_while_it_runs);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_exec(cay, "box", &command, &output, &err), 0);
    CHECK_STR(output.out, "abcdef");
    CHECK_STR(output.errors, "\xff");
    CHECK_INT(output.result.exit_code, 3);
    CHECK_INT(fake_requests(&s), 3);
    CHECK(strstr(s.log[0].body, output.exec_id));
    (void)snprintf(path, sizeof(path), "/exec/%s/attach", output.exec_id);
    CHECK(strstr(s.log[1].path, path));
    CHECK(strstr(s.log[2].path, path));
    cay_output_done(&output);
    cay_close(cay);
}

/* Hangs up before it says whether the command was started; it was not. */
static bool go_before_it_runs(struct fake_http *s, int fd, const struct fake_request *q)
{
    auto_buf struct buf b = {.max = 4096};

    if (fake_requests(s) == 1)
        return false;
    if (!strstr(q->path, "/exec/attach"))
        return fake_reply(fd, "404 Not Found", "",
                          "{\"error\": \"none\", \"code\": \"exec_not_found\"}");
    upgrade(fd);
    put_exit(&b, 0);
    fake_send(fd, b.data, b.len);
    return false;
}

TEST(a_start_that_was_lost_is_made_up_for_under_the_same_id)
{
    struct cay_command command = {.line = "x"};
    struct cay_output output;
    struct cay_error err;
    static struct fake_http s;
    struct cay *cay;

    fake_http_start(&s, go_before_it_runs);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_exec(cay, "box", &command, &output, &err), 0);
    CHECK_INT(fake_requests(&s), 3);
    CHECK(strstr(s.log[0].body, output.exec_id));
    CHECK(strstr(s.log[1].path, output.exec_id));
    CHECK(strstr(s.log[2].body, output.exec_id));
    cay_output_done(&output);
    cay_close(cay);
}

/* Text in its answer, bytes for who asks again. */
static bool give_text_first(struct fake_http *s, int fd, const struct fake_request *q)
{
    auto_buf struct buf b = {.max = 4096};

    (void)s;
    if (!strstr(q->path, "/attach"))
        return fake_reply(fd, "200 OK", "",
                          "{\"exitCode\": 137, \"stdout\": \"a\xef\xbf\xbd\", \"stderr\": \"\", "
                          "\"reason\": \"signal\", \"truncated\": false, \"duration\": 1}");
    upgrade(fd);
    put_output(&b, FRAME_STDOUT, "a\xff");
    put_exit(&b, 4);
    fake_send(fd, b.data, b.len);
    return false;
}

TEST(output_that_is_no_text_is_fetched_as_bytes)
{
    struct cay_command command = {.line = "x"};
    struct cay_output output;
    struct cay_error err;
    static struct fake_http s;
    struct cay *cay;

    fake_http_start(&s, give_text_first);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_exec(cay, "box", &command, &output, &err), 0);
    CHECK_STR(output.out, "a\xff");
    CHECK_INT(output.result.exit_code, 4);
    CHECK(strstr(s.log[1].path, output.exec_id));
    cay_output_done(&output);
    cay_close(cay);
}

/* Another answer for each. */
static bool give_text(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)q;
    if (fake_requests(s) > 1)
        return fake_reply(fd, "200 OK", "", "what?");
    return fake_reply(fd, "200 OK", "",
                      "{\"exitCode\": 137, \"stdout\": \"12\\u000034\", \"stderr\": \"e\", "
                      "\"reason\": \"oom\", \"oom\": true, \"truncated\": false, \"duration\": 1}");
}

TEST(output_that_is_text_needs_one_call)
{
    struct cay_command command = {.line = "x", .output_max = 4};
    struct cay_output output;
    struct cay_error err;
    static struct fake_http s;
    struct cay *cay;

    fake_http_start(&s, give_text);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_exec(cay, "box", &command, &output, &err), 0);
    CHECK_INT(output.out_len, 4);
    CHECK(memcmp(output.out,
                 "12\0"
                 "3",
                 5) == 0);
    CHECK_STR(output.errors, "e");
    CHECK_INT(output.result.signal, 9);
    CHECK(output.result.oom && output.result.truncated);
    CHECK_INT(fake_requests(&s), 1);
    cay_output_done(&output);
    CHECK_INT(cay_exec(cay, "box", &command, &output, &err), -1);
    CHECK_STR(err.code, "bad_answer");
    cay_close(cay);
}

static bool put_out_much(struct fake_http *s, int fd, const struct fake_request *q)
{
    auto_buf struct buf b = {.max = 4096};

    (void)s;
    (void)q;
    upgrade(fd);
    put_output(&b, FRAME_STDOUT, "0123456789");
    put_output(&b, FRAME_STDOUT, "0123456789");
    put_exit(&b, 0);
    fake_send(fd, b.data, b.len);
    return false;
}

TEST(output_past_the_maximum_is_dropped_and_told)
{
    struct cay_command command = {.line = "x", .output_max = 15, .input = ""};
    struct cay_output output;
    struct cay_error err;
    static struct fake_http s;
    struct cay *cay;

    fake_http_start(&s, put_out_much);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_exec(cay, "box", &command, &output, &err), 0);
    CHECK_STR(output.out, "012345678901234");
    CHECK(output.result.truncated);
    cay_output_done(&output);
    cay_close(cay);
}

static bool send_a_broken_frame(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    upgrade(fd);
    fake_send(fd, "\xff\xff\xff\xff\4\0\0\0", 8);
    return false;
}

TEST(a_stream_that_is_none_is_an_error)
{
    struct cay_command command = {.line = "x", .input = ""};
    struct cay_output output;
    struct cay_error err;
    static struct fake_http s;
    struct cay *cay;

    fake_http_start(&s, send_a_broken_frame);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_exec(cay, "box", &command, &output, &err), -1);
    CHECK_STR(err.code, "bad_answer");
    CHECK(err.exec_id[0]);
    cay_close(cay);
}

/* Reads nothing: what is written stays with the client. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static bool read_nothing(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    upgrade(fd);
    (void)pthread_mutex_lock(&gate); /* until the test lets it */
    (void)pthread_mutex_unlock(&gate);
    return false;
}

TEST(input_that_nobody_reads_is_bounded)
{
    struct cay_command command = {.line = "x", .with_input = 1};
    auto_free char *block = xcalloc(1, 1u << 20);
    struct cay_stream *stream;
    struct cay_event event;
    struct cay_error err;
    static struct fake_http s;
    struct cay *cay;
    int64_t n, all = 0;

    fake_http_start(&s, read_nothing);
    cay = open_at(s.host, 0, -1);
    (void)pthread_mutex_lock(&gate);
    CHECK_INT(cay_exec_open(cay, "box", &command, &stream, &err), 0);
    do {
        n = cay_stream_write(stream, block, 1u << 20, &err);
        CHECK(n >= 0 && n < 1 << 20);
        all += n;
    } while (n > 0 && all < 256 << 20);
    CHECK_INT(n, 0);
    CHECK_INT(cay_stream_next(stream, 0, &event, &err), 1);
    CHECK_INT(event.what, CAY_NOTHING);
    (void)pthread_mutex_unlock(&gate);
    cay_stream_close(stream);
    cay_close(cay);
}

/* Is there for the start only. */
static bool go_for_good(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)q;
    if (fake_requests(s) == 1)
        upgrade(fd);
    return false;
}

TEST(a_daemon_that_stays_away_is_waited_for_as_long_as_was_said_and_told_to_end_the_command)
{
    struct cay_command command = {.line = "x"};
    struct cay_stream *stream;
    struct cay_event event;
    struct cay_error err;
    static struct fake_http s;
    struct cay *cay;

    fake_http_start(&s, go_for_good);
    cay = open_at(s.host, 0, 300);
    CHECK_INT(cay_exec_open(cay, "box", &command, &stream, &err), 0);
    CHECK_INT(cay_stream_next(stream, -1, &event, &err), -1);
    CHECK_STR(err.code, "connection_lost");
    CHECK(fake_requests(&s) <= 3); /* the command, and a try every 200 ms within the 300 ms */
    cay_stream_close(stream);
    CHECK(strstr(s.log[fake_requests(&s) - 1].path, "/kill"));
    cay_close(cay);
}

/* Goes, refuses who comes back once, and then lets it come. */
static bool go_and_refuse_once(struct fake_http *s, int fd, const struct fake_request *q)
{
    unsigned n = fake_requests(s);
    char c;

    (void)q;
    if (n == 2)
        return fake_reply(fd, "503 Busy", "", "{\"error\": \"not now\", \"code\": \"busy\"}");
    if (n > 3)
        return fake_reply(fd, "200 OK", "", "{}");
    upgrade(fd);
    if (n == 3)
        (void)!read(fd, &c, 1); /* until the client hangs up */
    return false;
}

TEST(a_refusal_that_was_overcome_is_not_the_error_of_what_comes_later)
{
    struct cay_command command = {.line = "x"};
    struct cay_stream *stream;
    struct cay_event event;
    struct cay_error err;
    static struct fake_http s;
    struct cay *cay;

    fake_http_start(&s, go_and_refuse_once);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_exec_open(cay, "box", &command, &stream, &err), 0);
    do
        CHECK_INT(cay_stream_next(stream, 50, &event, &err), 1);
    while (fake_requests(&s) < 3);
    CHECK_INT(event.what, CAY_NOTHING);
    cay_cancel(cay);
    CHECK_INT(cay_stream_next(stream, -1, &event, &err), -1);
    CHECK_STR(err.code, "cancelled");
    CHECK_STR(err.message, "the client was cancelled");
    CHECK_INT(err.status, 0);
    cay_stream_close(stream);
    cay_close(cay);
}

/* Lets everybody come, and goes. */
static bool upgrade_and_go(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    if (strstr(q->path, "/kill"))
        return fake_reply(fd, "200 OK", "", "{}");
    upgrade(fd);
    return false;
}

TEST(who_goes_again_and_again_is_not_come_back_to_in_a_rush)
{
    struct cay_command command = {.line = "x"};
    struct cay_stream *stream;
    struct cay_event event;
    struct cay_error err;
    static struct fake_http s;
    struct cay *cay;

    fake_http_start(&s, upgrade_and_go);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_exec_open(cay, "box", &command, &stream, &err), 0);
    CHECK_INT(cay_stream_next(stream, 500, &event, &err), 1);
    CHECK_INT(event.what, CAY_NOTHING);
    CHECK(fake_requests(&s) <= 10);
    cay_stream_close(stream);
    cay_close(cay);
}

static atomic_int heard; /* bytes of the one that came back */

static bool go_and_hear(struct fake_http *s, int fd, const struct fake_request *q)
{
    auto_buf struct buf b = {.max = 4096};
    struct pollfd p = {.fd = fd, .events = POLLIN};

    (void)q;
    upgrade(fd);
    if (fake_requests(s) == 1) {
        (void)shutdown(fd, SHUT_RDWR);
        return false;
    }
    atomic_store(&heard, poll(&p, 1, 100));
    put_exit(&b, 0);
    fake_send(fd, b.data, b.len);
    return false;
}

TEST(keys_that_were_lost_with_the_daemon_are_not_the_end_of_input)
{
    struct cay_command command = {.line = "x", .with_input = 1, .tty = 1};
    struct cay_stream *stream;
    struct cay_event event;
    struct cay_error err;
    static struct fake_http s;
    struct cay *cay;

    fake_http_start(&s, go_and_hear);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_exec_open(cay, "box", &command, &stream, &err), 0);
    for (int i = 0; i < 10; i++) { /* some of them meet a connection that is broken */
        CHECK_INT(cay_stream_write(stream, "x", 1, &err), 1);
        (void)poll(NULL, 0, 5);
    }
    CHECK_INT(cay_stream_next(stream, -1, &event, &err), 1);
    CHECK_INT(event.what, CAY_EXIT);
    CHECK_INT(atomic_load(&heard), 0);
    cay_stream_close(stream);
    cay_close(cay);
}

/* ---- ports ---- */

static bool speak_first(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    fake_sendf(fd, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
                   "cay-dial\r\n\r\nSSH-2.0");
    return false;
}

TEST(what_a_port_says_at_once_is_not_lost)
{
    struct cay_error err;
    static struct fake_http s;
    auto_close int fd = -1;
    char text[8] = "";
    struct cay *cay;

    fake_http_start(&s, speak_first);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_dial(cay, "box", 22, &fd, &err), 0);
    CHECK_INT(read_exact(fd, text, 7), 0);
    CHECK_STR(text, "SSH-2.0");
    cay_close(cay);
}

/* ---- feeds ---- */

static atomic_bool hung_up;

static bool tell_and_wait(struct fake_http *s, int fd, const struct fake_request *q)
{
    char c;

    (void)s;
    (void)q;
    fake_sendf(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n");
    atomic_store(&hung_up, read(fd, &c, 1) == 0);
    return false;
}

TEST(a_feed_that_is_closed_ends_at_the_daemon_too)
{
    struct cay_feed *feed;
    struct cay_error err;
    static struct fake_http s;
    const char *event;
    struct cay *cay;

    fake_http_start(&s, tell_and_wait);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_feed_open(cay, "GET", "/y", NULL, &feed, &err), 0);
    CHECK_INT(cay_feed_next(feed, -1, &event, &err), 1);
    cay_feed_close(feed);
    for (int i = 0; i < 2000 && !atomic_load(&hung_up); i++)
        (void)poll(NULL, 0, 1);
    CHECK(atomic_load(&hung_up));
    cay_close(cay);
}

static bool tell_and_stay(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    return fake_reply(fd, "200 OK", "Content-Type: text/event-stream\r\n", "data: {}\n\n");
}

TEST(a_feed_whose_length_was_said_ends_though_the_connection_stays)
{
    struct cay_feed *feed;
    struct cay_error err;
    static struct fake_http s;
    const char *event;
    struct cay *cay;

    fake_http_start(&s, tell_and_stay);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_feed_open(cay, "GET", "/y", NULL, &feed, &err), 0);
    CHECK_INT(cay_feed_next(feed, 10000, &event, &err), 1);
    CHECK_STR(event, "{}");
    CHECK_INT(cay_feed_next(feed, 10000, &event, &err), 0);
    cay_feed_close(feed);
    cay_close(cay);
}

static bool tell_nothing_and_go(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    fake_sendf(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    return false;
}

TEST(a_feed_that_ends_again_and_again_is_not_asked_in_a_rush)
{
    struct cay_feed *feed;
    struct cay_error err;
    static struct fake_http s;
    const char *event;
    struct cay *cay;

    fake_http_start(&s, tell_nothing_and_go);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_events(cay, NULL, NULL, &feed, &err), 0);
    CHECK_INT(cay_feed_next(feed, 500, &event, &err), 1);
    CHECK(!event);
    CHECK(fake_requests(&s) <= 10);
    cay_feed_close(feed);
    cay_close(cay);
}

static bool tell_and_go(struct fake_http *s, int fd, const struct fake_request *q)
{
    bool first = fake_requests(s) == 1;

    (void)q;
    fake_sendf(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    fake_sendf(fd, ": ping\n\nid: x\ndata: {\"id\": \"evt_%d\"}\n\n", first ? 1 : 2);
    return false;
}

TEST(events_go_on_behind_the_last_one)
{
    struct cay_feed *feed;
    struct cay_error err;
    static struct fake_http s;
    const char *event;
    struct cay *cay;

    fake_http_start(&s, tell_and_go);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_events(cay, "a.*", "my box", &feed, &err), 0);
    CHECK_INT(cay_feed_next(feed, -1, &event, &err), 1);
    CHECK_STR(event, "{\"id\": \"evt_1\"}");
    CHECK_INT(cay_feed_next(feed, -1, &event, &err), 1);
    CHECK_STR(event, "{\"id\": \"evt_2\"}");
    CHECK(strstr(s.log[0].path, "topic=a.%2A&sandboxId=my%20box"));
    CHECK(!strstr(s.log[0].path, "lastEventId"));
    CHECK(strstr(s.log[1].path, "lastEventId=evt_1"));
    cay_feed_close(feed);
    CHECK_INT(cay_feed_open(cay, "GET", "/y", NULL, &feed, &err), 0);
    CHECK_INT(cay_feed_next(feed, -1, &event, &err), 1);
    CHECK_INT(cay_feed_next(feed, -1, &event, &err), 0);
    cay_feed_close(feed);
    cay_close(cay);
}

/* ---- files ---- */

TEST(a_call_after_a_broken_upload_is_no_part_of_it)
{
    auto_close int fd = memfd_create("short", MFD_CLOEXEC);
    struct cay_error err;
    static struct fake_http s;
    struct cay *cay;

    CHECK_INT(write_all(fd, "abc", 3), 0);
    CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
    fake_http_start(&s, say_hello);
    cay = open_at(s.host, 2000, 0);
    CHECK_INT(cay_upload(cay, "box", "f", 0, fd, 1000, -1, &err), -1);
    CHECK_INT(cay_call(cay, "GET", "/next", NULL, NULL, &err), 0);
    CHECK_INT(fake_asked(&s, "/next"), 1);
    CHECK_INT(fake_requests(&s), 1);
    cay_close(cay);
}

/* ---- what is too much ---- */

static bool send_much(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    fake_sendf(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: "
                   "100\r\n\r\n");
    for (int i = 0; i < 10; i++)
        fake_send(fd, "0123456789", 10);
    return true;
}

TEST(files_are_read_up_to_a_maximum)
{
    static struct fake_http s;
    struct cay_error err;
    struct cay *cay;
    char *data = NULL;
    size_t len = 0;

    fake_http_start(&s, send_much);
    cay = open_at(s.host, 0, 0);
    CHECK_INT(cay_read_file(cay, "a", "f", 0, 100, &data, &len, &err), 0);
    CHECK_INT(len, 100);
    CHECK_STR(data + 90, "0123456789");
    cay_free(data);
    CHECK_INT(cay_read_file(cay, "a", "f", 0, SIZE_MAX, &data, &len, &err), 0);
    CHECK_INT(len, 100);
    cay_free(data);
    CHECK_INT(cay_read_file(cay, "a", "f", 0, 99, &data, &len, &err), -1);
    CHECK_STR(err.code, "too_large");
    cay_close(cay);
}

TAP_MAIN
