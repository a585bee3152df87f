#include "mcp/uri.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

#define SCHEME "sandbox://"

static int hex(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 32) : NULL;

    return at && (c < 'G' || c > 'Z') ? (int)(at - digits) : -1;
}

/* In place; false when an escape is none, or hides the end of the string. */
static bool decode(char *text)
{
    char *to = text;

    for (const char *from = text; *from; from++) {
        int high, low;

        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        high = hex(from[1]);
        low = high < 0 ? -1 : hex(from[2]);
        if (low < 0 || (high == 0 && low == 0))
            return false;
        *to++ = (char)(high << 4 | low);
        from += 2;
    }
    *to = '\0';
    return utf8_valid(text, (size_t)(to - text));
}

bool sandbox_uri_read(const char *uri, char **ret_sandbox, char **ret_path)
{
    auto_free char *sandbox = NULL, *path = NULL;
    size_t len;

    if (!str_starts(uri, SCHEME) || strpbrk(uri, "?#"))
        return false;
    uri += strlen(SCHEME);
    len = strcspn(uri, "/");
    sandbox = xstrndup(uri, len);
    path = xstrdup(strcmp(uri + len, "/") == 0 ? "" : uri + len);
    if (!*sandbox || !decode(sandbox) || !decode(path))
        return false;
    *ret_sandbox = steal_ptr(sandbox);
    *ret_path = steal_ptr(path);
    return true;
}
