/* cgroups of the floor's boxes, as cay has them: five v1 controllers with the workload's directory
 * in each and the agent's in those with limits, or on v2 one directory with two leaves. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "floor.h"

#define SETTINGS_MAX 5

struct setting {
    const char *file, *value;
};

struct limit {
    const char *group; /* below /sys/fs/cgroup */
    bool agent;        /* whether the agent has a directory of its own there */
    struct setting work[SETTINGS_MAX], agents[SETTINGS_MAX];
};

static const struct limit limits_v1[] = {
    {"memory",
     true,
     {{"memory.limit_in_bytes", "536870912"},
      {"memory.memsw.limit_in_bytes", "536870912"},
      {"memory.kmem.tcp.limit_in_bytes", "134217728"}},
     {{"memory.limit_in_bytes", "67108864"},
      {"memory.memsw.limit_in_bytes", "67108864"},
      {"memory.kmem.tcp.limit_in_bytes", "16777216"}}},
    {"cpu", true, {{"cpu.cfs_quota_us", "100000"}}, {{"cpu.shares", "4096"}}},
    {"pids", true, {{"pids.max", "256"}}, {{"pids.max", "512"}}},
    {"cpuacct", false, {{0}}, {{0}}},
    {"freezer", false, {{0}}, {{0}}},
};

static const struct limit limits_v2[] = {
    {".",
     true,
     {{"memory.max", "536870912"},
      {"cpu.max", "100000 100000"},
      {"pids.max", "256"},
      {"memory.swap.max", "0"}},
     {{"memory.max", "67108864"},
      {"cpu.weight", "1000"},
      {"pids.max", "512"},
      {"memory.swap.max", "0"}}},
};

enum { FREEZER_V1 = 4 };

static struct {
    const struct limit *limits;
    unsigned n;
    bool v2;
    char *parents[FLOOR_GROUPS_MAX];
} tree;

static int delegate(const char *dir, struct err *err)
{
    auto_free char *control = xasprintf("%s/cgroup.subtree_control", dir);
    int r = write_file_at(AT_FDCWD, control, "+memory +cpu +pids");

    return r < 0 ? err_sys(err, -r, "write %s", control) : 0;
}

int groups_setup(struct err *err)
{
    struct statfs fs;

    if (statfs("/sys/fs/cgroup", &fs) < 0)
        return err_sys(err, errno, "look at /sys/fs/cgroup");
    tree.v2 = fs.f_type == CGROUP2_SUPER_MAGIC;
    tree.limits = tree.v2 ? limits_v2 : limits_v1;
    tree.n = tree.v2 ? ARRAY_LEN(limits_v2) : ARRAY_LEN(limits_v1);
    if (tree.v2)
        (void)delegate("/sys/fs/cgroup", NULL);
    for (unsigned i = 0; i < tree.n; i++) {
        tree.parents[i] =
            xasprintf("/sys/fs/cgroup/%s/cay-floor-%d", tree.limits[i].group, (int)getpid());
        if (mkdir(tree.parents[i], 0755) < 0 && errno != EEXIST)
            return err_sys(err, errno, "make %s", tree.parents[i]);
    }
    return tree.v2 ? delegate(tree.parents[0], err) : 0;
}

void groups_teardown(void)
{
    for (unsigned i = 0; i < tree.n; i++) {
        if (tree.parents[i])
            (void)rmdir(tree.parents[i]);
        free(tree.parents[i]);
        tree.parents[i] = NULL;
    }
}

static int write_settings(int fd, const char *dir, const struct setting *settings, struct err *err)
{
    for (unsigned i = 0; i < SETTINGS_MAX && settings[i].file; i++) {
        int r = write_file_at(fd, settings[i].file, settings[i].value);

        /* Kernels without swap or socket accounting do not have all of the files. */
        if (r < 0 && r != -ENOENT)
            return err_sys(err, -r, "write %s/%s", dir, settings[i].file);
    }
    return 0;
}

int groups_limit(const struct groups *g, struct err *err)
{
    for (unsigned i = 0; i < g->n; i++) {
        auto_close int fd = -1;

        if (!tree.limits[i].work[0].file)
            continue;
        fd = open(g->dirs[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return err_sys(err, errno, "open %s", g->dirs[i]);
        if (write_settings(fd, g->dirs[i], tree.limits[i].work, err) < 0)
            return -1;
    }
    return 0;
}

/* Makes a directory with its settings. Returns its cgroup.procs, on v2 of the workload itself. */
static int make_group(const char *dir, const struct setting *settings, bool whole, struct err *err)
{
    auto_close int fd = mkdir(dir, 0755) < 0 ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int procs;

    if (fd < 0)
        return err_sys(err, errno, "make %s", dir);
    if (write_settings(fd, dir, settings, err) < 0)
        return -1;
    if (whole)
        return steal_fd(fd);
    procs = openat(fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    return procs < 0 ? err_sys(err, errno, "open %s/cgroup.procs", dir) : procs;
}

int groups_make(struct groups *g, unsigned number, struct err *err)
{
    *g = (struct groups){.v2 = tree.v2};
    if (tree.v2) {
        g->above = xasprintf("%s/%u", tree.parents[0], number);
        if (mkdir(g->above, 0755) < 0)
            return err_sys(err, errno, "make %s", g->above);
        if (delegate(g->above, err) < 0)
            return -1;
    }
    for (unsigned i = 0; i < tree.n; i++) {
        const struct limit *limit = &tree.limits[i];
        const unsigned a = g->n_agent;

        g->dirs[i] =
            tree.v2 ? xasprintf("%s/work", g->above) : xasprintf("%s/%u", tree.parents[i], number);
        g->n++;
        if ((g->procs[i] = make_group(g->dirs[i], limit->work, tree.v2, err)) < 0)
            return -1;
        if (!limit->agent)
            continue;
        g->agent_dirs[a] = tree.v2 ? xasprintf("%s/agent", g->above)
                                   : xasprintf("%s/%u.agent", tree.parents[i], number);
        g->n_agent++;
        if ((g->agent_procs[a] = make_group(g->agent_dirs[a], limit->agents, false, err)) < 0)
            return -1;
    }
    return 0;
}

int groups_join(const struct groups *g, pid_t pid, struct err *err)
{
    char text[16];
    int len = snprintf(text, sizeof(text), "%d", (int)pid);

    if (g->v2)
        return 0; /* cloned into it */
    for (unsigned i = 0; i < g->n; i++)
        if (write(g->procs[i], text, (size_t)len) < 0)
            return err_sys(err, errno, "move a process to %s", g->dirs[i]);
    return 0;
}

/* v1 freezes on its own time: the state says FREEZING until every task has stopped. */
static int wait_state(const char *file, const char *want, struct err *err)
{
    char text[512];
    ssize_t n;

    for (;;) {
        n = read_file_at(AT_FDCWD, file, text, sizeof(text));
        if (n < 0)
            return err_sys(err, (int)-n, "read %s", file);
        if (strstr(text, want))
            return 0;
        (void)sched_yield(); /* to those that have to stop */
    }
}

int groups_freeze(const struct groups *g, bool frozen, struct err *err)
{
    const char *dir = g->v2 ? g->above : g->dirs[FREEZER_V1];
    auto_free char *file = xasprintf("%s/%s", dir, g->v2 ? "cgroup.freeze" : "freezer.state");
    auto_free char *state = xasprintf("%s/%s", dir, g->v2 ? "cgroup.events" : "freezer.state");
    int r;

    if (g->v2)
        r = write_file_at(AT_FDCWD, file, frozen ? "1" : "0");
    else
        r = write_file_at(AT_FDCWD, file, frozen ? "FROZEN" : "THAWED");
    if (r < 0)
        return err_sys(err, -r, "write %s", file);
    if (g->v2)
        return wait_state(state, frozen ? "frozen 1" : "frozen 0", err);
    return wait_state(state, frozen ? "FROZEN" : "THAWED", err);
}

static void remove_group(char *dir, int *procs)
{
    if (*procs >= 0)
        close_fd(procs);
    (void)rmdir(dir);
    free(dir);
}

void groups_remove(struct groups *g)
{
    while (g->n_agent > 0) {
        g->n_agent--;
        remove_group(g->agent_dirs[g->n_agent], &g->agent_procs[g->n_agent]);
    }
    while (g->n > 0) {
        g->n--;
        remove_group(g->dirs[g->n], &g->procs[g->n]);
    }
    if (g->above)
        (void)rmdir(g->above);
    free(g->above);
    g->above = NULL;
}
