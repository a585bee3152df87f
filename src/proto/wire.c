#include "proto/wire.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

/* The buffers written to are bounded by their owners, who send them through frame_send() or
 * plan_send(); passing the bound shows there, as a message too long, so results are not looked at.
 */

static void put_le(struct buf *b, uint64_t v, size_t n)
{
    unsigned char bytes[8];

    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(v >> (8 * i));
    if (buf_add(b, bytes, n) < 0)
        b->max = 0;
}

void wire_put_u32(struct buf *b, uint32_t v)
{
    put_le(b, v, 4);
}

void wire_put_u64(struct buf *b, uint64_t v)
{
    put_le(b, v, 8);
}

void wire_put_bytes(struct buf *b, const void *data, size_t len)
{
    put_le(b, len, 4);
    if (buf_add(b, data, len) < 0)
        b->max = 0;
}

void wire_put_str(struct buf *b, const char *s)
{
    wire_put_bytes(b, s ? s : "", s ? strlen(s) : 0);
}

void wire_put_list(struct buf *b, char *const *list)
{
    wire_put_u32(b, (uint32_t)strv_len(list));
    for (char *const *s = list; s && *s; s++)
        wire_put_str(b, *s);
}

void wire_init(struct wire *w, const void *data, size_t len)
{
    *w = (struct wire){.p = data, .end = (const unsigned char *)data + len};
}

static uint64_t get_le(struct wire *w, size_t n)
{
    uint64_t v = 0;

    if (w->bad || (size_t)(w->end - w->p) < n) {
        w->bad = true;
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)w->p[i] << (8 * i);
    w->p += n;
    return v;
}

uint32_t wire_get_u32(struct wire *w)
{
    return (uint32_t)get_le(w, 4);
}

uint64_t wire_get_u64(struct wire *w)
{
    return get_le(w, 8);
}

const void *wire_get_bytes(struct wire *w, size_t *ret_len)
{
    size_t len = wire_get_u32(w);
    const void *p = w->p;

    if (w->bad || (size_t)(w->end - w->p) < len) {
        w->bad = true;
        *ret_len = 0;
        return "";
    }
    w->p += len;
    *ret_len = len;
    return p;
}

char *wire_get_str(struct wire *w)
{
    size_t len;
    const void *p = wire_get_bytes(w, &len);

    if (len > 0 && memchr(p, '\0', len))
        w->bad = true;
    return w->bad ? xstrdup("") : xstrndup(p, len);
}

char **wire_get_list(struct wire *w, size_t max_items)
{
    size_t count = wire_get_u32(w);
    char **list;

    /* Each item takes at least its length word, so count is bounded by what is there. */
    if (count > max_items || count > (size_t)(w->end - w->p) / 4)
        w->bad = true;
    if (w->bad)
        count = 0;
    list = xcalloc(count + 1, sizeof(*list));
    for (size_t i = 0; i < count; i++)
        list[i] = wire_get_str(w);
    return list;
}

bool wire_ok(const struct wire *w)
{
    return !w->bad && w->p == w->end;
}
