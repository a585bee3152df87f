#pragma once

#include <sys/stat.h>

/* Files with several names, by device and inode. *seen is NULL at first. */

/* The path under which the file was added before, or NULL: then this is the first. */
const char *seen_add(void **seen, const struct stat *st, const char *path);
void seen_done(void *seen);
