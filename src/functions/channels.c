#include "functions/channels.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#define UUID_SIZE 37

struct channel {
    int64_t until_ns; /* 0 = this place is free */
    bool taken[2];    /* its reader, its writer */
    char id[UUID_SIZE];
    char keys[2][UUID_SIZE]; /* the reader's, the writer's: to look on is not to type */
    char sandbox_id[ID_SIZE], exec_id[ID_SIZE], token_id[ID_SIZE];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct channel channels[CHANNELS_MAX]; /* under the lock */

static void uuid_new(char ret[UUID_SIZE])
{
    unsigned char b[16];

    if (getrandom(b, sizeof(b), 0) != sizeof(b))
        abort();
    b[6] = (b[6] & 0x0f) | 0x40;
    b[8] = (b[8] & 0x3f) | 0x80;
    (void)snprintf(ret, UUID_SIZE,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                   b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                   b[14], b[15]);
}

/* One that is free, or whose time is over, or the oldest. */
static struct channel *free_place(int64_t now)
{
    struct channel *oldest = &channels[0];

    for (size_t i = 0; i < CHANNELS_MAX; i++) {
        if (channels[i].until_ns <= now)
            return &channels[i];
        if (channels[i].until_ns < oldest->until_ns)
            oldest = &channels[i];
    }
    return oldest;
}

static json_t *end_json(const struct channel *c, bool writer)
{
    return json_pack("{s:s, s:s, s:s}", "channel_id", c->id, "access_key", c->keys[writer],
                     "direction", writer ? "write" : "read");
}

json_t *channel_new(const char *sandbox_id, const char *exec_id, const char *token_id)
{
    struct channel c = {.until_ns = mono_ns() + CHANNEL_LIVES_NS};

    uuid_new(c.id);
    uuid_new(c.keys[false]);
    uuid_new(c.keys[true]);
    (void)snprintf(c.sandbox_id, sizeof(c.sandbox_id), "%s", sandbox_id);
    (void)snprintf(c.exec_id, sizeof(c.exec_id), "%s", exec_id);
    (void)snprintf(c.token_id, sizeof(c.token_id), "%s", token_id);
    (void)pthread_mutex_lock(&lock);
    *free_place(mono_ns()) = c;
    (void)pthread_mutex_unlock(&lock);
    return json_pack("{s:o, s:o}", "writer", end_json(&c, true), "reader", end_json(&c, false));
}

int channel_take(const char *channel_id, const char *key, bool writer, struct channel_end *ret,
                 struct err *err)
{
    int64_t now = mono_ns();
    bool found = false;

    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < CHANNELS_MAX && !found; i++) {
        struct channel *c = &channels[i];

        if (c->until_ns <= now || strcmp(c->id, channel_id) != 0 ||
            !str_equal_secret(c->keys[writer], key))
            continue;
        found = true;
        memcpy(ret->sandbox_id, c->sandbox_id, ID_SIZE);
        memcpy(ret->exec_id, c->exec_id, ID_SIZE);
        memcpy(ret->token_id, c->token_id, ID_SIZE);
        ret->taken = c->taken[writer];
        c->taken[writer] = true;
    }
    (void)pthread_mutex_unlock(&lock);
    if (found)
        return 0;
    return err_code(err, ERR_NOT_FOUND, "channel_not_found",
                    "there is no such channel, its key is another, or nobody came for it in time");
}
