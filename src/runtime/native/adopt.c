#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/procstat.h"
#include "runtime/native/id_ranges.h"
#include "runtime/native/native_internal.h"

/* After a restart: is a process still the box that it was? */

uint64_t process_start_time(int64_t pid)
{
    struct proc_stat st;

    return proc_stat_read((pid_t)pid, &st) < 0 ? 0 : st.start_ticks;
}

bool process_in_box(int64_t pid, const char *id)
{
    char path[64], text[8192];

    (void)snprintf(path, sizeof(path), "/proc/%lld/cgroup", (long long)pid);
    return read_file_at(AT_FDCWD, path, text, sizeof(text)) > 0 && strstr(text, id);
}

int native_adopt(struct runtime *rt, struct box *box, struct err *err)
{
    struct native *n = native_of(rt);
    struct berth *b = berth_find(n, box->id);
    int pidfd;

    (void)err;
    if (!b)
        b = berth_add(n, box->id);
    berth_set_range(n, b, box->slot);
    if (box->slot != BOX_NO_SLOT)
        (void)id_range_retake(n->data_dir, box->slot); /* else a start takes another: revive() */
    if (box->pid == 0) {
        struct box noted = *box;

        if (!recall_box(n, &noted))
            return 0;
        box->pid = noted.pid;
        box->pid_start = noted.pid_start;
    }
    /* The descriptor first, then who it is: if that is right, the descriptor is of that process,
     * since its pid cannot be reused while it lives. */
    pidfd = pidfd_open((pid_t)box->pid, 0);
    if (pidfd < 0)
        return 0;
    if (process_start_time(box->pid) != box->pid_start || !process_in_box(box->pid, box->id)) {
        close_fd(&pidfd);
        return 0;
    }
    b->pid = box->pid;
    berth_set_process(n, b, pidfd);
    return 1;
}
