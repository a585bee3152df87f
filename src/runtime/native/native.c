#include "runtime/native/native.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/plan.h"
#include "runtime/native/cgroup.h"
#include "runtime/native/disk.h"
#include "runtime/native/id_ranges.h"
#include "runtime/runtime.h"

#define BUCKETS      1024
#define LAUNCH_LIMIT 30000 /* ms that a box may take to come up on a loaded machine */

/* What this process knows of a box beyond struct box. */
struct berth {
    struct berth *next;
    char id[ID_SIZE];
    uint32_t slot;
    struct sandbox_limits limits;
    int scratch;   /* root of its disk; not known for a box that was adopted */
    int ctl, exec; /* until create has handed them on */
    bool parked;   /* the launcher has a child waiting for it */
    int64_t pid;   /* of that child, which becomes the agent */
    uint64_t pid_start;
    int pidfd;
};

struct native {
    struct runtime runtime;
    char *data_dir, *run_dir, *stage;
    struct cgroup cgroup;
    struct disk *disk;
    int launcher;
    pthread_mutex_t launcher_lock; /* one plan and its answer at a time */
    pthread_mutex_t lock;          /* of the table */
    struct berth *table[BUCKETS];
};

static struct native *native_of(struct runtime *rt)
{
    return (struct native *)rt;
}

/* ---- the table of berths ---- */

static struct berth **bucket(struct native *n, const char *id)
{
    unsigned hash = 5381;

    for (; *id; id++)
        hash = hash * 33 + (unsigned char)*id;
    return &n->table[hash % BUCKETS];
}

static struct berth *find(struct native *n, const char *id)
{
    struct berth *b;

    (void)pthread_mutex_lock(&n->lock);
    for (b = *bucket(n, id); b && strcmp(b->id, id) != 0; b = b->next)
        ;
    (void)pthread_mutex_unlock(&n->lock);
    return b;
}

static struct berth *add(struct native *n, const char *id)
{
    struct berth *b = xcalloc(1, sizeof(*b));
    struct berth **at;

    (void)snprintf(b->id, sizeof(b->id), "%s", id);
    b->scratch = b->ctl = b->exec = b->pidfd = -1;
    (void)pthread_mutex_lock(&n->lock);
    at = bucket(n, id);
    b->next = *at;
    *at = b;
    (void)pthread_mutex_unlock(&n->lock);
    return b;
}

static void drop(struct native *n, const char *id)
{
    struct berth **at, *b;

    (void)pthread_mutex_lock(&n->lock);
    for (at = bucket(n, id); *at && strcmp((*at)->id, id) != 0; at = &(*at)->next)
        ;
    b = *at;
    if (b)
        *at = b->next;
    (void)pthread_mutex_unlock(&n->lock);
    if (!b)
        return;
    close_fd(&b->scratch);
    close_fd(&b->ctl);
    close_fd(&b->exec);
    close_fd(&b->pidfd);
    free(b);
}

/* ---- files in the run folder ---- */

static char *run_path(const struct native *n, const char *id, const char *name)
{
    return xasprintf("%s/%s/%s", n->run_dir, id, name);
}

static int make_sockets(struct native *n, struct berth *b, struct err *err)
{
    auto_free char *dir = xasprintf("%s/%s", n->run_dir, b->id);
    auto_free char *ctl = run_path(n, b->id, "agent.sock");
    auto_free char *exec = run_path(n, b->id, "exec.sock");

    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make %s", dir);
    b->ctl = unix_listen(ctl, 128);
    if (b->ctl < 0)
        return err_sys(err, -b->ctl, "listen on %s", ctl);
    b->exec = unix_listen(exec, 128);
    if (b->exec < 0)
        return err_sys(err, -b->exec, "listen on %s", exec);
    return 0;
}

static void remove_run_dir(struct native *n, const char *id)
{
    static const char *const names[] = {"agent.sock", "exec.sock", "pid"};
    auto_free char *dir = xasprintf("%s/%s", n->run_dir, id);

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_free char *path = run_path(n, id, names[i]);

        (void)unlink(path);
    }
    (void)rmdir(dir);
}

/* What a daemon that comes after us must know of a box whose row is unfinished or lost. */
static void note_box(struct native *n, const struct box *box)
{
    auto_free char *path = run_path(n, box->id, "pid");
    auto_free char *text = xasprintf("%lld %llu %u\n", (long long)box->pid,
                                     (unsigned long long)box->pid_start, box->slot);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd >= 0)
        (void)write_all(fd, text, strlen(text));
}

static bool recall_box(struct native *n, struct box *box)
{
    auto_free char *path = run_path(n, box->id, "pid");
    char text[64];
    long long pid;
    unsigned long long start;

    if (read_file_at(AT_FDCWD, path, text, sizeof(text)) <= 0 ||
        sscanf(text, "%lld %llu %u", &pid, &start, &box->slot) != 3)
        return false;
    box->pid = pid;
    box->pid_start = start;
    return true;
}

/* Start time of a process in clock ticks since boot: field 22 of its stat, counted after the name,
 * which may hold anything. 0 = no such process. */
static uint64_t start_time(int64_t pid)
{
    char path[64], text[1024];
    char *p;
    uint64_t start = 0;

    (void)snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    if (read_file_at(AT_FDCWD, path, text, sizeof(text)) <= 0 || !(p = strrchr(text, ')')))
        return 0;
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    if (p)
        start = strtoull(p + 1, NULL, 10);
    return start;
}

/* Start times are whole clock ticks, which others share; nobody else is in the box's cgroups. */
static bool is_in_box(int64_t pid, const char *id)
{
    char path[64], text[8192];

    (void)snprintf(path, sizeof(path), "/proc/%lld/cgroup", (long long)pid);
    return read_file_at(AT_FDCWD, path, text, sizeof(text)) > 0 && strstr(text, id);
}

/* ---- ops ---- */

static int native_destroy(struct runtime *rt, const struct box *box, struct err *err);

static int64_t send_plan(struct native *n, const struct plan *plan, const int *fds, size_t n_fds,
                         struct err *err);

/* Has the launcher make the child that will become the box, and waits for no more than its pid. */
static int park(struct native *n, struct berth *b, struct box *box, struct err *err)
{
    auto_strv char **work = n->cgroup.ops->work_dirs(&n->cgroup, box->id);
    auto_strv char **agent = n->cgroup.ops->agent_dirs(&n->cgroup, box->id);
    struct plan plan = {
        .op = PLAN_PARK,
        .id = box->id,
        .stage = n->stage,
        .ids_base = id_range_base(b->slot),
        .work = work,
        .agent = agent,
        .cgroup_v2 = n->cgroup.ops->v2,
        .cpus = 1,
        .cpu_first = b->slot,
    };
    int64_t pid = send_plan(n, &plan, NULL, 0, err);

    if (pid < 0)
        return -1;
    b->parked = true;
    b->pid = box->pid = pid;
    b->pidfd = pidfd_open((pid_t)pid, 0);
    b->pid_start = box->pid_start = start_time(pid);
    note_box(n, box);
    return 0;
}

static int native_prepare(struct runtime *rt, struct box *box, const struct sandbox_limits *limits,
                          struct err *err)
{
    struct native *n = native_of(rt);
    struct berth *b;

    if (id_range_take(n->data_dir, &box->slot, err) < 0)
        return -1;
    b = add(n, box->id);
    b->slot = box->slot;
    b->limits = *limits;
    if (disk_make(n->disk, box->id, limits->disk_mb, id_range_base(box->slot), &b->scratch, err) <
            0 ||
        n->cgroup.ops->make(&n->cgroup, box->id, limits, err) < 0 || make_sockets(n, b, err) < 0 ||
        park(n, b, box, err) < 0) {
        (void)native_destroy(rt, box, NULL);
        return -1;
    }
    return 0;
}

/* Prepared with other limits than wanted: correct what differs. */
static int fit(struct native *n, struct berth *b, const struct sandbox_limits *limits,
               struct err *err)
{
    if (b->limits.disk_mb != limits->disk_mb) {
        close_fd(&b->scratch);
        if (disk_remove(n->disk, b->id, err) < 0 ||
            disk_make(n->disk, b->id, limits->disk_mb, id_range_base(b->slot), &b->scratch, err) <
                0)
            return -1;
    }
    if ((b->limits.memory_mb != limits->memory_mb || b->limits.cpu_millis != limits->cpu_millis ||
         b->limits.pids != limits->pids) &&
        n->cgroup.ops->limit(&n->cgroup, b->id, limits, err) < 0)
        return -1;
    b->limits = *limits;
    return 0;
}

/* One plan to the launcher and its answer: the pid, or -1. */
static int64_t send_plan(struct native *n, const struct plan *plan, const int *fds, size_t n_fds,
                         struct err *err)
{
    auto_buf struct buf text = {0};
    struct plan_answer answer = {0};
    size_t none = 0;
    ssize_t got = 0;
    int r;

    buf_init(&text, PLAN_MAX);
    plan_put(&text, plan);
    (void)pthread_mutex_lock(&n->launcher_lock);
    r = send_fds(n->launcher, text.data, text.len, fds, n_fds);
    if (r == 0)
        got = recv_fds(n->launcher, &answer, sizeof(answer), NULL, &none);
    (void)pthread_mutex_unlock(&n->launcher_lock);
    if (r < 0 || got != sizeof(answer))
        return err_set(err, ERR_UNAVAILABLE, "the launcher does not answer; restart the daemon");
    if (answer.error == 0)
        return answer.pid;
    answer.step[sizeof(answer.step) - 1] = '\0';
    return err_sys(err, answer.error, "cannot %s", answer.step);
}

/* Waits until the agent serves, or for the step that failed. */
static int await_box(int status, struct err *err)
{
    struct pollfd p = {.fd = status, .events = POLLIN};
    struct launch_report report;
    int n;

    do
        n = poll(&p, 1, LAUNCH_LIMIT);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return err_set(err, ERR_TIMEOUT, "the box did not come up in %d s", LAUNCH_LIMIT / 1000);
    if (read_some(status, &report, sizeof(report)) != sizeof(report))
        return err_set(err, ERR_INTERNAL, "the box broke off while it was made");
    report.step[sizeof(report.step) - 1] = '\0';
    return report.error ? err_sys(err, report.error, "cannot %s", report.step) : 0;
}

static int launch(struct native *n, struct berth *b, struct box *box, const struct box_root *root,
                  const char *hostname, struct err *err)
{
    struct plan plan = {
        .op = PLAN_START,
        .id = box->id,
        .hostname = (char *)(uintptr_t)hostname,
        .layers = (char **)(uintptr_t)root->layers,
        .binds = (char **)(uintptr_t)root->binds,
        .cpus = (b->limits.cpu_millis + 999) / 1000,
        .cpu_first = b->slot,
        .file_max = ((uint64_t)b->limits.disk_mb + 1) << 20,
        .shm_max = (uint64_t)b->limits.memory_mb << 19, /* half: it counts as memory */
    };
    auto_close int status_read = -1;
    int status[2];
    int64_t pid;

    if (pipe2(status, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    status_read = status[0];
    pid = send_plan(n, &plan, (const int[]){b->scratch, b->ctl, b->exec, status[1]}, PLAN_FDS, err);
    (void)close(status[1]);
    b->parked = false;
    box->pid = b->pid;
    box->pid_start = b->pid_start;
    if (pid < 0 || await_box(status_read, err) < 0)
        return -1;
    if (b->pidfd < 0 || box->pid_start == 0)
        return err_set(err, ERR_INTERNAL, "the box ended as soon as it was made");
    return 0;
}

static int make_dirs(const struct berth *b, const struct box_root *root, struct err *err)
{
    for (unsigned i = 0; i < root->n_dirs; i++)
        if (disk_make_dir(b->scratch, root->dirs[i].path, root->dirs[i].mode,
                          id_range_base(b->slot), err) < 0)
            return -1;
    return 0;
}

static int native_create(struct runtime *rt, struct box *box, const struct box_root *root,
                         const struct sandbox_limits *limits, const char *hostname, struct err *err)
{
    struct native *n = native_of(rt);
    struct berth *b = find(n, box->id);

    if (!b) {
        if (native_prepare(rt, box, limits, err) < 0)
            return -1;
        b = find(n, box->id);
    }
    if (fit(n, b, limits, err) < 0 || make_dirs(b, root, err) < 0 ||
        launch(n, b, box, root, hostname, err) < 0) {
        (void)native_destroy(rt, box, NULL);
        return -1;
    }
    /* The box has its own now, and a socket that only we held would still take connections. The
     * disk stays open: so the last process of the box does not have to unmount it, which takes
     * longer than all else in a kill. */
    close_fd(&b->ctl);
    close_fd(&b->exec);
    return 0;
}

static int native_kill(struct runtime *rt, const struct box *box, struct err *err)
{
    struct native *n = native_of(rt);
    struct berth *b = find(n, box->id);
    struct pollfd p = {.events = POLLIN};
    int r;

    if (!b || b->pidfd < 0) {
        n->cgroup.ops->kill(&n->cgroup, box->id);
        return 0;
    }
    p.fd = b->pidfd;
    if (pidfd_send_signal(b->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
        return err_sys(err, errno, "signal the agent");
    r = poll(&p, 1, 0);
    if (r == 0) {
        /* On v1 a frozen process does not even die. */
        (void)n->cgroup.ops->freeze(&n->cgroup, box->id, false, NULL);
        do
            r = poll(&p, 1, 10000);
        while (r < 0 && errno == EINTR);
    }
    if (r == 0)
        return err_set(err, ERR_UNAVAILABLE, "its processes do not end (they wait in the kernel)");
    return 0;
}

static int native_destroy(struct runtime *rt, const struct box *box, struct err *err)
{
    struct native *n = native_of(rt);

    struct berth *b = find(n, box->id);

    if (b && b->parked)
        (void)send_plan(n, &(struct plan){.op = PLAN_FORGET, .id = b->id}, NULL, 0, NULL);
    if (native_kill(rt, box, err) < 0 || n->cgroup.ops->remove(&n->cgroup, box->id, err) < 0)
        return -1;
    if (b && b->scratch >= 0)
        disk_abandon(n->disk, b->scratch);
    drop(n, box->id);
    remove_run_dir(n, box->id);
    if (disk_remove(n->disk, box->id, err) < 0)
        return -1;
    if (box->slot != BOX_NO_SLOT)
        id_range_release(box->slot);
    return 0;
}

static int native_adopt(struct runtime *rt, struct box *box, struct err *err)
{
    struct native *n = native_of(rt);
    struct berth *b = find(n, box->id);

    (void)err;
    if (!b)
        b = add(n, box->id);
    b->slot = box->slot;
    if (box->slot != BOX_NO_SLOT)
        id_range_retake(n->data_dir, box->slot);
    if (box->pid == 0) {
        struct box noted = *box;

        if (!recall_box(n, &noted))
            return 0;
        box->pid = noted.pid;
        box->pid_start = noted.pid_start;
    }
    /* The descriptor first, then who it is: if that is right, the descriptor is of that process,
     * since its pid cannot be reused while it lives. */
    if (b->pidfd < 0)
        b->pidfd = pidfd_open((pid_t)box->pid, 0);
    if (b->pidfd < 0)
        return 0;
    if (start_time(box->pid) != box->pid_start || !is_in_box(box->pid, box->id)) {
        close_fd(&b->pidfd);
        return 0;
    }
    return 1;
}

static int native_watch_fd(struct runtime *rt, const struct box *box)
{
    struct berth *b = find(native_of(rt), box->id);

    return b ? b->pidfd : -1;
}

static int native_connect(struct runtime *rt, const struct box *box, enum box_channel channel,
                          int *ret_fd, struct err *err)
{
    struct native *n = native_of(rt);
    auto_free char *path = run_path(n, box->id, channel == BOX_EXEC ? "exec.sock" : "agent.sock");
    int fd = unix_connect(path);

    if (fd < 0)
        return err_code(err, ERR_UNAVAILABLE, "agent_lost",
                        "the agent of %s does not answer (%s); the sandbox may have ended", box->id,
                        strerror(-fd));
    *ret_fd = fd;
    return 0;
}

static int native_pause(struct runtime *rt, const struct box *box, bool paused, struct err *err)
{
    struct native *n = native_of(rt);

    return n->cgroup.ops->freeze(&n->cgroup, box->id, paused, err);
}

static int native_stats(struct runtime *rt, const struct box *box, struct box_stats *ret,
                        struct err *err)
{
    struct native *n = native_of(rt);

    *ret = (struct box_stats){0};
    if (n->cgroup.ops->stats(&n->cgroup, box->id, ret, err) < 0)
        return -1;
    ret->disk_bytes = disk_used(n->disk, box->id);
    return 0;
}

static int native_disk_open(struct runtime *rt, const struct box *box, int *ret_fd,
                            uint32_t *ret_ids_base, struct err *err)
{
    if (box->slot == BOX_NO_SLOT)
        return err_set(err, ERR_CONFLICT, "it has no disk");
    *ret_ids_base = id_range_base(box->slot);
    return disk_view(native_of(rt)->disk, box->id, ret_fd, err);
}

static int native_probe(struct runtime *rt, struct err *err)
{
    (void)rt;
    if (access("/sbin/mke2fs", X_OK) < 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "mke2fs is needed for the disks of sandboxes; install e2fsprogs");
    if (access("/dev/loop-control", R_OK | W_OK) < 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "loop devices are needed for the disks of sandboxes; run `modprobe loop`");
    return 0;
}

/* ---- strays ---- */

struct strays {
    struct native *n;
    const struct box *known;
    unsigned n_known;
    int failed;
};

static void stray_id(const char *id, void *arg)
{
    struct strays *s = arg;
    struct box box = {0};

    for (unsigned i = 0; i < s->n_known; i++)
        if (strcmp(s->known[i].id, id) == 0)
            return;
    (void)snprintf(box.id, sizeof(box.id), "%s", id);
    box.slot = BOX_NO_SLOT; /* its range is found by stray_slot() */
    (void)native_adopt(&s->n->runtime, &box, NULL);
    if (native_destroy(&s->n->runtime, &box, NULL) < 0)
        s->failed++;
}

static void stray_slot(uint32_t slot, void *arg)
{
    struct strays *s = arg;

    for (unsigned i = 0; i < s->n_known; i++)
        if (s->known[i].slot == slot)
            return;
    id_range_release(slot);
}

static void native_each(struct runtime *rt, void (*found)(const struct box *box, void *arg),
                        void *arg)
{
    struct native *n = native_of(rt);
    DIR *d = opendir(n->run_dir);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        struct box box = {0};

        if (!id_valid(e->d_name, "sbx"))
            continue;
        (void)snprintf(box.id, sizeof(box.id), "%.*s", (int)sizeof(box.id) - 1, e->d_name);
        if (recall_box(n, &box))
            found(&box, arg);
    }
    if (d)
        (void)closedir(d);
}

static int native_remove_strays(struct runtime *rt, const struct box *known, unsigned n_known,
                                struct err *err)
{
    struct native *n = native_of(rt);
    struct strays s = {.n = n, .known = known, .n_known = n_known};
    DIR *d = opendir(n->run_dir);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (id_valid(e->d_name, "sbx"))
            stray_id(e->d_name, &s);
    if (d)
        (void)closedir(d);
    n->cgroup.ops->each(&n->cgroup, stray_id, &s);
    disk_each(n->disk, stray_id, &s);
    id_range_each(n->data_dir, stray_slot, &s);
    return s.failed ? err_set(err, ERR_INTERNAL, "%d leftovers could not be removed", s.failed) : 0;
}

static void native_free(struct runtime *rt)
{
    struct native *n = native_of(rt);

    for (unsigned i = 0; i < BUCKETS; i++)
        while (n->table[i])
            drop(n, n->table[i]->id);
    if (n->cgroup.ops)
        n->cgroup.ops->close(&n->cgroup);
    cgroup_done(&n->cgroup);
    disk_free(n->disk);
    (void)pthread_mutex_destroy(&n->lock);
    (void)pthread_mutex_destroy(&n->launcher_lock);
    close_fd(&n->launcher);
    free(n->data_dir);
    free(n->run_dir);
    free(n->stage);
    free(n);
}

static const struct runtime_ops native_ops = {
    .name = "native",
    .boundary = "shared kernel, hardened",
    .probe = native_probe,
    .prepare = native_prepare,
    .create = native_create,
    .kill = native_kill,
    .destroy = native_destroy,
    .adopt = native_adopt,
    .watch_fd = native_watch_fd,
    .connect = native_connect,
    .pause = native_pause,
    .stats = native_stats,
    .disk_open = native_disk_open,
    .each = native_each,
    .remove_strays = native_remove_strays,
    .free = native_free,
};

struct runtime *native_new(const struct native_config *config, struct err *err)
{
    struct native *n = xcalloc(1, sizeof(*n));
    unsigned hash = 2166136261u;
    char name[32];

    n->runtime.ops = &native_ops;
    n->data_dir = xstrdup(config->data_dir);
    n->run_dir = xstrdup(config->run_dir);
    n->stage = xasprintf("%s/stage", config->run_dir);
    n->launcher = config->launcher_fd;
    (void)pthread_mutex_init(&n->lock, NULL);
    (void)pthread_mutex_init(&n->launcher_lock, NULL);
    /* One parent a data directory, so that daemons side by side see only their own. */
    for (const char *p = config->data_dir; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    (void)snprintf(name, sizeof(name), "cay-%08x", hash);
    if ((mkdir(n->stage, 0700) < 0 && errno != EEXIST)) {
        (void)err_sys(err, errno, "make %s", n->stage);
    } else if (cgroup_open(&n->cgroup, name, err) == 0 &&
               disk_open(config->data_dir, &n->disk, err) == 0) {
        return &n->runtime;
    }
    native_free(&n->runtime);
    return NULL;
}
