#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "frame_recv.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/log_file.h"
#include "proto/plan.h"
#include "proto/wire.h"
#include "tap.h"
#include "tmpdir.h"

TEST(an_exec_call_survives_the_wire)
{
    char *argv[] = {"sh", "-c", "echo", NULL}, *env[] = {"A=1", "B=", NULL};
    struct call_exec in = {.flags = EXEC_TTY,
                           .id = "bg_1",
                           .argv = argv,
                           .env = env,
                           .cwd = "/tmp",
                           .user = "",
                           .timeout_ms = 1ull << 40,
                           .rows = 24,
                           .cols = 80,
                           .nofile = 99};
    struct call_exec out;
    auto_buf struct buf b;
    struct wire w;

    buf_init(&b, FRAME_MAX);
    call_exec_put(&b, &in);
    wire_init(&w, b.data, b.len);
    call_exec_get(&w, &out);
    CHECK(wire_ok(&w));
    CHECK_STR(out.argv[2], "echo");
    CHECK(!out.argv[3]);
    CHECK_STR(out.env[1], "B=");
    CHECK(out.timeout_ms == 1ull << 40);
    CHECK_INT(out.nofile, 99);
    call_exec_done(&out);
}

TEST(limits_and_the_length_of_input_survive_the_wire)
{
    char *argv[] = {"cat", NULL}, *env[] = {NULL};
    struct call_exec in = {.flags = EXEC_LIMITS | EXEC_INPUT,
                           .id = "",
                           .argv = argv,
                           .env = env,
                           .cwd = "/",
                           .user = "",
                           .n_limits = 2,
                           .limits = {{7, 64, 128}, {4, 0, RLIMIT_UNBOUNDED}},
                           .input_len = 5};
    struct call_exec out;
    auto_buf struct buf b;
    struct wire w;

    buf_init(&b, FRAME_MAX);
    call_exec_put(&b, &in);
    wire_init(&w, b.data, b.len);
    call_exec_get(&w, &out);
    CHECK(wire_ok(&w) && w.p == w.end);
    CHECK_INT(out.n_limits, 2);
    CHECK_INT(out.limits[0].soft, 64);
    CHECK_INT(out.limits[0].hard, 128);
    CHECK(out.limits[1].hard == RLIMIT_UNBOUNDED);
    CHECK_INT(out.input_len, 5);
    call_exec_done(&out);
}

TEST(more_limits_than_there_are_cannot_be_read)
{
    char *argv[] = {"cat", NULL}, *env[] = {NULL};
    struct call_exec in = {.flags = EXEC_LIMITS,
                           .id = "",
                           .argv = argv,
                           .env = env,
                           .cwd = "/",
                           .user = "",
                           .n_limits = 1,
                           .limits = {{7, 64, 128}}};
    struct call_exec out;
    auto_buf struct buf b;
    struct wire w;

    buf_init(&b, FRAME_MAX);
    call_exec_put(&b, &in);
    b.data[b.len - 24] = RLIMITS_MAX + 1;
    wire_init(&w, b.data, b.len);
    call_exec_get(&w, &out);
    CHECK(!wire_ok(&w));
    CHECK_INT(out.n_limits, 0);
    call_exec_done(&out);
}

TEST(what_is_kept_of_an_exec_survives_the_wire)
{
    struct call_kept in = {.id = "ex_a",
                           .command = "make all",
                           .running = 1,
                           .pid = 7,
                           .flags = EXEC_TTY,
                           .started_ms = 8,
                           .finished_ms = 9,
                           .start = 1ull << 40,
                           .end = (1ull << 40) + 5,
                           .exit = {.how = EXIT_SIGNAL, .code = 9, .duration_ns = 3}},
                     out;
    char long_id[64];
    struct buf b;
    struct wire w;

    buf_init(&b, 512);
    call_kept_put(&b, &in);
    wire_init(&w, b.data, b.len);
    call_kept_get(&w, &out);
    CHECK(wire_ok(&w) && memcmp(&in, &out, sizeof(in)) == 0);
    for (size_t cut = 0; cut < b.len; cut++) {
        wire_init(&w, b.data, cut);
        call_kept_get(&w, &out);
        CHECK(!wire_ok(&w));
    }
    memset(long_id, 'x', sizeof(long_id) - 1);
    long_id[sizeof(long_id) - 1] = '\0';
    buf_clear(&b);
    wire_put_str(&b, long_id);
    wire_init(&w, b.data, b.len);
    call_kept_get(&w, &out);
    CHECK(!wire_ok(&w) && out.id[0] == '\0');
    buf_done(&b);
}

TEST(every_cut_of_a_message_is_refused)
{
    char *list[] = {"one", "two", NULL};
    struct plan in = {.id = "sbx_1",
                      .hostname = "h",
                      .nameserver = "10.0.0.1",
                      .layers = list,
                      .binds = list,
                      .work = list,
                      .agent = list,
                      .ids_base = 1,
                      .owner = 2,
                      .file_max = 2,
                      .mounts = {{.path = "/data", .sub = "a", .device = 7}},
                      .n_mounts = 1};
    auto_buf struct buf b;

    buf_init(&b, PLAN_MAX);
    plan_put(&b, &in);
    for (size_t n = 0; n <= b.len; n++) {
        struct plan out;
        struct wire w;

        wire_init(&w, b.data, n);
        plan_get(&w, &out);
        CHECK_INT(wire_ok(&w), n == b.len);
        plan_done(&out);
    }
}

TEST(a_list_cannot_claim_more_than_is_there)
{
    static const unsigned char lie[] = {0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0};
    auto_strv char **list = NULL;
    struct wire w;

    wire_init(&w, lie, sizeof(lie));
    list = wire_get_list(&w, SIZE_MAX);
    CHECK(!wire_ok(&w));
    CHECK_INT(strv_len(list), 0);
}

TEST(a_string_with_a_nul_in_it_is_refused)
{
    auto_buf struct buf b;
    auto_free char *s = NULL;
    struct wire w;

    buf_init(&b, 100);
    wire_put_bytes(&b, "a\0b", 3);
    wire_init(&w, b.data, b.len);
    s = wire_get_str(&w);
    CHECK(!wire_ok(&w));
    CHECK_STR(s, "");
}

TEST(frames_cross_a_socket_whole)
{
    auto_buf struct buf b;
    unsigned type;
    int sv[2];

    buf_init(&b, 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    CHECK_INT(frame_send(sv[0], FRAME_STDOUT, "hello", 5), 0);
    CHECK_INT(frame_send(sv[0], FRAME_END, NULL, 0), 0);
    CHECK_INT(close(sv[0]), 0);
    CHECK_INT(frame_recv(sv[1], &type, &b), 1);
    CHECK_INT(type, FRAME_STDOUT);
    CHECK_STR(b.data, "hello");
    CHECK_INT(frame_recv(sv[1], &type, &b), 1);
    CHECK_INT(type, FRAME_END);
    CHECK_INT(b.len, 0);
    CHECK_INT(frame_recv(sv[1], &type, &b), 0);
}

TEST(a_frame_is_queued_whole_or_not_at_all)
{
    static char big[FRAME_MAX + 1];
    auto_buf struct buf b = {0};
    unsigned type;

    buf_init(&b, 2 * FRAME_HEADER + 5);
    CHECK_INT(frame_put(&b, FRAME_STDOUT, "hello", 5), 0);
    CHECK_INT(frame_parse(b.data, b.len, &type), FRAME_HEADER + 5);
    CHECK_INT(type, FRAME_STDOUT);
    CHECK_INT(frame_put(&b, FRAME_STDOUT, "x", 1), -EMSGSIZE);
    CHECK_INT(b.len, FRAME_HEADER + 5);
    CHECK_INT(frame_put(&b, FRAME_END, NULL, 0), 0);
    b.max = 2 * FRAME_MAX;
    CHECK_INT(frame_put(&b, FRAME_DATA, big, FRAME_MAX + 1), -EMSGSIZE);
    CHECK_INT(frame_put(&b, FRAME_DATA, big, FRAME_MAX), 0);
}

TEST(frames_are_taken_as_they_become_whole)
{
    auto_buf struct buf in = {0}, out = {0};
    size_t at = 0;
    struct frame f;
    int sv[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    buf_init(&in, FRAME_BUFFER_MAX(64));
    buf_init(&out, 1000);
    CHECK_INT(frame_take(&in, &at, &f), 0);
    CHECK_INT(frame_fill(sv[1], &in, &at, 64), -EAGAIN);
    (void)frame_put(&out, FRAME_STDOUT, "one", 3);
    (void)frame_put(&out, FRAME_STDERR, NULL, 0);
    (void)frame_put(&out, FRAME_STDOUT, "three", 5);
    CHECK_INT(send(sv[0], out.data, out.len - 2, 0), out.len - 2);
    CHECK_INT(frame_fill(sv[1], &in, &at, 64), out.len - 2);
    CHECK_INT(frame_take(&in, &at, &f), 1);
    CHECK(f.type == FRAME_STDOUT && f.len == 3 && memcmp(f.data, "one", 3) == 0);
    CHECK_INT(frame_take(&in, &at, &f), 1);
    CHECK(f.type == FRAME_STDERR && f.len == 0);
    CHECK_INT(frame_take(&in, &at, &f), 0);
    CHECK_INT(send(sv[0], out.data + out.len - 2, 2, 0), 2);
    CHECK_INT(frame_fill(sv[1], &in, &at, 64), 2);
    CHECK_INT(frame_take(&in, &at, &f), 1);
    CHECK(f.type == FRAME_STDOUT && f.len == 5 && memcmp(f.data, "three", 5) == 0);
    CHECK_INT(send(sv[0], "xxxxxxxx", 8, 0), 8);
    CHECK_INT(frame_fill(sv[1], &in, &at, 64), 8);
    CHECK_INT(frame_take(&in, &at, &f), -EPROTO);
    CHECK_INT(shutdown(sv[0], SHUT_WR), 0);
    CHECK_INT(frame_fill(sv[1], &in, &at, 64), 0);
}

TEST(a_buffer_of_frames_grows_with_what_came_and_takes_the_longest)
{
    static char big[FRAME_MAX];
    auto_buf struct buf in = {0}, out = {0};
    size_t at = 0, sent = 0;
    struct frame f;
    int sv[2];

    memset(big, 'x', sizeof(big));
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    buf_init(&in, FRAME_BUFFER_MAX(64));
    buf_init(&out, FRAME_HEADER + FRAME_MAX);
    CHECK_INT(frame_put(&out, FRAME_DATA, big, sizeof(big)), 0);
    CHECK_INT(send(sv[0], out.data, FRAME_HEADER, 0), FRAME_HEADER);
    sent = FRAME_HEADER;
    CHECK_INT(frame_fill(sv[1], &in, &at, 64), FRAME_HEADER);
    CHECK(in.cap < 1024);
    while (frame_take(&in, &at, &f) == 0) {
        ssize_t n = send(sv[0], out.data + sent, out.len - sent, MSG_DONTWAIT);

        sent += n > 0 ? (size_t)n : 0;
        CHECK(frame_fill(sv[1], &in, &at, 64) > 0);
    }
    CHECK(f.type == FRAME_DATA && f.len == FRAME_MAX && memcmp(f.data, big, FRAME_MAX) == 0);
}

TEST(a_frame_that_is_too_long_ends_the_connection)
{
    static const unsigned char huge[] = {0xff, 0xff, 0xff, 0xff, 4, 0, 0, 0};
    static const unsigned char padded[] = {0, 0, 0, 0, 4, 0, 1, 0};
    unsigned type;

    CHECK_INT(frame_parse(huge, sizeof(huge), &type), -EPROTO);
    CHECK_INT(frame_parse(padded, sizeof(padded), &type), -EPROTO);
    CHECK_INT(frame_parse(padded, 7, &type), 0);
}

TEST(an_agent_cannot_put_words_into_the_api)
{
    struct err in = {.kind = ERR_INVALID, .code = "made_up", .text = "x"}, out = {0};
    auto_buf struct buf b;

    buf_init(&b, 1000);
    call_error_put(&b, &in);
    CHECK_INT(call_error_get(b.data, b.len, &out), -1);
    CHECK_INT(out.kind, ERR_INVALID);
    CHECK(!out.code);
    CHECK_INT(call_error_get(b.data, b.len - 1, &out), -1);
    CHECK_INT(out.kind, ERR_INTERNAL);
}

/* ---- logs ---- */

static void put_file(int dir, const char *name, const void *data, size_t len)
{
    auto_close int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0);
    CHECK_INT(write_all(fd, data, len), 0);
}

/* The state of an exec that has ended, and a log of ten bytes. */
static void put_log(int dir)
{
    auto_buf struct buf b = {0};

    buf_init(&b, LOG_STATE_MAX);
    call_log_put(&b, &(struct call_log){.pid = 7, .exit = {.code = 3}});
    wire_put_u32(&b, 1);
    put_file(dir, "bg_1.state", b.data, b.len);
    put_file(dir, "bg_1.log", "0123456789", 10);
}

static void put_marks(int dir, const struct log_mark *marks, size_t n)
{
    unsigned char data[8 * LOG_MARK_SIZE];

    for (size_t i = 0; i < n; i++)
        log_mark_pack(&marks[i], data + i * LOG_MARK_SIZE);
    put_file(dir, "bg_1.marks", data, n * LOG_MARK_SIZE);
}

/* All of it from offset on, a letter before each piece: which stream it is of. */
static char *read_log(int dir, uint64_t offset)
{
    struct log_file l = LOG_FILE(dir, "bg_1");
    struct log_mark mark;
    char piece[16];
    struct buf text;
    ssize_t n;

    buf_init(&text, 4096);
    (void)buf_add_str(&text, "");
    CHECK_INT(log_file_look(&l), 0);
    CHECK_INT(l.now.exit.code, 3);
    l.offset = offset;
    while ((n = log_file_next(&l, piece, sizeof(piece), &mark)) > 0)
        (void)buf_addf(&text, "%c%llu:%.*s ", mark.is_stderr ? 'e' : 'o',
                       (unsigned long long)mark.time_ms, (int)n, piece);
    CHECK_INT(n, 0);
    log_file_close(&l);
    return buf_steal(&text);
}

static void check_log(int dir, uint64_t offset, const char *want)
{
    auto_free char *got = read_log(dir, offset);

    CHECK_STR(got, want);
}

TEST(a_log_says_which_stream_and_when)
{
    auto_dir char *path = dir_new();
    auto_close int dir = open(path, O_RDONLY | O_DIRECTORY);

    put_log(dir);
    check_log(dir, 0, "o0:0123456789 "); /* as older agents leave it */
    put_marks(dir, (struct log_mark[]){{0, false, 5}, {4, true, 6}, {6, false, 7}}, 3);
    check_log(dir, 0, "o5:0123 e6:45 o7:6789 ");
    check_log(dir, 5, "e6:5 o7:6789 ");
    check_log(dir, 10, "");
    check_log(dir, UINT64_MAX, "");
}

TEST(a_log_is_read_in_any_order_and_without_marks)
{
    auto_dir char *path = dir_new();
    auto_close int dir = open(path, O_RDONLY | O_DIRECTORY);
    static const uint64_t offsets[] = {9, 0, 4, 3, 8, 5, 0};
    struct log_file l = LOG_FILE(dir, "bg_1");
    struct log_mark mark;
    char piece[16];

    put_log(dir);
    /* Of two at one place the first one's bytes could not be written. */
    put_marks(dir, (struct log_mark[]){{0, false, 5}, {4, true, 6}, {4, false, 7}, {8, true, 8}},
              4);
    check_log(dir, 0, "o5:0123 o7:4567 e8:89 ");
    CHECK_INT(log_file_look(&l), 0);
    for (size_t i = 0; i < ARRAY_LEN(offsets); i++) {
        l.offset = offsets[i];
        CHECK(log_file_next(&l, piece, sizeof(piece), &mark) > 0);
        CHECK_INT(mark.time_ms, offsets[i] < 4 ? 5 : offsets[i] < 8 ? 7 : 8);
    }
    log_file_close(&l);
    l = LOG_FILE(dir, "bg_1");
    l.plain = true;
    CHECK_INT(log_file_look(&l), 0);
    CHECK_INT(log_file_next(&l, piece, sizeof(piece), &mark), 10);
    log_file_close(&l);
}

TEST(a_log_that_somebody_made_up_is_read_to_its_end)
{
    auto_dir char *path = dir_new();
    auto_close int dir = open(path, O_RDONLY | O_DIRECTORY);
    struct log_file l = LOG_FILE(dir, "bg_1");

    put_log(dir);
    put_marks(dir, (struct log_mark[]){{9, true, 5}, {0, false, 6}, {3, true, 7}, {3, true, 8}}, 4);
    free(read_log(dir, 0));
    put_marks(dir, (struct log_mark[]){{1ull << 62, true, UINT64_MAX}}, 1);
    check_log(dir, 0, "o0:0123456789 ");
    put_file(dir, "bg_1.marks", "odd", 3);
    check_log(dir, 0, "o0:0123456789 ");

    CHECK_INT(unlinkat(dir, "bg_1.log", 0), 0);
    CHECK_INT(symlinkat("/etc/passwd", dir, "bg_1.log"), 0);
    CHECK(log_file_look(&l) < 0);
    CHECK_INT(unlinkat(dir, "bg_1.log", 0), 0);
    CHECK_INT(mkfifoat(dir, "bg_1.log", 0600), 0);
    CHECK_INT(log_file_look(&l), -ENOENT);
    put_file(dir, "bg_1.state", "short", 5);
    CHECK_INT(log_file_look(&l), -EIO);
}

TEST(a_change_of_a_file_comes_as_it_went)
{
    struct call_change sent = {.kind = CHANGE_RENAME,
                               .is_dir = 1,
                               .time_ms = 1767225600000,
                               .lost = 7,
                               .path = "/workspace/b",
                               .from = "/workspace/a"},
                       got;
    auto_buf struct buf b = {0};
    struct wire w;

    buf_init(&b, 1024);
    call_change_put(&b, &sent);
    wire_init(&w, b.data, b.len);
    call_change_get(&w, &got);
    CHECK(wire_ok(&w));
    CHECK_INT(got.kind, CHANGE_RENAME);
    CHECK_INT(got.is_dir, 1);
    CHECK_INT(got.time_ms, 1767225600000);
    CHECK_INT(got.lost, 7);
    CHECK_STR(got.path, "/workspace/b");
    CHECK_STR(got.from, "/workspace/a");
    call_change_done(&got);
    /* And cut anywhere it is not taken for one. */
    for (size_t n = 0; n < b.len; n++) {
        wire_init(&w, b.data, n);
        call_change_get(&w, &got);
        CHECK(!wire_ok(&w));
        call_change_done(&got);
    }
}

TAP_MAIN
