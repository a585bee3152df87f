/* One request, and where it is sent on to.
 *
 * 1. Redirects are followed by hand, so that every address passes origin_check() before it is
 *    connected to: https never becomes http on the way, unless that host is listed as insecure.
 * 2. The Authorization header goes to the origin it was made for. After a redirect to another one
 *    it is gone for good, even if a later redirect comes back.
 * 3. Names can resolve to anything, so the socket itself is refused when it would go to a
 *    link-local address.
 * 4. A body is given on only when the status is 2xx. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "registry/registry_internal.h"

#define REDIRECTS_MAX     5
#define CONNECT_TIMEOUT_S 20L
#define STALL_S           30L
#define STALL_BYTES_PER_S 256L
#define BUFFER_BYTES      (256L << 10)
#define PROBLEM_MAX       4096
#define CHALLENGES_MAX    8
#define NAME_MAX_SHOWN    81
#define USER_AGENT        "cay/" CAY_VERSION

struct transfer {
    const struct request *req;
    struct response *res;
    struct err *err;
    CURL *curl;
    bool ended;     /* by the sink, which has set err */
    bool forbidden; /* rule 3 */
    char why[CURL_ERROR_SIZE];
};

void response_done(struct response *res)
{
    free(res->media_type);
    free(res->digest);
    free(res->range);
    free(res->location);
    strv_free(res->challenges);
    buf_done(&res->problem);
    *res = (struct response){.length = -1};
}

static void response_init(struct response *res)
{
    response_done(res);
    buf_init(&res->problem, PROBLEM_MAX);
}

/* ---- libcurl's callbacks ---- */

static curl_socket_t on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct transfer *t = arg;

    (void)purpose;
    if (address_is_forbidden(&address->addr)) {
        t->forbidden = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void keep_header(struct response *res, const char *name, size_t len, char *value)
{
    static const struct {
        const char *name;
        size_t offset;
    } kept[] = {
        {"content-type", offsetof(struct response, media_type)},
        {"docker-content-digest", offsetof(struct response, digest)},
        {"content-range", offsetof(struct response, range)},
        {"location", offsetof(struct response, location)},
    };
    char **field = NULL;

    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (strlen(kept[i].name) == len && strncasecmp(kept[i].name, name, len) == 0)
            field = (char **)(void *)((char *)res + kept[i].offset);
    if (len == 16 && strncasecmp(name, "www-authenticate", 16) == 0 &&
        strv_len(res->challenges) < CHALLENGES_MAX)
        res->challenges = strv_add(res->challenges, value);
    if (field && !*field)
        *field = value;
    else
        free(value);
}

static size_t on_header(char *data, size_t one, size_t len, void *arg)
{
    struct transfer *t = arg;
    size_t n = one * len, end = n;
    const char *colon = memchr(data, ':', n);
    size_t start;

    /* A status line: what came before it was an interim answer. */
    if (n > 5 && strncasecmp(data, "HTTP/", 5) == 0) {
        response_init(t->res);
        return n;
    }
    if (!colon)
        return n;
    start = (size_t)(colon - data) + 1;
    while (start < end && (data[start] == ' ' || data[start] == '\t'))
        start++;
    while (end > start && strchr("\r\n \t", data[end - 1]))
        end--;
    keep_header(t->res, data, (size_t)(colon - data), xstrndup(data + start, end - start));
    return n;
}

static void take_status(struct transfer *t)
{
    curl_off_t length = -1, after = 0;
    long status = 0;

    (void)curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    (void)curl_easy_getinfo(t->curl, CURLINFO_RETRY_AFTER, &after);
    t->res->status = (int)status;
    t->res->length = length;
    t->res->retry_after = after;
}

static size_t on_body(char *data, size_t one, size_t len, void *arg)
{
    struct transfer *t = arg;
    size_t n = one * len, room;

    if (t->res->status == 0)
        take_status(t);
    if (t->res->status / 100 == 2 && t->req->body) {
        if (t->req->body(t->res, data, n, t->req->arg, t->err) == 0)
            return n;
        t->ended = true;
        return CURL_WRITEFUNC_ERROR;
    }
    /* Rule 4. Of an error's text the beginning will do. */
    room = PROBLEM_MAX - t->res->problem.len;
    (void)buf_add(&t->res->problem, data, n < room ? n : room);
    return n > room ? CURL_WRITEFUNC_ERROR : n;
}

/* ---- one hop ---- */

static struct curl_slist *header_list(const struct request *req, const char *authorization)
{
    struct curl_slist *list = NULL;

    if (req->accept) {
        auto_free char *line = xasprintf("Accept: %s", req->accept);

        list = curl_slist_append(list, line);
    }
    if (authorization) {
        auto_free char *line = xasprintf("Authorization: %s", authorization);

        list = curl_slist_append(list, line);
    }
    return list;
}

static void set_up(struct transfer *t, const struct registry *r, const char *url,
                   struct curl_slist *headers)
{
    const struct request *req = t->req;
    CURL *c = t->curl;

    (void)curl_easy_setopt(c, CURLOPT_URL, url);
    (void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(c, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(c, CURLOPT_USERAGENT, USER_AGENT);
    (void)curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
    (void)curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, STALL_S);
    (void)curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, STALL_BYTES_PER_S);
    (void)curl_easy_setopt(c, CURLOPT_TIMEOUT, req->timeout_s);
    (void)curl_easy_setopt(c, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    (void)curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->why);
    (void)curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    (void)curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    (void)curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, t);
    (void)curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    (void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    /* The system's own certificates come from CURLOPT_CAPATH's preset. */
    if (r->ca_file)
        (void)curl_easy_setopt(c, CURLOPT_CAINFO, r->ca_file);
    if (req->form)
        (void)curl_easy_setopt(c, CURLOPT_POSTFIELDS, req->form);
    if (req->from > 0) {
        char range[32];

        (void)snprintf(range, sizeof(range), "%lld-", (long long)req->from);
        (void)curl_easy_setopt(c, CURLOPT_RANGE, range);
    }
}

static bool is_transient(CURLcode code)
{
    switch ((int)code) {
    case CURLE_COULDNT_CONNECT: /* only once it has answered before: retry.c knows */
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
        return true;
    default:
        return false;
    }
}

/* HOST[:PORT] of an origin, for people: without the port when it is the scheme's own. */
static const char *origin_name(const char *origin, char ret[NAME_MAX_SHOWN])
{
    const char *host = strstr(origin, "://") + 3;
    size_t len = strlen(host);

    if (str_starts(origin, "https:") && str_ends(host, ":443"))
        len -= 4;
    else if (str_starts(origin, "http:") && str_ends(host, ":80"))
        len -= 3;
    (void)snprintf(ret, NAME_MAX_SHOWN, "%.*s", (int)len, host);
    return ret;
}

static int explain(struct transfer *t, CURLcode code, const char *origin)
{
    char shown[NAME_MAX_SHOWN];
    const char *name = origin_name(origin, shown);
    const char *why = t->why[0] ? t->why : curl_easy_strerror(code);
    const char *pull_failed = "image_pull_failed";

    if (t->forbidden)
        return err_code(t->err, ERR_UNAVAILABLE, pull_failed,
                        "refused to connect to %.80s: it has a link-local address", name);
    switch ((int)code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return err_code(t->err, ERR_UNAVAILABLE, pull_failed,
                        "there is no address for %.80s: check the registry's name, and this "
                        "machine's DNS",
                        name);
    case CURLE_COULDNT_CONNECT:
        return err_code(t->err, ERR_UNAVAILABLE, pull_failed,
                        "cannot connect to %.80s: is it running, and is the port right? (%.80s)",
                        name, why);
    case CURLE_PEER_FAILED_VERIFICATION:
        return err_code(t->err, ERR_UNAVAILABLE, pull_failed,
                        "the certificate of %.80s is not trusted: name the file of its CA in "
                        "CAY_REGISTRY_CA (%.80s)",
                        name, why);
    case CURLE_SSL_CONNECT_ERROR:
        return err_code(t->err, ERR_UNAVAILABLE, pull_failed,
                        "%.80s does not speak https: if it is meant to be plain http, add it to "
                        "CAY_INSECURE_REGISTRIES (%.60s)",
                        name, why);
    default:
        return err_code(t->err, ERR_UNAVAILABLE, pull_failed,
                        "the connection to %.80s broke: %.120s", name, why);
    }
}

static int failed(struct transfer *t, CURLcode code, const char *origin)
{
    t->res->no_answer = t->res->status == 0;
    if (t->ended)
        return -1;
    t->res->transient = !t->forbidden && is_transient(code);
    (void)explain(t, code, origin);
    return problem_printable(t->err);
}

static int hop(struct transfer *t, const struct registry *r, const char *url, const char *origin,
               const char *authorization)
{
    struct curl_slist *headers = header_list(t->req, authorization);
    CURLcode code;

    response_init(t->res);
    t->why[0] = '\0';
    set_up(t, r, url, headers);
    code = curl_easy_perform(t->curl);
    if (t->res->status == 0)
        take_status(t);
    curl_slist_free_all(headers);
    /* An error that talked too long was cut off, not lost. */
    if (code == CURLE_WRITE_ERROR && !t->ended && t->res->problem.len == PROBLEM_MAX)
        code = CURLE_OK;
    return code == CURLE_OK ? 0 : failed(t, code, origin);
}

/* ---- redirects ---- */

static bool is_redirect(const struct response *res)
{
    int s = res->status;

    return res->location && (s == 301 || s == 302 || s == 303 || s == 307 || s == 308);
}

/* Location may be relative to the address that was asked. NULL if it makes no sense. */
static char *resolve(const char *base, const char *location)
{
    CURLU *u = curl_url();
    char *url = NULL, *copy = NULL;

    if (u && curl_url_set(u, CURLUPART_URL, base, 0) == CURLUE_OK &&
        curl_url_set(u, CURLUPART_URL, location, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_URL, &url, 0) == CURLUE_OK)
        copy = xstrdup(url);
    curl_free(url);
    curl_url_cleanup(u);
    return copy;
}

static int follow(struct transfer *t, const struct registry *r)
{
    const char *authorization = t->req->authorization;
    auto_free char *url = xstrdup(t->req->url);
    auto_free char *origin = NULL;
    char shown[NAME_MAX_SHOWN];
    bool elsewhere = false;

    if (origin_check(r->insecure, url, &origin, t->err) < 0)
        return -1;
    for (int i = 0; i <= REDIRECTS_MAX; i++) {
        char *next, *next_origin;

        if (hop(t, r, url, origin, authorization) < 0)
            return -1;
        t->res->elsewhere = elsewhere;
        if (!is_redirect(t->res) || t->req->form)
            return 0;
        next = resolve(url, t->res->location);
        if (!next)
            return err_code(t->err, ERR_UNAVAILABLE, "image_pull_failed",
                            "%.80s redirects to what is no address", origin_name(origin, shown));
        free(url);
        url = next;
        if (origin_check(r->insecure, url, &next_origin, t->err) < 0)
            return err_wrap(t->err, "a redirect of %.60s", origin_name(origin, shown));
        if (strcmp(next_origin, origin) != 0) {
            authorization = NULL; /* rule 2 */
            elsewhere = true;
        }
        free(origin);
        origin = next_origin;
    }
    return err_code(t->err, ERR_UNAVAILABLE, "image_pull_failed", "%.80s redirects in a circle",
                    origin_name(origin, shown));
}

int request_run(struct registry *r, const struct request *req, struct response *res,
                struct err *err)
{
    struct err unused;
    struct transfer t = {.req = req, .res = res, .err = err ? err : &unused};
    int result;

    response_init(res);
    t.curl = handle_take(r);
    result = follow(&t, r);
    handle_give(r, t.curl);
    return result;
}
