#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "proto/plan.h"
#include "runtime/native/id_ranges.h"
#include "runtime/native/native_internal.h"

/* What is mounted in a box beside its root: the plans for the launcher, and what the kernel says of
 * it. */

#define ATTACH_LIMIT 10000 /* ms that a mount may take in a box that runs */
#define END_LIMIT    5000  /* ms that the process which mounted it may take to end */

/* ---- plans ---- */

static void fill_mount(const struct box_mount *m, struct plan_mount *ret)
{
    *ret = (struct plan_mount){
        .path = (char *)(uintptr_t)m->path,
        .sub = (char *)(uintptr_t)(m->sub ? m->sub : ""),
        .flags = (m->read_only ? PLAN_MOUNT_READ_ONLY : 0) | (m->noexec ? PLAN_MOUNT_NOEXEC : 0) |
                 (m->fd < 0 ? PLAN_MOUNT_TMPFS : 0) | (m->owned ? PLAN_MOUNT_OWNED : 0),
        .uid = m->uid,
        .gid = m->gid,
        .size = (uint64_t)m->size_mb << 20,
    };
}

size_t plan_mounts(const struct box_root *root, struct plan *plan, int *fds)
{
    size_t n = 0;

    for (unsigned i = 0; i < root->n_mounts && i < PLAN_MOUNTS_MAX; i++) {
        fill_mount(&root->mounts[i], &plan->mounts[plan->n_mounts++]);
        if (root->mounts[i].fd >= 0)
            fds[n++] = root->mounts[i].fd;
    }
    return n;
}

static int bad_path(const char *path, int error, struct err *err)
{
    if (error == ENOTDIR || error == ELOOP)
        return err_code(err, ERR_INVALID, "bad_mount_path",
                        "nothing can be mounted at %s: a part of it is a link, or no directory",
                        path);
    if (error == EBUSY)
        return err_code(err, ERR_CONFLICT, "volume_busy", "%s is in use", path);
    if (error == ENOSPC || error == EDQUOT)
        return err_code(err, ERR_LIMIT, "no_space", "%s cannot be made: the sandbox's disk is full",
                        path);
    return err_code(err, ERR_INVALID, "bad_mount_path", "nothing can be mounted at %s: %s", path,
                    strerror(error));
}

bool mount_explain(const char *step, int error, struct err *err)
{
    if (str_starts(step, PLAN_STEP_MOUNT))
        (void)bad_path(step + strlen(PLAN_STEP_MOUNT), error, err);
    else if (strcmp(step, PLAN_STEP_MAP) == 0)
        (void)err_code(err, ERR_INVALID, "mount_unmappable",
                       "it cannot be mounted with the sandbox's own ids (%s): its filesystem does "
                       "not support id-mapped mounts, or is mapped already",
                       strerror(error));
    else if (strcmp(step, PLAN_STEP_FOLDER) == 0)
        (void)err_code(err, ERR_INVALID, "bad_sub_path",
                       "subPath cannot be mounted: %s (it must be a directory, and no part of it a "
                       "link)",
                       strerror(error));
    else
        return false;
    return true;
}

/* What the process says that went into the box. */
static int await_report(int status, struct err *err)
{
    struct pollfd p = {.fd = status, .events = POLLIN};
    struct launch_report report;
    int n;

    do
        n = poll(&p, 1, ATTACH_LIMIT);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return err_set(err, ERR_TIMEOUT, "the mount did not come about in %d s",
                       ATTACH_LIMIT / 1000);
    if (read_some(status, &report, sizeof(report)) != sizeof(report))
        return err_code(err, ERR_UNAVAILABLE, "launcher_lost",
                        "the launcher has ended, and another is started: try again");
    report.step[sizeof(report.step) - 1] = '\0';
    if (report.error == 0)
        return 0;
    return mount_explain(report.step, report.error, err)
               ? -1
               : err_sys(err, report.error, "cannot %s", report.step);
}

/* Until it has ended, a helper that went into a box holds the box's mount namespace: a stop would
 * leave a volume mounted. */
static void end_helper(int process)
{
    struct pollfd p = {.fd = process, .events = POLLIN};

    if (process < 0 || poll(&p, 1, 0) == 1)
        return;
    (void)pidfd_send_signal(process, SIGKILL, NULL, 0);
    (void)poll(&p, 1, END_LIMIT);
}

static int run_inside(struct native *n, const struct plan *plan, int *fds, size_t n_fds,
                      struct err *err)
{
    auto_close int status_read = -1, status_write = -1, process = -1;
    int status[2], r;

    if (pipe2(status, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    status_read = status[0];
    fds[PLAN_ATTACH_STATUS] = status_write = status[1];
    if (send_plan(n, plan, fds, n_fds, LAUNCHER_WAIT, &process, err) < 0)
        return -1;
    close_fd(&status_write);
    r = await_report(status_read, err);
    end_helper(process);
    return r;
}

/* Its process, which lives: the number is its own as long as the descriptor says so. */
static int process_of(struct native *n, const struct box *box, struct err *err)
{
    const struct berth *b = berth_find(n, box->id);

    if (!b || b->pidfd < 0 || pidfd_send_signal(b->pidfd, 0, NULL, 0) < 0)
        return err_code(err, ERR_UNAVAILABLE, "agent_lost", "%s does not run", box->id);
    return b->pidfd;
}

/* Files may become as long as what was mounted now can hold. Who starts a process has that first,
 * so that none comes without. */
static void raise_file_limit(int64_t pid, void *arg)
{
    const rlim_t *most = arg;
    struct rlimit now, more = {*most, *most};

    if (prlimit((pid_t)pid, RLIMIT_FSIZE, NULL, &now) == 0 && now.rlim_max < *most)
        (void)prlimit((pid_t)pid, RLIMIT_FSIZE, &more, NULL);
}

int native_attach(struct runtime *rt, const struct box *box, const struct box_mount *mount,
                  struct err *err)
{
    struct native *n = native_of(rt);
    struct plan plan = {.op = PLAN_ATTACH,
                        .id = (char *)(uintptr_t)box->id,
                        .stage = n->stage,
                        .ids_base = id_range_base(box->slot),
                        .n_mounts = 1};
    int fds[PLAN_ATTACH_FDS] = {[PLAN_ATTACH_MOUNT] = mount->fd};
    rlim_t most = ((rlim_t)mount->size_mb + 1) << 20;
    auto_close int users = -1;
    char path[48];

    fill_mount(mount, &plan.mounts[0]);
    (void)snprintf(path, sizeof(path), "/proc/%lld/ns/user", (long long)box->pid);
    users = open(path, O_RDONLY | O_CLOEXEC);
    fds[PLAN_ATTACH_USERS] = users;
    fds[PLAN_ATTACH_PROCESS] = process_of(n, box, err);
    if (fds[PLAN_ATTACH_PROCESS] < 0)
        return -1;
    if (users < 0)
        return err_sys(err, errno, "open %s", path);
    if (run_inside(n, &plan, fds, PLAN_ATTACH_FDS, err) < 0)
        return -1;
    box_each_process(n, box->id, raise_file_limit, &most);
    return 0;
}

int native_detach(struct runtime *rt, const struct box *box, const char *path, uint64_t device,
                  struct err *err)
{
    struct native *n = native_of(rt);
    struct plan plan = {
        .op = PLAN_DETACH,
        .id = (char *)(uintptr_t)box->id,
        .mounts[0] = {.path = (char *)(uintptr_t)path, .sub = (char[]){""}, .device = device},
        .n_mounts = 1};
    int fds[PLAN_ATTACH_FDS];

    fds[PLAN_ATTACH_PROCESS] = process_of(n, box, err);
    return fds[PLAN_ATTACH_PROCESS] < 0 ? -1
                                        : run_inside(n, &plan, fds, PLAN_ATTACH_PROCESS + 1, err);
}

/* ---- what the kernel has ---- */

/* \040 and the like, in place. */
static void unescape(char *s)
{
    char *to = s;

    for (; *s; s++) {
        if (s[0] == '\\' && s[1] && s[2] && s[3]) {
            *to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

/* "36 35 98:0 /sub /mnt rw …": the third, fourth and fifth word. */
static bool read_line(char *line, uint64_t *ret_device, char **ret_root, char **ret_path)
{
    char *rest = NULL, *words[5];
    unsigned major_number, minor_number;

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        words[i] = strtok_r(i ? NULL : line, " ", &rest);
        if (!words[i])
            return false;
    }
    if (sscanf(words[2], "%u:%u", &major_number, &minor_number) != 2)
        return false;
    *ret_device = makedev(major_number, minor_number);
    unescape(words[3]);
    unescape(words[4]);
    *ret_root = words[3];
    *ret_path = words[4];
    return true;
}

/* Of what a mount shows, and of where it is, a box may have changed the name since: the first says
 * more, as no two mounts of a box show the same. */
static unsigned rank(const char *root, const char *at, const char *sub, const char *path)
{
    return !path ? 1 : 2 * (strcmp(root + 1, sub ? sub : "") == 0) + (strcmp(at, path) == 0);
}

char *native_find_mount(struct runtime *rt, const struct box *box, uint64_t device, const char *sub,
                        const char *path)
{
    auto_free char *file = xasprintf("/proc/%lld/mountinfo", (long long)box->pid);
    FILE *f = fopen(file, "re");
    auto_free char *line = NULL, *found = NULL;
    unsigned best = 0;
    size_t size = 0;
    int error = f ? 0 : errno;

    (void)rt;
    while (f && getline(&line, &size, f) > 0) {
        uint64_t dev;
        char *root, *at;

        if (!read_line(line, &dev, &root, &at) || dev != device ||
            rank(root, at, sub, path) <= best)
            continue;
        best = rank(root, at, sub, path);
        free(found);
        found = xstrdup(at);
    }
    if (f && ferror(f))
        error = EIO; /* what comes after it is not known */
    if (f)
        (void)fclose(f);
    errno = error;
    return steal_ptr(found);
}
