#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "service/git.h"

static void wipe(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

void git_secret_done(struct git_secret *s)
{
    wipe(&s->protocol);
    wipe(&s->host);
    wipe(&s->username);
    wipe(&s->password);
}

bool git_secret_is_set(const struct git_secret *s)
{
    return s->username || s->password;
}

static bool has_control(const char *s)
{
    for (; s && *s; s++)
        if (iscntrl((unsigned char)*s))
            return true;
    return false;
}

int git_secret_check(const struct git_secret *s, struct err *err)
{
    if (has_control(s->username) || has_control(s->password))
        return err_set(
            err, ERR_INVALID,
            "username, password and token are one line each, without control characters");
    return 0;
}

int git_ref_check(const char *what, const char *ref, struct err *err)
{
    if (ref && (ref[0] == '-' || has_control(ref)))
        return err_code(err, ERR_INVALID, "bad_ref",
                        "%s must not begin with a dash or have control characters", what);
    return 0;
}

static char *percent_decoded(const char *s, size_t len)
{
    char *text = xmalloc(len + 1), *out = text;

    for (size_t i = 0; i < len; i++) {
        unsigned value;

        if (s[i] == '%' && len - i > 2 && isxdigit((unsigned char)s[i + 1]) &&
            isxdigit((unsigned char)s[i + 2])) {
            char hex[3] = {s[i + 1], s[i + 2], '\0'};

            value = (unsigned)strtoul(hex, NULL, 16);
            i += 2;
        } else {
            value = (unsigned char)s[i];
        }
        *out++ = (char)value;
    }
    *out = '\0';
    return text;
}

/* Some put a token in place of the name, with no password. */
static void take_user(const char *user, size_t len, struct git_secret *s)
{
    const char *colon = memchr(user, ':', len);
    size_t name = colon ? (size_t)(colon - user) : len;

    if (!s->username)
        s->username = percent_decoded(user, name);
    if (!s->password && colon)
        s->password = percent_decoded(colon + 1, len - name - 1);
}

/* A shell is nowhere near, but whoever sends this means one. */
static bool is_strange(const char *url)
{
    return url[0] == '-' || has_control(url) || strchr(url, '`') || strstr(url, "$(");
}

int git_url_take(const char *url, char **ret, struct git_secret *s, struct err *err)
{
    bool https = strncasecmp(url, "https://", 8) == 0;
    const char *rest, *user;
    size_t len;

    if (is_strange(url))
        return err_code(err, ERR_INVALID, "bad_url", "this is no URL of a repository");
    if (!https && strncasecmp(url, "http://", 7) != 0) {
        *ret = xstrdup(url);
        return 0;
    }
    rest = url + (https ? 8 : 7);
    len = strcspn(rest, "/?#");
    user = memrchr(rest, '@', len);
    if (user) {
        take_user(rest, (size_t)(user - rest), s);
        len -= (size_t)(user + 1 - rest);
        rest = user + 1;
    }
    s->protocol = xstrdup(https ? "https" : "http");
    s->host = xstrndup(rest, len);
    *ret = xasprintf("%s://%s", s->protocol, rest);
    return 0;
}
