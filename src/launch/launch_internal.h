#pragma once

#include <errno.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "proto/plan.h"

struct err;

/* Shared by the files of launch/; nothing else includes it but the benchmark of the floor. launch.c
 * and seccomp.c are the daemon's; the rest is the launcher's program and runs single-threaded in it
 * or in the child that becomes the box. Functions return 0 or -errno unless they say more. */

#define BINDS_MAX   16
#define CGROUPS_MAX 8

/* The launcher's descriptors at start. */
enum launch_fd {
    LAUNCH_FD_SOCKET = 3,
    LAUNCH_FD_AGENT,  /* sealed memfd with the agent's program */
    LAUNCH_FD_FILTER, /* sealed memfd with the seccomp filter */
    LAUNCH_FDS = 3,   /* how many */
};

/* What the launcher keeps between plans. */
struct launcher {
    int agent;                /* sealed memfd with the agent's program */
    struct sock_fprog filter; /* seccomp, compiled once */
    char *stage;              /* plan.stage, once set up; NULL at first */
    uint64_t lease_key;       /* AGENT_LEASE_KEY */
    char **hierarchies;       /* of cgroup v1, that boxes have mounts of; see told.c */
    char **shown_last;        /* folders of the host that the last box was shown */
    bool overlay_takes_fds;   /* the kernel has FSCONFIG_SET_FD for overlay layers (6.13) */
    const char *fault;        /* CAY_FAULT: name of a step that fails, for tests */
    struct parked_child *parked;
    struct nets *nets;
};

/* -EIO if that step is to fail. */
static inline int launch_fault(const struct launcher *l, const char *step)
{
    return l->fault && strcmp(l->fault, step) == 0 ? -EIO : 0;
}

/* cgroup.procs of a box, opened for writing; and what becomes AGENT_FD_OOM. */
struct cgroup_fds {
    int agent[CGROUPS_MAX], work[CGROUPS_MAX];
    unsigned n_agent, n_work;
    int oom;
};

/* Folders of the host for one box, as detached mounts. */
struct shown {
    char **paths; /* NULL = none were made */
    int mounts[BINDS_MAX];
    unsigned n;
};

/* A child that waits for its START. */
struct parked_child {
    struct parked_child *next;
    char *id;
    pid_t pid;
    int pidfd;
    int sync;   /* SOCK_SEQPACKET to the child; closing it ends the child */
    int userns; /* of the child, for id-mapped mounts */
    struct shown shown;
};

/* What a START hands to the child, as descriptors: made by the launcher with the host's privileges,
 * used by the child inside its user namespace. */
struct parts {
    int root; /* detached overlay */
    int logs, ctl, exec, status;
    int binds[BINDS_MAX];
    unsigned n_binds;
    int mounts[PLAN_MOUNTS_MAX]; /* of plan.mounts, but of tmpfs */
    unsigned n_mounts;
};
#define PARTS_FDS (5 + BINDS_MAX + PLAN_MOUNTS_MAX)

/* seccomp.c: the filter as BPF, owned by the caller. */
int seccomp_build(struct sock_fprog *ret, struct err *err);

/* root.c, launcher side. On failure *step names what failed. */
int root_setup(struct launcher *l, const char *stage, const char **step);
/* The overlay of a START, and what it is shown of the host. */
int root_make(struct launcher *l, const struct plan *plan, int scratch, int userns,
              struct shown *shown, struct parts *parts, const char **step);
/* A detached tmpfs of the host's root; the userns's ids on a detached mount (-1: the host's), and
 * attributes. */
int make_tmpfs(const char *size);
int map_mount(int mount, int userns, uint64_t attrs);

/* nets.c, launcher side: network namespaces. Once, at the start: */
int nets_setup(struct launcher *l);
/* Takes us into one for the next box, with loopback and nothing else, as no box has used it. */
struct net;
int nets_enter(struct launcher *l, struct net **ret, const char **step);
/* Back into our own. */
void nets_leave(const struct launcher *l);
/* /dev for its box, not closed yet. */
int nets_dev(struct net *net);
/* It is that box's now; -1 = it is nobody's, and goes. */
void nets_keep(struct launcher *l, struct net *net, int pidfd);

/* mounts.c: a sysfs of the network namespace that we are in, detached and read-only. */
int make_sysfs(void);

/* dev.c, launcher side: /dev of one box, detached; and closed for writing, with its ids. */
int dev_make(void);
int dev_close(int dev, int userns);

/* shown.c, launcher side. What the next box is likely to be shown, ahead of time: */
void shown_prepare(const struct launcher *l, int userns, struct shown *s);
/* What it is shown: from s if that fits, else made now. */
int shown_take(struct launcher *l, struct shown *s, char *const *paths, int userns,
               struct parts *parts);
void shown_done(struct shown *s);

/* told.c, launcher side. Of each cgroup v1 hierarchy with a controller that programs look for, all
 * its controllers, with commas; from the text of /proc/cgroups. */
char **told_hierarchies(const char *cgroups);

/* park.c, launcher side: the three plans. Each returns the pid or -errno with *step. */
int park(struct launcher *l, const struct plan *plan, int *ret_pidfd, const char **step);
int park_start(struct launcher *l, const struct plan *plan, const void *text, size_t len,
               const int *fds, size_t n_fds, const char **step);
int park_forget(struct launcher *l, const char *id);

/* box.c, in the child: does every step and does not return. On sync the launcher first sends /dev
 * and the sysfs, which says that the ids are in place, and later the START with its parts. */
void box_run(const struct launcher *l, const struct plan *plan, const struct cgroup_fds *cgroups,
             int sync) __attribute__((noreturn));

/* box.c: sends a report. */
void launch_tell(int fd, const char *step, int error);

/* The descriptors of parts in a fixed order: how many there are, and back again, of which so many
 * are binds. */
unsigned parts_list(const struct parts *parts, int fds[PARTS_FDS]);
int parts_from(struct parts *parts, const int *fds, size_t n, size_t n_binds);
