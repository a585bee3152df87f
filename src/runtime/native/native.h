#pragma once

#include <stdint.h>

struct err;
struct runtime;

/* The native runtime: boxes of namespaces, cgroups, seccomp and overlayfs, built by the launcher.
 */

struct native_config {
    const char *data_dir;   /* absolute; sandboxes/<id>.img and scratch/ live below it */
    const char *run_dir;    /* absolute; <id>/agent.sock, <id>/exec.sock */
    const char *cgroup;     /* on v2, where its cgroups go; NULL = cgroup.h says */
    uint64_t memory_mb;     /* of all boxes together; 0 = what the machine can spare */
    uint32_t pids;          /* the same */
    const char *nameserver; /* for the boxes' /etc/resolv.conf; NULL = the image's own */
    int launcher_fd;        /* launcher_start() made it; the runtime's from here on */
    int launcher_hung_fd;   /* eventfd: written to when the launcher has not answered in time */
    uint32_t launcher_s;    /* that time, in seconds */
};

/* Another launcher takes the place of one that has ended; -1 = there is none for now. Takes the
 * descriptor. What waits for a launcher goes on, and boxes whose child ended with the old one get
 * another child when they are created. */
void native_set_launcher(struct runtime *rt, int launcher_fd);

/* The daemon is about to end: from now on a launcher has 1 s to answer. */
void native_end_soon(struct runtime *rt);

struct runtime *native_new(const struct native_config *config, struct err *err);
