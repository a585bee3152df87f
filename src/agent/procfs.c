#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/procstat.h"
#include "base/str.h"

#define PROCS_MAX 65536

struct procs {
    struct proc *list;
    size_t n, cap;
};

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct proc *)a)->pid, y = ((const struct proc *)b)->pid;

    return (x > y) - (x < y);
}

static bool is_zombie(const struct proc_stat *st)
{
    return st->state == 'Z' || st->state == 'X';
}

static bool has_live_thread(pid_t pid)
{
    char path[32];
    struct dirent *e;
    bool found = false;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
    dir = opendir(path);
    if (!dir)
        return errno != ENOENT;
    while (!found && (e = readdir(dir))) {
        struct proc_stat st;
        uint64_t tid;

        found = str_u64(e->d_name, &tid) == 0 && tid <= INT32_MAX &&
                proc_stat_read((pid_t)tid, &st) == 0 && !is_zombie(&st);
    }
    (void)closedir(dir);
    return found;
}

/* The first thread of a process can end before the others, and is a zombie until they have ended
 * too: a command could look dead and go on. Threads that somebody traces stay as zombies too. */
static bool is_dead(pid_t pid, const struct proc_stat *st)
{
    return is_zombie(st) && (st->threads <= 1 || !has_live_thread(pid));
}

uint64_t ticks_now(void)
{
    uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
    struct timespec up = {0};

    (void)clock_gettime(CLOCK_BOOTTIME, &up);
    return (uint64_t)up.tv_sec * hz + (uint64_t)up.tv_nsec / (1000000000 / hz);
}

static void procs_add(struct procs *all, pid_t pid, const struct proc_stat *st)
{
    if (all->n == all->cap) {
        all->cap = all->cap ? all->cap * 2 : 256;
        all->list = xrealloc(all->list, all->cap * sizeof(*all->list));
    }
    all->list[all->n++] = (struct proc){.pid = pid,
                                        .ppid = st->ppid,
                                        .session = st->session,
                                        .state = st->state,
                                        .threads = st->threads,
                                        .start = st->start_ticks,
                                        .dead = is_dead(pid, st)};
}

struct proc *procs_read(size_t *ret_n)
{
    DIR *dir = opendir("/proc");
    struct procs all = {0};
    struct dirent *e;

    while (dir && all.n < PROCS_MAX && (e = readdir(dir))) {
        struct proc_stat st;
        uint64_t pid;

        if (str_u64(e->d_name, &pid) == 0 && pid <= INT32_MAX &&
            proc_stat_read((pid_t)pid, &st) == 0)
            procs_add(&all, (pid_t)pid, &st);
    }
    if (dir)
        (void)closedir(dir);
    if (all.n > 0)
        qsort(all.list, all.n, sizeof(*all.list), by_pid);
    *ret_n = all.n;
    return all.list;
}

/* ---- those below a process ---- */

/* A number may by now be that of another process, whose parent is another one then. */
static void add_child(struct procs *all, pid_t pid, pid_t parent, pid_t root)
{
    struct proc_stat st;

    if (all->n < PROCS_MAX && proc_stat_read(pid, &st) == 0 &&
        (st.ppid == parent || st.ppid == root))
        procs_add(all, pid, &st);
}

/* The children that one thread of parent has started; false if there is no such list. */
static bool add_children(struct procs *all, pid_t parent, pid_t thread, pid_t root)
{
    char path[64], text[4096];
    auto_close int fd = -1;
    pid_t pid = 0;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, thread);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = read_some(fd, text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
                continue;
            }
            if (pid > 0)
                add_child(all, pid, parent, root);
            pid = 0;
        }
    return fd >= 0;
}

static void add_children_of_threads(struct procs *all, pid_t parent, pid_t root)
{
    char path[32];
    struct dirent *e;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", parent);
    dir = opendir(path);
    while (dir && (e = readdir(dir))) {
        uint64_t tid;

        if (str_u64(e->d_name, &tid) == 0 && tid <= INT32_MAX)
            (void)add_children(all, parent, (pid_t)tid, root);
    }
    if (dir)
        (void)closedir(dir);
}

bool procs_below(pid_t root, struct proc **ret, size_t *ret_n)
{
    struct procs all = {0};
    bool listed = add_children(&all, root, root, root);

    for (size_t i = 0; i < all.n; i++) {
        struct proc p = all.list[i];

        if (p.threads > 1)
            add_children_of_threads(&all, p.pid, root);
        else
            (void)add_children(&all, p.pid, p.pid, root);
    }
    *ret = all.list;
    *ret_n = all.n;
    return listed;
}
