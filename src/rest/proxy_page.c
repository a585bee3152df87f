#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "functions/errors.h"
#include "http/server.h"
#include "rest/html.h"
#include "rest/proxy_internal.h"

/* What a client gets when no server in the sandbox answers: a page for people, which asks again by
 * itself while that may help, JSON as of the API for programs. */

static const struct cause {
    const char *code;
    int status;
    unsigned again_s; /* 0 = asking again does not help */
    const char *title;
} causes[] = {
    {"port_closed", 502, 1, "Nothing listens on this port yet"},
    {"port_busy", 504, 2, "The server takes no connection in"},
    {"proxy_timeout", 504, 2, "The server did not answer in time"},
    {"bad_answer", 502, 0, "The server's answer is not HTTP as it must be"},
    {"sandbox_not_running", 503, 5, "The sandbox does not run"},
    {"sandbox_not_found", 404, 0, "There is no such sandbox"},
    {"sandbox_expired", 404, 0, "The sandbox has ended"},
    {"sandbox_removed", 404, 0, "The sandbox is gone"},
    {"unauthorized", 401, 0, "This port is not open to everybody"},
    {NULL, 0, 0, "This did not work"},
};

static struct cause cause_of(const struct err *err)
{
    const char *code = err->code ? err->code : err_kind_code(err->kind);
    const struct cause *c = causes;
    struct cause found;

    while (c->code && strcmp(c->code, code) != 0)
        c++;
    found = *c;
    if (!found.status)
        found.status = error_status(err->kind);
    if (!found.again_s && (found.status == 429 || found.status == 503))
        found.again_s = err->retry_s ? err->retry_s : 1;
    return found;
}

static void add_page(struct buf *b, const struct cause *c, const char *text, size_t len)
{
    (void)buf_add_str(b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                         "<meta name=\"viewport\" content=\"width=device-width\">");
    if (c->again_s)
        (void)buf_addf(b, "<meta http-equiv=\"refresh\" content=\"%u\">", c->again_s + 1);
    (void)buf_addf(b,
                   "<title>%s</title><style>body{font:16px/1.5 system-ui,sans-serif;max-width:40em;"
                   "margin:15vh auto;padding:0 1em;color:#222;background:#fff}"
                   "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}}"
                   "p{overflow-wrap:anywhere}</style></head><body><h1>%s</h1><p>",
                   c->title, c->title);
    html_add(b, text, len);
    (void)buf_addf(b, "</p>%s</body></html>\n",
                   c->again_s ? "<p>This page looks again by itself.</p>" : "");
}

void proxy_refuse(struct http_req *req, const struct proxy_manner *manner, const struct err *err)
{
    struct cause cause = cause_of(err);
    json_t *body = error_body(err, "");
    const json_t *text = json_object_get(body, "error");
    auto_buf struct buf page = {.max = 16u << 10};
    char wait[16];

    if (cause.again_s) {
        (void)snprintf(wait, sizeof(wait), "%u", cause.again_s);
        http_reply_header(req, "Retry-After", wait);
    }
    if (cause.status == 401)
        http_reply_header(req, "WWW-Authenticate", "Bearer");
    if (manner->cors && manner->cors[0])
        http_reply_header(req, "Access-Control-Allow-Origin", manner->cors);
    http_reply_header(req, "Cache-Control", "no-store");
    if (manner->html) {
        http_reply_header(req, "Content-Security-Policy",
                          "default-src 'none'; style-src 'unsafe-inline'");
        add_page(&page, &cause, json_string_value(text), json_string_length(text));
        http_reply(req, cause.status, "text/html; charset=utf-8", page.data, page.len);
    } else {
        char *json = json_dumps(body, JSON_COMPACT);

        http_reply(req, cause.status, "application/json", json, strlen(json));
        free(json);
    }
    json_decref(body);
}
