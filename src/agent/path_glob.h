#pragma once

#include <stdbool.h>

/* A shell glob on a path: `*` and `?` do not stand for a slash, `**` does, and with a slash behind
 * it for any directories or none. One without a slash is about the last part of the path. Brackets
 * are no more than themselves. Of at most GLOB_BYTES_MAX bytes. */
bool path_glob(const char *pattern, const char *path);
