#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "launch/box_internal.h"

/* The child's side: from a fresh set of namespaces to the agent, one step at a time.
 *
 *  1. Until wait_for_ids() returns, ids are not mapped: nothing that makes an owned object happens
 *     before.
 *  2. The host's mounts are left in enter_stage(), before an image is near: from then on the
 *     namespace holds an empty tmpfs and what is mounted on it. /proc, /sys and /dev are set up
 *     there.
 *  3. Up to wait_for_start() nothing depends on the image or the limits, so it is done ahead of
 *     time; what comes after is on the path of a create and is short.
 *  4. Paths inside the image's root are resolved with RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS, so
 *     that no image can lead a mount elsewhere.
 *  5. Capabilities, no_new_privs and the filter come last, in that order, because each of the
 *     steps before needs what they take away. Only descriptors are moved afterwards. The bounding
 * set takes nothing away before an exec.
 *  6. A step that fails ends the box: there is no half-protected one. */

static int compare_fds(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* The launcher's other descriptors (other parked boxes, the daemon's socket) are none of ours;
 * holding one would keep a neighbour waiting after the launcher is gone. */
static int close_others(struct child *child)
{
    int keep[3 + 3 + 2 * CGROUPS_MAX] = {0, 1, 2};
    unsigned n = 3;

    keep[n++] = child->sync;
    keep[n++] = child->l->agent;
    keep[n++] = child->cgroups.oom;
    for (unsigned i = 0; i < child->cgroups.n_agent; i++)
        keep[n++] = child->cgroups.agent[i];
    for (unsigned i = 0; i < child->cgroups.n_work; i++)
        keep[n++] = child->cgroups.work[i];
    qsort(keep, n, sizeof(keep[0]), compare_fds);
    for (unsigned i = 0; i < n; i++) {
        unsigned first = (unsigned)keep[i] + 1;
        unsigned last = i + 1 < n ? (unsigned)keep[i + 1] - 1 : ~0u;

        if (first <= last && syscall(SYS_close_range, first, last, 0) < 0)
            return -errno;
    }
    return 0;
}

/* The launcher's standard descriptors are the daemon's; the box gets /dev/null. */
static int close_standard(struct child *child)
{
    auto_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)child;
    for (int fd = 0; fd < 3; fd++)
        if (null < 0 || dup2(null, fd) < 0)
            return -errno;
    return 0;
}

/* Where the launcher was when it made us: the folders above it are the host's root's alone, who we
 * are not. */
static int open_stage(struct child *child)
{
    child->stage = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return child->stage < 0 ? -errno : 0;
}

/* Before anything that costs memory. On v2 we were born there. */
static int join_cgroups(struct child *child)
{
    if (child->plan->cgroup_v2)
        return 0;
    for (unsigned i = 0; i < child->cgroups.n_work; i++)
        if (write(child->cgroups.work[i], "0", 1) < 0)
            return -errno;
    return 0;
}

static int wait_for_ids(struct child *child)
{
    int fds[2];
    size_t n = ARRAY_LEN(fds);
    char word;
    ssize_t r = recv_fds(child->sync, &word, 1, fds, &n);

    if (r < 0)
        return (int)r;
    if (r == 0 || n != ARRAY_LEN(fds)) /* the launcher has failed or is gone */
        _exit(1);
    child->dev = fds[0];
    child->sys = fds[1];
    return 0;
}

static int become_root(struct child *child)
{
    (void)child;
    /* As in make_users(): what changes ids is not dumpable then. */
    return setresuid(0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 ? -errno : 0;
}

/* Rooted at the workload's cgroup, which we are in now: inside, /proc/self/cgroup says "/". */
static int own_cgroup_view(struct child *child)
{
    (void)child;
    return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

/* ---- from here on the image and the limits are known ---- */

static int wait_for_start(struct child *child)
{
    static char text[PLAN_MAX];
    int fds[PARTS_FDS];
    size_t n = PARTS_FDS;
    struct wire w;
    ssize_t len = recv_fds(child->sync, text, sizeof(text), fds, &n);

    if (len < 0)
        return (int)len;
    if (len == 0) /* not wanted any more, or the launcher is gone */
        _exit(1);
    wire_init(&w, text, (size_t)len);
    plan_get(&w, &child->start);
    child->plan = &child->start;
    if (!wire_ok(&w))
        return -EPROTO;
    return parts_from(&child->parts, fds, n, strv_len(child->start.binds));
}

static int set_hostname(struct child *child)
{
    return sethostname(child->plan->hostname, strlen(child->plan->hostname)) < 0 ? -errno : 0;
}

/* So that nproc and thread pools inside see what the quota gives. A move to another CPU takes
 * longer than all the rest of a start, so the child parks where most boxes are to be. */
static int choose_cpus(struct child *child)
{
    cpu_set_t mine;
    unsigned n, seen = 0;

    if (child->cpus > 0 && child->cpus == child->plan->cpus)
        return 0;
    if (child->cpus == 0 && sched_getaffinity(0, sizeof(child->host_cpus), &child->host_cpus) < 0)
        return -errno;
    n = (unsigned)CPU_COUNT(&child->host_cpus);
    child->cpus = child->plan->cpus > 0 && child->plan->cpus < n ? child->plan->cpus : n;
    CPU_ZERO(&mine);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &child->host_cpus))
            continue;
        if ((seen++ + n - child->plan->cpu_first % n) % n < child->cpus)
            CPU_SET(cpu, &mine);
    }
    return sched_setaffinity(0, sizeof(mine), &mine) < 0 ? -errno : tell_cpus(child, &mine);
}

/* A hard limit cannot be raised without CAP_SYS_RESOURCE on the host, so the host's own stays when
 * it is lower. */
static int set_rlimit(int resource, rlim_t soft, rlim_t hard)
{
    struct rlimit now, want = {soft, hard};

    if (getrlimit(resource, &now) < 0)
        return -errno;
    if (want.rlim_max > now.rlim_max)
        want.rlim_max = now.rlim_max;
    if (want.rlim_cur > want.rlim_max)
        want.rlim_cur = want.rlim_max;
    return setrlimit(resource, &want) < 0 ? -errno : 0;
}

static int set_rlimits(struct child *child)
{
    static const struct {
        int resource;
        rlim_t soft, hard;
    } limits[] = {
        {RLIMIT_CORE, 1, 1}, /* 1 and not 0: a core_pattern that pipes is skipped for 1 */
        {RLIMIT_NOFILE, 1024, 65536},
        {RLIMIT_MEMLOCK, 8 << 20, 8 << 20},
        {RLIMIT_MSGQUEUE, 819200, 819200},
        {RLIMIT_RTPRIO, 0, 0},
        {RLIMIT_NICE, 0, 0},
        {RLIMIT_STACK, 8 << 20, RLIM_INFINITY},
        {RLIMIT_SIGPENDING, 4096, 4096},
    };
    int r = 0;

    (void)child;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(limits); i++)
        r = set_rlimit(limits[i].resource, limits[i].soft, limits[i].hard);
    return r;
}

static int limit_files(struct child *child)
{
    return set_rlimit(RLIMIT_FSIZE, child->plan->file_max, child->plan->file_max);
}

/* A keyring of the daemon's session must not be searched from inside. */
static int new_keyring(struct child *child)
{
    (void)child;
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
        return -errno;
    return 0;
}

/* Takes nothing from us now: it bounds what an exec can give. */
static int bound_capabilities(struct child *child)
{
    (void)child;
    return caps_bound(BOX_CAPABILITIES);
}

static int drop_capabilities(struct child *child)
{
    (void)child;
    return caps_set(BOX_CAPABILITIES);
}

static int no_new_privileges(struct child *child)
{
    (void)child;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

/* The agent finds its descriptors by number (enum agent_fd). Moving them up first keeps one from
 * landing on another that is still to be moved. CLOEXEC takes the copies, and all that the agent
 * does not get. What the filter gives comes later, into the place that is kept for it. */
#define OUT_OF_THE_WAY 256

static int arrange_descriptors(struct child *child)
{
    int fds[AGENT_FD_CGROUPS - AGENT_FD_CTL + 2 * CGROUPS_MAX];
    unsigned n = 0;
    struct parts *p = &child->parts;

    fds[n++] = p->ctl;
    fds[n++] = p->exec;
    fds[n++] = p->logs;
    fds[n++] = child->users;
    fds[n++] = child->cgroups.oom;
    fds[n++] = p->status;
    fds[n++] = STDIN_FILENO; /* the place of AGENT_FD_SYNC */
    fds[n++] = child->meminfo;
    fds[n++] = child->shown_usage;
    fds[n++] = child->usage;
    fds[n++] = child->stat;
    for (unsigned i = 0; i < child->cgroups.n_agent; i++)
        fds[n++] = child->cgroups.agent[i];
    for (unsigned i = 0; i < child->cgroups.n_work; i++)
        fds[n++] = child->cgroups.work[i];
    for (unsigned i = 0; i < n; i++)
        if (dup3(fds[i], OUT_OF_THE_WAY + (int)i, O_CLOEXEC) < 0)
            return -errno;
    p->status = AGENT_FD_STATUS; /* from here on failures are told there */
    for (unsigned i = 0; i < n; i++)
        if (dup2(OUT_OF_THE_WAY + (int)i, AGENT_FD_CTL + (int)i) < 0)
            return -errno;
    return 0;
}

/* What the filter neither allows nor refuses is told on a descriptor, which the agent gets. */
static int load_filter(struct child *child)
{
    int calls = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                             &child->l->filter);

    return calls < 0 || dup2(calls, AGENT_FD_SYNC) < 0 ? -errno : 0;
}

struct step {
    const char *name;
    int (*run)(struct child *child);
};

static const struct step park_steps[] = {
    {"join the cgroups", join_cgroups},
    {"close standard descriptors", close_standard},
    {"close other descriptors", close_others},
    {"open the stage", open_stage},
    {"set the hostname", set_hostname},
    {"open the counters of memory", open_memory},
    {"make /proc", make_proc},
    {"wait for ids", wait_for_ids},
    {"make the commands' user namespace", make_users},
    {"become root of the box", become_root},
    {"unshare the cgroup namespace", own_cgroup_view},
    {"leave the host's mounts", enter_stage},
    {"mount /proc", stage_proc},
    {"mount /sys", stage_sys},
    {"make files of limits", make_told},
    {"choose a cpu", choose_cpus},
    {"make /sys read-only", close_sys},
    {"mount /sys/fs/cgroup", stage_cgroups},
    {"show files of limits", show_told},
    {"mount /dev", stage_dev},
    {"mask kernel files", mask_paths},
    {"set sysctls", set_sysctls},
    {"make /proc read-only", close_proc},
    {"join a new keyring", new_keyring},
    {"set rlimits", set_rlimits},
    {"bound capabilities", bound_capabilities},
};

static const struct step wait_steps[] = {{"wait for the start", wait_for_start}};

static const struct step start_steps[] = {
    {"choose cpus", choose_cpus},
    {"tell the limits", tell_limits},
    {"attach the root filesystem", attach_root},
    {"bind the host's folders", bind_host_folders},
    {"show /etc/hosts", show_hosts},
    {"show /etc/resolv.conf", show_resolver},
    {"move /proc, /sys and /dev", move_kernel_folders},
    {"limit /dev/shm", limit_shm},
    {"mount volumes", mount_more},
    {"enter the root filesystem", enter_root},
    {"limit the size of files", limit_files},
    {"drop capabilities", drop_capabilities},
    {"set no_new_privs", no_new_privileges},
    {"arrange descriptors", arrange_descriptors},
    {"load the seccomp filter", load_filter},
};

/* Runs the agent with just its descriptors: CLOEXEC takes all others. */
static int run_agent(const struct child *child)
{
    const struct cgroup_fds *c = &child->cgroups;
    char n_agent[12], n_work[12], uid[12], memory[24], key[40];
    char *argv[] = {(char[]){"cay-agent"}, n_agent, n_work, uid, memory, NULL};
    char *envp[] = {key, NULL};

    (void)snprintf(n_agent, sizeof(n_agent), "%u", c->n_agent);
    (void)snprintf(n_work, sizeof(n_work), "%u", c->n_work);
    (void)snprintf(uid, sizeof(uid), "%u", AGENT_UID);
    (void)snprintf(memory, sizeof(memory), "%llu", (unsigned long long)child->plan->memory_max);
    (void)snprintf(key, sizeof(key), AGENT_LEASE_KEY "=%llu",
                   (unsigned long long)child->l->lease_key);
    (void)syscall(SYS_execveat, child->l->agent, "", argv, envp, AT_EMPTY_PATH);
    return -errno;
}

void launch_tell(int fd, const char *step, int error)
{
    struct launch_report report = {.error = error};

    (void)snprintf(report.step, sizeof(report.step), "%s", step);
    (void)write_all(fd, &report, sizeof(report));
}

/* Does the steps, or ends with a report of the one that failed: to the launcher while parked, to
 * the daemon afterwards. */
static void run_steps(struct child *child, const struct step *steps, size_t n, const int *report)
{
    for (size_t i = 0; i < n; i++) {
        const char *fault = child->l->fault;
        int r = fault && strcmp(fault, steps[i].name) == 0 ? -EIO : steps[i].run(child);

        if (r == 0)
            continue;
        launch_tell(*report, *child->failed ? child->failed : steps[i].name, -r);
        _exit(1);
    }
}

void box_run(const struct launcher *l, const struct plan *plan, const struct cgroup_fds *cgroups,
             int sync)
{
    static struct child child;

    child = (struct child){.l = l, .plan = plan, .cgroups = *cgroups, .sync = sync};
    run_steps(&child, park_steps, ARRAY_LEN(park_steps), &child.sync);
    launch_tell(child.sync, "", 0);
    run_steps(&child, wait_steps, ARRAY_LEN(wait_steps), &child.sync);
    run_steps(&child, start_steps, ARRAY_LEN(start_steps), &child.parts.status);
    launch_tell(child.parts.status, "start the agent", -run_agent(&child));
    _exit(1);
}
