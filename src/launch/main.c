/* cay-launch: one thread that builds boxes from whole plans, until the daemon's end of the socket
 * closes. A static program of its own: every box begins as a copy of it and throws it away when it
 * becomes the agent, and both take the longer the more is mapped. */
#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "launch/attach_internal.h"
#include "launch/launch_internal.h"

static int run_plan(struct launcher *l, const void *data, size_t len, const int *fds, size_t n_fds,
                    int *ret_pidfd, const char **step)
{
    struct plan plan;
    struct wire w;
    int r = -EPROTO;

    *step = "read the plan";
    wire_init(&w, data, len);
    plan_get(&w, &plan);
    if (wire_ok(&w)) {
        if (plan.op == PLAN_PARK)
            r = park(l, &plan, ret_pidfd, step);
        else if (plan.op == PLAN_START && n_fds >= PLAN_FDS)
            r = park_start(l, &plan, data, len, fds, n_fds, step);
        else if (plan.op == PLAN_FORGET)
            r = park_forget(l, plan.id);
        else if (plan.op == PLAN_ATTACH)
            r = launch_attach(l, &plan, fds, n_fds, ret_pidfd, step);
        else if (plan.op == PLAN_DETACH)
            r = launch_detach(l, &plan, fds, n_fds, ret_pidfd, step);
        else if (plan.op == PLAN_HOLDERS)
            r = launch_find_holders(&plan, fds, n_fds, ret_pidfd, step);
        else if (plan.op == PLAN_MAP)
            r = launch_map(&plan, ret_pidfd, step);
    }
    plan_done(&plan);
    return r;
}

static void serve(struct launcher *l)
{
    static char data[PLAN_MAX];

    for (;;) {
        struct plan_answer answer = {0};
        const char *step = "";
        int fds[PLAN_FDS + PLAN_MOUNTS_MAX], pidfd = -1;
        size_t n_fds = ARRAY_LEN(fds);
        ssize_t n = recv_fds(LAUNCH_FD_SOCKET, data, sizeof(data), fds, &n_fds);
        int r;

        if (n <= 0 && n != -EMSGSIZE) /* the daemon is gone; the boxes stay, the parked ones end */
            return;
        r = n < 0 ? (int)n : run_plan(l, data, (size_t)n, fds, n_fds, &pidfd, &step);
        if (r < 0) {
            answer.error = -r;
            (void)snprintf(answer.step, sizeof(answer.step), "%s", step);
        } else {
            answer.pid = r;
        }
        while (n_fds > 0)
            (void)close(fds[--n_fds]);
        /* Who asked waits for as long as we are there. */
        r = send_fds(LAUNCH_FD_SOCKET, &answer, sizeof(answer), &pidfd, pidfd >= 0);
        close_fd(&pidfd);
        if (r < 0)
            return;
    }
}

/* Puts the key where the filter asks for it. */
static int set_lease_key(struct launcher *l)
{
    uint32_t key[2], found = 0;

    if (getrandom(key, sizeof(key), 0) != sizeof(key))
        return -1;
    for (unsigned i = 0; i < l->filter.len; i++) {
        struct sock_filter *f = &l->filter.filter[i];
        bool low = f->k == AGENT_LEASE_LOW;

        if (f->code != (BPF_JMP | BPF_JEQ | BPF_K) || (!low && f->k != AGENT_LEASE_HIGH))
            continue;
        f->k = key[!low];
        found++;
    }
    l->lease_key = (uint64_t)key[1] << 32 | key[0];
    return found == 2 ? 0 : -1;
}

static void find_hierarchies(struct launcher *l)
{
    char text[4096];

    l->hierarchies = read_file_at(AT_FDCWD, "/proc/cgroups", text, sizeof(text)) > 0
                         ? told_hierarchies(text)
                         : xcalloc(1, sizeof(char *));
}

static int load_filter(struct sock_fprog *ret)
{
    struct stat st;
    ssize_t n;

    if (fstat(LAUNCH_FD_FILTER, &st) < 0 || st.st_size <= 0)
        return -1;
    ret->filter = xmalloc((size_t)st.st_size);
    ret->len = (unsigned short)((size_t)st.st_size / sizeof(*ret->filter));
    n = pread(LAUNCH_FD_FILTER, ret->filter, (size_t)st.st_size, 0);
    (void)close(LAUNCH_FD_FILTER);
    return n == st.st_size ? 0 : -1;
}

/* The kernel counts open files for the machine as a whole, and one box could reach that number
 * alone. Each is charged to the memory of its box, which is what bounds them; so the other bound is
 * lifted, as systemd does at every boot. Where they are not charged it stays, and so it does where
 * it may not be changed. */
static void lift_open_files(void)
{
    char text[4096];

    if (read_file_at(AT_FDCWD, "/proc/cmdline", text, sizeof(text)) > 0 && !strstr(text, "nokmem"))
        (void)write_file_at(AT_FDCWD, "/proc/sys/fs/file-max", "9223372036854775807");
}

int main(void)
{
    static const unsigned long by_default[4]; /* the kernel's own struct */
    struct launcher l = {.fault = getenv("CAY_FAULT")};

    (void)prctl(PR_SET_NAME, "cay-launch");
    for (int sig = 1; sig <= 64; sig++) /* what the daemon ignores is nothing to a box */
        (void)syscall(SYS_rt_sigaction, sig, by_default, NULL, 8);
    /* The agent knows which these are. */
    (void)signal(SIGINT, SIG_IGN); /* Ctrl-C is for the daemon, which then closes the socket */
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);  /* nor does it end the daemon, whose terminal may go */
    (void)signal(SIGCHLD, SIG_IGN); /* boxes are reaped by the kernel; the daemon has pidfds */
    (void)umask(022);
    /* Ids change without a change of capabilities: see clone_as_owner(). */
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
        return 1;
    /* Out of the way of the numbers that the agent's own descriptors get. */
    l.agent = fcntl(LAUNCH_FD_AGENT, F_DUPFD_CLOEXEC, AGENT_FD_CGROUPS + 2 * CGROUPS_MAX);
    (void)close(LAUNCH_FD_AGENT);
    if (l.agent < 0 || fd_set_cloexec(LAUNCH_FD_SOCKET, true) < 0 || load_filter(&l.filter) < 0 ||
        nets_setup(&l) < 0 || set_lease_key(&l) < 0 || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return 1;
    lift_open_files();
    find_hierarchies(&l);
    serve(&l);
    return 0;
}
