#pragma once

#include <stdint.h>

#include "base/caps.h"
#include "proto/wire.h"

struct buf;

/* Ids are of two kinds in a box. 0 to BOX_IDS - 1 are the commands', who know of no others. The
 * agent has one more, which no command can become: so whoever is root inside has no say over the
 * agent's processes. To the kernel that id is also the one that made the box, and what the box
 * takes of things that the kernel counts by user is charged to it. */
#define BOX_IDS   65536u
#define AGENT_UID BOX_IDS

/* What the agent and whoever is root inside may do, within the box. */
#define BOX_CAPABILITIES                                                                           \
    (CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID) |  \
     CAP_BIT(CAP_KILL) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_SETUID))

/* What the daemon sends to the launcher, and what the launcher gives to the agent. */

#define PLAN_VERSION 1
#define PLAN_MAX     (64u << 10)

/* A box is made in two parts. PARK makes what every box has: a child in its own namespaces and
 * cgroups, with its ids, /proc, /sys and /dev, that waits. START gives it a root filesystem and
 * lets it become the agent. FORGET ends a parked child that is not wanted any more. Each is one
 * datagram and gets one answer, in order; what goes wrong after a START is told through
 * PLAN_FD_STATUS.
 *
 * ATTACH and DETACH mount something in a box that runs, and take it away. HOLDERS sends a
 * plan_holder for each process of the box that has something of mounts[0].device open, through its
 * only descriptor, a pipe. These three are done by a helper process. MAP makes a user namespace for
 * an id-mapped mount.
 *
 * The answer to a PARK comes with the pidfd of the child, that to a plan for a helper with the
 * pidfd of the helper, and that to a MAP with the user namespace. */
enum plan_op {
    PLAN_PARK,
    PLAN_START,
    PLAN_FORGET,
    PLAN_ATTACH,
    PLAN_DETACH,
    PLAN_HOLDERS,
    PLAN_MAP
};

/* Descriptors that come with a START. */
enum plan_fd {
    PLAN_FD_SCRATCH, /* root of the box's own filesystem: upper/, work/, logs/ */
    PLAN_FD_CTL,     /* listening sockets for the agent */
    PLAN_FD_EXEC,
    PLAN_FD_STATUS, /* write end of a pipe; see struct launch_report */
    PLAN_FDS, /* and behind them the detached mounts of plan.mounts, but of PLAN_MOUNT_TMPFS */
};

/* Descriptors that come with an ATTACH; a DETACH has the first two. */
enum plan_attach_fd {
    PLAN_ATTACH_STATUS,  /* as PLAN_FD_STATUS; a report also when all is well */
    PLAN_ATTACH_PROCESS, /* pidfd of the box's agent */
    PLAN_ATTACH_USERS,   /* its user namespace */
    PLAN_ATTACH_MOUNT,
    PLAN_ATTACH_FDS,
};

/* Something that is mounted in a box beside its root. */
#define PLAN_MOUNTS_MAX 16
enum plan_mount_flags {
    PLAN_MOUNT_READ_ONLY = 1 << 0,
    PLAN_MOUNT_NOEXEC = 1 << 1,
    PLAN_MOUNT_TMPFS = 1 << 2, /* a new one of that size; else there is a mount with the plan */
    PLAN_MOUNT_OWNED = 1 << 3, /* uid and gid are the box's root's, and no other id is anybody's;
                                * else its ids are those of the box */
};
struct plan_mount {
    char *path; /* in the box: absolute, without . and .. */
    char *sub;  /* the folder of it that is shown; "" = all */
    uint32_t flags, uid, gid;
    uint64_t size;   /* of a tmpfs, in bytes */
    uint64_t device; /* of a DETACH: what must be mounted there, as st_dev has it */
};
/* A step whose failure is the fault of a mount's path begins so, and goes on with the path. */
#define PLAN_STEP_MOUNT "mount at "
/* The step that fails when the filesystem of a mount cannot show other ids. */
#define PLAN_STEP_MAP "map the ids of a mount"
/* And when there is no such folder in it. */
#define PLAN_STEP_FOLDER "open the folder of a mount"

struct plan {
    uint32_t op;
    char *id;

    /* PARK */
    char *stage;       /* an empty directory on the host that mounts may be put on */
    uint32_t ids_base; /* host id of the box's root; the first of BOX_IDS */
    uint32_t owner;    /* host id of AGENT_UID */
    char **work;       /* cgroup directories of the workload, to join before anything else */
    char **agent;      /* cgroup directories that the agent moves to; both also of a HOLDERS */
    uint32_t cgroup_v2;
    char *hostname;
    char *nameserver; /* for its /etc/resolv.conf; "" = that is left as the image has it */

    /* START, ATTACH and MAP also have ids_base, ATTACH stage, MAP owner */

    /* MAP */
    uint32_t disk_base, disk_owner; /* ids on the disk that are shown as ids_base … and owner */

    /* both: of the PARK what most boxes have */
    uint32_t cpus;      /* how many CPUs the box may see; 0 = all */
    uint32_t cpu_first; /* the first of them; they wrap around */
    uint32_t cpu_quota; /* of PLAN_CPU_PERIOD, and bytes of memory: its limits, as it is told */
    uint64_t memory_max;

    /* START */
    char **layers;     /* directories, topmost first */
    char **binds;      /* host paths shown read-only */
    uint64_t file_max; /* RLIMIT_FSIZE: past the size of the disk, whose end comes first */
    uint64_t shm_max;  /* bytes for /dev/shm */

    /* START, and one of an ATTACH, a DETACH or a HOLDERS */
    struct plan_mount mounts[PLAN_MOUNTS_MAX];
    uint32_t n_mounts;
};

#define PLAN_CPU_PERIOD 100000u /* the kernel's own, in microseconds */

void plan_put(struct buf *b, const struct plan *plan);
void plan_get(struct wire *w, struct plan *ret); /* free with plan_done */
void plan_done(struct plan *plan);

/* pid of the child on the host, which becomes the agent; or 0 and the failure. */
struct plan_answer {
    int32_t pid;
    int32_t error; /* errno */
    char step[56];
};

/* A process that has a file open. Of several with one pid the last counts. */
#define PLAN_HOLDERS_MAX 16
struct plan_holder {
    int64_t pid; /* as the box knows it */
    char command[64];
    char path[256];
};

/* The agent's descriptors at start. It makes all of them CLOEXEC at once.
 * argv: "cay-agent", number of agent cgroups, number of work cgroups; unless it is to run commands
 * as an ordinary process, which has no AGENT_FD_USERS, no AGENT_FD_OOM and nothing after
 * AGENT_FD_STATUS, also AGENT_UID and the memory that commands may use, in bytes. The environment
 * then has AGENT_LEASE_KEY. */
enum agent_fd {
    AGENT_FD_CTL = 3,
    AGENT_FD_EXEC,
    AGENT_FD_LOGS,    /* directory for what execs leave and their doors; outside the box's root */
    AGENT_FD_USERS,   /* user namespace of the commands */
    AGENT_FD_OOM,     /* the workload's file that counts what was killed for lack of memory */
    AGENT_FD_STATUS,  /* a launch_report goes there when the agent serves, or fails to */
    AGENT_FD_SYNC,    /* tells of sync() calls that wait for an answer */
    AGENT_FD_MEMINFO, /* files that say what is used of memory, which it writes: /proc/meminfo */
    AGENT_FD_SHOWN,   /* and memory.usage_in_bytes; on cgroup v2 there is no file here */
    AGENT_FD_USAGE,   /* what the kernel says: bytes in use */
    AGENT_FD_STAT,    /* and memory.stat */
    AGENT_FD_CGROUPS, /* cgroup.procs, write only: those of the agent's leaf, then the workload's */
};

/* Leases are refused to all but the agent, which passes the two halves of a key as arguments that
 * the kernel ignores. The launcher draws one at its start, puts it into the filter in place of
 * these two, and tells it to the agents in a variable of their environment, which nobody inside can
 * read.
 */
#define AGENT_LEASE_LOW  0x6361796cu
#define AGENT_LEASE_HIGH 0x68656c64u
#define AGENT_LEASE_KEY  "CAY_LEASE_KEY"

/* How a launch ended, once: error 0 when the agent serves, else the step and why. A pipe that ends
 * without one means that the child died. A parked child sends the same on its socket when it is
 * ready for the START, or cannot be. */
struct launch_report {
    int32_t error;
    char step[60];
};
