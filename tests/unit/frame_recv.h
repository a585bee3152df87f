#pragma once

#include "base/buf.h"
#include "base/fd.h"
#include "proto/frame.h"

/* Waits for one frame and reads it into payload (cleared first, its max is raised to FRAME_MAX). 1
 * for a frame, 0 at the end of the stream between frames, -EPROTO for a broken one, or -errno. */
static inline int frame_recv(int fd, unsigned *ret_type, struct buf *payload)
{
    unsigned char h[FRAME_HEADER];
    ssize_t n = read_some(fd, h, 1);
    size_t len;
    int r;

    if (n <= 0)
        return (int)n;
    r = read_exact(fd, h + 1, sizeof(h) - 1);
    if (r == 0)
        r = frame_header(h, ret_type, &len);
    if (r < 0)
        return r;
    buf_clear(payload);
    payload->max = FRAME_MAX;
    r = read_exact(fd, buf_room(payload, len), len);
    if (r < 0)
        return r;
    payload->len = len;
    payload->data[len] = '\0';
    return 1;
}
