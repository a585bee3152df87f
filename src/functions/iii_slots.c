#include "functions/iii_slots.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/metrics.h"

struct slot {
    struct slot *next;
    uint32_t used; /* never 0: then it is freed */
    char id[ID_SIZE];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot *hash[256];
static uint32_t places;

/* With the lock held: where it is, or would be. */
static struct slot **find(const char *id)
{
    struct slot **at = &hash[str_hash(id) % ARRAY_LEN(hash)];

    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

int iii_slot_take(const char *sandbox_id, uint32_t max, const char *source, struct err *err)
{
    struct slot **at;
    bool full;

    pthread_mutex_lock(&lock);
    at = find(sandbox_id);
    full = *at && (*at)->used >= (max ? max : 1);
    if (!full && !*at) {
        *at = xcalloc(1, sizeof(**at));
        (void)snprintf((*at)->id, sizeof((*at)->id), "%s", sandbox_id);
    }
    if (!full)
        (*at)->used++;
    pthread_mutex_unlock(&lock);
    if (!full)
        return 0;
    return err_code(err, ERR_LIMIT, "exec_slots_full",
                    "the limit on commands at once in this sandbox is reached: %u (%s)",
                    max ? max : 1, source);
}

void iii_slot_give(const char *sandbox_id)
{
    struct slot **at;

    pthread_mutex_lock(&lock);
    at = find(sandbox_id);
    if (*at && --(*at)->used == 0) {
        struct slot *empty = *at;

        *at = empty->next;
        free(empty);
    }
    pthread_mutex_unlock(&lock);
}

uint32_t iii_slots_used(const char *sandbox_id)
{
    struct slot **at;
    uint32_t n;

    pthread_mutex_lock(&lock);
    at = find(sandbox_id);
    n = *at ? (*at)->used : 0;
    pthread_mutex_unlock(&lock);
    return n;
}

/* Counted with the lock held: whoever gave a place back before us is among those that live. */
int iii_place_take(struct engine *e, uint32_t max, const char *source, struct err *err)
{
    unsigned states[SANDBOX_STATES];
    bool full;

    pthread_mutex_lock(&lock);
    engine_count_states(e, states);
    full = max > 0 && states[SANDBOX_RUNNING] + states[SANDBOX_PAUSED] + places >= max;
    places += !full;
    pthread_mutex_unlock(&lock);
    return full ? err_code(err, ERR_LIMIT, "sandbox_limit",
                           "the limit on live sandboxes is reached: %u (%s)", max, source)
                : 0;
}

void iii_place_give(void)
{
    pthread_mutex_lock(&lock);
    places--;
    pthread_mutex_unlock(&lock);
}
