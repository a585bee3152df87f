#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "registry/registry_internal.h"

static bool v4_is_forbidden(uint32_t ip)
{
    return ip >> 16 == 0xa9fe /* 169.254/16 */ || ip == 0x646464c8 /* 100.100.100.200 */;
}

bool address_is_forbidden(const struct sockaddr *address)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    static const unsigned char nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    static const unsigned char ec2[16] = {0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54};
    const unsigned char *b;

    if (address->sa_family == AF_INET)
        return v4_is_forbidden(
            ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr));
    if (address->sa_family != AF_INET6)
        return true; /* nothing else is asked for */
    b = ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr.s6_addr;
    if (memcmp(b, mapped, 12) == 0 || memcmp(b, nat64, 12) == 0)
        return v4_is_forbidden((uint32_t)b[12] << 24 | (uint32_t)b[13] << 16 |
                               (uint32_t)b[14] << 8 | b[15]);
    return (b[0] == 0xfe && (b[1] & 0xc0) == 0x80) || memcmp(b, ec2, 16) == 0;
}

/* A host that is written as an address is looked at before it is connected to: behind a proxy our
 * own sockets never see it. */
static bool host_is_forbidden(const char *host)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    bool bracket = host[0] == '[';
    char bare[INET6_ADDRSTRLEN + 1];

    /* Without the brackets of one, and the dot that may end the other. */
    (void)snprintf(bare, sizeof(bare), "%s", host + bracket);
    if (bare[0] && (bracket || str_ends(bare, ".")))
        bare[strlen(bare) - 1] = '\0';
    if (inet_pton(AF_INET, bare, &v4.sin_addr) == 1)
        return address_is_forbidden((const struct sockaddr *)&v4);
    return inet_pton(AF_INET6, bare, &v6.sin6_addr) == 1 &&
           address_is_forbidden((const struct sockaddr *)&v6);
}

/* An entry without a port stands for all ports of its host. */
static bool is_listed(char *const *insecure, const char *host, const char *port)
{
    size_t len = strlen(host);

    for (size_t i = 0; insecure && insecure[i]; i++) {
        const char *rest = insecure[i] + len;

        if (strncasecmp(insecure[i], host, len) == 0 &&
            (!rest[0] || (rest[0] == ':' && strcmp(rest + 1, port) == 0)))
            return true;
    }
    return false;
}

bool origin_is_insecure(char *const *insecure, const char *host_port)
{
    const char *bracket = strrchr(host_port, ']');
    const char *colon = strrchr(bracket ? bracket : host_port, ':');
    auto_free char *host =
        colon ? xstrndup(host_port, (size_t)(colon - host_port)) : xstrdup(host_port);

    return is_listed(insecure, host, colon ? colon + 1 : "80");
}

struct url_parts {
    char *scheme, *host, *port, *user;
};

static void url_parts_done(struct url_parts *p)
{
    curl_free(p->scheme);
    curl_free(p->host);
    curl_free(p->port);
    curl_free(p->user);
}

static int split(const char *url, struct url_parts *p)
{
    CURLU *u = curl_url();
    int r = -1;

    if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_SCHEME, &p->scheme, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_HOST, &p->host, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_PORT, &p->port, CURLU_DEFAULT_PORT) == CURLUE_OK) {
        (void)curl_url_get(u, CURLUPART_USER, &p->user, 0);
        r = 0;
    }
    curl_url_cleanup(u);
    return r;
}

int origin_host(const char *url, char **ret_host, char **ret_port)
{
    struct url_parts p = {0};
    int r = split(url, &p);

    if (r == 0) {
        *ret_host = xstrdup(p.host);
        *ret_port = xstrdup(p.port);
    }
    url_parts_done(&p);
    return r;
}

static int check(char *const *insecure, const char *url, const struct url_parts *p, struct err *err)
{
    if (strcmp(p->scheme, "https") != 0 && strcmp(p->scheme, "http") != 0)
        return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                        "refused to go to %.60s: not http", url);
    if (p->user)
        return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                        "refused to go to %.60s: it has a user name in its address", p->host);
    if (host_is_forbidden(p->host))
        return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                        "refused to go to %.60s: it is a link-local address", p->host);
    if (strcmp(p->scheme, "http") == 0 && !is_listed(insecure, p->host, p->port))
        return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                        "refused to ask %.60s:%s over plain http: if that is meant, add it to "
                        "CAY_INSECURE_REGISTRIES",
                        p->host, p->port);
    return 0;
}

int origin_check(char *const *insecure, const char *url, char **ret_origin, struct err *err)
{
    struct url_parts p = {0};
    int r;

    if (split(url, &p) < 0)
        r = err_code(err, ERR_UNAVAILABLE, "image_pull_failed", "%.80s is not an address of http",
                     url);
    else
        r = check(insecure, url, &p, err);
    if (r == 0) {
        *ret_origin = xasprintf("%s://%s:%s", p.scheme, p.host, p.port);
        for (char *c = *ret_origin; *c; c++)
            if (*c >= 'A' && *c <= 'Z')
                *c = (char)(*c - 'A' + 'a');
    }
    url_parts_done(&p);
    return r < 0 ? problem_printable(err) : 0;
}
