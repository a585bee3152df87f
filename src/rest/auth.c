#include "rest/auth.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

/* Length of the name in "name", "name:port" or "[address]:port"; 0 when it is none of them. */
static size_t host_length(const char *host)
{
    const char *end = host + strcspn(host, ":");
    size_t digits;

    if (host[0] == '[') {
        end = strchr(host, ']');
        if (!end)
            return 0;
        end++;
    }
    if (*end == '\0')
        return (size_t)(end - host);
    if (*end != ':')
        return 0;
    digits = strspn(end + 1, "0123456789");
    if (digits == 0 || digits > 5 || end[1 + digits])
        return 0;
    return (size_t)(end - host);
}

static bool same_name(const char *name, const char *host, size_t len)
{
    return strlen(name) == len && strncasecmp(name, host, len) == 0;
}

static bool host_allowed(const struct auth_config *c, const char *host)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]", NULL};
    size_t len = host ? host_length(host) : 0;

    if (len == 0)
        return false;
    for (const char *const *name = loopback; *name; name++)
        if (same_name(*name, host, len))
            return true;
    for (char *const *name = c->hosts; name && *name; name++)
        if (strcmp(*name, "*") == 0 || same_name(*name, host, len))
            return true;
    return false;
}

bool auth_origin_listed(const struct auth_config *c, const char *origin)
{
    for (char *const *o = c->origins; origin && o && *o; o++)
        if (strcasecmp(*o, origin) == 0)
            return true;
    return false;
}

/* A page that this daemon served (or a proxy before it, with TLS) has our own Host as its origin.
 */
static bool is_same_origin(const char *origin, const char *host)
{
    if (str_starts(origin, "http://"))
        return strcasecmp(origin + strlen("http://"), host) == 0;
    if (str_starts(origin, "https://"))
        return strcasecmp(origin + strlen("https://"), host) == 0;
    return false;
}

int auth_check_host(const struct auth_config *c, const struct auth_request *r, struct err *err)
{
    if (!r->is_tcp || host_allowed(c, r->host))
        return 0;
    return err_code(err, ERR_FORBIDDEN, "host_not_allowed",
                    "the Host header names a host that is not allowed: use localhost or "
                    "127.0.0.1, or add the name to CAY_ALLOWED_HOSTS");
}

int auth_check_source(const struct auth_config *c, const struct auth_request *r, struct err *err)
{
    if (auth_check_host(c, r, err) < 0)
        return -1;
    if (!r->is_tcp)
        return 0;
    if (r->origin && !is_same_origin(r->origin, r->host) && !auth_origin_listed(c, r->origin))
        return err_code(err, ERR_FORBIDDEN, "origin_not_allowed",
                        "web pages of this origin are not allowed: add it to CAY_CORS_ORIGINS");
    return 0;
}

/* Nobody is in more groups than the kernel allows, and few in more than these. */
#define GROUPS_USUAL 64

bool auth_peer_is_member(int unix_fd, gid_t group)
{
    gid_t usual[GROUPS_USUAL];
    auto_free gid_t *many = NULL;
    gid_t *groups = usual;
    struct ucred cred;
    socklen_t cred_len = sizeof(cred), len = sizeof(usual);
    int r;

    if (getsockopt(unix_fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) < 0)
        return false;
    if (cred.gid == group)
        return true;
    r = getsockopt(unix_fd, SOL_SOCKET, SO_PEERGROUPS, usual, &len);
    if (r < 0 && errno == ERANGE) { /* len says how much it is */
        groups = many = xmalloc(len);
        r = getsockopt(unix_fd, SOL_SOCKET, SO_PEERGROUPS, many, &len);
    }
    for (size_t i = 0; r == 0 && i < len / sizeof(gid_t); i++)
        if (groups[i] == group)
            return true;
    return false;
}

const char *auth_given(const struct auth_request *r)
{
    const char *given = r->authorization;

    return given && strncasecmp(given, "Bearer ", 7) == 0 ? given + 7 : given;
}

int auth_check_token(const struct auth_config *c, const struct auth_request *r, struct err *err)
{
    const char *given = auth_given(r);

    if (!r->is_tcp && (r->peer_uid == 0 || r->peer_uid == c->own_uid || r->in_group))
        return 0;
    if (!c->token && !c->require_token) {
        if (r->is_tcp)
            return 0;
        return err_code(
            err, ERR_FORBIDDEN, "peer_not_allowed",
            "only root, the daemon's own user and members of the socket's group may use "
            "the socket: see CAY_SOCKET_GROUP, or start the daemon with a token and "
            "send it");
    }
    if (!given)
        return err_set(err, ERR_UNAUTHORIZED, "Missing authorization header");
    if (!c->token || !str_equal_secret(c->token, given))
        return err_code(err, ERR_FORBIDDEN, "invalid_token", "Invalid token");
    return 0;
}

/* base64url without padding, as a string. */
static bool decode_url(const char *text, size_t len, char *ret, size_t size)
{
    auto_buf struct buf plain = {0}, out = {0};

    buf_init(&plain, len + 4);
    buf_init(&out, size - 1);
    for (size_t i = 0; i < len; i++) {
        char c = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];

        (void)buf_add(&plain, &c, 1);
    }
    while (plain.len % 4)
        (void)buf_add(&plain, "=", 1);
    if (base64_decode(&out, plain.data ? plain.data : "", plain.len) < 0 || out.len == 0 ||
        memchr(out.data, '\0', out.len))
        return false;
    memcpy(ret, out.data, out.len + 1);
    return true;
}

bool auth_token_of_protocols(const char *list, char *ret, size_t size)
{
    static const char mark[] = "bearer.";

    while (list && *list) {
        size_t n;

        list += strspn(list, " \t,");
        n = strcspn(list, " \t,");
        if (n > strlen(mark) && str_starts(list, mark))
            return decode_url(list + strlen(mark), n - strlen(mark), ret, size);
        list += n;
    }
    return false;
}

bool auth_is_local_root(const struct auth_request *r)
{
    return !r->is_tcp && r->peer_uid == 0;
}
