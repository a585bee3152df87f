#include "rest/rest.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "functions/function.h"
#include "http/server.h"
#include "rest/auth.h"
#include "rest/ratelimit.h"
#include "rest/rest_internal.h"
#include "rest/route.h"
#include "rest/serve.h"

/* One request, in order: where it comes from (Host, Origin), which row it means, who sends it
 * (token), how often (rate), what it says (input), then the row's function. Nothing has an effect
 * before the last step. */

struct rest *rest_new(const struct rest_config *config, struct engine *engine)
{
    struct rest *rest = xcalloc(1, sizeof(*rest));

    rest->config = config;
    rest->engine = engine;
    rest->about = (struct about){.prefix = config->prefix,
                                 .runtime = config->runtime,
                                 .boundary = config->boundary,
                                 .openapi = functions_openapi(config->prefix)};
    rest->auth = (struct auth_config){
        .token = config->token,
        .hosts = config->hosts,
        .origins = config->origins,
        .own_uid = geteuid(),
        .group = config->socket_group,
    };
    rest->routes = routes_new();
    if (config->rate_enabled)
        rest->rate = ratelimit_new(config->rate_rpm, config->rate_burst);
    return rest;
}

void rest_free(struct rest *rest)
{
    if (!rest)
        return;
    routes_free(rest->routes);
    ratelimit_free(rest->rate);
    json_decref(rest->about.openapi);
    free(rest);
}

/* ---- who ---- */

static struct auth_request who(const struct rest *rest, const struct http_req *req)
{
    return (struct auth_request){
        .is_tcp = http_req_is_tcp(req),
        .in_group = rest->auth.group && !http_req_is_tcp(req) &&
                    auth_peer_is_member(http_req_fd(req), *rest->auth.group),
        .peer_uid = http_req_peer_uid(req),
        .host = http_req_header(req, "Host"),
        .origin = http_req_header(req, "Origin"),
        .authorization = http_req_header(req, "Authorization"),
    };
}

/* With a token, only one that passed the check gets here; without, all share one bucket, or a
 * made-up token would be a way around the limit. */
static int check_rate(const struct rest *rest, struct http_req *req, struct err *err)
{
    unsigned wait;

    if (!rest->rate || !http_req_is_tcp(req))
        return 0;
    wait = ratelimit_take(rest->rate, rest->config->token ? rest->config->token : "", mono_ns());
    if (wait == 0)
        return 0;
    (void)err_code(err, ERR_LIMIT, "rate_limited",
                   "Rate limit exceeded: %u requests a minute, %u at once (CAY_RATE_TOKEN_RPM, "
                   "CAY_RATE_TOKEN_BURST)",
                   rest->config->rate_rpm, rest->config->rate_burst);
    err->retry_s = wait;
    return -1;
}

static bool is_preflight(const struct http_req *req)
{
    return strcmp(http_req_method(req), "OPTIONS") == 0 &&
           http_req_header(req, "Access-Control-Request-Method");
}

/* Headers for a listed origin; a request without one gets none. */
static bool add_cors(const struct rest *rest, struct http_req *req)
{
    const char *origin = http_req_header(req, "Origin");

    if (!auth_origin_listed(&rest->auth, origin))
        return false;
    http_reply_header(req, "Access-Control-Allow-Origin", origin);
    http_reply_header(req, "Access-Control-Expose-Headers", "X-Exec-Id");
    http_reply_header(req, "Vary", "Origin");
    return true;
}

static void answer_preflight(struct http_req *req)
{
    http_reply_header(req, "Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS");
    http_reply_header(req, "Access-Control-Allow-Headers", "Authorization, Content-Type, Accept");
    http_reply_header(req, "Access-Control-Max-Age", "600");
    http_reply(req, 200, "application/json", "{}", 2);
}

/* ---- what ---- */

static void refuse_route(struct http_req *req, enum route_result found, const char *allow)
{
    struct err err = {0};
    char text[160];
    int n;

    if (found == ROUTE_UNKNOWN) {
        (void)err_code(&err, ERR_NOT_FOUND, "route_not_found",
                       "there is no such route; /openapi.json lists them");
        serve_error(req, &err);
        return;
    }
    http_reply_header(req, "Allow", allow);
    n = snprintf(text, sizeof(text),
                 "{\"error\":\"this route takes %s only\",\"code\":\"method_not_allowed\"}", allow);
    http_reply(req, 405, "application/json", text, (size_t)n);
}

/* Until tokens have scopes of their own, whoever may call may do everything. Without a token
 * anybody on this machine, and anything that can make it send requests, may call over TCP; such a
 * caller has proved nothing. */
static struct caller caller_of(const struct rest *rest, const struct auth_request *from)
{
    return (struct caller){
        .face = "rest",
        .scopes = SCOPES_ALL,
        .admin = !from->is_tcp || rest->config->token,
        .local = auth_is_local_root(from),
    };
}

static void handle(struct rest *rest, struct http_req *req)
{
    const char *below = route_below(rest->config->prefix, http_req_path(req));
    enum route_result found = ROUTE_UNKNOWN;
    struct auth_request from = who(rest, req);
    struct caller caller = caller_of(rest, &from);
    struct route_match match = {0};
    struct err err = {0};
    bool open;

    if (auth_check_source(&rest->auth, &from, &err) < 0) {
        serve_error(req, &err);
        return;
    }
    if (add_cors(rest, req) && is_preflight(req)) {
        answer_preflight(req);
        return;
    }
    if (below)
        found = routes_find(rest->routes, http_req_method(req), below, &match);
    open = found == ROUTE_FOUND && (match.function->flags & FUNCTION_OPEN);
    /* Such a caller has proved nothing. */
    if (open && auth_check_token(&rest->auth, &from, NULL) < 0)
        caller = (struct caller){.face = caller.face, .scopes = 1u << SCOPE_NONE};
    if (!open &&
        (auth_check_token(&rest->auth, &from, &err) < 0 || check_rate(rest, req, &err) < 0))
        serve_error(req, &err);
    else if (found != ROUTE_FOUND)
        refuse_route(req, found, match.allow);
    else
        serve_call(rest, req, match.function, below, &caller);
}

static void log_request(const struct http_req *req, int64_t start)
{
    char status[16], micros[32];

    /* 0: it is parked, and answered later. */
    (void)snprintf(status, sizeof(status), "%d", http_req_status(req));
    (void)snprintf(micros, sizeof(micros), "%lld", (long long)(mono_ns() - start) / 1000);
    log_debug("request", "method", http_req_method(req), "path", http_req_path(req), "status",
              status, "us", micros);
}

void rest_handle(struct http_req *req, void *arg)
{
    int64_t start = mono_ns();

    handle(arg, req);
    if (log_shows(LOG_LEVEL_DEBUG))
        log_request(req, start);
}
