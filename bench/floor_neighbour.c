/* floor-neighbour: what a command costs beside a neighbour without cay. Two cgroups with the limits
 * of a sandbox, bound to the same processor as two sandboxes may be; in one of them 16 processes
 * that spin, in the other /bin/true every 4 ms.
 *
 *   floor-neighbour MS quiet|bombed     the times of the commands as one JSON line */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "floor.h"
#include "samples.h"

#define SPINNERS 16
#define PAUSE_NS 4000000

enum { BOMB, QUIET, GROUPS };

static struct groups groups[GROUPS];

/* In a child. The group first, so that whatever it does is in there. */
static void enter(int which)
{
    const struct groups *g = &groups[which];
    struct err err = {0};
    char pid[16];
    int r;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (g->v2) { /* where groups_join() has nothing to do for a box, which is born in its group */
        auto_free char *procs = xasprintf("%s/cgroup.procs", g->dirs[0]);

        (void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
        r = write_file_at(AT_FDCWD, procs, pid);
        if (r < 0)
            (void)err_sys(&err, -r, "join %s", g->dirs[0]);
    } else {
        r = groups_join(g, getpid(), &err);
    }
    if (r == 0)
        return;
    (void)fprintf(stderr, "floor-neighbour: %s\n", err.text);
    _exit(1);
}

static pid_t spin(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        enter(BOMB);
        for (;;)
            ;
    }
    return pid;
}

/* Prints its samples itself: they are in its memory. */
static pid_t run_commands(uint64_t ms)
{
    struct samples row = {"exec", "us"};
    char *argv[] = {(char[]){"true"}, NULL};
    int64_t until = mono_ns() + (int64_t)ms * 1000000;
    pid_t pid = fork(), command;

    if (pid != 0)
        return pid;
    enter(QUIET);
    while (mono_ns() < until) {
        int64_t t;

        (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        t = mono_ns();
        if (posix_spawn(&command, "/bin/true", NULL, NULL, argv, NULL) != 0 ||
            waitpid(command, NULL, 0) < 0)
            _exit(1);
        (void)samples_since(&row, t);
    }
    samples_print(&row);
    (void)fflush(stdout);
    _exit(0);
}

/* The first that we may use, as a sandbox would have it. */
static int bind_to_one(struct err *err)
{
    cpu_set_t all, one;
    int cpu = 0;

    if (sched_getaffinity(0, sizeof(all), &all) < 0)
        return err_sys(err, errno, "sched_getaffinity");
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) < 0)
        return err_sys(err, errno, "sched_setaffinity");
    return 0;
}

static int measure(uint64_t ms, bool bombed, struct err *err)
{
    pid_t spinners[SPINNERS] = {0}, quiet;
    int status = 1;

    for (int i = 0; bombed && i < SPINNERS; i++)
        spinners[i] = spin();
    quiet = run_commands(ms);
    if (quiet > 0)
        (void)waitpid(quiet, &status, 0);
    for (int i = 0; i < SPINNERS; i++) {
        if (spinners[i] > 0) {
            (void)kill(spinners[i], SIGKILL);
            (void)waitpid(spinners[i], NULL, 0);
        }
    }
    return status == 0 ? 0 : err_set(err, ERR_INTERNAL, "the commands could not be run");
}

static int run(int argc, char **argv, struct err *err)
{
    uint64_t ms;
    int r = 0;

    if (argc != 3 || str_u64(argv[1], &ms) < 0)
        return err_set(err, ERR_INVALID, "usage: floor-neighbour MS quiet|bombed");
    if (bind_to_one(err) < 0 || groups_setup(err) < 0)
        return -1;
    for (unsigned i = 0; i < GROUPS && r == 0; i++)
        r = groups_make(&groups[i], i, err);
    if (r == 0)
        r = measure(ms, strcmp(argv[2], "bombed") == 0, err);
    for (unsigned i = 0; i < GROUPS; i++)
        groups_remove(&groups[i]);
    groups_teardown();
    return r;
}

int main(int argc, char **argv)
{
    struct err err = {0};

    if (run(argc, argv, &err) == 0)
        return 0;
    (void)fprintf(stderr, "floor-neighbour: %s\n", err.text);
    return 1;
}
