#include "rest/rest.h"

#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>

#include "functions/functions_internal.h"
#include "rest/auth.h"
#include "rest/errors.h"
#include "functions/function.h"
#include "functions/input.h"
#include "rest/ratelimit.h"
#include "rest/route.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/server.h"

/* One request, in order: where it comes from (Host, Origin), which row it means, who sends it
 * (token), how often (rate), what it says (input), then the row's function. Nothing has an effect
 * before the last step. */

#define BODY_MAX (1u << 20)

struct rest {
    const struct rest_config *config;
    struct engine *engine;
    struct auth_config auth;
    struct routes *routes;
    struct ratelimit *rate; /* NULL = off */
    int drain_fd;
};

struct rest *rest_new(const struct rest_config *config, struct engine *engine)
{
    struct rest *rest = xcalloc(1, sizeof(*rest));

    rest->config = config;
    rest->engine = engine;
    rest->auth = (struct auth_config){
        .token = config->token,
        .hosts = config->hosts,
        .origins = config->origins,
        .own_uid = geteuid(),
    };
    rest->routes = routes_new();
    rest->drain_fd = eventfd(0, EFD_CLOEXEC);
    if (rest->drain_fd < 0)
        abort();
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
    close_fd(&rest->drain_fd);
    free(rest);
}

const struct rest_config *rest_config(const struct rest *rest)
{
    return rest->config;
}

void rest_drain(struct rest *rest)
{
    (void)eventfd_write(rest->drain_fd, 1);
}

int rest_drain_fd(const struct rest *rest)
{
    return rest->drain_fd;
}

/* ---- answers ---- */

static int send_json(struct http_req *req, int status, json_t *body)
{
    auto_free char *text = json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY);

    json_decref(body);
    if (!text)
        abort();
    http_reply(req, status, "application/json", text, strlen(text));
    return status;
}

json_t *api_error(struct http_req *req, const struct err *err)
{
    int status = error_status(err->kind);
    char id[ID_SIZE] = "";

    if (status >= 500) {
        id_new(id, "req");
        log_event(status == 500 ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN, "request failed", "request", id,
                  "method", http_req_method(req), "path", http_req_path(req), "error", err->text,
                  (char *)0);
    }
    return error_body(err, id);
}

static int send_error(struct http_req *req, const struct err *err)
{
    int status = error_status(err->kind);

    if (status == 401)
        http_reply_header(req, "WWW-Authenticate", "Bearer");
    return send_json(req, status, api_error(req, err));
}

/* ---- who ---- */

static struct auth_request who(const struct http_req *req)
{
    return (struct auth_request){
        .is_tcp = http_req_is_tcp(req),
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
    char text[16];

    if (!rest->rate || !http_req_is_tcp(req))
        return 0;
    wait = ratelimit_take(rest->rate, rest->config->token ? rest->config->token : "", mono_ns());
    if (wait == 0)
        return 0;
    (void)snprintf(text, sizeof(text), "%u", wait);
    http_reply_header(req, "Retry-After", text);
    return err_code(err, ERR_LIMIT, "rate_limited", "Rate limit exceeded");
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
    http_reply_header(req, "Vary", "Origin");
    return true;
}

static int answer_preflight(struct http_req *req)
{
    http_reply_header(req, "Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS");
    http_reply_header(req, "Access-Control-Allow-Headers", "Authorization, Content-Type, Accept");
    http_reply_header(req, "Access-Control-Max-Age", "600");
    return send_json(req, 200, json_object());
}

/* ---- what ---- */

static bool media_type_is(const char *header, const char *type)
{
    size_t len = strlen(type);

    return strncasecmp(header, type, len) == 0 && strchr(";, \t", header[len]);
}

static int add_body(struct call *call, const struct function *f, struct err *err)
{
    const char *type = http_req_header(call->req, "Content-Type"), *text;
    size_t len;

    if (type && (f->flags & FUNCTION_RAW_IN) && media_type_is(type, "application/octet-stream")) {
        call->raw_in = true;
        return 0;
    }
    if (http_req_body(call->req, f->body_max ? f->body_max : BODY_MAX, &text, &len, err) < 0)
        return -1;
    /* A web page can send other types without asking first; JSON it cannot. */
    if (len > 0 && type && !media_type_is(type, "application/json"))
        return err_code(err, ERR_INVALID, "bad_content_type",
                        "the body must be sent with Content-Type: application/json");
    return input_add_body(call->in, text, len, err);
}

static int read_input(struct call *call, const struct function *f, const char *path,
                      struct err *err)
{
    const char *accept = http_req_header(call->req, "Accept");
    json_t *params;
    int r;

    call->raw_out = (f->flags & FUNCTION_RAW_OUT) && accept &&
                    media_type_is(accept, "application/octet-stream");
    call->events =
        (f->flags & FUNCTION_EVENTS) && accept && media_type_is(accept, "text/event-stream");
    if (input_add_query(call->in, http_req_query(call->req), f->fields, err) < 0 ||
        add_body(call, f, err) < 0)
        return -1;
    params = route_params(f, path, err);
    if (!params)
        return -1;
    r = input_check(call->in, f->fields, params, err);
    json_decref(params);
    return r;
}

static int run_function(const struct rest *rest, struct http_req *req, const struct function *f,
                        const char *path)
{
    /* Without a token anybody on this machine, and anything that can make it send requests, may
     * call over TCP. */
    struct call call = {.engine = rest->engine,
                        .rest = rest,
                        .in = json_object(),
                        .req = req,
                        .admin = !http_req_is_tcp(req) || rest->config->token};
    struct err err = {0};
    int status = 200;

    if (read_input(&call, f, path, &err) < 0 || f->run(&call, &err) < 0)
        status = send_error(req, &err);
    else if (call.out)
        status = send_json(req, 200, call.out);
    json_decref(call.in);
    return status;
}

static int refuse_route(struct http_req *req, enum route_result found, const char *allow)
{
    struct err err = {0};

    if (found == ROUTE_UNKNOWN) {
        (void)err_code(&err, ERR_NOT_FOUND, "route_not_found",
                       "there is no such route; /openapi.json lists them");
        return send_error(req, &err);
    }
    http_reply_header(req, "Allow", allow);
    return send_json(req, 405,
                     json_pack("{s:o, s:s}", "error",
                               json_sprintf("this route takes %s only", allow), "code",
                               "method_not_allowed"));
}

static int handle(const struct rest *rest, struct http_req *req)
{
    const char *below = route_below(rest->config->prefix, http_req_path(req));
    enum route_result found = ROUTE_UNKNOWN;
    struct auth_request from = who(req);
    struct route_match match = {0};
    struct err err = {0};
    bool open;

    if (auth_check_source(&rest->auth, &from, &err) < 0)
        return send_error(req, &err);
    if (add_cors(rest, req) && is_preflight(req))
        return answer_preflight(req);
    if (below)
        found = routes_find(rest->routes, http_req_method(req), below, &match);
    open = found == ROUTE_FOUND && (match.function->flags & FUNCTION_OPEN);
    if (!open && (auth_check_token(&rest->auth, &from, &err) < 0 || check_rate(rest, req, &err) < 0))
        return send_error(req, &err);
    if (found != ROUTE_FOUND)
        return refuse_route(req, found, match.allow);
    if ((match.function->flags & FUNCTION_LOCAL) && auth_check_local(&from, &err) < 0)
        return send_error(req, &err);
    return run_function(rest, req, match.function, below);
}

void rest_handle(struct http_req *req, void *arg)
{
    int64_t start = mono_ns();
    int status = handle(arg, req);
    char status_text[16], micros[32];

    (void)snprintf(status_text, sizeof(status_text), "%d", status);
    (void)snprintf(micros, sizeof(micros), "%lld", (long long)(mono_ns() - start) / 1000);
    log_debug("request", "method", http_req_method(req), "path", http_req_path(req), "status",
              status_text, "us", micros);
}
