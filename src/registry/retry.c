#include <stdint.h>
#include <sys/random.h>
#include <time.h>

#include "registry/registry_internal.h"

#define LONGEST_MS    8000
#define RETRY_AFTER_S 60 /* a registry that wants us to wait longer is not waited for */

static bool is_transient_status(int status)
{
    return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

/* Doubles each time; between half and all of it, so that many clients do not come back at once. */
static int64_t backoff_ms(unsigned attempt, unsigned first_ms)
{
    int64_t ms = first_ms;
    uint16_t dice = 0;

    for (unsigned i = 1; i < attempt && ms < LONGEST_MS; i++)
        ms *= 2;
    if (ms > LONGEST_MS)
        ms = LONGEST_MS;
    (void)getrandom(&dice, sizeof(dice), GRND_NONBLOCK);
    return ms / 2 + (ms / 2) * dice / UINT16_MAX;
}

static void sleep_ms(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (nanosleep(&left, &left) < 0)
        ;
}

bool retry_again(struct retry *retry, struct endpoint *ep, int r, const struct response *res)
{
    bool may_help = r < 0 ? res->transient : is_transient_status(res->status);
    unsigned most = retry->most;

    /* A wrong address or port fails soon: what never answered is asked twice. */
    if (r < 0 && res->no_answer && !atomic_load(&ep->reached) && most > 2)
        most = 2;
    if (may_help && ++retry->attempt < most && res->retry_after <= RETRY_AFTER_S) {
        int64_t wait = backoff_ms(retry->attempt, ep->registry->retry_ms);

        sleep_ms(res->retry_after > 0 ? res->retry_after * 1000 : wait);
        return true;
    }
    if (r < 0 && res->no_answer && !ep->own)
        atomic_store(&ep->down, true);
    return false;
}
