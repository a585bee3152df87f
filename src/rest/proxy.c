#include "rest/proxy.h"

#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/audited.h"
#include "functions/callers.h"
#include "http/server.h"
#include "model/sandbox.h"
#include "rest/proxy_internal.h"
#include "rest/rest.h"
#include "rest/rest_internal.h"
#include "rest/route.h"

/* One request that is meant for a port of a sandbox, in order: which, from where, may it, and then
 * the relay. Nothing reaches the sandbox before the last. */

#define SIGNATURE_SIZE 96
#define ECHO_MAX       4096 /* of what is said back in a header */

struct asked {
    struct rest *rest;
    struct http_req *req;
    const struct auth_request *from;
    struct proxy_address address;
    struct proxy_asker asker;
    struct caller caller;
    bool known; /* who it is has been proved */
    struct proxied to;
    struct proxy_rules rules;
    char by_query[SIGNATURE_SIZE], by_cookie[SIGNATURE_SIZE];
    struct buf path; /* with the query, without a signature */
    bool html;
};

void proxy_open(struct rest *rest)
{
    const char *domain = rest->config->proxy_domain ? rest->config->proxy_domain : "localhost";
    const char *scheme_end = strstr(domain, "://");
    const char *host = scheme_end ? scheme_end + 3 : domain;

    rest->proxies = proxy_pool_new();
    rest->proxy_scheme =
        scheme_end ? xstrndup(domain, (size_t)(scheme_end - domain)) : xstrdup("http");
    rest->proxy_domain = xstrndup(host, strcspn(host, ":/"));
    rest->proxy_host = scheme_end || strchr(host, ':') || !rest->config->port
                           ? xstrndup(host, strcspn(host, "/"))
                           : xasprintf("%s:%u", host, rest->config->port);
    rest->about.proxy_scheme = rest->proxy_scheme;
    rest->about.proxy_host = rest->proxy_host;
}

void proxy_close(struct rest *rest)
{
    proxy_pool_free(rest->proxies);
    free(rest->proxy_scheme);
    free(rest->proxy_domain);
    free(rest->proxy_host);
}

static const char *header(const struct asked *a, const char *name)
{
    return http_req_header(a->req, name);
}

static void refuse(const struct asked *a, const struct err *err)
{
    struct proxy_manner manner = {a->html, a->rules.cors};

    proxy_refuse(a->req, &manner, err);
}

/* ---- what it says ---- */

static void read_signatures(struct asked *a)
{
    const char *query = http_req_query(a->req), *cookies = header(a, "Cookie");
    auto_buf struct buf rest = {.max = 64u << 10};

    buf_init(&a->path, 64u << 10);
    (void)buf_add_str(&a->path, a->address.path);
    if (*query) {
        if (proxy_query_take(query, PROXIED_SIGNATURE, a->by_query, SIGNATURE_SIZE, &rest))
            query = rest.data ? rest.data : "";
        if (*query)
            (void)buf_addf(&a->path, "?%s", query);
    }
    if (cookies)
        (void)proxy_cookie_take(cookies, PROXIED_SIGNATURE, a->by_cookie, SIGNATURE_SIZE, NULL);
}

static void read_asker(struct asked *a)
{
    struct rest *rest = a->rest;
    const char *given = auth_given(a->from);

    a->known = rest_identify(rest, a->from, &a->caller, NULL) == 0 &&
               (a->caller.admin || a->caller.token_id[0]);
    a->asker = (struct proxy_asker){
        .token = rest->config->token || rest->config->require_token ||
                 (given && caller_token_like(given)),
        .foreign = a->from->is_tcp && !auth_origin_listed(&rest->auth, a->from->origin) &&
                   proxy_is_foreign(http_req_method(a->req), a->from->host, a->from->origin,
                                    header(a, "Sec-Fetch-Site"), header(a, "Sec-Fetch-Mode"),
                                    header(a, "Sec-Fetch-Dest")),
    };
    (void)snprintf(a->rules.token_id, sizeof(a->rules.token_id), "%s", a->caller.token_id);
}

static int unproved(const struct asked *a, struct err *err)
{
    return err_set(err, ERR_UNAUTHORIZED,
                   "this port needs a token, or a signed address that is not over: `cay url "
                   "--expires 1h %s %u`",
                   a->address.word, a->address.port);
}

static int foreign(struct err *err)
{
    return err_code(err, ERR_FORBIDDEN, "origin_not_allowed",
                    "a page of another origin asks for a sandbox by its name, or for a port that "
                    "is not exposed; use its id and expose the port");
}

/* A selector would tell which values the metadata has, so only callers of the API may use one. */
static bool is_guess(const struct asked *a)
{
    auto_selector struct sandbox_selector selector = {0};

    return !a->known && (a->asker.token || a->asker.foreign) &&
           sandbox_selector_parse(a->address.word, &selector);
}

/* A cookie is sent by the browser whoever makes it ask, so it proves nothing for others' pages. Who
 * has proved nothing is not told which names there are, and of which ids. */
static int find(struct asked *a, struct err *err)
{
    const char *const signatures[2] = {a->by_query[0] ? a->by_query : NULL,
                                       a->by_cookie[0] && !a->asker.foreign ? a->by_cookie : NULL};

    if (is_guess(a))
        return a->asker.token ? unproved(a, err) : foreign(err);
    if (proxied_find(a->rest->engine, a->known ? &a->caller : NULL, a->address.word,
                     a->address.port, signatures, &a->to, err) < 0)
        return a->to.by_name && !a->known && a->asker.token ? unproved(a, err) : -1;
    a->asker.proved = a->to.reached;
    return 0;
}

/* ---- pages of other origins ---- */

static bool is_listed(const char *list, const char *origin)
{
    size_t len = strlen(origin);

    while (*list) {
        size_t n;

        list += strspn(list, " ,");
        n = strcspn(list, " ,");
        if (n == len && strncasecmp(list, origin, len) == 0)
            return true;
        list += n;
    }
    return false;
}

static void read_cors(struct asked *a)
{
    const char *origin = a->from->origin;

    if (!origin)
        return;
    if (strcmp(a->to.cors, "*") == 0) {
        (void)snprintf(a->rules.cors, sizeof(a->rules.cors), "*");
    } else if (is_listed(a->to.cors, origin)) {
        (void)snprintf(a->rules.cors, sizeof(a->rules.cors), "%s", origin);
        a->rules.cors_listed = true;
    }
}

/* Asked by the browser ahead of a request, without what would prove anything. A name can be
 * guessed, so pages that nobody has named get no answer about one. */
static bool answer_preflight(const struct asked *a)
{
    const char *method = header(a, "Access-Control-Request-Method");
    const char *headers = header(a, "Access-Control-Request-Headers");

    if (strcmp(http_req_method(a->req), "OPTIONS") != 0 || !method || !a->from->origin ||
        !a->to.cors[0] || strlen(method) > ECHO_MAX || (a->to.by_name && !a->rules.cors_listed))
        return false;
    if (a->rules.cors[0]) {
        http_reply_header(a->req, "Access-Control-Allow-Origin", a->rules.cors);
        http_reply_header(a->req, "Access-Control-Allow-Methods", method);
        if (headers && strlen(headers) <= ECHO_MAX)
            http_reply_header(a->req, "Access-Control-Allow-Headers", headers);
        http_reply_header(a->req, "Access-Control-Max-Age", "600");
        if (a->rules.cors_listed)
            http_reply_header(a->req, "Access-Control-Allow-Credentials", "true");
    }
    http_reply_header(a->req, "Vary", "Origin");
    http_reply(a->req, 204, NULL, NULL, 0);
    return true;
}

/* ---- signatures become cookies ---- */

static void set_cookie(struct asked *a)
{
    const char *proto = header(a, "X-Forwarded-Proto");
    bool secure =
        (proto && strcmp(proto, "https") == 0) || strcmp(a->rest->proxy_scheme, "https") == 0;
    const char *path = a->address.by_host ? "" : a->rules.prefix;
    int n = snprintf(a->rules.cookie, sizeof(a->rules.cookie),
                     PROXIED_SIGNATURE "=%s; Path=%s/; HttpOnly; SameSite=Lax%s", a->by_query, path,
                     secure ? "; Secure" : "");

    if (n >= (int)sizeof(a->rules.cookie))
        a->rules.cookie[0] = '\0';
}

/* "//" begins the name of a host, and to browsers a backslash is a slash. */
static bool is_path(const char *location)
{
    return location[0] == '/' && location[1] != '/' && location[1] != '\\';
}

/* A browser that opens a signed address keeps the signature in a cookie and goes on without it: the
 * page's own addresses work then, and it is not told to others as the page that led to them. What
 * is no signature may be anything: it does not become a cookie because there is a right one. */
static bool answer_signed(struct asked *a)
{
    if (!a->to.by_first)
        return false;
    set_cookie(a);
    if (!a->html || !a->rules.cookie[0] || strcmp(http_req_method(a->req), "GET") != 0 ||
        !a->address.by_host || a->rules.is_upgrade || a->path.len > ECHO_MAX ||
        !is_path(a->path.data))
        return false;
    http_reply_header(a->req, "Set-Cookie", a->rules.cookie);
    http_reply_header(a->req, "Cache-Control", "no-store");
    http_reply_header(a->req, "Referrer-Policy", "no-referrer");
    http_reply_header(a->req, "Location", a->path.data);
    http_reply(a->req, 303, NULL, NULL, 0);
    return true;
}

/* ---- the request ---- */

static int check_from(const struct asked *a, struct err *err)
{
    /* Below the API its rule for names holds: a foreign name that leads here is rebinding. */
    if (!a->address.by_host && auth_check_host(&a->rest->auth, a->from, err) < 0)
        return -1;
    /* A worker that a page leaves behind would answer for the API's own pages. */
    if (!a->address.by_host && header(a, "Service-Worker"))
        return err_code(err, ERR_FORBIDDEN, "forbidden",
                        "service workers are not served below the API; use the port's host name");
    return 0;
}

static int check_access(const struct asked *a, struct err *err)
{
    switch (proxy_judge(&a->asker, &a->to)) {
    case PROXY_OPEN:
        return 0;
    case PROXY_FOREIGN:
        return foreign(err);
    case PROXY_UNPROVED:
        break;
    }
    return unproved(a, err);
}

static void set_rules(struct asked *a)
{
    struct proxy_rules *r = &a->rules;
    const char *upgrade = header(a, "Upgrade"), *proto = header(a, "X-Forwarded-Proto");

    r->port = a->address.port;
    r->by_host = a->address.by_host;
    (void)snprintf(r->prefix, sizeof(r->prefix), "%.*s", (int)a->address.prefix_len,
                   http_req_path(a->req));
    (void)snprintf(r->own, sizeof(r->own), "%s://%s",
                   proto && strcmp(proto, "https") == 0 ? "https" : "http",
                   a->from->host ? a->from->host : "");
    /* h2c would hide requests from us; one with a body has no known end. */
    r->is_upgrade = http_req_wants_upgrade(a->req) && upgrade && http_req_length(a->req) == 0 &&
                    !http_list_has(upgrade, "h2c");
    r->is_head = strcmp(http_req_method(a->req), "HEAD") == 0;
    r->http10 = http_req_is_http10(a->req);
}

/* A header that depends on the sandbox would say that the name is one. */
static void refuse_access(struct asked *a, const struct err *err)
{
    if (a->to.by_name && !a->rules.cors_listed)
        a->rules.cors[0] = '\0';
    (void)snprintf(a->caller.from, sizeof(a->caller.from), "%s", a->from->address);
    a->caller.face = "proxy";
    audited_refusal(a->rest->services, &a->caller, "proxy::request", err);
    refuse(a, err);
}

static void pass_on(struct asked *a)
{
    struct err err = {0};

    set_rules(a);
    read_signatures(a);
    read_asker(a);
    if (check_from(a, &err) < 0) {
        refuse(a, &err);
        return;
    }
    if (find(a, &err) < 0) {
        if (err.kind == ERR_UNAUTHORIZED)
            refuse_access(a, &err);
        else
            refuse(a, &err);
        return;
    }
    read_cors(a);
    if (answer_preflight(a))
        return;
    if (check_access(a, &err) < 0) {
        refuse_access(a, &err);
        return;
    }
    if (proxied_check(a->rest->engine, a->to.id, &err) < 0) {
        refuse(a, &err);
        return;
    }
    if (!answer_signed(a))
        proxy_relay(a->rest, a->req, &a->to, &a->rules, a->path.data, a->html);
}

/* Relative links need the / behind the port. POST without it is a row of the table. */
static bool redirect(const struct asked *a)
{
    const char *method = http_req_method(a->req), *query = http_req_query(a->req);
    auto_free char *to = NULL;

    if ((strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) || strlen(query) > ECHO_MAX)
        return false;
    to = xasprintf("%s/%s%s", http_req_path(a->req), *query ? "?" : "", query);
    http_reply_header(a->req, "Location", to);
    http_reply(a->req, 308, NULL, NULL, 0);
    return true;
}

bool proxy_handle(struct rest *rest, struct http_req *req, const struct auth_request *from)
{
    const char *path = http_req_path(req);
    struct asked a = {.rest = rest, .req = req, .from = from};
    enum proxy_found found =
        proxy_address(rest->proxy_domain, http_req_is_tcp(req) || from->host ? from->host : NULL,
                      path, route_below(rest->config->prefix, path), &a.address);

    if (found == PROXY_NONE)
        return false;
    if (found == PROXY_BARE)
        return redirect(&a);
    a.html = http_prefers(http_req_header(req, "Accept"), "text/html", "application/json");
    pass_on(&a);
    buf_done(&a.path);
    return true;
}
