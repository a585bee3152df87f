#pragma once

#include <stddef.h>
#include <sys/types.h>

struct err;

/* Directories and files, always relative to a descriptor. */

/* mkdir unless it exists, and opens it. mode is applied also to one that exists. */
int tree_open_dir(int dirfd, const char *name, mode_t mode, int *ret_fd, struct err *err);
/* The names in a directory, sorted, without . and .. ; at most max of them. */
int tree_names(int dirfd, size_t max, char ***ret, struct err *err);
