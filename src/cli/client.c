#include "cli/client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/args.h"
#include "cli/ui.h"
#include "model/sandbox.h"

#define ANSWER_MAX (64u << 20)
#define ERROR_MAX  (64u << 10)
#define PAGE       200
#define LIST_MAX   100000

/* A process talks to one daemon, one call at a time: what went wrong last is the process's. */
static char last_code[64];
static char *last_output;
static bool no_daemon;

const char *api_last_output(void)
{
    return last_output ? last_output : "";
}

const char *api_last_code(void)
{
    return last_code;
}

bool api_no_daemon(void)
{
    return no_daemon;
}

static const char *env_text(const char *name)
{
    const char *v = getenv(name);

    return v && *v ? v : NULL;
}

/* "host:port", "http://host:port/", "unix:/path" and "/path" in the form that http_client_new
 * takes. */
static int normal_target(const char *host, char **ret, struct err *err)
{
    const char *rest;
    size_t len;

    if (str_starts(host, "unix:"))
        host += strlen("unix:");
    if (host[0] == '/') {
        *ret = xasprintf("unix:%s", host);
        return 0;
    }
    if (str_starts(host, "https://"))
        return err_set(err, ERR_INVALID,
                       "the daemon does not speak https (\"%s\"): use http://host:port on this "
                       "machine or through a tunnel",
                       host);
    rest = str_starts(host, "http://") ? host + strlen("http://") : host;
    len = strlen(rest);
    while (len > 0 && rest[len - 1] == '/')
        len--;
    if (len == 0 || strcspn(rest, "/?#@ ") < len)
        return err_set(err, ERR_INVALID,
                       "\"%s\" is no address of a daemon: use unix:/path or http://host:port",
                       host);
    if (memchr(rest, ':', len))
        *ret = xasprintf("http://%.*s", (int)len, rest);
    else
        *ret = xasprintf("http://%.*s:%s", (int)len, rest, rest == host ? "3111" : "80");
    return 0;
}

int api_address(const char *host, char **ret, bool *ret_chosen, struct err *err)
{
    const char *run = env_text("CAY_RUN"), *port = env_text("CAY_REST_PORT");
    auto_free char *path = NULL;
    auto_close int fd = -1;
    uint64_t number = 3111;

    if (!host)
        host = env_text("CAY_HOST");
    if (!host)
        host = env_text("III_SANDBOX_URL");
    *ret_chosen = host != NULL;
    if (host)
        return normal_target(host, ret, err);
    path = xasprintf("%s/cay.sock", run ? run : "/run/cay");
    fd = unix_connect(path);
    if (fd >= 0) {
        *ret = xasprintf("unix:%s", path);
        return 0;
    }
    if (port && (str_u64(port, &number) < 0 || number > 65535))
        return err_set(err, ERR_INVALID, "CAY_REST_PORT is \"%s\", not a port number", port);
    if (number == 0) { /* a free one, of a daemon that is at the socket too */
        *ret = xasprintf("unix:%s", path);
        return 0;
    }
    *ret = xasprintf("http://127.0.0.1:%u", (unsigned)number);
    return 0;
}

static const char *token(void)
{
    static const char *const names[] = {"CAY_TOKEN", "CAY_AUTH_TOKEN", "III_SANDBOX_TOKEN"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *v = env_text(names[i]);

        if (v)
            return v;
    }
    return NULL;
}

void api_open_target(struct api *api, const char *target)
{
    api->target = xstrdup(target);
    api->http = http_client_new(target, token());
}

int api_open(struct api *api, const struct args *args, struct err *err)
{
    auto_free char *target = NULL;
    bool chosen;

    if (api_address(args_text(args, "host"), &target, &chosen, err) < 0)
        return -1;
    api_open_target(api, target);
    return 0;
}

void api_close(struct api *api)
{
    http_client_free(api->http);
    free(api->target);
    *api = (struct api){0};
}

int api_explain(struct api *api, struct err *err)
{
    last_code[0] = '\0';
    if (err->kind != ERR_UNAVAILABLE || err->sys == 0)
        return -1; /* it answered, or began to */
    no_daemon = true;
    if (err->sys == EACCES || err->sys == EPERM)
        return err_set(
            err, ERR_UNAVAILABLE,
            "%s may not be used by this user: run cay as root or as a member of its group "
            "(the daemon's CAY_SOCKET_GROUP), or set CAY_HOST",
            api->target);
    return err_set(err, ERR_UNAVAILABLE, "no daemon is running at %s: start one with `cay serve`",
                   api->target);
}

static enum err_kind kind_of_status(int status)
{
    switch (status) {
    case 400:
        return ERR_INVALID;
    case 401:
        return ERR_UNAUTHORIZED;
    case 403:
        return ERR_FORBIDDEN;
    case 404:
        return ERR_NOT_FOUND;
    case 408:
        return ERR_TIMEOUT;
    case 409:
        return ERR_CONFLICT;
    case 413:
        return ERR_TOO_LARGE;
    case 429:
        return ERR_LIMIT;
    case 501:
        return ERR_UNSUPPORTED;
    case 503:
        return ERR_UNAVAILABLE;
    default:
        return ERR_INTERNAL;
    }
}

int api_refuse(const struct api *api, const json_t *body, int status, struct err *err)
{
    enum err_kind kind = kind_of_status(status);

    (void)snprintf(last_code, sizeof(last_code), "%s", json_text(body, "code"));
    free(last_output);
    last_output = xstrdup(json_text(body, "output"));
    if (*json_text(body, "error"))
        (void)err_set(err, kind, "%s", json_text(body, "error"));
    else
        (void)err_set(err, kind,
                      "the daemon at %s answered with status %d and no reason: is it cay?",
                      api->target, status);
    if (status == 401)
        (void)err_wrap(err, "set CAY_TOKEN to the daemon's token");
    return -1;
}

int api_check(struct api *api, const struct http_response *response, struct err *err)
{
    auto_free char *text = NULL;
    size_t len = 0;
    json_t *body = NULL;
    struct err ignored = {0};

    no_daemon = false;
    last_code[0] = '\0';
    if (response->status >= 200 && response->status < 300)
        return 0;
    if (http_client_body(api->http, ERROR_MAX, &text, &len, &ignored) == 0)
        body = json_loadb(text, len, JSON_DECODE_ANY, NULL);
    (void)api_refuse(api, body, response->status, err);
    json_decref(body);
    return -1;
}

int api_json(struct api *api, json_t **ret, struct err *err)
{
    auto_free char *text = NULL;
    size_t len = 0;

    if (http_client_body(api->http, ANSWER_MAX, &text, &len, err) < 0)
        return err_wrap(err, "answer of %s", api->target);
    if (!ret)
        return 0;
    *ret = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!*ret)
        return err_set(err, ERR_INTERNAL, "the answer of %s is not JSON: is it a cay daemon?",
                       api->target);
    return 0;
}

int api_call(struct api *api, const char *method, json_t *body, json_t **ret, struct err *err,
             const char *path, ...)
{
    auto_free char *full = NULL;
    auto_free char *part = NULL;
    auto_free char *sent = body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct http_response response;
    va_list ap;

    json_decref(body);
    va_start(ap, path);
    if (vasprintf(&part, path, ap) < 0)
        abort();
    va_end(ap);
    full = xasprintf("/sandbox%s", part);
    if (http_client_send(api->http, method, full, sent ? "application/json" : NULL, sent,
                         sent ? strlen(sent) : 0, &response, err) < 0)
        return api_explain(api, err);
    if (api_check(api, &response, err) < 0)
        return -1;
    return api_json(api, ret, err);
}

/* One page; *cursor is where it begins (0 = at the newest), then where the next one does (0 = there
 * is none). */
static int add_page(struct api *api, const char *filter, int64_t *cursor, json_t *all,
                    int64_t *ret_total, struct err *err)
{
    auto_free char *from = *cursor ? xasprintf("&cursor=%lld", (long long)*cursor) : xstrdup("");
    json_t *answer = NULL;

    if (api_call(api, "GET", NULL, &answer, err, "/sandboxes?pageSize=%d%s%s%s", PAGE, from,
                 filter ? "&status=" : "", filter ? filter : "") < 0)
        return -1;
    (void)json_array_extend(all, json_object_get(answer, "items"));
    *ret_total = json_int(answer, "total");
    *cursor = json_int(answer, "nextCursor");
    json_decref(answer);
    return 0;
}

int api_sandboxes(struct api *api, const char *status, size_t at_most, json_t **ret,
                  int64_t *ret_total, struct err *err)
{
    auto_free char *filter = status ? url_encoded(status) : NULL;
    json_t *all = json_array();
    int64_t cursor = 0;

    if (at_most == 0 || at_most > LIST_MAX)
        at_most = LIST_MAX;
    do {
        if (add_page(api, filter, &cursor, all, ret_total, err) < 0) {
            json_decref(all);
            return -1;
        }
    } while (cursor && json_array_size(all) < at_most);
    while (json_array_size(all) > at_most)
        (void)json_array_remove(all, json_array_size(all) - 1);
    *ret = all;
    return 0;
}

static int search_beginning(json_t *all, const char *word, char **ret, struct err *err)
{
    const char *found = NULL;
    size_t i, matches = 0;
    json_t *item;

    json_array_foreach(all, i, item)
    {
        const char *id = json_text(item, "id");

        if (!id_valid(id, "sbx") || !str_starts(id, word))
            continue;
        matches++;
        found = id;
    }
    if (matches == 0)
        return err_set(err, ERR_NOT_FOUND, "no sandbox has the id \"%.80s\": see `cay ls --all`",
                       word);
    if (matches > 1)
        return err_set(err, ERR_INVALID, "%zu sandboxes fit \"%.80s\": give a whole id", matches,
                       word);
    *ret = xstrdup(found);
    return 0;
}

static int id_of_beginning(struct api *api, const char *word, char **ret, struct err *err)
{
    json_t *all = NULL;
    int64_t total;
    int r;

    if (api_sandboxes(api, NULL, 0, &all, &total, err) < 0)
        return -1;
    r = search_beginning(all, word, ret, err);
    json_decref(all);
    return r;
}

/* The daemon knows names; with the id, all calls of a command are about one sandbox. */
static int id_of_name(struct api *api, const char *word, char **ret, struct err *err)
{
    auto_free char *encoded = url_encoded(word);
    auto_free char *id = NULL;
    json_t *sandbox = NULL;

    if (api_call(api, "GET", NULL, &sandbox, err, "/sandboxes/%s", encoded) < 0) {
        if (strcmp(last_code, "sandbox_not_found") == 0)
            return err_set(err, ERR_NOT_FOUND,
                           "no sandbox has the id or name \"%.80s\": see `cay ls --all`", word);
        return -1;
    }
    id = xstrdup(json_text(sandbox, "id"));
    json_decref(sandbox);
    if (!id_valid(id, "sbx"))
        return err_set(err, ERR_INTERNAL,
                       "%s gave a sandbox without a valid id: is it a cay daemon?", api->target);
    *ret = steal_ptr(id);
    return 0;
}

int api_sandbox_id(struct api *api, const char *word, char **ret, struct err *err)
{
    if (id_valid(word, "sbx")) {
        *ret = xstrdup(word);
        return 0;
    }
    if (!*word || !utf8_valid(word, strlen(word)))
        return err_set(err, ERR_INVALID,
                       "an id or name of a sandbox cannot be empty or bytes that "
                       "are not text");
    if (sandbox_name_is_like_id(word))
        return id_of_beginning(api, word, ret, err);
    return id_of_name(api, word, ret, err);
}

void url_encode(struct buf *out, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            strchr("-._~", c))
            (void)buf_add(out, s, 1);
        else
            (void)buf_addf(out, "%%%02X", c);
    }
}

char *url_encoded(const char *s)
{
    struct buf out;

    buf_init(&out, 3 * strlen(s) + 1);
    url_encode(&out, s);
    return buf_steal(&out);
}
