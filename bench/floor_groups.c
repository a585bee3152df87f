/* cgroups of the floor's boxes: five v1 controllers, or one v2 directory. */

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

struct limit {
    const char *group; /* below /sys/fs/cgroup */
    const char *files[3], *values[3];
};

static const struct limit limits_v1[] = {
    {"memory",
     {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"},
     {"536870912", "536870912"}},
    {"cpu", {"cpu.cfs_period_us", "cpu.cfs_quota_us"}, {"100000", "100000"}},
    {"pids", {"pids.max"}, {"256"}},
    {"cpuacct", {NULL}, {NULL}},
    {"freezer", {NULL}, {NULL}},
};

static const struct limit limits_v2[] = {
    {".", {"memory.max", "cpu.max", "pids.max"}, {"536870912", "100000 100000", "256"}},
};

enum { FREEZER_V1 = 4 };

static struct {
    const struct limit *limits;
    unsigned n;
    bool v2;
    char *parents[FLOOR_GROUPS_MAX];
} tree;

int groups_setup(struct err *err)
{
    struct statfs fs;

    if (statfs("/sys/fs/cgroup", &fs) < 0)
        return err_sys(err, errno, "look at /sys/fs/cgroup");
    tree.v2 = fs.f_type == CGROUP2_SUPER_MAGIC;
    tree.limits = tree.v2 ? limits_v2 : limits_v1;
    tree.n = tree.v2 ? ARRAY_LEN(limits_v2) : ARRAY_LEN(limits_v1);
    if (tree.v2)
        (void)write_file_at(AT_FDCWD, "/sys/fs/cgroup/cgroup.subtree_control",
                            "+memory +cpu +pids");
    for (unsigned i = 0; i < tree.n; i++) {
        tree.parents[i] =
            xasprintf("/sys/fs/cgroup/%s/cay-floor-%d", tree.limits[i].group, (int)getpid());
        if (mkdir(tree.parents[i], 0755) < 0 && errno != EEXIST)
            return err_sys(err, errno, "make %s", tree.parents[i]);
    }
    if (tree.v2) {
        auto_free char *control = xasprintf("%s/cgroup.subtree_control", tree.parents[0]);
        int r = write_file_at(AT_FDCWD, control, "+memory +cpu +pids");

        if (r < 0)
            return err_sys(err, -r, "write %s", control);
    }
    return 0;
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

static int set_limits(const char *dir, const struct limit *limit, struct err *err)
{
    auto_close int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_sys(err, errno, "open %s", dir);
    for (unsigned i = 0; i < ARRAY_LEN(limit->files) && limit->files[i]; i++) {
        int r = write_file_at(fd, limit->files[i], limit->values[i]);

        /* Kernels without swap accounting have no memsw files. */
        if (r < 0 && !(r == -ENOENT && strstr(limit->files[i], "memsw")))
            return err_sys(err, -r, "write %s/%s", dir, limit->files[i]);
    }
    return 0;
}

int groups_make(struct groups *g, unsigned number, struct err *err)
{
    *g = (struct groups){.v2 = tree.v2};
    for (unsigned i = 0; i < tree.n; i++) {
        auto_free char *procs = NULL;

        g->dirs[i] = xasprintf("%s/%u", tree.parents[i], number);
        g->procs[i] = -1;
        g->n++;
        if (mkdir(g->dirs[i], 0755) < 0)
            return err_sys(err, errno, "make %s", g->dirs[i]);
        if (set_limits(g->dirs[i], &tree.limits[i], err) < 0)
            return -1;
        procs = tree.v2 ? xstrdup(g->dirs[i]) : xasprintf("%s/cgroup.procs", g->dirs[i]);
        g->procs[i] = open(procs, (tree.v2 ? O_RDONLY | O_DIRECTORY : O_WRONLY) | O_CLOEXEC);
        if (g->procs[i] < 0)
            return err_sys(err, errno, "open %s", procs);
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
    const char *dir = g->dirs[g->v2 ? 0 : FREEZER_V1];
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

void groups_remove(struct groups *g)
{
    for (unsigned i = 0; i < g->n; i++) {
        close_fd(&g->procs[i]);
        (void)rmdir(g->dirs[i]);
        free(g->dirs[i]);
    }
    g->n = 0;
}
