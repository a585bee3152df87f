/* An event that is sent because somebody wants to see whether it arrives. It is none of those that
 * are kept. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "service/webhooks_internal.h"

#define TESTS_MAX 16 /* at once: what they take of the courier is not there for others */

/* Of who waits, and of the flight: the last one frees it. */
struct webhook_test {
    atomic_uint refs;
    int fd; /* an eventfd */
    struct delivery delivery;
};

void webhook_test_unref(struct webhook_test *t)
{
    if (atomic_fetch_sub(&t->refs, 1) > 1)
        return;
    close_fd(&t->fd);
    free(t);
}

void webhook_test_landed(struct flight *f, struct delivery *ret)
{
    struct webhook_test *t = f->test;
    struct delivery *d = &t->delivery;

    flight_put(f, d);
    d->attempts = 1;
    d->state = d->status / 100 == 2 ? DELIVERY_DELIVERED : DELIVERY_FAILED;
    *ret = *d;
}

void webhook_test_tell(struct flight *f)
{
    uint64_t one = 1;

    (void)write_all(f->test->fd, &one, sizeof(one));
    webhook_test_unref(f->test);
    f->test = NULL;
}

static char *test_body(const struct delivery *d)
{
    json_t *event =
        json_pack("{s:s, s:s, s:s, s:{s:s}, s:I}", "id", d->event, "topic", d->topic, "sandboxId",
                  "", "data", "webhookId", d->webhook, "timestamp", (json_int_t)now_ms());
    char *text = json_dumps(event, JSON_COMPACT);

    json_decref(event);
    return text;
}

/* Under the lock. */
static int send(struct webhooks *w, const struct hook *h, struct webhook_test *t, struct err *err)
{
    struct flight *f = xcalloc(1, sizeof(*f));
    struct delivery *d = &t->delivery;
    auto_free char *body = NULL;

    id_new(d->event, "evt");
    memcpy(d->webhook, h->id, sizeof(d->webhook));
    (void)snprintf(d->topic, sizeof(d->topic), WEBHOOK_TEST_TOPIC);
    webhook_delivery_id(h->id, d->event, d->id);
    body = test_body(d);
    f->test = t;
    (void)atomic_fetch_add(&t->refs, 1);
    if (webhook_send(w, h, d, 1, body, strlen(body), f, err) == 0) {
        w->tests++;
        return 0;
    }
    webhook_test_unref(t);
    free(f);
    return -1;
}

int webhook_test_begin(struct webhooks *w, const char *id, struct webhook_test **ret,
                       struct err *err)
{
    struct webhook_test *t = xcalloc(1, sizeof(*t));
    struct hook *h;
    int r = -1;

    atomic_init(&t->refs, 1);
    t->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_lock(&w->lock);
    h = hook_find(w, id);
    if (!h)
        (void)err_code(err, ERR_NOT_FOUND, "webhook_not_found", "Webhook not found: %.60s", id);
    else if (t->fd < 0)
        (void)err_code(err, ERR_UNAVAILABLE, "busy", "the daemon has no descriptor left");
    else if (w->tests >= TESTS_MAX)
        (void)err_code(err, ERR_LIMIT, "courier_busy",
                       "%u tests are on their way; try again when one has ended", w->tests);
    else
        r = send(w, h, t, err);
    pthread_mutex_unlock(&w->lock);
    if (r < 0) {
        webhook_test_unref(t);
        return -1;
    }
    *ret = t;
    return 0;
}

int webhook_test_fd(const struct webhook_test *t)
{
    return t->fd;
}

json_t *webhook_test_take(struct webhook_test *t)
{
    uint64_t one;

    /* What was written before is seen by who has read it. */
    return read_some(t->fd, &one, sizeof(one)) == sizeof(one) ? delivery_json(&t->delivery) : NULL;
}

void webhook_test_free(struct webhook_test *t)
{
    if (t)
        webhook_test_unref(t);
}
