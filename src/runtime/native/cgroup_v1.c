#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/native/cgroup_v1_internal.h"
#include "runtime/native/native_internal.h"
#include "runtime/runtime.h"

/* v1: one directory <id> in each hierarchy for the workload, and <id>.agent in those with limits
 * for the agent, which must get a word in while the workload uses up all it has. */

/* Beside 1024 of a box: an agent gets its turn while its box, and others, use all they can. */
#define AGENT_SHARES 4096

bool cgroup_v1_has_agent(int controller)
{
    return controller == V1_MEMORY || controller == V1_PIDS || controller == V1_CPU;
}

bool cgroup_v1_is_own(const struct cgroup *c, int controller)
{
    for (int i = 0; i < controller; i++)
        if (strcmp(c->dirs[i], c->dirs[controller]) == 0)
            return false;
    return true;
}

char *cgroup_v1_dir(const struct cgroup *c, int controller, const char *name, const char *part)
{
    return xasprintf("%s/%s%s", c->dirs[controller], name, part);
}

static char *work_dir(const struct cgroup *c, int controller, const char *id)
{
    return cgroup_v1_dir(c, controller, id, "");
}

static char *agent_dir(const struct cgroup *c, int controller, const char *id)
{
    return cgroup_v1_dir(c, controller, id, V1_AGENT);
}

/* memsw may not be below memory at any time, so the order depends on where the values come from. */
static int limit_memory(const char *dir, unsigned long long bytes, struct err *err)
{
    if (!cgroup_has(dir, "memory.memsw.limit_in_bytes")) {
        /* No swap accounting: at least the box's pages are never chosen for it. */
        if (cgroup_write(dir, "memory.swappiness", "0", err) < 0)
            return -1;
        return cgroup_write_number(dir, "memory.limit_in_bytes", bytes, err);
    }
    if (cgroup_write_number(dir, "memory.limit_in_bytes", bytes, NULL) < 0) {
        (void)cgroup_write_number(dir, "memory.memsw.limit_in_bytes", bytes, NULL);
        if (cgroup_write_number(dir, "memory.limit_in_bytes", bytes, err) < 0)
            return -1;
    }
    return cgroup_write_number(dir, "memory.memsw.limit_in_bytes", bytes, err);
}

/* Sockets are charged from the first limit on, those that are open already never: so before a box
 * runs. A kernel without the file cannot limit them. */
static int limit_sockets(const char *dir, unsigned long long memory, struct err *err)
{
    if (!cgroup_has(dir, "memory.kmem.tcp.limit_in_bytes"))
        return 0;
    return cgroup_write_number(dir, "memory.kmem.tcp.limit_in_bytes", memory / SOCKET_PART, err);
}

static int v1_limit(const struct cgroup *c, const char *id, const struct sandbox_limits *limits,
                    struct err *err)
{
    auto_free char *memory = work_dir(c, V1_MEMORY, id);
    auto_free char *pids = work_dir(c, V1_PIDS, id);
    auto_free char *cpu = work_dir(c, V1_CPU, id);
    unsigned long long bytes = (unsigned long long)limits->memory_mb << 20;

    if (limit_memory(memory, bytes, err) < 0 || limit_sockets(memory, bytes, err) < 0 ||
        cgroup_write_number(pids, "pids.max", limits->pids, err) < 0)
        return -1;
    return cgroup_write_number(cpu, "cpu.cfs_quota_us", limits->cpu_millis * 100, err);
}

static int limit_agent(const struct cgroup *c, const char *id, struct err *err)
{
    auto_free char *memory = agent_dir(c, V1_MEMORY, id);
    auto_free char *pids = agent_dir(c, V1_PIDS, id);
    auto_free char *cpu = agent_dir(c, V1_CPU, id);

    if (limit_memory(memory, AGENT_MEMORY_BYTES, err) < 0 ||
        limit_sockets(memory, AGENT_MEMORY_BYTES, err) < 0 ||
        cgroup_write_number(cpu, "cpu.shares", AGENT_SHARES, err) < 0)
        return -1;
    return cgroup_write_number(pids, "pids.max", AGENT_PIDS, err);
}

/* Boxes of a version before, which had no such limit: it holds for sockets that they open from now
 * on. Best effort; a box that ends meanwhile has none. */
static void limit_old_sockets(const struct cgroup *c)
{
    DIR *d = opendir(c->dirs[V1_MEMORY]);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        auto_free char *dir = xasprintf("%s/%s", c->dirs[V1_MEMORY], e->d_name);
        unsigned long long memory;

        if (str_starts(e->d_name, "sbx_") &&
            cgroup_read(dir, "memory.limit_in_bytes", &memory) == 0)
            (void)limit_sockets(dir, memory, NULL);
    }
    if (d)
        (void)closedir(d);
}

/* Boxes that run already may have more than a cap that is new: the kernel takes back what it can,
 * and the rest of them goes on. */
static int v1_cap(const struct cgroup *c, struct err *err)
{
    const char *memory = c->dirs[V1_MEMORY];
    struct err why = {0};

    if (limit_memory(memory, c->caps.memory, &why) < 0 && why.sys != EBUSY) {
        *err = why;
        return -1;
    }
    if (why.sys == EBUSY)
        log_warn("the sandboxes hold more memory than they may; the cap comes with the next start",
                 "error", why.text);
    limit_old_sockets(c);
    if (limit_sockets(memory, c->caps.memory, err) < 0 ||
        cgroup_write_number(c->dirs[V1_CPU], "cpu.shares", cgroup_cpu_weight(1024, 262144), err) <
            0)
        return -1;
    return cgroup_write_number(c->dirs[V1_PIDS], "pids.max", c->caps.pids, err);
}

static int v1_held(const struct cgroup *c, unsigned long long *ret)
{
    return cgroup_read_held(c->dirs[V1_MEMORY], "memory.usage_in_bytes", "total_active_file",
                            "total_inactive_file", ret);
}

int cgroup_v1_remove_set(const struct cgroup *c, const char *name, struct err *err)
{
    int r = 0;

    for (int i = 0; i < V1_CONTROLLERS; i++) {
        auto_free char *dir = work_dir(c, i, name);

        if (cgroup_rmdir(dir, err) < 0)
            r = -1;
        if (cgroup_v1_has_agent(i)) {
            auto_free char *agent = agent_dir(c, i, name);

            if (cgroup_rmdir(agent, err) < 0)
                r = -1;
        }
    }
    return r;
}

static int v1_remove(const struct cgroup *c, const char *id, struct err *err)
{
    return cgroup_spares_keep(c, id) ? 0 : cgroup_v1_remove_set(c, id, err);
}

/* New ones. What the agent may take never changes, so a set that is used again has it. */
static int make_set(const struct cgroup *c, const char *id, struct err *err)
{
    for (int i = 0; i < V1_CONTROLLERS; i++) {
        auto_free char *dir = work_dir(c, i, id);
        auto_free char *agent = agent_dir(c, i, id);

        if (cgroup_v1_is_own(c, i) && cgroup_mkdir(dir, err) < 0)
            return -1;
        if (cgroup_v1_has_agent(i) && cgroup_mkdir(agent, err) < 0)
            return -1;
    }
    return limit_agent(c, id, err);
}

static int v1_make(const struct cgroup *c, const char *id, const struct sandbox_limits *limits,
                   struct err *err)
{
    int r = cgroup_spares_take(c, id) ? 0 : make_set(c, id, err);

    if (r == 0)
        r = v1_limit(c, id, limits, err);
    if (r < 0)
        (void)cgroup_v1_remove_set(c, id, NULL);
    return r;
}

/* The descriptor first, then whether it is still one of the box: so no other can be hit that has
 * got its pid meanwhile. */
static void kill_member(int pid, const char *id)
{
    auto_close int pidfd = pidfd_open(pid, 0);

    if (pidfd >= 0 && process_in_box(pid, id))
        (void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
}

/* The freezer's group has all processes of the box. A frozen one takes the signal when it thaws. */
static void v1_kill(const struct cgroup *c, const char *id)
{
    auto_free char *dir = work_dir(c, V1_FREEZER, id);
    auto_free char *procs = xasprintf("%s/cgroup.procs", dir);
    FILE *f = fopen(procs, "re");
    int pid;

    while (f && fscanf(f, "%d", &pid) == 1)
        if (pid > 0)
            kill_member(pid, id);
    if (f)
        (void)fclose(f);
    (void)cgroup_write(dir, "freezer.state", "THAWED", NULL);
}

static char **v1_work_dirs(const struct cgroup *c, const char *id)
{
    char **dirs = NULL;

    for (int i = 0; i < V1_CONTROLLERS; i++) {
        auto_free char *dir = work_dir(c, i, id);

        if (cgroup_v1_is_own(c, i))
            dirs = strv_add(dirs, dir);
    }
    return dirs;
}

static char **v1_agent_dirs(const struct cgroup *c, const char *id)
{
    char **dirs = NULL;

    for (int i = 0; i < V1_CONTROLLERS; i++) {
        auto_free char *dir = agent_dir(c, i, id);

        if (cgroup_v1_has_agent(i))
            dirs = strv_add(dirs, dir);
    }
    return dirs;
}

static bool freezer_is(int fd, const char *want)
{
    char state[32];
    ssize_t n = pread(fd, state, sizeof(state) - 1, 0);

    state[n > 0 ? n : 0] = '\0';
    return str_starts(state, want);
}

/* FREEZING becomes FROZEN when the last task has stopped; reading the state drives that on. */
static int v1_freeze(const struct cgroup *c, const char *id, bool frozen, struct err *err)
{
    auto_free char *file = xasprintf("%s/%s/freezer.state", c->dirs[V1_FREEZER], id);
    auto_close int fd = open(file, O_RDWR | O_CLOEXEC);
    const char *want = frozen ? "FROZEN" : "THAWED";
    int64_t end = mono_ns() + FREEZE_LIMIT_MS * 1000000ll;

    if (fd < 0)
        return err_sys(err, errno, "open the freezer of %s", id);
    if (frozen && freezer_is(fd, want)) /* by v1_begin_freeze(), which was a while ago */
        return 0;
    for (int tries = 0; mono_ns() < end; tries++) {
        struct timespec ts = {.tv_nsec = tries < 50 ? 20000 : 1000000};

        if (tries % 100 == 0 && pwrite(fd, want, strlen(want), 0) < 0)
            return err_sys(err, errno, "set the freezer of %s to %s", id, want);
        if (freezer_is(fd, want))
            return 0;
        (void)nanosleep(&ts, NULL);
    }
    (void)!pwrite(fd, "THAWED", strlen("THAWED"), 0);
    return err_set(err, ERR_UNAVAILABLE,
                   "a process does not stop (it waits in the kernel); try again later");
}

static void v1_begin_freeze(const struct cgroup *c, const char *id)
{
    auto_free char *dir = work_dir(c, V1_FREEZER, id);

    (void)cgroup_write(dir, "freezer.state", "FROZEN", NULL);
}

static int v1_stats(const struct cgroup *c, const char *id, struct box_stats *ret, struct err *err)
{
    auto_free char *memory = work_dir(c, V1_MEMORY, id);
    auto_free char *pids = work_dir(c, V1_PIDS, id);
    auto_free char *cpuacct = work_dir(c, V1_CPUACCT, id);
    unsigned long long cpu, used, inactive, limit, count, kills;

    if (cgroup_read(cpuacct, "cpuacct.usage", &cpu) < 0 ||
        cgroup_read(memory, "memory.usage_in_bytes", &used) < 0 ||
        cgroup_read(memory, "memory.limit_in_bytes", &limit) < 0 ||
        cgroup_read_key(memory, "memory.stat", "total_inactive_file", &inactive) < 0 ||
        cgroup_read_key(memory, "memory.oom_control", "oom_kill", &kills) < 0 ||
        cgroup_read(pids, "pids.current", &count) < 0)
        return err_set(err, ERR_UNAVAILABLE, "the cgroups of %s cannot be read", id);
    ret->cpu_ns = cpu;
    ret->memory_bytes = used > inactive ? used - inactive : 0;
    ret->memory_limit = limit;
    ret->pids = count;
    ret->oom_kills = kills;
    return 0;
}

static void v1_each(const struct cgroup *c, void (*found)(const char *id, void *arg), void *arg)
{
    for (int i = 0; i < V1_CONTROLLERS; i++) {
        DIR *d = opendir(c->dirs[i]);
        struct dirent *e;

        while (d && (e = readdir(d))) {
            char id[ID_SIZE + 8];
            char *dot;

            (void)snprintf(id, sizeof(id), "%.*s", (int)sizeof(id) - 1, e->d_name);
            dot = strchr(id, '.');
            if (dot)
                *dot = '\0';
            if (id_valid(id, "sbx"))
                found(id, arg);
        }
        if (d)
            (void)closedir(d);
    }
}

static void v1_close(const struct cgroup *c)
{
    cgroup_spares_close(c);
    for (int i = 0; i < V1_CONTROLLERS; i++)
        (void)rmdir(c->dirs[i]);
}

const struct cgroup_ops cgroup_v1_ops = {
    .make = v1_make,
    .limit = v1_limit,
    .work_dirs = v1_work_dirs,
    .agent_dirs = v1_agent_dirs,
    .freeze = v1_freeze,
    .begin_freeze = v1_begin_freeze,
    .stats = v1_stats,
    .kill = v1_kill,
    .remove = v1_remove,
    .each = v1_each,
    .cap = v1_cap,
    .held = v1_held,
    .close = v1_close,
};
