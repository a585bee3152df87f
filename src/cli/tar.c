#include "cli/tar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

#define BLOCK         512
#define NAME_SIZE     100
#define TEXT_MAX      65536 /* of a long name or a pax header; paths are shorter */
#define FILE_SIZE_MAX ((int64_t)1 << 60)

struct header {
    char name[NAME_SIZE], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
    char link[NAME_SIZE], magic[8], uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a tar header is one block");

void tar_entry_done(struct tar_entry *e)
{
    free(e->name);
    free(e->link);
    *e = (struct tar_entry){0};
}

size_t tar_padding(int64_t size)
{
    return (size_t)(-size & (BLOCK - 1));
}

/* ---- writing ---- */

/* Octal digits, or where they do not fit the number itself in two's complement, as GNU does. */
static void put_number(char *field, size_t size, int64_t value)
{
    if (value >= 0 && value < (int64_t)1 << (3 * (size - 1))) {
        (void)snprintf(field, size, "%0*llo", (int)size - 1, (unsigned long long)value);
        return;
    }
    for (size_t i = size; i-- > 0; value >>= 8)
        field[i] = (char)(value & 0xff);
    field[0] |= (char)0x80;
}

static void put_checksum(struct header *h)
{
    unsigned sum = 0;

    memset(h->checksum, ' ', sizeof(h->checksum));
    for (size_t i = 0; i < BLOCK; i++)
        sum += ((const unsigned char *)h)[i];
    (void)snprintf(h->checksum, sizeof(h->checksum) - 1, "%06o", sum);
}

static void put_header(struct buf *out, const char *name, const char *link, char type, mode_t mode,
                       int64_t size, int64_t mtime)
{
    struct header h = {.type = type};
    size_t len = strlen(name), link_len = link ? strlen(link) : 0;

    memcpy(h.name, name, len < NAME_SIZE ? len : NAME_SIZE);
    memcpy(h.link, link ? link : "", link_len < NAME_SIZE ? link_len : NAME_SIZE);
    memcpy(h.magic, "ustar  ", sizeof(h.magic)); /* GNU's, who has the long names */
    put_number(h.mode, sizeof(h.mode), mode & 07777);
    put_number(h.uid, sizeof(h.uid), 0);
    put_number(h.gid, sizeof(h.gid), 0);
    put_number(h.size, sizeof(h.size), size);
    put_number(h.mtime, sizeof(h.mtime), mtime);
    put_checksum(&h);
    (void)buf_add(out, &h, sizeof(h));
}

static void put_long(struct buf *out, char type, const char *text)
{
    static const char zeros[BLOCK];
    size_t size = strlen(text) + 1;

    put_header(out, "././@LongLink", NULL, type, 0644, (int64_t)size, 0);
    (void)buf_add(out, text, size);
    (void)buf_add(out, zeros, tar_padding((int64_t)size));
}

void tar_put(struct buf *out, const struct tar_entry *e)
{
    if (e->link && strlen(e->link) > NAME_SIZE)
        put_long(out, 'K', e->link);
    if (strlen(e->name) > NAME_SIZE)
        put_long(out, 'L', e->name);
    put_header(out, e->name, e->link, (char)e->type, e->mode, e->size, e->mtime);
}

/* ---- reading ---- */

static int broken(struct err *err, const char *what)
{
    return err_set(err, ERR_INVALID, "the tar stream is broken: %s", what);
}

/* Exactly len bytes: 1, 0 when there is nothing at all, -1. */
static int take(struct tar_reader *r, void *data, size_t len, struct err *err)
{
    size_t have = 0;

    while (have < len) {
        ssize_t n = read_some(r->fd, (char *)data + have, len - have);

        if (n < 0)
            return err_sys(err, (int)-n, "read the tar stream");
        if (n == 0)
            return have == 0 ? 0 : broken(err, "it ends too early");
        have += (size_t)n;
    }
    return 1;
}

ssize_t tar_read(struct tar_reader *r, void *data, size_t len, struct err *err)
{
    ssize_t n;

    if ((int64_t)len > r->left)
        len = (size_t)r->left;
    if (len == 0)
        return 0;
    n = read_some(r->fd, data, len);
    if (n < 0)
        return err_sys(err, (int)-n, "read the tar stream");
    if (n == 0)
        return broken(err, "it ends too early");
    r->left -= n;
    return n;
}

static int pass_rest(struct tar_reader *r, struct err *err)
{
    char data[8192];
    ssize_t n;

    while ((n = tar_read(r, data, sizeof(data), err)) > 0)
        ;
    if (n < 0)
        return -1;
    if (r->padding > 0 && take(r, data, r->padding, err) <= 0)
        return broken(err, "it ends too early");
    r->padding = 0;
    return 0;
}

static int get_number(const char *field, size_t size, int64_t *ret)
{
    uint64_t v = 0;

    if (field[0] & (char)0x80) {
        bool negative = field[0] & 0x40;

        v = negative ? UINT64_MAX : 0;
        for (size_t i = 0; i < size; i++) {
            if (v >> 55 != (negative ? UINT64_MAX >> 55 : 0))
                return -EINVAL;
            v = v << 8 |
                (i > 0 ? (unsigned char)field[i] : (field[0] & 0x3f) | (negative ? 0xc0u : 0));
        }
        *ret = (int64_t)v;
        return 0;
    }
    for (size_t i = 0; i < size && field[i]; i++) {
        if (field[i] == ' ')
            continue;
        if (field[i] < '0' || field[i] > '7' || v >> 60)
            return -EINVAL;
        v = v << 3 | (unsigned)(field[i] - '0');
    }
    *ret = (int64_t)v;
    return 0;
}

static bool checksum_ok(const struct header *h)
{
    struct header copy = *h;
    int64_t said;

    put_checksum(&copy);
    if (get_number(h->checksum, sizeof(h->checksum), &said) < 0)
        return false;
    return (unsigned)said == (unsigned)strtoul(copy.checksum, NULL, 8);
}

/* The data of a long name or a pax header, NUL-terminated; the caller frees it. */
static int take_text(struct tar_reader *r, int64_t size, char **ret, struct err *err)
{
    auto_free char *text = NULL;

    if (size > TEXT_MAX)
        return broken(err, "a name is too long");
    text = xcalloc(1, (size_t)size + 1);
    if (size > 0 && take(r, text, (size_t)size, err) <= 0)
        return broken(err, "it ends too early");
    r->left = 0;
    if (pass_rest(r, err) < 0)
        return -1;
    free(*ret);
    *ret = steal_ptr(text);
    return 0;
}

/* What long names and pax headers say about the entry that follows. */
struct extra {
    char *name, *link;
    int64_t size; /* -1 = not said */
};

static void extra_done(struct extra *x)
{
    free(x->name);
    free(x->link);
}

static void use_record(struct extra *x, const char *key, size_t key_len, const char *value,
                       size_t len)
{
    uint64_t size;

    if (key_len == 4 && memcmp(key, "path", 4) == 0) {
        free(x->name);
        x->name = xstrndup(value, len);
    } else if (key_len == 8 && memcmp(key, "linkpath", 8) == 0) {
        free(x->link);
        x->link = xstrndup(value, len);
    } else if (key_len == 4 && memcmp(key, "size", 4) == 0) {
        auto_free char *digits = xstrndup(value, len);

        if (str_u64(digits, &size) == 0 && size < FILE_SIZE_MAX)
            x->size = (int64_t)size;
    }
}

/* Records are "LENGTH KEY=VALUE\n", where LENGTH counts all of it. */
static int use_pax(struct extra *x, const char *text, size_t size, struct err *err)
{
    while (text && size > 0 && *text) {
        size_t digits = strspn(text, "0123456789"), len = strtoul(text, NULL, 10);
        const char *key = text + digits + 1;
        const char *equals;

        if (digits == 0 || digits > 6 || len > size || len < digits + 3 || text[digits] != ' ' ||
            text[len - 1] != '\n' || !(equals = memchr(key, '=', len - digits - 2)))
            return broken(err, "a pax header cannot be read");
        use_record(x, key, (size_t)(equals - key), equals + 1,
                   len - (size_t)(equals + 1 - text) - 1);
        text += len;
        size -= len;
    }
    return 0;
}

static int take_extra(struct tar_reader *r, char type, int64_t size, struct extra *x,
                      struct err *err)
{
    auto_free char *text = NULL;

    switch (type) {
    case 'L':
        return take_text(r, size, &x->name, err);
    case 'K':
        return take_text(r, size, &x->link, err);
    default:
        return take_text(r, size, &text, err) < 0 ? -1
               : type == 'x'                      ? use_pax(x, text, (size_t)size, err)
                                                  : 0;
    }
}

static char *header_name(const struct header *h)
{
    bool posix = memcmp(h->magic, "ustar", 6) == 0;

    if (posix && h->prefix[0])
        return xasprintf("%.*s/%.*s", (int)sizeof(h->prefix), h->prefix, NAME_SIZE, h->name);
    return xstrndup(h->name, NAME_SIZE);
}

static void fill(struct tar_entry *e, const struct header *h, struct extra *x)
{
    size_t len;

    e->name = x->name ? steal_ptr(x->name) : header_name(h);
    len = strlen(e->name);
    switch (h->type) {
    case '\0':
    case '7':
    case TAR_FILE:
        e->type = len > 0 && e->name[len - 1] == '/' ? TAR_DIR : TAR_FILE;
        break;
    case TAR_HARD_LINK:
    case TAR_LINK:
        e->type = (enum tar_type)h->type;
        e->link = x->link ? steal_ptr(x->link) : xstrndup(h->link, NAME_SIZE);
        break;
    case TAR_DIR:
        e->type = TAR_DIR;
        break;
    default:
        e->type = TAR_OTHER;
    }
    while (len > 1 && e->name[len - 1] == '/')
        e->name[--len] = '\0';
}

/* One header block: 1, 0 at the end, -1; 2 for one that only tells about the next. */
static int take_header(struct tar_reader *r, struct tar_entry *ret, struct extra *x,
                       struct err *err)
{
    static const struct header none;
    struct header h;
    int64_t size, mode;
    int got = take(r, &h, sizeof(h), err);

    if (got <= 0)
        return got;
    if (memcmp(&h, &none, sizeof(h)) == 0) {
        r->ended = true;
        return 0;
    }
    if (!checksum_ok(&h) || get_number(h.size, sizeof(h.size), &size) < 0 || size < 0 ||
        size >= FILE_SIZE_MAX || get_number(h.mode, sizeof(h.mode), &mode) < 0)
        return broken(err, "a header cannot be read");
    if (x->size >= 0 && !strchr("LKxg", h.type ? h.type : '0'))
        size = x->size;
    r->left = size;
    r->padding = tar_padding(size);
    if (h.type && strchr("LKxg", h.type))
        return take_extra(r, h.type, size, x, err) < 0 ? -1 : 2;
    fill(ret, &h, x);
    ret->mode = (mode_t)mode & 07777;
    ret->size = ret->type == TAR_FILE ? size : 0;
    if (get_number(h.mtime, sizeof(h.mtime), &ret->mtime) < 0)
        ret->mtime = 0;
    return 1;
}

int tar_next(struct tar_reader *r, struct tar_entry *ret, struct err *err)
{
    struct extra x = {.size = -1};
    int got;

    *ret = (struct tar_entry){0};
    if (pass_rest(r, err) < 0)
        return -1;
    do {
        got = take_header(r, ret, &x, err);
    } while (got == 2);
    extra_done(&x);
    return got;
}
