#include <string.h>

#include "agent/regex_internal.h"
#include "base/err.h"
#include "base/mem.h"

/* The size of every node is known, so each instruction is written once, with its targets. */

struct builder {
    struct regex *re;
    const struct node *nodes;
    uint32_t at; /* where the next instruction goes */
};

static void put(struct builder *b, enum op op, uint32_t x, uint32_t y)
{
    b->re->insts[b->at++] = (struct inst){.op = op, .x = x, .y = y};
}

/* Goes on with the first rather than the second, or the other way round. */
static void put_split(struct builder *b, bool lazy, uint32_t first, uint32_t second)
{
    put(b, OP_SPLIT, lazy ? second : first, lazy ? first : second);
}

static void emit(struct builder *b, uint32_t id);

static void emit_all(struct builder *b, const struct node *n)
{
    for (uint32_t id = n->child; id; id = b->nodes[id].next)
        emit(b, id);
}

static void emit_alternatives(struct builder *b, const struct node *n)
{
    uint32_t end = b->at + n->size;

    for (uint32_t id = n->child; id; id = b->nodes[id].next) {
        if (b->nodes[id].next)
            put(b, OP_SPLIT, b->at + 1, b->at + 1 + b->nodes[id].size + 1);
        emit(b, id);
        if (b->nodes[id].next)
            put(b, OP_JUMP, end, 0);
    }
}

/* Any number of times. What can match nothing is (x+)? and not x*: a round that took nothing must
 * be able to be the last one and be preferred to others, as it is when ways are tried in turn. */
static void emit_star(struct builder *b, const struct node *n)
{
    const struct node *child = &b->nodes[n->child];
    uint32_t begin = b->at, end = begin + n->size;

    put_split(b, n->lazy, begin + 1, end);
    emit(b, n->child);
    if (child->may_be_none)
        put_split(b, n->lazy, begin + 1, end);
    else
        put(b, OP_JUMP, begin, 0);
}

static void emit_repeat(struct builder *b, const struct node *n)
{
    uint32_t end = b->at + n->size, last;

    if (n->size == 0)
        return;
    if (n->min == 0 && n->max == REPEAT_ENDLESS) {
        emit_star(b, n);
        return;
    }
    last = b->at;
    for (uint32_t i = 0; i < n->min; i++) {
        last = b->at;
        emit(b, n->child);
    }
    if (n->max == REPEAT_ENDLESS) {
        put_split(b, n->lazy, last, end);
        return;
    }
    for (uint32_t i = n->min; i < n->max; i++) {
        put_split(b, n->lazy, b->at + 1, end);
        emit(b, n->child);
    }
}

static void emit(struct builder *b, uint32_t id)
{
    const struct node *n = &b->nodes[id];

    switch ((enum node_kind)n->kind) {
    case NODE_EMPTY:
        break;
    case NODE_CHAR:
        put(b, OP_CHAR, n->value, 0);
        break;
    case NODE_CLASS:
        put(b, OP_CLASS, n->value, 0);
        break;
    case NODE_ANY:
        put(b, n->value ? OP_ANY : OP_ANY_IN_LINE, 0, 0);
        break;
    case NODE_LOOK:
        put(b, OP_LOOK, n->value, 0);
        break;
    case NODE_GROUP:
        put(b, OP_SAVE, 2 * n->value, 0);
        emit(b, n->child);
        put(b, OP_SAVE, 2 * n->value + 1, 0);
        break;
    case NODE_REPEAT:
        emit_repeat(b, n);
        break;
    case NODE_CAT:
        emit_all(b, n);
        break;
    case NODE_ALT:
        emit_alternatives(b, n);
        break;
    }
}

/* ---- what a match can begin with ---- */

static void begin_with_char(struct regex *re, uint32_t c)
{
    unsigned char lead = (unsigned char)(c < 0x80      ? c
                                         : c < 0x800   ? 0xc0 | c >> 6
                                         : c < 0x10000 ? 0xe0 | c >> 12
                                                       : 0xf0 | c >> 18);

    re->begins[lead] = true;
}

static void begin_with(struct regex *re, const struct inst *in)
{
    switch ((enum op)in->op) {
    case OP_CHAR:
        begin_with_char(re, in->x);
        break;
    case OP_CLASS:
        for (uint32_t i = 0; i < 128; i++)
            if (re->classes[in->x].ascii[i / 64] >> (i % 64) & 1)
                re->begins[i] = true;
        if (re->classes[in->x].n > 0 &&
            re->classes[in->x].ranges[re->classes[in->x].n - 1].last >= 0x80)
            memset(re->begins + 0x80, true, 0x80);
        break;
    case OP_ANY:
    case OP_ANY_IN_LINE:
    case OP_SPLIT:
    case OP_JUMP:
    case OP_SAVE:
    case OP_LOOK:
    case OP_MATCH:
    default:
        memset(re->begins, true, sizeof(re->begins));
    }
}

/* Follows all that takes no character, as if every look were true. */
static void find_begins(struct regex *re)
{
    struct later *todo = re->later;
    uint32_t n = 0;

    re->begins_known = true;
    todo[n++].at = 0;
    re->seen[0] = 1;
    while (n > 0) {
        uint32_t at = todo[--n].at;
        const struct inst *in = &re->insts[at];
        uint32_t ways[2], n_ways = 0;

        if (in->op == OP_MATCH)
            re->begins_known = false;
        else if (in->op == OP_SPLIT || in->op == OP_JUMP)
            ways[n_ways++] = in->x;
        else if (in->op == OP_SAVE || in->op == OP_LOOK)
            ways[n_ways++] = at + 1;
        else
            begin_with(re, in);
        if (in->op == OP_SPLIT)
            ways[n_ways++] = in->y;
        for (uint32_t i = 0; i < n_ways; i++)
            if (!re->seen[ways[i]]) {
                re->seen[ways[i]] = 1;
                todo[n++].at = ways[i];
            }
    }
    memset(re->seen, 0, re->n_insts * sizeof(*re->seen));
}

static void learn_begins(struct regex *re)
{
    const struct inst *in = re->insts;
    int only = -1, n = 0;

    find_begins(re);
    for (int i = 0; i < 256; i++)
        if (re->begins[i]) {
            only = i;
            n++;
        }
    re->begins_only = re->begins_known && n == 1 ? only : -1;
    while (in->op == OP_SAVE)
        in++;
    re->at_start = in->op == OP_LOOK && in->x == LOOK_START;
}

/* ---- the whole ---- */

/* What matching needs, so that it needs no more. */
static int make_room(struct regex *re)
{
    size_t n = re->n_insts, n_slots = 2 * regex_groups(re);
    bool groups = !(re->flags & REGEX_NO_GROUPS);
    size_t each = sizeof(struct inst) + sizeof(struct later) + 3 * sizeof(uint32_t) +
                  (groups ? 2 * n_slots * sizeof(uint32_t) : 0);

    if (room_take(&re->room, n * each + 2 * n_slots * sizeof(uint32_t)) < 0)
        return -1;
    re->insts = xcalloc(n, sizeof(*re->insts));
    re->later = xcalloc(n + 1, sizeof(*re->later));
    re->seen = xcalloc(n, sizeof(*re->seen));
    re->now.at = xcalloc(n, sizeof(*re->now.at));
    re->then.at = xcalloc(n, sizeof(*re->then.at));
    if (groups) {
        re->now.slots = xcalloc(n * n_slots, sizeof(uint32_t));
        re->then.slots = xcalloc(n * n_slots, sizeof(uint32_t));
        re->slots = xcalloc(n_slots, sizeof(uint32_t));
        re->fresh = xcalloc(n_slots, sizeof(uint32_t));
    }
    return 0;
}

int regex_build(struct regex *re, const struct node *nodes, uint32_t top, struct err *err)
{
    struct builder b = {.re = re, .nodes = nodes};
    bool groups = !(re->flags & REGEX_NO_GROUPS);

    re->n_insts = nodes[top].size + 1 + (groups ? 2 : 0);
    if (make_room(re) < 0)
        return regex_too_large(err);
    if (groups)
        put(&b, OP_SAVE, 0, 0);
    emit(&b, top);
    if (groups)
        put(&b, OP_SAVE, 1, 0);
    put(&b, OP_MATCH, 0, 0);
    learn_begins(re);
    return 0;
}

int regex_compile(const char *pattern, unsigned flags, size_t memory, struct regex **ret,
                  struct err *err)
{
    auto_regex struct regex *re = xcalloc(1, sizeof(*re));
    auto_free struct node *nodes = NULL;
    uint32_t top;

    re->flags = flags;
    re->room.most = memory;
    if (room_take(&re->room, sizeof(*re)) < 0)
        return regex_too_large(err);
    if (regex_parse(re, pattern, &nodes, &top, err) < 0 || regex_build(re, nodes, top, err) < 0)
        return -1;
    *ret = steal_ptr(re);
    return 0;
}

void regex_free(struct regex *re)
{
    if (!re)
        return;
    for (size_t i = 0; i < re->n_classes; i++)
        free(re->classes[i].own);
    free(re->classes);
    free(re->insts);
    free(re->later);
    free(re->seen);
    free(re->now.at);
    free(re->now.slots);
    free(re->then.at);
    free(re->then.slots);
    free(re->slots);
    free(re->fresh);
    strv_free(re->names);
    free(re);
}

void regex_watch(struct regex *re, bool (*goes_on)(void *arg), void *arg)
{
    re->goes_on = goes_on;
    re->arg = arg;
}

uint64_t regex_steps(const struct regex *re)
{
    return re->steps;
}

size_t regex_groups(const struct regex *re)
{
    return re->flags & REGEX_NO_GROUPS ? 1 : re->groups + 1;
}

int regex_group(const struct regex *re, const char *name, size_t len)
{
    for (uint32_t i = 0; i < re->groups; i++)
        if (strlen(re->names[i]) == len && len > 0 && memcmp(re->names[i], name, len) == 0)
            return (int)i + 1;
    return -1;
}
