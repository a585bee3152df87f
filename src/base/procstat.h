#pragma once

#include <stdint.h>
#include <sys/types.h>

/* What /proc/N/stat says of a process. */
struct proc_stat {
    pid_t ppid, session;
    char state;  /* of its first thread, which can be dead while others run */
    int threads; /* that one included */
    uint64_t cpu_ticks, start_ticks, vsz;
    int64_t rss_pages;
};

/* The text of such a file; the name in it is chosen by the process. 0 or -EINVAL. */
int proc_stat_parse(const char *text, struct proc_stat *ret);
/* 0, or -ESRCH when there is no such process. */
int proc_stat_read(pid_t pid, struct proc_stat *ret);
