#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* The floor: what the kernel alone costs. A box here has the parts of a cay sandbox (namespaces,
 * overlay, mounts, cgroups, seccomp, an agent as PID 1) but is made by one small process without
 * daemon, HTTP, database, threads or checks of input. Where the two differ the floor does less. */

/* ---- requests to the agent in the box: one struct, then len bytes; the answer has the same form
 * ---- */

enum floor_op { FLOOR_EXEC, FLOOR_WRITE, FLOOR_READ };

#define FLOOR_DATA_MAX 4096

struct floor_head {
    uint32_t op; /* in an answer: 0, or an errno */
    uint32_t len;
};

enum { FLOOR_FD_LISTEN = 3, FLOOR_FD_STATUS = 4 };

/* ---- boxes ---- */

#define FLOOR_GROUPS_MAX 5

struct box;

/* Once in a process. dir is an empty directory on the filesystem that is to be measured. agent is
 * the path of the floor-agent program. root is what the boxes show, or NULL: the machine's own
 * /usr.
 */
int floor_setup(const char *dir, const char *agent, const char *root, struct err *err);

/* Removes what floor_setup made. */
void floor_teardown(void);

/* What cay also has ready before a create comes in: scratch directory, socket, cgroups with their
 * limits, id range. */
struct box *box_prepare(struct err *err);

/* From the clone to the agent's word that it serves. */
int box_start(struct box *box, struct err *err);

/* A new connection to the agent; the caller closes it. */
int box_connect(const struct box *box, struct err *err);

int box_freeze(const struct box *box, bool frozen, struct err *err);

/* SIGKILL and wait until all its processes are gone. */
int box_kill(struct box *box, struct err *err);

/* Removes the rest and frees it; NULL is fine. */
void box_free(struct box *box);

/* ---- shared by the files of the floor ---- */

struct sock_fprog;

/* Mounts that take the host's privileges: made outside, detached, and sent to the child. */
enum part { PART_ROOT, PART_DEV, PART_USR, PARTS }; /* without the last, a root of its own */

struct child_plan {
    const char *root;  /* mount point for the box's root, a directory of the host */
    const char *empty; /* an empty directory of the host */
    int go;            /* the child's end of a socket pair: the parts come over it */
    int listen, status, agent;
    const struct sock_fprog *filter;
};

/* Written to the status pipe; end of file without it means that the agent serves. */
struct child_failure {
    int error;
    char step[28];
};

/* In the clone; does not return. */
void child_main(struct child_plan *plan) __attribute__((noreturn));

/* Directories for one box in each hierarchy in use. */
struct groups {
    char *dirs[FLOOR_GROUPS_MAX];
    int procs[FLOOR_GROUPS_MAX]; /* cgroup.procs, open for writing; v2: the directory */
    unsigned n;
    bool v2;
};

int groups_setup(struct err *err);
void groups_teardown(void);
int groups_make(struct groups *g, unsigned number, struct err *err);
int groups_join(const struct groups *g, pid_t pid, struct err *err);
int groups_freeze(const struct groups *g, bool frozen, struct err *err);
void groups_remove(struct groups *g);
