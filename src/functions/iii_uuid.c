#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/str.h"
#include "functions/iii.h"

/* A UUID of version 4 has 122 bits to choose. The first 96 of them, in order, are the id's; the
 * last 26 are a check of those, so that one that somebody else made is one of ours once in 67
 * million, and is then not found all the same. */

#define UUID_BYTES 16
#define ID_BYTES   12
#define ID_BITS    96
#define CHECK_BITS 26
#define PREFIX     "sbx_"

static uint32_t check_of(const unsigned char id[ID_BYTES])
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a, stirred at the end: its upper bits are poor */

    for (size_t i = 0; i < ID_BYTES; i++)
        h = (h ^ id[i]) * 0x100000001b3u;
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 33;
    return (uint32_t)(h & ((1u << CHECK_BITS) - 1));
}

/* Version and variant are fixed: the upper half of byte 6, the two upper bits of byte 8. */
static bool is_free(size_t bit)
{
    return (bit < 48 || bit > 51) && bit != 64 && bit != 65;
}

static unsigned get_bit(const unsigned char *bytes, size_t at)
{
    return bytes[at / 8] >> (7 - at % 8) & 1;
}

static void put_bit(unsigned char *bytes, size_t at, unsigned bit)
{
    if (bit)
        bytes[at / 8] |= (unsigned char)(0x80 >> at % 8);
}

static int read_hex(const char *text, unsigned char *ret, size_t n)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < 2 * n; i++) {
        const char *d = text[i] ? strchr(digits, tolower((unsigned char)text[i])) : NULL;

        if (!d)
            return -1;
        ret[i / 2] = (unsigned char)(i % 2 ? ret[i / 2] << 4 | (d - digits) : d - digits);
    }
    return 0;
}

void iii_uuid_of_id(const char *id, char ret[UUID_SIZE])
{
    unsigned char bytes[ID_BYTES] = {0}, uuid[UUID_BYTES] = {0};
    uint32_t check;
    size_t n = 0;

    if (str_starts(id, PREFIX))
        (void)read_hex(id + strlen(PREFIX), bytes, ID_BYTES);
    check = check_of(bytes);
    for (size_t bit = 0; bit < 8 * UUID_BYTES; bit++) {
        if (!is_free(bit))
            continue;
        put_bit(uuid, bit,
                n < ID_BITS ? get_bit(bytes, n) : check >> (ID_BITS + CHECK_BITS - 1 - n) & 1);
        n++;
    }
    uuid[6] |= 0x40;
    uuid[8] |= 0x80;
    (void)snprintf(ret, UUID_SIZE,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", uuid[0],
                   uuid[1], uuid[2], uuid[3], uuid[4], uuid[5], uuid[6], uuid[7], uuid[8], uuid[9],
                   uuid[10], uuid[11], uuid[12], uuid[13], uuid[14], uuid[15]);
}

/* The forms that are written: with dashes, without, in braces, as a URN. */
static int read_uuid(const char *text, unsigned char ret[UUID_BYTES])
{
    static const unsigned char groups[] = {8, 4, 4, 4, 12};
    size_t len = strlen(text), n = 0;
    char digits[2 * UUID_BYTES + 1];

    if (strncasecmp(text, "urn:uuid:", 9) == 0) {
        text += 9;
        len -= 9;
    } else if (len == 38 && text[0] == '{' && text[37] == '}') {
        text++;
        len = 36;
    }
    if (len == 32) {
        memcpy(digits, text, 32);
    } else if (len == 36) {
        for (size_t g = 0; g < sizeof(groups); g++) {
            memcpy(digits + n, text, groups[g]);
            n += groups[g];
            text += groups[g];
            if (g + 1 < sizeof(groups) && *text++ != '-')
                return -1;
        }
    } else {
        return -1;
    }
    digits[2 * UUID_BYTES] = '\0';
    return read_hex(digits, ret, UUID_BYTES);
}

int iii_id_of_uuid(const char *uuid, char ret[ID_SIZE], struct err *err)
{
    unsigned char raw[UUID_BYTES], bytes[ID_BYTES] = {0};
    uint32_t check = 0;
    size_t n = 0;
    int at;

    if (read_uuid(uuid, raw) < 0)
        return err_code(err, ERR_INVALID, "bad_uuid", "sandbox_id is not a valid UUID: %.60s",
                        uuid);
    for (size_t bit = 0; bit < 8 * UUID_BYTES; bit++) {
        if (!is_free(bit))
            continue;
        if (n < ID_BITS)
            put_bit(bytes, n, get_bit(raw, bit));
        else
            check = check << 1 | get_bit(raw, bit);
        n++;
    }
    if (raw[6] >> 4 != 4 || raw[8] >> 6 != 2 || check != check_of(bytes))
        return err_code(err, ERR_NOT_FOUND, "sandbox_not_found", "sandbox not found: %.60s", uuid);
    at = snprintf(ret, ID_SIZE, PREFIX);
    for (size_t i = 0; i < ID_BYTES; i++)
        at += snprintf(ret + at, ID_SIZE - (size_t)at, "%02x", bytes[i]);
    return 0;
}
