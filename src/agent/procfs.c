#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

#define PROCS_MAX 65536

int proc_stat_parse(const char *text, struct proc_stat *ret)
{
    /* The name can hold anything, closing brackets too; what follows the last one is the kernel's.
     */
    const char *p = strrchr(text, ')');
    uint64_t utime, stime;
    int n;

    if (!p)
        return -EINVAL;
    n = sscanf(p + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
               " %*d %*d %*d %*d %*d %*d %" SCNu64 " %" SCNu64 " %" SCNd64,
               &ret->state, &ret->ppid, &utime, &stime, &ret->start_ticks, &ret->vsz,
               &ret->rss_pages);
    if (n != 7)
        return -EINVAL;
    ret->cpu_ticks = utime + stime;
    return 0;
}

int proc_stat_read(pid_t pid, struct proc_stat *ret)
{
    char path[32], text[1024];

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if (read_file_at(-1, path, text, sizeof(text)) < 0)
        return -ESRCH;
    return proc_stat_parse(text, ret);
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct proc *)a)->pid, y = ((const struct proc *)b)->pid;

    return (x > y) - (x < y);
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
        list[n++] = (struct proc){.pid = (pid_t)pid, .ppid = st.ppid, .state = st.state};
    }
    if (dir)
        (void)closedir(dir);
    if (n > 0)
        qsort(list, n, sizeof(*list), by_pid);
    *ret_n = n;
    return list;
}
