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
/* On a terminal rows are made to fit it. */
void table_print(const struct table *t, FILE *out, int bold_heading);
/* Rows of at most cols characters (0 = any): the widest columns of text are cut, with an ellipsis,
 * the first one last, because it names the row. */
void table_print_within(const struct table *t, FILE *out, int bold_heading, size_t cols);

#define auto_table __attribute__((cleanup(table_done)))
