#pragma once

#include <stdbool.h>
#include <stdint.h>

struct disk_left;
struct spares;

/* Loop disks that had little on them when their boxes went: emptied, still mounted, and ready for
 * the next. Making and mounting one costs several times as much.
 *
 * A disk is taken only when it is empty for certain: its filesystem counts no inode beyond those of
 * a new one. One that somebody still holds, by whatever descriptor or mount, is counted even
 * without a name, so that nothing of one box can come before another, and none can write to it. The
 * root is not counted, which no box ever has. That it is empty is on disk before it is another's: a
 * power cut must not bring back what was removed.
 *
 * While a disk is here, its file is in a folder of its own, which is emptied when it is opened: a
 * daemon that was killed leaves nothing. Only a rename makes it a sandbox's. */

/* The folders of a new disk, which upper/, work/ and logs/ are. */
#define DISK_FOLDERS 3
extern const char *const disk_folders[DISK_FOLDERS];

/* dir is the folder, which is made and emptied. */
struct spares *spares_open(const char *dir);
/* Removes those that are left. */
void spares_free(struct spares *s);

/* Empties the disk whose file is at path and keeps it: then true, its descriptors are taken and
 * nothing is at path. false = it has to be thrown away, nothing of what is in it counts any more,
 * and left->root may be closed. */
bool spares_put(struct spares *s, const char *path, struct disk_left *left);
/* One of that size, whose file is moved to path: its root, owned by root; *ret_lives is how many
 * boxes had it. -1 = there is none. */
int spares_take(struct spares *s, const char *path, uint32_t mb, unsigned *ret_lives);
