#include "rest/ratelimit.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"

/* Keys are tokens that passed the check, so there are few; a full table gives up the bucket that
 * has been idle longest. */
#define BUCKETS_MAX 64

struct bucket {
    char *key;
    double tokens;
    int64_t at_ns; /* when tokens was right */
};

struct ratelimit {
    pthread_mutex_t lock;
    double per_ns, burst;
    struct bucket buckets[BUCKETS_MAX];
    unsigned n;
};

struct ratelimit *ratelimit_new(unsigned per_minute, unsigned burst)
{
    struct ratelimit *r = xcalloc(1, sizeof(*r));

    (void)pthread_mutex_init(&r->lock, NULL);
    r->per_ns = per_minute / 60e9;
    r->burst = burst;
    return r;
}

void ratelimit_free(struct ratelimit *r)
{
    if (!r)
        return;
    for (unsigned i = 0; i < r->n; i++)
        free(r->buckets[i].key);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

static struct bucket *find_bucket(struct ratelimit *r, const char *key, int64_t now)
{
    struct bucket *oldest = &r->buckets[0];

    for (unsigned i = 0; i < r->n; i++) {
        if (strcmp(r->buckets[i].key, key) == 0)
            return &r->buckets[i];
        if (r->buckets[i].at_ns < oldest->at_ns)
            oldest = &r->buckets[i];
    }
    if (r->n < BUCKETS_MAX)
        oldest = &r->buckets[r->n++];
    free(oldest->key);
    *oldest = (struct bucket){.key = xstrdup(key), .tokens = r->burst, .at_ns = now};
    return oldest;
}

unsigned ratelimit_take(struct ratelimit *r, const char *key, int64_t mono_ns)
{
    struct bucket *b;
    unsigned wait = 0;

    (void)pthread_mutex_lock(&r->lock);
    b = find_bucket(r, key, mono_ns);
    if (mono_ns > b->at_ns) {
        b->tokens = fmin(r->burst, b->tokens + (double)(mono_ns - b->at_ns) * r->per_ns);
        b->at_ns = mono_ns;
    }
    if (b->tokens >= 1)
        b->tokens -= 1;
    else
        wait = (unsigned)fmax(1, ceil((1 - b->tokens) / r->per_ns / 1e9));
    (void)pthread_mutex_unlock(&r->lock);
    return wait;
}
