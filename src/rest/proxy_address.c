#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "rest/proxy_internal.h"
#include "rest/query.h"

/* "8080-sbx-5f0c….localhost:3111" and "/sandbox/proxy/sbx_5f0c…/8080/…". */

static bool read_port(const char *s, size_t len, uint16_t *ret)
{
    unsigned n = 0;

    if (len < 1 || len > 5 || s[0] == '0')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        n = n * 10 + (unsigned)(s[i] - '0');
    }
    *ret = (uint16_t)n;
    return n <= 65535;
}

/* Host names have no underscore and no case. */
static bool read_word(const char *s, size_t len, char *ret)
{
    if (len < 1 || len > PROXY_WORD_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        ret[i] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] + 32 : s[i]);
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-_", ret[i]))
            return false;
    }
    ret[len] = '\0';
    if (str_starts(ret, "sbx-")) {
        char id[PROXY_WORD_MAX + 1];

        (void)snprintf(id, sizeof(id), "sbx_%s", ret + 4);
        if (id_valid(id, "sbx"))
            memcpy(ret, id, strlen(id) + 1);
    }
    return true;
}

static bool is_in_domain(const char *at, const char *domain)
{
    size_t len = strlen(domain), digits;

    if (at[0] != '.' || strncasecmp(at + 1, domain, len) != 0)
        return false;
    at += 1 + len;
    if (!*at)
        return true;
    digits = strspn(at + 1, "0123456789");
    return at[0] == ':' && digits >= 1 && digits <= 5 && !at[1 + digits];
}

static bool by_host(const char *domain, const char *host, struct proxy_address *ret)
{
    size_t label = strcspn(host, "."), digits = strcspn(host, "-.");

    return is_in_domain(host + label, domain) && host[digits] == '-' &&
           read_port(host, digits, &ret->port) &&
           read_word(host + digits + 1, label - digits - 1, ret->word);
}

static enum proxy_found by_path(const char *path, const char *below, struct proxy_address *ret)
{
    const char *word = below + strlen("/proxy/"), *port, *end;
    auto_free char *text = NULL;

    port = word + strcspn(word, "/");
    if (*port != '/')
        return PROXY_NONE;
    if (port - word > PROXY_WORD_MAX)
        return PROXY_NONE;
    text = query_decode(word, (size_t)(port - word), false);
    port++;
    end = port + strcspn(port, "/");
    if (!text || !*text || !read_port(port, (size_t)(end - port), &ret->port))
        return PROXY_NONE;
    memcpy(ret->word, text, strlen(text) + 1);
    ret->path = *end ? end : "/";
    ret->prefix_len = (size_t)(end - path);
    return *end ? PROXY_FOUND : PROXY_BARE;
}

enum proxy_found proxy_address(const char *domain, const char *host, const char *path,
                               const char *below, struct proxy_address *ret)
{
    *ret = (struct proxy_address){0};
    if (host && by_host(domain, host, ret)) {
        ret->by_host = true;
        ret->path = path;
        return PROXY_FOUND;
    }
    return below && str_starts(below, "/proxy/") ? by_path(path, below, ret) : PROXY_NONE;
}
