#include <errno.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/plan.h"
#include "proto/wire.h"
#include "tap.h"

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

TEST(every_cut_of_a_message_is_refused)
{
    char *list[] = {"one", "two", NULL};
    struct plan in = {.id = "sbx_1",
                      .hostname = "h",
                      .layers = list,
                      .binds = list,
                      .work = list,
                      .agent = list,
                      .ids_base = 1,
                      .file_max = 2};
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

TAP_MAIN
