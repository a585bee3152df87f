#include "base/buf.h"
#include "base/clock.h"
#include "http/websocket.h"
#include "tap.h"

/* A peer: what it sends, and what it was sent. */
struct peer {
    struct buf in, out;
    size_t at, piece, unsent;
    bool gone;
};

static ssize_t peer_read(void *arg, void *data, size_t len)
{
    struct peer *p = arg;
    size_t n = p->in.len - p->at;

    if (n == 0)
        return p->gone ? -1 : 0;
    if (n > len)
        n = len;
    if (p->piece && n > p->piece)
        n = p->piece;
    memcpy(data, p->in.data + p->at, n);
    p->at += n;
    return (ssize_t)n;
}

static int peer_write(void *arg, const void *data, size_t len)
{
    struct peer *p = arg;

    return p->gone ? -1 : buf_add(&p->out, data, len);
}

static size_t peer_unsent(void *arg)
{
    return ((struct peer *)arg)->unsent;
}

static struct websocket *open_socket(struct peer *p, size_t max)
{
    const struct websocket_io io = {peer_read, peer_write, peer_unsent, p};

    *p = (struct peer){0};
    buf_init(&p->in, 1 << 20);
    buf_init(&p->out, 1 << 20);
    return websocket_new(&io, max);
}

static struct websocket *open_client(struct peer *p, size_t max)
{
    const struct websocket_io io = {peer_read, peer_write, peer_unsent, p};

    *p = (struct peer){0};
    buf_init(&p->in, 1 << 20);
    buf_init(&p->out, 1 << 20);
    return websocket_new_client(&io, max);
}

/* One frame of a client, with a mask. */
static void add_frame(struct peer *p, unsigned first, const char *data, size_t len)
{
    static const unsigned char mask[4] = {1, 2, 3, 4};
    unsigned char head[8] = {(unsigned char)first, (unsigned char)(0x80 | len)};
    size_t n = 2;

    if (len > 125) {
        head[1] = 0x80 | 126;
        head[2] = (unsigned char)(len >> 8);
        head[3] = (unsigned char)len;
        n = 4;
    }
    (void)buf_add(&p->in, head, n);
    (void)buf_add(&p->in, mask, 4);
    for (size_t i = 0; i < len; i++) {
        char c = (char)(data[i] ^ mask[i % 4]);

        (void)buf_add(&p->in, &c, 1);
    }
}

/* The code of the Close that the peer was sent at the end; 0 = none, or one without a code. */
static unsigned close_code(const struct peer *p)
{
    const unsigned char *o = (const unsigned char *)p->out.data;

    if (p->out.len < 4 || o[p->out.len - 4] != 0x88)
        return 0;
    return (unsigned)o[p->out.len - 2] << 8 | o[p->out.len - 1];
}

/* The same of what a client has sent: a Close that is all of it. */
static unsigned masked_close_code(const struct peer *p)
{
    const unsigned char *o = (const unsigned char *)p->out.data;

    if (p->out.len != 8 || o[0] != 0x88 || o[1] != 0x82)
        return 0;
    return (unsigned)(o[6] ^ o[2]) << 8 | (unsigned)(o[7] ^ o[3]);
}

TEST(the_key_of_the_standard_is_answered_as_it_says)
{
    char accept[32];

    websocket_accept_key("dGhlIHNhbXBsZSBub25jZQ==", accept);
    CHECK_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(a_subprotocol_is_found_as_a_whole_word)
{
    CHECK(websocket_list_has("cay, bearer.x", "cay"));
    CHECK(websocket_list_has("x,cay", "cay"));
    CHECK(!websocket_list_has("cayman", "cay"));
    CHECK(!websocket_list_has("Cay", "cay"));
    CHECK(!websocket_list_has(NULL, "cay"));
}

TEST(messages_come_whole_however_the_bytes_do)
{
    for (size_t piece = 1; piece < 12; piece++) {
        struct peer p;
        struct websocket *ws = open_socket(&p, 100);
        struct websocket_message m;
        int r;

        p.piece = piece;
        add_frame(&p, 0x02, "ab", 2); /* three pieces, with a ping between them */
        add_frame(&p, 0x89, "?", 1);
        add_frame(&p, 0x00, "cd", 2);
        add_frame(&p, 0x80, "ef", 2);
        add_frame(&p, 0x81, "{}", 2);
        while ((r = websocket_next(ws, &m)) == 0)
            ;
        CHECK_INT(r, 1);
        CHECK_INT(m.is_text, 0);
        CHECK_INT(m.len, 6);
        CHECK(memcmp(m.data, "abcdef", 6) == 0);
        while ((r = websocket_next(ws, &m)) == 0)
            ;
        CHECK_INT(m.is_text, 1);
        CHECK_INT(m.len, 2);
        CHECK_INT(p.out.len, 3); /* the pong */
        CHECK(memcmp(p.out.data, "\x8a\x01?", 3) == 0);
        CHECK_INT(websocket_next(ws, &m), 0);
        CHECK_INT(websocket_held(ws), 0);
        websocket_free(ws);
        buf_done(&p.in);
        buf_done(&p.out);
    }
}

TEST(a_message_that_is_not_whole_is_told_from_none)
{
    struct peer p;
    struct websocket *ws = open_socket(&p, 100);
    struct websocket_message m;

    add_frame(&p, 0x89, "?", 1);
    CHECK_INT(websocket_next(ws, &m), 0);
    CHECK(!websocket_has_part(ws));
    add_frame(&p, 0x02, "ab", 2);
    CHECK_INT(websocket_next(ws, &m), 0);
    CHECK(websocket_has_part(ws));
    add_frame(&p, 0x80, "cd", 2);
    CHECK_INT(websocket_next(ws, &m), 1);
    CHECK(!websocket_has_part(ws));
    websocket_free(ws);
    buf_done(&p.in);
    buf_done(&p.out);
}

static void check_refused(const char *bytes, size_t len, unsigned code)
{
    struct peer p;
    struct websocket *ws = open_socket(&p, 10);
    struct websocket_message m;

    (void)buf_add(&p.in, bytes, len);
    CHECK_INT(websocket_next(ws, &m), -1);
    if (code)
        CHECK_INT(close_code(&p), code);
    CHECK(p.out.len > 0);
    CHECK_INT(websocket_send(ws, false, "x", 1), -1);
    websocket_free(ws);
    buf_done(&p.in);
    buf_done(&p.out);
}

TEST(what_the_standard_forbids_is_closed_with_its_code)
{
    check_refused("\x82\x01"
                  "a",
                  3, 1002);                                 /* no mask */
    check_refused("\xc2\x81\0\0\0\0a", 7, 1002);            /* an extension that nobody agreed on */
    check_refused("\x83\x81\0\0\0\0a", 7, 1002);            /* an opcode without a meaning */
    check_refused("\x80\x81\0\0\0\0a", 7, 1002);            /* goes on with nothing */
    check_refused("\x09\x81\0\0\0\0a", 7, 0);               /* half a ping */
    check_refused("\x82\xfe\0\x01\0\0\0\0a", 9, 0);         /* a length that is not the shortest */
    check_refused("\x81\x81\0\0\0\0\xff", 7, 1007);         /* no UTF-8 */
    check_refused("\x82\x8b\0\0\0\0abcdefghijk", 17, 1009); /* too long */
    check_refused("\x02\x86\0\0\0\0abcdef\x80\x86\0\0\0\0ghijkl", 24, 1009); /* in two pieces too */
    check_refused("\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0a", 15, 1009);
}

/* The head of the frame that announces too much comes in pieces, and nothing behind it. */
static void check_announced(bool client, const char *bytes, size_t len, unsigned code)
{
    for (size_t piece = 1; piece <= len; piece++) {
        struct peer p;
        struct websocket *ws = client ? open_client(&p, 10) : open_socket(&p, 10);
        struct websocket_message m;

        p.piece = piece;
        (void)buf_add(&p.in, bytes, len);
        while (p.at < len)
            CHECK_INT(websocket_next(ws, &m), p.at < len ? 0 : -1);
        CHECK_INT(client ? masked_close_code(&p) : close_code(&p), code);
        CHECK_INT(websocket_next(ws, &m), -1);
        websocket_free(ws);
        buf_done(&p.in);
        buf_done(&p.out);
    }
}

TEST(a_frame_that_announces_too_much_is_closed_before_its_payload_comes)
{
    static const char huge[] = "\x82\xff\x40\0\0\0\0\0\0\0", top[] = "\x82\xff\x80\0\0\0\0\0\0\0",
                      most[] = "\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff",
                      two[] = "\x82\xfe\xff\xff", eleven[] = "\x82\x8b",
                      part[] = "\x02\x86\0\0\0\0abcdef\x80\x85",
                      huge_part[] =
                          "\x02\x86\0\0\0\0abcdef\x80\xff\x7f\xff\xff\xff\xff\xff\xff\xff";

    check_announced(false, huge, sizeof(huge) - 1, WEBSOCKET_TOO_LONG);
    check_announced(false, most, sizeof(most) - 1, WEBSOCKET_TOO_LONG);
    check_announced(false, top, sizeof(top) - 1, WEBSOCKET_PROTOCOL);
    check_announced(false, two, sizeof(two) - 1, WEBSOCKET_TOO_LONG);
    check_announced(false, eleven, sizeof(eleven) - 1, WEBSOCKET_TOO_LONG);
    check_announced(false, part, sizeof(part) - 1, WEBSOCKET_TOO_LONG);
    check_announced(false, huge_part, sizeof(huge_part) - 1, WEBSOCKET_TOO_LONG);
    check_announced(true, "\x82\x7f\x40\0\0\0\0\0\0\0", 10, WEBSOCKET_TOO_LONG);
    check_announced(true, "\x82\x7f\x80\0\0\0\0\0\0\0", 10, WEBSOCKET_PROTOCOL);
}

TEST(a_message_before_a_frame_that_is_refused_is_taken)
{
    struct peer p;
    struct websocket *ws = open_socket(&p, 10);
    struct websocket_message m;

    add_frame(&p, 0x82, "first", 5);
    (void)buf_add(&p.in, "\x82\xff\x40\0\0\0\0\0\0\0", 10);
    CHECK_INT(websocket_next(ws, &m), 1);
    CHECK_INT(m.len, 5);
    CHECK_INT(websocket_next(ws, &m), -1);
    CHECK_INT(close_code(&p), WEBSOCKET_TOO_LONG);
    websocket_free(ws);
    buf_done(&p.in);
    buf_done(&p.out);
}

TEST(frames_of_the_longest_message_are_taken)
{
    struct peer p;
    struct websocket *ws = open_socket(&p, 70000);
    struct websocket_message m;
    static char big[35000];

    for (int i = 0; i < 3; i++) {
        add_frame(&p, 0x02, big, sizeof(big));
        add_frame(&p, 0x89, "?", 1);
        add_frame(&p, 0x80, big, sizeof(big));
    }
    for (int i = 0; i < 3; i++) {
        CHECK_INT(websocket_next(ws, &m), 1);
        CHECK_INT(m.len, 70000);
    }
    CHECK_INT(websocket_next(ws, &m), 0);
    websocket_free(ws);
    buf_done(&p.in);
    buf_done(&p.out);
}

TEST(a_close_is_answered_and_what_came_before_it_is_taken)
{
    struct peer p;
    struct websocket *ws = open_socket(&p, 100);
    struct websocket_message m;

    add_frame(&p, 0x82, "exit\n", 5);
    add_frame(&p, 0x88, "\x03\xe8", 2);
    CHECK_INT(websocket_next(ws, &m), 1);
    CHECK_INT(m.len, 5);
    CHECK_INT(websocket_next(ws, &m), -1);
    CHECK_INT(close_code(&p), 1000);
    CHECK(websocket_is_closed(ws));
    websocket_free(ws);
    buf_done(&p.in);
    buf_done(&p.out);
}

TEST(while_a_message_is_not_taken_nothing_more_is_read)
{
    struct peer p;
    struct websocket *ws = open_socket(&p, 64 << 10);
    struct websocket_message m;
    char big[30000] = {0};
    size_t total = 0;

    for (int i = 0; i < 20; i++)
        add_frame(&p, 0x82, big, sizeof(big));
    CHECK_INT(websocket_next(ws, &m), 1);
    CHECK(p.at < 2 * sizeof(big));
    total = m.len;
    while (websocket_next(ws, &m) == 1)
        total += m.len;
    CHECK_INT(total, 20 * sizeof(big));
    websocket_free(ws);
    buf_done(&p.in);
    buf_done(&p.out);
}

TEST(who_pings_and_does_not_read_is_not_read)
{
    struct peer p;
    struct websocket *ws = open_socket(&p, 100);
    struct websocket_message m;

    p.unsent = 1 << 20;
    add_frame(&p, 0x89, "?", 1);
    CHECK(!websocket_takes(ws));
    CHECK_INT(websocket_next(ws, &m), 0);
    CHECK_INT(p.at, 0);
    p.unsent = 0;
    CHECK_INT(websocket_next(ws, &m), 0);
    CHECK_INT(p.out.len, 3);
    websocket_free(ws);
    buf_done(&p.in);
    buf_done(&p.out);
}

TEST(pings_without_end_are_answered_a_few_at_a_time)
{
    enum { PINGS = 50000 };
    struct peer p;
    struct websocket *ws = open_socket(&p, 100);
    struct websocket_message m;

    for (int i = 0; i < PINGS; i++)
        add_frame(&p, 0x89, "", 0);
    CHECK_INT(websocket_next(ws, &m), 0);
    CHECK(p.at < 16u << 10);
    while (p.at < p.in.len)
        CHECK_INT(websocket_next(ws, &m), 0);
    CHECK_INT(p.out.len, 2 * PINGS);
    websocket_free(ws);
    buf_done(&p.in);
    buf_done(&p.out);
}

TEST(a_message_of_empty_parts_is_not_read_without_end)
{
    struct peer p;
    struct websocket *ws = open_socket(&p, 100);
    struct websocket_message m;

    add_frame(&p, 0x02, "", 0);
    for (int i = 0; i < 100000; i++)
        add_frame(&p, 0x00, "", 0);
    CHECK_INT(websocket_next(ws, &m), -1);
    CHECK(p.at < 16u << 10);
    CHECK_INT(close_code(&p), WEBSOCKET_POLICY);
    websocket_free(ws);
    buf_done(&p.in);
    buf_done(&p.out);
}

TEST(a_long_reason_is_cut_between_characters)
{
    struct peer p;
    struct websocket *ws = open_socket(&p, 100);
    char reason[200];

    memset(reason, 'a', 122);
    memcpy(reason + 122, "\xc3\xa9", 3); /* would end at byte 124 */
    websocket_close(ws, WEBSOCKET_TOO_SLOW, reason);
    CHECK_INT((unsigned char)p.out.data[1], 124);
    CHECK_INT(websocket_send(ws, false, "x", 1), -1);
    websocket_free(ws);
    buf_done(&p.in);
    buf_done(&p.out);
}

TAP_MAIN
