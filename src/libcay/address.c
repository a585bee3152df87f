#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "libcay/api.h"

static const char *env_text(const char *name)
{
    const char *v = getenv(name);

    return v && *v ? v : NULL;
}

static const char *env_first(const char *const *names)
{
    const char *v = NULL;

    for (; *names && !v; names++)
        v = env_text(*names);
    return v;
}

/* "host:port", "http://host:port/", "unix:/path" and "/path" in the form that http_client_new
 * takes. */
static int normal_target(const char *host, char **ret, struct err *err)
{
    const char *rest;
    size_t len;

    if (str_starts(host, "unix:"))
        host += strlen("unix:");
    if (host[0] == '/') {
        *ret = xasprintf("unix:%s", host);
        return 0;
    }
    if (str_starts(host, "https://"))
        return err_set(err, ERR_INVALID,
                       "the daemon does not speak https (\"%s\"): use http://host:port on this "
                       "machine or through a tunnel",
                       host);
    rest = str_starts(host, "http://") ? host + strlen("http://") : host;
    len = strlen(rest);
    while (len > 0 && rest[len - 1] == '/')
        len--;
    if (len == 0 || strcspn(rest, "/?#@ ") < len)
        return err_set(err, ERR_INVALID,
                       "\"%s\" is no address of a daemon: use unix:/path or http://host:port",
                       host);
    if (memchr(rest, ':', len))
        *ret = xasprintf("http://%.*s", (int)len, rest);
    else
        *ret = xasprintf("http://%.*s:%s", (int)len, rest, rest == host ? "3111" : "80");
    return 0;
}

int api_address(const char *host, char **ret, bool *ret_chosen, struct err *err)
{
    const char *run = env_text("CAY_RUN"), *port = env_text("CAY_REST_PORT");
    auto_free char *path = NULL;
    auto_close int fd = -1;
    uint64_t number = 3111;

    if (!host)
        host = env_first((const char *const[]){"CAY_HOST", "CAY_URL", "III_SANDBOX_URL", NULL});
    *ret_chosen = host != NULL;
    if (host)
        return normal_target(host, ret, err);
    path = xasprintf("%s/cay.sock", run ? run : "/run/cay");
    fd = unix_connect(path);
    if (fd >= 0) {
        *ret = xasprintf("unix:%s", path);
        return 0;
    }
    if (port && (str_u64(port, &number) < 0 || number > 65535))
        return err_set(err, ERR_INVALID, "CAY_REST_PORT is \"%s\", not a port number", port);
    if (number == 0) { /* a free one, of a daemon that is at the socket too */
        *ret = xasprintf("unix:%s", path);
        return 0;
    }
    *ret = xasprintf("http://127.0.0.1:%u", (unsigned)number);
    return 0;
}

const char *api_token(void)
{
    return env_first((const char *const[]){"CAY_TOKEN", "CAY_AUTH_TOKEN", "III_SANDBOX_TOKEN",
                                           "III_AUTH_TOKEN", NULL});
}
