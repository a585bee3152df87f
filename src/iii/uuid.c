#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "iii/iii_internal.h"

void iii_uuid_new(char ret[UUID_SIZE])
{
    unsigned char b[16];
    char *at = ret;

    if (getrandom(b, sizeof(b), 0) != sizeof(b))
        abort();
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof(b); i++)
        at += snprintf(at, 4, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}

/* With dashes where they belong, or without any: 32 digits. */
bool iii_uuid_valid(const char *text)
{
    bool dashed = strlen(text) == UUID_SIZE - 1;

    if (!dashed && strlen(text) != 32)
        return false;
    for (size_t i = 0; text[i]; i++) {
        bool dash = dashed && (i == 8 || i == 13 || i == 18 || i == 23);

        if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
            return false;
    }
    return true;
}
