#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "proto/plan.h"

/* What /proc/meminfo says inside, and memory.usage_in_bytes where cgroups are v1: the workload's
 * limit and what it uses of it. These are files of the box's own (launch/told.c), and we write them
 * when somebody looks, so that a box in which nobody does costs nothing.
 *
 *  1. We hold a lease on each. Whoever opens one waits, and the kernel sends us SIGIO: we write
 *     and give it up. If we cannot run, the kernel takes it after fs.lease-break-time.
 *  2. A lease can be had only when nobody has the file open. So we try after a while, and write
 *     each time: who reads it again and again sees it change. Tries get rare if it stays open.
 *     So whatever is done with the files, they are not written often.
 *  3. Where there are no leases, the files say what they did when the box was made. */

#define AGAIN_NS      100000000ll
#define AGAIN_LONG_NS 1000000000ll
#define TRIES_SOON    10

static const int files[] = {AGENT_FD_MEMINFO, AGENT_FD_SHOWN};
static size_t n_files; /* 0 = nothing is to be done */
static uint64_t limit; /* bytes */
static uint32_t key_low, key_high;

static bool held; /* all leases */
static unsigned tries;
static int64_t again; /* mono_ns, while they are not */
static volatile sig_atomic_t opened;

/* ---- what is said ---- */

static uint64_t value_of(const char *stat, const char *key)
{
    size_t len = strlen(key);

    for (const char *line = stat; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            return strtoull(line + len, NULL, 10);
    }
    return 0;
}

/* Lines of meminfo and where memory.stat has them; v1 counts what is below a group with total_. */
static const struct {
    const char *name, *v1, *v2;
} parts[] = {
    {"Cached:", "total_cache", "file"},
    {"Active(anon):", "total_active_anon", "active_anon"},
    {"Inactive(anon):", "total_inactive_anon", "inactive_anon"},
    {"Active(file):", "total_active_file", "active_file"},
    {"Inactive(file):", "total_inactive_file", "inactive_file"},
    {"Unevictable:", "total_unevictable", "unevictable"},
    {"Dirty:", "total_dirty", "file_dirty"},
    {"Writeback:", "total_writeback", "file_writeback"},
    {"AnonPages:", "total_rss", "anon"},
    {"Mapped:", "total_mapped_file", "file_mapped"},
    {"Shmem:", "total_shmem", "shmem"},
    {"SReclaimable:", "", "slab_reclaimable"},
    {"SUnreclaim:", "", "slab_unreclaimable"},
};

static size_t put_line(char *text, size_t at, size_t size, const char *name, uint64_t bytes)
{
    int n =
        snprintf(text + at, size - at, "%-15s %8llu kB\n", name, (unsigned long long)bytes >> 10);

    return n > 0 && (size_t)n < size - at ? at + (size_t)n : at;
}

static size_t put_meminfo(char *text, size_t size, uint64_t used, const char *stat)
{
    bool v1 = n_files > 1;
    uint64_t unused = limit > used ? limit - used : 0;
    /* What the kernel would take back before anybody has to do without. */
    uint64_t files_cached = value_of(stat, v1 ? "total_active_file" : "active_file") +
                            value_of(stat, v1 ? "total_inactive_file" : "inactive_file") +
                            (v1 ? 0 : value_of(stat, "slab_reclaimable"));
    uint64_t available = unused + files_cached < limit ? unused + files_cached : limit;
    size_t n = put_line(text, 0, size, "MemTotal:", limit);

    n = put_line(text, n, size, "MemFree:", unused);
    n = put_line(text, n, size, "MemAvailable:", available);
    n = put_line(text, n, size, "Buffers:", 0);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        n = put_line(text, n, size, parts[i].name, value_of(stat, v1 ? parts[i].v1 : parts[i].v2));
    n = put_line(text, n, size, "SwapCached:", 0);
    n = put_line(text, n, size, "SwapTotal:", 0);
    return put_line(text, n, size, "SwapFree:", 0);
}

static ssize_t read_kernels(int fd, char *text, size_t size)
{
    ssize_t n = pread(fd, text, size - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return n;
}

static void put_file(int fd, const char *text, size_t len)
{
    if (pwrite(fd, text, len, 0) == (ssize_t)len)
        (void)ftruncate(fd, (off_t)len);
}

static void write_files(void)
{
    static char stat[8192], text[2048];
    uint64_t used;

    if (read_kernels(AGENT_FD_USAGE, text, sizeof(text)) <= 0 ||
        read_kernels(AGENT_FD_STAT, stat, sizeof(stat)) <= 0)
        return;
    used = strtoull(text, NULL, 10);
    if (n_files > 1)
        put_file(AGENT_FD_SHOWN, text, strlen(text));
    put_file(AGENT_FD_MEMINFO, text, put_meminfo(text, sizeof(text), used, stat));
}

/* ---- when ---- */

static int set_lease(int fd, int how)
{
    return syscall(SYS_fcntl, fd, F_SETLEASE, how, key_low, key_high) < 0 ? -errno : 0;
}

static void drop_leases(void)
{
    for (size_t i = 0; i < n_files; i++)
        (void)set_lease(files[i], F_UNLCK);
    held = false;
}

/* All or none. -EAGAIN: somebody has one of them open. */
static int take_leases(void)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n_files; i++)
        r = set_lease(files[i], F_WRLCK);
    if (r < 0)
        drop_leases();
    held = r == 0;
    return r;
}

static void on_opened(int sig)
{
    (void)sig;
    opened = 1;
}

/* memory: in bytes. key: as the environment has it. */
void meminfo_setup(uint64_t memory, char *key)
{
    struct sigaction sa = {.sa_handler = on_opened};
    struct sysinfo machine;
    struct stat st;
    uint64_t number;

    if (!key || str_u64(key, &number) < 0)
        return;
    memset(key, 0, strlen(key));
    key_low = (uint32_t)number;
    key_high = (uint32_t)(number >> 32);
    limit = memory;
    if (sysinfo(&machine) == 0 && (uint64_t)machine.totalram * machine.mem_unit < limit)
        limit = (uint64_t)machine.totalram * machine.mem_unit;
    n_files = fstat(AGENT_FD_SHOWN, &st) == 0 && S_ISREG(st.st_mode) ? 2 : 1;
    (void)sigaction(SIGIO, &sa, NULL);
    (void)sigdelset(&agent_wait_mask, SIGIO);
    if (take_leases() == 0)
        return;
    write_files();
    n_files = 0;
}

bool meminfo_retries(void)
{
    return n_files > 0 && !held;
}

void meminfo_step(void)
{
    int64_t now;

    if (n_files == 0 || (held && !opened))
        return;
    now = mono_ns();
    if (held) { /* somebody waits */
        opened = 0;
        write_files();
        drop_leases();
        tries = 0;
        again = now + AGAIN_NS;
    } else if (now >= again) {
        write_files();
        if (take_leases() < 0)
            again = now + (++tries < TRIES_SOON ? AGAIN_NS : AGAIN_LONG_NS);
    }
}
