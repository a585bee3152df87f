#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* What the files of disks share. A disk is a file with an ext4 filesystem (an image) on a loop
 * device; nothing is mounted in any namespace. */

#define DISK_BLOCK      4096
#define DISK_JOURNAL_MB 4 /* the least that ext4 takes with these blocks */

/* Runs a program of e2fsprogs with a clean environment, its path first in argv. Its exit status, or
 * -1. */
int disk_tool(const char *const *argv, struct err *err);

/* ---- disk_template.c ---- */

/* An empty filesystem of that many MB, made when it is first asked for: a file to copy. dir is the
 * folder of templates, of which the oldest go; one caller at a time. */
int template_open(const char *dir, uint32_t mb, struct err *err);

/* ---- disk_image.c ---- */

/* Mounts an image that is new, or of which image_lock() has told that nobody has it: the root of a
 * detached mount. The loop device goes with the last mount of it. */
int image_mount(int image, unsigned attrs, struct err *err);
/* Is the open image ours alone to mount? A loop device on it keeps it locked for as long as it is
 * there, whoever made it and whatever became of him. */
bool image_lock(int image);
/* Mounts the image at path, which may be mounted, and then it is the very same filesystem. One that
 * is not is looked at first, and repaired if it needs that. scan: there may be loop devices that
 * lock nothing. */
int image_mount_any(const char *path, unsigned attrs, bool scan, struct err *err);
/* Another mount of the filesystem whose root is fd. -1. */
int image_mount_again(int fd);
/* The file that a loop device is on. */
bool loop_backing(const char *device, char *backing, size_t size);
/* "loop7", of the filesystem whose root is fd. -errno. */
int disk_device(int fd, char *name, size_t size);
/* From now on nothing of it is written, and nothing can be. */
void disk_shut_down(int fd);

/* ---- disk_check.c ---- */

/* Makes an image fit to be mounted that nobody has mounted. */
int image_check(const char *path, int image, struct err *err);
