/* One message: its signature, its headers, and its way to the courier and back. */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "service/webhooks_internal.h"

#define DIGEST_BYTES 32

static void to_hex(const unsigned char *bytes, size_t n, char *ret)
{
    for (size_t i = 0; i < n; i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

void webhook_delivery_id(const char *webhook, const char *event, char ret[ID_SIZE])
{
    unsigned char digest[DIGEST_BYTES];
    char text[2 * ID_SIZE + 1], hex[2 * 12 + 1];
    int n = snprintf(text, sizeof(text), "%s %s", webhook, event);

    if (EVP_Digest(text, (size_t)n, digest, NULL, EVP_sha256(), NULL) != 1)
        abort();
    to_hex(digest, 12, hex);
    (void)snprintf(ret, ID_SIZE, "dlv_%s", hex);
}

/* HMAC-SHA256 of "<time>.<body>" with the secret's text. */
static char *signature(const char *secret, const char *time, const char *body, size_t len)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned n = sizeof(mac);
    size_t head = strlen(time) + 1;
    auto_free char *text = xmalloc(head + len + 1);
    char hex[2 * DIGEST_BYTES + 1];

    (void)snprintf(text, head + 1, "%s.", time);
    memcpy(text + head, body, len);
    if (!HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)text, head + len,
              mac, &n) ||
        n != DIGEST_BYTES)
        abort();
    to_hex(mac, n, hex);
    return xasprintf("X-Cay-Signature: sha256=%s", hex);
}

static char **add(char **headers, char *line)
{
    headers = strv_add(headers, line);
    free(line);
    return headers;
}

static void on_landed(const struct courier_answer *answer, void *arg)
{
    struct flight *f = arg;
    struct webhooks *w = f->webhooks;

    f->result.status = answer->status;
    f->result.took_ms = answer->took_ms;
    f->retry_after_s = answer->retry_after_s;
    (void)snprintf(f->result.error, sizeof(f->result.error), "%s",
                   answer->word ? answer->word : "");
    (void)snprintf(f->result.message, sizeof(f->result.message), "%.160s", answer->text);
    (void)snprintf(f->result.address, sizeof(f->result.address), "%.47s", answer->address);
    pthread_mutex_lock(&w->landed_lock);
    STAILQ_INSERT_TAIL(&w->landed, f, link);
    pthread_mutex_unlock(&w->landed_lock);
    webhooks_wake(w);
}

void flight_put(const struct flight *f, struct delivery *d)
{
    d->status = f->result.status;
    d->took_ms = f->result.took_ms;
    memcpy(d->error, f->result.error, sizeof(d->error));
    memcpy(d->message, f->result.message, sizeof(d->message));
    memcpy(d->address, f->result.address, sizeof(d->address));
    d->at_ms = now_ms();
}

int webhook_send(struct webhooks *w, const struct hook *h, const struct delivery *d,
                 unsigned attempt, const char *body, size_t len, struct flight *f, struct err *err)
{
    auto_free char *time = xasprintf("%lld", (long long)(now_ms() / 1000));
    auto_strv char **headers = strv_add(NULL, "Content-Type: application/json");
    struct courier_request request = {
        .url = h->url, .body = body, .body_len = len, .timeout_ms = w->config.timeout_s * 1000};

    headers = add(headers, xasprintf("X-Cay-Event: %s", d->topic));
    headers = add(headers, xasprintf("X-Cay-Webhook: %s", h->id));
    headers = add(headers, xasprintf("X-Cay-Delivery: %s", d->id));
    headers = add(headers, xasprintf("X-Cay-Attempt: %u", attempt));
    headers = add(headers, xasprintf("X-Cay-Timestamp: %s", time));
    headers = add(headers, signature(h->secret, time, body, len));
    request.headers = headers;
    f->webhooks = w;
    return courier_post(w->courier, &request, on_landed, f, err);
}
