#include "cli/ignore.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

#include "base/mem.h"

/* ---- reading ---- */

/* As a path: no "." and empty parts, ".." takes the one before it away. */
static char *clean(const char *s, size_t len)
{
    char *out = xmalloc(len + 1);
    size_t n = 0;

    for (const char *end = s + len; s < end;) {
        const char *slash = memchr(s, '/', (size_t)(end - s));
        size_t part = slash ? (size_t)(slash - s) : (size_t)(end - s);

        if (part == 2 && s[0] == '.' && s[1] == '.') {
            while (n > 0 && out[--n] != '/')
                ;
        } else if (part > 0 && !(part == 1 && s[0] == '.')) {
            if (n > 0)
                out[n++] = '/';
            memcpy(out + n, s, part);
            n += part;
        }
        s += part + 1;
    }
    out[n] = '\0';
    return out;
}

static void add_line(struct ignore *ret, const char *line, size_t len)
{
    struct ignore_rule rule = {0};

    if (len > 0 && line[0] == '#')
        return;
    while (len > 0 && isspace((unsigned char)line[len - 1]))
        len--;
    while (len > 0 && isspace((unsigned char)*line)) {
        line++;
        len--;
    }
    if (len > 0 && line[0] == '!') {
        rule.back = true;
        for (line++, len--; len > 0 && isspace((unsigned char)*line); len--)
            line++;
    }
    rule.pattern = clean(line, len);
    if (!*rule.pattern) {
        free(rule.pattern);
        return;
    }
    ret->rules = xrealloc(ret->rules, (ret->n + 1) * sizeof(*ret->rules));
    ret->rules[ret->n++] = rule;
}

void ignore_parse(struct ignore *ret, const char *text, size_t len)
{
    *ret = (struct ignore){0};
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        len -= 3;
    }
    while (len > 0) {
        const char *newline = memchr(text, '\n', len);
        size_t line = newline ? (size_t)(newline - text) : len;

        add_line(ret, text, line);
        line += newline != NULL;
        text += line;
        len -= line;
    }
}

void ignore_done(struct ignore *i)
{
    for (size_t k = 0; k < i->n; k++)
        free(i->rules[k].pattern);
    free(i->rules);
    *i = (struct ignore){0};
}

/* ---- matching ---- */

static bool part_matches(const char *pattern, size_t pattern_len, const char *name, size_t len)
{
    auto_free char *p = xstrndup(pattern, pattern_len), *s = xstrndup(name, len);

    /* "a**b" within a part is as "a*b": the only other place for two is a part of its own. */
    return fnmatch(p, s, 0) == 0;
}

/* The whole path, or with begins a part of its beginning: could more parts make it match? */
static bool matches(const char *pattern, const char *path, bool begins)
{
    size_t p_len = strcspn(pattern, "/"), len = strcspn(path, "/");
    const char *p_rest = pattern + p_len + (pattern[p_len] == '/');
    const char *rest = path + len + (path[len] == '/');

    if (!*pattern)
        return !*path;
    if (p_len == 2 && memcmp(pattern, "**", 2) == 0) {
        if (!*p_rest)
            return *path || begins;
        /* No folder, or one and perhaps more. */
        return matches(p_rest, path, begins) || (*path && matches(pattern, rest, begins)) ||
               (!*path && begins);
    }
    if (!*path)
        return begins;
    return part_matches(pattern, p_len, path, len) && matches(p_rest, rest, begins);
}

/* Itself, or a folder that it is in. */
static bool rule_matches(const struct ignore_rule *rule, const char *path)
{
    auto_free char *cut = xstrdup(path);
    char *slash;

    for (;;) {
        if (matches(rule->pattern, cut, false))
            return true;
        slash = strrchr(cut, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
}

bool ignore_has(const struct ignore *i, const char *path)
{
    bool out = false;

    for (size_t k = 0; k < i->n; k++)
        if (i->rules[k].back == out && rule_matches(&i->rules[k], path))
            out = !out;
    return out;
}

bool ignore_may_take_back(const struct ignore *i, const char *dir)
{
    for (size_t k = 0; k < i->n; k++)
        if (i->rules[k].back && matches(i->rules[k].pattern, dir, true))
            return true;
    return false;
}
