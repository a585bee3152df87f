#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "runtime/native/disk.h"
#include "runtime/native/native_internal.h"

/* What this process holds of each box, by id. */

static struct berth **bucket(struct native *n, const char *id)
{
    unsigned hash = 5381;

    for (; *id; id++)
        hash = hash * 33 + (unsigned char)*id;
    return &n->berths[hash % BERTH_BUCKETS];
}

/* With the lock held. */
static struct berth *find(struct native *n, const char *id)
{
    struct berth *b = *bucket(n, id);

    while (b && strcmp(b->id, id) != 0)
        b = b->next;
    return b;
}

struct berth *berth_find(struct native *n, const char *id)
{
    struct berth *b;

    (void)pthread_mutex_lock(&n->lock);
    b = find(n, id);
    (void)pthread_mutex_unlock(&n->lock);
    return b;
}

struct berth *berth_add(struct native *n, const char *id)
{
    struct berth *b = xcalloc(1, sizeof(*b));
    struct berth **at;

    (void)snprintf(b->id, sizeof(b->id), "%s", id);
    b->slot = BOX_NO_SLOT;
    b->disk_lives = DISK_ONCE;
    b->scratch = b->root = b->ctl = b->exec = b->pidfd = -1;
    (void)pthread_mutex_lock(&n->lock);
    at = bucket(n, id);
    b->next = *at;
    *at = b;
    (void)pthread_mutex_unlock(&n->lock);
    return b;
}

/* With the lock held: has a berth that range, other than except? */
static bool has_range(const struct native *n, uint32_t slot, const struct berth *except)
{
    for (unsigned i = 0; i < BERTH_BUCKETS; i++)
        for (const struct berth *b = n->berths[i]; b; b = b->next)
            if (b->slot == slot && b != except)
                return true;
    return false;
}

bool berth_shares_range(struct native *n, const struct berth *b)
{
    bool shares;

    (void)pthread_mutex_lock(&n->lock);
    shares = has_range(n, b->slot, b);
    (void)pthread_mutex_unlock(&n->lock);
    return shares;
}

bool berth_drop(struct native *n, const char *id, uint32_t slot)
{
    struct berth **at, *b;
    bool last;

    (void)pthread_mutex_lock(&n->lock);
    for (at = bucket(n, id); *at && strcmp((*at)->id, id) != 0; at = &(*at)->next)
        ;
    b = *at;
    if (b)
        *at = b->next;
    last = slot != BOX_NO_SLOT && !has_range(n, slot, NULL);
    (void)pthread_mutex_unlock(&n->lock);
    if (!b)
        return last;
    close_fd(&b->root);
    close_fd(&b->scratch);
    close_fd(&b->ctl);
    close_fd(&b->exec);
    close_fd(&b->pidfd);
    free(b);
    return last;
}

void berth_set_process(struct native *n, struct berth *b, int pidfd)
{
    int old;

    (void)pthread_mutex_lock(&n->lock);
    old = b->pidfd;
    b->pidfd = pidfd;
    (void)pthread_mutex_unlock(&n->lock);
    close_fd(&old);
}

/* Asked under the lock: without it the berth could be freed, and its descriptor be another's. */
bool berth_lives(struct native *n, const char *id)
{
    struct pollfd p = {.events = POLLIN};
    struct berth *b;
    bool lives;

    (void)pthread_mutex_lock(&n->lock);
    b = find(n, id);
    p.fd = b ? b->pidfd : -1;
    lives = p.fd >= 0 && poll(&p, 1, 0) == 0;
    (void)pthread_mutex_unlock(&n->lock);
    return lives;
}

/* If the process lives when the file is open, that was its own number. */
int berth_open_proc(struct native *n, const char *id, const char *name)
{
    struct pollfd p = {.fd = -1, .events = POLLIN};
    struct berth *b;
    char path[64];
    int fd = -ESRCH;

    (void)pthread_mutex_lock(&n->lock);
    b = find(n, id);
    p.fd = b ? b->pidfd : -1;
    if (p.fd >= 0 && b->pid > 0) {
        (void)snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)b->pid, name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        fd = fd < 0 ? -errno : fd;
    }
    if (fd >= 0 && poll(&p, 1, 0) != 0) {
        (void)close(fd);
        fd = -ESRCH;
    }
    (void)pthread_mutex_unlock(&n->lock);
    return fd;
}

void berth_set_range(struct native *n, struct berth *b, uint32_t slot)
{
    (void)pthread_mutex_lock(&n->lock);
    b->slot = slot;
    (void)pthread_mutex_unlock(&n->lock);
}

void berths_done(struct native *n)
{
    for (unsigned i = 0; i < BERTH_BUCKETS; i++)
        while (n->berths[i])
            (void)berth_drop(n, n->berths[i]->id, BOX_NO_SLOT);
}
