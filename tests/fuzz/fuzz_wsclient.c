/* What a server sends to us as its client: the head of its answer to the handshake, then frames in
 * one piece and in small ones. The messages must be the same, none longer than is allowed. The
 * first byte says how long the pieces are. All of it is also tried as an address. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/answer.h"
#include "http/websocket_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGE_MAX 4096
#define HELD_MAX    (MESSAGE_MAX + 8192)
#define ACCEPT      "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

struct peer {
    const uint8_t *data;
    size_t len, piece;
};

static void require(bool ok)
{
    if (!ok)
        abort();
}

static ssize_t peer_read(void *arg, void *to, size_t len)
{
    struct peer *p = arg;

    if (p->len == 0)
        return -1;
    if (len > p->piece)
        len = p->piece;
    if (len > p->len)
        len = p->len;
    memcpy(to, p->data, len);
    p->data += len;
    p->len -= len;
    return (ssize_t)len;
}

static int peer_write(void *arg, const void *data, size_t len)
{
    (void)arg;
    (void)data;
    require(len <= 4 * HELD_MAX);
    return 0;
}

static size_t peer_unsent(void *arg)
{
    (void)arg;
    return 0;
}

static void read_all(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
    struct peer p = {data, size, piece};
    const struct websocket_io io = {peer_read, peer_write, peer_unsent, &p};
    struct websocket *ws = websocket_new_client(&io, MESSAGE_MAX);
    struct websocket_message m;
    int r;

    while ((r = websocket_next(ws, &m)) >= 0) {
        require(websocket_held(ws) <= HELD_MAX);
        if (r == 0)
            continue;
        require(m.len <= MESSAGE_MAX && (!m.is_text || utf8_valid(m.data, m.len)));
        (void)buf_addf(out, "%d %zu ", m.is_text, m.len);
        (void)buf_add(out, m.data, m.len);
    }
    require(websocket_next(ws, &m) == -1);
    (void)websocket_peer_code(ws);
    websocket_close(ws, WEBSOCKET_NORMAL, "over");
    websocket_free(ws);
}

static void try_url(const uint8_t *data, size_t size)
{
    auto_free char *text = xstrndup((const char *)data, size);
    struct websocket_url url = {0};

    if (websocket_url_parse(text, &url, NULL) == 0)
        require(*url.host && *url.target == '/' && !strpbrk(url.target, "\r\n ") &&
                !strpbrk(url.host, "\r\n /@"));
    websocket_url_done(&url);
}

/* How long the head is, if it is one of an upgrade that we take. */
static size_t try_head(const uint8_t *data, size_t size)
{
    auto_free char *text = NULL;
    static struct http_answer answer;
    struct err err = {0};
    ssize_t end = http_answer_end((const char *)data, size, 0);

    if (end <= 0)
        return 0;
    text = xmalloc((size_t)end);
    memcpy(text, data, (size_t)end);
    if (http_answer_parse(&answer, text, (size_t)end) || answer.status != 101)
        return 0;
    if (websocket_answer_check(&answer, ACCEPT, &err) < 0) {
        require(err.kind == ERR_UNAVAILABLE && err.text[0]);
        return 0;
    }
    require(http_answer_find(&answer, "Sec-WebSocket-Accept") != NULL);
    return (size_t)end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = {0}, pieces = {0};
    size_t head, piece;

    if (size < 1)
        return 0;
    piece = 1 + data[0] % 16;
    data++;
    size--;
    try_url(data, size);
    head = try_head(data, size);
    buf_init(&whole, 64u << 20);
    buf_init(&pieces, 64u << 20);
    read_all(data + head, size - head, SIZE_MAX, &whole);
    read_all(data + head, size - head, piece, &pieces);
    require(whole.len == pieces.len &&
            (whole.len == 0 || memcmp(whole.data, pieces.data, whole.len) == 0));
    buf_done(&whole);
    buf_done(&pieces);
    return 0;
}
