/* Execs with an id: what is kept of them, and who can come to them later. */
#include <sys/resource.h>
#include <sys/socket.h>

#include "agent_rig.h"
#include "base/clock.h"

#define STREAMS   64 /* as many as an agent lets live long */
#define FOLLOWERS 16 /* of one exec */

static struct call_exec kept_shell(char *argv[4], const char *id, const char *script)
{
    struct call_exec e = shell(argv, script);

    e.id = (char *)(uintptr_t)id;
    e.cwd = rig.files;
    return e;
}

static pid_t expect_kept(int fd)
{
    struct buf b;
    struct wire w;
    pid_t pid;

    expect(fd, FRAME_STARTED, &b);
    wire_init(&w, b.data, b.len);
    pid = (pid_t)wire_get_u32(&w);
    CHECK_INT(wire_get_u32(&w), 1);
    CHECK(wire_ok(&w) && pid > 0);
    buf_done(&b);
    return pid;
}

/* Starts it; the caller is still there. */
static int start_kept(const char *id, uint32_t flags, const char *script)
{
    char *argv[4];
    struct call_exec e = kept_shell(argv, id, script);
    int fd;

    e.flags = flags;
    fd = send_exec(&e);
    (void)expect_kept(fd);
    return fd;
}

static struct call_kept take_state(int fd, unsigned type)
{
    struct call_kept state;
    struct wire w;
    struct buf b;

    expect(fd, type, &b);
    wire_init(&w, b.data, b.len);
    call_state_get(&w, &state);
    CHECK(wire_ok(&w));
    buf_done(&b);
    return state;
}

static int again(const char *id, uint64_t cursor, uint32_t flags, struct call_kept *ret)
{
    int fd = ctl(CALL_AGAIN, "sUUu", id, cursor, (uint64_t)UINT64_MAX, flags);
    struct call_kept state = take_state(fd, FRAME_OK);

    if (ret)
        *ret = state;
    return fd;
}

struct seen {
    struct buf out, err;
    uint64_t lost;
    struct call_kept end;
};

/* Everything until END. */
static struct seen see(int fd)
{
    struct seen s = {0};
    struct buf b = {0};
    unsigned type = 0;
    struct wire w;

    buf_init(&s.out, 64 << 20);
    buf_init(&s.err, 64 << 20);
    (void)buf_add_str(&s.out, "");
    (void)buf_add_str(&s.err, "");
    while (type != FRAME_END) {
        CHECK_INT(frame_recv(fd, &type, &b), 1);
        wire_init(&w, b.data, b.len);
        if (type == FRAME_LOST)
            s.lost += wire_get_u64(&w);
        else if (type == FRAME_STDOUT)
            CHECK_INT(buf_add(&s.out, b.data, b.len), 0);
        else if (type == FRAME_STDERR)
            CHECK_INT(buf_add(&s.err, b.data, b.len), 0);
        else if (type != FRAME_END)
            TAP_FAIL("frame %u in what was kept", type);
    }
    call_state_get(&w, &s.end);
    CHECK(wire_ok(&w));
    buf_done(&b);
    (void)rig_keep(s.out.data);
    (void)rig_keep(s.err.data);
    (void)close(fd);
    return s;
}

static struct seen see_again(const char *id, uint64_t cursor)
{
    return see(again(id, cursor, 0, NULL));
}

static struct seen see_end(const char *id)
{
    return see(again(id, 0, AGAIN_FOLLOW, NULL));
}

static void make_fifo(const char *name)
{
    CHECK_INT(mkfifo(in_files(name), 0600), 0);
}

/* Lets a script go on that waits in `read x < name`. */
static void let_go(const char *name)
{
    int fd = open(in_files(name), O_WRONLY | O_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_INT(write_all(fd, "x\n", 2), 0);
    (void)close(fd);
}

static bool has_file(const char *id, const char *suffix)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/%s%s", rig.dir, id, suffix);
    return access(path, F_OK) == 0;
}

TEST(a_short_exec_is_kept_without_a_file)
{
    struct seen s;
    int fd;

    rig_start();
    fd = start_kept("ex_a", EXEC_COLLECT, "printf one; printf two >&2; printf three; exit 3");
    CHECK_INT(collect(fd).exit.code, 3);
    s = see_again("ex_a", 0);
    CHECK_STR(s.out.data, "onethree");
    CHECK_STR(s.err.data, "two");
    CHECK_INT(s.end.running, 0);
    CHECK_INT(s.end.exit.how, EXIT_CODE);
    CHECK_INT(s.end.exit.code, 3);
    CHECK_INT(s.end.end, 11);
    CHECK_STR(s.end.command, "sh -c printf one; printf two >&2; printf three; exit 3");
    CHECK(s.end.finished_ms >= s.end.started_ms && s.end.started_ms > 0);
    s = see_again("ex_a", 6);
    CHECK_INT(s.out.len + s.err.len, 5);
    CHECK_INT(see_again("ex_a", 1000).out.len, 0);
    CHECK(!has_file("ex_a", ".out"));
}

TEST(an_exec_without_an_id_is_not_kept_and_ends_with_its_caller)
{
    char *argv[4];
    struct call_exec e;
    pid_t pid;
    int fd;

    rig_start();
    e = shell(argv, "echo $$; exec sleep 1000");
    fd = send_exec(&e);
    (void)expect_started(fd);
    pid = expect_pid(fd);
    (void)close(fd);
    expect_dead(pid);
    expect_error(ctl(CALL_AGAIN, "sUUu", "", (uint64_t)0, (uint64_t)1, 0u), ERR_NOT_FOUND,
                 "exec_not_found");
}

TEST(an_exec_goes_on_when_its_caller_is_gone)
{
    struct seen s;
    int fd;

    rig_start();
    make_fifo("go");
    fd = start_kept("ex_b", 0, "echo before; read x < go; echo after; echo bad >&2; exit 7");
    expect(fd, FRAME_STDOUT, NULL);
    (void)close(fd);
    let_go("go");
    s = see_end("ex_b");
    CHECK_STR(s.out.data, "before\nafter\n");
    CHECK_STR(s.err.data, "bad\n");
    CHECK_INT(s.end.exit.code, 7);
    s = see_again("ex_b", 7);
    CHECK_STR(s.out.data, "after\n");
}

TEST(a_cancel_ends_it_also_behind_input_that_nobody_takes)
{
    static char junk[64 << 10];
    pid_t pid;
    int fd;

    rig_start();
    fd = start_kept("ex_c", EXEC_STDIN, "echo $$; exec sleep 1000");
    pid = expect_pid(fd);
    for (int i = 0; i < 4; i++)
        CHECK_INT(frame_send(fd, FRAME_STDIN, junk, sizeof(junk)), 0);
    CHECK_INT(frame_send(fd, FRAME_CANCEL, NULL, 0), 0);
    (void)close(fd);
    expect_dead(pid);
    CHECK_INT(see_end("ex_c").end.exit.how, EXIT_CANCELLED);
}

TEST(input_and_its_end_reach_a_slow_reader_when_the_caller_has_gone)
{
    enum { FRAMES = 6 }; /* one more than a pipe and FRAME_MAX pending bytes hold */
    static char piece[64 << 10];
    struct seen s;
    int fd;

    rig_start();
    make_fifo("go");
    fd = start_kept("ex_in", EXEC_STDIN, "read x < go; exec timeout --foreground 20 wc -c");
    for (int i = 0; i < FRAMES; i++)
        CHECK_INT(frame_send(fd, FRAME_STDIN, piece, sizeof(piece)), 0);
    CHECK_INT(frame_send(fd, FRAME_STDIN, NULL, 0), 0);
    (void)close(fd);
    let_go("go");
    s = see_end("ex_in");
    CHECK_STR(s.out.data, "393216\n");
    CHECK_INT(s.end.exit.code, 0);
}

TEST(a_cancel_that_comes_while_output_cannot_be_sent_is_heard)
{
    struct seen s;
    int fd;

    rig_start();
    fd = start_kept("ex_d", 0, "cat /dev/zero");
    CHECK_INT(frame_send(fd, FRAME_CANCEL, NULL, 0), 0);
    (void)close(fd);
    s = see_end("ex_d");
    CHECK_INT(s.end.exit.how, EXIT_CANCELLED);
}

TEST(a_timeout_holds_without_a_caller)
{
    char *argv[4];
    struct call_exec e;
    struct seen s;
    int fd;

    rig_start();
    /* If the timeout ends the command before it has printed anything, the test runs the command
     * again with twice the timeout. */
    for (uint64_t ms = 150;; ms *= 2) {
        char id[32];

        CHECK(ms < PATIENCE_MS);
        (void)snprintf(id, sizeof(id), "ex_e%u", (unsigned)ms);
        e = kept_shell(argv, id, "echo begun; sleep 1000");
        e.timeout_ms = ms;
        fd = send_exec(&e);
        (void)expect_kept(fd);
        (void)close(fd);
        s = see_end(id);
        CHECK_INT(s.end.exit.how, EXIT_TIMEOUT);
        if (s.out.len > 0)
            break;
    }
    CHECK_STR(s.out.data, "begun\n");
}

TEST(long_output_goes_to_a_file_and_stays_whole)
{
    struct seen s;
    struct result r;

    rig_start();
    r = collect(start_kept("ex_f", 0,
                           "i=0; while [ $i -lt 400 ]; do i=$((i+1)); "
                           "printf '%01000d' $i; printf 'e%03d' $i >&2; done"));
    CHECK_INT(r.out.len, 400000);
    CHECK(has_file("ex_f", ".out") && has_file("ex_f", ".end"));
    s = see_again("ex_f", 0);
    CHECK_INT(s.out.len, 400000);
    CHECK(memcmp(s.out.data, r.out.data, r.out.len) == 0);
    CHECK_STR(s.err.data, r.err.data);
    CHECK_INT(s.lost, 0);
    s = see_again("ex_f", 401599);
    CHECK_INT(s.out.len + s.err.len, 1);
}

TEST(a_flood_that_nobody_reads_keeps_its_last_part)
{
    struct stat st;
    struct seen s;
    char path[160];
    int fd;

    rig_start();
    make_fifo("go");
    fd = start_kept("ex_g", 0, "head -c 60000000 /dev/zero | tr '\\0' x; read x < go; printf last");
    (void)close(fd);
    let_go("go");
    s = see_end("ex_g");
    CHECK_INT(s.end.end, 60000004);
    CHECK(s.lost + s.out.len == 60000004 && s.lost > 30000000 && s.out.len > 20000000);
    CHECK_STR(s.out.data + s.out.len - 5, "xlast");
    snprintf(path, sizeof(path), "%s/ex_g.out", rig.dir);
    CHECK_INT(stat(path, &st), 0);
    CHECK(st.st_blocks * 512 < 28 << 20);
}

/* The kernel refuses to write past that in any file: as a disk that is full, of which only the
 * agent sees anything. */
static struct seen flood_with_room(uint64_t bytes)
{
    struct rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
    int fd;

    CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
    rig_start();
    make_fifo("go");
    fd = start_kept("ex_h", 0, "head -c 300000 /dev/zero | tr '\\0' x; read x < go; printf last");
    (void)close(fd);
    let_go("go");
    return see_end("ex_h");
}

TEST(a_full_disk_costs_output_but_not_the_command)
{
    struct seen s = flood_with_room(150000);

    CHECK_INT(s.end.exit.how, EXIT_CODE);
    CHECK_INT(s.lost + s.out.len, 300004);
    CHECK_STR(s.out.data + s.out.len - 5, "xlast");
}

TEST(without_any_disk_the_end_of_the_output_is_in_memory)
{
    struct seen s = flood_with_room(0);

    CHECK_INT(s.end.exit.how, EXIT_CODE);
    CHECK_INT(s.lost + s.out.len, 300004);
    CHECK(s.out.len > 30000);
    CHECK_STR(s.out.data + s.out.len - 5, "xlast");
}

TEST(an_end_that_the_disk_has_no_room_for_is_still_told)
{
    char path[160];
    struct seen s;

    rig_start();
    snprintf(path, sizeof(path), "%s/ex_n.end", rig.dir);
    CHECK_INT(mkdir(path, 0700), 0); /* so the file cannot be made */
    CHECK_INT(collect(start_kept("ex_n", 0, "head -c 100000 /dev/zero; exit 5")).exit.code, 5);
    s = see_again("ex_n", 0);
    CHECK_INT(s.end.exit.code, 5);
    CHECK_INT(s.lost, 100000);
    CHECK_INT(s.end.end, 100000);
}

TEST(who_comes_later_has_the_input_of_a_terminal)
{
    struct call_kept state;
    struct seen s;
    int fd;

    rig_start();
    fd = start_kept("ex_i", EXEC_TTY, "stty -echo; echo ready; read a; echo got $a; exit 4");
    expect(fd, FRAME_STDOUT, NULL);
    (void)close(fd);
    fd = again("ex_i", 0, AGAIN_FOLLOW | AGAIN_INPUT, &state);
    CHECK(state.running && (state.flags & EXEC_TTY));
    CHECK_INT(frame_send(fd, FRAME_STDIN, "word\n", 5), 0);
    s = see(fd);
    CHECK_STR(s.out.data, "ready\r\ngot word\r\n");
    CHECK_INT(s.end.exit.code, 4);
}

TEST(only_one_caller_has_the_input)
{
    int first, second;

    rig_start();
    first = start_kept("ex_j", EXEC_STDIN, "cat");
    expect_error(ctl(CALL_AGAIN, "sUUu", "ex_j", (uint64_t)0, (uint64_t)1,
                     (uint32_t)(AGAIN_FOLLOW | AGAIN_INPUT)),
                 ERR_CONFLICT, "exec_attached");
    CHECK_INT(frame_send(first, FRAME_STDIN, "one\n", 4), 0);
    expect(first, FRAME_STDOUT, NULL);
    (void)close(first);
    second = again("ex_j", 0, AGAIN_FOLLOW | AGAIN_INPUT, NULL);
    expect(second, FRAME_STDOUT, NULL);
    expect_error(ctl(CALL_AGAIN, "sUUu", "ex_j", (uint64_t)0, (uint64_t)1,
                     (uint32_t)(AGAIN_FOLLOW | AGAIN_INPUT)),
                 ERR_CONFLICT, "exec_attached");
    CHECK_INT(frame_send(second, FRAME_STDIN, NULL, 0), 0);
    CHECK_INT(see(second).end.exit.code, 0);
}

TEST(who_shares_the_input_types_beside_others_and_a_slow_one_holds_nobody_up)
{
    int one, two, i = 0;
    struct buf b = {0};

    rig_start();
    (void)close(start_kept("ex_sh", EXEC_TTY | EXEC_STDIN, "stty raw -echo; echo up; exec cat"));
    one = again("ex_sh", 0, AGAIN_FOLLOW | AGAIN_INPUT | AGAIN_SHARED, NULL);
    expect(one, FRAME_STDOUT, NULL);
    two = again("ex_sh", 0, AGAIN_FOLLOW | AGAIN_INPUT | AGAIN_SHARED, NULL);
    expect(two, FRAME_STDOUT, NULL);
    expect_error(ctl(CALL_AGAIN, "sUUu", "ex_sh", (uint64_t)0, (uint64_t)1,
                     (uint32_t)(AGAIN_FOLLOW | AGAIN_INPUT)),
                 ERR_CONFLICT, "exec_attached");
    CHECK_INT(frame_send(one, FRAME_STDIN, "1", 1), 0);
    expect(one, FRAME_STDOUT, &b);
    CHECK_STR(b.data, "1");
    buf_done(&b);
    expect(two, FRAME_STDOUT, &b);
    CHECK_STR(b.data, "1");
    buf_done(&b);
    /* one reads no more from here on, and far more comes than its socket takes */
    for (size_t sent = 0; sent < 2u << 20; i++) {
        char text[4096];
        size_t back = 0;

        memset(text, 'a' + i % 26, sizeof(text));
        CHECK_INT(frame_send(two, FRAME_STDIN, text, sizeof(text)), 0);
        while (back < sizeof(text)) {
            expect(two, FRAME_STDOUT, &b);
            back += b.len;
            buf_done(&b);
        }
        sent += sizeof(text);
    }
    (void)close(one);
    (void)close(two);
}

#define INPUT_SENT (6u << 20) /* more than the agent keeps of a caller that has left: 2 MiB */

/* Sends INPUT_SENT bytes, each four of them a number that counts up, in pieces of which the small
 * ones would still find room where a large one does not; then the end of input, and leaves. Returns
 * false when the machine allows no socket that takes all of it at once. */
static bool send_input_and_leave(int fd)
{
    static uint32_t piece[(200u << 10) / 4];
    int room = 2 * INPUT_SENT;
    uint32_t next = 0;

    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0)
        return false;
    for (size_t sent = 0, i = 0; sent < INPUT_SENT; i++) {
        size_t n = i % 2 ? 256 : ARRAY_LEN(piece);

        for (size_t k = 0; k < n; k++)
            piece[k] = next++;
        CHECK_INT(frame_send(fd, FRAME_STDIN, piece, n * 4), 0);
        sent += n * 4;
    }
    CHECK_INT(frame_send(fd, FRAME_STDIN, NULL, 0), 0);
    (void)close(fd);
    return true;
}

/* Waits until the input has no caller, so the agent has handled all that the last one sent. */
static void await_no_caller(const char *id)
{
    unsigned type = FRAME_ERROR;

    for (int64_t until = mono_ns() + PATIENCE_NS; type != FRAME_OK; (void)poll(NULL, 0, 1)) {
        int fd = ctl(CALL_AGAIN, "sUUu", id, (uint64_t)0, (uint64_t)UINT64_MAX,
                     (uint32_t)(AGAIN_FOLLOW | AGAIN_INPUT));
        struct buf b = {0};

        CHECK_INT(frame_recv(fd, &type, &b), 1);
        buf_done(&b);
        (void)close(fd);
        CHECK(mono_ns() < until);
    }
}

static void check_input_in_order(const char *path)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    static uint32_t got[INPUT_SENT / 4];
    size_t len = 0;
    ssize_t n;

    while ((n = read_some(fd, (char *)got + len, sizeof(got) - len)) > 0)
        len += (size_t)n;
    CHECK(len > INPUT_SENT / 4 && len < INPUT_SENT);
    for (uint32_t i = 0; i < len / 4; i++)
        CHECK_INT(got[i], i);
}

static void check_too_much_last_input(bool comes_later)
{
    int fd;

    rig_start();
    make_fifo("go");
    fd = start_kept("ex_in", EXEC_STDIN, "echo up; read x < go; cat > got");
    expect(fd, FRAME_STDOUT, NULL);
    if (comes_later) {
        (void)close(fd);
        await_no_caller("ex_in");
        fd = again("ex_in", 0, AGAIN_FOLLOW | AGAIN_INPUT, NULL);
    }
    if (!send_input_and_leave(fd))
        SKIP("sockets cannot be made larger");
    await_no_caller("ex_in");
    let_go("go");
    CHECK_INT(see_end("ex_in").end.exit.code, 0); /* cat has seen the end of its input */
    check_input_in_order(in_files("got"));
}

TEST(input_that_is_too_much_when_its_caller_leaves_is_cut_and_has_no_hole)
{
    check_too_much_last_input(false);
}

TEST(input_that_is_too_much_when_a_later_caller_leaves_is_cut_and_has_no_hole)
{
    check_too_much_last_input(true);
}

static struct call_kept resize(const char *id, uint32_t rows, uint32_t cols)
{
    int fd = ctl(CALL_AGAIN, "sUUuuu", id, (uint64_t)INT64_MAX, (uint64_t)0, 0u, rows, cols);
    struct call_kept state = take_state(fd, FRAME_OK);

    (void)take_state(fd, FRAME_END);
    (void)close(fd);
    return state;
}

TEST(a_terminal_has_its_new_size_when_that_is_answered)
{
    struct call_kept state;
    struct seen s;
    int fd;

    rig_start();
    make_fifo("go");
    (void)close(start_kept("ex_rs", EXEC_TTY, "stty size; read x < go; stty size"));
    fd = again("ex_rs", 0, AGAIN_FOLLOW, NULL);
    expect(fd, FRAME_STDOUT, NULL);
    state = resize("ex_rs", 50, 132);
    CHECK_INT(state.rows, 50);
    CHECK_INT(state.cols, 132);
    let_go("go");
    s = see(fd);
    CHECK_STR(s.out.data, "50 132\r\n");
    CHECK_INT(s.end.rows, 50);
}

/* All records; "o…" of output is added to out. How many there were of each kind. */
static void read_recording(const char *id, struct buf *out, unsigned kinds[128],
                           uint32_t *exit_code)
{
    int fd = ctl(CALL_RECORDING, "s", id);
    struct buf all = {0}, b = {0};
    unsigned type = FRAME_DATA;
    uint64_t before = 0;
    struct wire w;

    buf_init(&all, RECORDING_MAX);
    buf_init(out, RECORDING_MAX);
    expect(fd, FRAME_OK, NULL);
    while (type == FRAME_DATA) {
        buf_init(&b, FRAME_MAX);
        CHECK_INT(frame_recv(fd, &type, &b), 1);
        (void)buf_add(&all, b.data, b.len);
        buf_done(&b);
    }
    CHECK_INT(type, FRAME_END);
    wire_init(&w, all.data, all.len);
    while (w.p < w.end) {
        uint64_t time = wire_get_u64(&w);
        uint32_t kind = wire_get_u32(&w);
        size_t len;
        const void *data = wire_get_bytes(&w, &len);

        CHECK(!w.bad && kind < 128 && time >= before);
        before = time;
        kinds[kind]++;
        if (kind == RECORD_OUTPUT)
            (void)buf_add(out, data, len);
        if (kind == RECORD_EXIT) {
            struct call_exit end;
            struct wire x;

            wire_init(&x, data, len);
            call_exit_get(&x, &end);
            CHECK(wire_ok(&x));
            *exit_code = end.code & 0xff;
        }
    }
    buf_done(&all);
    (void)close(fd);
}

TEST(a_recording_has_output_sizes_and_the_end)
{
    unsigned kinds[128] = {0};
    uint32_t code = 0;
    struct call_exec e;
    struct buf b, out;
    char *argv[4];
    struct wire w;
    int fd;

    rig_start();
    make_fifo("go");
    e = kept_shell(argv, "ex_rec", "echo one; read x < go; echo two; exit 3");
    e.flags = EXEC_TTY | EXEC_RECORD;
    fd = send_exec(&e);
    expect(fd, FRAME_STARTED, &b);
    wire_init(&w, b.data, b.len);
    (void)wire_get_u32(&w);
    CHECK_INT(wire_get_u32(&w), 1);
    CHECK_INT(wire_get_u32(&w), 1);
    CHECK(wire_ok(&w));
    buf_done(&b);
    (void)close(fd);
    fd = again("ex_rec", 0, AGAIN_FOLLOW, NULL);
    expect(fd, FRAME_STDOUT, NULL);
    (void)resize("ex_rec", 40, 100);
    let_go("go");
    (void)see(fd);
    read_recording("ex_rec", &out, kinds, &code);
    CHECK_STR(out.data, "one\r\ntwo\r\n");
    CHECK_INT(kinds[RECORD_SIZE], 2);
    CHECK_INT(kinds[RECORD_EXIT], 1);
    CHECK_INT(code, 3);
    buf_done(&out);
    expect_error(ctl(CALL_RECORDING, "s", "ex_none"), ERR_NOT_FOUND, "recording_not_found");
    expect_error(ctl(CALL_RECORDING, "s", "../x"), ERR_NOT_FOUND, "recording_not_found");
}

TEST(a_recording_is_bounded_and_says_so)
{
    unsigned kinds[128] = {0};
    uint32_t code = 0;
    struct call_exec e;
    struct buf out;
    char *argv[4];
    int fd;

    rig_start();
    e = kept_shell(argv, "ex_big", "head -c 20000000 /dev/zero");
    e.flags = EXEC_TTY | EXEC_RECORD;
    fd = send_exec(&e);
    expect(fd, FRAME_STARTED, NULL);
    (void)close(fd);
    (void)see(again("ex_big", 0, AGAIN_FOLLOW, NULL));
    read_recording("ex_big", &out, kinds, &code);
    CHECK(out.len > 12 << 20 && out.len < RECORDING_MAX);
    CHECK_INT(kinds[RECORD_FULL], 1);
    CHECK_INT(kinds[RECORD_EXIT], 0);
    buf_done(&out);
}

TEST(who_leaves_again_ends_nothing_and_who_reads_along_is_limited)
{
    int many[FOLLOWERS];
    int fd;

    rig_start();
    make_fifo("go");
    (void)close(start_kept("ex_k", 0, "echo up; read x < go"));
    for (int i = 0; i < FOLLOWERS; i++) {
        many[i] = again("ex_k", 0, AGAIN_FOLLOW, NULL);
        expect(many[i], FRAME_STDOUT, NULL);
    }
    expect_error(ctl(CALL_AGAIN, "sUUu", "ex_k", (uint64_t)0, (uint64_t)1, (uint32_t)AGAIN_FOLLOW),
                 ERR_LIMIT, "too_many_streams");
    for (int i = 0; i < 7; i++)
        (void)close(many[i]);
    do { /* until the agent has seen that some left */
        unsigned type;
        struct buf b = {0};

        fd = ctl(CALL_AGAIN, "sUUu", "ex_k", (uint64_t)0, (uint64_t)UINT64_MAX,
                 (uint32_t)AGAIN_FOLLOW);
        CHECK_INT(frame_recv(fd, &type, &b), 1);
        buf_done(&b);
        if (type == FRAME_OK)
            break;
        (void)close(fd);
    } while (1);
    let_go("go");
    CHECK_STR(see(fd).out.data, "up\n");
    CHECK_INT(see(many[7]).end.exit.code, 0);
}

TEST(one_is_ended_by_its_id)
{
    struct seen s;
    int fd;

    rig_start();
    (void)close(start_kept("ex_l", 0, "echo up; sleep 1000 & sleep 1000"));
    fd = again("ex_l", 0, AGAIN_FOLLOW | AGAIN_END, NULL);
    s = see(fd);
    CHECK_INT(s.end.exit.how, EXIT_CANCELLED);
    CHECK_INT(see_again("ex_l", 0).end.exit.how, EXIT_CANCELLED);
    /* To one that has ended nothing happens. */
    CHECK_INT(see(again("ex_l", 0, AGAIN_END, NULL)).end.exit.how, EXIT_CANCELLED);
}

TEST(without_room_for_a_door_one_is_ended_all_the_same)
{
    char path[200];

    rig_start();
    snprintf(path, sizeof(path), "%s/ex_m.sock", rig.dir);
    CHECK_INT(mkdir(path, 0700), 0);
    (void)close(start_kept("ex_m", 0, "echo up; sleep 1000 & sleep 1000"));
    CHECK_INT(see(again("ex_m", 0, AGAIN_END, NULL)).end.exit.how, EXIT_CANCELLED);
}

TEST(a_door_opens_when_there_is_room_again)
{
    char path[200];

    rig_start();
    snprintf(path, sizeof(path), "%s/ex_n.sock", rig.dir);
    CHECK_INT(mkdir(path, 0700), 0);
    (void)close(start_kept("ex_n", 0, "echo up; sleep 1000"));
    expect_error(ctl(CALL_AGAIN, "sUUu", "ex_n", (uint64_t)0, (uint64_t)1, 0u), ERR_LIMIT,
                 "no_space");
    CHECK_INT(rmdir(path), 0);
    CHECK_INT(see_again("ex_n", 0).end.running, 1);
}

TEST(one_in_the_background_is_read_and_ended_by_its_id)
{
    struct seen s;
    int fd;

    rig_start();
    fd = -1;
    {
        char *argv[4];
        struct call_exec e = kept_shell(argv, "bg_a", "echo out; echo err >&2; sleep 1000");

        e.flags = EXEC_BACKGROUND;
        fd = send_exec(&e);
        (void)expect_started(fd);
        (void)close(fd);
    }
    do
        s = see_again("bg_a", 0);
    while (s.out.len < 8);
    CHECK_STR(s.out.data, "out\nerr\n");
    CHECK(s.end.running && (s.end.flags & EXEC_BACKGROUND));
    (void)see(again("bg_a", 0, AGAIN_FOLLOW | AGAIN_END, NULL));
    CHECK_INT(see_again("bg_a", 0).end.exit.how, EXIT_CANCELLED);
}

TEST(the_oldest_are_forgotten)
{
    char id[16];

    rig_start();
    for (int i = 0; i < 40; i++) {
        snprintf(id, sizeof(id), "ex_big%d", i);
        CHECK_INT(collect(start_kept(id, EXEC_COLLECT, "head -c 70000 /dev/zero")).exit.code, 0);
    }
    CHECK_INT(see_again("ex_big39", 0).out.len, 70000);
    CHECK_INT(see_again("ex_big8", 0).out.len, 70000);
    CHECK_INT(see_again("ex_big0", 0).lost, 70000); /* how it ended is known */
    CHECK(!has_file("ex_big0", ".out") && !has_file("ex_big0", ".end"));
    for (int i = 0; i < 300; i++) {
        snprintf(id, sizeof(id), "ex_%d", i);
        CHECK_INT(collect(start_kept(id, EXEC_COLLECT, ":")).exit.code, 0);
    }
    CHECK_INT(see_again("ex_299", 0).end.exit.code, 0);
    expect_error(ctl(CALL_AGAIN, "sUUu", "ex_big0", (uint64_t)0, (uint64_t)1, 0u), ERR_NOT_FOUND,
                 "exec_not_found");
    expect_error(ctl(CALL_AGAIN, "sUUu", "ex_0", (uint64_t)0, (uint64_t)1, 0u), ERR_NOT_FOUND,
                 "exec_not_found");
}

static void check_ended(const char *id, const char *out, const char *err, unsigned code)
{
    struct seen s = see_again(id, 0);

    CHECK_STR(s.out.data, out);
    CHECK_STR(s.err.data, err);
    CHECK_INT(s.end.exit.code, code);
    CHECK_INT(s.lost, 0);
}

TEST(what_has_ended_is_known_to_the_next_agent_of_a_sandbox)
{
    rig_start();
    expect_ok(ctl(CALL_KEEP, ""));
    CHECK(!has_file("board", ".kept"));
    (void)collect(start_kept("ex_a", EXEC_COLLECT, "echo out; echo err >&2; echo more; exit 3"));
    (void)collect(start_kept("ex_none", EXEC_COLLECT, "exit 4"));
    expect_ok(ctl(CALL_KEEP, ""));
    CHECK(!has_file("board", ".new"));
    for (int i = 0; i < 2; i++) {
        rig_start_again();
        check_ended("ex_a", "out\nmore\n", "err\n", 3);
        check_ended("ex_none", "", "", 4);
        expect_ok(ctl(CALL_KEEP, ""));
    }
    (void)collect(start_kept("ex_a", EXEC_COLLECT, "echo newer")); /* of one id the newer */
    expect_ok(ctl(CALL_KEEP, ""));
    rig_start_again();
    check_ended("ex_a", "newer\n", "", 0);
}

/* As after a crash of the host, or by an agent that the box had taken over. */
TEST(a_file_of_ends_that_is_damaged_costs_its_rest_only)
{
    char path[160], other[160];
    auto_free char *whole = NULL;
    struct stat st;
    size_t len;

    rig_start();
    (void)collect(start_kept("ex_a", EXEC_COLLECT, "echo first"));
    (void)collect(start_kept("ex_b", EXEC_COLLECT, "echo second"));
    expect_ok(ctl(CALL_KEEP, ""));
    snprintf(path, sizeof(path), "%s/board.kept", rig.dir);
    snprintf(other, sizeof(other), "%s/other", rig.dir);
    CHECK_INT(stat(path, &st), 0);
    len = (size_t)st.st_size;
    whole = xcalloc(len + 1, 1);
    CHECK_INT(read_file_at(-1, path, whole, len + 1) >= 0, 1);
    CHECK_INT(truncate(path, st.st_size - 3), 0);
    rig_start_again();
    check_ended("ex_a", "first\n", "", 0);
    expect_error(ctl(CALL_AGAIN, "sUUu", "ex_b", (uint64_t)0, (uint64_t)1, 0u), ERR_NOT_FOUND,
                 "exec_not_found");
    for (size_t at = 0; at < len; at += 7) { /* each length and number becomes very large once */
        int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);

        CHECK_INT(write_all(fd, whole, len), 0);
        CHECK_INT(pwrite(fd, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, (off_t)at), 8);
        (void)close(fd);
        rig_start_again();
        (void)collect(start_kept("ex_c", EXEC_COLLECT, "echo third"));
        check_ended("ex_c", "third\n", "", 0);
    }
    CHECK_INT(unlink(path), 0);
    CHECK_INT(symlink(other, path), 0);
    rig_start_again();
    CHECK_INT(unlink(path), 0);
    CHECK_INT(mkfifo(path, 0600), 0);
    rig_start_again();
    CHECK_STR(run_shell("echo served").out.data, "served\n");
}

TEST(what_runs_and_what_has_ended_are_listed)
{
    unsigned running = 0, ended = 0, type;
    struct call_kept state;
    struct buf b = {0};
    struct wire w;
    int fd;

    rig_start();
    (void)collect(start_kept("ex_runs", EXEC_COLLECT, ":")); /* of one id the one that runs */
    fd = start_kept("ex_runs", 0, "echo up; sleep 1000");
    expect(fd, FRAME_STDOUT, NULL);
    (void)collect(start_kept("ex_done", EXEC_COLLECT, ":"));
    (void)collect(start_kept("ex_long", EXEC_COLLECT, "head -c 100000 /dev/zero"));
    fd = ctl(CALL_EXECS, "");
    for (;;) {
        CHECK_INT(frame_recv(fd, &type, &b), 1);
        if (type == FRAME_END)
            break;
        CHECK_INT(type, FRAME_ITEM);
        wire_init(&w, b.data, b.len);
        call_state_get(&w, &state);
        CHECK(wire_ok(&w));
        running += state.running;
        ended += !state.running;
    }
    buf_done(&b);
    CHECK_INT(running, 1);
    CHECK_INT(ended, 2);
}

TEST(a_supervisor_that_was_killed_leaves_one_that_is_lost)
{
    pid_t supervisor;
    struct seen s;
    int fd;

    rig_start();
    make_fifo("go");
    fd = start_kept("ex_m", 0, "echo $PPID; read x < go; kill -9 $PPID; sleep 1000");
    supervisor = expect_pid(fd);
    (void)close(fd);
    let_go("go");
    expect_dead(supervisor);
    s = see_again("ex_m", 0);
    CHECK_INT(s.end.exit.how, EXIT_LOST);
}

TAP_MAIN

TEST(a_door_that_found_no_room_is_tried_again)
{
    char path[160];

    rig_start();
    make_fifo("go");
    snprintf(path, sizeof(path), "%s/ex_n.sock", rig.dir);
    CHECK_INT(mkdir(path, 0700), 0); /* in its place */
    (void)close(start_kept("ex_n", 0, "read x < go; exit 4"));
    expect_error(ctl(CALL_AGAIN, "sUUu", "ex_n", (uint64_t)0, (uint64_t)0, 0), ERR_LIMIT,
                 "no_space");
    CHECK_INT(rmdir(path), 0);
    CHECK(see_again("ex_n", 0).end.running);
    let_go("go");
    CHECK_INT(see_end("ex_n").end.exit.code, 4);
}

TEST(one_in_the_background_has_no_input_and_goes_on_without)
{
    char *argv[4];
    struct call_exec e;
    int fd;

    rig_start();
    make_fifo("go");
    e = kept_shell(argv, "bg_b", "read x < go; exit 5");
    e.flags = EXEC_BACKGROUND;
    fd = send_exec(&e);
    (void)expect_started(fd);
    (void)close(fd);
    fd = again("bg_b", 0, AGAIN_FOLLOW | AGAIN_INPUT, NULL);
    CHECK_INT(frame_send(fd, FRAME_STDIN, "lost\n", 5), 0);
    CHECK_INT(frame_send(fd, FRAME_STDIN, NULL, 0), 0);
    let_go("go");
    CHECK_INT(see(fd).end.exit.code, 5);
}

TEST(who_reads_slowly_what_has_ended_is_a_stream)
{
    int fds[STREAMS];

    rig_start();
    (void)collect(start_kept("ex_q", 0, "head -c 2000000 /dev/zero"));
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = again("ex_q", 0, AGAIN_FOLLOW, NULL);
    expect_error(ctl(CALL_AGAIN, "sUUu", "ex_q", (uint64_t)0, (uint64_t)UINT64_MAX, AGAIN_FOLLOW),
                 ERR_LIMIT, "too_many_streams");
    (void)see_again("ex_q", UINT64_MAX); /* who does not stay is no stream */
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
}

TEST(an_end_that_no_file_takes_is_kept_without_its_output)
{
    char path[160];
    struct seen s;

    rig_start();
    snprintf(path, sizeof(path), "%s/ex_m.end", rig.dir);
    CHECK_INT(mkdir(path, 0700), 0);
    (void)collect(start_kept("ex_m", 0, "head -c 100000 /dev/zero; exit 3"));
    s = see_again("ex_m", 0);
    CHECK_INT(s.end.exit.how, EXIT_CODE);
    CHECK_INT(s.end.exit.code, 3);
    CHECK_INT(s.lost, 100000);
    CHECK(!has_file("ex_m", ".out"));
}

TEST(no_two_that_run_have_one_id)
{
    char *argv[4];
    struct call_exec e;

    rig_start();
    (void)close(start_kept("ex_p", 0, "exec sleep 1000"));
    e = kept_shell(argv, "ex_p", "echo twice");
    expect_error(send_exec(&e), ERR_CONFLICT, "exec_exists");
    (void)see(again("ex_p", 0, AGAIN_FOLLOW | AGAIN_END, NULL));
    CHECK_STR(collect(start_kept("ex_p", 0, "echo later")).out.data, "later\n");
    CHECK_STR(see_again("ex_p", 0).out.data, "later\n");
}

TEST(an_id_that_is_to_run_once_does)
{
    char *argv[4];
    struct call_exec e;

    rig_start();
    e = kept_shell(argv, "ex_once", "echo once");
    e.flags |= EXEC_ONCE;
    CHECK_STR(collect(start_kept("ex_once", EXEC_ONCE, "echo once")).out.data, "once\n");
    expect_error(send_exec(&e), ERR_CONFLICT, "exec_exists");
    CHECK_STR(see_again("ex_once", 0).out.data, "once\n");
    (void)collect(start_kept("ex_long", 0, "head -c 100000 /dev/zero")); /* this one has a file */
    e.id = "ex_long";
    expect_error(send_exec(&e), ERR_CONFLICT, "exec_exists");
}

TEST(an_end_is_known_when_its_output_is_not_any_more)
{
    char id[16];
    struct seen s;

    rig_start();
    (void)collect(start_kept("ex_first", 0, "head -c 1000 /dev/zero; exit 4"));
    for (int i = 0; i < 12; i++) {
        (void)snprintf(id, sizeof(id), "ex_%d", i);
        (void)collect(start_kept(id, 0, "head -c 60000 /dev/zero"));
    }
    s = see_again("ex_first", 0);
    CHECK_INT(s.end.exit.code, 4);
    CHECK_INT(s.lost, 1000);
}

TEST(one_whose_caller_does_not_read_is_ended_by_its_id)
{
    struct result r;
    int fd;

    rig_start();
    fd = start_kept("ex_o", 0, "yes");
    while (see_again("ex_o", UINT64_MAX).end.end < 200000) /* as much as nobody takes */
        (void)usleep(10000);
    CHECK_INT(see(again("ex_o", UINT64_MAX, AGAIN_FOLLOW | AGAIN_END, NULL)).end.exit.how,
              EXIT_CANCELLED);
    r = collect(fd); /* who has all of it all the same */
    CHECK_INT(r.exit.how, EXIT_CANCELLED);
    CHECK_INT(see_again("ex_o", UINT64_MAX).end.end, r.out.len);
}

/* To a process and all below it, from the top. */
static void signal_family(pid_t pid, int sig)
{
    char path[64], text[4096], *p = text;
    long child;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    if (kill(pid, sig) < 0 || read_file_at(-1, path, text, sizeof(text)) < 0)
        return; /* it has ended */
    while ((child = strtol(p, &p, 10)) > 0)
        signal_family((pid_t)child, sig);
}

TEST(one_in_the_background_does_not_begin_when_its_caller_has_given_up)
{
    char *argv[4];
    struct call_exec e;

    rig_start();
    (void)run_shell(":"); /* all of the agent is there */
    signal_family(rig.agent, SIGSTOP);
    e = kept_shell(argv, "bg_c", "echo begun >began");
    e.flags = EXEC_BACKGROUND;
    (void)close(send_exec(&e));
    signal_family(rig.agent, SIGCONT);
    for (int i = 0; i < 8; i++)
        (void)run_shell(":"); /* later than that one */
    CHECK(access(in_files("began"), F_OK) < 0);
    CHECK(!has_file("bg_c", ".log") && !has_file("bg_c", ".state"));
}

/* How many of two execs with one id have begun, that come at the same moment. */
static unsigned begun_of_two(void)
{
    char *argv[4];
    struct call_exec e = kept_shell(argv, "ex_r", "sleep 1000");
    unsigned type, begun = 0;
    int fds[2];

    signal_family(rig.agent, SIGSTOP);
    for (int i = 0; i < 2; i++)
        fds[i] = send_exec(&e);
    signal_family(rig.agent, SIGCONT);
    for (int i = 0; i < 2; i++) {
        struct buf b = {0};

        CHECK_INT(frame_recv(fds[i], &type, &b), 1);
        CHECK(type == FRAME_STARTED || type == FRAME_ERROR);
        begun += type == FRAME_STARTED;
        buf_done(&b);
    }
    for (int i = 0; i < 2; i++)
        (void)frame_send(fds[i], FRAME_CANCEL, NULL, 0);
    for (int i = 0; i < 2; i++) { /* until it has ended */
        char c[256];

        while (read(fds[i], c, sizeof(c)) > 0)
            ;
        (void)close(fds[i]);
    }
    return begun;
}

TEST(of_two_that_come_together_with_one_id_one_runs_at_the_most)
{
    unsigned begun = 0;

    rig_start();
    (void)run_shell(":");
    for (int i = 0; i < 20; i++) {
        unsigned n = begun_of_two();

        CHECK(n <= 1);
        begun += n;
    }
    CHECK_STR(collect(start_kept("ex_r", 0, "echo free")).out.data, "free\n");
    CHECK(begun > 0);
}
