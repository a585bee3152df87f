#pragma once

#include <stdbool.h>

struct err;

/* What the process itself must be before it serves. */

/* Descriptors 0–2 are open, others do not survive an exec, files are made private, the limit of
 * descriptors is as high as it may be. */
int process_setup(struct err *err);

/* Before anything else is there: goes on in a process of its own, with *ret_ready_fd to say that it
 * serves. Who called returns there only when it cannot be; else the first process ends when the
 * other serves (0) or has ended (1). */
int process_detach(int *ret_ready_fd, struct err *err);

/* Root, or an explanation. */
int process_check_root(struct err *err);

/* A kernel that is new enough, or what the running one lacks. The second is the same for a release
 * as uname says it. */
int process_check_kernel(struct err *err);
int process_check_release(const char *release, struct err *err);

/* Makes a folder with its parents and gives its real path (allocated), or -1; *ret_made says that
 * it was not there. Refuses one of another user or one that others may write to. */
int process_folder(const char *path, unsigned mode, char **ret, bool *ret_made, struct err *err);

/* Tells systemd, if it started us (Type=notify). */
void process_notify(const char *state);
/* That we serve, and are the one to look at, which another was until now when we replace it. */
void process_ready(void);
