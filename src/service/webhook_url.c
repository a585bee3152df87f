#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "policy/targets.h"
#include "service/webhooks_internal.h"

static int bad(struct err *err, const char *why)
{
    return err_code(err, ERR_INVALID, "bad_webhook", "url %s", why);
}

static bool port_is_good(const char *text, size_t len)
{
    char digits[8] = {0};
    uint64_t port;

    if (len >= sizeof(digits))
        return false;
    memcpy(digits, text, len);
    return str_u64(digits, &port) == 0 && port >= 1 && port <= 65535;
}

/* "name", "name:80", "[::1]:80": the host without brackets; NULL when it is none of these. */
static char *host_of(const char *authority, size_t len)
{
    const char *end = authority[0] == '[' ? memchr(authority, ']', len) : NULL;
    const char *colon;

    if (end) {
        size_t rest = len - (size_t)(end + 1 - authority);

        if (rest > 0 && (end[1] != ':' || !port_is_good(end + 2, rest - 1)))
            return NULL;
        return xstrndup(authority + 1, (size_t)(end - authority) - 1);
    }
    colon = memchr(authority, ':', len);
    if (colon && !port_is_good(colon + 1, len - (size_t)(colon + 1 - authority)))
        return NULL;
    return xstrndup(authority, colon ? (size_t)(colon - authority) : len);
}

int webhook_check_url(const struct targets *targets, const char *url, struct err *err)
{
    size_t scheme = strncasecmp(url, "https://", 8) == 0  ? 8
                    : strncasecmp(url, "http://", 7) == 0 ? 7
                                                          : 0;
    size_t len = strlen(url), authority;
    auto_free char *host = NULL;
    const char *refused;

    if (scheme == 0)
        return bad(err, "must begin with https:// or http://");
    if (len > WEBHOOK_URL_MAX)
        return bad(err, "is too long: at most 2048 bytes");
    for (const char *c = url; *c; c++)
        if (*c <= ' ' || *c > '~' || strchr("\"<>\\^`{|}", *c))
            return bad(err, "must be of visible ASCII characters; others are written as %XX");
    if (strchr(url, '#'))
        return bad(err, "has a fragment (#…), which is never sent");
    authority = strcspn(url + scheme, "/?");
    if (memchr(url + scheme, '@', authority))
        return bad(err, "has a user name in it, which is not sent: receivers check the signature");
    host = host_of(url + scheme, authority);
    if (!host || !host[0])
        return bad(err, "has no host, or one that is followed by something else than a port");
    refused = targets_refuse_host(targets, host);
    if (refused)
        return err_code(err, ERR_INVALID, "webhook_target_refused",
                        "webhooks do not go to %.100s (%s): the operator can list it in "
                        "CAY_WEBHOOK_ALLOW",
                        host, refused);
    return 0;
}
