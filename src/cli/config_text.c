#include "cli/config_text.h"
#include "cli/escape.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#define CONFIG_BYTES_MAX (64u << 20)

/* ---- finding members in JSON ---- */

static int not_understood(const char *text, const char *at, struct err *err)
{
    size_t line = 1;

    for (const char *p = text; p < at; p++)
        line += *p == '\n';
    return err_set(err, ERR_INVALID, "line %zu is not JSON as cay knows it", line);
}

/* Past white space and comments. */
static const char *skip_blank(const char *p)
{
    for (;;) {
        p += strspn(p, " \t\r\n");
        if (strncmp(p, "//", 2) == 0) {
            p += strcspn(p, "\n");
        } else if (strncmp(p, "/*", 2) == 0) {
            const char *end = strstr(p + 2, "*/");

            if (!end)
                return p;
            p = end + 2;
        } else {
            return p;
        }
    }
}

/* Past the string that p is at; NULL when it has no end. */
static const char *skip_string(const char *p)
{
    for (p++; *p && *p != '"' && *p != '\n'; p++)
        if (*p == '\\' && !*++p)
            return NULL;
    return *p == '"' ? p + 1 : NULL;
}

/* Past the value that p is at: of what brackets hold only strings and comments matter. */
static const char *skip_value(const char *p)
{
    size_t depth = 0;

    do {
        const char *was = p;

        if (*p == '"') {
            p = skip_string(p);
            if (!p)
                return NULL;
        } else if (strchr("{[", *p) && *p) {
            depth++;
            p++;
        } else if (strchr("}]", *p) && *p) {
            if (depth-- == 0)
                return NULL;
            p++;
        } else {
            p += strcspn(p, depth ? "\"{}[]/" : "\"{}[]/,: \t\r\n");
        }
        if (depth)
            p = skip_blank(p);
        if (p == was)
            return NULL;
    } while (depth);
    return p;
}

/* Places in the text. */
struct members {
    const char *open, *close; /* the braces */
    const char *key;          /* of the member that is looked for; NULL = it is not there */
    const char *value, *end;  /* and its value */
    const char *before;       /* end of the value before it; NULL = it is the first */
    const char *last;         /* end of the last value; NULL = there are no members */
    bool comma;               /* and a comma follows that */
};

static bool is_key(const char *p, const char *name)
{
    size_t len = strlen(name);

    return p[0] == '"' && strncmp(p + 1, name, len) == 0 && p[len + 1] == '"';
}

/* The members of the object at p; -1 when it cannot be read, with *ret_at. */
static int read_members(const char *p, const char *name, struct members *ret, const char **ret_at)
{
    *ret = (struct members){.open = p};
    for (p = skip_blank(p + 1);; p = skip_blank(p)) {
        const char *key = p, *value, *end;

        *ret_at = p;
        if (*p == '}') { /* also behind a last comma */
            ret->close = p;
            return 0;
        }
        if (*p != '"' || !(p = skip_string(p)))
            return -1;
        p = skip_blank(p);
        if (*p != ':')
            return -1;
        value = skip_blank(p + 1);
        end = skip_value(value);
        if (!end || end == value)
            return -1;
        if (is_key(key, name)) {
            ret->key = key;
            ret->value = value;
            ret->end = end;
            ret->before = ret->last;
        }
        ret->last = end;
        *ret_at = p = skip_blank(end);
        ret->comma = *p == ',';
        if (ret->comma)
            p++;
        else if (*p != '}')
            return -1;
    }
}

/* ---- writing a member ---- */

/* What a line is moved in by for each level: as the first line does that is. */
static char *indent_of(const char *text)
{
    for (const char *p = text; (p = strchr(p, '\n')); p++) {
        size_t n = strspn(p + 1, " \t");

        if (n && !strchr("\r\n", p[1 + n]))
            return xstrndup(p + 1, n);
    }
    return xstrdup("  ");
}

static void add_indent(struct buf *out, const char *indent, size_t levels)
{
    (void)buf_add_str(out, "\n");
    while (levels--)
        (void)buf_add_str(out, indent);
}

/* value has one space a level, as jansson writes it. */
static void add_value(struct buf *out, const char *indent, size_t level, const char *value)
{
    for (const char *p = value; *p; p++) {
        if (*p == '\n') {
            size_t n = strspn(p + 1, " ");

            add_indent(out, indent, level + n);
            p += n;
        } else {
            (void)buf_add(out, p, 1);
        }
    }
}

/* A member behind the others of an object at that level. */
static char *with_member(const char *text, const struct members *m, size_t level, const char *name,
                         const char *value)
{
    auto_free char *indent = indent_of(text);
    auto_buf struct buf out;
    const char *tail = m->close;

    buf_init(&out, CONFIG_BYTES_MAX);
    while (tail > m->open + 1 && strchr(" \t\r\n", tail[-1]))
        tail--;
    if (m->last && !m->comma) { /* comments may follow the value, and stay with it */
        (void)buf_add(&out, text, (size_t)(m->last - text));
        (void)buf_add_str(&out, ",");
        (void)buf_add(&out, m->last, (size_t)(tail - m->last));
    } else {
        (void)buf_add(&out, text, (size_t)(tail - text));
    }
    add_indent(&out, indent, level);
    (void)buf_addf(&out, "\"%s\": ", name);
    add_value(&out, indent, level, value);
    if (memchr(tail, '\n', (size_t)(m->close - tail)))
        (void)buf_add_str(&out, tail);
    else {
        add_indent(&out, indent, level - 1);
        (void)buf_add_str(&out, m->close);
    }
    return buf_steal(&out);
}

static char *with_value(const char *text, const struct members *m, size_t level, const char *value)
{
    auto_free char *indent = indent_of(text);
    auto_buf struct buf out;

    buf_init(&out, CONFIG_BYTES_MAX);
    (void)buf_add(&out, text, (size_t)(m->value - text));
    add_value(&out, indent, level, value);
    (void)buf_add_str(&out, m->end);
    return buf_steal(&out);
}

/* Without the member, its comma and the white space before it. */
static char *without_member(const char *text, const struct members *m)
{
    auto_buf struct buf out;
    const char *from = m->key, *to = m->end, *next = skip_blank(m->end);

    buf_init(&out, CONFIG_BYTES_MAX);
    while (from > text && strchr(" \t\r\n", from[-1]))
        from--;
    if (*next == ',')
        to = next + 1;
    (void)buf_add(&out, text, (size_t)(from - text));
    if (*next != ',' && m->before) { /* it was the last: the comma of the one before it goes */
        const char *comma = skip_blank(m->before);

        out.len = (size_t)(comma - text);
        (void)buf_add(&out, comma + 1, (size_t)(from - comma - 1));
    }
    (void)buf_add_str(&out, to);
    return buf_steal(&out);
}

int config_json_put(const char *text, const char *of, const char *name, const char *value,
                    char **ret, struct err *err)
{
    const char *start = skip_blank(text), *at = start;
    struct members outer, inner;

    if (!*start)
        return config_json_put("{}\n", of, name, value, ret, err);
    if (*start != '{' || read_members(start, of, &outer, &at) < 0 || *skip_blank(outer.close + 1))
        return not_understood(text, *start == '{' && outer.close ? outer.close : at, err);
    if (!outer.key) {
        auto_free char *with = value ? with_member(text, &outer, 1, of, "{}") : xstrdup(text);

        if (value)
            return config_json_put(with, of, name, value, ret, err);
        *ret = steal_ptr(with);
        return 0;
    }
    if (*outer.value != '{' || read_members(outer.value, name, &inner, &at) < 0)
        return not_understood(text, *outer.value == '{' ? at : outer.value, err);
    if (!value)
        *ret = inner.key ? without_member(text, &inner) : xstrdup(text);
    else if (inner.key)
        *ret = with_value(text, &inner, 2, value);
    else
        *ret = with_member(text, &inner, 2, name, value);
    return 0;
}

/* ---- TOML ---- */

/* The first line at or after p that begins a table of that name, or with below one below it; NULL
 * when there is none. */
static const char *find_table(const char *p, const char *table, bool below)
{
    size_t len = strlen(table);

    for (; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
        const char *word = p + strspn(p, " \t");

        if (word[0] == '[' && strncmp(word + 1, table, len) == 0 &&
            (word[1 + len] == ']' || (below && word[1 + len] == '.')))
            return p;
    }
    return NULL;
}

static const char *next_table(const char *p)
{
    while ((p = strchr(p, '\n'))) {
        p++;
        if (p[strspn(p, " \t")] == '[')
            return p;
    }
    return NULL;
}

char *config_toml_put(const char *text, const char *of, const char *name, const char *lines)
{
    auto_free char *table = xasprintf("%s.%s", of, name);
    auto_buf struct buf out;
    const char *from = find_table(text, table, !lines), *to;

    buf_init(&out, CONFIG_BYTES_MAX);
    if (!from) {
        (void)buf_add_str(&out, text);
        if (lines)
            (void)buf_addf(&out, "%s[%s]\n%s",
                           !*text                   ? ""
                           : str_ends(text, "\n\n") ? ""
                           : str_ends(text, "\n")   ? "\n"
                                                    : "\n\n",
                           table, lines);
        return buf_steal(&out);
    }
    to = next_table(from);
    (void)buf_add(&out, text, (size_t)(from - text));
    if (lines)
        (void)buf_addf(&out, "[%s]\n%s%s", table, lines, to ? "\n" : "");
    if (to)
        (void)buf_add_str(&out, to);
    if (!lines && find_table(out.data ? out.data : "", table, true)) {
        auto_free char *left = buf_steal(&out);

        return config_toml_put(left, of, name, NULL);
    }
    return buf_steal(&out);
}

/* ---- what has changed ---- */

#define CONTEXT_LINES 3

/* A text as lines, without their ends; the caller frees both. */
static char **lines_of(char *text, size_t *ret_n)
{
    char **lines = NULL;
    size_t n = 0;

    for (char *line = text; *line; n++) {
        char *end = strchr(line, '\n');

        lines = xrealloc(lines, (n + 1) * sizeof(*lines));
        lines[n] = line;
        if (!end) {
            n++;
            break;
        }
        *end = '\0';
        line = end + 1;
    }
    *ret_n = n;
    return lines;
}

static void add_lines(struct buf *out, char **lines, size_t from, size_t to, char mark,
                      bool escapes, const char *color)
{
    for (size_t i = from; i < to; i++) {
        auto_free char *shown = escapes ? escape_text(ESCAPE_LINES, lines[i]) : NULL;

        (void)buf_addf(out, "%s%c%s%s\n", color, mark, shown ? shown : lines[i],
                       *color ? "\033[0m" : "");
    }
}

static size_t at_most(size_t a, size_t b)
{
    return a < b ? a : b;
}

char *config_diff(const char *a, const char *b, const char *file, bool escapes, bool color)
{
    auto_free char *a_text = xstrdup(a), *b_text = xstrdup(b);
    size_t n, m, same = 0, tail = 0, before, after;
    auto_free char **x = lines_of(a_text, &n), **y = lines_of(b_text, &m);
    auto_buf struct buf out;

    buf_init(&out, CONFIG_BYTES_MAX);
    while (same < n && same < m && strcmp(x[same], y[same]) == 0)
        same++;
    while (tail < n - same && tail < m - same && strcmp(x[n - 1 - tail], y[m - 1 - tail]) == 0)
        tail++;
    if (strcmp(a, b) == 0)
        return buf_steal(&out);
    before = at_most(same, CONTEXT_LINES);
    after = at_most(tail, CONTEXT_LINES);
    (void)buf_addf(&out, "--- %s\n+++ %s\n@@ -%zu,%zu +%zu,%zu @@\n", file, file,
                   same - before + (n > 0), n - tail - same + before + after,
                   same - before + (m > 0), m - tail - same + before + after);
    add_lines(&out, y, same - before, same, ' ', escapes, "");
    add_lines(&out, x, same, n - tail, '-', escapes, color ? "\033[31m" : "");
    add_lines(&out, y, same, m - tail, '+', escapes, color ? "\033[32m" : "");
    add_lines(&out, y, m - tail, m - tail + after, ' ', escapes, "");
    return buf_steal(&out);
}
