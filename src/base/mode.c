#include "base/mode.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

int mode_octal(const char *text, uint32_t *ret)
{
    size_t n = strlen(text);
    uint32_t v;

    if (n < 3 || n > 4 || str_octal(text, &v) < 0)
        return -EINVAL;
    *ret = v;
    return 0;
}

/* [ugoa]* as the bits that a clause may touch, the special ones included. */
static uint32_t read_who(const char **p)
{
    uint32_t who = 0;

    for (;; (*p)++) {
        if (**p == 'u')
            who |= 04700;
        else if (**p == 'g')
            who |= 02070;
        else if (**p == 'o')
            who |= 01007;
        else if (**p == 'a')
            who |= 07777;
        else
            return who ? who : 07777;
    }
}

static int read_bits(const char *p, uint32_t old, bool dir, uint32_t *ret)
{
    uint32_t bits = 0;

    for (; *p; p++) {
        if (*p == 'r')
            bits |= 0444;
        else if (*p == 'w')
            bits |= 0222;
        else if (*p == 'x')
            bits |= 0111;
        else if (*p == 'X')
            bits |= dir || (old & 0111) ? 0111 : 0;
        else if (*p == 't')
            bits |= 01000;
        else
            return -EINVAL;
    }
    *ret = bits;
    return 0;
}

int mode_parse(const char *text, uint32_t old, bool dir, uint32_t *ret)
{
    const char *p = text;
    uint32_t who, bits;
    char op;

    old &= 07777;
    if (mode_octal(text, ret) == 0)
        return 0;
    if (strlen(text) > MODE_BYTES_MAX)
        return -EINVAL;
    who = read_who(&p);
    op = *p;
    if (!op || !strchr("+-=", op) || read_bits(p + 1, old, dir, &bits) < 0)
        return -EINVAL;
    bits &= who;
    if (op == '+')
        *ret = old | bits;
    else if (op == '-')
        *ret = old & ~bits;
    else
        *ret = (old & ~who) | bits;
    return 0;
}
