#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct err;

/* The stream between the daemon and an agent, and between `cay exec` and the daemon once upgraded.
 *
 * Framing
 *  1. A frame is a header of 8 bytes (u32 length of the payload, u8 type, 3 zero bytes) and its
 * payload.
 *  2. A payload is at most FRAME_MAX bytes. A longer length or a non-zero pad ends the connection.
 *  3. One connection is one call: its first frame is the call (proto/call.h), and closing it
 * cancels the call, except for an exec that is kept, which then goes on (CALL_EXEC). */

#define FRAME_MAX    (256u << 10)
#define FRAME_HEADER 8

enum frame_type {
    /* agent → daemon */
    FRAME_OK = 1,  /* done; payload depends on the call */
    FRAME_ERROR,   /* u32 err_kind, u32 errno, str code, str text; nothing follows */
    FRAME_STARTED, /* u32 pid as seen in the box; u32 1 if the exec is kept */
    FRAME_STDOUT,  /* bytes */
    FRAME_STDERR,  /* bytes */
    FRAME_EXIT,    /* struct call_exit; last frame of an exec */
    FRAME_ITEM,    /* one entry of a list: struct call_file, call_process, call_kept or a path */

    /* either way */
    FRAME_DATA, /* bytes of a file */
    FRAME_END,  /* no more data or items */

    /* daemon → agent, while an exec runs */
    FRAME_STDIN,  /* bytes; an empty one is the end of input */
    FRAME_RESIZE, /* u32 rows, u32 columns */
    FRAME_SIGNAL, /* u32 signal, to the whole process tree of the exec */
    FRAME_CANCEL, /* the caller does not want an exec any more that would go on without it */

    /* agent → daemon */
    FRAME_LOST, /* u64: so many bytes of output were here and are not kept any more */

    FRAME_CALL = 32, /* + enum call_op: the first frame of a connection */
};

/* Adds a whole frame to what is to be sent: 0, or -EMSGSIZE when the payload is too long or b has
 * no room; then nothing was added. */
int frame_put(struct buf *b, unsigned type, const void *payload, size_t len);

/* Blocking. 0 or -errno; -EMSGSIZE for a payload that is too long. */
int frame_send(int fd, unsigned type, const void *payload, size_t len);

/* ---- for loops that poll ---- */

/* What the header of a frame says: 0, or -EPROTO. */
int frame_header(const unsigned char h[FRAME_HEADER], unsigned *ret_type, size_t *ret_len);

struct frame {
    unsigned type;
    const char *data; /* in the buffer it was taken from, valid until that is filled again */
    size_t len;
};

/* What arrived is kept in a buffer of which the first *at bytes are used up. Its maximum is
 * FRAME_BUFFER_MAX(piece), so that there is room while the next frame is not whole. */
#define FRAME_BUFFER_MAX(piece) (FRAME_HEADER + FRAME_MAX + (piece))

/* One recv that does not block, of at least piece bytes if they are there: the count, 0 at the end
 * of the stream, or -errno. The buffer grows with what has come, not with the length that a frame
 * claims to have. */
ssize_t frame_fill(int fd, struct buf *in, size_t *at, size_t piece);
/* Takes the next frame: 1, 0 if it is not whole yet, -EPROTO if it is a broken one. */
int frame_take(const struct buf *in, size_t *at, struct frame *ret);

/* A frame from bytes that arrived so far: its whole length including the header, 0 if more bytes
 * are needed, or -EPROTO. The payload starts at data + FRAME_HEADER. */
long frame_parse(const void *data, size_t len, unsigned *ret_type);
