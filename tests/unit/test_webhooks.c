#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "scratch.h"
#include "store/webhooks.h"
#include "tap.h"

/* What is kept of webhooks. */

static struct webhook_store *open_store(void)
{
    struct webhook_store *s;
    struct err err = {0};

    if (webhook_store_open(in_base("."), &s, &err) < 0)
        TAP_FAIL("%s", err.text);
    return s;
}

static struct delivery made(const char *webhook, unsigned n)
{
    struct delivery d = {.state = DELIVERY_RETRYING, .attempts = n, .status = 503, .at_ms = n};

    (void)snprintf(d.id, sizeof(d.id), "dlv_%u", n);
    (void)snprintf(d.webhook, sizeof(d.webhook), "%s", webhook);
    (void)snprintf(d.event, sizeof(d.event), "evt_%u", n);
    (void)snprintf(d.topic, sizeof(d.topic), "topic");
    (void)snprintf(d.error, sizeof(d.error), "timeout");
    return d;
}

struct seen {
    unsigned n;
    struct delivery first, last;
};

static void see(const struct delivery *d, void *arg)
{
    struct seen *s = arg;

    if (s->n++ == 0)
        s->first = *d;
    s->last = *d;
}

TEST(the_last_deliveries_and_the_place_are_there_after_a_restart)
{
    struct webhook_place place = {.webhook = "wh_a", .place = 77};
    struct webhook_store *s;
    struct err err = {0};
    struct seen seen = {0};
    int64_t kept = -1;
    unsigned attempts = 0;

    scratch_make();
    s = open_store();
    CHECK_INT(webhook_store_place(s, "wh_a", &kept, &err), 0);
    CHECK_INT(kept, 0);
    for (unsigned i = 1; i <= WEBHOOK_DELIVERIES + 10; i++) {
        struct delivery d = made("wh_a", i);

        CHECK_INT(webhook_store_write(s, &d, 1, &place, 1, &err), 0);
    }
    webhook_store_close(s);
    s = open_store();
    CHECK_INT(webhook_store_place(s, "wh_a", &kept, &err), 0);
    CHECK_INT(kept, 77);
    CHECK_INT(webhook_store_deliveries(s, "wh_a", 1000, see, &seen, &err), 0);
    CHECK_INT(seen.n, WEBHOOK_DELIVERIES);
    CHECK_STR(seen.first.id, "dlv_110");
    CHECK_STR(seen.last.id, "dlv_11");
    CHECK_STR(seen.first.error, "timeout");
    CHECK_INT(seen.first.status, 503);
    CHECK_INT(webhook_store_attempts(s, "dlv_110", &attempts, &err), 0);
    CHECK_INT(attempts, 110);
    CHECK_INT(webhook_store_attempts(s, "dlv_1", &attempts, &err), 0);
    CHECK_INT(attempts, 0);
    webhook_store_close(s);
}

TEST(an_attempt_replaces_the_one_before_and_others_are_left_alone)
{
    struct delivery d, other;
    struct webhook_store *s;
    struct err err = {0};
    struct seen seen = {0};

    scratch_make();
    s = open_store();
    d = made("wh_a", 1);
    other = made("wh_b", 2);
    CHECK_INT(webhook_store_write(s, &d, 1, NULL, 0, &err), 0);
    CHECK_INT(webhook_store_write(s, &other, 1, NULL, 0, &err), 0);
    d.state = DELIVERY_DELIVERED;
    d.attempts = 2;
    CHECK_INT(webhook_store_write(s, &d, 1, NULL, 0, &err), 0);
    CHECK_INT(webhook_store_deliveries(s, "wh_a", 10, see, &seen, &err), 0);
    CHECK_INT(seen.n, 1);
    CHECK_INT(seen.first.state, DELIVERY_DELIVERED);
    CHECK_INT(seen.first.attempts, 2);
    CHECK_INT(webhook_store_forget(s, "wh_a", &err), 0);
    seen.n = 0;
    CHECK_INT(webhook_store_deliveries(s, "wh_a", 10, see, &seen, &err), 0);
    CHECK_INT(seen.n, 0);
    CHECK_INT(webhook_store_deliveries(s, "wh_b", 10, see, &seen, &err), 0);
    CHECK_INT(seen.n, 1);
    webhook_store_close(s);
}

TAP_MAIN
