#pragma once

struct err;

/* What the process itself must be before it serves. */

/* Descriptors 0–2 are open, others do not survive an exec, files are made private, the limit of
 * descriptors is as high as it may be. */
int process_setup(struct err *err);

/* Root, or an explanation. */
int process_check_root(struct err *err);

/* Makes a folder with its parents and gives its real path (allocated), or -1. Refuses one of
 * another user or one that others may write to. */
int process_folder(const char *path, unsigned mode, char **ret, struct err *err);

/* Tells systemd, if it started us (Type=notify). */
void process_notify(const char *state);
