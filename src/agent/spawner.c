#include <errno.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "agent/agent.h"
#include "agent/main.h"
#include "base/err.h"
#include "proto/plan.h"

static struct err none;
static struct pool pool = {.sock = AGENT_FD_EXEC, .nslots = EXECS_MAX, .patience = 1, .also = -1};

/* No command runs while main is still where commands are: it would be under their limits. */
void let_main_leave(void)
{
    while (!agents->ready)
        (void)syscall(SYS_futex, &agents->ready, FUTEX_WAIT, 0, NULL, NULL, 0);
}

void main_has_left(void)
{
    agents->ready = 1;
    (void)syscall(SYS_futex, &agents->ready, FUTEX_WAKE, 1, NULL, NULL, 0);
}

struct pool *exec_pool(void)
{
    if (!pool.slots) {
        (void)err_code(&none, ERR_LIMIT, "process_limit",
                       "the sandbox has as many processes as it may; try again when some have "
                       "ended");
        pool.slots = agents->execs;
        pool.full = pool.none = &none;
    }
    return &pool;
}

static _Noreturn void spawner_main(size_t agent_cgroups, size_t work_cgroups)
{
    (void)prctl(PR_SET_NAME, "cay-spawn");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (cgroups_join(AGENT_FD_CGROUPS + (int)agent_cgroups, work_cgroups) < 0)
        _exit(1);
    (void)syscall(SYS_close_range, (unsigned)AGENT_FD_STATUS, ~0u, 0);
    (void)close(AGENT_FD_CTL);
    for (;;)
        (void)pool_run(exec_pool(), 0, -1);
}

int spawner_start(size_t agent_cgroups, size_t work_cgroups)
{
    pid_t pid = fork();

    if (pid == 0) {
        agents->spawner = getpid();
        spawner_main(agent_cgroups, work_cgroups);
    }
    if (pid < 0)
        return -errno;
    agents->spawner = pid;
    return 0;
}
