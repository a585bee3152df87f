/* The inside half of a box of the floor: from the clone to the exec of the agent.
 *
 * Order: 1 the root is moved in while we still are the host's root, which may walk to the mount
 * point; 2 ids are taken before filesystems are mounted, so that these belong to the box; 3 masks
 * go over /proc and /sys before pivot_root; 4 the filter comes last, since it forbids most of the
 * above. */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <sched.h>
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

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>

#include "base/fd.h"
#include "base/mem.h"
#include "floor.h"

static int status_fd;

static void fail(const char *step) __attribute__((noreturn));
static void fail(const char *step)
{
    struct child_failure f = {.error = errno};

    (void)snprintf(f.step, sizeof(f.step), "%s", step);
    (void)write_all(status_fd, &f, sizeof(f));
    _exit(1);
}

#define TRY(call, step)                                                                            \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            fail(step);                                                                            \
    } while (0)

enum { SAFE = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC };

static void receive(const struct child_plan *plan, int parts[PARTS])
{
    size_t n = PARTS;
    char byte;

    if (recv_fds(plan->go, &byte, 1, parts, &n) != 1 || (n != PARTS && n != PART_USR))
        fail("wait for the parts");
}

static void become_root_of_box(void)
{
    TRY(setgroups(0, NULL), "setgroups");
    TRY(setresgid(0, 0, 0), "setresgid");
    TRY(setresuid(0, 0, 0), "setresuid");
    TRY(prctl(PR_SET_DUMPABLE, 1), "dumpable"); /* else our own /proc files are closed to us */
    TRY(unshare(CLONE_NEWCGROUP), "cgroup namespace");
    TRY(write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", "500"), "oom_score_adj");
}

static void attach(int mount, const char *path)
{
    TRY(move_mount(mount, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH), path);
}

static void mount_new(const char *type, const char *path, unsigned attrs, const char *mode,
                      const char *size)
{
    int fs = fsopen(type, FSOPEN_CLOEXEC), m;

    if (fs < 0 || (mode && fsconfig(fs, FSCONFIG_SET_STRING, "mode", mode, 0) < 0) ||
        (size && fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0) < 0) ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ||
        (m = fsmount(fs, FSMOUNT_CLOEXEC, attrs)) < 0)
        fail(path);
    attach(m, path);
    (void)close(fs);
    (void)close(m);
}

/* A read-only clone of from over path; both may be the same. */
static void cover(const char *path, const char *from)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    int copy = open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (copy < 0 || mount_setattr(copy, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        fail(path);
    attach(copy, path);
    (void)close(copy);
}

/* What is not there, or what the box's root may not read anyway, is left as it is; so does cay. */
static void mask_paths(const char *empty)
{
    static const char *const masked[] = {
        "proc/kcore",          "proc/keys",        "proc/interrupts",
        "proc/timer_list",     "proc/kmsg",        "proc/kallsyms",
        "proc/config.gz",      "proc/acpi",        "proc/asound",
        "proc/scsi",           "proc/driver",      "sys/firmware",
        "sys/class/dmi",       "sys/kernel/debug", "sys/devices/virtual/dmi",
        "sys/kernel/tracing",  "sys/kernel/btf",   "sys/devices/virtual/powercap",
        "sys/kernel/security", "sys/fs/bpf",       "sys/module",
    };
    struct stat st;

    for (unsigned i = 0; i < ARRAY_LEN(masked); i++)
        if (stat(masked[i], &st) == 0 && (st.st_uid == 0 || (st.st_mode & 0007)))
            cover(masked[i], S_ISDIR(st.st_mode) ? empty : "dev/null");
}

static void close_proc(void)
{
    static const char *const paths[] = {"proc/bus", "proc/fs", "proc/irq", "proc/sys",
                                        "proc/sysrq-trigger"};

    TRY(write_file_at(AT_FDCWD, "proc/sys/user/max_user_namespaces", "0"), "sysctl");
    TRY(write_file_at(AT_FDCWD, "proc/sys/net/ipv4/ip_unprivileged_port_start", "0"), "sysctl");
    TRY(write_file_at(AT_FDCWD, "proc/sys/net/ipv4/ping_group_range", "0 65535"), "sysctl");
    for (unsigned i = 0; i < ARRAY_LEN(paths); i++)
        if (access(paths[i], F_OK) == 0)
            cover(paths[i], paths[i]);
}

static void make_mounts(const struct child_plan *plan, const int parts[PARTS])
{
    attach(parts[PART_ROOT], plan->root);
    TRY(fchdir(parts[PART_ROOT]), "enter the root");
    if (parts[PART_USR] >= 0)
        attach(parts[PART_USR], "usr");
    mount_new("proc", "proc", SAFE, NULL, NULL);
    mount_new("sysfs", "sys", SAFE | MOUNT_ATTR_RDONLY, NULL, NULL);
    mount_new("tmpfs", "sys/fs/cgroup", SAFE | MOUNT_ATTR_RDONLY, "0555", "0");
    attach(parts[PART_DEV], "dev");
    mount_new("devpts", "dev/pts", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, "0620", NULL);
    mount_new("tmpfs", "dev/shm", SAFE, "1777", "64m");
    mount_new("mqueue", "dev/mqueue", SAFE, NULL, NULL);
    mask_paths(plan->empty);
    close_proc();
    TRY(syscall(SYS_pivot_root, ".", "."), "pivot_root");
    TRY(umount2(".", MNT_DETACH), "let go of the host's root");
    TRY(chdir("/"), "enter the root");
}

static void loopback_up(void)
{
    struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &req) < 0)
        fail("loopback");
    (void)close(fd);
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
        {RLIMIT_FSIZE, {4ull << 30, 4ull << 30}},
        {RLIMIT_RTPRIO, {0, 0}},
        {RLIMIT_NICE, {0, 0}},
        {RLIMIT_STACK, {8 << 20, 8 << 20}},
        {RLIMIT_SIGPENDING, {4096, 4096}},
    };

    /* A hard limit that is lower already stays as it is. */
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
        (void)setrlimit(rows[i].what, &rows[i].value);
}

static void drop_privileges(const struct sock_fprog *filter)
{
    const uint32_t keep = 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER |
                          1u << CAP_FSETID | 1u << CAP_KILL | 1u << CAP_SETGID | 1u << CAP_SETUID;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{.effective = keep, .permitted = keep}};

    for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
        if (cap > 31 || !(keep & 1u << cap))
            (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    TRY(syscall(SYS_capset, &head, caps), "capset");
    TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    TRY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter), "seccomp");
}

void child_main(struct child_plan *plan)
{
    char *argv[] = {(char[]){"floor-agent"}, NULL};
    char *envp[] = {NULL};
    int parts[PARTS] = {-1, -1, -1};
    int agent;

    status_fd = plan->status;
    receive(plan, parts);
    become_root_of_box();
    make_mounts(plan, parts);
    loopback_up();
    TRY(sethostname("cay", 3), "hostname");
    set_rlimits();
    TRY(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL), "keyring");
    /* Away from 3 and 4 first, so that neither is overwritten before it is moved. */
    TRY(plan->listen = fcntl(plan->listen, F_DUPFD_CLOEXEC, 100), "move descriptors");
    TRY(status_fd = fcntl(plan->status, F_DUPFD_CLOEXEC, 100), "move descriptors");
    TRY(agent = fcntl(plan->agent, F_DUPFD_CLOEXEC, 100), "move descriptors");
    TRY(dup2(plan->listen, FLOOR_FD_LISTEN), "move descriptors");
    TRY(dup2(status_fd, FLOOR_FD_STATUS), "move descriptors");
    drop_privileges(plan->filter);
    (void)syscall(SYS_execveat, agent, "", argv, envp, AT_EMPTY_PATH);
    fail("exec of the agent");
}
