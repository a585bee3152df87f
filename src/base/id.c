#include "base/id.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/str.h"

void id_new(char ret[ID_SIZE], const char *prefix)
{
    unsigned char bytes[12];
    int n;

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        abort();
    n = snprintf(ret, ID_SIZE, "%s_", prefix);
    for (size_t i = 0; i < sizeof(bytes); i++)
        n += snprintf(ret + n, ID_SIZE - (size_t)n, "%02x", bytes[i]);
}

void id_hostname(const char *id, char ret[ID_SIZE])
{
    (void)snprintf(ret, ID_SIZE, "%s", id);
    for (char *p = ret; (p = strchr(p, '_')); p++)
        *p = '-';
}

bool id_valid(const char *s, const char *prefix)
{
    size_t n = strlen(prefix);

    if (!str_starts(s, prefix) || s[n] != '_' || strlen(s) != n + 25)
        return false;
    return strspn(s + n + 1, "0123456789abcdef") == 24;
}
