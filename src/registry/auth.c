/* Answers to 401: Basic, and Bearer tokens that another service gives out. Credentials are looked
 * for only when a registry asks, and for each endpoint by its own name. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "registry/registry_internal.h"

#define TOKEN_MAX       (256u << 10)
#define TOKEN_TIMEOUT_S 60L
#define TOKEN_LIFE_S    60 /* what a service that does not say means */
#define TOKEN_LIFE_MAX  (24 * 3600)
#define MARGIN_S        5

#define SECOND_NS INT64_C(1000000000)

/* ---- who we are ---- */

static int read_credentials(struct endpoint *ep, struct err *err)
{
    const struct registry *r = ep->registry;

    if (ep->credentials_read)
        return 0;
    if (ep->own && r->username) {
        ep->credentials.username = xstrdup(r->username);
        ep->credentials.password = xstrdup(r->password ? r->password : "");
    } else if (r->credentials) {
        if (r->credentials(r->credentials_arg, ep->host, &ep->credentials, err) < 0)
            return -1;
    } else if (r->docker_config &&
               credentials_find(r->docker_config, ep->host, &ep->credentials, err) < 0) {
        return -1;
    }
    ep->credentials_read = true;
    return 0;
}

static char *basic(const struct credentials *c)
{
    auto_free char *pair = xasprintf("%s:%s", c->username, c->password);
    struct buf out;

    buf_init(&out, 16 + 2 * strlen(pair));
    (void)buf_add_str(&out, "Basic ");
    (void)base64_encode(&out, pair, strlen(pair));
    explicit_bzero(pair, strlen(pair));
    return buf_steal(&out);
}

/* ---- tokens ---- */

static void add_param(struct buf *out, const char *name, const char *value)
{
    char *escaped = curl_easy_escape(NULL, value, (int)strlen(value));

    if (escaped)
        (void)buf_addf(out, "%s%s=%s", out->len ? "&" : "", name, escaped);
    curl_free(escaped);
}

static void add_scopes(struct buf *out, const struct registry *r, const struct challenge *c)
{
    auto_free char *own = xasprintf("repository:%s:pull", r->path);
    const char *s = c->scope && c->scope[0] ? c->scope : own;

    while (*s) {
        size_t n = strcspn(s, " ");
        auto_free char *scope = xstrndup(s, n);

        if (n > 0)
            add_param(out, "scope", scope);
        s += n + (s[n] == ' ');
    }
}

static int collect(const struct response *res, const void *data, size_t len, void *arg,
                   struct err *err)
{
    (void)res;
    if (buf_add(arg, data, len) < 0)
        return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                        "the token service sends more than %u bytes", TOKEN_MAX);
    return 0;
}

/* It becomes part of a header line. */
static bool token_ok(const char *token)
{
    for (const char *c = token; *c; c++)
        if (*c <= ' ' || *c > '~')
            return false;
    return token[0] != '\0';
}

static int keep_token(struct endpoint *ep, const struct buf *body, struct err *err)
{
    json_t *root = json_loadb(body->data ? body->data : "", body->len, 0, NULL);
    const char *token = json_string_value(json_object_get(root, "token"));
    json_int_t life = json_integer_value(json_object_get(root, "expires_in"));
    int r = 0;

    if (!token)
        token = json_string_value(json_object_get(root, "access_token"));
    if (!token || !token_ok(token)) {
        r = err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                     "the token service of %.80s gave no usable token", ep->name);
    } else {
        if (life < TOKEN_LIFE_S)
            life = TOKEN_LIFE_S;
        if (life > TOKEN_LIFE_MAX)
            life = TOKEN_LIFE_MAX;
        free(ep->authorization);
        ep->authorization = xasprintf("Bearer %s", token);
        ep->expires_ns = mono_ns() + (life - MARGIN_S) * SECOND_NS;
    }
    json_decref(root);
    return r;
}

/* The request to the realm: a form with an identity token in it, or a query, with a name and a
 * password if there are any. */
static int run_token_request(struct endpoint *ep, const struct challenge *c, struct buf *body,
                             struct response *res, struct err *err)
{
    const struct credentials *who = &ep->credentials;
    auto_buf struct buf query;
    auto_free char *url = NULL, *authorization = NULL;
    struct request req = {.body = collect, .arg = body, .timeout_s = TOKEN_TIMEOUT_S};
    int r;

    buf_init(&query, TOKEN_MAX);
    if (c->service)
        add_param(&query, "service", c->service);
    add_scopes(&query, ep->registry, c);
    if (who->identity) {
        add_param(&query, "grant_type", "refresh_token");
        add_param(&query, "client_id", "cay");
        add_param(&query, "refresh_token", who->identity);
        url = xstrdup(c->realm);
        req.form = query.data;
    } else {
        if (who->username)
            add_param(&query, "account", who->username);
        url = xasprintf("%s%c%s", c->realm, strchr(c->realm, '?') ? '&' : '?', query.data);
        if (who->username)
            req.authorization = authorization = basic(who);
    }
    req.url = url;
    r = request_run(ep->registry, &req, res, err);
    if (authorization)
        explicit_bzero(authorization, strlen(authorization));
    explicit_bzero(query.data, query.len);
    return r < 0 ? err_wrap(err, "the token service of %.60s", ep->name) : 0;
}

static bool has_credentials(const struct endpoint *ep)
{
    return ep->credentials.username || ep->credentials.identity;
}

/* 0 with a token, 1 when there is none for us, -1 on failure. */
static int fetch_token(struct endpoint *ep, const struct challenge *c, bool *ret_transient,
                       struct err *err)
{
    struct response res = {0};
    auto_buf struct buf body = {0};
    int r;

    if (has_credentials(ep) && realm_check(ep, c->realm, err) < 0)
        return -1;
    buf_init(&body, TOKEN_MAX);
    r = run_token_request(ep, c, &body, &res, err);
    *ret_transient = res.transient || res.status == 429 || res.status >= 500;
    if (r == 0 && res.status == 200)
        r = keep_token(ep, &body, err);
    else if (r == 0 && (res.status == 401 || res.status == 403 || res.status == 404) &&
             !has_credentials(ep))
        r = 1;
    else if (r == 0 && res.status / 100 == 4 && res.status != 429)
        r = err_code(err, ERR_FORBIDDEN, "registry_denied",
                     "%.60s refused the credentials of %.60s (HTTP %d): check the user name and "
                     "the password or token",
                     ep->name, ep->credentials.username ? ep->credentials.username : "the login",
                     res.status);
    else if (r == 0)
        r = err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                     "the token service of %.80s answered HTTP %d: try again later", ep->name,
                     res.status);
    response_done(&res);
    return r < 0 ? problem_printable(err) : r;
}

/* ---- the answer to a challenge ---- */

static int answer_locked(struct endpoint *ep, const char *used, struct response *res,
                         struct err *err)
{
    struct challenge c = {0};
    int r = 1;

    /* Another thread was first. */
    if (ep->authorization && (!used || strcmp(used, ep->authorization) != 0))
        return 0;
    if (challenge_parse(res->challenges, &c) < 0)
        return 1;
    if (read_credentials(ep, err) < 0) {
        r = -1;
    } else if (c.bearer) {
        r = fetch_token(ep, &c, &res->transient, err);
    } else if (ep->credentials.username && !used) {
        free(ep->authorization);
        ep->authorization = basic(&ep->credentials);
        ep->expires_ns = 0;
        r = 0;
    }
    challenge_done(&c);
    return r;
}

static char *current(struct endpoint *ep)
{
    char *copy = NULL;

    pthread_mutex_lock(&ep->lock);
    if (ep->authorization && ep->expires_ns && mono_ns() > ep->expires_ns)
        free(steal_ptr(ep->authorization));
    if (ep->authorization)
        copy = xstrdup(ep->authorization);
    pthread_mutex_unlock(&ep->lock);
    return copy;
}

int endpoint_ask(struct endpoint *ep, struct request *req, struct response *res, struct err *err)
{
    for (bool answered = false;; answered = true) {
        auto_free char *authorization = current(ep);
        int r;

        req->authorization = authorization;
        r = request_run(ep->registry, req, res, err);
        req->authorization = NULL;
        if (r == 0)
            atomic_store(&ep->reached, true);
        if (r < 0 || res->status != 401 || res->elsewhere || answered)
            return r;
        pthread_mutex_lock(&ep->lock);
        r = answer_locked(ep, authorization, res, err);
        pthread_mutex_unlock(&ep->lock);
        if (r != 0)
            return r < 0 ? -1 : 0;
    }
}
