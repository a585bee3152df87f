#pragma once

/* A program that is installed as `iii-worker` has only a few of iii's commands. The others are
 * those of the genuine iii-worker, if that is on PATH too. */

struct err;

/* Runs the next iii-worker on PATH with the same arguments, in place of this process; does not
 * return then. Without one, worker-manager-daemon waits until its engine ends (an engine would
 * start it again for ever if it ended), and everything else fails with the text of why. Returns the
 * exit status. */
int next_worker_run(int argc, char **argv, const struct err *why);
