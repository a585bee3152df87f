/* libcay against a live daemon, as a program of others would use it: what the conformance adapter
 * cannot show. CAY_HOST says where the daemon is. */
#include <cay.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            TAP_FAIL("%s: %s (%s)", #call, err.message, err.code);                                 \
    } while (0)

static struct cay *cay;
static struct cay_sandbox box;
static struct cay_error err;

static void setup(void)
{
    OK(cay_open(NULL, &cay, &err));
    OK(cay_create(cay, NULL, &box, &err));
}

static void teardown(void)
{
    OK(cay_kill(cay, box.id, &err));
    cay_sandbox_done(&box);
    cay_close(cay);
}

/* Takes output until the text has come, which may be in pieces. */
static void until(struct cay_stream *s, const char *text)
{
    char seen[4096] = "";
    size_t len = 0;

    while (!strstr(seen, text)) {
        struct cay_event e;

        OK(cay_stream_next(s, -1, &e, &err));
        if (e.what == CAY_EXIT)
            TAP_FAIL("it ended before it said \"%s\": %s", text, seen);
        if (e.what != CAY_STDOUT && e.what != CAY_STDERR)
            continue;
        CHECK(len + e.len < sizeof(seen));
        memcpy(seen + len, e.data, e.len);
        len += e.len;
        seen[len] = '\0';
    }
}

static int exit_code(struct cay_stream *s)
{
    struct cay_event e = {0};

    while (e.what != CAY_EXIT)
        OK(cay_stream_next(s, -1, &e, &err));
    CHECK_INT(cay_stream_next(s, -1, &e, &err), 0);
    return e.result.exit_code;
}

/* ---- commands ---- */

TEST(a_terminal_has_a_size_input_and_signals)
{
    struct cay_command command = {
        .line = "trap 'echo [interrupted]; exit 5' INT; trap 'echo [$(stty size)]' WINCH; echo "
                "[$(stty size)]; while :; do read line && echo [$line]; done",
        .tty = 1,
        .with_input = 1,
        .rows = 30,
        .cols = 100};
    struct cay_stream *s;

    setup();
    OK(cay_exec_open(cay, box.id, &command, &s, &err));
    until(s, "[30 100]");
    CHECK_INT(cay_stream_write(s, "hi\n", 3, &err), 3);
    until(s, "[hi]");
    OK(cay_stream_resize(s, 40, 120, &err));
    CHECK_INT(cay_stream_write(s, "\n", 1, &err), 1);
    until(s, "[40 120]");
    OK(cay_stream_signal(s, SIGINT, &err));
    until(s, "[interrupted]");
    CHECK_INT(exit_code(s), 5);
    cay_stream_close(s);
    teardown();
}

static void *write_much(void *arg)
{
    char block[10000];

    memset(block, 'x', sizeof(block));
    for (int64_t left = 4000000; left > 0;) {
        int64_t n = cay_stream_write(arg, block, left < 10000 ? (size_t)left : 10000, NULL);

        if (n < 0)
            return arg;
        if (n == 0)
            (void)sched_yield(); /* CAY_ROOM is for who reads: this thread just tries again */
        left -= n;
    }
    return cay_stream_end_input(arg, NULL) < 0 ? arg : NULL;
}

TEST(one_thread_writes_while_another_reads)
{
    static const char *const argv[] = {"cat", NULL};
    struct cay_command command = {.argv = argv, .with_input = 1};
    struct cay_event e = {0};
    struct cay_stream *s;
    pthread_t thread;
    size_t all = 0;
    void *failed;

    setup();
    OK(cay_exec_open(cay, box.id, &command, &s, &err));
    CHECK_INT(pthread_create(&thread, NULL, write_much, s), 0);
    while (e.what != CAY_EXIT) {
        OK(cay_stream_next(s, -1, &e, &err));
        if (e.what == CAY_STDOUT)
            all += e.len;
    }
    (void)pthread_join(thread, &failed);
    CHECK(!failed);
    CHECK_INT(all, 4000000);
    CHECK_INT(e.result.exit_code, 0);
    cay_stream_close(s);
    teardown();
}

TEST(input_and_output_of_cay_exec_are_bytes)
{
    static char input[300000];
    static const char *const argv[] = {"cat", NULL};
    struct cay_command command = {.argv = argv, .input = input, .input_len = sizeof(input)};
    struct cay_output output;

    for (size_t i = 0; i < sizeof(input); i++)
        input[i] = (char)(i * 31 + (i >> 8));
    setup();
    OK(cay_exec(cay, box.id, &command, &output, &err));
    CHECK_INT(output.out_len, sizeof(input));
    CHECK(memcmp(output.out, input, sizeof(input)) == 0);
    cay_output_done(&output);
    command.input_len = 0; /* there is input, and it ends at once */
    OK(cay_exec(cay, box.id, &command, &output, &err));
    CHECK_INT(output.out_len, 0);
    CHECK_INT(output.result.exit_code, 0);
    cay_output_done(&output);
    teardown();
}

static void *run_for_long(void *arg)
{
    struct cay_command command = {.line = "echo $$ >pid; exec sleep 1000"};
    struct cay_output output;
    struct cay_error why;

    if (cay_exec(arg, box.id, &command, &output, &why) == 0)
        return arg;
    return strcmp(why.code, "cancelled") == 0 && why.exec_id[0] ? NULL : arg;
}

/* Waits for an event of the sandbox that says so. */
static void await_event(struct cay_feed *feed, const char *topic)
{
    for (;;) {
        const char *event;
        char *is;
        bool found;

        OK(cay_feed_next(feed, -1, &event, &err));
        is = cay_json_get(event, "/topic");
        found = strcmp(is, topic) == 0;
        cay_free(is);
        if (found)
            return;
    }
}

TEST(another_thread_cancels_and_the_command_ends)
{
    struct cay_command look = {.line = "while kill -0 $(cat pid) 2>/dev/null; do sleep 0.01; done"};
    struct cay_output output;
    struct cay_feed *feed;
    struct cay *other;
    pthread_t thread;
    void *failed;

    setup();
    other = cay_dup(cay);
    OK(cay_events(cay, "exec.*", box.id, &feed, &err));
    CHECK_INT(pthread_create(&thread, NULL, run_for_long, other), 0);
    await_event(feed, "exec.started");
    cay_cancel(other);
    (void)pthread_join(thread, &failed);
    CHECK(!failed);
    await_event(feed, "exec.finished");
    OK(cay_exec(cay, box.id, &look, &output, &err));
    cay_output_done(&output);
    cay_feed_close(feed);
    cay_close(other);
    teardown();
}

TEST(who_comes_back_gets_all_of_the_output)
{
    struct cay_command command = {
        .line = "echo one; read line; echo $line; exit 4", .with_input = 1, .detach = 1};
    struct cay_stream *s;
    char id[40];

    setup();
    OK(cay_exec_open(cay, box.id, &command, &s, &err));
    until(s, "one");
    CHECK_INT(cay_stream_cursor(s), 4);
    (void)snprintf(id, sizeof(id), "%s", cay_stream_exec_id(s));
    cay_stream_close(s);
    OK(cay_exec_again(cay, box.id, id, 0, CAY_INPUT, &s, &err));
    until(s, "one");
    CHECK_INT(cay_stream_write(s, "two\n", 4, &err), 4);
    until(s, "two");
    CHECK_INT(exit_code(s), 4);
    cay_stream_close(s);
    CHECK_INT(cay_exec_again(cay, box.id, "ex_000000000000000000000000", 0, CAY_READ, &s, &err),
              -1);
    CHECK_STR(err.code, "exec_not_found");
    CHECK_INT(err.status, 404);
    teardown();
}

TEST(a_stream_that_is_closed_ends_its_command)
{
    struct cay_command command = {.line = "echo started; sleep 1000"};
    struct cay_feed *feed;
    struct cay_stream *s;

    setup();
    OK(cay_events(cay, "exec.finished", box.id, &feed, &err));
    OK(cay_exec_open(cay, box.id, &command, &s, &err));
    until(s, "started");
    cay_stream_close(s);
    await_event(feed, "exec.finished");
    cay_feed_close(feed);
    teardown();
}

static void *exec_often(void *arg)
{
    for (int i = 0; i < 5; i++) {
        char want[32], line[64];
        struct cay_command command = {.line = line};
        struct cay_output output;
        bool same;

        (void)snprintf(want, sizeof(want), "%p %d\n", (void *)&command, i);
        (void)snprintf(line, sizeof(line), "echo %s", want);
        if (cay_exec(arg, box.id, &command, &output, NULL) < 0)
            return arg;
        same = strcmp(output.out, want) == 0;
        cay_output_done(&output);
        if (!same)
            return arg;
    }
    return NULL;
}

TEST(threads_share_a_client)
{
    pthread_t threads[16];
    void *failed;

    setup();
    for (size_t i = 0; i < 16; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, exec_often, cay), 0);
    for (size_t i = 0; i < 16; i++) {
        (void)pthread_join(threads[i], &failed);
        CHECK(!failed);
    }
    teardown();
}

/* ---- files ---- */

TEST(files_come_from_pipes_and_go_to_them)
{
    char *back = NULL;
    int in[2], out[2];
    size_t len = 0;
    char data[8] = "";

    setup();
    CHECK_INT(pipe(in), 0);
    CHECK_INT(pipe(out), 0);
    CHECK_INT(write(in[1], "a\0b\n", 4), 4);
    (void)close(in[1]);
    OK(cay_upload(cay, box.id, "sub/f", 0, in[0], -1, 0750, &err));
    OK(cay_download(cay, box.id, "sub/f", 0, out[1], &err));
    CHECK_INT(read(out[0], data, sizeof(data)), 4);
    CHECK(memcmp(data, "a\0b\n", 4) == 0);
    OK(cay_read_file(cay, box.id, "/etc/passwd", CAY_ANYWHERE, 0, &back, &len, &err));
    CHECK(len > 0 && strlen(back) == len);
    cay_free(back);
    CHECK_INT(cay_read_file(cay, box.id, "/etc/passwd", 0, 0, &back, &len, &err), -1);
    CHECK_STR(err.code, "path_traversal");
    CHECK_INT(cay_download(cay, box.id, "none", 0, out[1], &err), -1);
    CHECK_STR(err.code, "file_not_found");
    CHECK_INT(cay_write_file(cay, box.id, "\xff\n", 0, "x", 1, -1, &err), 0);
    OK(cay_read_file(cay, box.id, "\xff\n", 0, 0, &back, &len, &err));
    CHECK_STR(back, "x");
    cay_free(back);
    for (int i = 0; i < 2; i++)
        (void)close(out[i]);
    (void)close(in[0]);
    teardown();
}

/* ---- ports ---- */

TEST(a_port_of_the_sandbox_can_be_dialled)
{
    struct cay_command command = {
        .line = "exec python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 8080)); "
                "print(\"listens\", flush=True); c, _ = s.accept(); c.sendall(c.recv(100)[::-1])'"};
    struct cay_stream *s;
    char data[8] = "";
    int fd;

    setup();
    OK(cay_exec_open(cay, box.id, &command, &s, &err));
    until(s, "listens");
    OK(cay_dial(cay, box.id, 8080, &fd, &err));
    CHECK_INT(write(fd, "abc", 3), 3);
    CHECK_INT(read(fd, data, sizeof(data)), 3);
    CHECK_STR(data, "cba");
    (void)close(fd);
    CHECK_INT(exit_code(s), 0);
    cay_stream_close(s);
    CHECK_INT(cay_dial(cay, box.id, 8081, &fd, &err), -1);
    CHECK_STR(err.code, "port_closed");
    teardown();
}

/* ---- lists ---- */

TEST(lists_are_of_every_page_and_filtered)
{
    static const char *const metadata[] = {"of=drive", NULL};
    struct cay_create create = {.metadata = metadata, .name = "drive with spaces"};
    struct cay_sandbox other, *list;
    bool found = false;
    size_t n;

    setup();
    OK(cay_create(cay, &create, &other, &err));
    OK(cay_list(cay, NULL, &list, &n, &err));
    for (size_t i = 0; i < n; i++)
        found |= strcmp(list[i].id, box.id) == 0;
    CHECK(found && n >= 2);
    cay_list_free(list, n);
    OK(cay_list(cay, "metadata=%7B%22of%22%3A%22drive%22%7D", &list, &n, &err));
    CHECK_INT(n, 1);
    CHECK_STR(list[0].id, other.id);
    CHECK_STR(list[0].name, "drive with spaces");
    cay_list_free(list, n);
    OK(cay_kill(cay, "drive with spaces", &err));
    cay_sandbox_done(&other);
    teardown();
}

TAP_MAIN
