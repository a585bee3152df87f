#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "functions/callers.h"
#include "http/server.h"
#include "rest/auth.h"
#include "rest/rest.h"
#include "rest/rest_internal.h"

/* Who sends a request: what it says of itself, and what that proves. */

/* For the audit log: without the port, which says nothing afterwards. */
static void put_address(int fd, char ret[64])
{
    struct sockaddr_storage at;
    socklen_t len = sizeof(at);

    ret[0] = '\0';
    if (getpeername(fd, (struct sockaddr *)&at, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&at, len, ret, 64, NULL, 0, NI_NUMERICHOST);
}

struct auth_request rest_from(const struct rest *rest, struct http_req *req,
                              char token[REST_TOKEN_SIZE])
{
    struct auth_request r = {
        .is_tcp = http_req_is_tcp(req),
        .in_group = rest->auth.group && !http_req_is_tcp(req) &&
                    auth_peer_is_member(http_req_fd(req), *rest->auth.group),
        .peer_uid = http_req_peer_uid(req),
        .host = http_req_header(req, "Host"),
        .origin = http_req_header(req, "Origin"),
        .authorization = http_req_header(req, "Authorization"),
    };

    if (r.is_tcp)
        put_address(http_req_fd(req), r.address);
    if (!r.authorization && http_upgrade_asked(req, "websocket") &&
        auth_token_of_protocols(http_req_header(req, "Sec-WebSocket-Protocol"), token,
                                REST_TOKEN_SIZE))
        r.authorization = token;
    return r;
}

bool rest_says_client(struct http_req *req)
{
    const char *text = http_req_header(req, "Cay-Client");
    const char *slash = text ? strchr(text, '/') : NULL;

    return slash && slash > text && slash[1];
}

int rest_identify(const struct rest *rest, const struct auth_request *from, struct caller *ret,
                  struct err *err)
{
    const char *given = auth_given(from), *name = from->is_tcp ? "anyone" : "root";

    if (given && caller_token_like(given) &&
        (!rest->config->token || !str_equal_secret(rest->config->token, given))) {
        if (caller_of_token(rest->services, given, ret, err) < 0)
            return -1;
        ret->local = ret->admin && auth_is_local_root(from);
        return 0;
    }
    if (auth_check_token(&rest->auth, from, err) < 0)
        return -1;
    ret->scopes = SCOPES_ALL;
    ret->admin = !from->is_tcp || rest->config->token;
    ret->local = auth_is_local_root(from);
    if (from->is_tcp && rest->config->token)
        name = "admin";
    (void)snprintf(ret->name, sizeof(ret->name), "%s", name);
    if (!from->is_tcp && !ret->local)
        (void)snprintf(ret->name, sizeof(ret->name), "uid:%u", (unsigned)from->peer_uid);
    return 0;
}

void rest_identify_or_nobody(const struct rest *rest, const struct auth_request *from,
                             struct caller *ret)
{
    struct caller nobody = *ret;

    if (rest_identify(rest, from, ret, NULL) == 0)
        return;
    nobody.scopes = 1u << SCOPE_NONE;
    (void)snprintf(nobody.name, sizeof(nobody.name), "anyone");
    *ret = nobody;
}
