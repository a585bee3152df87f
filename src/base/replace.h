#pragma once

#include <stddef.h>

struct err;

/* Replaces dirfd/name: a reader sees the old file or the new one, never a part, also after a power
 * cut. */
int replace_file(int dirfd, const char *name, const void *data, size_t len, struct err *err);
