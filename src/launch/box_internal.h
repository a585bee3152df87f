#pragma once

#include <sched.h>

#include "launch/launch_internal.h"

/* The child that becomes a box, shared by box.c (its steps in order) and mounts.c. */
struct box {
    const struct launcher *l;
    const struct plan *plan; /* of the PARK, later of the START */
    struct plan start;
    struct cgroup_fds cgroups;
    int sync;
    int stage;          /* as it is in our own mount namespace */
    int top;            /* where paths of mounts start: the stage's box folder, later the root */
    int proc, sys, dev; /* mounts */
    cpu_set_t host_cpus;
    uint32_t cpus; /* how many of them were chosen; 0 = not yet */
    struct parts parts;
};

/* mounts.c: steps of the tables in box.c. Before the start, on the stage: */
int enter_stage(struct box *box);
int make_proc(struct box *box);
int make_sys(struct box *box);
int stage_proc(struct box *box);
int stage_sys(struct box *box);
int stage_cgroups(struct box *box);
int stage_dev(struct box *box);
int mask_paths(struct box *box);
int set_sysctls(struct box *box);
int close_proc(struct box *box);
/* After it, with the image's root: */
int attach_root(struct box *box);
int bind_host_folders(struct box *box);
int move_kernel_folders(struct box *box);
int limit_shm(struct box *box);
int enter_root(struct box *box);
