#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "functions/callers.h"
#include "http/server.h"
#include "rest/auth.h"
#include "rest/proxy_internal.h"
#include "rest/rest_internal.h"

/* Heads, from the client to the sandbox and back. Both sides have been read strictly, so a name or
 * a value holds no line end; what is said here is what is kept from the other side.
 *
 * The server in the sandbox is told that it is asked as localhost:PORT, Host, Origin and Referer
 * alike: servers for development answer to that name and few to another. X-Forwarded-Host, -Proto,
 * -Prefix and Forwarded have the address that the client knows, and a Location that names the inner
 * one is led back. */

#define FORWARDED_MAX 512

static void add(struct buf *b, const char *s)
{
    (void)buf_add(b, s, strlen(s));
}

static void add_line(struct buf *b, const char *name, const char *value)
{
    add(b, name);
    add(b, ": ");
    add(b, value);
    add(b, "\r\n");
}

static void add_number(struct buf *b, unsigned n)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", n);
    add(b, text);
}

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcasecmp(name, *names) == 0)
            return true;
    return false;
}

/* About this connection, not about the message. */
static const char *const hop_by_hop[] = {"connection",
                                         "keep-alive",
                                         "proxy-connection",
                                         "proxy-authenticate",
                                         "proxy-authorization",
                                         "te",
                                         "trailer",
                                         "transfer-encoding",
                                         "upgrade",
                                         "content-length",
                                         "http2-settings",
                                         NULL};

/* ---- parameters and cookies that are ours ---- */

static bool take(const char *text, const char *separators, const char *glue, const char *name,
                 char *value, size_t size, struct buf *rest)
{
    size_t name_len = strlen(name);
    bool found = false;

    while (*text) {
        size_t len;

        text += strspn(text, " ");
        len = strcspn(text, separators);
        if (len > name_len && strncmp(text, name, name_len) == 0 && text[name_len] == '=') {
            found = true;
            (void)snprintf(value, size, "%.*s", (int)(len - name_len - 1), text + name_len + 1);
        } else if (rest && len > 0) {
            if (rest->len > 0)
                add(rest, glue);
            (void)buf_add(rest, text, len);
        }
        text += len;
        text += *text != '\0';
    }
    return found;
}

bool proxy_query_take(const char *query, const char *name, char *value, size_t size,
                      struct buf *rest)
{
    return take(query, "&", "&", name, value, size, rest);
}

bool proxy_cookie_take(const char *cookies, const char *name, char *value, size_t size,
                       struct buf *rest)
{
    return take(cookies, ";", "; ", name, value, size, rest);
}

/* ---- to the sandbox ---- */

/* Names in a Connection header are about the connection too. */
static bool is_named(const struct http_req *req, const char *name)
{
    const struct http_field *f;

    for (unsigned i = 0; (f = http_req_field(req, i)); i++)
        if (strcasecmp(f->name, "connection") == 0 && http_list_has(f->value, name))
            return true;
    return false;
}

/* Also a token that is over, or never was: what has that form is nobody else's. */
static bool is_token(const char *given, const char *token)
{
    return caller_token_like(given) || (token && str_equal_secret(token, given));
}

static bool is_ours(const char *authorization, const char *token)
{
    if (strncasecmp(authorization, "Bearer ", 7) == 0)
        authorization += 7;
    return is_token(authorization, token);
}

/* A page's WebSocket may have named the token as a subprotocol. */
static void add_protocols(struct buf *b, const char *list, const char *token)
{
    auto_buf struct buf rest = {.max = 64u << 10};
    char given[REST_TOKEN_SIZE];

    while (*list) {
        auto_free char *word = NULL;

        list += strspn(list, " \t,");
        word = xstrndup(list, strcspn(list, " \t,"));
        list += strlen(word);
        if (!*word ||
            (auth_token_of_protocols(word, given, sizeof(given)) && is_token(given, token)))
            continue;
        add(&rest, rest.len > 0 ? ", " : "");
        add(&rest, word);
    }
    if (rest.len > 0)
        add_line(b, "Sec-WebSocket-Protocol", rest.data);
}

static void add_inner(struct buf *b, const struct proxy_rules *rules)
{
    add(b, "localhost:");
    add_number(b, rules->port);
}

/* A page of the address that is passed on calls itself by the inner one; another stays as it is. */
static void add_origin(struct buf *b, const struct proxy_rules *rules, const char *origin)
{
    add(b, "Origin: ");
    if (rules->by_host && strcasecmp(origin, rules->own) == 0) {
        add(b, "http://");
        add_inner(b, rules);
    } else {
        add(b, origin);
    }
    add(b, "\r\n");
}

/* Without its query when that could hold a signature. */
static void add_referer(struct buf *b, const struct proxy_rules *rules, const char *referer)
{
    size_t own = strlen(rules->own), prefix = strlen(rules->prefix);
    size_t len = strstr(referer, PROXIED_SIGNATURE) ? strcspn(referer, "?#") : strlen(referer);

    add(b, "Referer: ");
    if (strncasecmp(referer, rules->own, own) == 0 &&
        strncmp(referer + own, rules->prefix, prefix) == 0 && referer[own + prefix] == '/') {
        add(b, "http://");
        add_inner(b, rules);
        referer += own + prefix;
        len -= own + prefix;
    }
    (void)buf_add(b, referer, len);
    add(b, "\r\n");
}

static void add_cookies(struct buf *b, const struct proxy_rules *rules, const char *cookies)
{
    auto_buf struct buf rest = {.max = 64u << 10};
    char value[8];

    /* Those of the API's own host belong to whoever else is served there. */
    if (!rules->by_host)
        return;
    (void)proxy_cookie_take(cookies, PROXIED_SIGNATURE, value, sizeof(value), &rest);
    if (rest.len > 0)
        add_line(b, "Cookie", rest.data);
}

/* True when the header was dealt with. */
static bool add_special(struct buf *b, const struct proxy_rules *rules, const char *token,
                        const struct http_field *f)
{
    static const char *const dropped[] = {"host",
                                          "expect",
                                          "x-forwarded-host",
                                          "forwarded",
                                          "x-forwarded-for",
                                          "x-forwarded-proto",
                                          "x-forwarded-prefix",
                                          "x-forwarded-port",
                                          NULL};

    if (strcasecmp(f->name, "authorization") == 0)
        return is_ours(f->value, token);
    if (strcasecmp(f->name, "cookie") == 0)
        add_cookies(b, rules, f->value);
    else if (strcasecmp(f->name, "origin") == 0)
        add_origin(b, rules, f->value);
    else if (strcasecmp(f->name, "referer") == 0)
        add_referer(b, rules, f->value);
    else if (strcasecmp(f->name, "sec-websocket-protocol") == 0)
        add_protocols(b, f->value, token);
    else
        return is_one_of(f->name, hop_by_hop) || is_one_of(f->name, dropped);
    return true;
}

/* What one before us said; behind it comes what we know. Longer than anybody needs is left out. */
static void add_forwarded(struct buf *b, const struct http_req *req,
                          const struct proxy_rules *rules)
{
    const char *host = http_req_header(req, "Host"),
               *chain = http_req_header(req, "X-Forwarded-For");
    const char *before = http_req_header(req, "Forwarded");
    const char *host_before = http_req_header(req, "X-Forwarded-Host");
    const char *proto = http_req_header(req, "X-Forwarded-Proto");
    bool v6;
    char peer[64];

    http_req_peer(req, peer, sizeof(peer));
    v6 = strchr(peer, ':');
    proto = proto && strcmp(proto, "https") == 0 ? "https" : "http";
    if (!host_before || strlen(host_before) > FORWARDED_MAX || strpbrk(host_before, " \"\\,;"))
        host_before = host ? host : "";
    add(b, "X-Forwarded-For: ");
    if (chain && strlen(chain) <= FORWARDED_MAX) {
        add(b, chain);
        add(b, ", ");
    }
    add(b, peer[0] ? peer : "unknown");
    add(b, "\r\nX-Forwarded-Host: ");
    add(b, host_before);
    add(b, "\r\nX-Forwarded-Proto: ");
    add(b, proto);
    if (!rules->by_host) {
        add(b, "\r\nX-Forwarded-Prefix: ");
        add(b, rules->prefix);
    }
    add(b, "\r\nForwarded: ");
    if (before && strlen(before) <= FORWARDED_MAX) {
        add(b, before);
        add(b, ", ");
    }
    add(b, v6 ? "for=\"[" : "for=");
    add(b, peer[0] ? peer : "unknown");
    add(b, v6 ? "]\";host=\"" : ";host=\"");
    add(b, host_before);
    add(b, "\";proto=");
    add(b, proto);
    add(b, "\r\n");
}

static void add_framing(struct buf *b, const struct http_req *req, const struct proxy_rules *rules)
{
    int64_t length = http_req_length(req);
    char text[32];

    if (rules->is_upgrade) {
        add(b, "Connection: Upgrade\r\n");
        add_line(b, "Upgrade", http_req_header(req, "Upgrade"));
    } else if (length < 0) {
        add(b, "Transfer-Encoding: chunked\r\n");
    } else if (length > 0 || http_req_header(req, "Content-Length")) {
        (void)snprintf(text, sizeof(text), "%lld", (long long)length);
        add_line(b, "Content-Length", text);
    }
    add(b, "\r\n");
}

int proxy_request_head(const struct http_req *req, const struct proxy_rules *rules,
                       const char *path, const char *token, struct buf *out)
{
    bool has_connection = http_req_header(req, "Connection");
    const struct http_field *f;

    add(out, http_req_method(req));
    add(out, " ");
    add(out, path);
    add(out, " HTTP/1.1\r\nHost: ");
    add_inner(out, rules);
    add(out, "\r\n");
    for (unsigned i = 0; (f = http_req_field(req, i)); i++)
        if (!add_special(out, rules, token, f) && !(has_connection && is_named(req, f->name)))
            add_line(out, f->name, f->value);
    add_forwarded(out, req, rules);
    add_framing(out, req, rules);
    /* Of a buffer that was too small something is missing at its end. */
    return out->len >= 4 && memcmp(out->data + out->len - 4, "\r\n\r\n", 4) == 0 &&
                   out->len < out->max
               ? 0
               : -1;
}

/* ---- back to the client ---- */

/* "http://localhost:8080/x" becomes "/x", and below the API "/sandbox/proxy/ID/8080/x". */
static void add_location(struct buf *b, const struct proxy_rules *rules, const char *value)
{
    static const char *const inner[] = {
        "http://localhost:", "http://127.0.0.1:", "https://localhost:"};
    char port[16];

    (void)snprintf(port, sizeof(port), "%u", rules->port);
    for (size_t i = 0; i < ARRAY_LEN(inner); i++) {
        size_t len = strlen(inner[i]), digits = strlen(port);

        if (strncasecmp(value, inner[i], len) == 0 && strncmp(value + len, port, digits) == 0 &&
            strchr("/?#", value[len + digits])) {
            value += len + digits;
            add(b, "Location: ");
            add(b, rules->prefix);
            add(b, *value == '/' ? "" : "/");
            add(b, value);
            add(b, "\r\n");
            return;
        }
    }
    add(b, "Location: ");
    if (value[0] == '/' && value[1] != '/')
        add(b, rules->prefix);
    add(b, value);
    add(b, "\r\n");
}

/* A cookie belongs to the one host that set it: Domain is left out. */
static void add_set_cookie(struct buf *b, const struct proxy_rules *rules, const char *value)
{
    bool first = true;

    if (!rules->by_host ||
        strncmp(value, PROXIED_SIGNATURE "=", strlen(PROXIED_SIGNATURE) + 1) == 0)
        return;
    add(b, "Set-Cookie: ");
    while (*value) {
        size_t len;

        value += strspn(value, " \t");
        len = strcspn(value, ";");
        if (first || strncasecmp(value, "domain", 6) != 0 ||
            (value[6] != '=' && value[6] != ' ' && value[6] != '\t')) {
            add(b, first ? "" : "; ");
            (void)buf_add(b, value, len);
        }
        first = false;
        value += len;
        value += *value != '\0';
    }
    add(b, "\r\n");
}

static bool answer_special(struct buf *b, const struct proxy_rules *rules,
                           const struct http_field *f)
{
    /* What would hold for more than this answer, and for others at its address. */
    static const char *const never[] = {"alt-svc", NULL};
    static const char *const not_below[] = {"strict-transport-security",
                                            "clear-site-data",
                                            "service-worker-allowed",
                                            "nel",
                                            "report-to",
                                            NULL};

    if (strcasecmp(f->name, "location") == 0)
        add_location(b, rules, f->value);
    else if (strcasecmp(f->name, "set-cookie") == 0)
        add_set_cookie(b, rules, f->value);
    else
        return is_one_of(f->name, hop_by_hop) || is_one_of(f->name, never) ||
               (!rules->by_host && is_one_of(f->name, not_below));
    return true;
}

static bool names_it(const struct http_answer *a, const char *name)
{
    for (unsigned i = 0; i < a->count; i++)
        if (strcasecmp(a->fields[i].name, "connection") == 0 &&
            http_list_has(a->fields[i].value, name))
            return true;
    return false;
}

/* A page below the API has the API's origin. This gives it one of its own, which no other page
 * has: it can run, and can neither call the API nor read what is kept for its origin. */
#define SANDBOXED                                                                                  \
    "Content-Security-Policy: sandbox allow-downloads allow-forms allow-modals allow-popups "      \
    "allow-scripts\r\n"

static void add_own(struct buf *b, const struct http_answer *a, const struct proxy_rules *rules)
{
    if (!rules->by_host)
        add(b, SANDBOXED);
    if (rules->cookie[0])
        add_line(b, "Set-Cookie", rules->cookie);
    if (rules->cors[0] && !http_answer_find(a, "access-control-allow-origin")) {
        add_line(b, "Access-Control-Allow-Origin", rules->cors);
        if (rules->cors_listed)
            add(b, "Access-Control-Allow-Credentials: true\r\nVary: Origin\r\n");
    }
}

int proxy_answer_head(const struct http_answer *a, const struct proxy_rules *rules, struct buf *out)
{
    bool has_connection = http_answer_find(a, "connection");

    add(out, "HTTP/1.1 ");
    add_number(out, (unsigned)a->status);
    add(out, " ");
    add(out, a->reason);
    add(out, "\r\n");
    for (unsigned i = 0; i < a->count; i++) {
        const struct http_field *f = &a->fields[i];

        if (!answer_special(out, rules, f) && !(has_connection && names_it(a, f->name)))
            add_line(out, f->name, f->value);
    }
    add_own(out, a, rules);
    return out->len < out->max - 512 ? 0 : -1;
}

void proxy_trailers(const struct buf *trailers, struct buf *out)
{
    static const char *const not_there[] = {"host",
                                            "cookie",
                                            "set-cookie",
                                            "authorization",
                                            "content-type",
                                            "content-range",
                                            "location",
                                            "content-encoding",
                                            "cache-control",
                                            "expect",
                                            "max-forwards",
                                            "www-authenticate",
                                            "content-security-policy",
                                            NULL};
    const char *line = trailers->data, *end = line ? line + trailers->len : NULL;

    while (line < end) {
        const char *colon = memchr(line, ':', (size_t)(end - line));
        const char *next = memchr(line, '\n', (size_t)(end - line));
        auto_free char *name = NULL;

        if (!colon || !next || next < colon)
            return;
        name = xstrndup(line, (size_t)(colon - line));
        /* The parser lets a trailer pass that has no name. */
        if (*name && !strpbrk(name, " \t") && !is_one_of(name, hop_by_hop) &&
            !is_one_of(name, not_there))
            (void)buf_add(out, line, (size_t)(next + 1 - line));
        line = next + 1;
    }
}
