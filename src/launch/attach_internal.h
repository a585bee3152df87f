#pragma once

#include <stddef.h>
#include <sys/types.h>

struct launcher;
struct parts;
struct plan;
struct plan_mount;

/* attach.c: what is mounted in a box beside its root. */

/* In the launcher: the mount as the box is to have it, which is the caller's. */
int attach_prepare(const struct launcher *l, const struct plan *plan, const struct plan_mount *m,
                   int mount, int userns, const char **step);
/* Those of a START, which came as fds, into parts->mounts. */
int attach_prepare_all(const struct launcher *l, const struct plan *plan, const int *fds,
                       size_t n_fds, int userns, struct parts *parts, const char **step);

/* As root of the box, in its mount namespace: mounts it at that path below top. Folders that are
 * missing are made; a link is none. */
int attach_place(int top, const char *path, int mount);

/* A copy of the launcher that does what a box can make wait, while the launcher builds others. It
 * ends with the launcher. Returns its pid, 0 in it, -errno; *ret_pidfd is the caller's. */
pid_t fork_helper(int *ret_pidfd);

/* holders.c, in the launcher: a HOLDERS. */
int launch_find_holders(const struct plan *plan, const int *fds, size_t n_fds, int *ret_pidfd,
                        const char **step);

/* In the launcher: a MAP. *ret_users is the caller's. */
int launch_map(const struct plan *plan, int *ret_users, const char **step);
/* In the launcher: an ATTACH and a DETACH, with the descriptors of the plan. *ret_pidfd is of the
 * process that enters the box, and the caller's. */
int launch_attach(struct launcher *l, const struct plan *plan, const int *fds, size_t n_fds,
                  int *ret_pidfd, const char **step);
int launch_detach(const struct launcher *l, const struct plan *plan, const int *fds, size_t n_fds,
                  int *ret_pidfd, const char **step);
