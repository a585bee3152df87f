#include "functions/iii_shlex.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

#define BLANKS " \t\n"

static void add(struct buf *word, char c)
{
    (void)buf_add(word, &c, 1); /* no longer than the line */
}

/* s is behind the quote; returns what is behind the closing one, or NULL. */
static const char *take_single(const char *s, struct buf *word)
{
    const char *end = strchr(s, '\'');

    if (end)
        (void)buf_add(word, s, (size_t)(end - s));
    return end ? end + 1 : NULL;
}

static const char *take_double(const char *s, struct buf *word)
{
    for (; *s && *s != '"'; s++) {
        if (*s != '\\') {
            add(word, *s);
            continue;
        }
        s++;
        if (!*s)
            return NULL;
        if (!strchr("$`\"\\\n", *s))
            add(word, '\\');
        if (*s != '\n')
            add(word, *s);
    }
    return *s ? s + 1 : NULL;
}

/* s is behind the backslash. */
static const char *take_escaped(const char *s, struct buf *word)
{
    if (!*s)
        return NULL;
    if (*s != '\n')
        add(word, *s);
    return s + 1;
}

static const char *take_word(const char *s, struct buf *word)
{
    while (s && *s && !strchr(BLANKS, *s)) {
        if (*s == '\'') {
            s = take_single(s + 1, word);
        } else if (*s == '"') {
            s = take_double(s + 1, word);
        } else if (*s == '\\') {
            s = take_escaped(s + 1, word);
        } else {
            add(word, *s);
            s++;
        }
    }
    return s;
}

/* strv_add() walks to the end for each: a long line has many. */
struct words {
    char **list;
    size_t n, room;
};

static void add_word(struct words *w, const struct buf *word)
{
    if (w->n + 1 >= w->room) {
        w->room = w->room ? 2 * w->room : 16;
        w->list = xrealloc(w->list, w->room * sizeof(*w->list));
    }
    w->list[w->n++] = xstrndup(word->len ? word->data : "", word->len);
    w->list[w->n] = NULL;
}

int shlex_split(const char *line, char ***ret)
{
    auto_buf struct buf word = {0};
    struct words words = {0};

    buf_init(&word, strlen(line) + 1);
    for (;;) {
        line += strspn(line, BLANKS);
        if (*line == '#') {
            line += strcspn(line, "\n");
            continue;
        }
        if (!*line)
            break;
        buf_clear(&word);
        line = take_word(line, &word);
        if (!line) {
            strv_free(words.list);
            return -EINVAL;
        }
        add_word(&words, &word);
    }
    *ret = words.list;
    return 0;
}
