#pragma once

/* The calls of functions that run; iii_internal.h has what others do with them. */

struct iii_rows;

struct iii_rows *iii_rows_new(void);
void iii_rows_free(struct iii_rows *rows);
