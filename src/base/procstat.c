#include "base/procstat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"

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
               " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
               " %*d %*d %*d %*d %d %*d %" SCNu64 " %" SCNu64 " %" SCNd64,
               &ret->state, &ret->ppid, &ret->session, &utime, &stime, &ret->threads,
               &ret->start_ticks, &ret->vsz, &ret->rss_pages);
    if (n != 9)
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
