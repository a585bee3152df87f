#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct disk;
struct disk_room;
struct err;

/* The writable filesystem of each box, with a size that it cannot pass.
 *
 * Where the data directory's filesystem has project quotas, a box's files are a folder with a
 * project id of its own. Elsewhere (plain ext4) each box has a sparse ext4 image, copied from a
 * ready-made template, on a loop device. Nothing is mounted in any namespace: the mount is a
 * descriptor, the box's overlay holds it, and when the last of them is gone the kernel unmounts and
 * frees the loop device. */

#define DISK_ONCE UINT_MAX

int disk_open(const char *data_dir, struct disk **ret, struct err *err);
void disk_free(struct disk *d);
/* "project quota" or "loop" */
const char *disk_kind(const struct disk *d);

/* Makes a disk of that many MB for id: *ret_fd is the root of a detached mount with upper/, work/
 * and logs/, owned by owner (the host id of the box's root). *ret_lives is how many boxes had it
 * before, for disk_retire. */
int disk_make(struct disk *d, const char *id, uint32_t mb, uint32_t owner, int *ret_fd,
              unsigned *ret_lives, struct err *err);
/* Makes a directory in upper/ of a new disk, with those above it. */
int disk_make_dir(int fd, const char *path, uint32_t mode, uint32_t owner, struct err *err);
/* The same of a disk that a box had, for another box of the same id: what that wrote is there, and
 * after a crash of the machine what it had synced. owner is as it was. No overlay of it may be
 * mounted any more. */
int disk_mount(struct disk *d, const char *id, uint32_t owner, int *ret_fd, struct err *err);
/* The root of a disk that exists already, as a read-only mount of its own: also of one that is
 * mounted, and then the very same filesystem. Fine without any descriptor of it. */
int disk_view(struct disk *d, const char *id, int *ret_fd, struct err *err);
/* Returns when all that was written to it is on the host's disk; fd is its root. */
int disk_flush(int fd, const char *id, struct err *err);
/* Nothing that is only in memory is written to it any more: it will be removed. */
void disk_give_up(const struct disk *d, int fd);
/* The disk of a box whose processes are gone. */
struct disk_left {
    int fd;         /* its root */
    int root;       /* the overlay on it; -1 = that went with the processes, or never was */
    uint32_t mb;    /* its size */
    unsigned lives; /* how many boxes had it before; DISK_ONCE = it is for no other */
    bool used;      /* the box has run */
};

/* Removes it and closes its descriptors. One that had little on it is emptied for the next
 * disk_make. Of others what the box wrote and nobody will read is dropped instead of written out.
 */
int disk_retire(struct disk *d, const char *id, struct disk_left left, struct err *err);
/* Fine if it is gone. Freeing the blocks of a full one takes a while. */
int disk_remove(struct disk *d, const char *id, struct err *err);
/* Bytes that it takes on the host now; 0 when unknown. */
uint64_t disk_used(struct disk *d, const char *id);
/* What a box has taken of its disk, by the disk's own account; fd is its root. */
int disk_room(struct disk *d, const char *id, int fd, struct disk_room *ret, struct err *err);
/* How much more it may take from now on: UINT64_MAX = all there is. A quota says no at the moment
 * of writing already, when the host's disk is full, and needs no lease. */
int disk_lease(struct disk *d, const char *id, int fd, uint64_t more, struct err *err);
/* Where it is, to be shown to people; false = it is not there. */
bool disk_find(const struct disk *d, const char *id, char *path, size_t size);
/* The host id of its box's root; -1 = cannot be told. */
int64_t disk_owner(struct disk *d, const char *id);
void disk_each(struct disk *d, void (*found)(const char *id, void *arg), void *arg);
