#include "cli/table.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/escape.h"

#define GAP 2

static void add(struct table *t, char *text)
{
    t->cells = xrealloc(t->cells, (t->n_cells + 1) * sizeof(char *));
    t->cells[t->n_cells++] = text;
}

void table_init(struct table *t, const char *heading)
{
    char *align;

    *t = (struct table){0};
    for (const char *p = heading; *p; p++)
        t->columns += *p == '|';
    t->columns++;
    align = xmalloc(t->columns + 1);
    for (size_t i = 0; i < t->columns; i++) {
        size_t n = strcspn(heading, "|");

        align[i] = *heading == '>' ? 'r' : 'l';
        add(t, xstrndup(heading + (*heading == '>'), n - (*heading == '>')));
        heading += n + (heading[n] == '|');
    }
    align[t->columns] = '\0';
    t->align = align;
}

void table_done(struct table *t)
{
    for (size_t i = 0; i < t->n_cells; i++)
        free(t->cells[i]);
    free(t->cells);
    free((void *)(uintptr_t)t->align);
    *t = (struct table){0};
}

void table_cell(struct table *t, const char *text)
{
    add(t, escape_text(ESCAPE_CELL, text));
}

void table_cellf(struct table *t, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    table_cell(t, text);
}

/* Characters, not bytes: good enough without a locale. */
static size_t width(const char *s)
{
    size_t n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void print_row(const struct table *t, FILE *out, size_t row, const size_t *widths)
{
    for (size_t i = 0; i < t->columns; i++) {
        const char *cell = t->cells[row * t->columns + i];
        int pad = (int)(widths[i] - width(cell));
        int last = i + 1 == t->columns;

        if (t->align[i] == 'r')
            fprintf(out, "%*s%s", pad, "", cell);
        else
            fprintf(out, "%s%*s", cell, last ? 0 : pad, "");
        fprintf(out, "%*s", last ? 0 : GAP, "");
    }
}

void table_print(const struct table *t, FILE *out, int bold_heading)
{
    auto_free size_t *widths = xcalloc(t->columns, sizeof(size_t));
    size_t rows = t->n_cells / t->columns;

    for (size_t i = 0; i < rows * t->columns; i++) {
        size_t w = width(t->cells[i]);

        if (w > widths[i % t->columns])
            widths[i % t->columns] = w;
    }
    for (size_t row = 0; row < rows; row++) {
        fputs(row == 0 && bold_heading ? "\033[1m" : "", out);
        print_row(t, out, row, widths);
        fputs(row == 0 && bold_heading ? "\033[0m\n" : "\n", out);
    }
}
