#include "agent/main.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "proto/plan.h"

#define CGROUPS_MAX 32

static size_t agent_cgroups, work_cgroups;
static uint64_t work_memory; /* bytes */

/* Tells the daemon, which waits for it, that the box is up, or why there will be none. */
static void report(const char *step, int error)
{
    struct launch_report r = {.error = error};

    (void)snprintf(r.step, sizeof(r.step), "%s", step);
    (void)write_all(AGENT_FD_STATUS, &r, sizeof(r));
    (void)close(AGENT_FD_STATUS);
}

static int fail(const char *step, int error)
{
    report(step, error);
    return 1;
}

static void on_child(int sig)
{
    (void)sig; /* only there to end ppoll() */
}

/* Rule 5 of agent.h: so a closed pipe and a full disk are results of write(). A command has only to
 * unblock them (spawn.c), since nothing is ignored, also not what somebody above us ignored; of the
 * launcher we know what that is. */
static void setup_signals(bool by_launcher)
{
    static const unsigned long
        by_default[4]; /* the kernel's own struct; musl keeps some to itself */
    struct sigaction sa = {.sa_handler = on_child};
    sigset_t all;

    for (int sig = 1; sig <= 64; sig++)
        if (!by_launcher || sig == SIGHUP || sig == SIGINT || sig == SIGTERM || sig == SIGPIPE)
            (void)syscall(SYS_rt_sigaction, sig, by_default, NULL, 8);
    (void)sigaction(SIGCHLD, &sa, NULL);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    agent_wait_mask = all;
    (void)sigdelset(&agent_wait_mask, SIGCHLD);
}

/* Rule 2, and /dev/null on 0, 1 and 2 while nobody can have put anything else there: commands
 * without input inherit it. */
static int setup_fds(void)
{
    unsigned past = AGENT_FD_CGROUPS + (unsigned)(agent_cgroups + work_cgroups);
    int null = open("/dev/null", O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (null < 0)
        return -errno;
    for (int fd = 0; fd < 3; fd++)
        if (null != fd && dup2(null, fd) < 0)
            return -errno;
    if (syscall(SYS_close_range, past, ~0u, 0) < 0 ||
        syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */) < 0)
        return -errno;
    if (fd_set_nonblock(AGENT_FD_CTL, true) < 0 || fd_set_nonblock(AGENT_FD_EXEC, true) < 0)
        return -EBADF;
    return 0;
}

/* Rule 4. Capabilities are kept over the change, or it would take them. */
static int leave_root(uint32_t uid)
{
    int r;

    if (prctl(PR_SET_KEEPCAPS, 1) < 0 || setresuid(uid, uid, uid) < 0 ||
        prctl(PR_SET_KEEPCAPS, 0) < 0)
        return -errno;
    r = caps_set(BOX_CAPABILITIES);
    (void)setfsuid(0);
    return r;
}

static int setup(int argc, char **argv)
{
    uint64_t mine = 0, work = 0, uid = 0, memory = 0;
    bool apart = argc == 5;
    void *shared;
    int r;

    if ((argc != 3 && !apart) || str_u64(argv[1], &mine) < 0 || str_u64(argv[2], &work) < 0 ||
        mine > CGROUPS_MAX || work > CGROUPS_MAX ||
        (apart && (str_u64(argv[3], &uid) < 0 || str_u64(argv[4], &memory) < 0)))
        return fail("read the agent's arguments", EINVAL);
    agent_cgroups = mine;
    work_cgroups = work;
    r = apart ? leave_root((uint32_t)uid) : 0;
    if (r < 0)
        return fail("take the agent's own id", -r);
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return fail("make the agent unreachable for debuggers", errno);
    (void)prctl(PR_SET_NAME, "cay-agent");
    (void)umask(022);
    setup_signals(apart);
    r = chdir("/") < 0 ? -errno : setup_fds();
    if (r < 0)
        return fail("set up the agent's descriptors", -r);
    /* PID 1 gets orphans anyway; this makes it so when the agent runs as an ordinary process. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return fail("become the reaper of orphans", errno);
    shared = mmap(NULL, sizeof(*agents), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return fail("map the agent's shared memory", errno);
    agents = shared;
    agents->apart = apart;
    agents->main = getpid();
    work_memory = memory;
    return 0;
}

int cgroups_join(int fd, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int r = write_all(fd + (int)i, "0", 1);

        if (r < 0)
            return r;
    }
    return 0;
}

/* The spares of one that died are dying too. Until they are gone, a caller could wake one of them
 * instead of its successor's. */
static void keep_spawner(void)
{
    static pid_t last;

    if (agents->spawner != 0 || slot_count_waiting(agents->execs, EXECS_MAX, last) > 0)
        return;
    if (spawner_start(agent_cgroups, work_cgroups) == 0)
        last = agents->spawner;
    else
        pool_turn_away(exec_pool());
}

int main(int argc, char **argv)
{
    struct err full = {0};
    struct pool pool = {.sock = AGENT_FD_CTL, .nslots = HANDLERS_MAX, .full = &full, .patience = 4};
    bool wanted = false;
    int r;

    if (setup(argc, argv) != 0)
        return 1;
    r = shelf_make();
    if (r < 0)
        return fail("put the logs on their shelf", -r);
    board_load();
    /* Callers who come from now on wait in the sockets for those whom we fork. */
    report("", 0);
    /* In this order: the supervisor stays where we were started, inside the workload's limits. */
    young_begin(exec_pool());
    if (cgroups_join(AGENT_FD_CGROUPS, agent_cgroups) < 0)
        return 1; /* and the box ends */
    if (agents->apart)
        meminfo_setup(work_memory, getenv(AGENT_LEASE_KEY));
    main_has_left();

    (void)err_set(&full, ERR_LIMIT,
                  "the sandbox serves %d calls already; try again when some have ended",
                  HANDLERS_MAX);
    pool.none = exec_pool()->none;
    pool.slots = agents->handlers;
    sync_setup();
    for (;;) {
        bool again = sync_retries() || meminfo_retries() || (wanted && agents->spawner == 0);

        pool.also = sync_fd();
        pool.lazy = !young_needs_handler();
        if (pool_run(&pool, agents->spawner, again ? POOL_AGAIN_NS : young_wait_ns()))
            agents->spawner = 0;
        meminfo_step();
        sync_step(pool.also_ready);
        wanted = young_needs_spawner();
        if (wanted)
            keep_spawner();
    }
}
