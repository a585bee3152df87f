#include <string.h>

#include "agent/regex_internal.h"
#include "base/str.h"

/* All ways through the program are followed at the same time, character by character, in the order
 * in which they would be tried one after the other (Thompson, Pike):
 *  1. re->now has where each way goes on, the preferred ones first.
 *  2. follow() goes along one as far as no character is needed, which depends on those before and
 *     behind, and then takes the character or ends. An instruction that another way was at before,
 *     in the same place of the text, is left: that way is the preferred one.
 *  3. Who gets to the end is the match; ways behind it are forgotten, those before it go on and may
 *     find a preferred one. */

#define ASK_EVERY (1u << 22) /* steps */

static bool look_is_true(enum look look, uint32_t before, uint32_t behind)
{
    bool word_before = is_word(before), word_behind = is_word(behind);

    switch (look) {
    case LOOK_START:
        return before == CHAR_NONE;
    case LOOK_END:
        return behind == CHAR_NONE;
    case LOOK_LINE_START:
        return before == CHAR_NONE || before == '\n';
    case LOOK_LINE_END:
        return behind == CHAR_NONE || behind == '\n';
    case LOOK_WORD:
        return word_before != word_behind;
    case LOOK_NOT_WORD:
        return word_before == word_behind;
    case LOOK_WORD_START:
        return !word_before && word_behind;
    case LOOK_WORD_END:
        return word_before && !word_behind;
    case LOOK_WORD_START_HALF:
        return !word_before;
    case LOOK_WORD_END_HALF:
        return !word_behind;
    }
    return false;
}

static bool takes(const struct regex *re, const struct inst *in, uint32_t c)
{
    const struct class *class;

    if (c == CHAR_NONE)
        return false;
    switch ((enum op)in->op) {
    case OP_CHAR:
        return in->x == c;
    case OP_ANY:
        return true;
    case OP_ANY_IN_LINE:
        return c != '\n';
    case OP_CLASS:
        class = &re->classes[in->x];
        return c < 0x80 ? class->ascii[c / 64] >> (c % 64) & 1
                        : ranges_have(class->ranges, class->n, c);
    case OP_SPLIT:
    case OP_JUMP:
    case OP_SAVE:
    case OP_LOOK:
    case OP_MATCH:
    default:
        return false;
    }
}

static size_t slot_bytes(const struct regex *re)
{
    return 2 * regex_groups(re) * sizeof(uint32_t);
}

static void go_on_then(struct regex *re, uint32_t at)
{
    uint32_t i = re->then.n++;

    re->then.at[i] = at;
    if (re->fresh)
        memcpy(re->then.slots + i * 2 * regex_groups(re), re->fresh, slot_bytes(re));
}

static void match(struct regex *re)
{
    re->found = re->no_more = true;
    if (re->fresh)
        memcpy(re->slots, re->fresh, slot_bytes(re));
}

/* Where a way goes on without a character; CHAR_NONE = nowhere. */
static uint32_t next_of(struct regex *re, uint32_t at, uint32_t c, uint32_t place, uint32_t *n)
{
    const struct inst *in = &re->insts[at];

    switch ((enum op)in->op) {
    case OP_SPLIT:
        re->later[(*n)++] = (struct later){.at = in->y, .slot = CHAR_NONE};
        return in->x;
    case OP_JUMP:
        return in->x;
    case OP_SAVE:
        if (!re->fresh)
            return at + 1;
        re->later[(*n)++] = (struct later){.slot = in->x, .old = re->fresh[in->x]};
        re->fresh[in->x] = place;
        return at + 1;
    case OP_LOOK:
        return look_is_true(in->x, re->before, c) ? at + 1 : CHAR_NONE;
    case OP_CHAR:
    case OP_CLASS:
    case OP_ANY:
    case OP_ANY_IN_LINE:
        if (takes(re, in, c))
            go_on_then(re, at + 1);
        return CHAR_NONE;
    case OP_MATCH:
    default:
        match(re);
        return CHAR_NONE;
    }
}

/* Rule 2, from one instruction on; true when it got to the end. The stack has room: each
 * instruction is looked at once a round, and adds one at most. */
static bool follow(struct regex *re, uint32_t at, uint32_t c, uint32_t place)
{
    uint32_t n = 0;

    for (;;) {
        while (at != CHAR_NONE && re->seen[at] != re->round) {
            re->seen[at] = re->round;
            re->steps++;
            if (re->insts[at].op == OP_MATCH) {
                match(re);
                return true;
            }
            at = next_of(re, at, c, place, &n);
        }
        for (;;) {
            if (n == 0)
                return false;
            n--;
            if (re->later[n].slot == CHAR_NONE)
                break;
            if (re->fresh)
                re->fresh[re->later[n].slot] = re->later[n].old;
        }
        at = re->later[n].at;
    }
}

static void begin_round(struct regex *re)
{
    if (++re->round == 0) {
        memset(re->seen, 0, re->n_insts * sizeof(*re->seen));
        re->round = 1;
    }
    re->then.n = 0;
}

/* All ways, past the character c that is at place, or to the end. */
static void step(struct regex *re, uint32_t c, uint32_t place)
{
    struct ways was;
    bool done = false;

    begin_round(re);
    for (uint32_t i = 0; i < re->now.n && !done; i++) {
        if (re->fresh)
            memcpy(re->fresh, re->now.slots + i * 2 * regex_groups(re), slot_bytes(re));
        done = follow(re, re->now.at[i], c, place);
    }
    if (!done && !re->no_more) {
        if (re->fresh)
            memset(re->fresh, 0xff, slot_bytes(re)); /* REGEX_UNSET */
        (void)follow(re, 0, c, place);
    }
    was = re->now;
    re->now = re->then;
    re->then = was;
    re->before = c;
    if (re->at_start)
        re->no_more = true;
    if (re->steps >= re->ask_at) {
        re->ask_at = re->steps + ASK_EVERY;
        re->ended = re->goes_on && !re->goes_on(re->arg);
    }
}

static void reset(struct regex *re)
{
    re->now.n = 0;
    re->before = CHAR_NONE;
    re->found = re->no_more = re->ended = re->bad = false;
    re->n_part = 0;
}

/* Nothing that comes can change anything. */
static bool is_settled(const struct regex *re)
{
    return re->ended || (re->no_more && re->now.n == 0);
}

/* Where the next match can begin at all. */
static size_t skip(const struct regex *re, const char *text, size_t len, size_t at)
{
    if (re->begins_only >= 0) {
        const char *p = memchr(text + at, re->begins_only, len - at);

        return p ? (size_t)(p - text) : len;
    }
    while (at < len && !re->begins[(unsigned char)text[at]])
        at++;
    return at;
}

static uint32_t char_before(const char *text, size_t at)
{
    size_t begin = at - 1, len;

    while (begin > 0 && (text[begin] & 0xc0) == 0x80)
        begin--;
    return char_at(text + begin, &len);
}

/* Through whole characters of a text, from `at` on. */
static void run(struct regex *re, const char *text, size_t len, size_t at, bool only_whether)
{
    while (at < len && !is_settled(re) && !(only_whether && re->found)) {
        size_t size;
        uint32_t c;

        if (re->now.n == 0 && re->begins_known && !re->begins[(unsigned char)text[at]]) {
            at = skip(re, text, len, at);
            re->before = char_before(text, at);
            if (re->at_start)
                re->no_more = true;
            continue;
        }
        c = char_at(text + at, &size);
        step(re, c, (uint32_t)at);
        at += size;
    }
}

int regex_find(struct regex *re, const char *text, size_t len, size_t from, uint32_t *slots)
{
    reset(re);
    if (from > 0) {
        re->before = char_before(text, from);
        re->no_more = re->at_start;
    }
    run(re, text, len, from, false);
    if (!is_settled(re))
        step(re, CHAR_NONE, (uint32_t)len);
    if (re->ended)
        return -1;
    if (re->found)
        memcpy(slots, re->slots, slot_bytes(re));
    return re->found;
}

/* ---- in pieces ---- */

void regex_begin(struct regex *re)
{
    reset(re);
}

static void feed_whole(struct regex *re, const char *data, size_t len)
{
    if (len == 0)
        return;
    if (!utf8_valid(data, len))
        re->bad = true;
    else
        run(re, data, len, 0, true);
}

/* How many bytes a character has that begins so; a byte that cannot begin one stands alone. */
static size_t char_size(unsigned char lead)
{
    return lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 : 1;
}

/* Ends the character that began with the last piece: how many bytes it took for that. */
static size_t feed_part(struct regex *re, const char *data, size_t len)
{
    size_t want = char_size((unsigned char)re->part[0]), n = 0;

    while (re->n_part < want && n < len)
        re->part[re->n_part++] = data[n++];
    if (re->n_part == want) {
        feed_whole(re, re->part, want);
        re->n_part = 0;
    }
    return n;
}

/* How many bytes at the end are of a character that goes on. */
static size_t unfinished(const char *data, size_t len)
{
    for (size_t n = 1; n <= 3 && n <= len; n++) {
        unsigned char c = (unsigned char)data[len - n];

        if (c >= 0xc0)
            return char_size(c) > n ? n : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}

void regex_feed(struct regex *re, const char *data, size_t len)
{
    size_t n;

    if (re->n_part > 0) {
        n = feed_part(re, data, len);
        data += n;
        len -= n;
    }
    if (re->bad || len == 0)
        return;
    n = unfinished(data, len);
    feed_whole(re, data, len - n);
    memcpy(re->part, data + len - n, n);
    re->n_part = n;
}

enum regex_verdict regex_end(struct regex *re)
{
    if (re->bad || re->n_part > 0)
        return REGEX_NOT_TEXT;
    if (!re->found && !is_settled(re))
        step(re, CHAR_NONE, 0);
    return re->ended ? REGEX_ENDED : re->found ? REGEX_YES : REGEX_NO;
}
