#include "functions/rates.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/setting.h"
#include "engine/sandboxes.h"
#include "functions/function.h"

#define CALLERS_MAX   4096  /* who has proved nothing shares one */
#define SANDBOXES_MAX 16384 /* more than there can be */

/* ---- buckets ---- */

struct bucket {
    struct bucket *next;
    double tokens;
    int64_t at_ns; /* when tokens was right */
    char key[];
};

struct buckets {
    pthread_mutex_t lock;
    double per_ns, burst;
    unsigned per_minute, max, n;
    struct bucket *hash[1024];
};

struct buckets *buckets_new(unsigned per_minute, unsigned burst, unsigned max)
{
    struct buckets *b = xcalloc(1, sizeof(*b));

    (void)pthread_mutex_init(&b->lock, NULL);
    b->per_minute = per_minute;
    b->per_ns = per_minute / 60e9;
    b->burst = burst;
    b->max = max;
    return b;
}

/* Those that were last used before a time. */
static void drop_before(struct buckets *b, int64_t at_ns)
{
    for (size_t i = 0; i < ARRAY_LEN(b->hash); i++)
        for (struct bucket **p = &b->hash[i]; *p;) {
            struct bucket *x = *p;

            if (x->at_ns >= at_ns) {
                p = &x->next;
                continue;
            }
            *p = x->next;
            free(x);
            b->n--;
        }
}

void buckets_free(struct buckets *b)
{
    if (!b)
        return;
    drop_before(b, INT64_MAX);
    (void)pthread_mutex_destroy(&b->lock);
    free(b);
}

unsigned buckets_count(struct buckets *b)
{
    unsigned n;

    pthread_mutex_lock(&b->lock);
    n = b->n;
    pthread_mutex_unlock(&b->lock);
    return n;
}

static int64_t oldest_of(const struct buckets *b)
{
    int64_t oldest = INT64_MAX;

    for (size_t i = 0; i < ARRAY_LEN(b->hash); i++)
        for (const struct bucket *x = b->hash[i]; x; x = x->next)
            if (x->at_ns < oldest)
                oldest = x->at_ns;
    return oldest;
}

/* One that was not used for as long as it takes to fill is full. */
static void make_room(struct buckets *b, int64_t now)
{
    if (b->n < b->max)
        return;
    drop_before(b, now - (int64_t)(b->burst / b->per_ns));
    if (b->n >= b->max)
        drop_before(b, oldest_of(b) + 1);
}

static struct bucket **chain_of(struct buckets *b, const char *key)
{
    uint32_t h = 2166136261u;

    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 16777619u;
    return &b->hash[h % ARRAY_LEN(b->hash)];
}

static struct bucket *find(struct buckets *b, const char *key, int64_t now)
{
    struct bucket **chain = chain_of(b, key), *x = *chain;

    while (x && strcmp(x->key, key) != 0)
        x = x->next;
    if (x)
        return x;
    make_room(b, now);
    x = xcalloc(1, sizeof(*x) + strlen(key) + 1);
    memcpy(x->key, key, strlen(key) + 1);
    x->tokens = b->burst;
    x->at_ns = now;
    x->next = *chain;
    *chain = x;
    b->n++;
    return x;
}

unsigned buckets_take(struct buckets *b, const char *key, int64_t mono_ns, struct rate_state *ret)
{
    struct bucket *x;
    unsigned wait = 0;

    (void)pthread_mutex_lock(&b->lock);
    x = find(b, key, mono_ns);
    if (mono_ns > x->at_ns) {
        x->tokens = fmin(b->burst, x->tokens + (double)(mono_ns - x->at_ns) * b->per_ns);
        x->at_ns = mono_ns;
    }
    if (x->tokens >= 1)
        x->tokens -= 1;
    else
        wait = (unsigned)fmax(1, ceil((1 - x->tokens) / b->per_ns / 1e9));
    *ret = (struct rate_state){
        .per_minute = b->per_minute,
        .limit = (unsigned)b->burst,
        .remaining = (unsigned)x->tokens,
        .reset_s = (unsigned)ceil((b->burst - x->tokens) / b->per_ns / 1e9),
    };
    (void)pthread_mutex_unlock(&b->lock);
    return wait;
}

/* ---- the rates ---- */

struct rates {
    struct rates_config config;
    struct buckets *callers, *execs, *files;
};

struct rates *rates_new(const struct rates_config *config)
{
    struct rates *r = xcalloc(1, sizeof(*r));

    r->config = *config;
    r->callers = buckets_new(config->caller_rpm, config->caller_burst, CALLERS_MAX);
    r->execs = buckets_new(config->exec_pm, config->exec_pm, SANDBOXES_MAX);
    r->files = buckets_new(config->file_pm, config->file_pm, SANDBOXES_MAX);
    return r;
}

void rates_free(struct rates *r)
{
    if (!r)
        return;
    buckets_free(r->callers);
    buckets_free(r->execs);
    buckets_free(r->files);
    free(r);
}

int rates_take_caller(struct rates *r, const char *name, int64_t mono_ns, struct rate_state *ret,
                      struct err *err)
{
    unsigned wait = buckets_take(r->callers, name, mono_ns, ret);

    if (wait == 0)
        return 0;
    (void)err_code(err, ERR_LIMIT, "rate_limited",
                   "Rate limit exceeded: %u requests a minute, %u at once (%s, %s)",
                   r->config.caller_rpm, r->config.caller_burst,
                   setting_name("CAY_RATE_TOKEN_RPM", "III_RATE_TOKEN_RPM"),
                   setting_name("CAY_RATE_TOKEN_BURST", "III_RATE_TOKEN_BURST"));
    err->retry_s = wait;
    return -1;
}

static void keep_scarcer(struct rate_state *now, const struct rate_state *more)
{
    if (now->limit == 0 || more->remaining < now->remaining)
        *now = *more;
}

/* Only of a sandbox that there is: made-up ids would take the place of others. */
int rates_take_row(struct call *call, int64_t mono_ns, struct err *err)
{
    struct rates *r = call->rates;
    enum rate rate = call->function->rate;
    struct rate_state state;
    unsigned wait;

    if (!r || rate == RATE_NONE || !call->sandbox_id[0] ||
        !engine_has(call->engine, call->sandbox_id))
        return 0;
    wait = buckets_take(rate == RATE_EXEC ? r->execs : r->files, call->sandbox_id, mono_ns, &state);
    keep_scarcer(&call->rate, &state);
    if (wait == 0)
        return 0;
    (void)err_code(err, ERR_LIMIT, "rate_limited",
                   "Rate limit exceeded: %u %s a minute for one sandbox (%s)", state.per_minute,
                   rate == RATE_EXEC ? "commands" : "calls for files",
                   rate == RATE_EXEC ? setting_name("CAY_RATE_SBX_EXEC_PM", "III_RATE_SBX_EXEC_PM")
                                     : setting_name("CAY_RATE_SBX_FS_PM", "III_RATE_SBX_FS_PM"));
    err->retry_s = wait;
    return -1;
}
