#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/mem.h"
#include "base/procstat.h"
#include "base/str.h"

#define PROCS_MAX 65536

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

struct proc *procs_read(size_t *ret_n)
{
    DIR *dir = opendir("/proc");
    struct proc *list = NULL;
    size_t n = 0, cap = 0;
    struct dirent *e;

    while (dir && n < PROCS_MAX && (e = readdir(dir))) {
        struct proc_stat st;
        uint64_t pid;

        if (str_u64(e->d_name, &pid) < 0 || pid > INT32_MAX || proc_stat_read((pid_t)pid, &st) < 0)
            continue;
        if (n == cap) {
            cap = cap ? cap * 2 : 256;
            list = xrealloc(list, cap * sizeof(*list));
        }
        list[n++] = (struct proc){.pid = (pid_t)pid,
                                  .ppid = st.ppid,
                                  .session = st.session,
                                  .state = st.state,
                                  .start = st.start_ticks,
                                  .dead = is_dead((pid_t)pid, &st)};
    }
    if (dir)
        (void)closedir(dir);
    if (n > 0)
        qsort(list, n, sizeof(*list), by_pid);
    *ret_n = n;
    return list;
}
