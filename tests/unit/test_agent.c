#include "agent_rig.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

TEST(a_command_s_output_and_exit_code_come_back)
{
    struct result r;

    rig_start();
    r = run_shell("echo hello; echo oops >&2; exit 7");
    CHECK_STR(r.out.data, "hello\n");
    CHECK_STR(r.err.data, "oops\n");
    CHECK_INT(r.exit.how, EXIT_CODE);
    CHECK_INT(r.exit.code, 7);
    CHECK(r.exit.duration_ns > 0);
}

TEST(death_by_a_signal_is_told_as_such)
{
    struct result r;

    rig_start();
    r = run_shell("kill -9 $$");
    CHECK_INT(r.exit.how, EXIT_SIGNAL);
    CHECK_INT(r.exit.code, SIGKILL);
}

TEST(a_timeout_kills_a_grandchild_that_left_the_session)
{
    char *argv[4];
    struct call_exec e = shell(
        argv, "setsid sh -c 'sh -c \"echo \\$\\$; exec sleep 300\" & exit 0' & wait; sleep 300");
    bool lived = false;
    pid_t pid = 0;

    rig_start();
    /* If the timeout ends the command before the test has seen the grandchild alive, the test runs
     * the command again with twice the timeout. */
    for (e.timeout_ms = 250; !lived; e.timeout_ms *= 2) {
        struct buf b = {0};
        unsigned type = 0;
        int fd;

        CHECK(e.timeout_ms < PATIENCE_MS);
        fd = send_exec(&e);
        (void)expect_started(fd);
        CHECK_INT(frame_recv(fd, &type, &b), 1);
        if (type == FRAME_STDOUT) {
            pid = (pid_t)strtol(b.data, NULL, 10);
            CHECK(pid > 1);
            lived = kill(pid, 0) == 0;
            CHECK_INT(collect(fd).exit.how, EXIT_TIMEOUT);
        } else {
            CHECK_INT(type, FRAME_EXIT);
            (void)close(fd);
        }
        buf_done(&b);
    }
    CHECK(kill(pid, 0) < 0 && errno == ESRCH);
}

TEST(a_timeout_holds_when_the_caller_does_not_read)
{
    char *argv[4];
    struct call_exec e = shell(argv, "yes");
    pid_t pid;
    int fd;

    rig_start();
    e.timeout_ms = 300;
    fd = send_exec(&e);
    pid = expect_started(fd);
    expect_dead(pid);
    CHECK_INT(collect(fd).exit.how, EXIT_TIMEOUT);
}

TEST(closing_the_connection_kills_the_tree)
{
    char *argv[4];
    struct call_exec e = shell(argv, "setsid sleep 300 & echo $!; sleep 300");
    pid_t pid, child;
    int fd;

    rig_start();
    fd = send_exec(&e);
    pid = expect_started(fd);
    child = expect_pid(fd);
    (void)close(fd);
    expect_dead(pid);
    expect_dead(child);
}

TEST(a_background_child_does_not_keep_the_call_open)
{
    struct result r;
    pid_t child;

    rig_start();
    r = run_shell("sh -c 'read x < /dev/zero; exec sleep 300' & echo $!");
    CHECK_INT(r.exit.how, EXIT_CODE);
    child = (pid_t)strtol(r.out.data, NULL, 10);
    CHECK(child > 1);
    CHECK_INT(kill(child, 0), 0);
    CHECK_INT(kill(child, SIGKILL), 0);
    expect_dead(child);
}

TEST(a_leftover_child_can_go_on_writing)
{
    char script[600];
    struct result r;

    rig_start();
    snprintf(
        script, sizeof(script),
        "mkfifo %s/go %s/done; (read x < %s/go; echo late; echo later; echo ok > %s/done) & exit 0",
        rig.files, rig.files, rig.files, rig.files);
    r = run_shell(script);
    CHECK_STR(r.out.data, "");
    snprintf(script, sizeof(script), "echo x > %s/go; cat %s/done", rig.files, rig.files);
    r = run_shell(script);
    CHECK_STR(r.out.data, "ok\n");
}

TEST(input_reaches_the_command)
{
    char *argv[4];
    struct call_exec e = shell(argv, "cat");
    struct result r;
    int fd;

    rig_start();
    e.flags = EXEC_STDIN;
    fd = send_exec(&e);
    CHECK_INT(frame_send(fd, FRAME_STDIN, "one ", 4), 0);
    CHECK_INT(frame_send(fd, FRAME_STDIN, "two", 3), 0);
    CHECK_INT(frame_send(fd, FRAME_STDIN, "", 0), 0);
    (void)expect_started(fd);
    r = collect(fd);
    CHECK_STR(r.out.data, "one two");
}

TEST(much_input_goes_through_while_output_comes_back)
{
    char *argv[4];
    struct call_exec e = shell(argv, "wc -c");
    static char block[FRAME_MAX];
    struct result r;
    int fd;

    rig_start();
    e.flags = EXEC_STDIN;
    fd = send_exec(&e);
    for (int i = 0; i < 20; i++)
        CHECK_INT(frame_send(fd, FRAME_STDIN, block, sizeof(block)), 0);
    CHECK_INT(frame_send(fd, FRAME_STDIN, "", 0), 0);
    (void)expect_started(fd);
    r = collect(fd);
    CHECK_INT(strtol(r.out.data, NULL, 10), 20l * FRAME_MAX);
}

TEST(a_command_that_is_given_its_input_begins_when_it_is_there)
{
    char *argv[4];
    struct call_exec e = shell(argv, "wc -c");
    static char block[FRAME_MAX];
    struct result r;
    int fd;

    rig_start();
    e.flags = EXEC_INPUT;
    e.input_len = 2 * FRAME_MAX + 3;
    fd = send_exec(&e);
    CHECK_INT(frame_send(fd, FRAME_STDIN, block, sizeof(block)), 0);
    CHECK_INT(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 50), 0);
    CHECK_INT(frame_send(fd, FRAME_STDIN, block, sizeof(block)), 0);
    CHECK_INT(frame_send(fd, FRAME_STDIN, "end", 3), 0);
    (void)expect_started(fd);
    r = collect(fd);
    CHECK_INT(strtol(r.out.data, NULL, 10), 2l * FRAME_MAX + 3);
}

TEST(input_that_is_none_ends_at_once)
{
    char *argv[4];
    struct call_exec e = shell(argv, "wc -c");

    rig_start();
    e.flags = EXEC_INPUT;
    CHECK_INT(strtol(run_exec(&e).out.data, NULL, 10), 0);
}

TEST(more_input_than_was_said_is_refused)
{
    char *argv[4];
    struct call_exec e = shell(argv, "wc -c");
    int fd;

    rig_start();
    e.flags = EXEC_INPUT;
    e.input_len = 2;
    fd = send_exec(&e);
    CHECK_INT(frame_send(fd, FRAME_STDIN, "abc", 3), 0);
    expect_error(fd, ERR_INVALID, "");
    e.input_len = EXEC_INPUT_MAX + 1;
    expect_error(send_exec(&e), ERR_TOO_LARGE, "");
    e.input_len = 2;
    e.flags |= EXEC_STDIN;
    expect_error(send_exec(&e), ERR_INVALID, "");
}

/* The word must be heard although the supervisor holds as much as it takes from one who types. */
TEST(a_command_that_leaves_its_input_alone_can_be_cancelled)
{
    char *argv[4];
    struct call_exec e = shell(argv, "exec sleep 1000");
    static char block[FRAME_MAX];
    pid_t pid;
    int fd;

    rig_start();
    e.flags = EXEC_INPUT;
    e.input_len = 3 * FRAME_MAX;
    fd = send_exec(&e);
    for (int i = 0; i < 3; i++)
        CHECK_INT(frame_send(fd, FRAME_STDIN, block, sizeof(block)), 0);
    pid = expect_started(fd);
    CHECK_INT(frame_send(fd, FRAME_CANCEL, NULL, 0), 0);
    expect_dead(pid);
    (void)close(fd);
}

TEST(a_command_has_the_limits_that_are_asked_for)
{
    char *argv[4];
    struct call_exec e = shell(argv, "ulimit -Sn; ulimit -Hn; ulimit -c");
    struct result r;

    rig_start();
    e.flags = EXEC_LIMITS;
    e.n_limits = 2;
    e.limits[0] = (struct rlimit_wish){RLIMIT_NOFILE, 33, 44};
    e.limits[1] = (struct rlimit_wish){RLIMIT_CORE, 0, 0};
    r = run_exec(&e);
    CHECK_STR(r.out.data, "33\n44\n0\n");
    e.limits[0].resource = RLIMITS_MAX;
    expect_error(send_exec(&e), ERR_INVALID, "");
    /* The next command of the same supervisor has none of them. */
    CHECK(strcmp(run_shell("ulimit -Hn").out.data, "44\n") != 0);
}

TEST(a_limit_that_cannot_be_is_refused_by_name)
{
    char *argv[4];
    struct call_exec e = shell(argv, "true");

    rig_start();
    e.flags = EXEC_LIMITS;
    e.n_limits = 1;
    e.limits[0] = (struct rlimit_wish){RLIMIT_NOFILE, 2, 1};
    expect_error(send_exec(&e), ERR_INVALID, "bad_rlimit");
}

static void await_count(int fd, unsigned long request, int want)
{
    int n = -1;

    while (n != want) {
        CHECK_INT(ioctl(fd, request, &n), 0);
        (void)sched_yield();
    }
}

/* The end is taken from the caller after the last bytes have gone, when nothing else happens. */
TEST(the_end_of_input_is_passed_on_when_it_had_to_wait_for_room)
{
    static char block[FRAME_MAX];
    const int pipe_size = 1 << 16, wide = 1 << 20;
    char script[300], path[64], *argv[4];
    struct call_exec e = shell(argv, script);
    int fd, input;
    struct buf last;
    struct result r;

    rig_start();
    snprintf(script, sizeof(script), "mkfifo %s/go; read x <%s/go; exec wc -c", rig.files,
             rig.files);
    e.flags = EXEC_STDIN;
    fd = send_exec(&e);
    snprintf(path, sizeof(path), "/proc/%d/fd/0", expect_started(fd));
    input = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(input >= 0);
    CHECK_INT(frame_send(fd, FRAME_STDIN, block, sizeof(block)), 0);
    await_count(input, FIONREAD, pipe_size);
    await_count(fd, SIOCOUTQ, 0);
    /* As much as the pipe has taken, which fills the supervisor, and the end in the same piece. */
    buf_init(&last, FRAME_MAX);
    CHECK_INT(frame_put(&last, FRAME_STDIN, block, (size_t)pipe_size), 0);
    CHECK_INT(frame_put(&last, FRAME_STDIN, NULL, 0), 0);
    CHECK_INT(write_all(fd, last.data, last.len), 0);
    buf_done(&last);
    await_count(fd, SIOCOUTQ, 0);
    CHECK_INT(fcntl(input, F_SETPIPE_SZ, wide), wide);
    await_count(input, FIONREAD, pipe_size + (int)sizeof(block));
    (void)close(input);
    snprintf(script, sizeof(script), "until test -p %s/go; do :; done; echo x >%s/go", rig.files,
             rig.files);
    (void)run_shell(script);
    r = collect(fd);
    CHECK_INT(strtol(r.out.data, NULL, 10), pipe_size + (int)sizeof(block));
}

TEST(collected_frames_come_in_one_piece)
{
    char *argv[4], got[4096];
    struct call_exec e = shell(argv, "echo hello; echo oops >&2; exit 7");
    const unsigned want[] = {FRAME_STARTED, FRAME_STDOUT, FRAME_STDERR, FRAME_EXIT};
    ssize_t len, used = 0;
    int fd;

    rig_start();
    e.flags = EXEC_COLLECT;
    fd = send_exec(&e);
    len = recv(fd, got, sizeof(got), 0);
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        unsigned type = 0;
        long n = frame_parse(got + used, (size_t)(len - used), &type);

        CHECK(n > 0);
        CHECK_INT(type, want[i]);
        used += n;
    }
    CHECK_INT(used, len);
    (void)close(fd);
}

TEST(much_collected_output_comes_before_the_end)
{
    char *argv[4];
    struct call_exec e = shell(argv, "seq 100000; sleep 300");
    size_t len = 0;
    int fd;

    rig_start();
    e.flags = EXEC_COLLECT;
    fd = send_exec(&e);
    (void)expect_started(fd);
    while (len < 500000) {
        struct buf b;

        expect(fd, FRAME_STDOUT, &b);
        len += b.len;
        buf_done(&b);
    }
    (void)close(fd);
}

TEST(a_collected_exec_that_lasts_says_that_it_has_started)
{
    char *argv[4];
    struct call_exec e = shell(argv, "exec sleep 300");
    pid_t pid;
    int fd;

    rig_start();
    e.flags = EXEC_COLLECT;
    fd = send_exec(&e);
    pid = expect_started(fd);
    CHECK_INT(kill(pid, 0), 0);
    (void)close(fd);
    expect_dead(pid);
}

TEST(a_supervisor_whose_command_left_nothing_serves_again)
{
    long last[2] = {0}, pid = -1;

    rig_start();
    while (pid != last[0] && pid != last[1]) {
        last[0] = last[1];
        last[1] = pid;
        pid = strtol(run_shell("echo $PPID").out.data, NULL, 10);
    }
    CHECK(pid > 1);
    CHECK_STR(run_shell("cat; echo $1; pwd").out.data,
              "\n/\n"); /* with nothing of the one before */
}

TEST(output_past_the_limit_is_counted)
{
    char *argv[4];
    struct call_exec e = shell(argv, "head -c 1000000 /dev/zero; head -c 500 /dev/zero >&2");
    struct result r;

    rig_start();
    e.output_max = 1000;
    r = run_exec(&e);
    CHECK_INT(r.out.len, 1000);
    CHECK_INT(r.exit.lost_stdout, 999000);
    CHECK_INT(r.err.len, 500);
    CHECK_INT(r.exit.lost_stderr, 0);
}

TEST(megabytes_of_output_arrive_whole)
{
    struct result r;

    rig_start();
    r = run_shell("head -c 9000000 /dev/zero");
    CHECK_INT(r.out.len, 9000000);
    CHECK_INT(r.exit.code, 0);
}

static struct call_log read_log(const char *id, struct buf *text)
{
    int fd = ctl(CALL_LOG, "sUU", id, (uint64_t)0, UINT64_MAX);
    struct call_log log;
    struct buf b = {0};
    unsigned type = 0;
    struct wire w;

    buf_init(text, 1 << 20);
    (void)buf_add_str(text, "");
    while (type != FRAME_END) {
        CHECK_INT(frame_recv(fd, &type, &b), 1);
        if (type == FRAME_DATA)
            CHECK_INT(buf_add(text, b.data, b.len), 0);
        else
            CHECK_INT(type, FRAME_END);
    }
    wire_init(&w, b.data, b.len);
    call_log_get(&w, &log);
    CHECK(wire_ok(&w));
    buf_done(&b);
    (void)close(fd);
    return log;
}

/* Its supervisor writes the end right after the process has ended. */
static struct call_log wait_log(const char *id, struct buf *text)
{
    for (;;) {
        struct call_log log = read_log(id, text);

        if (!log.running) {
            (void)rig_keep(text->data);
            return log;
        }
        buf_done(text);
        (void)sched_yield();
    }
}

static pid_t start_background(const char *id, const char *script, uint64_t timeout_ms)
{
    char *argv[4];
    struct call_exec e = shell(argv, script);
    int fd;
    pid_t pid;

    e.flags = EXEC_BACKGROUND;
    e.id = (char *)(uintptr_t)id;
    e.timeout_ms = timeout_ms;
    fd = send_exec(&e);
    pid = expect_started(fd);
    CHECK_INT(frame_recv(fd, &(unsigned){0}, &(struct buf){0}), 0);
    (void)close(fd);
    return pid;
}

TEST(a_background_exec_outlives_its_caller_and_leaves_log_and_end)
{
    char script[600];
    struct buf text;
    struct call_log log;
    pid_t pid;

    rig_start();
    snprintf(script, sizeof(script), "echo out; echo err >&2; mkfifo %s/go; read x < %s/go; exit 3",
             rig.files, rig.files);
    pid = start_background("bg_1", script, 0);
    log = read_log("bg_1", &text);
    CHECK_INT(log.running, 1);
    CHECK_INT(log.pid, pid);
    CHECK(log.started_ms > 0 && log.finished_ms == 0);
    buf_done(&text);
    snprintf(script, sizeof(script), "until test -p %s/go; do :; done; echo x > %s/go", rig.files,
             rig.files);
    (void)run_shell(script);
    log = wait_log("bg_1", &text);
    CHECK_STR(text.data, "out\nerr\n");
    CHECK_INT(log.size, 8);
    CHECK_INT(log.exit.how, EXIT_CODE);
    CHECK_INT(log.exit.code, 3);
    CHECK(log.finished_ms >= log.started_ms);
}

TEST(a_background_exec_has_a_timeout_too)
{
    struct buf text;

    rig_start();
    (void)start_background("slow", "sleep 300", 200);
    CHECK_INT(wait_log("slow", &text).exit.how, EXIT_TIMEOUT);
}

TEST(a_background_exec_whose_supervisor_died_is_lost)
{
    struct buf text;
    char path[64], stat[512];
    int ppid = 0;
    pid_t pid;

    rig_start();
    pid = start_background("orphan", "sleep 300", 0);
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    CHECK(read_file_at(-1, path, stat, sizeof(stat)) > 0);
    CHECK_INT(sscanf(strrchr(stat, ')'), ") %*c %d", &ppid), 1);
    CHECK_INT(kill(ppid, SIGKILL), 0);
    expect_dead(ppid);
    CHECK_INT(wait_log("orphan", &text).exit.how, EXIT_LOST);
    expect_dead(pid);
}

TEST(an_unknown_log_and_a_bad_id_are_refused)
{
    char *argv[4];
    struct call_exec e = shell(argv, "true");

    rig_start();
    expect_error(ctl(CALL_LOG, "sUU", "nope", (uint64_t)0, (uint64_t)1), ERR_NOT_FOUND,
                 "log_not_found");
    expect_error(ctl(CALL_LOG, "sUU", "../x", (uint64_t)0, (uint64_t)1), ERR_NOT_FOUND,
                 "log_not_found");
    e.flags = EXEC_BACKGROUND;
    e.id = "../x";
    expect_error(send_exec(&e), ERR_INVALID, "");
}

TEST(a_terminal_is_one_and_can_be_resized)
{
    char *argv[4];
    struct call_exec e = shell(argv, "tty; stty size; read x; stty size");
    struct buf size, b;
    struct result r;
    int fd;

    rig_start();
    e.flags = EXEC_TTY | EXEC_STDIN;
    e.rows = 30;
    e.cols = 100;
    fd = send_exec(&e);
    (void)expect_started(fd);
    buf_init(&size, 64);
    wire_put_u32(&size, 50);
    wire_put_u32(&size, 132);
    buf_init(&b, 4096);
    do {
        struct buf part;

        expect(fd, FRAME_STDOUT, &part);
        (void)buf_add(&b, part.data, part.len);
        buf_done(&part);
    } while (!strstr(b.data, "30 100\r\n"));
    CHECK(strstr(b.data, "/dev/pts/"));
    CHECK_INT(frame_send(fd, FRAME_RESIZE, size.data, size.len), 0);
    CHECK_INT(frame_send(fd, FRAME_STDIN, "\n", 1), 0);
    buf_done(&size);
    buf_done(&b);
    r = collect(fd);
    CHECK(strstr(r.out.data, "50 132\r\n"));
    CHECK_INT(r.exit.code, 0);
}

TEST(a_signal_frame_reaches_the_tree)
{
    char *argv[4];
    struct call_exec e = shell(argv, "sleep 300 & echo $!; wait");
    struct buf b;
    struct result r;
    pid_t child;
    int fd;

    rig_start();
    fd = send_exec(&e);
    (void)expect_started(fd);
    child = expect_pid(fd);
    buf_init(&b, 16);
    wire_put_u32(&b, SIGTERM);
    CHECK_INT(frame_send(fd, FRAME_SIGNAL, b.data, b.len), 0);
    buf_done(&b);
    r = collect(fd);
    CHECK_INT(r.exit.how, EXIT_SIGNAL);
    CHECK_INT(r.exit.code, SIGTERM);
    expect_dead(child);
}

static void check_refused(struct call_exec e, const char *code)
{
    expect_error(send_exec(&e), ERR_INVALID, code);
}

TEST(what_cannot_be_started_is_refused_by_name)
{
    static char *const users[] = {
        "nobody_here", "-1",    "4294967295", "4294967296",       "1000:", ":0", " 0", "root\n",
        "0x0",         "1:2:3", "root:",      "root:nobody_here", "1:0x0"};
    char *argv[4];
    struct call_exec e = shell(argv, "true"), bad;

    rig_start();
    bad = e;
    bad.cwd = "/no/such/place";
    check_refused(bad, "bad_cwd");
    for (int fd = 3; fd < 20; fd++) {
        char cwd[32];

        snprintf(cwd, sizeof(cwd), "/proc/self/fd/%d", fd);
        bad.cwd = cwd;
        check_refused(bad, "bad_cwd");
    }
    bad = e;
    for (size_t i = 0; i < ARRAY_LEN(users); i++) {
        bad.user = users[i];
        check_refused(bad, "bad_user");
    }
    bad = e;
    bad.argv = (char *[]){"no-such-command", NULL};
    check_refused(bad, "command_not_found");
    bad.argv = (char *[]){"/etc/passwd", NULL};
    check_refused(bad, "not_executable");
    bad.argv = (char *[]){NULL};
    check_refused(bad, "");
}

TEST(a_command_runs_as_the_user_asked_for)
{
    char *argv[4];
    struct call_exec e = shell(argv, "id -u; id -g; id -G");

    rig_start();
    if (getuid() != 0)
        SKIP("needs root");
    e.user = "1234:4321";
    CHECK_STR(run_exec(&e).out.data, "1234\n4321\n4321\n");
    e.user = "1234";
    CHECK_STR(run_exec(&e).out.data, "1234\n0\n0\n");
    e.user = "0:0";
    CHECK_STR(run_exec(&e).out.data, "0\n0\n0\n");
    e.user = "nobody";
    CHECK_STR(run_exec(&e).out.data, "65534\n65534\n65534\n");
    e.user = "nobody:daemon";
    CHECK_STR(run_exec(&e).out.data, "65534\n1\n1\n");
    e.user = "nobody:7";
    CHECK_STR(run_exec(&e).out.data, "65534\n7\n7\n");
    e.user = "7:daemon";
    CHECK_STR(run_exec(&e).out.data, "7\n1\n1\n");
}

TEST(another_user_is_at_home_where_passwd_says)
{
    char *argv[4];
    struct call_exec e = shell(argv, "echo $HOME");

    rig_start();
    if (getuid() != 0)
        SKIP("needs root");
    e.user = "daemon";
    e.env = (char *[]){"PATH=/usr/bin:/bin", NULL};
    CHECK_STR(run_exec(&e).out.data, "/usr/sbin\n");
    e.env = (char *[]){"PATH=/usr/bin:/bin", "HOME=/else", NULL};
    CHECK_STR(run_exec(&e).out.data, "/else\n");
}

TEST(only_three_descriptors_reach_a_command)
{
    struct result r;
    char *argv[4];
    struct call_exec e = shell(argv, "exec ls /proc/self/fd");

    rig_start();
    r = run_exec(&e);
    CHECK_STR(r.out.data, "0\n1\n2\n3\n"); /* 3 is ls reading the directory */
    e.flags = EXEC_TTY;
    r = run_exec(&e);
    CHECK(!strstr(r.out.data, "4"));
}

TEST(a_command_starts_with_a_clean_slate)
{
    struct result r;

    rig_start();
    r = run_shell("grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\t'; umask");
    CHECK_STR(r.out.data, "SigBlk:0000000000000000\nSigIgn:0000000000000000\n0022\n");
}

static void hello(void)
{
    struct buf b;
    struct wire w;
    int fd = ctl(CALL_HELLO, "");

    expect(fd, FRAME_OK, &b);
    wire_init(&w, b.data, b.len);
    CHECK_INT(wire_get_u32(&w), CALL_VERSION);
    buf_done(&b);
    (void)close(fd);
}

static void send_garbage(const char *path, const void *data, size_t len)
{
    int fd = rig_connect(path);
    char byte[4096];

    (void)send(fd, data, len, MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    while (read(fd, byte, sizeof(byte)) > 0)
        ;
    (void)close(fd);
}

TEST(garbage_ends_its_connection_and_nothing_else)
{
    static const unsigned char huge[] = {0xff, 0xff, 0xff, 0xff, FRAME_CALL, 0, 0, 0};
    static const unsigned char padded[] = {0, 0, 0, 0, FRAME_CALL, 1, 0, 0};
    static const unsigned char half[] = {100, 0, 0, 0, FRAME_CALL + CALL_EXEC, 0, 0, 0, 1, 2};
    static const unsigned char empty[] = {0, 0, 0, 0, FRAME_CALL + CALL_EXEC, 0, 0, 0};
    static const unsigned char other[] = {0, 0, 0, 0, 255, 0, 0, 0};

    rig_start();
    for (int i = 0; i < 2; i++) {
        const char *path = i ? rig.exec : rig.ctl;

        send_garbage(path, huge, sizeof(huge));
        send_garbage(path, padded, sizeof(padded));
        send_garbage(path, half, sizeof(half));
        send_garbage(path, empty, sizeof(empty));
        send_garbage(path, other, sizeof(other));
        send_garbage(path, "GET / HTTP/1.1\r\n\r\n", 18);
        send_garbage(path, "", 0);
    }
    hello();
    CHECK_STR(run_shell("echo alive").out.data, "alive\n");
}

static bool has_name(long pid, const char *want)
{
    char path[64], name[32];

    snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
    return read_file_at(-1, path, name, sizeof(name)) > 0 &&
           strncmp(name, want, strlen(want)) == 0 && name[strlen(want)] == '\n';
}

/* A child of the agent's main process with that name; 0 = there is none. */
static pid_t find_child(const char *name)
{
    char path[64], text[256], *p = text;
    long pid;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", rig.agent, rig.agent);
    if (read_file_at(-1, path, text, sizeof(text)) < 0)
        SKIP("this kernel does not list children");
    while ((pid = strtol(p, &p, 10)) > 0)
        if (has_name(pid, name))
            return (pid_t)pid;
    return 0;
}

static pid_t find_spawner(void)
{
    pid_t pid;

    while ((pid = find_child("cay-spawn")) == 0)
        (void)run_shell(":"); /* it comes with the second */
    return pid;
}

/* How many children, or -1 when the kernel does not say. */
static int count_children(pid_t pid)
{
    char path[64], text[4096], *p = text;
    int n = 0;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    if (read_file_at(-1, path, text, sizeof(text)) < 0)
        return -1;
    while (strtol(p, &p, 10) > 0)
        n++;
    return n;
}

TEST(an_ended_exec_leaves_no_process)
{
    pid_t spawner;

    rig_start();
    spawner = find_spawner();
    for (int i = 0; i < 5; i++) {
        (void)run_shell("echo x; echo y >&2");
        (void)run_shell("exec >&- 2>&-; read x < /dev/null; exit 0");
    }
    while (count_children(spawner) > 4) /* those that are ready for the next calls */
        (void)sched_yield();
    CHECK(count_children(spawner) >= 0);
}

TEST(a_second_exec_beside_the_first_brings_the_spawner)
{
    char *argv[4];
    struct call_exec e = shell(argv, "echo up; read x; echo $x");
    pid_t first;
    int call;

    rig_start();
    while ((first = find_child("cay-exec")) == 0)
        (void)sched_yield();
    e.flags = EXEC_STDIN;
    call = send_exec(&e);
    (void)expect_started(call);
    expect(call, FRAME_STDOUT, NULL);
    CHECK_STR(run_shell("echo beside").out.data, "beside\n");
    CHECK(find_child("cay-spawn") > 0);
    CHECK_INT(frame_send(call, FRAME_STDIN, "said\n", 5), 0);
    CHECK_STR(collect(call).out.data, "said\n");
    expect_dead(first); /* from now on they are the spawner's */
    CHECK_STR(run_shell("echo after").out.data, "after\n");
}

TEST(a_first_supervisor_that_is_killed_is_replaced)
{
    pid_t first;

    rig_start();
    while ((first = find_child("cay-exec")) == 0)
        (void)sched_yield();
    CHECK_INT(kill(first, SIGKILL), 0);
    CHECK_STR(run_shell("echo again").out.data, "again\n");
    CHECK(find_child("cay-spawn") > 0);
}

TEST(a_killed_spawner_is_replaced)
{
    pid_t spawner;

    rig_start();
    spawner = find_spawner();
    CHECK_INT(kill(spawner, SIGKILL), 0);
    expect_dead(spawner);
    CHECK_STR(run_shell("echo again").out.data, "again\n");
    CHECK(find_spawner() != spawner);
}

TEST(a_stopped_spawner_is_woken)
{
    rig_start();
    CHECK_INT(kill(find_spawner(), SIGSTOP), 0);
    CHECK_STR(run_shell("echo awake").out.data, "awake\n");
}

TEST(processes_are_listed_without_those_of_the_agent)
{
    char *argv[4];
    struct call_exec e = shell(argv, "echo up; read x");
    bool agent = false, shell_seen = false, hidden = true;
    pid_t pid, spawner;
    unsigned type = 0;
    struct buf b = {0};
    int fd, call;

    rig_start();
    spawner = find_spawner();
    e.flags = EXEC_STDIN;
    call = send_exec(&e);
    pid = expect_started(call);
    expect(call, FRAME_STDOUT, NULL);
    fd = ctl(CALL_PS, "");
    for (;;) {
        struct call_process p;
        struct wire w;

        CHECK_INT(frame_recv(fd, &type, &b), 1);
        if (type == FRAME_END)
            break;
        CHECK_INT(type, FRAME_ITEM);
        wire_init(&w, b.data, b.len);
        call_process_get(&w, &p);
        CHECK(wire_ok(&w));
        agent |= p.pid == (uint32_t)rig.agent;
        hidden &= p.pid != (uint32_t)spawner;
        if (p.pid == (uint32_t)pid) {
            shell_seen = true;
            CHECK_STR(p.command, "sh -c echo up; read x");
            CHECK_INT(p.ppid, rig.agent);
            CHECK(p.vsz > 0);
        }
        call_process_done(&p);
    }
    buf_done(&b);
    CHECK(agent && shell_seen && hidden);
    (void)close(call);
    expect_dead(pid);
}

TEST(kill_takes_processes_but_not_the_agent_s)
{
    char *argv[4];
    struct call_exec e = shell(argv, "exec sleep 300");
    struct result r;
    pid_t pid;
    int fd;

    rig_start();
    expect_error(ctl(CALL_KILL, "uu", (uint32_t)rig.agent, 9u), ERR_INVALID, "");
    expect_error(ctl(CALL_KILL, "uu", (uint32_t)find_spawner(), 9u), ERR_INVALID, "");
    expect_error(ctl(CALL_KILL, "uu", 5u, 99u), ERR_INVALID, "");
    fd = send_exec(&e);
    pid = expect_started(fd);
    expect_ok(ctl(CALL_KILL, "uu", (uint32_t)pid, (uint32_t)SIGUSR1));
    r = collect(fd);
    CHECK_INT(r.exit.code, SIGUSR1);
    expect_ok(ctl(CALL_KILL, "uu", (uint32_t)pid, 9u));
}

TEST(kill_zero_interrupts_every_exec)
{
    char *argv[4];
    struct call_exec e = shell(argv, "sleep 300");
    struct result r;
    int fds[2];

    rig_start();
    for (int i = 0; i < 2; i++) {
        fds[i] = send_exec(&e);
        (void)expect_started(fds[i]);
    }
    expect_ok(ctl(CALL_KILL, "uu", 0u, (uint32_t)SIGTERM));
    for (int i = 0; i < 2; i++) {
        r = collect(fds[i]);
        CHECK_INT(r.exit.how, EXIT_SIGNAL);
        CHECK_INT(r.exit.code, SIGTERM);
    }
    CHECK_STR(run_shell("echo more").out.data, "more\n");
}

TEST(a_port_inside_can_be_dialled)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, conn;
    char text[16] = "";

    rig_start();
    CHECK_INT(bind(server, (struct sockaddr *)&sa, len), 0);
    CHECK_INT(getsockname(server, (struct sockaddr *)&sa, &len), 0);
    expect_error(ctl(CALL_DIAL, "u", (uint32_t)ntohs(sa.sin_port)), ERR_UNAVAILABLE, "");
    CHECK_INT(listen(server, 1), 0);
    fd = ctl(CALL_DIAL, "u", (uint32_t)ntohs(sa.sin_port));
    CHECK_INT(write_all(fd, "early", 5), 0);
    expect(fd, FRAME_OK, NULL);
    conn = accept(server, NULL, NULL);
    CHECK(conn >= 0);
    CHECK_INT(write_all(fd, " late", 5), 0);
    CHECK_INT(read_exact(conn, text, 10), 0);
    CHECK_STR(text, "early late");
    /* Half-closed, the other way still works. */
    CHECK_INT(shutdown(fd, SHUT_WR), 0);
    CHECK_INT(read_some(conn, text, 1), 0);
    CHECK_INT(write_all(conn, "answer", 6), 0);
    (void)close(conn);
    memset(text, 0, sizeof(text));
    CHECK_INT(read_exact(fd, text, 6), 0);
    CHECK_STR(text, "answer");
    CHECK_INT(read_some(fd, text, 1), 0);
    (void)close(server);
}

TEST(each_socket_serves_its_own_calls)
{
    char *argv[4];
    struct call_exec e = shell(argv, "true");
    struct buf b;
    int fd;

    rig_start();
    buf_init(&b, FRAME_MAX);
    call_exec_put(&b, &e);
    fd = rig_connect(rig.ctl);
    CHECK_INT(frame_send(fd, FRAME_CALL + CALL_EXEC, b.data, b.len), 0);
    buf_done(&b);
    expect_error(fd, ERR_INVALID, "");
    fd = rig_connect(rig.exec);
    CHECK_INT(frame_send(fd, FRAME_CALL + CALL_HELLO, "", 0), 0);
    expect_error(fd, ERR_INVALID, "");
}

TAP_MAIN
