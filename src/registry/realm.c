/* Whom a registry's login is shown to. A registry that does not look at logins itself names who
 * does, its realm, in the header of a 401: a stranger's word, which anything that answers in the
 * registry's place can put there (a cache that passes on what another one said, a page of an
 * account on a shared host). Docker, podman and containerd follow it anywhere. Here a login goes
 *
 * 1. to the registry's own host, on any port;
 * 2. within its domain, which is what is left without the first word of its host: from
 *    registry-1.docker.io to auth.docker.io, from registry.gitlab.com to gitlab.com. A domain has
 *    two words, or three where the last two are what a country gives out (example.co.uk);
 * 3. where the operator says (CAY_REGISTRY_REALMS).
 *
 * Asking a realm without a login is not bound by this, only by origin.c. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "registry/registry_internal.h"

static bool is_address(const char *host)
{
    struct in_addr v4;

    return host[0] == '[' || inet_pton(AF_INET, host, &v4) == 1;
}

/* Could strangers have names directly below it? "io", "co.uk". */
static bool is_given_out(const char *domain)
{
    const char *last = strrchr(domain, '.');

    if (!last)
        return true;
    return strchr(domain, '.') == last && strlen(last + 1) == 2 && last - domain <= 3;
}

bool realm_is_own(const char *host, const char *realm)
{
    const char *domain = strchr(host, '.');
    size_t len;

    if (strcasecmp(host, realm) == 0)
        return true;
    if (!domain || is_address(host) || is_address(realm) || is_given_out(domain + 1))
        return false;
    len = strlen(realm);
    if (strcasecmp(domain + 1, realm) == 0)
        return true;
    return len > strlen(domain) && strcasecmp(realm + len - strlen(domain), domain) == 0;
}

/* "registry.example=auth.example[:PORT]"; without a port it is for all of them. */
static bool is_listed(char *const *realms, const char *registry, const char *host, const char *port)
{
    size_t n = strlen(registry), len = strlen(host);

    for (; realms && *realms; realms++) {
        const char *to = *realms + n + 1;

        if (strncasecmp(*realms, registry, n) != 0 || (*realms)[n] != '=')
            continue;
        if (strncasecmp(to, host, len) == 0 &&
            (!to[len] || (to[len] == ':' && strcmp(to + len + 1, port) == 0)))
            return true;
    }
    return false;
}

int realm_check(const struct endpoint *ep, const char *realm, struct err *err)
{
    auto_free char *own = NULL, *own_port = NULL, *host = NULL, *port = NULL, *origin = NULL;

    /* Where nobody may go no setting helps. */
    if (origin_check(ep->registry->insecure, realm, &origin, err) < 0)
        return err_wrap(err, "the token service of %.60s", ep->name);
    if (origin_host(ep->base, &own, &own_port) < 0 || origin_host(realm, &host, &port) < 0)
        return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                        "the token service of %.60s has no address", ep->name);
    if (realm_is_own(own, host) || is_listed(ep->registry->realms, ep->name, host, port))
        return 0;
    (void)err_code(err, ERR_FORBIDDEN, "registry_denied",
                   "%.50s wants the login shown to %.50s, which is not of its domain: if that is "
                   "meant, CAY_REGISTRY_REALMS must have %.50s=%.50s",
                   ep->name, host, ep->name, host);
    return problem_printable(err);
}
