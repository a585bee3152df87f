#pragma once

#include <stddef.h>
#include <stdio.h>

/* Rows of cells, printed in aligned columns. Cells are escaped, so a row stays a row whatever a
 * sandbox called itself. */
struct table {
    size_t columns;
    char **cells; /* row by row; the first row is the heading */
    size_t n_cells;
    const char *align; /* a letter a column: 'l' or 'r' */
};

/* heading: titles separated by '|', a title that starts with '>' is right-aligned. */
void table_init(struct table *t, const char *heading);
void table_done(struct table *t);
void table_cell(struct table *t, const char *text); /* the next cell; copies */
void table_cellf(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void table_print(const struct table *t, FILE *out, int bold_heading);

#define auto_table __attribute__((cleanup(table_done)))
