#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_done(struct buf *b)
{
    free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

char *buf_room(struct buf *b, size_t want)
{
    size_t need;

    if (want > b->max || b->len > b->max - want)
        return NULL;
    need = b->len + want + 1;
    if (need > b->cap) {
        size_t cap = b->cap ? b->cap : 256;

        while (cap < need)
            cap *= 2;
        b->data = xrealloc(b->data, cap);
        b->cap = cap;
    }
    return b->data + b->len;
}

void buf_fit(struct buf *b)
{
    if (b->len == 0) {
        buf_done(b);
        return;
    }
    b->cap = b->len + 1;
    b->data = xrealloc(b->data, b->cap);
}

int buf_add(struct buf *b, const void *data, size_t len)
{
    char *p = buf_room(b, len);

    if (!p)
        return -EMSGSIZE;
    if (len)
        memcpy(p, data, len);
    b->len += len;
    b->data[b->len] = '\0';
    return 0;
}

int buf_add_str(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s));
}

int buf_addf(struct buf *b, const char *fmt, ...)
{
    auto_free char *s = NULL;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    return buf_add(b, s, (size_t)n);
}

void buf_shift(struct buf *b, size_t n)
{
    if (n >= b->len) {
        buf_clear(b);
        return;
    }
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

char *buf_steal(struct buf *b)
{
    char *s = b->data ? b->data : xstrdup("");

    b->data = NULL;
    b->len = b->cap = 0;
    return s;
}
