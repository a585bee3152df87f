#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void *check(void *p)
{
    if (!p)
        abort();
    return p;
}

void *xmalloc(size_t size)
{
    return check(malloc(size ? size : 1));
}

void *xcalloc(size_t n, size_t size)
{
    return check(calloc(n ? n : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t size)
{
    return check(realloc(p, size ? size : 1));
}

char *xstrdup(const char *s)
{
    return check(strdup(s));
}

char *xstrndup(const char *s, size_t n)
{
    return check(strndup(s, n));
}

char *xasprintf(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    return s;
}

void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

void strv_free(char **v)
{
    for (char **s = v; s && *s; s++)
        free(*s);
    free(v);
}

size_t strv_len(char *const *v)
{
    size_t n = 0;

    while (v && v[n])
        n++;
    return n;
}

char **strv_add_nth(char **v, size_t n, const char *s)
{
    /* The room doubles at powers of two. */
    if (n == 0 || ((n + 1) & n) == 0)
        v = xrealloc(v, (n + 1) * 2 * sizeof(*v));
    v[n] = xstrdup(s);
    v[n + 1] = NULL;
    return v;
}

char **strv_add(char **v, const char *s)
{
    return strv_add_nth(v, strv_len(v), s);
}

char **strv_copy(char *const *v)
{
    char **copy = xcalloc(1, sizeof(*copy));

    /* One that can be added to has room up to a power of two. */
    for (size_t i = 0; v[i]; i++)
        copy = strv_add_nth(copy, i, v[i]);
    return copy;
}
