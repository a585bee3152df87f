#pragma once

#include <stdint.h>

/* Removes what dirfd has at name: a file, a link (never what it leads to), or a directory with
 * all that is in it. 0, also when there is nothing of that name, or -errno: what could be removed
 * before the failure is gone.
 *  1. Depth costs neither stack nor more than 128 descriptors.
 *  2. What is mounted somewhere in the tree is left alone, and the answer is -EBUSY.
 *  3. A directory that is not empty after RETRIES_MAX passes ends it with -ENOTEMPTY. A process
 * that adds entries faster than they are removed can make each pass as long as it likes: where
 * other processes may write to the tree, use remove_tree_until(). */
int remove_tree(int dirfd, const char *name);
/* The same, but -E2BIG when more than max entries are in it. */
int remove_small_tree(int dirfd, const char *name, uint64_t max);
/* The same, but -ETIME at until_ns (mono_ns). */
int remove_tree_until(int dirfd, const char *name, int64_t until_ns);
