#pragma once

#include <sys/types.h>

struct err;

/* Opens a file below CAY_DATA or CAY_RUN, where an operator's mistake may have left something else:
 * waits for nobody (a FIFO without another end, a device), follows no link in the last part of the
 * path, and takes regular files only. flags and mode are those of openat(); the descriptor is
 * CLOEXEC. Returns the descriptor, or -errno with err filled, which names what stands there: -ELOOP
 * for a link, -EISDIR for a folder, -ENXIO for anything else that is no file. */
int regular_open(int dirfd, const char *path, int flags, mode_t mode, struct err *err);

/* "a FIFO", "a folder", … of st_mode; NULL for a regular file. */
const char *odd_file_kind(mode_t mode);
