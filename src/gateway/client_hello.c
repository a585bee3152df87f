#include <string.h>

#include "gateway/peek.h"

#define RECORD_HANDSHAKE 22
#define RECORD_HEADER    5
#define RECORD_MAX       (1 << 14)
#define CLIENT_HELLO     1
#define HANDSHAKE_HEADER 4
#define RANDOM_BYTES     32
#define EXTENSION_NAME   0
#define EXTENSION_ECH    0xfe0d
#define NAME_HOST        0

/* Bytes that are taken from the front. Past the end it is broken, and stays so. */
struct span {
    const uint8_t *at;
    size_t len;
    bool broken;
};

static const uint8_t *take(struct span *s, size_t n)
{
    const uint8_t *p = s->at;

    if (s->broken || n > s->len) {
        s->broken = true;
        return NULL;
    }
    s->at += n;
    s->len -= n;
    return p;
}

static unsigned take_number(struct span *s, size_t bytes)
{
    const uint8_t *p = take(s, bytes);
    unsigned v = 0;

    for (size_t i = 0; p && i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

/* A vector with its length, of so many bytes, before it. */
static struct span take_vector(struct span *s, size_t length_bytes)
{
    size_t n = take_number(s, length_bytes);
    const uint8_t *p = take(s, n);

    return (struct span){.at = p, .len = p ? n : 0, .broken = !p};
}

/* The records' contents, one after the other, into one message: HELLO_DONE when it is whole. */
static enum hello_result join(const uint8_t *data, size_t len, uint8_t *message, size_t *ret_len)
{
    size_t have = 0, want = HANDSHAKE_HEADER;

    while (have < want) {
        size_t n;

        if (len > 0 && data[0] != RECORD_HANDSHAKE)
            return HELLO_BAD;
        if (len < RECORD_HEADER)
            return HELLO_MORE;
        n = (size_t)(data[3] << 8 | data[4]);
        if (data[1] != 3 || n == 0 || n > RECORD_MAX || have + n > PEEK_BYTES_MAX)
            return HELLO_BAD;
        if (len < RECORD_HEADER + n)
            return HELLO_MORE;
        memcpy(message + have, data + RECORD_HEADER, n);
        have += n;
        data += RECORD_HEADER + n;
        len -= RECORD_HEADER + n;
        if (have >= HANDSHAKE_HEADER)
            want = HANDSHAKE_HEADER + (size_t)(message[1] << 16 | message[2] << 8 | message[3]);
        if (have >= HANDSHAKE_HEADER && (message[0] != CLIENT_HELLO || want > PEEK_BYTES_MAX))
            return HELLO_BAD;
    }
    *ret_len = have;
    return have == want ? HELLO_DONE : HELLO_BAD; /* nothing may follow it in its record */
}

/* One name of a host, and nothing beside it: with two, client and server could mean different ones.
 */
static bool read_name(struct span ext, struct client_hello *ret)
{
    struct span list = take_vector(&ext, 2), name;
    unsigned type = take_number(&list, 1);

    name = take_vector(&list, 2);
    return !name.broken && !list.broken && list.len == 0 && !ext.broken && ext.len == 0 &&
           type == NAME_HOST && ret->name[0] == '\0' &&
           peek_name((const char *)name.at, name.len, ret->name);
}

static bool read_extensions(struct span all, struct client_hello *ret)
{
    while (all.len > 0) {
        unsigned type = take_number(&all, 2);
        struct span ext = take_vector(&all, 2);

        if (all.broken || ext.broken)
            return false;
        if (type == EXTENSION_NAME && !read_name(ext, ret))
            return false;
        if (type == EXTENSION_ECH)
            ret->encrypted = true;
    }
    return true;
}

enum hello_result client_hello_parse(const uint8_t *data, size_t len, struct client_hello *ret)
{
    uint8_t message[PEEK_BYTES_MAX];
    struct span body = {.at = message};
    enum hello_result r = join(data, len, message, &body.len);

    *ret = (struct client_hello){0};
    if (r != HELLO_DONE)
        return r;
    (void)take(&body, HANDSHAKE_HEADER);
    (void)take(&body, 2 + RANDOM_BYTES); /* version, random */
    (void)take_vector(&body, 1);         /* session */
    (void)take_vector(&body, 2);         /* ciphers */
    (void)take_vector(&body, 1);         /* compressions */
    if (body.broken)
        return HELLO_BAD;
    if (body.len > 0) { /* TLS before 1.3 can do without any */
        struct span all = take_vector(&body, 2);

        if (body.broken || body.len > 0 || !read_extensions(all, ret))
            return HELLO_BAD;
    }
    return HELLO_DONE;
}
