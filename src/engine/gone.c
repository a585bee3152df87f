#include "engine/gone_internal.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/engine_internal.h"
#include "engine/sandbox_internal.h"
#include "store/store.h"

void gone_note(struct engine *e, struct sandbox *sb, enum removal why)
{
    bool expired = why == REMOVED_BY_EXPIRY || why == REMOVED_BY_COUNT || why == REMOVED_BY_DISK;
    struct gone_sandbox gone = {.ended_ms = now_ms(), .expired = expired};

    (void)snprintf(gone.id, sizeof(gone.id), "%s", sb->box.id);
    pthread_mutex_lock(&sb->lock);
    (void)snprintf(gone.name, sizeof(gone.name), "%s", sb->spec.name ? sb->spec.name : "");
    /* One that was renewed expired at another time. */
    if (sb->expires_ms == sb->created_ms + sb->spec.timeout_s * 1000LL)
        gone.timeout_s = sb->spec.timeout_s;
    pthread_mutex_unlock(&sb->lock);
    store_put_gone(e->store, &gone);
}

/* "just now", "3 minutes ago" */
static void put_ago(int64_t ms, char ret[32])
{
    long long s = ms > 0 ? ms / 1000 : 0, n = s < 120 ? s : s / 60;

    if (n == 0)
        (void)snprintf(ret, 32, "just now");
    else
        (void)snprintf(ret, 32, "%lld %s%s ago", n, s < 120 ? "second" : "minute",
                       n == 1 ? "" : "s");
}

int gone_explain(struct engine *e, const char *word, struct err *err)
{
    struct gone_sandbox gone;
    char ago[32];

    if (!store_find_gone(e->store, word, &gone))
        return err_code(err, ERR_NOT_FOUND, "sandbox_not_found", "Sandbox not found: %s", word);
    put_ago(now_ms() - gone.ended_ms, ago);
    if (!gone.expired)
        return err_code(err, ERR_NOT_FOUND, "sandbox_removed",
                        "Sandbox not found: %s was removed %s", word, ago);
    /* Its end was moved, or it was stopped at its end and removed later, mostly to make room. */
    if (!gone.timeout_s)
        return err_code(err, ERR_NOT_FOUND, "sandbox_expired",
                        "Sandbox not found: %s had expired and was removed %s", word, ago);
    return err_code(err, ERR_NOT_FOUND, "sandbox_expired",
                    "Sandbox not found: %s expired %s (its timeout was %u s)", word, ago,
                    gone.timeout_s);
}
