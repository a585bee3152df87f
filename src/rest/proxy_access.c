#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "rest/proxy_internal.h"

/* Who may ask a port of a sandbox:
 *
 * - who has proved itself to the API, or has a signature for this port;
 * - where no token is set, whoever may call the API: anybody on this machine, but no page of
 *   another origin, as there;
 * - everybody who knows the id (which has 96 random bits; a name can be guessed), of ports that
 * were exposed, unless requireAuth is set. */
enum proxy_verdict proxy_judge(const struct proxy_asker *asker, const struct proxied *to)
{
    if (asker->proved || to->is_signed)
        return PROXY_OPEN;
    if (to->require_auth)
        return PROXY_UNPROVED;
    if (to->exposed && !to->by_name)
        return PROXY_OPEN;
    if (asker->token)
        return PROXY_UNPROVED;
    return asker->foreign ? PROXY_FOREIGN : PROXY_OPEN;
}

static bool is_own(const char *origin, const char *host)
{
    if (str_starts(origin, "http://"))
        return strcasecmp(origin + 7, host) == 0;
    return str_starts(origin, "https://") && strcasecmp(origin + 8, host) == 0;
}

bool proxy_is_foreign(const char *method, const char *host, const char *origin, const char *site,
                      const char *mode, const char *dest)
{
    bool navigates = mode && strcmp(mode, "navigate") == 0 && dest &&
                     strcmp(dest, "document") == 0 && strcmp(method, "GET") == 0;

    if (origin)
        return !host || !is_own(origin, host);
    if (!site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0)
        return false;
    return !navigates;
}
