/* Words of a Dockerfile: how a line is cut, and what is replaced in it. */
#include <ctype.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "service/build/build_internal.h"

#define DEPTH_MAX 16

/* ---- cutting ---- */

static size_t word_length(const char *s, char escape)
{
    char quote = '\0';
    size_t n = 0;

    for (; s[n]; n++) {
        if (!quote && isspace((unsigned char)s[n]))
            break;
        if (quote != '\'' && s[n] == escape && s[n + 1])
            n++;
        else if (quote && s[n] == quote)
            quote = '\0';
        else if (!quote && (s[n] == '\'' || s[n] == '"'))
            quote = s[n];
    }
    return quote ? (size_t)-1 : n;
}

int words_split(const char *text, char escape, char ***ret, struct err *err)
{
    auto_strv char **words = xcalloc(1, sizeof(*words));

    for (size_t n_words = 0;; n_words++) {
        auto_free char *word = NULL;
        size_t n;

        while (isspace((unsigned char)*text))
            text++;
        if (!*text)
            break;
        n = word_length(text, escape);
        if (n == (size_t)-1)
            return err_set(err, ERR_INVALID, "a quote has no end");
        word = xstrndup(text, n);
        words = strv_add_nth(words, n_words, word);
        text += n;
    }
    *ret = steal_ptr(words);
    return 0;
}

/* ---- replacing ---- */

struct expansion {
    const char *at;
    char escape;
    words_lookup lookup;
    void *arg;
    unsigned depth; /* of ${ in ${ */
};

static int add(struct buf *out, const char *s, size_t len, struct err *err)
{
    if (buf_add(out, s, len) < 0)
        return err_code(err, ERR_TOO_LARGE, "too_large", "a word is longer than %u bytes",
                        WORD_BYTES_MAX);
    return 0;
}

static bool is_name(char c, bool first)
{
    return c == '_' || isalpha((unsigned char)c) || (!first && isdigit((unsigned char)c));
}

static char *take_name(struct expansion *x)
{
    const char *start = x->at;

    while (is_name(*x->at, x->at == start))
        x->at++;
    return xstrndup(start, (size_t)(x->at - start));
}

static int expand_until(struct expansion *x, char end, struct buf *out, struct err *err);

/* After "${name": what follows decides. */
static int expand_modifier(struct expansion *x, const char *name, struct buf *out, struct err *err)
{
    const char *value = x->lookup(name, x->arg);
    bool colon = *x->at == ':', there = value && (!colon || *value);
    auto_buf struct buf other = {0};
    char kind = x->at[colon ? 1 : 0];

    if (kind != '-' && kind != '+')
        return err_set(err, ERR_INVALID,
                       "${%.60s…} has a modifier that is not supported: use :-, -, :+ or +", name);
    x->at += colon ? 2 : 1;
    buf_init(&other, WORD_BYTES_MAX);
    if (expand_until(x, '}', &other, err) < 0)
        return -1;
    x->at++;
    if (kind == '-' && there)
        return add(out, value, strlen(value), err);
    if ((kind == '+') != there)
        return 0;
    return add(out, other.data ? other.data : "", other.len, err);
}

/* At a '$'. */
static int expand_variable(struct expansion *x, struct buf *out, struct err *err)
{
    bool braces = x->at[1] == '{';
    auto_free char *name = NULL;
    const char *value;

    x->at += braces ? 2 : 1;
    name = take_name(x);
    if (!*name) {
        if (!braces)
            return add(out, "$", 1, err);
        return err_set(err, ERR_INVALID, "${ has no name behind it");
    }
    if (braces && !*x->at)
        return err_set(err, ERR_INVALID, "${%.60s has no }", name);
    if (braces && *x->at != '}')
        return expand_modifier(x, name, out, err);
    x->at += braces;
    value = x->lookup(name, x->arg);
    return value ? add(out, value, strlen(value), err) : 0;
}

static int expand_single(struct expansion *x, struct buf *out, struct err *err)
{
    const char *end = strchr(++x->at, '\'');
    size_t len;

    if (!end)
        return err_set(err, ERR_INVALID, "a quote has no end");
    len = (size_t)(end - x->at);
    if (add(out, x->at, len, err) < 0)
        return -1;
    x->at = end + 1;
    return 0;
}

static int expand_double(struct expansion *x, struct buf *out, struct err *err)
{
    x->at++;
    while (*x->at && *x->at != '"') {
        int r;

        if (*x->at == '$') {
            r = expand_variable(x, out, err);
        } else {
            if (*x->at == x->escape && x->at[1] && strchr("\"$", x->at[1]))
                x->at++;
            else if (*x->at == x->escape && x->at[1] == x->escape)
                x->at++;
            r = add(out, x->at++, 1, err);
        }
        if (r < 0)
            return -1;
    }
    if (!*x->at)
        return err_set(err, ERR_INVALID, "a quote has no end");
    x->at++;
    return 0;
}

/* Until end, which is not taken; with '\0' until the end of the word. */
static int expand_until(struct expansion *x, char end, struct buf *out, struct err *err)
{
    if (++x->depth > DEPTH_MAX)
        return err_set(err, ERR_INVALID, "${…} in ${…}, more than %d deep", DEPTH_MAX);
    while (*x->at && *x->at != end) {
        int r;

        if (*x->at == '\'')
            r = expand_single(x, out, err);
        else if (*x->at == '"')
            r = expand_double(x, out, err);
        else if (*x->at == '$')
            r = expand_variable(x, out, err);
        else {
            if (*x->at == x->escape && x->at[1])
                x->at++;
            r = add(out, x->at++, 1, err);
        }
        if (r < 0)
            return -1;
    }
    x->depth--;
    if (*x->at != end)
        return err_set(err, ERR_INVALID, "${ has no }");
    return 0;
}

int words_expand_text(const char *text, char escape, words_lookup lookup, void *arg, char **ret,
                      struct err *err)
{
    struct expansion x = {.at = text, .escape = escape, .lookup = lookup, .arg = arg};
    auto_buf struct buf out = {0};
    int r = 0;

    buf_init(&out, WORD_BYTES_MAX);
    while (r == 0 && *x.at) {
        size_t len = *x.at == escape && x.at[1] ? 2 : 1;

        if (*x.at == '$') {
            r = expand_variable(&x, &out, err);
        } else {
            r = add(&out, x.at, len, err);
            x.at += len;
        }
    }
    if (r == 0)
        *ret = buf_steal(&out);
    return r;
}

int words_expand(const char *word, char escape, words_lookup lookup, void *arg, char **ret,
                 struct err *err)
{
    struct expansion x = {.at = word, .escape = escape, .lookup = lookup, .arg = arg};
    auto_buf struct buf out = {0};

    buf_init(&out, WORD_BYTES_MAX);
    if (expand_until(&x, '\0', &out, err) < 0)
        return -1;
    *ret = buf_steal(&out);
    return 0;
}
