#include "service/otlp.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/setting.h"
#include "base/str.h"
#include "service/courier.h"
#include "service/otlp_json.h"
#include "service/prometheus.h"

#define TRACES_PATH   "/v1/traces"
#define BATCH         512
#define GATHER_MS     2000 /* after the first of a batch */
#define TRIES         6
#define AGAIN_MS      1000 /* doubled with each try, */
#define AGAIN_MAX_MS  30000
#define STOP_MS       3000
#define HEADERS_MAX   (8u << 10)
#define TOLD_NS       (60 * 1000000000ll)
#define NS_PER_MS     1000000ll
#define NS_PER_SECOND 1000000000ll

struct otlp {
    struct courier *courier;
    char *url, *service;
    char **headers;
    char host[256];
    pthread_t thread;
    bool runs;

    pthread_mutex_t lock;
    pthread_cond_t news;
    struct trace waiting[OTLP_WAITING_MAX];
    size_t n;
    bool stops;
    int64_t give_up_ns;                     /* of one that stops */
    enum { IDLE, SENDING, ANSWERED } state; /* one message at a time */
    int status;
    unsigned retry_after_s;
    char why[120];
    uint64_t sent, lost;
    int64_t told_ns[2];
};

/* ---- configuration ---- */

bool otlp_is_endpoint(const char *text)
{
    return str_starts(text, "http://") || str_starts(text, "https://");
}

/* Without slashes at its end. */
static char *traces_url(const char *endpoint)
{
    auto_free char *base = xstrdup(endpoint);
    size_t len = strlen(base);

    while (len > 0 && base[len - 1] == '/')
        base[--len] = '\0';
    return xasprintf("%s%s", base, str_ends(base, TRACES_PATH) ? "" : TRACES_PATH);
}

static int hex_value(char c)
{
    const char *digits = "0123456789abcdef", *at = strchr(digits, c | 0x20);

    return c && at ? (int)(at - digits) : -1;
}

/* As one header; -1 when it is none. */
static int add_header(char ***headers, const char *text, size_t len)
{
    const char *equal = memchr(text, '=', len);
    auto_buf struct buf line = {0};

    if (!equal || equal == text)
        return -1;
    buf_init(&line, HEADERS_MAX);
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (text + i == equal) {
            (void)buf_add_str(&line, ": ");
            continue;
        }
        if (c == '%' && i + 2 < len && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0) {
            c = (char)(hex_value(text[i + 1]) << 4 | hex_value(text[i + 2]));
            i += 2;
        }
        if ((unsigned char)c < 0x20 || c == 0x7f)
            return -1;
        (void)buf_add(&line, &c, 1);
    }
    *headers = strv_add(*headers, line.data);
    return 0;
}

static int read_headers(struct otlp *o, const char *text, struct err *err)
{
    o->headers = strv_add(NULL, "Content-Type: application/json");
    while (text && *text) {
        size_t len = strcspn(text, ",");

        while (len > 0 && *text == ' ') {
            text++;
            len--;
        }
        if (len > 0 && add_header(&o->headers, text, len) < 0)
            return err_set(err, ERR_INVALID, "%s must be name=value,name=value, percent-encoded",
                           setting_name("CAY_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"));
        text += len;
        text += *text == ',';
    }
    return 0;
}

int otlp_new(const struct otlp_config *config, struct courier *courier, struct otlp **ret,
             struct err *err)
{
    struct otlp *o;
    pthread_condattr_t monotonic;

    if (!otlp_is_endpoint(config->endpoint))
        return err_set(err, ERR_INVALID,
                       "CAY_OTLP_ENDPOINT must begin with http:// or https://, not \"%s\"",
                       config->endpoint);
    o = xcalloc(1, sizeof(*o));
    o->courier = courier;
    o->url = traces_url(config->endpoint);
    o->service = xstrdup(config->service);
    if (gethostname(o->host, sizeof(o->host) - 1) < 0)
        o->host[0] = '\0';
    pthread_mutex_init(&o->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&o->news, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    if (read_headers(o, config->headers, err) < 0) {
        otlp_free(o);
        return -1;
    }
    *ret = o;
    return 0;
}

void otlp_free(struct otlp *o)
{
    if (!o)
        return;
    free(o->url);
    free(o->service);
    strv_free(o->headers);
    pthread_cond_destroy(&o->news);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

/* ---- what waits ---- */

/* Who began the trace says whether it is to be kept. */
static bool is_wanted(const struct trace *t)
{
    return t->context.flags & TRACE_SAMPLED;
}

void otlp_take(const struct trace *traces, size_t n, void *arg)
{
    struct otlp *o = arg;

    pthread_mutex_lock(&o->lock);
    for (size_t i = 0; i < n; i++) {
        if (!is_wanted(&traces[i]))
            continue;
        if (o->n < OTLP_WAITING_MAX)
            o->waiting[o->n++] = traces[i];
        else
            o->lost++;
    }
    if (o->n > 0)
        pthread_cond_broadcast(&o->news);
    pthread_mutex_unlock(&o->lock);
}

/* Waits for news, at most until then (mono_ns); false when the time has come. With the lock. */
static bool wait_until(struct otlp *o, int64_t until_ns)
{
    struct timespec t = {until_ns / NS_PER_SECOND, until_ns % NS_PER_SECOND};

    return pthread_cond_timedwait(&o->news, &o->lock, &t) == 0;
}

/* ---- one message ---- */

static void on_answer(const struct courier_answer *answer, void *arg)
{
    struct otlp *o = arg;

    pthread_mutex_lock(&o->lock);
    o->state = ANSWERED;
    o->status = answer->status;
    o->retry_after_s = answer->retry_after_s;
    if (answer->status)
        (void)snprintf(o->why, sizeof(o->why), "it answered %d", answer->status);
    else
        (void)snprintf(o->why, sizeof(o->why), "%s", answer->text);
    pthread_cond_broadcast(&o->news);
    pthread_mutex_unlock(&o->lock);
}

static bool is_good(int status)
{
    return status >= 200 && status < 300;
}

/* As the protocol says: no answer, too many requests, or somebody on the way that is not there. */
static bool is_worth_another_try(int status)
{
    return status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
}

static bool is_late(const struct otlp *o)
{
    return o->stops && mono_ns() >= o->give_up_ns;
}

/* With the lock, which is given back while the message is under way. */
static void send_once(struct otlp *o, const char *body)
{
    const struct courier_request request = {.url = o->url,
                                            .headers = o->headers,
                                            .body = body,
                                            .body_len = strlen(body),
                                            .trusted = true};
    struct err err = {0};

    o->state = SENDING;
    pthread_mutex_unlock(&o->lock);
    if (courier_post(o->courier, &request, on_answer, o, &err) < 0)
        on_answer(&(struct courier_answer){.text = err.text}, o);
    pthread_mutex_lock(&o->lock);
    while (o->state == SENDING && !is_late(o)) /* if late, the courier tells us when it stops */
        (void)wait_until(o, o->stops ? o->give_up_ns : mono_ns() + NS_PER_SECOND);
}

/* Each of the two at most once a minute: every call would be a line. */
static void tell_failure(struct otlp *o, bool lost)
{
    int64_t *told_ns = &o->told_ns[lost];

    if (*told_ns && mono_ns() - *told_ns < TOLD_NS)
        return;
    *told_ns = mono_ns();
    log_warn(lost ? "traces did not reach the collector and are lost; going on"
                  : "traces do not reach the collector; trying again",
             "url", o->url, "error", o->why);
}

/* Until the next try; with jitter, so that many do not come at once. */
static void rest(struct otlp *o, unsigned try)
{
    int64_t ms = AGAIN_MS << try, until;

    if (ms > AGAIN_MAX_MS)
        ms = AGAIN_MAX_MS;
    ms = ms / 2 + random() % (ms / 2 + 1);
    if (o->retry_after_s * 1000ll > ms)
        ms = o->retry_after_s < 60 ? o->retry_after_s * 1000ll : 60000;
    until = mono_ns() + ms * NS_PER_MS;
    while (!o->stops && mono_ns() < until)
        (void)wait_until(o, until);
}

/* The first n of what waits. With the lock. */
static void send_batch(struct otlp *o, size_t n)
{
    auto_free char *body = otlp_json(o->waiting, n, o->service, o->host);
    bool good = false;

    for (unsigned try = 0; try < TRIES && !good; try++) {
        send_once(o, body);
        good = o->state == ANSWERED && is_good(o->status);
        if (good || o->state == SENDING || !is_worth_another_try(o->status) || o->stops)
            break;
        tell_failure(o, false);
        rest(o, try);
    }
    if (good)
        o->sent += n;
    else
        o->lost += n;
    if (!good && o->state == ANSWERED)
        tell_failure(o, true);
    o->n -= n;
    memmove(o->waiting, o->waiting + n, o->n * sizeof(*o->waiting));
}

/* Until there is a batch, some time has passed since its first, or the daemon stops. */
static void gather(struct otlp *o)
{
    int64_t until;

    while (o->n == 0 && !o->stops)
        (void)pthread_cond_wait(&o->news, &o->lock);
    until = mono_ns() + GATHER_MS * NS_PER_MS;
    while (o->n < BATCH && !o->stops && mono_ns() < until)
        (void)wait_until(o, until);
}

static void *run(void *arg)
{
    struct otlp *o = arg;

    pthread_mutex_lock(&o->lock);
    while (!o->stops) {
        gather(o);
        if (o->n > 0)
            send_batch(o, o->n < BATCH ? o->n : BATCH);
    }
    while (o->n > 0 && o->state != SENDING && !is_late(o))
        send_batch(o, o->n < BATCH ? o->n : BATCH);
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

/* ---- its life ---- */

int otlp_start(struct otlp *o, struct err *err)
{
    int r = pthread_create(&o->thread, NULL, run, o);

    if (r != 0)
        return err_sys(err, r, "start the thread that sends traces");
    o->runs = true;
    return 0;
}

void otlp_stop(struct otlp *o)
{
    if (!o || !o->runs)
        return;
    pthread_mutex_lock(&o->lock);
    o->stops = true;
    o->give_up_ns = mono_ns() + STOP_MS * NS_PER_MS;
    pthread_cond_broadcast(&o->news);
    pthread_mutex_unlock(&o->lock);
    (void)pthread_join(o->thread, NULL);
    o->runs = false;
}

void otlp_prometheus(struct otlp *o, struct prometheus *p)
{
    pthread_mutex_lock(&o->lock);
    prometheus_counter(p, "cay_otlp_spans_sent_total", (double)o->sent,
                       "Traces that the collector has taken.");
    prometheus_counter(p, "cay_otlp_spans_lost_total", (double)o->lost,
                       "Traces that did not reach the collector.");
    prometheus_gauge(p, "cay_otlp_spans_waiting", (double)o->n,
                     "Traces that are to be sent to the collector.");
    pthread_mutex_unlock(&o->lock);
}
