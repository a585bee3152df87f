#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The size of the terminal on fd; 24 × 80 when it is none. */
void term_size(int fd, uint32_t *ret_rows, uint32_t *ret_cols);

/* Raw mode on stdin, and back. The old mode also comes back when the process exits. Both do nothing
 * when stdin is no terminal. */
void term_raw(void);
/* Keys come one by one and are not shown; Ctrl-C still ends the program. term_restore() as well.
 * False when there is no terminal to type at. */
bool term_keys(void);
void term_restore(void);
