#include "test_face.h"

/* Calls that take time, seen by a face without HTTP: what goes out while they run, what comes in,
 * and how they end when nobody waits for them any more. */

/* ---- what commands and tests tell each other ---- */

/* A fifo in the workspace that both ends of can be used here; the name is a path. */
static int fifo_new(const char *name)
{
    int fd;

    CHECK_INT(mkfifo(in_files(name), 0600), 0);
    fd = open(in_files(name), O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

/* Waits for the pid that a command writes: a pidfd of it. */
static int pidfd_from(int fifo)
{
    char text[32] = "";
    int fd;

    CHECK(read_some(fifo, text, sizeof(text) - 1) > 0);
    fd = pidfd_open((pid_t)strtol(text, NULL, 10), 0);
    CHECK(fd >= 0);
    return fd;
}

static void check_ended(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    CHECK_INT(poll(&p, 1, PATIENCE_MS), 1);
}

static bool is_alive(int pidfd)
{
    return poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, 0) == 0;
}

#define SLEEPER "{\"command\": \"echo $$ >pids; exec sleep 1000\"}"

static void begin(struct face *f)
{
    if (face_begin(f) < 0)
        TAP_FAIL("%s: %s", f->function->id, f->err.text);
}

/* One step; before it, until the task can go on. */
static int step(struct face *f, bool wait)
{
    struct task *t = f->call.task;
    struct pollfd p = {.fd = t->events ? t->fd : -1, .events = (short)t->events};

    if (wait)
        (void)poll(&p, 1, t->until_ns ? 100 : PATIENCE_MS);
    return t->ops->step(t, &f->call, &f->err);
}

/* Until the sink has n events. */
static void step_to_events(struct face *f, size_t n)
{
    int r = TASK_AGAIN;

    while (json_array_size(f->events) < n) {
        r = step(f, r == TASK_WAITS);
        if (r <= 0)
            TAP_FAIL("%s has ended after %zu events: %s", f->function->id,
                     json_array_size(f->events), f->err.text);
    }
}

static const json_t *event_of(const struct face *f, size_t i)
{
    const json_t *event = json_array_get(f->events, i);

    CHECK(event);
    return event;
}

static const char *bytes_of(struct face *f, enum channel channel)
{
    return f->bytes[channel].data ? f->bytes[channel].data : "";
}

/* ---- nobody waits any more ---- */

TEST(a_deadline_ends_the_call_and_its_command)
{
    auto_close int pids = -1, process = -1;
    struct face f;

    up("{\"image\": \"host\"}");
    pids = fifo_new("pids");
    face_text(&f, "cmd::run", SLEEPER);
    begin(&f);
    process = pidfd_from(pids);
    f.call.deadline_ns = mono_ns() + 10000000;
    CHECK_INT(call_wait(&f.call, 0, &f.err), -1);
    CHECK_STR(code_of(&f), "cancelled");
    CHECK(is_alive(process)); /* it is the end of the call that ends it */
    face_done(&f);
    check_ended(process);
    down();
}

static bool is_gone(void *arg)
{
    return *(bool *)arg;
}

TEST(a_caller_that_goes_away_ends_the_call_and_its_command)
{
    auto_close int pids = -1, process = -1, ours = -1, theirs = -1;
    bool gone = false;
    int pair[2];
    struct face f;

    up("{\"image\": \"host\"}");
    pids = fifo_new("pids");
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ours = pair[0];
    theirs = pair[1];
    face_text(&f, "cmd::run_stream", SLEEPER);
    f.call.gone = is_gone;
    f.call.gone_arg = &gone;
    f.call.gone_fd = ours;
    begin(&f);
    process = pidfd_from(pids);
    CHECK(call_is_wanted(&f.call));
    gone = true;
    close_fd(&theirs);
    CHECK_INT(call_wait(&f.call, 0, &f.err), -1);
    CHECK_STR(code_of(&f), "cancelled");
    face_done(&f);
    check_ended(process);
    down();
}

TEST(a_sink_that_takes_no_more_ends_the_call_and_its_command)
{
    auto_close int pids = -1, process = -1;
    struct face f;

    up("{\"image\": \"host\"}");
    pids = fifo_new("pids");
    face_text(&f, "cmd::run_stream", "{\"command\": \"echo $$ >pids; exec yes\"}");
    f.takes = 3;
    begin(&f);
    process = pidfd_from(pids);
    CHECK_INT(call_wait(&f.call, 0, &f.err), -1);
    CHECK_STR(code_of(&f), "cancelled");
    CHECK_INT(json_array_size(f.events), 4);
    face_done(&f);
    check_ended(process);
    down();
}

/* The longest time that this thread has asked poll() to wait. */
static _Thread_local int64_t longest_poll_ms;

/* In place of the one of the C library. */
int poll(struct pollfd *fds, nfds_t n, int ms)
{
    struct timespec limit = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l};

    if (ms < 0)
        longest_poll_ms = INT64_MAX;
    else if (ms > longest_poll_ms)
        longest_poll_ms = ms;
    return ppoll(fds, n, ms < 0 ? NULL : &limit, NULL);
}

TEST(a_deadline_ends_a_wait_for_a_pull)
{
    struct face f;

    up("{\"image\": \"host\"}");
    fake_images_hold(true);
    longest_poll_ms = 0;
    while (longest_poll_ms == 0) { /* on a slow machine the deadline may pass before the wait */
        face_text(&f, "image::pull", "{\"reference\": \"far:1\"}");
        f.call.deadline_ns = mono_ns() + 10000000;
        face_fails(&f, "cancelled");
        face_done(&f);
    }
    CHECK(longest_poll_ms <= 10); /* it wakes then, not at its tick */
    fake_images_hold(false);
    down();
}

static void time_is_over(struct face *f)
{
    f->call.deadline_ns = mono_ns();
}

TEST(a_deadline_ends_what_is_being_sent)
{
    struct face f;

    up("{\"image\": \"host\"}");
    do_call("fs::write", "{\"path\": \"a\", \"content\": \"text\"}");
    face_text(&f, "fs::download", "{\"path\": \"a\"}");
    f.on_size = time_is_over;
    face_fails(&f, "cancelled");
    CHECK_INT(f.bytes[CHANNEL_ANSWER].len, 0);
    face_done(&f);
    down();
}

TEST(a_daemon_that_is_about_to_end_ends_streams_but_no_commands)
{
    auto_close int go = -1;
    struct face logs, metrics, command;

    up("{\"image\": \"host\", \"entrypoint\": [\"sh\", \"-c\", \"echo one; sleep 1000\"]}");
    go = fifo_new("go");
    face_text(&logs, "stream::logs", "{}");
    begin(&logs);
    step_to_events(&logs, 1);
    face_text(&metrics, "stream::metrics", "{}");
    begin(&metrics);
    face_text(&command, "cmd::run", "{\"command\": \"read x <go; echo $x\"}");
    begin(&command);
    CHECK_INT(step(&logs, false), TASK_WAITS);
    CHECK_INT(step(&metrics, false), TASK_WAITS);

    logs.call.draining = metrics.call.draining = command.call.draining = true;
    CHECK_INT(step(&logs, false), TASK_DONE);
    CHECK_STR(str(event_of(&logs, 1), "type"), "end");
    CHECK_INT(step(&metrics, false), TASK_DONE);
    CHECK_INT(json_array_size(metrics.events), 1);
    CHECK_INT(step(&command, false), TASK_WAITS);
    CHECK_INT(write_all(go, "on\n", 3), 0);
    CHECK_INT(call_wait(&command.call, 0, &command.err), 0);
    face_check(&command);
    CHECK_STR(str(command.call.out, "stdout"), "on\n");
    face_done(&logs);
    face_done(&metrics);
    face_done(&command);
    down();
}

/* ---- step by step ---- */

/* What a face does not ask for stays where it is: a step gives one piece, and a command that has
 * more to say waits. */
TEST(nothing_piles_up_while_nobody_reads)
{
    const size_t total = 8 << 20;
    auto_close int pids = -1, process = -1;
    size_t got;
    int r = TASK_AGAIN;
    struct face f;

    up("{\"image\": \"host\"}");
    pids = fifo_new("pids");
    face_text(&f, "cmd::attach",
              "{\"command\": \"echo $$ >pids; exec head -c 8388608 /dev/zero\"}");
    begin(&f);
    process = pidfd_from(pids);
    while (f.bytes[CHANNEL_STDOUT].len == 0)
        r = step(&f, r == TASK_WAITS);
    got = f.bytes[CHANNEL_STDOUT].len;
    CHECK(got <= FRAME_MAX);
    for (int i = 0; i < 20; i++) /* meanwhile others come to their end */
        do_call("cmd::run", "{\"command\": \"true\"}");
    CHECK_INT(f.bytes[CHANNEL_STDOUT].len, got);
    CHECK(is_alive(process));
    while (r > 0) {
        got = f.bytes[CHANNEL_STDOUT].len;
        r = step(&f, r == TASK_WAITS);
        CHECK(f.bytes[CHANNEL_STDOUT].len - got <= FRAME_MAX);
    }
    CHECK_INT(r, TASK_DONE);
    CHECK_INT(f.bytes[CHANNEL_STDOUT].len, total);
    face_check(&f);
    face_done(&f);
    check_ended(process);
    down();
}

/* ---- commands ---- */

TEST(a_streamed_command_tells_its_output_and_its_exit)
{
    struct face f;

    up("{\"image\": \"host\"}");
    face_text(&f, "cmd::run_stream", "{\"command\": \"printf a; printf b >&2; exit 3\"}");
    face_succeeds(&f);
    face_check(&f);
    CHECK_INT(json_array_size(f.events), 3);
    for (size_t i = 0; i < 2; i++) { /* two pipes: either can be first */
        bool out = strcmp(str(event_of(&f, i), "type"), "stdout") == 0;

        CHECK_STR(str(event_of(&f, i), "type"), out ? "stdout" : "stderr");
        CHECK_STR(str(event_of(&f, i), "data"), out ? "a" : "b");
    }
    CHECK_STR(str(event_of(&f, 2), "type"), "exit");
    CHECK_STR(str(event_of(&f, 2), "data"), "3");
    face_done(&f);
    down();
}

/* Until the command has said text. */
static void step_to_output(struct face *f, const char *text)
{
    int r = TASK_AGAIN;

    while (!strstr(bytes_of(f, CHANNEL_STDOUT), text)) {
        r = step(f, r == TASK_WAITS);
        if (r <= 0)
            TAP_FAIL("it has ended and said \"%s\"", bytes_of(f, CHANNEL_STDOUT));
    }
}

static void send_input(struct face *f, struct input in)
{
    struct task *t = f->call.task;

    CHECK(t->takes_input);
    CHECK_INT(t->ops->input(t, &in, &f->err), 0);
}

static void send_text(struct face *f, const char *text)
{
    send_input(f, (struct input){.what = INPUT_STDIN, .data = text, .len = strlen(text)});
}

static void check_exit(struct face *f, int code, const char *reason)
{
    if (call_wait(&f->call, 0, &f->err) < 0)
        TAP_FAIL("%s", f->err.text);
    face_check(f);
    CHECK_INT(num(f->call.out, "exitCode"), code);
    CHECK_STR(str(f->call.out, "reason"), reason);
    face_done(f);
}

TEST(an_attached_command_takes_input_to_its_end)
{
    struct face f;

    up("{\"image\": \"host\"}");
    face_text(&f, "cmd::attach", "{\"command\": \"cat; echo over >&2; exit 4\", \"stdin\": true}");
    begin(&f);
    step_to_events(&f, 1);
    CHECK(num(event_of(&f, 0), "pid") > 0);
    send_text(&f, "ping");
    step_to_output(&f, "ping");
    send_text(&f, "pong");
    send_input(&f, (struct input){.what = INPUT_STDIN});
    step_to_output(&f, "pingpong");
    check_exit(&f, 4, "exit");
    down();
}

TEST(an_attached_terminal_changes_its_size)
{
    struct face f;

    up("{\"image\": \"host\"}");
    face_text(&f, "cmd::attach",
              "{\"command\": \"stty size; read x; stty size\", \"tty\": true, "
              "\"stdin\": true, \"rows\": 11, \"cols\": 22}");
    begin(&f);
    step_to_output(&f, "11 22");
    send_input(&f, (struct input){.what = INPUT_RESIZE, .first = 33, .second = 101});
    send_text(&f, "\n");
    step_to_output(&f, "33 101");
    check_exit(&f, 0, "exit");
    down();
}

TEST(an_attached_command_gets_signals)
{
    struct face f;

    up("{\"image\": \"host\"}");
    face_text(&f, "cmd::attach",
              "{\"command\": \"trap 'exit 5' USR1; echo ready; sleep 1000 & wait\"}");
    begin(&f);
    step_to_output(&f, "ready");
    send_input(&f, (struct input){.what = INPUT_SIGNAL, .first = SIGUSR1});
    check_exit(&f, 5, "exit");
    face_text(&f, "cmd::attach", "{\"command\": \"echo ready; exec sleep 1000\"}");
    begin(&f);
    step_to_output(&f, "ready");
    send_input(&f, (struct input){.what = INPUT_SIGNAL, .first = SIGKILL});
    check_exit(&f, 137, "signal");
    down();
}

/* ---- streams ---- */

static int go_fd;

static void go_on_after_first(struct face *f, const json_t *event)
{
    (void)event;
    if (json_array_size(f->events) == 1)
        CHECK_INT(write_all(go_fd, "\n", 1), 0);
}

TEST(a_log_is_followed_to_its_end)
{
    struct face f;

    engine_up();
    go_fd = fifo_new("go");
    sandbox_new("{\"image\": \"host\", \"entrypoint\": [\"sh\", \"-c\", "
                "\"echo one; read x <go; echo two; printf three\"]}");
    face_text(&f, "stream::logs", "{}");
    f.on_event = go_on_after_first;
    face_succeeds(&f);
    face_check(&f);
    CHECK_INT(json_array_size(f.events), 4);
    CHECK_STR(str(event_of(&f, 0), "data"), "one");
    CHECK_STR(str(event_of(&f, 1), "data"), "two");
    CHECK_STR(str(event_of(&f, 2), "data"), "three");
    CHECK_STR(str(event_of(&f, 3), "type"), "end");
    face_done(&f);
    (void)close(go_fd);
    down();
}

static void end_sandbox_after_second(struct face *f, const json_t *event)
{
    CHECK_STR(str(event, "sandboxId"), sandbox);
    if (json_array_size(f->events) < 2)
        return;
    do_call("sandbox::kill", "{}");
    f->call.task->until_ns = mono_ns();
}

TEST(metrics_are_streamed_until_the_sandbox_goes)
{
    struct face f;

    up("{\"image\": \"host\"}");
    face_text(&f, "stream::metrics", "{\"interval\": 1}");
    f.on_event = end_sandbox_after_second;
    CHECK_INT(face_begin(&f), 0);
    f.call.task->until_ns = mono_ns(); /* as if the interval were over */
    CHECK_INT(call_wait(&f.call, 0, &f.err), 0);
    face_check(&f);
    CHECK_INT(json_array_size(f.events), 2);
    face_done(&f);
    down();
}

/* ---- bytes ---- */

#define FILE_BYTES (300u << 10)

/* Every value of a byte, in an order that no piece repeats. */
static char *all_bytes(void)
{
    char *data = xmalloc(FILE_BYTES);

    for (size_t i = 0; i < FILE_BYTES; i++)
        data[i] = (char)(i + i / 256);
    return data;
}

static void upload(const char *data, size_t len)
{
    struct face f;

    face_text(&f, "fs::upload", "{\"path\": \"file\", \"mode\": \"0640\"}");
    f.upload = data;
    f.upload_len = len;
    face_succeeds(&f);
    face_check(&f);
    face_done(&f);
}

TEST(bytes_come_back_as_they_were_sent)
{
    auto_free char *data = all_bytes();
    struct stat st;
    struct face f;

    up("{\"image\": \"host\"}");
    upload(data, FILE_BYTES);
    CHECK_INT(stat(in_files("file"), &st), 0);
    CHECK_INT(st.st_mode & 07777, 0640);
    face_text(&f, "fs::download", "{\"path\": \"file\"}");
    face_succeeds(&f);
    face_check(&f);
    CHECK_INT(f.size, FILE_BYTES);
    CHECK_INT(f.bytes[CHANNEL_ANSWER].len, FILE_BYTES);
    CHECK(memcmp(f.bytes[CHANNEL_ANSWER].data, data, FILE_BYTES) == 0);
    face_done(&f);
    down();
}

TEST(an_upload_whose_source_fails_leaves_the_old_file)
{
    auto_free char *data = all_bytes();
    struct face f;
    json_t *text;

    up("{\"image\": \"host\"}");
    do_call("fs::write", "{\"path\": \"file\", \"content\": \"old\"}");
    face_text(&f, "fs::upload", "{\"path\": \"file\"}");
    f.upload = data;
    f.upload_len = FILE_BYTES;
    f.upload_breaks = true;
    face_fails(&f, "cancelled");
    face_done(&f);
    text = ask("fs::read", "{\"path\": \"file\"}");
    CHECK_STR(json_string_value(text), "old");
    json_decref(text);
    down();
}

static void resize_file(off_t size)
{
    CHECK_INT(truncate(in_files("file"), size), 0);
}

static void grow_file(struct face *f)
{
    resize_file(f->size + (1 << 20));
}

TEST(a_file_that_grows_is_sent_as_long_as_it_was)
{
    auto_free char *data = all_bytes();
    struct face f;

    up("{\"image\": \"host\"}");
    upload(data, FILE_BYTES);
    face_text(&f, "fs::read", "{\"path\": \"file\"}");
    f.on_size = grow_file;
    face_succeeds(&f);
    face_check(&f);
    CHECK_INT(f.size, FILE_BYTES);
    CHECK_INT(f.bytes[CHANNEL_ANSWER].len, FILE_BYTES);
    CHECK(memcmp(f.bytes[CHANNEL_ANSWER].data, data, FILE_BYTES) == 0);
    face_done(&f);
    down();
}

static void shrink_file(struct face *f)
{
    (void)f;
    resize_file(1);
}

/* Larger than what the agent can have read ahead. */
TEST(a_file_that_shrinks_is_no_answer)
{
    struct face f;

    up("{\"image\": \"host\"}");
    do_call("fs::write", "{\"path\": \"file\", \"content\": \"\"}");
    resize_file(32 << 20);
    face_text(&f, "fs::download", "{\"path\": \"file\"}");
    f.on_size = shrink_file;
    face_fails(&f, "file_changed");
    CHECK(f.bytes[CHANNEL_ANSWER].len < 32 << 20);
    face_done(&f);
    down();
}

/* ---- lists ---- */

#define FILES 5000

TEST(a_long_list_comes_item_by_item)
{
    struct face f;
    json_t *items;

    up("{\"image\": \"host\"}");
    CHECK_INT(mkdir(in_files("many"), 0755), 0);
    for (int i = 0; i < FILES; i++) {
        char name[64];

        snprintf(name, sizeof(name), "many/file-%d", i);
        CHECK_INT(mknod(in_files(name), S_IFREG | 0644, 0), 0);
    }
    items = ask("fs::list", "{\"path\": \"many\"}");
    CHECK_INT(json_array_size(items), FILES);
    json_decref(items);
    face_text(&f, "fs::list", "{\"path\": \"many\"}");
    f.takes = 10;
    face_fails(&f, "cancelled");
    CHECK_INT(json_array_size(f.items), 11);
    face_done(&f);
    down();
}

TAP_MAIN
