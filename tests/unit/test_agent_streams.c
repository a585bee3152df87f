/* Handlers of the agent that live long, and those that must wait for their turn. */
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include "agent_rig.h"
#include "base/clock.h"

#define STREAMS 64 /* as many as the agent carries */

static void make_fifo(const char *name)
{
    CHECK_INT(mkfifo(in_files(name), 0600), 0);
}

/* Lets a script go on that waits in `read x < name`. Each name serves once: a script that comes to
 * it again before we have closed our end finds no input there, and does not wait. */
static void let_go(const char *name)
{
    int fd = open(in_files(name), O_WRONLY | O_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_INT(write_all(fd, "x\n", 2), 0);
    (void)close(fd);
}

static pid_t start_background(const char *name, const char *script)
{
    char *argv[4];
    struct call_exec e = shell(argv, script);
    int fd;
    pid_t pid;

    e.flags = EXEC_BACKGROUND | (strcmp(name, "main") == 0 ? EXEC_APART : 0);
    e.id = (char *)(uintptr_t)name;
    e.cwd = rig.files;
    fd = send_exec(&e);
    pid = expect_started(fd);
    (void)close(fd);
    return pid;
}

static int follow(const char *name, uint64_t offset)
{
    int fd = ctl(CALL_FOLLOW, "sU", name, offset);

    expect(fd, FRAME_OK, NULL);
    return fd;
}

/* Reads until so much has come; output may be cut anywhere. */
static void expect_text(int fd, const char *want)
{
    struct buf all;

    buf_init(&all, 4096);
    (void)buf_add_str(&all, "");
    while (all.len < strlen(want)) {
        struct buf part;

        expect(fd, FRAME_DATA, &part);
        CHECK_INT(buf_add(&all, part.data, part.len), 0);
        buf_done(&part);
    }
    CHECK_STR(all.data, want);
    buf_done(&all);
}

static struct call_log expect_end(int fd)
{
    struct call_log log;
    struct wire w;
    struct buf b;

    expect(fd, FRAME_END, &b);
    wire_init(&w, b.data, b.len);
    call_log_get(&w, &log);
    CHECK(wire_ok(&w));
    buf_done(&b);
    (void)close(fd);
    return log;
}

TEST(a_followed_log_comes_as_it_is_written_and_ends_with_the_exec)
{
    struct call_log log;
    int fd, late;

    rig_start();
    make_fifo("more");
    make_fifo("end");
    (void)start_background("bg_1", "echo one; read x < more; echo two; read x < end; exit 3");
    fd = follow("bg_1", 0);
    expect_text(fd, "one\n");
    let_go("more");
    expect_text(fd, "two\n");
    late = follow("bg_1", 4);
    expect_text(late, "two\n");
    let_go("end");
    log = expect_end(fd);
    CHECK_INT(log.running, 0);
    CHECK_INT(log.size, 8);
    CHECK_INT(log.exit.how, EXIT_CODE);
    CHECK_INT(log.exit.code, 3);
    CHECK_INT(expect_end(late).exit.code, 3);
}

TEST(a_log_that_has_ended_is_followed_to_its_end_at_once)
{
    rig_start();
    (void)start_background("bg_1", "echo all");
    CHECK_INT(expect_end(follow("bg_1", UINT64_MAX)).size, 4);
    {
        int fd = follow("bg_1", 0);

        expect_text(fd, "all\n");
        CHECK_INT(expect_end(fd).running, 0);
    }
    expect_error(ctl(CALL_FOLLOW, "sU", "nope", (uint64_t)0), ERR_NOT_FOUND, "log_not_found");
}

static pid_t parent_of(pid_t pid)
{
    char path[64], text[1024];
    int parent = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    CHECK(read_file_at(-1, path, text, sizeof(text)) > 0);
    CHECK_INT(sscanf(strrchr(text, ')') + 1, " %*c %d", &parent), 1);
    return parent;
}

TEST(a_follower_hears_that_the_supervisor_was_killed)
{
    pid_t pid;
    int fd;

    rig_start();
    make_fifo("never");
    pid = start_background("bg_1", "echo up; read x < never");
    fd = follow("bg_1", 0);
    expect_text(fd, "up\n");
    CHECK_INT(kill(parent_of(pid), SIGKILL), 0);
    CHECK_INT(expect_end(fd).exit.how, EXIT_LOST);
}

TEST(followers_leave_handlers_for_other_calls)
{
    int fds[STREAMS], more;
    struct buf b;

    rig_start();
    make_fifo("end");
    (void)start_background("bg_1", "read x < end");
    for (int i = 0; i < STREAMS; i++)
        fds[i] = follow("bg_1", 0);
    expect_error(ctl(CALL_FOLLOW, "sU", "bg_1", (uint64_t)0), ERR_LIMIT, "too_many_streams");
    expect_error(ctl(CALL_DIAL, "u", 1u), ERR_LIMIT, "too_many_streams");
    more = ctl(CALL_HELLO, "");
    expect(more, FRAME_OK, &b);
    buf_done(&b);
    (void)close(more);
    /* One that its caller leaves makes room; when the agent has seen that is up to it. */
    (void)close(fds[0]);
    for (;;) {
        struct buf answer = {0};
        unsigned type = 0;

        more = ctl(CALL_FOLLOW, "sU", "bg_1", (uint64_t)0);
        CHECK_INT(frame_recv(more, &type, &answer), 1);
        buf_done(&answer);
        if (type == FRAME_OK)
            break;
        (void)close(more);
        (void)sched_yield();
    }
    let_go("end");
    for (int i = 1; i < STREAMS; i++)
        CHECK_INT(expect_end(fds[i]).running, 0);
    CHECK_INT(expect_end(more).running, 0);
}

/* ---- turns of large lists ---- */

#define TURNS 2 /* as many as the agent gives at a time */
#define NAMES 4000

static void make_names(const char *dir, unsigned n)
{
    char path[600], name[256];

    CHECK_INT(mkdir(in_files(dir), 0755), 0);
    memset(name, 'n', sizeof(name) - 1);
    name[255] = '\0';
    for (unsigned i = 0; i < n; i++) {
        int at = snprintf(name, sizeof(name), "%06u", i);

        name[at] = 'n';
        snprintf(path, sizeof(path), "%s/%s", in_files(dir), name);
        CHECK_INT(mknod(path, S_IFREG | 0644, 0), 0);
    }
}

static size_t read_items(int fd)
{
    struct buf b = {0};
    unsigned type = 0;
    size_t n = 0;

    for (;;) {
        CHECK_INT(frame_recv(fd, &type, &b), 1);
        if (type == FRAME_END)
            break;
        CHECK_INT(type, FRAME_ITEM);
        n++;
    }
    buf_done(&b);
    (void)close(fd);
    return n;
}

static void expect_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    CHECK_INT(poll(&p, 1, PATIENCE_MS), 1);
}

TEST(large_lists_take_turns_and_small_ones_do_not_wait)
{
    struct pollfd third;
    int fds[TURNS];

    rig_start();
    make_names("large", NAMES); /* a megabyte: more than a socket takes at once */
    make_names("small", 3);
    for (int i = 0; i < TURNS; i++) {
        fds[i] = ctl(CALL_LIST, "ss", in_files("large"), "");
        expect_readable(fds[i]); /* it has its turn, and keeps it until all is read */
    }
    third = (struct pollfd){.fd = ctl(CALL_LIST, "ss", in_files("large"), ""), .events = POLLIN};
    for (int i = 0; i < 20; i++)
        CHECK_INT(read_items(ctl(CALL_LIST, "ss", in_files("small"), "")), 3);
    CHECK_INT(poll(&third, 1, 0), 0); /* it was asked before all of the small ones */
    /* One that is left by its caller gives its turn on, as one that is read does. */
    (void)close(fds[0]);
    CHECK_INT(read_items(third.fd), NAMES);
    CHECK_INT(read_items(fds[1]), NAMES);
}

/* The type of the frame that is there to be read. */
static unsigned peek_type(int fd)
{
    unsigned char h[FRAME_HEADER];

    CHECK_INT(recv(fd, h, sizeof(h), MSG_PEEK | MSG_WAITALL), sizeof(h));
    return h[4];
}

TEST(lists_that_wait_leave_handlers_for_other_calls)
{
    struct pollfd lists[24]; /* with the streams more than may wait, and less than there are */
    bool refused = false;
    int hello;

    rig_start();
    make_fifo("end");
    make_names("large", NAMES);
    (void)start_background("bg_1", "read x < end");
    for (int i = 0; i < STREAMS; i++)
        (void)follow("bg_1", 0);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        lists[i] =
            (struct pollfd){.fd = ctl(CALL_LIST, "ss", in_files("large"), ""), .events = POLLIN};
    while (!refused) {
        CHECK(poll(lists, ARRAY_LEN(lists), PATIENCE_MS) > 0);
        for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
            if (!lists[i].revents)
                continue;
            if (peek_type(lists[i].fd) == FRAME_ERROR) {
                expect_error(lists[i].fd, ERR_UNAVAILABLE, "sandbox_busy");
                refused = true;
            }
            lists[i].fd = -1; /* else it has a turn, and keeps it */
        }
    }
    hello = ctl(CALL_HELLO, "");
    expect(hello, FRAME_OK, NULL);
    (void)close(hello);
}

/* One piece of CALL_OUTPUT: which stream it is of, and its text. */
static uint64_t expect_piece(int fd, unsigned type, const char *want)
{
    struct buf b;
    struct wire w;
    uint64_t when;

    expect(fd, type, &b);
    wire_init(&w, b.data, b.len);
    when = wire_get_u64(&w);
    CHECK_INT(b.len, 8 + strlen(want));
    CHECK(memcmp(b.data + 8, want, strlen(want)) == 0);
    buf_done(&b);
    return when;
}

TEST(a_log_knows_which_stream_wrote_what_and_when)
{
    uint64_t before = (uint64_t)now_ms(), first, second;
    int fd;

    rig_start();
    make_fifo("more");
    make_fifo("end");
    start_background("main", "echo out; read x < more; echo err >&2; read x < end; echo end");
    fd = ctl(CALL_OUTPUT, "sUUu", "main", (uint64_t)0, UINT64_MAX, 1u);
    expect(fd, FRAME_OK, NULL);
    first = expect_piece(fd, FRAME_STDOUT, "out\n");
    let_go("more");
    second = expect_piece(fd, FRAME_STDERR, "err\n");
    let_go("end");
    (void)expect_piece(fd, FRAME_STDOUT, "end\n");
    CHECK_INT(expect_end(fd).running, 0);
    (void)close(fd);
    CHECK(before <= first && first <= second && second <= (uint64_t)now_ms());

    /* Afterwards, and from the midst of a line: the times are those of writing still. */
    fd = ctl(CALL_OUTPUT, "sUUu", "main", (uint64_t)2, (uint64_t)7, 0u);
    expect(fd, FRAME_OK, NULL);
    CHECK_INT(expect_piece(fd, FRAME_STDOUT, "t\n"), first);
    CHECK_INT(expect_piece(fd, FRAME_STDERR, "err\n"), second);
    (void)expect_piece(fd, FRAME_STDOUT, "e");
    CHECK_INT(expect_end(fd).size, 12);
    (void)close(fd);
    expect_error(ctl(CALL_OUTPUT, "sUUu", "nope", (uint64_t)0, (uint64_t)1, 0u), ERR_NOT_FOUND,
                 "log_not_found");
}

TAP_MAIN
