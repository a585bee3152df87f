#include "service/git_internal.h"

#include <string.h>

#include "base/mem.h"

void git_asks_init(struct git_asks *a)
{
    id_new(a->word, "ask");
    buf_init(&a->held, 1 << 20);
}

void git_asks_done(struct git_asks *a)
{
    buf_done(&a->held);
}

/* Tells of the question; a host has no space, and what has one is no host of ours. */
static void tell(const char *words, size_t len, const struct git_asks_ops *ops)
{
    auto_free char *protocol = xstrndup(words, len);
    char *host = strchr(protocol, ' ');

    if (host)
        *host++ = '\0';
    ops->asked(protocol, host ? host : "", ops->arg);
}

/* How much of what begins with a mark can go: a question, a byte that is none; 0 = not known yet.
 */
static size_t take_marked(const struct git_asks *a, const char *at, size_t len, bool last,
                          const struct git_asks_ops *ops)
{
    size_t word = strlen(a->word), have = len - 1 < word ? len - 1 : word;
    const char *end;

    if (memcmp(at + 1, a->word, have) != 0 ||
        (have == word && len > word + 1 && at[word + 1] != ' '))
        goto none;
    end = len > word + 2 ? memchr(at + word + 2, GIT_ASK_MARK, len - word - 2) : NULL;
    if (end) {
        tell(at + word + 2, (size_t)(end - at) - word - 2, ops);
        return (size_t)(end - at) + 1;
    }
    if (!last && len <= GIT_ASK_MAX)
        return 0;
none:
    ops->text(at, 1, ops->arg);
    return 1;
}

void git_asks_add(struct git_asks *a, const char *data, size_t len, bool last,
                  const struct git_asks_ops *ops)
{
    size_t at = 0;

    (void)buf_add(&a->held, data, len);
    while (at < a->held.len) {
        const char *start = a->held.data + at;
        size_t left = a->held.len - at, n;
        const char *mark = memchr(start, GIT_ASK_MARK, left);

        if (mark != start) {
            n = mark ? (size_t)(mark - start) : left;
            ops->text(start, n, ops->arg);
        } else {
            n = take_marked(a, start, left, last, ops);
        }
        if (n == 0)
            break;
        at += n;
    }
    buf_shift(&a->held, at);
}
