#include "http/websocket.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <wslay/wslay.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/server.h"

#define PING_NS    (25 * 1000000000ll)
#define PATIENCE   3 /* pings without an answer, of one that is listened to */
#define UNSENT_MAX (64u << 10)
#define REASON_MAX 123
#define INPUT_ROOM 8192         /* short messages that came in one piece with another */
#define READ_MAX   (256u << 10) /* at once, of one that sends without end */
#define PONGS_MAX  64           /* that wait to be sent while more is read */
#define HEAD       5            /* bytes before each message in what came */
#define FRAMES_MAX 1024         /* of a message; each costs more than the byte that it may hold */
#define FRAME_HEAD 10           /* bytes up to the length of a frame, at most */
#define MASK_SIZE  4
#define LENGTH_MAX ((uint64_t)INT64_MAX) /* of a frame: the top bit must be 0 (RFC 6455, 5.2) */

/* Follows the frames in the bytes that come in. wslay reports a frame when the first byte of its
 * payload is there, so a peer that announces too much and then sends nothing has to be found here.
 */
struct frame_scan {
    unsigned char head[FRAME_HEAD];
    size_t have;      /* bytes of the head of the next frame */
    uint64_t rest;    /* bytes of this frame that are still to come */
    uint64_t message; /* bytes that the frames of this message have announced */
    unsigned refused; /* the code that the connection is closed with; 0 = all is well */
};

struct websocket {
    struct websocket_io io;
    wslay_event_context_ptr wslay;
    struct buf in;  /* messages that came, and a part of one: u8 is text, u32 length, bytes */
    size_t at;      /* so much of it was taken */
    size_t whole;   /* so much of it are messages that have come to their end */
    bool control;   /* so is the frame that comes in */
    struct buf out; /* frames, until they are handed on together */
    bool gone;      /* nothing can be read or sent any more */
    size_t may_read;
    unsigned frames; /* of the message that comes in; 0 = none does */
    size_t coming;   /* bytes that it has said it would have, until now */
    size_t message_max;
    bool (*room)(void *arg, size_t bytes);
    void *room_arg;
    int64_t ping_ns, ping_every_ns;
    unsigned unanswered, patience; /* pings */
    unsigned pongs;
    struct frame_scan scan;
};

/* ---- the handshake ---- */

/* 16 bytes in base64. */
static bool is_key(const char *key)
{
    auto_buf struct buf bytes = {0};

    buf_init(&bytes, 32);
    return key && strlen(key) == 24 && base64_decode(&bytes, key, 24) == 0 && bytes.len == 16;
}

int websocket_check(struct http_req *req, struct err *err)
{
    const char *version = http_req_header(req, "Sec-WebSocket-Version");

    if (!http_upgrade_asked(req, "websocket"))
        return err_code(err, ERR_INVALID, "upgrade_required",
                        "this address is a WebSocket: send \"Connection: Upgrade\" and \"Upgrade: "
                        "websocket\"");
    if (!version || strcmp(version, "13") != 0) {
        http_reply_header(req, "Sec-WebSocket-Version", "13");
        return err_code(err, ERR_INVALID, "bad_websocket", "Sec-WebSocket-Version must be 13");
    }
    if (!is_key(http_req_header(req, "Sec-WebSocket-Key")))
        return err_code(err, ERR_INVALID, "bad_websocket",
                        "Sec-WebSocket-Key must be 16 bytes in base64");
    return 0;
}

bool websocket_list_has(const char *list, const char *protocol)
{
    size_t len = strlen(protocol);

    while (list && *list) {
        size_t n;

        list += strspn(list, " \t,");
        n = strcspn(list, " \t,");
        if (n == len && memcmp(list, protocol, len) == 0)
            return true;
        list += n;
    }
    return false;
}

void websocket_accept_key(const char *key, char ret[32])
{
    static const char tail[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    unsigned char digest[SHA_DIGEST_LENGTH];
    char both[24 + sizeof(tail)];
    int n = snprintf(both, sizeof(both), "%.24s%s", key, tail);

    (void)SHA1((const unsigned char *)both, (size_t)n, digest);
    (void)EVP_EncodeBlock((unsigned char *)ret, digest, sizeof(digest));
}

/* ---- the lengths that frames announce ---- */

/* Bytes that the length takes behind the second byte of a frame. */
static unsigned length_size(const struct frame_scan *f)
{
    unsigned length = f->head[1] & 0x7f;

    return length == 126 ? 2 : length == 127 ? 8 : 0;
}

static uint64_t announced(const struct frame_scan *f)
{
    unsigned bytes = length_size(f);
    uint64_t n = bytes ? 0 : f->head[1] & 0x7f;

    for (unsigned i = 0; i < bytes; i++)
        n = n << 8 | f->head[2 + i];
    return n;
}

/* Checks the length of a data frame whose head is complete. wslay bounds control frames. */
static void scan_head(struct frame_scan *f, size_t message_max)
{
    unsigned opcode = f->head[0] & 0x0f;
    uint64_t length = announced(f);

    f->have = 0;
    f->rest = length + (f->head[1] & 0x80 ? MASK_SIZE : 0);
    if (length > LENGTH_MAX)
        f->refused = WEBSOCKET_PROTOCOL;
    if (f->refused || wslay_is_ctrl_frame(opcode))
        return;
    if (opcode != WSLAY_CONTINUATION_FRAME)
        f->message = 0;
    if (f->message > message_max || length > message_max - f->message)
        f->refused = WEBSOCKET_TOO_LONG;
    f->message += length;
}

/* Returns how many of the bytes wslay gets. Of a frame that is refused it does not get the last
 * byte of the length, and so waits for it: it would close the connection with a code of its own. */
static size_t scan_bytes(struct frame_scan *f, const unsigned char *data, size_t len,
                         size_t message_max)
{
    size_t at = 0;

    while (at < len) {
        size_t n = len - at < f->rest ? len - at : (size_t)f->rest;

        at += n;
        f->rest -= n;
        if (at == len)
            break;
        f->head[f->have++] = data[at++];
        if (f->have < 2 || f->have < 2 + length_size(f))
            continue;
        scan_head(f, message_max);
        if (f->refused)
            return at - 1;
    }
    return at;
}

/* ---- for wslay ---- */

static ssize_t on_read(wslay_event_context_ptr ctx, uint8_t *data, size_t len, int flags, void *arg)
{
    struct websocket *ws = arg;
    ssize_t n;

    (void)flags;
    if (!websocket_takes(ws) || ws->may_read == 0 || ws->scan.refused ||
        wslay_event_get_queued_msg_count(ctx) >= PONGS_MAX) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    n = ws->io.read(ws->io.arg, data, len < ws->may_read ? len : ws->may_read);
    if (n > 0) {
        ws->unanswered = 0;
        ws->may_read -= (size_t)n;
        n = (ssize_t)scan_bytes(&ws->scan, data, (size_t)n, ws->message_max);
        if (n > 0)
            return n;
    }
    ws->gone |= n < 0;
    wslay_event_set_error(ctx, n < 0 ? WSLAY_ERR_CALLBACK_FAILURE : WSLAY_ERR_WOULDBLOCK);
    return -1;
}

static ssize_t on_write(wslay_event_context_ptr ctx, const uint8_t *data, size_t len, int flags,
                        void *arg)
{
    struct websocket *ws = arg;

    (void)flags;
    if (buf_add(&ws->out, data, len) == 0)
        return (ssize_t)len;
    wslay_event_set_error(ctx, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

/* What a proxy between us could take for a request of its own must not be foreseen (RFC
 * 6455, 10.3).
 */
static int on_mask(wslay_event_context_ptr ctx, uint8_t *mask, size_t len, void *arg)
{
    (void)ctx;
    (void)arg;
    if (getrandom(mask, len, 0) != (ssize_t)len)
        abort();
    return 0;
}

/* What has begun is still handed to us, and is dropped. */
static void refuse(wslay_event_context_ptr ctx, enum websocket_code code)
{
    wslay_event_shutdown_read(ctx);
    (void)wslay_event_queue_close(ctx, (uint16_t)code, NULL, 0);
}

static void begin_message(struct websocket *ws, bool is_text)
{
    const char head[HEAD] = {is_text};

    ws->coming = ws->frames = 0;
    if (buf_add(&ws->in, head, sizeof(head)) < 0)
        ws->gone = true; /* more than there can be */
}

static void on_frame(wslay_event_context_ptr ctx,
                     const struct wslay_event_on_frame_recv_start_arg *f, void *arg)
{
    struct websocket *ws = arg;

    ws->control = wslay_is_ctrl_frame(f->opcode);
    if (ws->control)
        return;
    if (f->opcode != WSLAY_CONTINUATION_FRAME)
        begin_message(ws, f->opcode == WSLAY_TEXT_FRAME);
    ws->frames++;
    ws->coming += f->payload_length;
    if (ws->frames > FRAMES_MAX)
        refuse(ctx, WEBSOCKET_POLICY);
    else if (ws->coming > ws->message_max)
        refuse(ctx, WEBSOCKET_TOO_LONG);
    else if (ws->room && !ws->room(ws->room_arg, ws->coming))
        refuse(ctx, WEBSOCKET_LATER);
    else
        (void)buf_room(&ws->in, f->payload_length); /* at once, and not piece by piece */
}

static void on_piece(wslay_event_context_ptr ctx,
                     const struct wslay_event_on_frame_recv_chunk_arg *piece, void *arg)
{
    struct websocket *ws = arg;

    if (!ws->control && wslay_event_get_read_enabled(ctx) &&
        buf_add(&ws->in, piece->data, piece->data_length) < 0)
        ws->gone = true;
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *m,
                       void *arg)
{
    struct websocket *ws = arg;
    uint32_t len;

    ws->pongs += m->opcode == WSLAY_PONG;
    if (wslay_is_ctrl_frame(m->opcode) || ws->gone || !wslay_event_get_read_enabled(ctx))
        return;
    len = (uint32_t)(ws->in.len - ws->whole - HEAD);
    memcpy(ws->in.data + ws->whole + 1, &len, sizeof(len));
    ws->whole = ws->in.len;
    ws->frames = 0;
}

static void flush(struct websocket *ws)
{
    if (wslay_event_send(ws->wslay) < 0)
        ws->gone = true;
    if (!ws->gone && ws->out.len > 0 && ws->io.write(ws->io.arg, ws->out.data, ws->out.len) < 0)
        ws->gone = true;
    buf_done(&ws->out); /* one that is silent holds nothing */
}

/* ---- the connection ---- */

static struct websocket *new_socket(const struct websocket_io *io, size_t message_max, bool client)
{
    static const struct wslay_event_callbacks callbacks = {.recv_callback = on_read,
                                                           .send_callback = on_write,
                                                           .genmask_callback = on_mask,
                                                           .on_frame_recv_start_callback = on_frame,
                                                           .on_frame_recv_chunk_callback = on_piece,
                                                           .on_msg_recv_callback = on_message};
    struct websocket *ws = xcalloc(1, sizeof(*ws));

    ws->io = *io;
    ws->message_max = message_max;
    websocket_set_pings(ws, PING_NS, PATIENCE);
    buf_init(&ws->in, message_max + INPUT_ROOM);
    buf_init(&ws->out, SIZE_MAX / 2); /* what one call sends, which is the sender's to bound */
    if ((client ? wslay_event_context_client_init
                : wslay_event_context_server_init)(&ws->wslay, &callbacks, ws) != 0)
        abort(); /* out of memory */
    wslay_event_config_set_max_recv_msg_length(ws->wslay, message_max);
    wslay_event_config_set_no_buffering(ws->wslay, 1); /* what comes is put together here */
    return ws;
}

struct websocket *websocket_new(const struct websocket_io *io, size_t message_max)
{
    return new_socket(io, message_max, false);
}

struct websocket *websocket_new_client(const struct websocket_io *io, size_t message_max)
{
    return new_socket(io, message_max, true);
}

static ssize_t read_req(void *req, void *data, size_t len)
{
    return http_upgraded_read(req, data, len);
}

static int write_req(void *req, const void *data, size_t len)
{
    return http_stream_write(req, data, len);
}

static size_t unsent_req(void *req)
{
    return http_unsent(req);
}

struct websocket *websocket_accept(struct http_req *req, const char *key, const char *protocol,
                                   size_t message_max)
{
    const struct websocket_io io = {read_req, write_req, unsent_req, req};
    char accept[32];

    websocket_accept_key(key, accept);
    http_reply_header(req, "Sec-WebSocket-Accept", accept);
    if (protocol)
        http_reply_header(req, "Sec-WebSocket-Protocol", protocol);
    return http_upgrade(req, "websocket") < 0 ? NULL : websocket_new(&io, message_max);
}

void websocket_free(struct websocket *ws)
{
    if (!ws)
        return;
    wslay_event_context_free(ws->wslay);
    buf_done(&ws->in);
    buf_done(&ws->out);
    free(ws);
}

void websocket_set_room(struct websocket *ws, bool (*room)(void *arg, size_t bytes), void *arg)
{
    ws->room = room;
    ws->room_arg = arg;
}

bool websocket_has_message(const struct websocket *ws)
{
    return ws->at < ws->whole;
}

bool websocket_has_part(const struct websocket *ws)
{
    return ws->frames > 0;
}

bool websocket_takes(const struct websocket *ws)
{
    return !ws->gone && !websocket_has_message(ws) && ws->io.unsent(ws->io.arg) < UNSENT_MAX;
}

size_t websocket_held(const struct websocket *ws)
{
    return ws->in.len;
}

static void take(struct websocket *ws, struct websocket_message *ret)
{
    const char *head = ws->in.data + ws->at;
    uint32_t len;

    memcpy(&len, head + 1, sizeof(len));
    *ret = (struct websocket_message){.is_text = *head, .data = head + HEAD, .len = len};
    ws->at += HEAD + len;
}

/* The memory of messages that were taken is used for those that come; one that is silent holds
 * nothing. */
static void receive(struct websocket *ws)
{
    buf_shift(&ws->in, ws->at);
    ws->at = ws->whole = 0;
    ws->may_read = READ_MAX;
    if (wslay_event_recv(ws->wslay) != 0 && !ws->gone) {
        wslay_event_shutdown_read(ws->wslay); /* what cannot even be a frame */
        (void)wslay_event_queue_close(ws->wslay, WEBSOCKET_PROTOCOL, NULL, 0);
    }
    if (ws->scan.refused && !ws->gone && wslay_event_get_read_enabled(ws->wslay))
        refuse(ws->wslay, (enum websocket_code)ws->scan.refused);
    if (ws->in.len == 0)
        buf_done(&ws->in);
    flush(ws);
}

int websocket_next(struct websocket *ws, struct websocket_message *ret)
{
    if (!websocket_has_message(ws))
        receive(ws);
    if (websocket_has_message(ws)) {
        take(ws, ret);
        return 1;
    }
    return ws->gone || !wslay_event_get_read_enabled(ws->wslay) ||
                   wslay_event_get_close_received(ws->wslay)
               ? -1
               : 0;
}

int websocket_send(struct websocket *ws, bool is_text, const void *data, size_t len)
{
    struct wslay_event_msg m = {
        .opcode = is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, .msg = data, .msg_length = len};

    if (ws->gone || wslay_event_queue_msg(ws->wslay, &m) != 0)
        return -1;
    flush(ws);
    return ws->gone ? -1 : 0;
}

void websocket_close(struct websocket *ws, unsigned code, const char *reason)
{
    size_t len = reason ? utf8_cut(reason, strnlen(reason, REASON_MAX)) : 0;

    (void)wslay_event_queue_close(ws->wslay, (uint16_t)code, (const uint8_t *)reason, len);
    flush(ws);
}

bool websocket_is_closed(const struct websocket *ws)
{
    return ws->gone || wslay_event_get_close_sent(ws->wslay);
}

unsigned websocket_peer_code(const struct websocket *ws)
{
    return wslay_event_get_close_received(ws->wslay)
               ? wslay_event_get_status_code_received(ws->wslay)
               : 0;
}

void websocket_set_pings(struct websocket *ws, int64_t every_ns, unsigned patience)
{
    ws->ping_every_ns = every_ns;
    ws->ping_ns = mono_ns() + every_ns;
    ws->patience = patience;
}

int64_t websocket_ping_ns(const struct websocket *ws)
{
    return ws->ping_ns;
}

void websocket_ping(struct websocket *ws)
{
    static const struct wslay_event_msg ping = {.opcode = WSLAY_PING};

    if (!ws->gone && wslay_event_queue_msg(ws->wslay, &ping) == 0)
        flush(ws);
}

unsigned websocket_pongs(const struct websocket *ws)
{
    return ws->pongs;
}

int websocket_keep_alive(struct websocket *ws, bool listened)
{
    if (mono_ns() < ws->ping_ns)
        return 0;
    ws->ping_ns = mono_ns() + ws->ping_every_ns;
    if (listened && ws->unanswered++ >= ws->patience)
        return -1;
    if (ws->io.unsent(ws->io.arg) == 0)
        websocket_ping(ws);
    return ws->gone ? -1 : 0;
}
