#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* The floor: what the kernel alone costs. A box here has the parts of a cay sandbox (namespaces, a
 * disk with a size, overlay, mounts, cgroups, seccomp, an agent as PID 1) but is made by one small
 * process without daemon, HTTP, database, threads or checks of input. It is made in the same two
 * parts: what does not depend on the image is parked ahead, the rest is the start. Where the two
 * differ the floor does less. */

/* ---- requests to the agent in the box: one struct, then len bytes; the answer has the same form
 * ---- */

enum floor_op { FLOOR_EXEC, FLOOR_WRITE, FLOOR_READ, FLOOR_HELLO };

#define FLOOR_DATA_MAX 4096

struct floor_head {
    uint32_t op; /* in an answer: 0, or an errno */
    uint32_t len;
};

#define FLOOR_GROUPS_MAX  5
#define FLOOR_AGENTS_MAX  3
#define FLOOR_IDS         65536u
#define FLOOR_AGENT_UID   FLOOR_IDS /* the agent's own, which no command can become */
#define FLOOR_AGENT_READY 'k'

/* The agent's descriptors. FLOOR_FD_USERS has cay's number, since the filter knows it;
 * FLOOR_FD_CALLS is what the filter gives; the cgroup.procs files of the agent's own leaf come
 * last, as many as its argument says. */
enum {
    FLOOR_FD_CTL = 3,
    FLOOR_FD_EXEC,
    FLOOR_FD_CALLS,
    FLOOR_FD_USERS, /* AGENT_FD_USERS */
    FLOOR_FD_STATUS,
    FLOOR_FD_GROUPS,
};

/* ---- boxes ---- */

struct box;

/* Once in a process. dir is an empty directory on the filesystem that is to be measured. agent is
 * the path of the floor-agent program. root is what the boxes show, or NULL: the machine's own
 * /usr.
 */
int floor_setup(const char *dir, const char *agent, const char *root, struct err *err);

/* Removes what floor_setup made. */
void floor_teardown(void);

/* In a fork that makes boxes beside others: a mount namespace and numbers of its own. */
int floor_worker(unsigned number, struct err *err);

/* What cay has ready before a create comes in: the disk, cgroups with their limits, sockets, and a
 * child in its namespaces with its ids, /proc, /sys and /dev, that waits. */
struct box *box_park(struct err *err);

/* The rest: the root filesystem, up to the agent's word that it serves. */
int box_start(struct box *box, struct err *err);

/* A new connection to the agent, for execs or for files; the caller closes it. */
int box_connect(const struct box *box, enum floor_op op, struct err *err);

/* Writes the limits of its workload once more. */
int box_limit(const struct box *box, struct err *err);

int box_freeze(const struct box *box, bool frozen, struct err *err);

/* SIGKILL and wait until all its processes are gone. */
int box_kill(struct box *box, struct err *err);

/* Removes the rest and frees it; NULL is fine. */
void box_free(struct box *box);

/* ---- shared by the files of the floor ---- */

struct sock_fprog;

/* Directories for one box in each hierarchy in use: the workload's, and the agent's where there are
 * limits. procs are their cgroup.procs, open for writing. */
struct groups {
    char *dirs[FLOOR_GROUPS_MAX], *agent_dirs[FLOOR_AGENTS_MAX];
    int procs[FLOOR_GROUPS_MAX], agent_procs[FLOOR_AGENTS_MAX];
    unsigned n, n_agent;
    bool v2;
    char *above; /* v2: the directory that has both */
};

int groups_setup(struct err *err);
void groups_teardown(void);
int groups_make(struct groups *g, unsigned number, struct err *err);
int groups_join(const struct groups *g, pid_t pid, struct err *err); /* v1; 0 = the caller */
int groups_limit(const struct groups *g, struct err *err);
int groups_freeze(const struct groups *g, bool frozen, struct err *err);
void groups_remove(struct groups *g);

/* A disk: an ext4 of a fixed size in a file, copied from a template, on a loop device. */
int disk_setup(const char *dir, struct err *err);
void disk_teardown(void);
int disk_make(const char *path, uint32_t owner, struct err *err); /* the mount, detached */
void disk_abandon(int mount, const char *path);

/* Mounts that take the host's privileges: made outside, detached, and sent to the child. */
enum part { PART_STATUS, PART_ROOT, PART_USR, PARTS }; /* without the last, a root of its own */

struct child_plan {
    int sync; /* the child's end of a socket pair: /dev comes over it, and later the parts */
    int ctl, exec, agent;
    unsigned cpu;
    const struct groups *groups;
    const struct sock_fprog *filter;
};

/* What went wrong in the child: told to its maker while it is parked, later to the status pipe. */
struct child_failure {
    int error;
    char step[28];
};

/* In the clone, whose working directory is the stage; does not return. */
void child_main(const struct child_plan *plan) __attribute__((noreturn));
