#pragma once

#include <stdint.h>

#include "proto/wire.h"

struct buf;

/* What the daemon sends to the launcher, and what the launcher gives to the agent. */

#define PLAN_VERSION 1
#define PLAN_MAX     (32u << 10)

/* One datagram with these descriptors: the daemon's end never blocks for long, since the answer to a
 * plan is only the pid (plan_answer); everything after the clone is told through PLAN_FD_STATUS. */
enum plan_fd {
    PLAN_FD_SCRATCH, /* root of the box's own filesystem: upper/, work/, logs/ */
    PLAN_FD_CTL,     /* listening sockets for the agent */
    PLAN_FD_EXEC,
    PLAN_FD_STATUS, /* write end of a pipe; see struct launch_failure */
    PLAN_FDS,
};

struct plan {
    char *id;
    char *hostname;
    char *stage;       /* an empty directory on the host that mounts may be put on */
    uint32_t ids_base; /* host id of the box's root; 65,536 follow */
    char **layers;     /* directories, topmost first */
    char **binds;      /* host paths shown read-only */
    char **work;       /* cgroup directories of the workload, to join before anything else */
    char **agent;      /* cgroup directories that the agent moves to afterwards */
    uint32_t cgroup_v2;
    uint32_t cpus;     /* how many CPUs the box may see */
    uint32_t cpu_first; /* the first of them; they wrap around */
    uint64_t file_max; /* RLIMIT_FSIZE: the disk quota */
};

void plan_put(struct buf *b, const struct plan *plan);
void plan_get(struct wire *w, struct plan *ret); /* free with plan_done */
void plan_done(struct plan *plan);

/* Answer on the same socket, in order: pid of the agent on the host, or 0 and the failure. */
struct plan_answer {
    int32_t pid;
    int32_t error;   /* errno */
    char step[56];
};

/* The agent's descriptors at start. It makes all of them CLOEXEC at once.
 * argv: "cay-agent", number of agent cgroups, number of work cgroups. */
enum agent_fd {
    AGENT_FD_CTL = 3,
    AGENT_FD_EXEC,
    AGENT_FD_LOGS,    /* directory for logs of background execs; outside the box's root */
    AGENT_FD_STATUS,  /* closed when the agent serves; before that, a launch_failure can be written */
    AGENT_FD_CGROUPS, /* cgroup.procs, write only: those of the agent's leaf, then the workload's */
};

/* Written to the status pipe by whoever fails; end of file without it means that the box is up. */
struct launch_failure {
    int32_t error;
    char step[60];
};
