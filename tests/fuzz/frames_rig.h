#pragma once

/* Frames of a WebSocket, in one piece and in small ones: the messages must be the same, none longer
 * than is allowed, and what is held bounded. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "http/websocket.h"

#define MESSAGE_MAX 4096
#define HELD_MAX    (MESSAGE_MAX + 8192)

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

/* websocket_new, or websocket_new_client. */
typedef struct websocket *(*frames_side)(const struct websocket_io *io, size_t message_max);

static void read_all(frames_side side, const uint8_t *data, size_t size, size_t piece,
                     struct buf *out)
{
    struct peer p = {data, size, piece};
    const struct websocket_io io = {peer_read, peer_write, peer_unsent, &p};
    struct websocket *ws = side(&io, MESSAGE_MAX);
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

static void frames_try(frames_side side, const uint8_t *data, size_t size, size_t piece)
{
    struct buf whole = {0}, pieces = {0};

    buf_init(&whole, 64u << 20);
    buf_init(&pieces, 64u << 20);
    read_all(side, data, size, SIZE_MAX, &whole);
    read_all(side, data, size, piece, &pieces);
    require(whole.len == pieces.len &&
            (whole.len == 0 || memcmp(whole.data, pieces.data, whole.len) == 0));
    buf_done(&whole);
    buf_done(&pieces);
}
