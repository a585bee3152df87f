#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/native/cgroup_v1_internal.h"

/* Groups of boxes that are gone, for boxes to come: on v1 a group can be renamed, which costs a
 * fifth of making one and removing it. One is kept only if it has no process, no group in it, and
 * no count that would be told of the next box and cannot be set to zero. Any other is removed, as
 * if there were no spares.
 *
 * What the kernel had in use for a box is given back some milliseconds after its end: its network
 * namespace, its mounts, all that waits for readers. So a set is given to a box only when next to
 * nothing is charged to it any more. The oldest is looked at; if it is not ready, nobody waits for
 * it, and after a while it is given up.
 *
 * A set is all groups of one box. While it is spare its name is spare.<n>, which is no id, so
 * nobody takes it for a box's. A daemon that starts removes those of the one before. */

#define SPARES_MAX 32
#define GIVE_UP_NS 2000000000ll
#define LEFT_MAX   (256u << 10) /* bytes that the kernel used for the last box, and shares */
#define NAME_SIZE  24

struct cgroup_spares {
    pthread_mutex_t lock;
    unsigned n;
    unsigned long long made;     /* sets so far, for names */
    int parents[V1_CONTROLLERS]; /* opened: most of the cost is in the way to a file */
    struct spare {
        char name[NAME_SIZE];
        int64_t kept_ns;
    } spares[SPARES_MAX]; /* the oldest first */
};

/* ---- is anything left? ---- */

/* A folder of this filesystem has a link for itself, one in its parent and one of each child. */
static bool has_no_child(int dir)
{
    struct stat st;

    return fstat(dir, &st) == 0 && st.st_nlink == 2;
}

static bool is_at_most(int dir, const char *file, unsigned long long most)
{
    char text[64];

    return read_file_at(dir, file, text, sizeof(text)) > 0 && strtoull(text, NULL, 10) <= most;
}

static bool has_no(int dir, const char *file, const char *key)
{
    unsigned long long value;
    char text[256];

    return read_file_at(dir, file, text, sizeof(text)) > 0 &&
           cgroup_find_key(text, key, &value) == 0 && value == 0;
}

static bool says(int dir, const char *file, const char *word)
{
    char text[32];

    return read_file_at(dir, file, text, sizeof(text)) >= 0 && str_starts(text, word);
}

/* Not every kernel counts what sockets hold. */
static bool sockets_are_clean(int dir)
{
    static const char file[] = "memory.kmem.tcp.usage_in_bytes";

    return is_at_most(dir, file, 0) || (faccessat(dir, file, F_OK, 0) < 0 && errno == ENOENT);
}

/* One that came to its limit is not kept: how often it did cannot be set back for all counters. */
static bool memory_was_enough(int dir)
{
    return is_at_most(dir, "memory.failcnt", 0) && has_no(dir, "memory.oom_control", "oom_kill");
}

static bool memory_is_free(int dir)
{
    return is_at_most(dir, "memory.usage_in_bytes", LEFT_MAX) && sockets_are_clean(dir) &&
           write_file_at(dir, "memory.max_usage_in_bytes", "0") == 0;
}

static bool has_nobody(int dir)
{
    char text[16];

    return read_file_at(dir, "cgroup.procs", text, sizeof(text)) == 0;
}

/* Who is in a group is a slow question on v1, so it is asked of the one that has all processes of a
 * box, and of the one that counts them, which shows those too that somebody else put there. */
static bool freezer_is_clean(int dir)
{
    return says(dir, "freezer.state", "THAWED") && has_nobody(dir);
}

static int open_group(const struct cgroup *c, int controller, const char *name)
{
    return openat(c->spares->parents[controller], name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Right after the end of its box. */
static bool can_be_kept(const struct cgroup *c, int controller, const char *name)
{
    auto_close int dir = open_group(c, controller, name);

    if (dir < 0 || !has_no_child(dir))
        return false;
    switch ((enum cgroup_v1_controller)controller) {
    case V1_MEMORY:
        return memory_was_enough(dir);
    case V1_PIDS:
        return has_no(dir, "pids.events", "max") &&
               (is_at_most(dir, "pids.current", 0) || has_nobody(dir));
    case V1_CPUACCT:
        return write_file_at(dir, "cpuacct.usage", "0") == 0;
    case V1_FREEZER:
        return freezer_is_clean(dir);
    case V1_CPU: /* what it was throttled for goes when the next quota is set */
    case V1_CONTROLLERS:
        break;
    }
    return true;
}

/* Some time later. */
static bool is_free(const struct cgroup *c, int controller, const char *name)
{
    auto_close int dir = -1;

    if (controller != V1_MEMORY && controller != V1_PIDS)
        return true;
    dir = open_group(c, controller, name);
    if (controller == V1_PIDS) /* counts those too that have ended and are not gone altogether */
        return dir >= 0 && is_at_most(dir, "pids.current", 0);
    return dir >= 0 && memory_is_free(dir);
}

static bool each(const struct cgroup *c, const char *id,
                 bool (*is_so)(const struct cgroup *c, int controller, const char *name))
{
    auto_free char *agent = xasprintf("%s" V1_AGENT, id);

    for (int i = 0; i < V1_CONTROLLERS; i++)
        if (!is_so(c, i, id) || (cgroup_v1_has_agent(i) && !is_so(c, i, agent)))
            return false;
    return true;
}

/* ---- names ---- */

/* All of them, or it fails with some under each name. */
static int rename_set(const struct cgroup *c, const char *from, const char *to)
{
    auto_free char *from_agent = xasprintf("%s" V1_AGENT, from);
    auto_free char *to_agent = xasprintf("%s" V1_AGENT, to);

    for (int i = 0; i < V1_CONTROLLERS; i++) {
        int parent = c->spares->parents[i];

        if (!cgroup_v1_is_own(c, i))
            continue;
        if (renameat(parent, from, parent, to) < 0 ||
            (cgroup_v1_has_agent(i) && renameat(parent, from_agent, parent, to_agent) < 0))
            return -errno;
    }
    return 0;
}

/* Into the list only when all are renamed: from then on anybody may take it. */
static bool put(struct cgroup_spares *s, const struct spare *spare, bool first)
{
    bool room;

    pthread_mutex_lock(&s->lock);
    room = s->n < SPARES_MAX;
    if (room && first)
        memmove(s->spares + 1, s->spares, s->n * sizeof(*spare));
    if (room)
        s->spares[first ? 0 : s->n] = *spare;
    s->n += room;
    pthread_mutex_unlock(&s->lock);
    return room;
}

static bool take_oldest(struct cgroup_spares *s, struct spare *ret)
{
    bool got;

    pthread_mutex_lock(&s->lock);
    got = s->n > 0;
    if (got) {
        *ret = s->spares[0];
        memmove(s->spares, s->spares + 1, --s->n * sizeof(*ret));
    }
    pthread_mutex_unlock(&s->lock);
    return got;
}

/* It may become free yet. */
static bool is_worth_waiting(const struct cgroup *c, const struct spare *spare)
{
    return mono_ns() - spare->kept_ns < GIVE_UP_NS &&
           faccessat(c->spares->parents[V1_MEMORY], spare->name, F_OK, 0) == 0;
}

bool cgroup_spares_take(const struct cgroup *c, const char *id)
{
    struct spare spare;

    if (!take_oldest(c->spares, &spare))
        return false;
    if (!each(c, spare.name, is_free)) {
        if (!is_worth_waiting(c, &spare) || !put(c->spares, &spare, true))
            (void)cgroup_v1_remove_set(c, spare.name, NULL);
        return false;
    }
    if (rename_set(c, spare.name, id) == 0)
        return true;
    (void)cgroup_v1_remove_set(c, spare.name, NULL);
    (void)cgroup_v1_remove_set(c, id, NULL);
    return false;
}

bool cgroup_spares_keep(const struct cgroup *c, const char *id)
{
    struct cgroup_spares *s = c->spares;
    struct spare spare = {.kept_ns = mono_ns()};
    bool full;

    pthread_mutex_lock(&s->lock);
    full = s->n == SPARES_MAX;
    (void)snprintf(spare.name, sizeof(spare.name), "spare.%llu", s->made++);
    pthread_mutex_unlock(&s->lock);
    if (full || !each(c, id, can_be_kept))
        return false;
    if (rename_set(c, id, spare.name) < 0) {
        (void)cgroup_v1_remove_set(c, spare.name, NULL);
        return false;
    }
    if (!put(s, &spare, false))
        (void)cgroup_v1_remove_set(c, spare.name, NULL);
    return true;
}

/* ---- start and end ---- */

/* Of a daemon that was killed. */
static void remove_old(const struct cgroup *c, int controller)
{
    DIR *d = opendir(c->dirs[controller]);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (str_starts(e->d_name, "spare.")) {
            auto_free char *dir = xasprintf("%s/%s", c->dirs[controller], e->d_name);

            (void)rmdir(dir);
        }
    if (d)
        (void)closedir(d);
}

void cgroup_spares_open(struct cgroup *c)
{
    c->spares = xcalloc(1, sizeof(*c->spares));
    pthread_mutex_init(&c->spares->lock, NULL);
    for (int i = 0; i < V1_CONTROLLERS; i++) {
        c->spares->parents[i] = open(c->dirs[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        remove_old(c, i);
    }
}

void cgroup_spares_close(const struct cgroup *c)
{
    struct cgroup_spares *s = c->spares;

    while (s->n > 0)
        (void)cgroup_v1_remove_set(c, s->spares[--s->n].name, NULL);
}

void cgroup_spares_free(struct cgroup_spares *s)
{
    if (!s)
        return;
    for (int i = 0; i < V1_CONTROLLERS; i++)
        close_fd(&s->parents[i]);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
