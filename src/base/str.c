#include "base/str.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

bool str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);

    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

uint32_t str_hash(const char *s)
{
    uint32_t hash = 2166136261u;

    for (; *s; s++)
        hash = (hash ^ (unsigned char)*s) * 16777619u;
    return hash;
}

bool str_is_dot(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void strings_sort(char **v, size_t n)
{
    if (n > 0)
        qsort(v, n, sizeof(*v), by_name);
}

static int parse_digits(const char *s, unsigned base, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;

    if (!*s)
        return -EINVAL;
    for (; *s; s++) {
        unsigned digit = (unsigned)(*s - '0');

        if (*s < '0' || digit >= base)
            return -EINVAL;
        if (v > (max - digit) / base)
            return -ERANGE;
        v = v * base + digit;
    }
    *ret = v;
    return 0;
}

int str_u64(const char *s, uint64_t *ret)
{
    return parse_digits(s, 10, UINT64_MAX, ret);
}

int str_octal(const char *s, uint32_t *ret)
{
    uint64_t v;
    int r = parse_digits(s, 8, UINT32_MAX, &v);

    if (r == 0)
        *ret = (uint32_t)v;
    return r;
}

/* Length of the character at s, or 0 if the bytes there are not one. */
static size_t utf8_char(const unsigned char *s, size_t len)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t c;
    size_t n;

    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] < 0xe0)
        n = 2, c = s[0] & 0x1f;
    else if (s[0] >= 0xe0 && s[0] < 0xf0)
        n = 3, c = s[0] & 0x0f;
    else if (s[0] >= 0xf0 && s[0] < 0xf5)
        n = 4, c = s[0] & 0x07;
    else
        return 0;
    if (len < n)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    return n;
}

bool utf8_valid(const char *s, size_t len)
{
    for (size_t i = 0, n; i < len; i += n) {
        n = utf8_char((const unsigned char *)s + i, len - i);
        if (n == 0)
            return false;
    }
    return true;
}

int utf8_clean(struct buf *out, const char *s, size_t len)
{
    size_t good = 0; /* start of the valid run not yet added */

    for (size_t i = 0; i < len;) {
        size_t n = utf8_char((const unsigned char *)s + i, len - i);
        int r;

        if (n > 0) {
            i += n;
            continue;
        }
        r = buf_add(out, s + good, i - good);
        if (r == 0)
            r = buf_add(out, "\xef\xbf\xbd", 3);
        if (r < 0)
            return r;
        good = ++i;
    }
    return len > good ? buf_add(out, s + good, len - good) : 0; /* s may be NULL then */
}

size_t utf8_cut(const char *s, size_t len)
{
    static const unsigned char lead_min[] = {0, 0, 0xc2, 0xe0, 0xf0};

    /* Only a lead byte whose character is longer than what is left can be split. */
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = (unsigned char)s[len - back];

        if ((c & 0xc0) == 0x80)
            continue;
        for (size_t n = back + 1; n <= 4; n++)
            if (c >= lead_min[n] && (n == 4 ? c < 0xf5 : c < lead_min[n + 1]))
                return len - back;
        break;
    }
    return len;
}

static size_t json_char_size(unsigned char c, size_t n)
{
    if (n != 1)
        return n ? n : 3; /* U+FFFD */
    if (c == '"' || c == '\\' || (c >= '\b' && c <= '\r' && c != '\v'))
        return 2;
    return c < 0x20 ? 6 : 1;
}

size_t utf8_cut_json(const char *s, size_t len, size_t max, size_t *ret_size)
{
    size_t i = 0, size = 0;

    while (i < len) {
        size_t n = utf8_char((const unsigned char *)s + i, len - i);
        size_t more = json_char_size((unsigned char)s[i], n);

        if (more > max - size)
            break;
        size += more;
        i += n ? n : 1;
    }
    *ret_size = size;
    return i;
}

static const char b64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_encode(struct buf *out, const void *data, size_t len)
{
    const unsigned char *p = data;
    char *q;

    if (len > SIZE_MAX / 2 || !(q = buf_room(out, (len + 2) / 3 * 4)))
        return -EMSGSIZE;
    for (; len >= 3; p += 3, len -= 3) {
        *q++ = b64_digits[p[0] >> 2];
        *q++ = b64_digits[(p[0] & 3) << 4 | p[1] >> 4];
        *q++ = b64_digits[(p[1] & 15) << 2 | p[2] >> 6];
        *q++ = b64_digits[p[2] & 63];
    }
    if (len > 0) {
        unsigned char second = len > 1 ? p[1] : 0;

        *q++ = b64_digits[p[0] >> 2];
        *q++ = b64_digits[(p[0] & 3) << 4 | second >> 4];
        *q++ = len > 1 ? b64_digits[(second & 15) << 2] : '=';
        *q++ = '=';
    }
    *q = '\0';
    out->len = (size_t)(q - out->data);
    return 0;
}

static int b64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(struct buf *out, const char *text, size_t len)
{
    char *q;

    if (len % 4 != 0)
        return -EINVAL;
    if (!(q = buf_room(out, len / 4 * 3)))
        return -EMSGSIZE;
    for (size_t i = 0; i < len; i += 4) {
        int pad = i + 4 < len ? 0 : (text[i + 3] == '=') + (text[i + 2] == '=');
        int v[4];

        for (int k = 0; k < 4; k++)
            v[k] = k >= 4 - pad ? 0 : b64_value(text[i + (size_t)k]);
        if (v[0] < 0 || v[1] < 0 || v[2] < 0 || v[3] < 0)
            return -EINVAL;
        if (pad == 2 && text[i + 3] != '=')
            return -EINVAL;
        if ((pad == 2 && (v[1] & 15)) || (pad == 1 && (v[2] & 3)))
            return -EINVAL;
        *q++ = (char)(v[0] << 2 | v[1] >> 4);
        if (pad < 2)
            *q++ = (char)(v[1] << 4 | v[2] >> 2);
        if (pad < 1)
            *q++ = (char)(v[2] << 6 | v[3]);
    }
    *q = '\0';
    out->len = (size_t)(q - out->data);
    return 0;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;

    return m < c ? m : c;
}

size_t str_distance(const char *a, const char *b)
{
    size_t row[STR_DISTANCE_BYTES_MAX + 1];
    size_t n = strlen(a), m = strlen(b);

    if (n > STR_DISTANCE_BYTES_MAX || m > STR_DISTANCE_BYTES_MAX)
        return n > m ? n : m;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t above = row[j];

            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[m];
}

bool str_equal_secret(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    volatile unsigned char diff = n != m;

    for (size_t i = 0; i < m; i++)
        diff |= (unsigned char)((i < n ? a[i] : 0) ^ b[i]);
    return diff == 0;
}

bool str_glob(const char *pattern, const char *s)
{
    return fnmatch(pattern, s, FNM_NOESCAPE) == 0;
}

bool glob_valid(const char *pattern)
{
    size_t len = strlen(pattern);

    return len > 0 && len <= GLOB_BYTES_MAX && !strpbrk(pattern, ";|$`\\");
}
