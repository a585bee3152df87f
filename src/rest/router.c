#include "rest/rest.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "functions/audited.h"
#include "functions/function.h"
#include "http/server.h"
#include "rest/auth.h"
#include "rest/proxy.h"
#include "rest/reference.h"
#include "rest/rest_internal.h"
#include "rest/route.h"
#include "rest/serve.h"

/* One request, in order: where it comes from (Host, Origin), which row it means, who sends it
 * (token), how often (rate), what it says (input), then the row's function. Nothing has an effect
 * before the last step. */

struct rest *rest_new(const struct rest_config *config, struct engine *engine,
                      struct services *services)
{
    struct rest *rest = xcalloc(1, sizeof(*rest));

    rest->config = config;
    rest->engine = engine;
    rest->services = services;
    rest->about = (struct about){.prefix = config->prefix,
                                 .runtime = config->runtime,
                                 .boundary = config->boundary,
                                 .iii = config->iii,
                                 .open = config->port && !config->token && !config->require_token,
                                 .openapi = functions_openapi(config->prefix)};
    rest->auth = (struct auth_config){
        .token = config->token,
        .require_token = config->require_token,
        .hosts = config->hosts,
        .origins = config->origins,
        .own_uid = geteuid(),
        .group = config->socket_group,
    };
    pthread_mutex_init(&rest->reference_lock, NULL);
    rest->routes = routes_new();
    proxy_open(rest);
    if (config->rate_enabled)
        rest->rates = rates_new(&config->rates);
    return rest;
}

const struct about *rest_about(const struct rest *rest)
{
    return &rest->about;
}

void rest_free(struct rest *rest)
{
    if (!rest)
        return;
    proxy_close(rest);
    routes_free(rest->routes);
    rates_free(rest->rates);
    json_decref(rest->about.openapi);
    buf_done(&rest->reference);
    pthread_mutex_destroy(&rest->reference_lock);
    free(rest);
}

/* ---- who ---- */

/* Who has not proved who it is shares a bucket, or a made-up token would be a way around it. */
static int check_rate(const struct rest *rest, struct http_req *req, const struct caller *caller,
                      struct rate_state *ret, struct err *err)
{
    if (!rest->rates || !http_req_is_tcp(req))
        return 0;
    if (rates_take_caller(rest->rates, caller->name, mono_ns(), ret, err) == 0)
        return 0;
    serve_rate(req, ret);
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
    http_reply_header(
        req, "Access-Control-Expose-Headers",
        "X-Exec-Id, Idempotent-Replayed, Mcp-Session-Id, Retry-After, RateLimit-Limit, "
        "RateLimit-Remaining, RateLimit-Reset, RateLimit-Policy");
    http_reply_header(req, "Vary", "Origin");
    return true;
}

static void answer_preflight(struct http_req *req)
{
    http_reply_header(req, "Access-Control-Allow-Methods",
                      "GET, POST, PUT, PATCH, DELETE, OPTIONS");
    http_reply_header(req, "Access-Control-Allow-Headers",
                      "Authorization, Content-Type, Accept, Idempotency-Key, Last-Event-ID, "
                      "traceparent, tracestate, *"); /* which does not have Authorization in it */
    http_reply_header(req, "Access-Control-Max-Age", "600");
    http_reply(req, 200, "application/json", "{}", 2);
}

/* ---- what ---- */

static void refuse_route(const struct rest *rest, struct http_req *req, enum route_result found,
                         const char *allow)
{
    struct err err = {0};
    char text[160];
    int n;

    if (found == ROUTE_UNKNOWN) {
        (void)err_code(&err, ERR_NOT_FOUND, "route_not_found",
                       "there is no such route; /docs and /openapi.json list them");
        function_refused(rest->services, &err);
        serve_error(req, &err);
        return;
    }
    http_reply_header(req, "Allow", allow);
    n = snprintf(text, sizeof(text),
                 "{\"error\":\"this route takes %s only\",\"code\":\"method_not_allowed\"}", allow);
    http_reply(req, 405, "application/json", text, (size_t)n);
}

static void refuse(const struct rest *rest, struct http_req *req, const struct caller *caller,
                   const char *function, const struct err *err)
{
    function_refused(rest->services, err);
    audited_refusal(rest->services, caller, function, err);
    serve_error(req, err);
}

static bool is_below(const struct rest_mount *m, const char *path)
{
    size_t len = strlen(m->path);

    if (len > 1 && m->path[len - 1] == '/')
        return strncmp(path, m->path, len) == 0;
    return strcmp(path, m->path) == 0;
}

static bool enter_mount(struct rest *rest, struct http_req *req, const struct auth_request *from,
                        const struct rest_mount *m)
{
    struct caller caller = {.face = m->face, .keeps = rest_says_client(req)};
    struct rate_state rate = {0};
    struct err err = {0};

    (void)snprintf(caller.from, sizeof(caller.from), "%s", from->address);
    if (!m->open && (rest_identify(rest, from, &caller, &err) < 0 ||
                     check_rate(rest, req, &caller, &rate, &err) < 0)) {
        refuse(rest, req, &caller, "unknown", &err);
        return true;
    }
    return m->handle(req, &caller, rate.limit > 0 ? rest->rates : NULL, &rate, m->arg);
}

/* Passes the request to the other face that is mounted at its path. False: there is none. */
static bool handle_mount(struct rest *rest, struct http_req *req, const struct auth_request *from)
{
    for (const struct rest_mount *m = rest->config->mounts; m->path; m++)
        if (is_below(m, http_req_path(req)) &&
            (!m->socket || http_upgrade_asked(req, "websocket")) && enter_mount(rest, req, from, m))
            return true;
    return false;
}

static void handle(struct rest *rest, struct http_req *req)
{
    const char *below = route_below(rest->config->prefix, http_req_path(req));
    enum route_result found = ROUTE_UNKNOWN;
    char token[REST_TOKEN_SIZE]; /* of a web page's WebSocket */
    struct auth_request from = rest_from(rest, req, token);
    struct caller caller = {.face = "rest", .keeps = rest_says_client(req)};
    struct rate_state rate = {0};
    struct route_match match = {0};
    struct err err = {0};
    bool open;

    (void)snprintf(caller.from, sizeof(caller.from), "%s", from.address);
    if (proxy_handle(rest, req, &from))
        return;
    if (auth_check_source(&rest->auth, &from, &err) < 0) {
        refuse(rest, req, &caller, "unknown", &err);
        return;
    }
    if (add_cors(rest, req) && is_preflight(req)) {
        answer_preflight(req);
        return;
    }
    if (reference_handle(rest, req) || handle_mount(rest, req, &from))
        return;
    if (below)
        found = routes_find(rest->routes, http_req_method(req), below, &match);
    open = found == ROUTE_FOUND && (match.function->flags & FUNCTION_OPEN);
    if (open)
        rest_identify_or_nobody(rest, &from, &caller);
    if (!open && (rest_identify(rest, &from, &caller, &err) < 0 ||
                  check_rate(rest, req, &caller, &rate, &err) < 0))
        refuse(rest, req, &caller, match.function ? match.function->id : "unknown", &err);
    else if (found != ROUTE_FOUND)
        refuse_route(rest, req, found, match.allow);
    else
        serve_call(rest, req, match.function, below, &caller, &rate);
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
