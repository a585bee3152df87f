#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "registry/registry_internal.h"

/* RFC 9110, 11.6.1: "Bearer realm="…",scope="a,b", Basic realm=…" */

static const char *skip(const char *s, const char *set)
{
    return s + strspn(s, set);
}

static size_t token_len(const char *s)
{
    size_t n = 0;

    while (isalnum((unsigned char)s[n]) || (s[n] && strchr("!#$%&'*+-.^_`|~", s[n])))
        n++;
    return n;
}

/* A token, or a string in quotes where a backslash takes the next character as it is. NULL when the
 * quotes do not end. */
static const char *read_value(const char *s, char **ret)
{
    struct buf value;

    if (*s != '"') {
        /* Not only what a token may hold: realms stand here without quotes too. */
        size_t n = strcspn(s, ", \t");

        *ret = xstrndup(s, n);
        return s + n;
    }
    buf_init(&value, strlen(s));
    for (s++; *s && *s != '"'; s++) {
        if (*s == '\\' && s[1])
            s++;
        (void)buf_add(&value, s, 1);
    }
    *ret = buf_steal(&value);
    if (*s == '"')
        return s + 1;
    free(steal_ptr(*ret));
    return NULL;
}

static void keep(struct challenge *c, const char *name, size_t len, char *value)
{
    char **field = len == 5 && strncasecmp(name, "realm", 5) == 0     ? &c->realm
                   : len == 7 && strncasecmp(name, "service", 7) == 0 ? &c->service
                   : len == 5 && strncasecmp(name, "scope", 5) == 0   ? &c->scope
                                                                      : NULL;

    if (field && !*field)
        *field = value;
    else
        free(value);
}

/* One challenge: its parameters up to the next word that is not followed by '='. */
static const char *read_params(const char *s, struct challenge *c)
{
    for (;;) {
        const char *name = skip(s, ", \t");
        size_t len = token_len(name);
        const char *equals = skip(name + len, " \t");
        char *value;

        if (len == 0 || *equals != '=')
            return name;
        s = read_value(skip(equals + 1, " \t"), &value);
        if (!s)
            return NULL;
        keep(c, name, len, value);
    }
}

static int read_header(const char *s, struct challenge *best, bool *found)
{
    for (;;) {
        struct challenge c = {0};
        const char *scheme = skip(s, ", \t");
        size_t len = token_len(scheme);
        bool usable;

        if (len == 0)
            return *scheme ? -1 : 0;
        s = read_params(scheme + len, &c);
        c.bearer = len == 6 && strncasecmp(scheme, "Bearer", 6) == 0;
        usable =
            s && (c.bearer ? c.realm != NULL : len == 5 && strncasecmp(scheme, "Basic", 5) == 0);
        if (usable && (!*found || (c.bearer && !best->bearer))) {
            challenge_done(best);
            *best = c;
            *found = true;
        } else {
            challenge_done(&c);
        }
        if (!s || s == scheme + len)
            return s && !*s ? 0 : -1;
    }
}

int challenge_parse(char *const *headers, struct challenge *ret)
{
    struct challenge best = {0};
    bool found = false;

    /* What cannot be read ends its own header only. */
    for (size_t i = 0; headers && headers[i]; i++)
        (void)read_header(headers[i], &best, &found);
    if (!found)
        return -1;
    *ret = best;
    return 0;
}

void challenge_done(struct challenge *c)
{
    free(c->realm);
    free(c->service);
    free(c->scope);
    *c = (struct challenge){0};
}
