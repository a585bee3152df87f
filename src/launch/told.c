#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "launch/box_internal.h"
#include "launch/mount_calls.h"

/* What a box is told of itself: its name, the processors and the memory that it may use. Programs
 * ask files of the kernel for these, which tell of the whole machine; so the box has files of its
 * own over them. All are in one folder of its /sys, made while it is parked with the limits that
 * most boxes have, and written again only when the START has others.
 *
 * On cgroup v2 the box's own group is shown as it is (mounts.c). On v1 it cannot be: groups are
 * used again there, and have counts of those who had them before that nobody can set to zero. So
 * what is in /sys/fs/cgroup is made up as well. But the JVM, Go and .NET look for the controllers
 * in /proc/self/mountinfo, and the JVM believes in none unless all four are there. So these are
 * mounted, and then covered: no path leads to them.
 *
 * Two of the files say how much memory is in use. The agent writes them when somebody opens them
 * (agent/meminfo.c). */

#define MADE   ".box"
#define MEMORY "cgroup/memory" /* has the files of all controllers; the others are links to it */

#define NO_LIMIT 9223372036854771712ull /* as the kernel writes it */

static const char *const controllers[] = {"memory", "cpu", "cpuacct", "cpuset"};

/* ---- launcher side ---- */

#define KNOWN_MAX 32

struct known {
    char name[32];
    unsigned hierarchy; /* 0 = it is not on v1 */
};

/* Lines of a name, the number of its hierarchy, and more. */
static size_t read_known(const char *text, struct known known[KNOWN_MAX])
{
    size_t n = 0;

    for (const char *line = text; line && n < KNOWN_MAX; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (sscanf(line, "%31[a-z_] %u", known[n].name, &known[n].hierarchy) == 2)
            n++;
    }
    return n;
}

static unsigned hierarchy_of(const struct known *known, size_t n, const char *controller)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(known[i].name, controller) == 0)
            return known[i].hierarchy;
    return 0;
}

/* All controllers of that hierarchy, which have none from now on. NULL = there are none. */
static char *join_hierarchy(struct known *known, size_t n, unsigned id)
{
    char *all = NULL;

    for (size_t i = 0; id != 0 && i < n; i++) {
        char *longer;

        if (known[i].hierarchy != id)
            continue;
        longer = xasprintf("%s%s%s", all ? all : "", all ? "," : "", known[i].name);
        free(all);
        all = longer;
        known[i].hierarchy = 0;
    }
    return all;
}

char **told_hierarchies(const char *cgroups)
{
    struct known known[KNOWN_MAX];
    size_t n = read_known(cgroups, known);
    char **ret = xcalloc(1, sizeof(*ret));

    for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
        auto_free char *names = join_hierarchy(known, n, hierarchy_of(known, n, controllers[i]));

        if (names)
            ret = strv_add(ret, names);
    }
    return ret;
}

/* ---- in the child: the files ---- */

static int put(int dir, const char *name, const char *text)
{
    auto_close int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);

    return fd < 0 ? -errno : write_all(fd, text, strlen(text));
}

static int put_number(int dir, const char *name, uint64_t number)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%llu\n", (unsigned long long)number);
    return put(dir, name, text);
}

/* One that the agent will write. It has its page from now on, whatever the box does with the rest.
 */
static int put_live(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC, 0444);

    return fd < 0 || write_all(fd, "0\n", 2) < 0 ? -errno : fd;
}

/* "0-3,6": the processors of the set, as the kernel writes them. */
static void put_set(const cpu_set_t *set, char *text, size_t size)
{
    size_t n = 0;

    for (int cpu = 0; cpu < CPU_SETSIZE && n < size; cpu++) {
        int first = cpu;

        if (!CPU_ISSET(cpu, set))
            continue;
        while (cpu + 1 < CPU_SETSIZE && CPU_ISSET(cpu + 1, set))
            cpu++;
        n += (size_t)snprintf(text + n, size - n, first < cpu ? "%s%d-%d" : "%s%d", n ? "," : "",
                              first, cpu);
    }
    if (n + 1 < size)
        memcpy(text + n, "\n", 2);
}

int tell_cpus(struct child *child, const cpu_set_t *cpus)
{
    char text[4096] = "";

    put_set(cpus, text, sizeof(text));
    return put(child->made, "online", text);
}

int tell_limits(struct child *child)
{
    const struct plan *plan = child->plan;
    char stat[64];
    int r;

    if (child->v2 || (child->memory_max == plan->memory_max && child->cpu_quota == plan->cpu_quota))
        return 0;
    child->memory_max = plan->memory_max;
    child->cpu_quota = plan->cpu_quota;
    (void)snprintf(stat, sizeof(stat), "hierarchical_memory_limit %llu\n",
                   (unsigned long long)plan->memory_max);
    r = put(child->made, MEMORY "/memory.stat", stat);
    if (r == 0)
        r = put_number(child->made, MEMORY "/memory.limit_in_bytes", plan->memory_max);
    return r < 0 ? r : put_number(child->made, MEMORY "/cpu.cfs_quota_us", plan->cpu_quota);
}

static int link_to_memory(const struct child *child, const char *name)
{
    char path[300];

    (void)snprintf(path, sizeof(path), "cgroup/%s", name);
    return symlinkat("memory", child->made, path) < 0 ? -errno : 0;
}

/* A place for its mount; and a name for the folder, unless it is that of a controller. */
static int add_hierarchy(const struct child *child, const char *names)
{
    char path[300];

    (void)snprintf(path, sizeof(path), "fs/cgroup/%s", names);
    if (mkdirat(child->sys, path, 0555) < 0)
        return -errno;
    return strchr(names, ',') ? link_to_memory(child, names) : 0;
}

static int make_cgroup(struct child *child)
{
    int r = mkdirat(child->made, "cgroup", 0555) < 0 || mkdirat(child->made, MEMORY, 0555) < 0
                ? -errno
                : put_number(child->made, MEMORY "/cpu.cfs_period_us", PLAN_CPU_PERIOD);

    if (r == 0) /* node believes in the other limit only if this one is there */
        r = put_number(child->made, MEMORY "/memory.soft_limit_in_bytes", NO_LIMIT);
    for (size_t i = 1; r == 0 && i < ARRAY_LEN(controllers); i++)
        r = link_to_memory(child, controllers[i]);
    for (char **h = child->l->hierarchies; r == 0 && *h; h++)
        r = add_hierarchy(child, *h);
    if (r < 0)
        return r;
    child->shown_usage = put_live(child->made, MEMORY "/memory.usage_in_bytes");
    return child->shown_usage < 0 ? child->shown_usage : tell_limits(child);
}

/* One that the box may write, as a mount that is shown later. */
static int put_own(const struct child *child, const char *name, const char *text)
{
    char path[32];
    int r = put(child->made, name, text);

    if (r < 0 || fchmodat(child->made, name, 0644, 0) < 0)
        return r < 0 ? r : -errno;
    (void)snprintf(path, sizeof(path), MADE "/%s", name);
    r = open_tree(child->sys, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    return r < 0 ? -errno : r;
}

static int make_hosts(struct child *child)
{
    char text[512];

    (void)snprintf(text, sizeof(text),
                   "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
                   "127.0.0.1\t%s\n",
                   child->plan->hostname);
    child->hosts = put_own(child, "hosts", text);
    return child->hosts < 0 ? child->hosts : 0;
}

/* In every box: one without a network may get one later. */
static int make_resolver(struct child *child)
{
    char text[256];

    if (!*child->plan->nameserver)
        return 0;
    (void)snprintf(text, sizeof(text),
                   "# Made by cay. The gateway answers, for names that the network policy of the "
                   "sandbox allows.\nnameserver %s\n",
                   child->plan->nameserver);
    child->resolver = put_own(child, "resolv.conf", text);
    return child->resolver < 0 ? child->resolver : 0;
}

/* While /sys can be written. What is written later goes through a mount of the folder that stays on
 * the stage: the kernel takes its time to end a mount that is nowhere when it is closed. */
int make_told(struct child *child)
{
    int r;

    if (mkdirat(child->sys, MADE, 0555) < 0)
        return -errno;
    child->made = open_tree(child->sys, MADE, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (child->made < 0 ||
        move_mount(child->made, "", child->top, "sysfs", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    child->meminfo = put_live(child->made, "meminfo");
    r = child->meminfo < 0 ? child->meminfo : make_hosts(child);
    if (r == 0)
        r = make_resolver(child);
    return r < 0 || child->v2 ? r : make_cgroup(child);
}

/* ---- in the child: where they are shown ---- */

/* The counters of the workload's own memory, for the agent. By the host's names, so before these
 * are left. */
int open_memory(struct child *child)
{
    char path[4200];

    child->v2 = child->plan->cgroup_v2;
    (void)snprintf(path, sizeof(path), "%s/memory.%s", child->plan->work[0],
                   child->v2 ? "current" : "usage_in_bytes");
    child->usage = open(path, O_RDONLY | O_CLOEXEC);
    (void)snprintf(path, sizeof(path), "%s/memory.stat", child->plan->work[0]);
    child->stat = open(path, O_RDONLY | O_CLOEXEC);
    return child->usage < 0 || child->stat < 0 ? -errno : 0;
}

/* The mounts are for those who read of them: one that cannot be made is missed by few. */
int cover_cgroups(const struct child *child)
{
    for (char **h = child->l->hierarchies; *h; h++) {
        char path[300];

        (void)snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", *h);
        (void)mount("cgroup", path, "cgroup", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, *h);
    }
    return mount("/sys/" MADE "/cgroup", "/sys/fs/cgroup", NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

int show_told(struct child *child)
{
    static const char online[] = "/sys/devices/system/cpu/online";

    (void)child;
    if (mount("/sys/" MADE "/meminfo", "/proc/meminfo", NULL, MS_BIND, NULL) < 0 ||
        (mount("/sys/" MADE "/online", online, NULL, MS_BIND, NULL) < 0 && errno != ENOENT))
        return -errno;
    return 0;
}

static int open_place(int root, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .mode = flags & O_CREAT ? 0644 : 0,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS};

    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* An image that has none gets an empty one below, and one where it is a folder keeps that. A link
 * is covered and not followed: wherever it leads, or would, nothing is made there. */
static void show_file(const struct child *child, int mount, const char *path)
{
    auto_close int at = open_place(child->top, path, O_PATH | O_NOFOLLOW);

    if (at < 0 && errno == ENOENT) {
        (void)mkdirat(child->top, "etc", 0755);
        at = open_place(child->top, path, O_WRONLY | O_CREAT);
    }
    if (at >= 0)
        (void)move_mount(mount, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

int show_hosts(struct child *child)
{
    show_file(child, child->hosts, "etc/hosts");
    return 0;
}

int show_resolver(struct child *child)
{
    if (child->resolver > 0)
        show_file(child, child->resolver, "etc/resolv.conf");
    return 0;
}
