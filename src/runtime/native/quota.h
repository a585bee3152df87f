#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* Disks as folders under a project quota (XFS mounted with prjquota). The project id is the host id
 * of the box's root, which no other box has. */

/* Is dir on XFS with project quotas accounted and enforced? */
bool quota_works(const char *dir);

/* Makes the folder path with these sub-folders and the limit; returns the root of a detached mount.
 */
int quota_make(const char *path, const char *const *folders, size_t n, uint32_t mb,
               uint32_t project, struct err *err);
int quota_remove(const char *dir, const char *id, struct err *err);
uint64_t quota_used(const char *path);
