#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/sysinfo.h>

#include "base/err.h"
#include "base/fd.h"
#include "runtime/native/cgroup.h"

/* One cap for all boxes of a daemon. Each box has limits of its own, but those may add up to more
 * than the machine has; at the cap the kernel ends processes of boxes and of nobody else. */

#define RESERVE_PART      8 /* of the memory, for the host */
#define RESERVE_BYTES_MIN (512ull << 20)
#define RESERVE_PART_MAX  4 /* also on a small machine */
#define PIDS_PART         4

/* What a box needs to come up: the agent, the spawner, their spares. */
#define BOX_BYTES (16ull << 20)
#define BOX_PIDS  8

struct cgroup_caps cgroup_caps_of(uint64_t memory, uint64_t pids)
{
    uint64_t reserve = memory / RESERVE_PART;

    if (reserve < RESERVE_BYTES_MIN)
        reserve = RESERVE_BYTES_MIN;
    if (reserve > memory / RESERVE_PART_MAX)
        reserve = memory / RESERVE_PART_MAX;
    pids -= pids / PIDS_PART;
    return (struct cgroup_caps){.memory = memory - reserve,
                                .pids = pids < UINT32_MAX ? (uint32_t)pids : UINT32_MAX};
}

static uint64_t kernel_number(const char *path)
{
    char text[32];

    return read_file_at(AT_FDCWD, path, text, sizeof(text)) > 0 ? strtoull(text, NULL, 10) : 0;
}

void cgroup_caps_complete(struct cgroup_caps *caps)
{
    uint64_t pids = kernel_number("/proc/sys/kernel/pid_max");
    uint64_t threads = kernel_number("/proc/sys/kernel/threads-max");
    struct sysinfo machine = {0};
    struct cgroup_caps spare;

    (void)sysinfo(&machine);
    spare = cgroup_caps_of((uint64_t)machine.totalram * machine.mem_unit,
                           threads < pids ? threads : pids);
    if (caps->memory == 0)
        caps->memory = spare.memory;
    if (caps->pids == 0)
        caps->pids = spare.pids;
}

/* The kernel splits the weight of a group between the processors that it is busy on. With that of
 * one process it would be a fraction of one on each, and beside anything else on the host a bomb
 * would leave next to nothing for the other boxes. So on each processor boxes weigh one process. */
unsigned cgroup_cpu_weight(unsigned one, unsigned max)
{
    unsigned n = (unsigned)get_nprocs();

    return n < max / one ? n * one : max;
}

int cgroup_room(const struct cgroup *c, struct err *err)
{
    const char *pids_dir = c->dirs[c->ops->v2 ? 0 : V1_PIDS];
    const char *usage = c->ops->v2 ? "memory.current" : "memory.usage_in_bytes";
    unsigned long long pids, bytes;

    if (cgroup_read(pids_dir, "pids.current", &pids) == 0 && pids + BOX_PIDS > c->caps.pids)
        return err_code(err, ERR_UNAVAILABLE, "machine_full",
                        "the sandboxes together have as many processes as they may (%u, see "
                        "CAY_TOTAL_PIDS); try again when some have ended",
                        c->caps.pids);
    /* Mostly that is all: what is cache takes longer to find out. */
    if (cgroup_read(c->dirs[0], usage, &bytes) == 0 && bytes + BOX_BYTES > c->caps.memory &&
        c->ops->held(c, &bytes) == 0 && bytes + BOX_BYTES > c->caps.memory)
        return err_code(err, ERR_UNAVAILABLE, "machine_full",
                        "the sandboxes together have as much memory as they may (%llu MB, see "
                        "CAY_TOTAL_MEMORY); try again when some have ended",
                        (unsigned long long)c->caps.memory >> 20);
    return 0;
}
