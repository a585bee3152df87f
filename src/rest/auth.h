#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct err;

/* Who may call. Decisions only: no request, no socket, so that they can be tested as a table. */

struct auth_config {
    const char *token;    /* NULL = none is needed */
    char *const *hosts;   /* beside localhost, 127.0.0.1 and [::1]; "*" = any; NULL = none */
    char *const *origins; /* whole origins: "https://app.example"; NULL = none */
    uid_t own_uid;
};

struct auth_request {
    bool is_tcp;
    uid_t peer_uid;   /* of the unix socket */
    const char *host; /* headers; NULL = absent */
    const char *origin;
    const char *authorization;
};

/* Is it from this machine's own pages, or from no page at all? A web page anywhere can make a
 * browser send requests to a loopback port (and, by rebinding its name, read the answers); Host and
 * Origin show that. Only TCP is asked. ERR_FORBIDDEN host_not_allowed or origin_not_allowed. */
int auth_check_source(const struct auth_config *c, const struct auth_request *r, struct err *err);

/* ERR_UNAUTHORIZED without a token where one is needed, ERR_FORBIDDEN with a wrong one. */
int auth_check_token(const struct auth_config *c, const struct auth_request *r, struct err *err);

/* Is it root on this machine, by the kernel's word? A token is no proof of that. */
bool auth_is_local_root(const struct auth_request *r);

bool auth_origin_listed(const struct auth_config *c, const char *origin);
