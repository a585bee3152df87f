#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "runtime/native/native_internal.h"

/* The network namespace of a box. Its child is born in it when it is parked, and stays. */

#define DEV_BYTES 16384

int native_net(struct runtime *rt, const struct box *box, int *ret_fd, struct err *err)
{
    int fd = berth_open_proc(native_of(rt), box->id, "ns/net");

    if (fd < 0)
        return err_set(err, ERR_UNAVAILABLE, "the box of %s has no network namespace now", box->id);
    *ret_fd = fd;
    return 0;
}

/* "  eth0: rx-bytes 7 more tx-bytes …" */
static void count_line(const char *line, struct box_traffic *ret)
{
    uint64_t rx, tx;
    const char *colon = strchr(line, ':');

    line += strspn(line, " ");
    if (!colon || strncmp(line, "lo:", 3) == 0 ||
        sscanf(colon + 1, "%" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &rx, &tx) != 2)
        return;
    ret->rx_bytes += rx;
    ret->tx_bytes += tx;
}

int native_traffic(struct runtime *rt, const struct box *box, struct box_traffic *ret,
                   struct err *err)
{
    auto_close int fd = berth_open_proc(native_of(rt), box->id, "net/dev");
    auto_free char *text = xcalloc(1, DEV_BYTES + 1);
    ssize_t n = fd < 0 ? fd : read_some(fd, text, DEV_BYTES);
    char *save;

    *ret = (struct box_traffic){0};
    if (n < 0)
        return err_sys(err, (int)-n, "read the counters of the network of %s", box->id);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        count_line(line, ret);
    return 0;
}
