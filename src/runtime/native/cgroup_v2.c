#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "runtime/native/cgroup.h"
#include "runtime/runtime.h"

/* v2: <id> holds cpu and the freezer for the box as a whole; <id>/work and <id>/agent are its
 * leaves, because a group with controllers for its children may have no processes of its own. */

/* Beside 100 of the workload in the same box, so it costs no other box anything. */
#define AGENT_WEIGHT 1000

static char *box_dir(const struct cgroup *c, const char *id)
{
    return xasprintf("%s/%s", c->dirs[0], id);
}

static char *leaf(const struct cgroup *c, const char *id, const char *name)
{
    return xasprintf("%s/%s/%s", c->dirs[0], id, name);
}

/* Without swap accounting the file is not there, and nothing is swapped per group. */
static int forbid_swap(const char *dir, struct err *err)
{
    return cgroup_has(dir, "memory.swap.max") ? cgroup_write(dir, "memory.swap.max", "0", err) : 0;
}

static int v2_limit(const struct cgroup *c, const char *id, const struct sandbox_limits *limits,
                    struct err *err)
{
    auto_free char *work = leaf(c, id, "work");
    char cpu[32];

    (void)snprintf(cpu, sizeof(cpu), "%u 100000", limits->cpu_millis * 100);
    if (cgroup_write(work, "cpu.max", cpu, err) < 0 ||
        cgroup_write_number(work, "memory.max", (unsigned long long)limits->memory_mb << 20, err) <
            0 ||
        forbid_swap(work, err) < 0)
        return -1;
    return cgroup_write_number(work, "pids.max", limits->pids, err);
}

static int v2_remove(const struct cgroup *c, const char *id, struct err *err)
{
    auto_free char *box = box_dir(c, id);
    auto_free char *work = leaf(c, id, "work");
    auto_free char *agent = leaf(c, id, "agent");

    if (cgroup_rmdir(work, err) < 0 || cgroup_rmdir(agent, err) < 0)
        return -1;
    return cgroup_rmdir(box, err);
}

static int v2_make(const struct cgroup *c, const char *id, const struct sandbox_limits *limits,
                   struct err *err)
{
    auto_free char *box = box_dir(c, id);
    auto_free char *work = leaf(c, id, "work");
    auto_free char *agent = leaf(c, id, "agent");
    int r = 0;

    if (cgroup_mkdir(box, err) < 0 || cgroup_mkdir(work, err) < 0 || cgroup_mkdir(agent, err) < 0)
        r = -1;
    if (r == 0)
        r = cgroup_write(box, "cgroup.subtree_control", "+memory +pids +cpu", err);
    if (r == 0)
        r = cgroup_write_number(agent, "memory.max", AGENT_MEMORY_BYTES, err);
    if (r == 0)
        r = forbid_swap(agent, err);
    if (r == 0)
        r = cgroup_write_number(agent, "pids.max", AGENT_PIDS, err);
    if (r == 0)
        r = cgroup_write_number(agent, "cpu.weight", AGENT_WEIGHT, err);
    if (r == 0)
        r = v2_limit(c, id, limits, err);
    if (r < 0)
        (void)v2_remove(c, id, NULL);
    return r;
}

static void v2_kill(const struct cgroup *c, const char *id)
{
    auto_free char *box = box_dir(c, id);

    (void)cgroup_write(box, "cgroup.kill", "1", NULL);
}

static char **v2_work_dirs(const struct cgroup *c, const char *id)
{
    auto_free char *dir = leaf(c, id, "work");

    return strv_add(NULL, dir);
}

static char **v2_agent_dirs(const struct cgroup *c, const char *id)
{
    auto_free char *dir = leaf(c, id, "agent");

    return strv_add(NULL, dir);
}

static int v2_freeze(const struct cgroup *c, const char *id, bool frozen, struct err *err)
{
    auto_free char *box = box_dir(c, id);
    auto_free char *events = xasprintf("%s/cgroup.events", box);
    auto_close int fd = open(events, O_RDONLY | O_CLOEXEC);
    int64_t deadline = mono_ns() + FREEZE_LIMIT_MS * 1000000ll;

    if (fd < 0)
        return err_sys(err, errno, "open the cgroup of %s", id);
    if (cgroup_write(box, "cgroup.freeze", frozen ? "1" : "0", err) < 0)
        return -1;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLPRI};
        char text[256];
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

        if (n < 0)
            return err_sys(err, errno, "read the cgroup of %s", id);
        text[n] = '\0';
        if (strstr(text, frozen ? "frozen 1" : "frozen 0"))
            return 0;
        if (mono_ns() > deadline)
            break;
        (void)poll(&p, 1, 100);
    }
    (void)cgroup_write(box, "cgroup.freeze", "0", NULL);
    return err_set(err, ERR_UNAVAILABLE,
                   "a process does not stop (it waits in the kernel); try again later");
}

static void v2_begin_freeze(const struct cgroup *c, const char *id)
{
    auto_free char *box = box_dir(c, id);

    (void)cgroup_write(box, "cgroup.freeze", "1", NULL);
}

static int v2_stats(const struct cgroup *c, const char *id, struct box_stats *ret, struct err *err)
{
    auto_free char *box = box_dir(c, id);
    auto_free char *work = leaf(c, id, "work");
    unsigned long long cpu, used, inactive, limit, count, kills;

    if (cgroup_read_key(box, "cpu.stat", "usage_usec", &cpu) < 0 ||
        cgroup_read(work, "memory.current", &used) < 0 ||
        cgroup_read(work, "memory.max", &limit) < 0 ||
        cgroup_read_key(work, "memory.stat", "inactive_file", &inactive) < 0 ||
        cgroup_read_key(work, "memory.events", "oom_kill", &kills) < 0 ||
        cgroup_read(work, "pids.current", &count) < 0)
        return err_set(err, ERR_UNAVAILABLE, "the cgroups of %s cannot be read", id);
    ret->cpu_ns = cpu * 1000;
    ret->memory_bytes = used > inactive ? used - inactive : 0;
    ret->memory_limit = limit;
    ret->pids = count;
    ret->oom_kills = kills;
    return 0;
}

static void v2_each(const struct cgroup *c, void (*found)(const char *id, void *arg), void *arg)
{
    DIR *d = opendir(c->dirs[0]);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (id_valid(e->d_name, "sbx"))
            found(e->d_name, arg);
    if (d)
        (void)closedir(d);
}

static int v2_held(const struct cgroup *c, unsigned long long *ret)
{
    return cgroup_read_held(c->dirs[0], "memory.current", "active_file", "inactive_file", ret);
}

/* A memory.max below what is held would end processes of boxes that run already: they go on. */
static int v2_cap(const struct cgroup *c, struct err *err)
{
    const char *dir = c->dirs[0];
    unsigned long long held;

    if (v2_held(c, &held) == 0 && held > c->caps.memory)
        log_warn("the sandboxes hold more memory than they may; the cap comes with the next start");
    else if (cgroup_write_number(dir, "memory.max", c->caps.memory, err) < 0)
        return -1;
    if (forbid_swap(dir, err) < 0 ||
        cgroup_write_number(dir, "cpu.weight", cgroup_cpu_weight(100, 10000), err) < 0)
        return -1;
    return cgroup_write_number(dir, "pids.max", c->caps.pids, err);
}

static void v2_close(const struct cgroup *c)
{
    (void)rmdir(c->dirs[0]);
}

const struct cgroup_ops cgroup_v2_ops = {
    .v2 = true,
    .make = v2_make,
    .limit = v2_limit,
    .work_dirs = v2_work_dirs,
    .agent_dirs = v2_agent_dirs,
    .freeze = v2_freeze,
    .begin_freeze = v2_begin_freeze,
    .stats = v2_stats,
    .kill = v2_kill,
    .remove = v2_remove,
    .each = v2_each,
    .cap = v2_cap,
    .held = v2_held,
    .close = v2_close,
};
