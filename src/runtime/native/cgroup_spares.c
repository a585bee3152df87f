#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/native/cgroup_v1_internal.h"

/* Groups of boxes that are gone, for boxes to come: on v1 a group can be renamed, which costs a
 * fifth of making one and removing it. One is kept only if nothing of the box that had it is left:
 * no process and no group in it, next to no memory charged to it, and no count that would be told
 * of the next box and cannot be set to zero. Any other is removed, as if there were no spares.
 *
 * A set is all groups of one box. While it is spare its name is spare.<n>, which is no id, so
 * nobody takes it for a box's. A daemon that starts removes those of the one before. */

#define SPARES_MAX 16
#define SPARE_LEFT                                                                                 \
    (256u << 10) /* bytes; what the kernel had in use for the last box, and shares                 \
                  */
#define NAME_SIZE 24

struct cgroup_spares {
    pthread_mutex_t lock;
    unsigned n;
    unsigned long long made; /* sets so far, for names */
    char names[SPARES_MAX][NAME_SIZE];
};

/* ---- is anything left? ---- */

/* A folder of this filesystem has a link for itself, one in its parent and one of each child. */
static bool has_no_child(const char *dir)
{
    struct stat st;

    return stat(dir, &st) == 0 && st.st_nlink == 2;
}

static bool is_at_most(const char *dir, const char *file, unsigned long long most)
{
    unsigned long long value;

    return cgroup_read(dir, file, &value) == 0 && value <= most;
}

static bool has_no(const char *dir, const char *file, const char *key)
{
    unsigned long long value;

    return cgroup_read_key(dir, file, key, &value) == 0 && value == 0;
}

/* Not every kernel counts what sockets hold. */
static bool sockets_are_clean(const char *dir)
{
    unsigned long long value = 0;
    int r = cgroup_read(dir, "memory.kmem.tcp.usage_in_bytes", &value);

    return r == -ENOENT || (r == 0 && value == 0);
}

/* One that came to its limit is not kept: how often it did cannot be set back for all counters. */
static bool memory_is_clean(const char *dir)
{
    return is_at_most(dir, "memory.usage_in_bytes", SPARE_LEFT) &&
           is_at_most(dir, "memory.failcnt", 0) && has_no(dir, "memory.oom_control", "oom_kill") &&
           sockets_are_clean(dir) && cgroup_write(dir, "memory.max_usage_in_bytes", "0", NULL) == 0;
}

/* Who is in a group is a slow question on v1, so it is asked of the one that has all processes of a
 * box, and that they are gone altogether is what the count of pids says. */
static bool freezer_is_clean(const char *dir)
{
    auto_free char *state = xasprintf("%s/freezer.state", dir);
    auto_free char *procs = xasprintf("%s/cgroup.procs", dir);
    char text[32];

    return read_file_at(AT_FDCWD, state, text, sizeof(text)) > 0 && str_starts(text, "THAWED") &&
           read_file_at(AT_FDCWD, procs, text, sizeof(text)) == 0;
}

static bool is_clean(int controller, const char *dir)
{
    if (!has_no_child(dir))
        return false;
    switch ((enum cgroup_v1_controller)controller) {
    case V1_MEMORY:
        return memory_is_clean(dir);
    case V1_PIDS: /* those too that have ended and wait to be reaped */
        return is_at_most(dir, "pids.current", 0) && has_no(dir, "pids.events", "max");
    case V1_CPUACCT:
        return cgroup_write(dir, "cpuacct.usage", "0", NULL) == 0;
    case V1_FREEZER:
        return freezer_is_clean(dir);
    case V1_CPU: /* what it was throttled for goes when the next quota is set */
    case V1_CONTROLLERS:
        break;
    }
    return true;
}

static bool set_is_clean(const struct cgroup *c, const char *id)
{
    for (int i = 0; i < V1_CONTROLLERS; i++) {
        auto_free char *work = cgroup_v1_dir(c, i, id, "");
        auto_free char *agent = cgroup_v1_dir(c, i, id, V1_AGENT);

        if (!is_clean(i, work) || (cgroup_v1_has_agent(i) && !is_clean(i, agent)))
            return false;
    }
    return true;
}

/* ---- names ---- */

static int rename_one(const struct cgroup *c, int controller, const char *from, const char *to,
                      const char *part)
{
    auto_free char *old = cgroup_v1_dir(c, controller, from, part);
    auto_free char *new = cgroup_v1_dir(c, controller, to, part);

    return rename(old, new) < 0 ? -errno : 0;
}

/* All of them, or it fails with some under each name. */
static int rename_set(const struct cgroup *c, const char *from, const char *to)
{
    int r = 0;

    for (int i = 0; r == 0 && i < V1_CONTROLLERS; i++) {
        if (!cgroup_v1_is_own(c, i))
            continue;
        r = rename_one(c, i, from, to, "");
        if (r == 0 && cgroup_v1_has_agent(i))
            r = rename_one(c, i, from, to, V1_AGENT);
    }
    return r;
}

bool cgroup_spares_take(const struct cgroup *c, const char *id)
{
    struct cgroup_spares *s = c->spares;
    char name[NAME_SIZE] = "";

    pthread_mutex_lock(&s->lock);
    if (s->n > 0)
        memcpy(name, s->names[--s->n], NAME_SIZE);
    pthread_mutex_unlock(&s->lock);
    if (!*name)
        return false;
    if (rename_set(c, name, id) == 0)
        return true;
    (void)cgroup_v1_remove_set(c, name, NULL);
    (void)cgroup_v1_remove_set(c, id, NULL);
    return false;
}

/* Into the list only when all are renamed: from then on anybody may take it. */
bool cgroup_spares_keep(const struct cgroup *c, const char *id)
{
    struct cgroup_spares *s = c->spares;
    char name[NAME_SIZE];
    bool full;

    pthread_mutex_lock(&s->lock);
    full = s->n == SPARES_MAX;
    (void)snprintf(name, sizeof(name), "spare.%llu", s->made++);
    pthread_mutex_unlock(&s->lock);
    if (full || !set_is_clean(c, id))
        return false;
    if (rename_set(c, id, name) < 0) {
        (void)cgroup_v1_remove_set(c, name, NULL);
        return false;
    }
    pthread_mutex_lock(&s->lock);
    full = s->n == SPARES_MAX;
    if (!full)
        memcpy(s->names[s->n++], name, NAME_SIZE);
    pthread_mutex_unlock(&s->lock);
    if (full)
        (void)cgroup_v1_remove_set(c, name, NULL);
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
    for (int i = 0; i < V1_CONTROLLERS; i++)
        remove_old(c, i);
}

void cgroup_spares_close(const struct cgroup *c)
{
    struct cgroup_spares *s = c->spares;

    while (s->n > 0)
        (void)cgroup_v1_remove_set(c, s->names[--s->n], NULL);
}

void cgroup_spares_free(struct cgroup_spares *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    free(s);
}
