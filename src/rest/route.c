#include "rest/route.h"

#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/function.h"
#include "rest/query.h"

/* A path ends as its route does, if that is no parameter: most rows are told by that alone. */
struct row {
    const struct function *function;
    const char *end; /* of the route, with its slash; "" = a parameter */
    size_t end_len;
};

struct routes {
    struct row *rows;
    size_t n;
};

static int add_row(const struct function *f, void *arg)
{
    struct routes *r = arg;
    const char *end = strrchr(f->route, '/');

    if (!end || end[1] == ':')
        end = "";
    r->rows = xrealloc(r->rows, (r->n + 1) * sizeof(*r->rows));
    r->rows[r->n++] = (struct row){f, end, strlen(end)};
    return 0;
}

struct routes *routes_new(void)
{
    struct routes *r = xcalloc(1, sizeof(*r));

    (void)functions_each(add_row, r);
    return r;
}

void routes_free(struct routes *r)
{
    if (!r)
        return;
    free(r->rows);
    free(r);
}

/* A parameter takes any segment that is not empty. */
static bool route_matches(const char *route, const char *path)
{
    for (; *route && *path; route++, path++) {
        if (*route == ':' && route[-1] == '/') {
            size_t len = strcspn(path, "/");

            if (len == 0)
                return false;
            route += strcspn(route, "/");
            path += len;
            if (!*route || !*path)
                break;
        }
        if (*route != *path)
            return false;
    }
    return !*route && !*path;
}

static bool ends_as(const char *path, size_t len, const struct row *row)
{
    return len >= row->end_len && memcmp(path + len - row->end_len, row->end, row->end_len) == 0;
}

/* "/images/:name" and "/images/import" both match "/images/import": fewer parameters win. */
static size_t count_params(const struct function *f)
{
    size_t n = 0;

    for (const char *s = f->route; *s; s++)
        n += *s == ':';
    return n;
}

static bool method_matches(const struct function *f, const char *method)
{
    if (strcmp(method, "HEAD") == 0)
        return strcmp(f->method, "GET") == 0 && f->answer != ANSWER_EVENTS &&
               f->answer != ANSWER_TAR && f->answer != ANSWER_SOCKET;
    return strcmp(f->method, method) == 0;
}

/* Two routes can match one path, so a method can come twice; no method's name is part of another's.
 */
static void allow_method(char *allow, size_t size, const char *method)
{
    size_t len = strlen(allow);

    if (strstr(allow, method))
        return;
    (void)snprintf(allow + len, size - len, "%s%s", len ? ", " : "", method);
}

/* Which methods the path takes, when it takes not this one. */
static void list_methods(const struct routes *r, const char *path, char *allow, size_t size)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct function *f = r->rows[i].function;

        if (!route_matches(f->route, path))
            continue;
        allow_method(allow, size, f->method);
        if (method_matches(f, "HEAD"))
            allow_method(allow, size, "HEAD");
    }
}

enum route_result routes_find(const struct routes *r, const char *method, const char *path,
                              struct route_match *ret)
{
    size_t len = strlen(path);

    *ret = (struct route_match){0};
    for (size_t i = 0; i < r->n; i++) {
        const struct row *row = &r->rows[i];
        const struct function *f = row->function;

        if (!ends_as(path, len, row) || !method_matches(f, method) ||
            !route_matches(f->route, path))
            continue;
        if (!ret->function || count_params(f) < count_params(ret->function))
            ret->function = f;
    }
    if (ret->function)
        return ROUTE_FOUND;
    list_methods(r, path, ret->allow, sizeof(ret->allow));
    return ret->allow[0] ? ROUTE_WRONG_METHOD : ROUTE_UNKNOWN;
}

static int add_param(json_t *params, const char *name, size_t name_len, const char *value,
                     size_t len, struct err *err)
{
    auto_free char *key = xstrndup(name, name_len);
    auto_free char *text = query_decode(value, len, false);

    if (!text || len > 1024)
        return err_set(err, ERR_INVALID,
                       "%s in the path must be UTF-8 of at most 1024 bytes, percent-encoded", key);
    (void)json_object_set_new(params, key, json_string(text));
    return 0;
}

json_t *route_params(const struct function *f, const char *path, struct err *err)
{
    json_t *params = json_object();
    const char *route = f->route;

    while (*route == '/' && *path == '/') {
        size_t route_len = strcspn(++route, "/");
        size_t path_len = strcspn(++path, "/");

        if (*route == ':' && add_param(params, route + 1, route_len - 1, path, path_len, err) < 0) {
            json_decref(params);
            return NULL;
        }
        route += route_len;
        path += path_len;
    }
    return params;
}

const char *route_below(const char *prefix, const char *path)
{
    size_t len = strlen(prefix);

    if (strcmp(path, "/openapi.json") == 0 || strncmp(path, "/ws/", 4) == 0)
        return path;
    if (len == 0)
        return path;
    if (strcmp(path, "/metrics") == 0) /* where Prometheus looks */
        return "/metrics/prometheus";
    if (path[0] != '/' || strncmp(path + 1, prefix, len) != 0 || path[1 + len] != '/')
        return NULL;
    return path + 1 + len;
}
