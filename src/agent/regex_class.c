#include <string.h>

#include "agent/regex_internal.h"
#include "base/mem.h"

/* What stands behind a backslash, and what stands in brackets. */

/* ---- escapes ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static int check_char(struct parser *ps, const char *at, uint32_t value, uint32_t *ret)
{
    if (value > CHAR_LAST || (value >= 0xd800 && value <= 0xdfff))
        return parse_fail(ps, at, "there is no character of this number");
    *ret = value;
    return 0;
}

/* Behind the x, u or U: so many digits, or any number of them in braces. */
static int parse_hex(struct parser *ps, const char *at, size_t digits, uint32_t *ret)
{
    bool braces = parse_take(ps, '{');
    uint32_t value = 0;
    size_t n = 0;

    while (!parse_ended(ps) && (braces || n < digits) && hex_digit(*ps->p) >= 0) {
        value = value > CHAR_LAST ? value : value * 16 + (uint32_t)hex_digit(*ps->p);
        ps->p++;
        n++;
    }
    if (n == 0 || (braces ? !parse_take(ps, '}') : n < digits))
        return parse_fail(ps, at, "a character's number needs its hexadecimal digits");
    return check_char(ps, at, value, ret);
}

/* \b can go on with {start} and its like. */
static int parse_boundary(struct parser *ps, const char *at, struct escape *ret)
{
    static const struct {
        const char *word;
        enum look look;
    } kinds[] = {
        {"{start}", LOOK_WORD_START},
        {"{end}", LOOK_WORD_END},
        {"{start-half}", LOOK_WORD_START_HALF},
        {"{end-half}", LOOK_WORD_END_HALF},
    };
    size_t left = (size_t)(ps->end - ps->p);

    ret->is_look = true;
    ret->value = LOOK_WORD;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        size_t len = strlen(kinds[i].word);

        if (len <= left && memcmp(ps->p, kinds[i].word, len) == 0) {
            ps->p += len;
            ret->value = kinds[i].look;
            return 0;
        }
    }
    if (left > 1 && ps->p[0] == '{' && ((ps->p[1] | 0x20) >= 'a' && (ps->p[1] | 0x20) <= 'z'))
        return parse_fail(ps, at, "there are \\b{start}, {end}, {start-half} and {end-half} only");
    return 0;
}

static int set_perl(struct escape *ret, enum perl_class which, bool negated)
{
    ret->is_class = true;
    ret->perl = which;
    ret->negated = negated;
    return 0;
}

static int set_look(struct escape *ret, enum look look)
{
    ret->is_look = true;
    ret->value = look;
    return 0;
}

static int set_char(struct escape *ret, uint32_t c)
{
    ret->value = c;
    return 0;
}

/* Those that mean the same everywhere; 1 when it is none of them. */
static int escape_anywhere(struct parser *ps, const char *at, uint32_t c, struct escape *ret)
{
    switch (c) {
    case 'a':
        return set_char(ret, '\a');
    case 'f':
        return set_char(ret, '\f');
    case 'n':
        return set_char(ret, '\n');
    case 'r':
        return set_char(ret, '\r');
    case 't':
        return set_char(ret, '\t');
    case 'v':
        return set_char(ret, '\v');
    case 'x':
        return parse_hex(ps, at, 2, &ret->value);
    case 'u':
        return parse_hex(ps, at, 4, &ret->value);
    case 'U':
        return parse_hex(ps, at, 8, &ret->value);
    case 'd':
    case 'D':
        return set_perl(ret, PERL_DIGIT, c == 'D');
    case 's':
    case 'S':
        return set_perl(ret, PERL_SPACE, c == 'S');
    case 'w':
    case 'W':
        return set_perl(ret, PERL_WORD, c == 'W');
    default:
        return 1;
    }
}

static int escape_outside(struct parser *ps, const char *at, uint32_t c, struct escape *ret)
{
    switch (c) {
    case 'A':
        return set_look(ret, LOOK_START);
    case 'z':
        return set_look(ret, LOOK_END);
    case 'b':
        return parse_boundary(ps, at, ret);
    case 'B':
        return set_look(ret, LOOK_NOT_WORD);
    case '<':
        return set_look(ret, LOOK_WORD_START);
    case '>':
        return set_look(ret, LOOK_WORD_END);
    default:
        return 1;
    }
}

int parse_escape(struct parser *ps, const char *at, bool in_class, struct escape *ret)
{
    uint32_t c;
    int r;

    *ret = (struct escape){0};
    if (parse_ended(ps))
        return parse_fail(ps, at, "there is nothing behind the backslash");
    c = parse_char(ps);
    r = escape_anywhere(ps, at, c, ret);
    if (r == 1 && !in_class)
        r = escape_outside(ps, at, c, ret);
    if (r != 1)
        return r;
    if (c >= '0' && c <= '9')
        return parse_fail(ps, at, "back-references are not supported");
    if (c == 'p' || c == 'P')
        return parse_fail(ps, at, "classes of Unicode (\\p) are not supported");
    if (c >= 0x80 || (is_word(c) && c != '_') || c == '<' || c == '>')
        return parse_fail(ps, at, "there is no such escape");
    return set_char(ret, c);
}

/* ---- classes ---- */

static int no_room(struct parser *ps, int r)
{
    return r < 0 ? regex_too_large(ps->err) : 0;
}

static int add_perl(struct parser *ps, struct set *s, const struct escape *e)
{
    size_t n;
    const struct range *ranges = perl_ranges(e->perl, &n);

    return no_room(ps, e->negated ? set_add_others(s, ranges, n) : set_add_all(s, ranges, n));
}

/* All but these; where case is ignored neither what differs from them in case only. */
static int add_others(struct parser *ps, struct set *s, const struct range *ranges, size_t n)
{
    auto_set struct set these = {.room = s->room};

    if (set_add_all(&these, ranges, n) < 0 ||
        ((ps->flags & PARSE_IGNORE_CASE) && set_fold(&these) < 0))
        return -1;
    return set_add_others(s, these.ranges, these.n);
}

/* [:alpha:] or [:^alpha:], behind the first bracket: 1, 0 when it is none, -1. */
static int parse_posix(struct parser *ps, struct set *s)
{
    const char *name = ps->p + 1, *colon;
    const struct range *ranges;
    bool negated;
    size_t n;

    if (parse_ended(ps) || *ps->p != ':')
        return 0;
    negated = name < ps->end && *name == '^';
    name += negated;
    colon = memchr(name, ':', (size_t)(ps->end - name));
    if (!colon || colon + 1 == ps->end || colon[1] != ']')
        return 0;
    ranges = posix_ranges(name, (size_t)(colon - name), &n);
    if (!ranges)
        return parse_fail(ps, name, "there is no such class");
    ps->p = colon + 2;
    if (no_room(ps, negated ? add_others(ps, s, ranges, n) : set_add_all(s, ranges, n)) < 0)
        return -1;
    return 1;
}

/* One character, or a class of Perl: what a backslash can be here. */
static int parse_item(struct parser *ps, struct escape *ret)
{
    const char *at = ps->p;
    uint32_t c = parse_char(ps);

    *ret = (struct escape){.value = c};
    return c == '\\' ? parse_escape(ps, at, true, ret) : 0;
}

/* Is there a range, and not a minus that stands for itself? */
static bool at_range(const struct parser *ps)
{
    return ps->end - ps->p >= 2 && ps->p[0] == '-' && ps->p[1] != ']' && ps->p[1] != '-';
}

static int parse_range(struct parser *ps, struct set *s)
{
    const char *at = ps->p;
    struct escape first, last;

    if (parse_item(ps, &first) < 0)
        return -1;
    parse_skip_space(ps);
    if (!at_range(ps))
        return first.is_class ? add_perl(ps, s, &first)
                              : no_room(ps, set_add(s, first.value, first.value));
    ps->p++;
    parse_skip_space(ps);
    if (parse_ended(ps))
        return parse_fail(ps, at, "the class has no end");
    if (parse_item(ps, &last) < 0)
        return -1;
    if (first.is_class || last.is_class || last.value < first.value)
        return parse_fail(ps, at, "a range goes from one character to another that is not less");
    return no_room(ps, set_add(s, first.value, last.value));
}

enum set_op { SET_ONLY, SET_AND, SET_WITHOUT, SET_EITHER };

static enum set_op take_op(struct parser *ps)
{
    enum set_op op = SET_ONLY;

    if (ps->end - ps->p < 2 || ps->p[0] != ps->p[1])
        return SET_ONLY;
    if (*ps->p == '&')
        op = SET_AND;
    else if (*ps->p == '-')
        op = SET_WITHOUT;
    else if (*ps->p == '~')
        op = SET_EITHER;
    if (op != SET_ONLY)
        ps->p += 2;
    return op;
}

/* What came before the operator and what came behind it. */
static int apply(struct parser *ps, enum set_op op, struct set *left, struct set *right)
{
    int r = 0;

    if (ps->flags & PARSE_IGNORE_CASE)
        r = set_fold(right);
    if (r == 0) {
        switch (op) {
        case SET_ONLY:
            r = set_add_all(left, right->ranges, right->n);
            break;
        case SET_AND:
            r = set_keep(left, right);
            break;
        case SET_WITHOUT:
            r = set_remove(left, right);
            break;
        case SET_EITHER:
            r = set_toggle(left, right);
            break;
        }
    }
    set_done(right);
    return no_room(ps, r);
}

static int parse_nested(struct parser *ps, struct set *s)
{
    auto_set struct set inner = {.room = s->room};
    const char *at = ps->p++;
    int r = parse_posix(ps, s);

    if (r != 0)
        return r < 0 ? -1 : 0;
    if (parse_nest(ps, at) < 0 || parse_class(ps, at, &inner) < 0)
        return -1;
    ps->nested--;
    return no_room(ps, set_add_all(s, inner.ranges, inner.n));
}

/* A minus or a bracket at the very beginning stands for itself, and begins no range. */
static int parse_first(struct parser *ps, struct set *s)
{
    bool any = false;

    parse_skip_space(ps);
    while (!parse_ended(ps) && *ps->p == '-') {
        ps->p++;
        any = true;
        parse_skip_space(ps);
    }
    if (any && no_room(ps, set_add(s, '-', '-')) < 0)
        return -1;
    if (!any && parse_take(ps, ']'))
        return no_room(ps, set_add(s, ']', ']'));
    return 0;
}

static int parse_items(struct parser *ps, const char *at, struct set *left, struct set *right)
{
    enum set_op op = SET_ONLY, next;

    for (;;) {
        parse_skip_space(ps);
        if (parse_ended(ps))
            return parse_fail(ps, at, "the class has no end");
        if (*ps->p == ']')
            break;
        next = take_op(ps);
        if (next != SET_ONLY) {
            if (apply(ps, op, left, right) < 0)
                return -1;
            op = next;
        } else if ((*ps->p == '[' ? parse_nested(ps, right) : parse_range(ps, right)) < 0) {
            return -1;
        }
    }
    ps->p++;
    return apply(ps, op, left, right);
}

int parse_class(struct parser *ps, const char *at, struct set *ret)
{
    auto_set struct set right = {.room = ret->room};
    bool negated;

    parse_skip_space(ps);
    negated = parse_take(ps, '^');
    if (parse_first(ps, &right) < 0 || parse_items(ps, at, ret, &right) < 0)
        return -1;
    set_tidy(ret);
    return negated ? no_room(ps, set_negate(ret)) : 0;
}
