#include <dirent.h>
#include <inttypes.h>

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
        list[n++] = (struct proc){
            .pid = (pid_t)pid, .ppid = st.ppid, .session = st.session, .state = st.state};
    }
    if (dir)
        (void)closedir(dir);
    if (n > 0)
        qsort(list, n, sizeof(*list), by_pid);
    *ret_n = n;
    return list;
}
