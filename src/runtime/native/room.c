#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/err.h"
#include "base/fd.h"
#include "runtime/native/disk.h"
#include "runtime/native/native_internal.h"

/* How much room the host's disk has, and how much of it each box may still take. */

/* The number of pages after `name ` in /proc/vmstat, in bytes. */
static uint64_t pages(const char *vmstat, const char *name)
{
    const char *at = strstr(vmstat, name);

    return at ? strtoull(at + strlen(name), NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

int native_room(struct runtime *rt, struct host_room *ret, struct err *err)
{
    const char *dir = native_of(rt)->data_dir;
    struct statvfs st;

    if (statvfs(dir, &st) < 0)
        return err_sys(err, errno, "ask how much room there is at %s", dir);
    *ret = (struct host_room){.free = (uint64_t)st.f_bavail * st.f_frsize,
                              .total = (uint64_t)st.f_blocks * st.f_frsize};
    return 0;
}

void native_unwritten(struct runtime *rt, struct unwritten *ret)
{
    char text[16384];

    (void)rt;
    if (read_file_at(AT_FDCWD, "/proc/vmstat", text, sizeof(text)) < 0)
        return;
    ret->now = pages(text, "\nnr_dirty ") + pages(text, "\nnr_writeback ");
    ret->max = pages(text, "\nnr_dirty_threshold ");
}

uint64_t native_disk_bytes(struct runtime *rt, const struct box *box)
{
    return disk_used(native_of(rt)->disk, box->id);
}

/* Of a box that was there before us the disk is opened when it is first asked for. */
static int open_scratch(struct native *n, const struct box *box, struct err *err)
{
    struct berth *b = berth_find(n, box->id);

    if (!b)
        return err_set(err, ERR_NOT_FOUND, "it has no box");
    if (b->scratch < 0 && disk_view(n->disk, box->id, &b->scratch, err) < 0)
        return -1;
    return b->scratch;
}

int native_disk_room(struct runtime *rt, const struct box *box, struct disk_room *ret,
                     struct err *err)
{
    struct native *n = native_of(rt);
    int fd = open_scratch(n, box, err);

    return fd < 0 ? -1 : disk_room(n->disk, box->id, fd, ret, err);
}

int native_disk_lease(struct runtime *rt, const struct box *box, uint64_t more, struct err *err)
{
    struct native *n = native_of(rt);
    int fd = open_scratch(n, box, err);

    if (fd < 0)
        return -1;
    berth_find(n, box->id)->disk_lives = DISK_ONCE;
    return disk_lease(n->disk, box->id, fd, more, err);
}
