#include <string.h>

#include "agent/regex_internal.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#define COUNT_DIGITS 9

int parse_fail(struct parser *ps, const char *at, const char *what)
{
    size_t n = 1;

    for (const char *p = ps->pattern; p < at; p++)
        n += (*p & 0xc0) != 0x80;
    return err_code(ps->err, ERR_INVALID, "bad_regex",
                    "the pattern is wrong at its character %zu: %s", n, what);
}

int regex_too_large(struct err *err)
{
    return err_code(err, ERR_TOO_LARGE, "bad_regex", "the pattern is too large");
}

bool parse_take(struct parser *ps, char c)
{
    if (parse_ended(ps) || *ps->p != c)
        return false;
    ps->p++;
    return true;
}

uint32_t parse_char(struct parser *ps)
{
    size_t len;
    uint32_t c = char_at(ps->p, &len);

    ps->p += len;
    return c;
}

void parse_skip_space(struct parser *ps)
{
    if (!(ps->flags & PARSE_SPACED))
        return;
    while (!parse_ended(ps)) {
        size_t n, len;
        const struct range *spaces = perl_ranges(PERL_SPACE, &n);

        if (*ps->p == '#') {
            const char *end = memchr(ps->p, '\n', (size_t)(ps->end - ps->p));

            ps->p = end ? end : ps->end;
        } else if (ranges_have(spaces, n, char_at(ps->p, &len))) {
            ps->p += len;
        } else {
            return;
        }
    }
}

int parse_nest(struct parser *ps, const char *at)
{
    if (++ps->nested > NESTED_MAX)
        return parse_fail(ps, at, "it is nested too deeply");
    return 0;
}

/* ---- atoms ---- */

static uint32_t parse_alternatives(struct parser *ps);

static uint32_t parse_escaped(struct parser *ps, const char *at)
{
    struct escape e;

    if (parse_escape(ps, at, false, &e) < 0)
        return 0;
    if (e.is_class)
        return new_perl(ps, &e);
    return e.is_look ? new_leaf(ps, NODE_LOOK, e.value) : new_char(ps, e.value);
}

static uint32_t parse_brackets(struct parser *ps, const char *at)
{
    auto_set struct set s = {.room = &ps->re->room};

    if (parse_nest(ps, at) < 0 || parse_class(ps, at, &s) < 0)
        return 0;
    ps->nested--;
    return new_class(ps, &s);
}

static bool is_name_char(char c, bool first)
{
    bool letter = ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';

    return letter || (!first && ((c >= '0' && c <= '9') || c == '.' || c == '[' || c == ']'));
}

/* Behind its <. */
static int parse_name(struct parser *ps, char **ret)
{
    const char *name = ps->p;
    size_t len;

    while (!parse_ended(ps) && is_name_char(*ps->p, ps->p == name))
        ps->p++;
    len = (size_t)(ps->p - name);
    if (len == 0 || !parse_take(ps, '>'))
        return parse_fail(ps, name, "the name of a group is letters, digits and _, and then >");
    if (regex_group(ps->re, name, len) >= 0)
        return parse_fail(ps, name, "two groups have this name");
    *ret = xstrndup(name, len);
    return 0;
}

static unsigned flag_of(char c)
{
    switch (c) {
    case 'i':
        return PARSE_IGNORE_CASE;
    case 'm':
        return PARSE_LINES;
    case 's':
        return PARSE_ANY_LINE;
    case 'U':
        return PARSE_SWAP;
    case 'x':
        return PARSE_SPACED;
    default:
        return 0;
    }
}

/* Behind (? and up to the : or ) behind them. */
static int parse_flags(struct parser *ps, unsigned *ret)
{
    unsigned on = 0, off = 0;
    bool minus = false, any = false;

    for (;; ps->p++) {
        unsigned flag;

        if (parse_ended(ps))
            return parse_fail(ps, ps->p, "the group has no end");
        if (*ps->p == ':' || *ps->p == ')')
            break;
        flag = flag_of(*ps->p);
        if (*ps->p == '-' && !minus) {
            minus = true;
            any = false;
            continue;
        }
        if (flag ? ((on | off) & flag) != 0 : *ps->p != 'u' || minus)
            return parse_fail(ps, ps->p, "flags are i, m, s, U, x and u, each once");
        any = true;
        *(minus ? &off : &on) |= flag;
    }
    if (!any && (minus || *ps->p == ')'))
        return parse_fail(ps, ps->p, "there is no flag here");
    *ret = (ps->flags | on) & ~off;
    return 0;
}

enum group_kind { GROUP_FAILED, GROUP_KEPT, GROUP_PLAIN, GROUP_FLAGS };

static enum group_kind not_supported(struct parser *ps, const char *at, const char *what)
{
    (void)parse_fail(ps, at, what);
    return GROUP_FAILED;
}

/* Behind its (: up to where its content begins. */
static enum group_kind parse_group_head(struct parser *ps, const char *at, char **ret_name)
{
    unsigned flags = 0;

    if (!parse_take(ps, '?'))
        return GROUP_KEPT;
    if (parse_take(ps, '=') || parse_take(ps, '!'))
        return not_supported(ps, at, "look-around is not supported");
    if (parse_take(ps, 'P') && !parse_ended(ps) && *ps->p != '<')
        return not_supported(
            ps, at, *ps->p == '=' ? "back-references are not supported" : "there is no such group");
    if (parse_take(ps, '<')) {
        if (ps->p[-2] == '?' && !parse_ended(ps) && (*ps->p == '=' || *ps->p == '!'))
            return not_supported(ps, at, "look-around is not supported");
        return parse_name(ps, ret_name) < 0 ? GROUP_FAILED : GROUP_KEPT;
    }
    if (parse_flags(ps, &flags) < 0)
        return GROUP_FAILED;
    ps->flags = flags;
    return *ps->p++ == ':' ? GROUP_PLAIN : GROUP_FLAGS;
}

/* Takes the name. */
static uint32_t new_group(struct parser *ps, const char *name)
{
    struct regex *re = ps->re;

    if (room_take(&re->room, sizeof(char *) + (name ? strlen(name) : 0) + 32) < 0) {
        (void)regex_too_large(ps->err);
        return 0;
    }
    re->names = strv_add(re->names, name ? name : "");
    return ++re->groups;
}

/* Behind its (. -1, or 0 with no node when it only sets flags. */
static int parse_group(struct parser *ps, const char *at, uint32_t *ret)
{
    auto_free char *name = NULL;
    unsigned flags = ps->flags;
    enum group_kind kind = parse_group_head(ps, at, &name);
    uint32_t group = 0;

    if (kind == GROUP_FAILED)
        return -1;
    if (kind == GROUP_FLAGS) {
        *ret = 0;
        return 0;
    }
    if (kind == GROUP_KEPT && (group = new_group(ps, name)) == 0)
        return -1;
    if (parse_nest(ps, at) < 0)
        return -1;
    *ret = parse_alternatives(ps);
    if (*ret && !parse_take(ps, ')'))
        return parse_fail(ps, at, "the group has no end");
    ps->nested--;
    ps->flags = flags;
    if (*ret && group)
        *ret = new_kept(ps, at, *ret, group);
    return *ret ? 0 : -1;
}

/* As parse_group(). */
static int parse_atom(struct parser *ps, uint32_t *ret)
{
    const char *at = ps->p;
    uint32_t c = parse_char(ps);
    bool lines = ps->flags & PARSE_LINES;

    switch (c) {
    case '(':
        return parse_group(ps, at, ret);
    case '[':
        *ret = parse_brackets(ps, at);
        break;
    case '\\':
        *ret = parse_escaped(ps, at);
        break;
    case '.':
        *ret = new_leaf(ps, NODE_ANY, (ps->flags & PARSE_ANY_LINE) != 0);
        break;
    case '^':
        *ret = new_leaf(ps, NODE_LOOK, lines ? LOOK_LINE_START : LOOK_START);
        break;
    case '$':
        *ret = new_leaf(ps, NODE_LOOK, lines ? LOOK_LINE_END : LOOK_END);
        break;
    default:
        *ret = new_char(ps, c);
    }
    return *ret ? 0 : -1;
}

/* ---- repetitions and sequences ---- */

static void skip_blanks(struct parser *ps)
{
    while (!parse_ended(ps) && (*ps->p == ' ' || *ps->p == '\t'))
        ps->p++;
}

static int parse_number(struct parser *ps, uint32_t *ret)
{
    const char *at;
    uint32_t value = 0;

    skip_blanks(ps);
    for (at = ps->p; !parse_ended(ps) && *ps->p >= '0' && *ps->p <= '9'; ps->p++)
        if (ps->p - at < COUNT_DIGITS)
            value = value * 10 + (uint32_t)(*ps->p - '0');
    if (ps->p == at || ps->p - at > COUNT_DIGITS)
        return parse_fail(ps, at, "a number of repetitions is meant, of at most 9 digits");
    skip_blanks(ps);
    *ret = value;
    return 0;
}

static uint32_t new_repeated(struct parser *ps, const char *at, uint32_t child, uint32_t min,
                             uint32_t max)
{
    bool lazy = parse_take(ps, '?') != ((ps->flags & PARSE_SWAP) != 0);

    return new_repeat(ps, at, child,
                      (struct node){.kind = NODE_REPEAT, .min = min, .max = max, .lazy = lazy});
}

/* Behind the {. */
static uint32_t parse_counts(struct parser *ps, const char *at, uint32_t child)
{
    uint32_t min = 0, max;
    bool least;

    skip_blanks(ps);
    least = parse_ended(ps) || *ps->p != ',';
    if (least && parse_number(ps, &min) < 0)
        return 0;
    max = min;
    if (parse_take(ps, ',')) {
        max = REPEAT_ENDLESS;
        skip_blanks(ps);
        if ((!least || parse_ended(ps) || *ps->p != '}') && parse_number(ps, &max) < 0)
            return 0;
    }
    if (!parse_take(ps, '}')) {
        (void)parse_fail(ps, at, "the number of repetitions has no end");
        return 0;
    }
    if (max < min) {
        (void)parse_fail(ps, at, "the second number is less than the first");
        return 0;
    }
    return new_repeated(ps, at, child, min, max);
}

static bool at_repetition(const struct parser *ps)
{
    return !parse_ended(ps) && strchr("*+?{", *ps->p);
}

static uint32_t parse_repetitions(struct parser *ps, uint32_t id)
{
    for (;;) {
        const char *at;

        parse_skip_space(ps);
        if (!id || !at_repetition(ps))
            return id;
        at = ps->p++;
        switch (*at) {
        case '*':
            id = new_repeated(ps, at, id, 0, REPEAT_ENDLESS);
            break;
        case '+':
            id = new_repeated(ps, at, id, 1, REPEAT_ENDLESS);
            break;
        case '?':
            id = new_repeated(ps, at, id, 0, 1);
            break;
        default:
            id = parse_counts(ps, at, id);
        }
    }
}

static uint32_t parse_sequence(struct parser *ps)
{
    const char *at = ps->p;
    struct node_list l = {0};

    for (;;) {
        uint32_t id;

        parse_skip_space(ps);
        if (parse_ended(ps) || *ps->p == '|' || *ps->p == ')')
            return list_node(ps, at, &l, NODE_CAT);
        if (at_repetition(ps)) {
            (void)parse_fail(ps, ps->p, "there is nothing to repeat");
            return 0;
        }
        if (parse_atom(ps, &id) < 0)
            return 0;
        if (id == 0)
            continue; /* flags */
        id = parse_repetitions(ps, id);
        if (id == 0)
            return 0;
        if (ps->nodes[id].size > 0) /* rule 3 of regex_tree.c */
            list_add(ps, &l, id);
        if (l.size > REGEX_INSTS_MAX) {
            (void)parse_fail(ps, at, "this, with its repetitions, is too large");
            return 0;
        }
    }
}

static uint32_t parse_alternatives(struct parser *ps)
{
    const char *at = ps->p;
    struct node_list l = {0};

    do {
        uint32_t id = parse_sequence(ps);

        if (id == 0)
            return 0;
        list_add(ps, &l, id);
    } while (parse_take(ps, '|'));
    return list_node(ps, at, &l, NODE_ALT);
}

static uint32_t parse_literal(struct parser *ps)
{
    struct node_list l = {0};

    while (!parse_ended(ps)) {
        uint32_t id = new_char(ps, parse_char(ps));

        if (id == 0)
            return 0;
        list_add(ps, &l, id);
    }
    return list_node(ps, ps->pattern, &l, NODE_CAT);
}

static int check_text(struct parser *ps)
{
    size_t len = (size_t)(ps->end - ps->pattern);

    if (len > REGEX_PATTERN_MAX)
        return err_code(ps->err, ERR_INVALID, "bad_regex",
                        "the pattern is too long: at most %u bytes", REGEX_PATTERN_MAX);
    if (!utf8_valid(ps->pattern, len))
        return err_code(ps->err, ERR_INVALID, "bad_regex", "the pattern is not UTF-8");
    return 0;
}

int regex_parse(struct regex *re, const char *pattern, struct node **ret_nodes, uint32_t *ret_top,
                struct err *err)
{
    struct parser ps = {.re = re,
                        .pattern = pattern,
                        .p = pattern,
                        .end = pattern + strlen(pattern),
                        .flags = re->flags & REGEX_IGNORE_CASE ? PARSE_IGNORE_CASE : 0,
                        .err = err};
    uint32_t top = 0;

    if (check_text(&ps) == 0)
        top = re->flags & REGEX_LITERAL ? parse_literal(&ps) : parse_alternatives(&ps);
    if (top && !parse_ended(&ps)) {
        (void)parse_fail(&ps, ps.p, "no group is open that ends here");
        top = 0;
    }
    *ret_nodes = ps.nodes;
    *ret_top = top;
    return top ? 0 : -1;
}
