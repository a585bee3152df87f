/* One POST.
 *
 * 1. Redirects are not followed: the status is the answer.
 * 2. Each address is judged when its socket is made, unless the target is the operator's own.
 *    A connection to such a one is never used again, since what is kept open was judged once.
 * 3. Of what the other side says nothing is kept but the status and Retry-After. Who talks for
 *    longer than a little is cut off; a server whose answer has a whole head has answered. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/str.h"
#include "courier/courier_internal.h"

#define ANSWER_MAX    4096
#define HEAD_MAX      (64u << 10)
#define CONNECT_MS    5000L
#define BUFFER_BYTES  16384L
#define RETRY_AFTER_S (24 * 3600)
#define USER_AGENT    "cay/" CAY_VERSION

struct job {
    struct courier *courier;
    CURL *handle;
    struct curl_slist *headers;
    char *body, *host;
    bool trusted;
    size_t head_bytes, answer_bytes;
    bool head_ended;     /* the empty line behind the last status line has come */
    const char *refused; /* rule 2: what the last address was */
    struct courier_told told;
    char why[CURL_ERROR_SIZE];
};

static void job_free(struct job *job)
{
    if (job->handle)
        curl_easy_cleanup(job->handle);
    curl_slist_free_all(job->headers);
    free(job->body);
    free(job->host);
    free(job);
}

/* ---- libcurl's callbacks ---- */

static curl_socket_t on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct job *job = arg;
    const char *refused;

    (void)purpose;
    if (!job->trusted) {
        refused =
            target_refuse(job->courier->targets, job->host, &address->addr, job->told.address);
        if (refused) {
            job->refused = refused;
            return CURL_SOCKET_BAD;
        }
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t on_header(char *data, size_t one, size_t len, void *arg)
{
    struct job *job = arg;
    size_t n = one * len;

    /* One line per call. An interim answer (1xx) has a head of its own before the last one. */
    if (n >= 5 && memcmp(data, "HTTP/", 5) == 0)
        job->head_ended = false;
    else if (n <= 2 && n > 0 && data[n - 1] == '\n')
        job->head_ended = true;
    job->head_bytes += n;
    return job->head_bytes > HEAD_MAX ? 0 : n;
}

static size_t on_body(char *data, size_t one, size_t len, void *arg)
{
    struct job *job = arg;

    (void)data;
    job->answer_bytes += one * len;
    return job->answer_bytes > ANSWER_MAX ? CURL_WRITEFUNC_ERROR : one * len;
}

/* ---- the beginning ---- */

static int take_host(struct job *job, const char *url)
{
    CURLU *u = curl_url();
    char *host = NULL;
    size_t len;

    if (u && curl_url_set(u, CURLUPART_URL, url, CURLU_DISALLOW_USER) == CURLUE_OK)
        (void)curl_url_get(u, CURLUPART_HOST, &host, 0);
    curl_url_cleanup(u);
    if (!host)
        return -1;
    len = strlen(host);
    job->host = host[0] == '[' && len > 2 ? xstrndup(host + 1, len - 2) : xstrdup(host);
    curl_free(host);
    return 0;
}

/* Lines of text; libcurl's own that nobody needs are taken out. */
static void take_headers(struct job *job, const char *lines)
{
    job->headers = curl_slist_append(NULL, "Expect:");
    while (*lines) {
        size_t len = strcspn(lines, "\n");
        auto_free char *line = xstrndup(lines, len);

        job->headers = curl_slist_append(job->headers, line);
        lines += len + (lines[len] == '\n');
    }
}

static void set_up(struct job *job, const struct courier_ask *ask, const char *url)
{
    CURL *c = job->handle;

    (void)curl_easy_setopt(c, CURLOPT_PRIVATE, job);
    (void)curl_easy_setopt(c, CURLOPT_URL, url);
    (void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(c, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(c, CURLOPT_PROXY, ""); /* else the judged address is a proxy's */
    (void)curl_easy_setopt(c, CURLOPT_USERAGENT, USER_AGENT);
    (void)curl_easy_setopt(c, CURLOPT_HTTPHEADER, job->headers);
    (void)curl_easy_setopt(c, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(c, CURLOPT_POSTFIELDS, job->body);
    (void)curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)ask->body_bytes);
    (void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    (void)curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)ask->timeout_ms);
    (void)curl_easy_setopt(c, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    (void)curl_easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_BYTES);
    (void)curl_easy_setopt(c, CURLOPT_ERRORBUFFER, job->why);
    (void)curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    (void)curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, job);
    (void)curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(c, CURLOPT_HEADERDATA, job);
    (void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(c, CURLOPT_WRITEDATA, job);
    /* A name server that is silent holds up its own request only: nobody waits for the thread. */
    (void)curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L);
    /* The system's own certificates come from CURLOPT_CAPATH's preset. */
    if (job->courier->ca_file)
        (void)curl_easy_setopt(c, CURLOPT_CAINFO, job->courier->ca_file);
    if (job->trusted) {
        (void)curl_easy_setopt(c, CURLOPT_FRESH_CONNECT, 1L);
        (void)curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L);
    }
}

static void tell_failure(struct job *job, enum courier_outcome outcome, const char *why)
{
    job->told.outcome = (int32_t)outcome;
    (void)snprintf(job->told.why, sizeof(job->told.why), "%s", why);
    courier_tell(&job->told);
    job_free(job);
}

void job_start(struct courier *c, const struct courier_ask *ask, const char *url,
               const char *headers, const char *body)
{
    struct job *job = xcalloc(1, sizeof(*job));

    job->courier = c;
    job->trusted = ask->trusted == 1;
    job->told.id = ask->id;
    if (take_host(job, url) < 0) {
        tell_failure(job, COURIER_BAD_URL, "that is no URL of http or https");
        return;
    }
    job->body = xmalloc(ask->body_bytes + 1);
    memcpy(job->body, body, ask->body_bytes);
    take_headers(job, headers);
    job->handle = curl_easy_init();
    if (!job->handle)
        abort();
    set_up(job, ask, url);
    if (curl_multi_add_handle(c->multi, job->handle) != CURLM_OK)
        abort();
    c->busy++;
}

/* ---- the end ---- */

static const char *words_of(const struct job *job, CURLcode code)
{
    if (job->why[0])
        return job->why;
    return code == CURLE_OK ? "the head of the answer broke off" : curl_easy_strerror(code);
}

/* connected: somebody was there, so the URL was not what is wrong. */
static enum courier_outcome outcome_of(CURLcode code, bool connected)
{
    switch ((int)code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return COURIER_NO_NAME;
    case CURLE_COULDNT_CONNECT:
        return COURIER_NO_CONNECTION;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        return COURIER_NO_TRUST;
    case CURLE_OPERATION_TIMEDOUT:
        return COURIER_TIMED_OUT;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return connected ? COURIER_BROKEN : COURIER_BAD_URL;
    default:
        return COURIER_BROKEN;
    }
}

static void take_answer(struct job *job)
{
    curl_off_t after = 0, took = 0;
    char *address = NULL;
    long status = 0;

    (void)curl_easy_getinfo(job->handle, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(job->handle, CURLINFO_RETRY_AFTER, &after);
    (void)curl_easy_getinfo(job->handle, CURLINFO_TOTAL_TIME_T, &took);
    (void)curl_easy_getinfo(job->handle, CURLINFO_PRIMARY_IP, &address);
    if (status >= 200 && status <= 599)
        job->told.status = (int32_t)status;
    if (after > 0)
        job->told.retry_after_s = (uint32_t)(after < RETRY_AFTER_S ? after : RETRY_AFTER_S);
    job->told.took_ms = (uint32_t)(took / 1000);
    if (address && address[0])
        (void)snprintf(job->told.address, sizeof(job->told.address), "%s", address);
}

void job_end(struct courier *c, CURL *handle, CURLcode code)
{
    struct job *job = NULL;

    (void)curl_easy_getinfo(handle, CURLINFO_PRIVATE, &job);
    (void)curl_multi_remove_handle(c->multi, handle);
    c->busy--;
    take_answer(job);
    if (job->told.status != 0 && job->head_ended && job->head_bytes <= HEAD_MAX) { /* rule 3 */
        courier_tell(&job->told);
        job_free(job);
    } else if (job->refused && code == CURLE_COULDNT_CONNECT) {
        job->told.status = 0;
        tell_failure(job, COURIER_REFUSED, job->refused);
    } else {
        job->told.status = 0;
        tell_failure(job, outcome_of(code, job->told.address[0] != '\0'), words_of(job, code));
    }
}
