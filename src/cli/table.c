#include "cli/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/escape.h"
#include "cli/term.h"

#define GAP           2
#define CUT_MIN       6  /* so much of a column is always shown */
#define CUT_MIN_FIRST 12 /* of an id: "sbx_" and 7 digits, which can be given for it */

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

/* The bytes of the first n characters. */
static size_t bytes_of(const char *s, size_t n)
{
    size_t i = 0;

    for (; s[i]; i++) {
        if (((unsigned char)s[i] & 0xc0) != 0x80 && n-- == 0)
            break;
    }
    return i;
}

static void print_cell(FILE *out, const char *cell, size_t room, bool right, bool pad)
{
    size_t w = width(cell);
    int gap = (int)(w < room ? room - w : 0);

    if (right)
        fprintf(out, "%*s", gap, "");
    if (w <= room)
        fputs(cell, out);
    else
        fprintf(out, "%.*s…", (int)bytes_of(cell, room - 1), cell);
    if (!right && pad)
        fprintf(out, "%*s", gap, "");
}

/* What stands past the last column of the terminal is left out, from whole cells on. */
static void print_row(const struct table *t, FILE *out, size_t row, const size_t *widths,
                      size_t cols)
{
    size_t at = 0;

    for (size_t i = 0; i < t->columns; i++) {
        bool last = i + 1 == t->columns;

        if (cols && at + widths[i] > cols)
            return;
        fprintf(out, "%*s", i > 0 ? GAP : 0, "");
        print_cell(out, t->cells[row * t->columns + i], widths[i], t->align[i] == 'r', !last);
        at += widths[i] + GAP;
    }
}

/* The column to take a character from next; t->columns when none can give any. */
static size_t widest(const struct table *t, const size_t *widths)
{
    size_t best = t->columns;

    for (size_t i = 1; i < t->columns; i++) {
        if (t->align[i] == 'l' && widths[i] > CUT_MIN &&
            (best == t->columns || widths[i] > widths[best]))
            best = i;
    }
    if (best == t->columns && t->align[0] == 'l' && widths[0] > CUT_MIN_FIRST)
        best = 0;
    return best;
}

static void fit(const struct table *t, size_t *widths, size_t cols)
{
    size_t all = GAP * (t->columns - 1), i;

    for (i = 0; i < t->columns; i++)
        all += widths[i];
    for (; all > cols && (i = widest(t, widths)) < t->columns; all--)
        widths[i]--;
}

void table_print_within(const struct table *t, FILE *out, int bold_heading, size_t cols)
{
    auto_free size_t *widths = xcalloc(t->columns, sizeof(size_t));
    size_t rows = t->n_cells / t->columns;

    for (size_t i = 0; i < rows * t->columns; i++) {
        size_t w = width(t->cells[i]);

        if (w > widths[i % t->columns])
            widths[i % t->columns] = w;
    }
    if (cols)
        fit(t, widths, cols);
    for (size_t row = 0; row < rows; row++) {
        fputs(row == 0 && bold_heading ? "\033[1m" : "", out);
        print_row(t, out, row, widths, cols);
        fputs(row == 0 && bold_heading ? "\033[0m\n" : "\n", out);
    }
}

void table_print(const struct table *t, FILE *out, int bold_heading)
{
    uint32_t rows, cols = 0;

    if (isatty(fileno(out)) == 1)
        term_size(fileno(out), &rows, &cols);
    table_print_within(t, out, bold_heading, cols);
}
