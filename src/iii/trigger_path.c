#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "iii/trigger_internal.h"

/* Bindings of functions to paths of HTTP: what they say, and which of them a request is for.
 * trigger_http.c answers it. */

#define MIDDLEWARES 16

static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"};

static int read_method(const char *text, char **ret, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (strcasecmp(methods[i], text) == 0) {
            *ret = xstrdup(methods[i]);
            return 0;
        }
    return err_set(err, ERR_INVALID, "http_method: GET, POST, PUT, DELETE, PATCH, HEAD or OPTIONS");
}

static bool is_below(const char *path, const char *top)
{
    size_t len = strlen(top);

    return len > 0 && strncmp(path, top, len) == 0 && (path[len] == '/' || !path[len]);
}

/* Of these a request never comes here, since the daemon's own routes are looked at first. A
 * parameter in their place is no matter: it takes what is left. */
static int check_free(const struct iii_triggers *t, const char *path, struct err *err)
{
    static const char *const own[] = {"mcp",         "docs", "openapi.json", "health",
                                      "ws/channels", "otel", "proxy"};
    const struct about *about = t->hub->config.about;
    bool taken = about && about->prefix && is_below(path, about->prefix);

    for (size_t i = 0; i < ARRAY_LEN(own) && !taken; i++)
        taken = is_below(path, own[i]);
    if (!taken)
        return 0;
    return err_code(err, ERR_CONFLICT, "path_reserved",
                    "api_path: /%.100s is the daemon's own, a request for it would never get here",
                    path);
}

static int read_middleware(const json_t *config, char ***ret, struct err *err)
{
    const json_t *list = json_object_get(config, "middleware_function_ids");
    json_t *id;
    size_t i;

    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list) || json_array_size(list) > MIDDLEWARES)
        return err_set(err, ERR_INVALID, "middleware_function_ids: a list of at most %d ids",
                       MIDDLEWARES);
    json_array_foreach(list, i, id)
    {
        if (!json_is_string(id) || !*json_string_value(id) || json_string_length(id) > III_NAME_MAX)
            return err_set(err, ERR_INVALID, "middleware_function_ids: ids of functions");
        *ret = strv_add(*ret, json_string_value(id));
    }
    return 0;
}

static int http_bind(struct iii_triggers *t, struct bound *b, const json_t *config, struct err *err)
{
    const char *path, *method;

    if (config_text(config, "api_path", &path, err) < 0 ||
        (!path && config_text(config, "path", &path, err) < 0) ||
        config_text(config, "http_method", &method, err) < 0 ||
        (!method && config_text(config, "method", &method, err) < 0))
        return -1;
    if (!path)
        return err_set(err, ERR_INVALID, "api_path is required for http triggers");
    b->shown = xstrdup(path);
    b->path = xstrdup(path + (*path == '/'));
    if (read_method(method ? method : "GET", &b->method, err) < 0 ||
        route_check(b->path, err) < 0 || check_free(t, b->path, err) < 0)
        return -1;
    return read_middleware(config, &b->middleware, err);
}

static bool is_route(const struct bound *b)
{
    return b->path;
}

static int http_enter(struct iii_triggers *t, struct bound *b, const struct bound *old,
                      struct err *err)
{
    for (struct bound *o = t->all, *next; o; o = next) {
        next = o->next;
        if (o == old || !is_route(o) || strcmp(o->method, b->method) != 0 ||
            !route_is_same(o->path, b->path))
            continue;
        /* What one with a session has gives way to one without, as functions do. */
        if (bound_lives(t, o) && (!o->speaker->session || b->speaker->session))
            return err_code(err, ERR_CONFLICT, "path_taken",
                            "%s /%.60s is bound already: to the function %.60s of the worker %s",
                            b->method, o->path, o->function_id,
                            o->asker->worker_id[0] ? o->asker->worker_id : o->asker->caller.name);
        bound_remove(t, o);
    }
    return 0;
}

static void http_leave(struct iii_triggers *t, struct bound *b)
{
    (void)t;
    (void)b;
}

/* ---- types ---- */

#define CONFIG                                                                                     \
    "{\"type\": \"object\", \"required\": [\"api_path\"], \"properties\": {\"api_path\": "         \
    "{\"type\": \"string\", \"description\": \"as in /users/:id\"}, \"http_method\": {\"type\": "  \
    "\"string\", \"default\": \"GET\"}, \"condition_function_id\": {\"type\": \"string\"}, "       \
    "\"middleware_function_ids\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}}}"
#define PAYLOAD                                                                                    \
    "{\"type\": \"object\", \"properties\": {\"path\": {\"type\": \"string\"}, \"method\": "       \
    "{\"type\": \"string\"}, \"path_params\": {\"type\": \"object\"}, \"query_params\": "          \
    "{\"type\": \"object\"}, \"headers\": {\"type\": \"object\"}, \"body\": {}, \"trigger\": "     \
    "{\"type\": \"object\"}, \"request_body\": {\"type\": \"object\", \"description\": \"the "     \
    "reader "                                                                                      \
    "of a channel\"}, \"response\": {\"type\": \"object\", \"description\": \"the writer of "      \
    "one\"}}}"

const struct trigger_kind http_trigger = {
    "http",     "Calls a function for a request of HTTP, which it answers",
    CONFIG,     PAYLOAD,
    http_bind,  http_enter,
    http_leave,
};

/* As SDKs before 0.9 have it. */
const struct trigger_kind api_trigger = {
    "api", "The same as http", CONFIG, PAYLOAD, http_bind, http_enter, http_leave,
};

/* ---- requests ---- */

struct bound *trigger_path_find(struct iii_triggers *t, const char *method, const char *path,
                                struct buf *ret_allow)
{
    struct bound *found = NULL;

    triggers_lock(t);
    for (struct bound *b = t->all; b; b = b->next) {
        if (!is_route(b) || !route_matches(b->path, path, NULL) || !bound_lives(t, b))
            continue;
        if (strcmp(b->method, method) != 0)
            (void)buf_addf(ret_allow, "%s%s", ret_allow->len ? ", " : "", b->method);
        else if (!found || route_is_closer(b->path, found->path))
            found = b;
    }
    if (found)
        (void)bound_ref(found);
    triggers_unlock(t);
    return found;
}
