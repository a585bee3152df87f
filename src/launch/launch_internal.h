#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/plan.h"

struct err;

/* Shared by the files of launch/; nothing else includes it. All of it runs single-threaded in the
 * launcher or in the child that becomes the box. Functions return 0 or -errno unless they say more. */

#define BINDS_MAX   16
#define CGROUPS_MAX 8

/* What the launcher keeps between plans. */
struct launcher {
    int agent;                /* sealed memfd with the agent's program */
    struct sock_fprog filter; /* seccomp, compiled once */
    char *stage;              /* plan.stage, once set up */
    int dev;                  /* template of /dev, a mounted tmpfs with the device nodes; -1 at first */
    bool overlay_takes_fds;   /* the kernel has FSCONFIG_SET_FD for overlay layers (6.13) */
    const char *fault;        /* CAY_FAULT: name of a step that fails, for tests */
};

/* What a box is made of, as descriptors: made by the launcher with the host's privileges, used by the
 * child inside its user namespace. */
struct parts {
    int root; /* detached overlay */
    int dev;  /* detached clone of the template */
    int logs;
    int ctl, exec, status;
    int binds[BINDS_MAX];
    int agent_cgroups[CGROUPS_MAX], work_cgroups[CGROUPS_MAX];
    unsigned n_binds, n_agent, n_work;
};

/* seccomp.c: the filter as BPF, owned by the caller. */
int seccomp_build(struct sock_fprog *ret, struct err *err);

/* root.c, launcher side. On failure *step names what failed. */
int root_setup(struct launcher *l, const char *stage, const char **step);
int root_make(struct launcher *l, const struct plan *plan, int scratch, int userns,
              struct parts *parts, const char **step);

/* box.c, in the child: does every step and does not return. sync is the socket on which the launcher
 * says that ids and cgroups are in place and sends the parts. */
void box_run(const struct launcher *l, const struct plan *plan, int sync, int status)
    __attribute__((noreturn));

/* Writes a launch_failure to the status pipe. */
void report_failure(int status, const char *step, int error);

/* The descriptors of parts in a fixed order, for sending: returns how many. */
unsigned parts_list(const struct parts *parts, int fds[32]);
int parts_from(struct parts *parts, const struct plan *plan, const int *fds, unsigned n);
