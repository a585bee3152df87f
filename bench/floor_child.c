/* The inside half of a box of the floor: from the clone to the exec of the agent, in the steps and
 * the order of src/launch/box.c. Up to the parts everything is parked. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>

#include "base/caps.h"
#include "base/fd.h"
#include "base/mem.h"
#include "floor.h"
#include "proto/plan.h" /* the capabilities that a box has */

_Static_assert((int)FLOOR_FD_USERS == (int)AGENT_FD_USERS, "the filter lets no other be entered");

static int report_fd; /* where a failure is told: first the socket, then the status pipe */

static void fail(const char *step) __attribute__((noreturn));
static void fail(const char *step)
{
    struct child_failure f = {.error = errno};

    (void)snprintf(f.step, sizeof(f.step), "%s", step);
    (void)write_all(report_fd, &f, sizeof(f));
    _exit(1);
}

#define TRY(call, step)                                                                            \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            fail(step);                                                                            \
    } while (0)

enum { SAFE = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC };

/* ---- descriptors ---- */

#define ABOVE 100

static int moved_up(int fd)
{
    int up = fcntl(fd, F_DUPFD_CLOEXEC, ABOVE);

    if (up < 0)
        fail("move descriptors");
    return up;
}

/* The agent's get their numbers now; the others close with the exec, and those of other boxes at
 * once. The places that are filled later are kept by /dev/null. */
static void arrange(const struct child_plan *plan, int *ret_agent)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int fds[FLOOR_FD_GROUPS + FLOOR_AGENTS_MAX], n = FLOOR_FD_GROUPS;

    for (int i = 0; i < FLOOR_FD_GROUPS; i++)
        fds[i] = null;
    fds[FLOOR_FD_CTL] = plan->ctl;
    fds[FLOOR_FD_EXEC] = plan->exec;
    for (unsigned i = 0; i < plan->groups->n_agent; i++)
        fds[n++] = plan->groups->agent_procs[i];
    for (int i = 0; i < n; i++)
        fds[i] = moved_up(fds[i]);
    report_fd = moved_up(plan->sync);
    *ret_agent = moved_up(plan->agent);
    TRY(syscall(SYS_close_range, (unsigned)n, ABOVE - 1u, 0), "close descriptors");
    for (int i = 0; i < n; i++)
        TRY(dup2(fds[i], i), "move descriptors");
    TRY(syscall(SYS_close_range, (unsigned)*ret_agent + 1, ~0u, 0), "close descriptors");
}

/* ---- mounts ---- */

static void attach(int mount, const char *path)
{
    TRY(move_mount(mount, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH), path);
}

/* options: key, value pairs; NULL ends */
static int make_mount(const char *type, unsigned attrs, const char *const *options)
{
    auto_close int fs = fsopen(type, FSOPEN_CLOEXEC);
    int m = -1;

    for (; fs >= 0 && options && options[0]; options += 2)
        TRY(fsconfig(fs, FSCONFIG_SET_STRING, options[0], options[1], 0), type);
    if (fs >= 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        m = fsmount(fs, FSMOUNT_CLOEXEC, attrs);
    TRY(m, type);
    return m;
}

static void mount_new(const char *type, const char *path, unsigned attrs,
                      const char *const *options)
{
    auto_close int m = make_mount(type, attrs, options);

    attach(m, path);
}

/* A read-only clone of from over path; both may be the same. */
static void cover(const char *path, const char *from)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    auto_close int copy = open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (copy < 0 || mount_setattr(copy, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        fail(path);
    attach(copy, path);
}

static void enter_stage(int stage)
{
    auto_close int top = open_tree(stage, "box", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (top < 0 || move_mount(top, "", stage, "box", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        fail("enter the stage");
    TRY(fchdir(top), "enter the stage");
    TRY(syscall(SYS_pivot_root, ".", "."), "pivot_root");
    TRY(umount2(".", MNT_DETACH), "leave the host's mounts");
    TRY(chdir("/"), "enter the stage");
}

/* A made up /sys, with a few folders of the kernel's. Returns it. */
static int stage_sys(int sysfs)
{
    static const char *const folders[] = {
        "block",
        "bus",
        "class",
        "class/net",
        "dev",
        "fs",
        "dev/block",
        "devices",
        "devices/system",
        "kernel",
        "devices/virtual",
        "devices/virtual/net",
        "firmware",
        "module",
        "fs/cgroup",
        "kernel/mm",
        "kernel/mm/hugepages",
        "power",
        "kernel/mm/transparent_hugepage",
    };
    static const char *const shown[] = {"class/net", "devices/system", "devices/virtual/net",
                                        "kernel/mm/hugepages", "kernel/mm/transparent_hugepage"};
    static const char *const options[] = {"mode", "0555", "size", "0", NULL};
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
    int sys = make_mount("tmpfs", SAFE, options);

    attach(sysfs, "sysfs");
    attach(sys, "sys");
    for (unsigned i = 0; i < ARRAY_LEN(folders); i++)
        TRY(mkdirat(sys, folders[i], 0555), folders[i]);
    for (unsigned i = 0; i < ARRAY_LEN(shown); i++) {
        auto_close int part = open_tree(sysfs, shown[i], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

        if (part >= 0)
            TRY(move_mount(part, "", sys, shown[i], MOVE_MOUNT_F_EMPTY_PATH), shown[i]);
    }
    TRY(mount_setattr(sys, "", AT_EMPTY_PATH, &read_only, sizeof(read_only)), "close /sys");
    TRY(umount2("sysfs", MNT_DETACH), "leave sysfs");
    return sys;
}

static bool is_shown(const struct dirent *e)
{
    static const char *const shown[] = {"cgroups", "cpuinfo", "filesystems", "loadavg",
                                        "meminfo", "stat",    "sys",         "sysvipc",
                                        "tty",     "uptime",  "version",     "vmstat"};

    if (e->d_type == DT_LNK || e->d_name[0] == '.' || (e->d_name[0] >= '0' && e->d_name[0] <= '9'))
        return true;
    for (unsigned i = 0; i < ARRAY_LEN(shown); i++)
        if (strcmp(shown[i], e->d_name) == 0)
            return true;
    return false;
}

/* What the box's root may not read anyway is left as it is; so does cay. */
static void mask_proc(void)
{
    DIR *proc = opendir("proc");
    const struct dirent *e;

    while (proc && (e = readdir(proc))) {
        char path[280];
        struct stat st;

        (void)snprintf(path, sizeof(path), "proc/%s", e->d_name);
        if (!is_shown(e) && stat(path, &st) == 0 && (st.st_uid == 0 || (st.st_mode & 0007)))
            cover(path, S_ISDIR(st.st_mode) ? "sys/block" : "dev/null");
    }
    if (!proc)
        fail("mask /proc");
    (void)closedir(proc);
}

static void stage_mounts(const struct child_plan *plan, int proc, int *sys, int dev)
{
    static const char *const pts[] = {"ptmxmode", "0666", "mode", "0620", "max", "64", NULL};
    static const char *const shm[] = {"mode", "1777", "size", "67108864", NULL};

    attach(proc, "proc");
    *sys = stage_sys(*sys);
    if (plan->groups->v2)
        mount_new("cgroup2", "sys/fs/cgroup", SAFE | MOUNT_ATTR_RDONLY, NULL);
    attach(dev, "dev");
    mount_new("devpts", "dev/pts", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, pts);
    mount_new("tmpfs", "dev/shm", SAFE, shm);
    mount_new("mqueue", "dev/mqueue", SAFE, NULL);
    mask_proc();
    TRY(write_file_at(AT_FDCWD, "proc/sys/user/max_user_namespaces", "0"), "sysctl");
    TRY(write_file_at(AT_FDCWD, "proc/sys/net/ipv4/ip_unprivileged_port_start", "0"), "sysctl");
    TRY(write_file_at(AT_FDCWD, "proc/sys/net/ipv4/ping_group_range", "0 65535"), "sysctl");
    cover("proc/sys", "proc/sys");
}

/* ---- the rest ---- */

static void loopback_up(void)
{
    struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &req) < 0)
        fail("loopback");
}

static int receive_dev(void)
{
    size_t n = 1;
    int dev;
    char byte;

    if (recv_fds(report_fd, &byte, 1, &dev, &n) != 1 || n != 1)
        fail("wait for /dev");
    return dev;
}

static int idle(void *unused)
{
    (void)unused;
    while (pause() < 0)
        ;
    return 0;
}

/* The commands' user namespace in the box's own, made by a process that is born in it. */
static void make_users(int proc)
{
    static char stack[4096] __attribute__((aligned(16)));
    static const char *const files[] = {"uid_map", "gid_map"};
    char path[32], map[32];
    int users;
    pid_t pid;

    TRY(setgroups(0, NULL), "setgroups");
    TRY(setresgid(0, 0, 0), "setresgid");
    TRY(prctl(PR_SET_DUMPABLE, 1), "dumpable");
    TRY(pid = clone(idle, stack + sizeof(stack), CLONE_VM | CLONE_NEWUSER | SIGCHLD, NULL),
        "clone the second namespace");
    (void)snprintf(map, sizeof(map), "0 0 %u", FLOOR_IDS);
    for (unsigned i = 0; i < ARRAY_LEN(files); i++) {
        (void)snprintf(path, sizeof(path), "%d/%s", pid, files[i]);
        TRY(write_file_at(proc, path, map), "map the second namespace");
    }
    (void)snprintf(path, sizeof(path), "%d/ns/user", pid);
    TRY(users = openat(proc, path, O_RDONLY | O_CLOEXEC), "open the second namespace");
    TRY(dup2(users, FLOOR_FD_USERS), "move descriptors");
    (void)close(users);
    (void)kill(pid, SIGKILL);
}

static void take_one_cpu(unsigned number)
{
    cpu_set_t all, mine;
    unsigned seen = 0;

    TRY(sched_getaffinity(0, sizeof(all), &all), "affinity");
    number %= (unsigned)CPU_COUNT(&all);
    CPU_ZERO(&mine);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && seen++ == number)
            CPU_SET(cpu, &mine);
    TRY(sched_setaffinity(0, sizeof(mine), &mine), "affinity");
}

static void set_rlimits(void)
{
    static const struct {
        __rlimit_resource_t what;
        struct rlimit value;
    } rows[] = {
        {RLIMIT_CORE, {1, 1}},
        {RLIMIT_NOFILE, {1024, 65536}},
        {RLIMIT_MEMLOCK, {8 << 20, 8 << 20}},
        {RLIMIT_MSGQUEUE, {819200, 819200}},
        {RLIMIT_RTPRIO, {0, 0}},
        {RLIMIT_NICE, {0, 0}},
        {RLIMIT_STACK, {8 << 20, 8 << 20}},
        {RLIMIT_SIGPENDING, {4096, 4096}},
    };

    /* A hard limit that is lower already stays as it is. */
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
        (void)setrlimit(rows[i].what, &rows[i].value);
}

struct parked {
    int agent, proc, sys, dev;
};

static void park(const struct child_plan *plan, struct parked *p)
{
    auto_close int stage = -1;

    TRY(groups_join(plan->groups, 0, NULL), "join the cgroups");
    arrange(plan, &p->agent);
    TRY(stage = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), "open the stage");
    loopback_up();
    p->proc = make_mount("proc", SAFE, NULL);
    p->sys = make_mount("sysfs", SAFE | MOUNT_ATTR_RDONLY, NULL);
    p->dev = receive_dev();
    make_users(p->proc);
    TRY(setresuid(0, 0, 0), "become root of the box");
    TRY(prctl(PR_SET_DUMPABLE, 1), "dumpable");
    TRY(unshare(CLONE_NEWCGROUP), "cgroup namespace");
    enter_stage(stage);
    stage_mounts(plan, p->proc, &p->sys, p->dev);
    TRY(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL), "keyring");
    take_one_cpu(plan->cpu);
    set_rlimits();
    TRY(caps_bound(BOX_CAPABILITIES), "bound capabilities");
    TRY(write_all(report_fd, &(struct child_failure){0}, sizeof(struct child_failure)), "park");
}

static void receive_parts(int parts[PARTS])
{
    size_t n = PARTS;
    char byte;

    if (recv_fds(report_fd, &byte, 1, parts, &n) != 1) /* not wanted any more */
        _exit(1);
    if (n != PARTS && n != PART_USR)
        fail("wait for the parts");
    if (n == PART_USR)
        parts[PART_USR] = -1;
    TRY(report_fd = dup2(parts[PART_STATUS], FLOOR_FD_STATUS), "move descriptors");
}

static void start(const struct child_plan *plan, const struct parked *p, const int parts[PARTS])
{
    struct rlimit size = {4097ull << 20, 4097ull << 20};
    int calls;

    TRY(sethostname("cay", 3), "hostname");
    attach(parts[PART_ROOT], "/");
    TRY(fchdir(parts[PART_ROOT]), "enter the root");
    if (parts[PART_USR] >= 0)
        attach(parts[PART_USR], "usr");
    attach(p->proc, "proc");
    attach(p->sys, "sys");
    attach(p->dev, "dev");
    TRY(chroot("."), "enter the root");
    TRY(chdir("/"), "enter the root");
    (void)setrlimit(RLIMIT_FSIZE, &size);
    TRY(caps_set(BOX_CAPABILITIES), "capset");
    TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    TRY(calls = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                             plan->filter),
        "seccomp");
    TRY(dup2(calls, FLOOR_FD_CALLS), "move descriptors");
}

void child_main(const struct child_plan *plan)
{
    char groups[12];
    char *argv[] = {(char[]){"floor-agent"}, groups, NULL};
    char *envp[] = {NULL};
    struct parked p;
    int parts[PARTS];

    report_fd = plan->sync;
    (void)snprintf(groups, sizeof(groups), "%u", plan->groups->n_agent);
    park(plan, &p);
    receive_parts(parts);
    start(plan, &p, parts);
    (void)syscall(SYS_execveat, p.agent, "", argv, envp, AT_EMPTY_PATH);
    fail("exec of the agent");
}
