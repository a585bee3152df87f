#pragma once

#include <stdint.h>

/* The size of the terminal on fd; 24 × 80 when it is none. */
void term_size(int fd, uint32_t *ret_rows, uint32_t *ret_cols);

/* Raw mode on stdin, and back. The old mode also comes back when the process exits. Both do nothing
 * when stdin is no terminal. */
void term_raw(void);
void term_restore(void);
