#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "runtime/native/native_internal.h"

/* What the processes of a box have read from disks and written to them. The kernel counts it for
 * each process, and adds that of one that ended to whoever waited for it, which for the last of
 * them is the agent: the sum over all that live is what the box did since it was started. */

#define IO_BYTES 512

static uint64_t number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    uint64_t n;

    return at && sscanf(at + strlen(name), "%" SCNu64, &n) == 1 ? n : 0;
}

static void add_process(int64_t pid, void *arg)
{
    struct box_io *sum = arg;
    char path[64], text[IO_BYTES + 1];
    auto_close int fd = -1;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%lld/io", (long long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? fd : read_some(fd, text, IO_BYTES);
    if (n <= 0)
        return;
    text[n] = '\0';
    sum->read_bytes += number_after(text, "\nread_bytes: ");
    sum->written_bytes += number_after(text, "\nwrite_bytes: ");
}

void native_io(struct runtime *rt, const struct box *box, struct box_io *ret)
{
    *ret = (struct box_io){0};
    box_each_process(native_of(rt), box->id, add_process, ret);
}
