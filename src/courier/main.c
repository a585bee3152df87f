/* cay-courier brings what happens here to those who asked to be told: webhooks, and the operator's
 * collector of traces. It reads what strangers answer, so that the daemon never does, and has what
 * that needs: the network, and of the host's files those that names and certificates need. It has
 * an id that nobody else has, no capability, and starts nothing. Passwords and signatures of those
 * it calls pass through it; it keeps none.
 *
 *   cay-courier CA_FILE TARGET…     CA_FILE may be "", targets are as policy/targets.h has them */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "courier/courier_internal.h"
#include "policy/targets.h"
#include "wall/wall.h"

#define COURIER_ID 0xfffe637au /* nobody's: above all ranges of boxes */
#define TASKS_MAX  1024        /* a thread a name that is asked for */
#define GIVES_WAY  10          /* as nice(1) has it; calls come first */
#define NAMESPACES (CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

static int wall_up(const char *ca_file, struct err *err)
{
    if (wall_limits(COURIER_FD + 1, err) < 0)
        return -1;
    if (unshare(NAMESPACES) < 0)
        return err_sys(err, errno, "part from the host's namespaces");
    if (wall_root_names(ca_file, err) < 0 || wall_id(COURIER_ID, err) < 0 ||
        wall_tasks(TASKS_MAX, err) < 0)
        return -1;
    /* Nobody of its id, of whom there are none, reads its memory. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_sys(err, errno, "hide the courier's memory");
    return wall_filter(FILTER_NETWORK, err);
}

int main(int argc, char **argv)
{
    struct courier c = {.ca_file = argc > 1 && argv[1][0] ? argv[1] : NULL};
    struct err err = {0};

    (void)prctl(PR_SET_NAME, "cay-courier"); /* it runs from a descriptor */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setpriority(PRIO_PROCESS, 0, GIVES_WAY);
    /* Reads its configuration and loads what it needs, while that can be seen. */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return 1;
    if (targets_parse(argc > 2 ? argv + 2 : NULL, &c.targets, &err) < 0 ||
        wall_up(c.ca_file, &err) < 0) {
        struct courier_told told = {.outcome = COURIER_BROKEN};

        (void)snprintf(told.why, sizeof(told.why), "%.150s", err.text);
        courier_tell(&told); /* for the daemon's log */
        return 1;
    }
    courier_serve(&c);
}
