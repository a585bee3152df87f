#pragma once

#include <sched.h>

#include "launch/launch_internal.h"

/* The child that becomes a box, shared by box.c (its steps in order) and mounts.c. */
struct child {
    const struct launcher *l;
    const struct plan *plan; /* of the PARK, later of the START */
    struct plan start;
    struct cgroup_fds cgroups;
    int sync;
    int stage;          /* as it is in our own mount namespace */
    int top;            /* where paths of mounts start: the stage's box folder, later the root */
    int proc, sys, dev; /* mounts */
    int users;          /* the commands' user namespace */
    cpu_set_t host_cpus;
    uint32_t cpus; /* how many of them were chosen; 0 = not yet */
    bool v2;       /* cgroups */

    /* told.c */
    int made;        /* the folder with made-up files, as a mount that can be written */
    int hosts;       /* two of them, as mounts: /etc/hosts and /etc/resolv.conf */
    int resolver;    /* 0 = there is none */
    int meminfo;     /* another, for the agent to write */
    int shown_usage; /* and another, on cgroup v1; else 0 */
    int usage, stat; /* of the workload's memory */
    uint64_t memory_max;
    uint32_t cpu_quota; /* as told so far; 0 = not yet */
    struct parts parts;
    char failed[56]; /* which mount, in place of the step's name; "" = the step's */
};

/* users.c: a step of box.c. */
int make_users(struct child *child);

/* mounts.c: steps of the tables in box.c. Before the start, on the stage: */
int enter_stage(struct child *child);
int make_proc(struct child *child);
int stage_proc(struct child *child);
int stage_sys(struct child *child);
int close_sys(struct child *child);
int stage_cgroups(struct child *child);
int stage_dev(struct child *child);
int mask_paths(struct child *child);
int set_sysctls(struct child *child);
int close_proc(struct child *child);
/* After it, with the image's root: */
int attach_root(struct child *child);
int bind_host_folders(struct child *child);
int move_kernel_folders(struct child *child);
int limit_shm(struct child *child);
int mount_more(struct child *child);
int enter_root(struct child *child);

/* told.c: what the box is told of itself. Steps while parked: */
int open_memory(struct child *child);
int make_told(struct child *child);
int show_told(struct child *child);
/* and with the START: */
int tell_limits(struct child *child);
int show_hosts(struct child *child);
int show_resolver(struct child *child);
/* Parts of others: */
int cover_cgroups(const struct child *child);
int tell_cpus(struct child *child, const cpu_set_t *cpus);
