#pragma once

#include <stddef.h>

/* What disk.c does for disk_spares.c. */

/* "loop7", of the disk whose root is fd. -errno. */
int disk_device(int fd, char *name, size_t size);
/* From now on nothing of it is written, and nothing can be. */
void disk_shut_down(int fd);
