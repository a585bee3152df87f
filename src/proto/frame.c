#include "proto/frame.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/buf.h"

static void put_header(unsigned char h[FRAME_HEADER], unsigned type, size_t len)
{
    h[0] = (unsigned char)len;
    h[1] = (unsigned char)(len >> 8);
    h[2] = (unsigned char)(len >> 16);
    h[3] = (unsigned char)(len >> 24);
    h[4] = (unsigned char)type;
    h[5] = h[6] = h[7] = 0;
}

int frame_header(const unsigned char h[FRAME_HEADER], unsigned *ret_type, size_t *ret_len)
{
    size_t len = (size_t)h[0] | (size_t)h[1] << 8 | (size_t)h[2] << 16 | (size_t)h[3] << 24;

    if (len > FRAME_MAX || h[5] || h[6] || h[7])
        return -EPROTO;
    *ret_type = h[4];
    *ret_len = len;
    return 0;
}

int frame_put(struct buf *b, unsigned type, const void *payload, size_t len)
{
    unsigned char h[FRAME_HEADER];

    if (len > FRAME_MAX || !buf_room(b, sizeof(h) + len))
        return -EMSGSIZE;
    put_header(h, type, len);
    (void)buf_add(b, h, sizeof(h));
    return buf_add(b, payload, len);
}

int frame_send(int fd, unsigned type, const void *payload, size_t len)
{
    unsigned char h[FRAME_HEADER];
    struct iovec iov[2] = {{h, sizeof(h)}, {(void *)(uintptr_t)payload, len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

    if (len > FRAME_MAX)
        return -EMSGSIZE;
    put_header(h, type, len);
    while (iov[0].iov_len + iov[1].iov_len > 0) {
        ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL);

        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        for (int i = 0; i < 2; i++) {
            size_t part = (size_t)n < iov[i].iov_len ? (size_t)n : iov[i].iov_len;

            if (part == 0)
                continue; /* an empty payload may be NULL */
            iov[i].iov_base = (char *)iov[i].iov_base + part;
            iov[i].iov_len -= part;
            n -= (ssize_t)part;
        }
    }
    return 0;
}

long frame_parse(const void *data, size_t len, unsigned *ret_type)
{
    size_t body;

    if (len < FRAME_HEADER)
        return 0;
    if (frame_header(data, ret_type, &body) < 0)
        return -EPROTO;
    return len < FRAME_HEADER + body ? 0 : (long)(FRAME_HEADER + body);
}

ssize_t frame_fill(int fd, struct buf *in, size_t *at, size_t piece)
{
    size_t left, want;
    char *room;
    ssize_t n;

    buf_shift(in, *at);
    *at = 0;
    left = in->max - in->len;
    want = in->len > piece ? in->len : piece; /* doubles it */
    room = left == 0 ? NULL : buf_room(in, want < left ? want : left);
    if (!room)
        return -EMSGSIZE;
    want = in->cap - in->len - 1;
    do
        n = recv(fd, room, want < left ? want : left, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    in->len += (size_t)n;
    room[n] = '\0';
    return n;
}

int frame_take(const struct buf *in, size_t *at, struct frame *ret)
{
    long n;

    if (in->len - *at < FRAME_HEADER)
        return 0;
    n = frame_parse(in->data + *at, in->len - *at, &ret->type);
    if (n <= 0)
        return (int)n;
    ret->data = in->data + *at + FRAME_HEADER;
    ret->len = (size_t)n - FRAME_HEADER;
    *at += (size_t)n;
    return 1;
}
