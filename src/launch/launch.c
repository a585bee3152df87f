#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "launch/launch_internal.h"

static int run_plan(struct launcher *l, const void *data, size_t len, const int *fds, size_t n_fds,
                    const char **step)
{
    struct plan plan;
    struct wire w;
    int r = -EPROTO;

    *step = "read the plan";
    wire_init(&w, data, len);
    plan_get(&w, &plan);
    if (wire_ok(&w)) {
        if (plan.op == PLAN_PARK)
            r = park(l, &plan, step);
        else if (plan.op == PLAN_START && n_fds == PLAN_FDS)
            r = park_start(l, &plan, data, len, fds, step);
        else if (plan.op == PLAN_FORGET)
            r = park_forget(l, plan.id);
    }
    plan_done(&plan);
    return r;
}

static void serve(struct launcher *l, int sock)
{
    static char data[PLAN_MAX];

    for (;;) {
        struct plan_answer answer = {0};
        const char *step = "";
        int fds[PLAN_FDS];
        size_t n_fds = PLAN_FDS;
        ssize_t n = recv_fds(sock, data, sizeof(data), fds, &n_fds);
        int r;

        if (n <= 0 && n != -EMSGSIZE) /* the daemon is gone; the boxes stay, the parked ones end */
            return;
        r = n < 0 ? (int)n : run_plan(l, data, (size_t)n, fds, n_fds, &step);
        if (r < 0) {
            answer.error = -r;
            (void)snprintf(answer.step, sizeof(answer.step), "%s", step);
        } else {
            answer.pid = r;
        }
        while (n_fds > 0)
            (void)close(fds[--n_fds]);
        (void)send_fds(sock, &answer, sizeof(answer), NULL, 0);
    }
}

/* Every box begins as a copy of this process and throws it away when it becomes the agent; both
 * take the longer the more is mapped. Of the daemon's libraries only libc is used here, and nothing
 * returns to the others: the launcher ends with _exit(). (A sanitizer's runtime stays.) */
static void drop_libraries(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    struct range {
        uintptr_t from, to;
    } ranges[512];
    size_t n = 0;
    char line[512];

    while (f && n < ARRAY_LEN(ranges) && fgets(line, sizeof(line), f)) {
        const char *path = strchr(line, '/');

        if (path && strstr(path, ".so") && !strstr(path, "/libc.so") && !strstr(path, "/ld-") &&
            !strstr(path, "san.so") && !strstr(path, "/libgcc_s") &&
            sscanf(line, "%lx-%lx", &ranges[n].from, &ranges[n].to) == 2)
            n++;
    }
    if (f)
        (void)fclose(f);
    while (n-- > 0)
        (void)munmap((void *)ranges[n].from, ranges[n].to - ranges[n].from);
}

static void launcher_main(struct launcher *l, int sock) __attribute__((noreturn));
static void launcher_main(struct launcher *l, int sock)
{
    sigset_t none;

    (void)prctl(PR_SET_NAME, "cay-launch");
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGINT, SIG_IGN); /* Ctrl-C is for the daemon, which then closes the socket */
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGCHLD, SIG_IGN); /* boxes are reaped by the kernel; the daemon has pidfds */
    (void)umask(022);
    drop_libraries();
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0)
        serve(l, sock);
    _exit(0);
}

/* Sealed, and without read permission: the kernel then keeps the agent non-dumpable from its first
 * instruction, with the host's user namespace as the one that may look into it. */
static int agent_memfd(const void *agent, size_t len, struct err *err)
{
    auto_close int fd = memfd_create("cay-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int high, r;

    if (fd < 0)
        return err_sys(err, errno, "make a memfd for the agent");
    r = write_all(fd, agent, len);
    if (r < 0)
        return err_sys(err, -r, "write the agent");
    if (fchmod(fd, 0111) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return err_sys(err, errno, "seal the agent");
    /* Out of the way of the numbers that the agent's own descriptors get. */
    high = fcntl(fd, F_DUPFD_CLOEXEC, AGENT_FD_CGROUPS + 2 * CGROUPS_MAX);
    return high < 0 ? err_sys(err, errno, "seal the agent") : high;
}

int launcher_start(const void *agent, size_t agent_len, int *ret_fd, pid_t *ret_pid,
                   struct err *err)
{
    struct launcher l = {.dev = -1, .fault = getenv("CAY_FAULT")};
    int pair[2];
    pid_t pid;

    if (seccomp_build(&l.filter, err) < 0)
        return -1;
    l.agent = agent_memfd(agent, agent_len, err);
    if (l.agent < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, errno, "make the launcher's socket");
    pid = fork();
    if (pid == 0) {
        (void)close(pair[0]);
        launcher_main(&l, pair[1]);
    }
    (void)close(pair[1]);
    (void)close(l.agent);
    free(l.filter.filter);
    if (pid < 0) {
        (void)close(pair[0]);
        return err_sys(err, errno, "fork the launcher");
    }
    *ret_fd = pair[0];
    *ret_pid = pid;
    return 0;
}
