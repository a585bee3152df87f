#include "libcay/api.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#define ANSWER_MAX (64u << 20)
#define ERROR_MAX  (64u << 10)

void api_init(struct api *api, const char *target, const char *token, const char *name,
              struct api_failure *failure)
{
    api->target = xstrdup(target);
    api->http = http_client_new(target, token);
    http_client_name(api->http, name);
    api->failure = failure;
}

void api_close(struct api *api)
{
    http_client_free(api->http);
    free(api->target);
    *api = (struct api){0};
}

void api_failure_clear(struct api_failure *failure)
{
    free(failure->output);
    *failure = (struct api_failure){0};
}

/* Of this process or machine: it says nothing about the daemon. */
static bool is_own_lack(int sys)
{
    return sys == EMFILE || sys == ENFILE || sys == ENOBUFS || sys == ENOMEM;
}

int api_explain(struct api *api, struct err *err)
{
    api_failure_clear(api->failure);
    if (err->kind != ERR_UNAVAILABLE || err->sys == 0)
        return -1; /* it answered, or began to */
    if (is_own_lack(err->sys))
        return err_sys(err, err->sys, "connect to %s", api->target);
    api->failure->no_daemon = true;
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
    for (enum err_kind kind = ERR_INVALID; kind < ERR_KINDS; kind++)
        if (err_kind_status(kind) == status)
            return kind;
    return ERR_INTERNAL;
}

int api_refuse(const struct api *api, const json_t *body, int status, struct err *err)
{
    enum err_kind kind = kind_of_status(status);
    struct api_failure *f = api->failure;

    (void)snprintf(f->code, sizeof(f->code), "%s", json_text(body, "code"));
    (void)snprintf(f->message, sizeof(f->message), "%s", json_text(body, "error"));
    f->status = status;
    free(f->output);
    f->output = xstrdup(json_text(body, "output"));
    if (*json_text(body, "error"))
        (void)err_set(err, kind, "%s", json_text(body, "error"));
    else
        (void)err_set(err, kind,
                      "the daemon at %s answered with status %d and no reason: is it cay?",
                      api->target, status);
    if (status == 401 || strcmp(f->code, "invalid_token") == 0)
        (void)err_wrap(err, "set CAY_TOKEN to the daemon's token");
    return -1;
}

int api_check(struct api *api, const struct http_response *response, struct err *err)
{
    auto_free char *text = NULL;
    size_t len = 0;
    json_t *body = NULL;
    struct err ignored = {0};

    api_failure_clear(api->failure);
    if (response->status >= 200 && response->status < 300)
        return 0;
    if (http_client_body(api->http, ERROR_MAX, &text, &len, &ignored) == 0)
        body = json_loadb(text, len, JSON_DECODE_ANY, NULL);
    (void)api_refuse(api, body, response->status, err);
    api->failure->retry_s = response->retry_s;
    json_decref(body);
    return -1;
}

/* The text of the body; len may be NULL. */
static int take_text(struct api *api, char **ret, size_t *ret_len, struct err *err)
{
    if (http_client_body(api->http, ANSWER_MAX, ret, ret_len, err) < 0)
        return err_wrap(err, "answer of %s", api->target);
    return 0;
}

int api_json(struct api *api, json_t **ret, struct err *err)
{
    auto_free char *text = NULL;
    size_t len = 0;

    if (take_text(api, &text, &len, err) < 0)
        return -1;
    if (!ret)
        return 0;
    *ret = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!*ret)
        return err_set(err, ERR_INTERNAL, "the answer of %s is not JSON: is it a cay daemon?",
                       api->target);
    return 0;
}

static int ask(struct api *api, const char *method, const char *path, const char *text,
               struct err *err)
{
    struct http_response response;

    if (http_client_send(api->http, method, path, text ? "application/json" : NULL, text,
                         text ? strlen(text) : 0, &response, err) < 0)
        return api_explain(api, err);
    return api_check(api, &response, err);
}

int api_exchange(struct api *api, const char *method, const char *path, const char *text,
                 char **ret, struct err *err)
{
    auto_free char *answer = NULL;
    size_t len;

    if (ask(api, method, path, text, err) < 0 || take_text(api, &answer, &len, err) < 0)
        return -1;
    if (ret)
        *ret = steal_ptr(answer);
    return 0;
}

int api_call(struct api *api, const char *method, json_t *body, json_t **ret, struct err *err,
             const char *path, ...)
{
    auto_free char *full = NULL;
    auto_free char *part = NULL;
    auto_free char *sent = body ? json_dumps(body, JSON_COMPACT) : NULL;
    va_list ap;

    json_decref(body);
    va_start(ap, path);
    if (vasprintf(&part, path, ap) < 0)
        abort();
    va_end(ap);
    full = xasprintf("/sandbox%s", part);
    if (ask(api, method, full, sent, err) < 0)
        return -1;
    return api_json(api, ret, err);
}

int api_dial(struct api *api, const char *id, uint16_t port, int *ret, struct err *err)
{
    auto_free char *path = xasprintf("/sandbox/sandboxes/%s/dial/%u", id, port);
    struct http_response response;
    int fd;

    if (http_client_upgrade(api->http, path, "cay-dial", NULL, 0, &response, &fd, err) < 0)
        return api_explain(api, err);
    if (fd >= 0) {
        *ret = fd;
        return 0;
    }
    if (api_check(api, &response, err) < 0)
        return -1;
    return err_set(err, ERR_UNSUPPORTED, "the daemon is too old to connect to ports");
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
