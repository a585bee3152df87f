#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

/* Who may call. Decisions only: no request, no socket, so that they can be tested as a table. */

struct auth_config {
    const char *token;    /* NULL = there is none that opens everything, and over TCP */
    bool require_token;   /* one is needed all the same; else none is */
    char *const *hosts;   /* beside localhost, 127.0.0.1 and [::1]; "*" = any; NULL = none */
    char *const *origins; /* whole origins: "https://app.example"; NULL = none */
    uid_t own_uid;
    const gid_t *group; /* whose members may use the unix socket; NULL = none */
};

struct auth_request {
    bool is_tcp;
    uid_t peer_uid;   /* of the unix socket */
    bool in_group;    /* so is this: auth_peer_is_member() */
    const char *host; /* headers; NULL = absent */
    const char *origin;
    const char *authorization;
    char address[64]; /* of a TCP client; "" = not known */
};

/* Is it from this machine's own pages, or from no page at all? A web page anywhere can make a
 * browser send requests to a loopback port (and, by rebinding its name, read the answers); Host and
 * Origin show that. Only TCP is asked. ERR_FORBIDDEN host_not_allowed or origin_not_allowed. */
int auth_check_source(const struct auth_config *c, const struct auth_request *r, struct err *err);

/* The first half of that alone: does Host name this daemon? Only TCP is asked. */
int auth_check_host(const struct auth_config *c, const struct auth_request *r, struct err *err);

/* Was the process that connected in this group, as its own or a supplementary one? By the kernel's
 * word (SO_PEERCRED, SO_PEERGROUPS), so what the mode of the socket's file has become is no
 * matter. */
bool auth_peer_is_member(int unix_fd, gid_t group);

/* What was sent, without the "Bearer " before it; NULL = nothing. */
const char *auth_given(const struct auth_request *r);

/* On the unix socket root, the daemon's own user and members of the group need no token. Else
 * ERR_UNAUTHORIZED without a token where one is needed, ERR_FORBIDDEN with a wrong one. */
int auth_check_token(const struct auth_config *c, const struct auth_request *r, struct err *err);

/* A web page cannot set headers of a WebSocket, but the names of subprotocols: "bearer." and the
 * token in base64url, without padding. False when there is none in the list, or it does not fit. */
bool auth_token_of_protocols(const char *list, char *ret, size_t size);

/* Is it root on this machine, by the kernel's word? A token is no proof of that. */
bool auth_is_local_root(const struct auth_request *r);

bool auth_origin_listed(const struct auth_config *c, const char *origin);
