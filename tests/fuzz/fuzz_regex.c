/* A pattern and a text that strangers wrote. The first byte has the flags, a newline ends the
 * pattern. What is found is held against a matcher that tries one way after the other, where that
 * ends soon; its time is bounded, groups are within the match, and pieces say the same as the
 * whole. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/path_glob.h"
#include "agent/regex.h"
#include "agent/regex_internal.h"
#include "base/mem.h"
#include "base/str.h"

#define TRIES_MAX 20000
#define TEXT_MAX  4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* ---- the other matcher: the same program, by backtracking */

struct trial {
    const struct regex *re;
    const char *text;
    size_t len;
    unsigned tries, depth;
    size_t end;
};

static bool word_at(const struct trial *t, size_t at)
{
    size_t n;

    return at < t->len && is_word(char_at(t->text + at, &n));
}

static bool word_before(const struct trial *t, size_t at)
{
    if (at-- == 0)
        return false;
    while ((t->text[at] & 0xc0) == 0x80)
        at--;
    return word_at(t, at);
}

static bool look(const struct trial *t, uint32_t kind, size_t at)
{
    bool before = word_before(t, at), behind = word_at(t, at);
    bool facts[] = {
        at == 0,
        at == t->len,
        at == 0 || t->text[at - 1] == '\n',
        at == t->len || t->text[at] == '\n',
        before != behind,
        before == behind,
        !before && behind,
        before && !behind,
        !before,
        !behind,
    };

    return facts[kind];
}

static bool one(const struct trial *t, const struct inst *in, size_t at, size_t *ret_len)
{
    uint32_t c;

    if (at >= t->len)
        return false;
    c = char_at(t->text + at, ret_len);
    if (in->op == OP_CLASS)
        return ranges_have(t->re->classes[in->x].ranges, t->re->classes[in->x].n, c);
    return in->op == OP_CHAR ? c == in->x : in->op == OP_ANY || c != '\n';
}

static bool backtrack(struct trial *t, uint32_t pc, size_t at);

static bool either(struct trial *t, const struct inst *in, size_t at)
{
    return backtrack(t, in->x, at) || backtrack(t, in->y, at);
}

/* A loop that takes nothing would not end here; patterns that have one are left out. */
static bool backtrack(struct trial *t, uint32_t pc, size_t at)
{
    bool found = false;

    if (++t->tries > TRIES_MAX || ++t->depth > TRIES_MAX / 4)
        return true;
    for (;; t->tries++) {
        const struct inst *in = &t->re->insts[pc];
        size_t len;

        if (t->tries > TRIES_MAX)
            return true;
        if (in->op == OP_MATCH) {
            t->end = at;
            found = true;
            break;
        } else if (in->op == OP_SPLIT) {
            found = either(t, in, at);
            break;
        } else if (in->op == OP_JUMP) {
            pc = in->x;
        } else if (in->op == OP_SAVE || (in->op == OP_LOOK && look(t, in->x, at))) {
            pc++;
        } else if (in->op != OP_LOOK && one(t, in, at, &len)) {
            at += len;
            pc++;
        } else {
            break;
        }
    }
    t->depth--;
    return found;
}

static bool has_loop_of_nothing(const struct node *nodes, uint32_t id)
{
    const struct node *n = &nodes[id];
    bool found = n->kind == NODE_REPEAT && n->max > 1 && nodes[n->child].may_be_none;

    for (uint32_t child = n->child; child && !found; child = nodes[child].next)
        found = has_loop_of_nothing(nodes, child);
    return found;
}

static bool can_be_tried(const char *pattern, unsigned flags)
{
    struct regex re = {.flags = flags, .room = {.most = REGEX_MEMORY_MAX}};
    auto_free struct node *nodes = NULL;
    uint32_t top;
    bool can =
        regex_parse(&re, pattern, &nodes, &top, NULL) == 0 && !has_loop_of_nothing(nodes, top);

    for (size_t i = 0; i < re.n_classes; i++)
        free(re.classes[i].own);
    free(re.classes);
    strv_free(re.names);
    return can;
}

static void check_by_trying(const struct regex *re, const char *text, size_t len, int r,
                            const uint32_t *slots)
{
    struct trial t = {.re = re, .text = text, .len = len};

    for (size_t at = 0; at <= len; at++) {
        bool found;

        if (at < len && (text[at] & 0xc0) == 0x80)
            continue;
        found = backtrack(&t, 0, at);
        if (t.tries > TRIES_MAX || t.depth > 0)
            return;
        if (found) {
            require(r == 1 && slots[0] == at && slots[1] == t.end);
            return;
        }
    }
    require(r == 0);
}

/* ---- */

static void check_groups(const struct regex *re, const uint32_t *slots, size_t len)
{
    require(slots[0] <= slots[1] && slots[1] <= len);
    for (size_t i = 1; i < regex_groups(re); i++) {
        require((slots[2 * i] == REGEX_UNSET) == (slots[2 * i + 1] == REGEX_UNSET));
        if (slots[2 * i] != REGEX_UNSET)
            require(slots[2 * i] >= slots[0] && slots[2 * i] <= slots[2 * i + 1] &&
                    slots[2 * i + 1] <= slots[1]);
    }
}

static enum regex_verdict in_pieces(struct regex *re, const char *text, size_t len, size_t piece)
{
    regex_begin(re);
    for (size_t at = 0; at < len; at += piece)
        regex_feed(re, text + at, len - at < piece ? len - at : piece);
    return regex_end(re);
}

static void check_find(struct regex *re, const char *pattern, const char *text, size_t len)
{
    auto_free uint32_t *slots = xcalloc(2 * regex_groups(re), sizeof(*slots));
    uint64_t before = regex_steps(re);
    int r = regex_find(re, text, len, 0, slots);

    require(r == 0 || r == 1);
    require(regex_steps(re) - before <= (uint64_t)(len + 1) * re->n_insts);
    if (r == 1)
        check_groups(re, slots, len);
    for (size_t piece = 1; piece < 5; piece++)
        require(in_pieces(re, text, len, piece) == (r ? REGEX_YES : REGEX_NO));
    if (re->n_insts < 500 && len < 64 && can_be_tried(pattern, re->flags))
        check_by_trying(re, text, len, r, slots);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_free char *pattern = NULL;
    auto_regex struct regex *re = NULL;
    const uint8_t *end = size > 1 ? memchr(data + 1, '\n', size - 1) : NULL;
    const char *text;
    size_t len;

    if (!end)
        return 0;
    pattern = xstrndup((const char *)data + 1, (size_t)(end - data) - 1);
    text = (const char *)end + 1;
    len = size - (size_t)(end - data) - 1;
    len = len < TEXT_MAX ? len : TEXT_MAX;
    (void)path_glob(pattern, pattern);
    if (regex_compile(pattern, data[0] & 7, 1 << 20, &re, NULL) < 0)
        return 0;
    if (!utf8_valid(text, len))
        require(in_pieces(re, text, len, 3) == REGEX_NOT_TEXT);
    else if (!(data[0] & REGEX_NO_GROUPS))
        check_find(re, pattern, text, len);
    return 0;
}
