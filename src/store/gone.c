#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/str.h"
#include "store/store_internal.h"

/* Sandboxes that are no more: a ring in memory, and the same in the file <data>/gone, which is
 * written record by record and never synced. It is there to answer people, and nothing depends on
 * it: what cannot be written or read is not remembered. */

#define KEEP_MS (3600 * 1000LL)
#define MAGIC   0x31656e6f67796163ull /* "caygone1" */

struct gone_record {
    uint64_t magic;
    int64_t ended_ms;
    uint32_t timeout_s, expired;
    char id[ID_SIZE];
    char name[GONE_NAME_SIZE];
};

struct gone_ring {
    pthread_mutex_t lock;
    int fd;
    unsigned next; /* the place of the next record */
    struct gone_record ring[STORE_GONE_MAX];
};

static bool is_whole(const struct gone_record *r)
{
    return r->magic == MAGIC && r->id[ID_SIZE - 1] == '\0' && id_valid(r->id, "sbx") &&
           r->name[GONE_NAME_SIZE - 1] == '\0' && utf8_valid(r->name, strlen(r->name));
}

static void load(struct gone_ring *g)
{
    int64_t newest = 0;

    if (pread(g->fd, g->ring, sizeof(g->ring), 0) < 0)
        return;
    for (unsigned i = 0; i < STORE_GONE_MAX; i++) {
        struct gone_record *r = &g->ring[i];

        if (!is_whole(r)) {
            *r = (struct gone_record){0};
        } else if (r->ended_ms >= newest) {
            newest = r->ended_ms;
            g->next = (i + 1) % STORE_GONE_MAX;
        }
    }
}

void store_open_gone(struct store *s, const char *data_dir)
{
    auto_free char *path = xasprintf("%s/gone", data_dir);
    struct gone_ring *g = xcalloc(1, sizeof(*g));
    struct err err = {0};

    pthread_mutex_init(&g->lock, NULL);
    g->fd = regular_open(AT_FDCWD, path, O_RDWR | O_CREAT, 0600, &err);
    if (g->fd < 0)
        log_warn("sandboxes that are removed are remembered until the next start only", "error",
                 err.text);
    else
        load(g);
    s->gone = g;
}

void store_close_gone(struct store *s)
{
    if (!s->gone)
        return;
    close_fd(&s->gone->fd);
    pthread_mutex_destroy(&s->gone->lock);
    free(s->gone);
}

void store_put_gone(struct store *s, const struct gone_sandbox *sandbox)
{
    struct gone_ring *g = s->gone;
    struct gone_record r = {.magic = MAGIC,
                            .ended_ms = sandbox->ended_ms,
                            .timeout_s = sandbox->timeout_s,
                            .expired = sandbox->expired};

    (void)snprintf(r.id, sizeof(r.id), "%s", sandbox->id);
    if (strlen(sandbox->name) < sizeof(r.name)) /* else it is known by its id */
        memcpy(r.name, sandbox->name, strlen(sandbox->name));
    pthread_mutex_lock(&g->lock);
    g->ring[g->next] = r;
    if (g->fd >= 0)
        (void)!pwrite(g->fd, &r, sizeof(r), (off_t)(g->next * sizeof(r)));
    g->next = (g->next + 1) % STORE_GONE_MAX;
    pthread_mutex_unlock(&g->lock);
}

/* The newest first: names are used again. A name that looks like an id is not asked for. */
static const struct gone_record *find(const struct gone_ring *g, const char *word, int64_t now)
{
    bool by_id = sandbox_name_is_like_id(word);

    if (!*word)
        return NULL;
    for (unsigned i = 1; i <= STORE_GONE_MAX; i++) {
        const struct gone_record *r = &g->ring[(g->next + STORE_GONE_MAX - i) % STORE_GONE_MAX];

        if (r->magic == 0)
            return NULL;
        if (now - r->ended_ms < KEEP_MS && strcmp(by_id ? r->id : r->name, word) == 0)
            return r;
    }
    return NULL;
}

bool store_find_gone(struct store *s, const char *word, struct gone_sandbox *ret)
{
    struct gone_ring *g = s->gone;
    const struct gone_record *r;

    pthread_mutex_lock(&g->lock);
    r = find(g, word, now_ms());
    if (r) {
        *ret = (struct gone_sandbox){
            .ended_ms = r->ended_ms, .timeout_s = r->timeout_s, .expired = r->expired};
        memcpy(ret->id, r->id, sizeof(ret->id));
        memcpy(ret->name, r->name, sizeof(r->name));
    }
    pthread_mutex_unlock(&g->lock);
    return r;
}
