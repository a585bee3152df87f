#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "iii/trigger_internal.h"

/* ---- routes ---- */

/* The part that begins at *at, which then is behind it; NULL at the end. "a//b" has three. */
static const char *next_part(const char **at, size_t *ret_len)
{
    const char *part = *at;

    if (!part)
        return NULL;
    *ret_len = strcspn(part, "/");
    *at = part[*ret_len] ? part + *ret_len + 1 : NULL;
    return part;
}

static bool is_param(const char *part, size_t len)
{
    return len > 0 && part[0] == ':';
}

static bool has_param(const char *route, const char *end, const char *part, size_t len)
{
    const char *at = route, *p;
    size_t n;

    while ((p = next_part(&at, &n)) && p < end)
        if (n == len && memcmp(p, part, len) == 0)
            return true;
    return false;
}

int route_check(const char *path, struct err *err)
{
    const char *at = path, *part;
    size_t len, parts = 0;

    if (strlen(path) > ROUTE_MAX)
        return err_set(err, ERR_INVALID, "api_path: at most %d bytes", ROUTE_MAX);
    for (const unsigned char *c = (const unsigned char *)path; *c; c++)
        if (*c <= ' ' || *c == 0x7f || strchr("?#\\{}*", *c))
            return err_set(err, ERR_INVALID,
                           "api_path: a path without spaces and ? # \\ { } *; a parameter is "
                           "written as :name");
    while ((part = next_part(&at, &len))) {
        if (++parts > ROUTE_PARTS)
            return err_set(err, ERR_INVALID, "api_path: at most %d parts", ROUTE_PARTS);
        if (!is_param(part, len))
            continue;
        if (len == 1)
            return err_set(err, ERR_INVALID, "api_path: a parameter needs a name, as in :id");
        if (has_param(path, part, part, len))
            return err_set(err, ERR_INVALID, "api_path: %.*s is there twice", (int)len, part);
    }
    return 0;
}

bool route_matches(const char *route, const char *path, json_t *params)
{
    const char *r = route, *p = path, *want, *have;
    size_t want_len = 0, have_len = 0;

    while ((want = next_part(&r, &want_len))) {
        have = next_part(&p, &have_len);
        if (!have)
            return false;
        if (is_param(want, want_len) ? have_len == 0
                                     : have_len != want_len || memcmp(want, have, want_len) != 0)
            return false;
    }
    if (p)
        return false;
    for (r = route, p = path; params && (want = next_part(&r, &want_len));) {
        have = next_part(&p, &have_len);
        if (is_param(want, want_len)) {
            auto_free char *name = xstrndup(want + 1, want_len - 1);

            (void)json_object_set_new(params, name, route_text(have, have_len));
        }
    }
    return true;
}

bool route_is_same(const char *a, const char *b)
{
    const char *x, *y;
    size_t n = 0, m = 0;

    for (;;) {
        x = next_part(&a, &n);
        y = next_part(&b, &m);
        if (!x || !y)
            return !x && !y;
        if (is_param(x, n) != is_param(y, m))
            return false;
        if (!is_param(x, n) && (n != m || memcmp(x, y, n) != 0))
            return false;
    }
}

bool route_is_closer(const char *a, const char *b)
{
    const char *x, *y;
    size_t n = 0, m = 0;

    while ((x = next_part(&a, &n)) && (y = next_part(&b, &m)))
        if (is_param(x, n) != is_param(y, m))
            return is_param(y, m);
    return false;
}

/* ---- queries ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What is no escape stays as it is. */
static size_t decode(char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        int high = -1, low = -1;

        if (text[i] == '%' && len - i > 2) {
            high = hex_digit(text[i + 1]);
            low = hex_digit(text[i + 2]);
        }
        if (high >= 0 && low >= 0) {
            text[n++] = (char)(high << 4 | low);
            i += 2;
        } else {
            text[n++] = text[i] == '+' ? ' ' : text[i];
        }
    }
    text[n] = '\0';
    return n;
}

json_t *route_text(const char *text, size_t len)
{
    auto_buf struct buf clean = {0};

    buf_init(&clean, 3 * len + 3); /* U+FFFD is three bytes */
    (void)utf8_clean(&clean, text, len);
    return json_stringn_nocheck(clean.data ? clean.data : "", clean.len);
}

typedef void (*put_value)(json_t *out, const char *name, json_t *value);

static void put_last(json_t *out, const char *name, json_t *value)
{
    (void)json_object_set_new(out, name, value);
}

static void put_in_list(json_t *out, const char *name, json_t *value)
{
    if (!json_object_get(out, name))
        (void)json_object_set_new(out, name, json_array());
    (void)json_array_append_new(json_object_get(out, name), value);
}

static void add_pair(json_t *out, const char *pair, size_t len, put_value put)
{
    const char *equals = memchr(pair, '=', len);
    size_t name_len = equals ? (size_t)(equals - pair) : len;
    auto_free char *name = xstrndup(pair, name_len);
    auto_free char *value = xstrndup(equals ? equals + 1 : "", equals ? len - name_len - 1 : 0);
    size_t value_len = decode(value, equals ? len - name_len - 1 : 0);

    name_len = decode(name, name_len);
    if (name_len == 0 || strlen(name) != name_len || !utf8_valid(name, name_len))
        return; /* no member of an object can be called so */
    put(out, name, route_text(value, value_len));
}

static json_t *read_query(const char *query, put_value put)
{
    json_t *out = json_object();

    while (*query) {
        size_t len = strcspn(query, "&");

        if (len > 0)
            add_pair(out, query, len, put);
        query += len + (query[len] == '&');
    }
    return out;
}

json_t *route_query(const char *query)
{
    return read_query(query, put_last);
}

json_t *route_query_lists(const char *query)
{
    return read_query(query, put_in_list);
}
