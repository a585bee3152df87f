#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The mode of a file as people write it. All return 0 or -EINVAL. */

#define MODE_BYTES_MAX 16

/* 3 or 4 octal digits: "644", "0644". */
int mode_octal(const char *text, uint32_t *ret);
/* The same, or one clause such as "u+x", "go-w", "a=rX", "+t", applied to old. There is no 's' in a
 * clause: who wants setuid writes digits. */
int mode_parse(const char *text, uint32_t old, bool dir, uint32_t *ret);
