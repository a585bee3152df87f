#include "base/hidden.h"

#include <stdbool.h>

static bool is_hidden(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

static bool continues(const unsigned char *s, size_t len, size_t at)
{
    return at < len && (s[at] & 0xc0) == 0x80;
}

/* All of them have three bytes at most. */
size_t hidden_char(const char *text, size_t len, uint32_t *ret_code)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = 1;

    if (len == 0)
        return 0;
    *ret_code = s[0];
    if ((s[0] & 0xe0) == 0xc0 && continues(s, len, 1)) {
        n = 2;
        *ret_code = (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
    } else if ((s[0] & 0xf0) == 0xe0 && continues(s, len, 1) && continues(s, len, 2)) {
        n = 3;
        *ret_code = (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
    } else if (s[0] >= 0x80) {
        return 0;
    }
    return is_hidden(*ret_code) ? n : 0;
}
