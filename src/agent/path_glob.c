#include "agent/path_glob.h"

#include <string.h>

#include "base/str.h"

/* All places of the pattern that a path can have led to are kept at once, so that no pattern takes
 * longer than its length times that of the path. */

struct places {
    bool at[GLOB_BYTES_MAX + 1];
};

static size_t char_len(const char *s)
{
    unsigned char c = (unsigned char)*s;
    size_t len = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

    return strnlen(s, len) < len ? 1 : len;
}

/* What `*`, `**` and `**` with its slash take: any number of characters. 0 = it is none of them. */
static size_t star_len(const char *pattern, size_t i)
{
    if (pattern[i] != '*')
        return 0;
    if (pattern[i + 1] != '*')
        return 1;
    return pattern[i + 2] == '/' && (i == 0 || pattern[i - 1] == '/') ? 3 : 2;
}

/* Each of these can also take nothing; that with a slash only where a part of the path begins. */
static void add_empty(const char *pattern, size_t len, bool at_begin, struct places *p)
{
    for (size_t i = 0; i < len; i++)
        if (p->at[i] && (at_begin || star_len(pattern, i) < 3))
            p->at[i + star_len(pattern, i)] = true;
}

static void take(const char *pattern, size_t i, const char *c, size_t size, struct places *next)
{
    size_t star = star_len(pattern, i);

    if (star >= 2 || (star == 1 && *c != '/'))
        next->at[i] = true;
    if (star == 3 && *c == '/')
        next->at[i + 3] = true;
    if (star > 0)
        return;
    if (pattern[i] == '?' && *c != '/')
        next->at[i + 1] = true;
    else if (strncmp(pattern + i, c, size) == 0)
        next->at[i + size] = true;
}

bool path_glob(const char *pattern, const char *path)
{
    struct places now = {{true}};
    size_t len = strlen(pattern);

    if (len > GLOB_BYTES_MAX)
        return false;
    if (!strchr(pattern, '/') && strrchr(path, '/'))
        path = strrchr(path, '/') + 1;
    add_empty(pattern, len, true, &now);
    while (*path) {
        size_t size = char_len(path);
        struct places next = {{false}};

        for (size_t i = 0; i < len; i++)
            if (now.at[i])
                take(pattern, i, path, size, &next);
        add_empty(pattern, len, *path == '/', &next);
        now = next;
        path += size;
    }
    return now.at[len];
}
