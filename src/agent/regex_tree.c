#include <string.h>

#include "agent/regex_internal.h"
#include "base/mem.h"

/* Rules that keep a pattern from costing more than it is worth:
 *  1. Recursion is as deep as groups and classes are nested (NESTED_MAX), and later as the tree is
 *     deep (DEPTH_MAX).
 *  2. Every node knows how many instructions it becomes, so that (a{1000}){1000} is refused before
 *     any of them is written.
 *  3. What becomes no instructions is left out of a sequence, so that repeating it costs nothing.
 */

#define DEPTH_MAX 1000

static uint32_t new_node(struct parser *ps, struct node node)
{
    if (ps->n_nodes == ps->cap_nodes) {
        uint32_t cap = ps->cap_nodes ? 2 * ps->cap_nodes : 64;

        if (room_take(&ps->re->room, (cap - ps->cap_nodes) * sizeof(node)) < 0) {
            (void)regex_too_large(ps->err);
            return 0;
        }
        ps->nodes = xrealloc(ps->nodes, cap * sizeof(node));
        ps->cap_nodes = cap;
        if (ps->n_nodes == 0)
            ps->nodes[ps->n_nodes++] = (struct node){0}; /* the number 0 is nobody's */
    }
    ps->nodes[ps->n_nodes] = node;
    return ps->n_nodes++;
}

uint32_t new_leaf(struct parser *ps, enum node_kind kind, uint32_t value)
{
    bool none = kind == NODE_EMPTY || kind == NODE_LOOK;

    return new_node(ps, (struct node){.kind = (uint8_t)kind,
                                      .value = value,
                                      .may_be_none = none,
                                      .depth = 1,
                                      .size = kind != NODE_EMPTY});
}

static uint32_t bounded(uint64_t size)
{
    return size > REGEX_INSTS_MAX ? REGEX_INSTS_MAX + 1 : (uint32_t)size;
}

static int check_node(struct parser *ps, const char *at, const struct node *n)
{
    if (n->depth > DEPTH_MAX)
        return parse_fail(ps, at, "it is nested too deeply");
    if (n->size > REGEX_INSTS_MAX)
        return parse_fail(ps, at, "this, with its repetitions, is too large");
    return 0;
}

void list_add(struct parser *ps, struct node_list *l, uint32_t id)
{
    const struct node *n = &ps->nodes[id];

    if (l->n++ == 0) {
        l->first = id;
        l->all_none = true;
    } else {
        ps->nodes[l->last].next = id;
    }
    l->last = id;
    l->size += n->size;
    l->depth = n->depth > l->depth ? n->depth : l->depth;
    l->all_none &= n->may_be_none;
    l->any_none |= n->may_be_none;
}

uint32_t list_node(struct parser *ps, const char *at, const struct node_list *l,
                   enum node_kind kind)
{
    struct node n = {.kind = (uint8_t)kind, .child = l->first, .depth = (uint16_t)(l->depth + 1)};

    if (l->n == 0)
        return new_leaf(ps, NODE_EMPTY, 0);
    if (l->n == 1)
        return l->first;
    /* Each alternative but the last has a split before it and a jump behind it. */
    n.size = bounded(l->size + (kind == NODE_ALT ? 2ull * (l->n - 1) : 0));
    n.may_be_none = kind == NODE_ALT ? l->any_none : l->all_none;
    return check_node(ps, at, &n) < 0 ? 0 : new_node(ps, n);
}

static uint64_t repeat_size(uint64_t child, uint64_t min, uint64_t max)
{
    if (child == 0)
        return 0;
    if (max == REPEAT_ENDLESS)
        return min == 0 ? child + 2 : min * child + 1;
    return min * child + (max - min) * (child + 1);
}

uint32_t new_repeat(struct parser *ps, const char *at, uint32_t child, struct node how)
{
    const struct node *c = &ps->nodes[child];

    how.child = child;
    how.size = bounded(repeat_size(c->size, how.min, how.max));
    how.may_be_none = how.min == 0 || c->may_be_none;
    how.depth = (uint16_t)(c->depth + 1);
    return check_node(ps, at, &how) < 0 ? 0 : new_node(ps, how);
}

uint32_t new_class(struct parser *ps, struct set *s)
{
    struct regex *re = ps->re;
    struct class *c;

    if (s->n == 1 && s->ranges[0].first == s->ranges[0].last)
        return new_leaf(ps, NODE_CHAR, s->ranges[0].first);
    if (re->n_classes == re->cap_classes) {
        size_t cap = re->cap_classes ? 2 * re->cap_classes : 4;

        if (room_take(&re->room, (cap - re->cap_classes) * sizeof(*c)) < 0) {
            (void)regex_too_large(ps->err);
            return 0;
        }
        re->classes = xrealloc(re->classes, cap * sizeof(*c));
        re->cap_classes = cap;
    }
    c = &re->classes[re->n_classes++];
    set_fit(s);
    *c = (struct class){.ranges = s->ranges, .own = s->ranges, .n = s->n};
    *s = (struct set){.room = s->room}; /* what it holds stays taken */
    for (uint32_t i = 0; i < 128; i++)
        if (ranges_have(c->ranges, c->n, i))
            c->ascii[i / 64] |= 1ull << (i % 64);
    return new_leaf(ps, NODE_CLASS, (uint32_t)re->n_classes - 1);
}

uint32_t new_char(struct parser *ps, uint32_t c)
{
    auto_set struct set s = {.room = &ps->re->room};

    if (!(ps->flags & PARSE_IGNORE_CASE))
        return new_leaf(ps, NODE_CHAR, c);
    if (set_add(&s, c, c) < 0 || set_fold(&s) < 0) {
        (void)regex_too_large(ps->err);
        return 0;
    }
    return new_class(ps, &s);
}

/* They are the same wherever they stand, so one of each is enough. */
uint32_t new_perl(struct parser *ps, const struct escape *e)
{
    auto_set struct set s = {.room = &ps->re->room};
    uint32_t *known = &ps->perl[e->perl][e->negated], id;
    size_t n;
    const struct range *ranges = perl_ranges(e->perl, &n);

    if (*known)
        return new_leaf(ps, NODE_CLASS, *known - 1);
    if ((e->negated ? set_add_others(&s, ranges, n) : set_add_all(&s, ranges, n)) < 0) {
        (void)regex_too_large(ps->err);
        return 0;
    }
    id = new_class(ps, &s);
    if (id)
        *known = ps->nodes[id].value + 1;
    return id;
}

uint32_t new_kept(struct parser *ps, const char *at, uint32_t child, uint32_t group)
{
    struct node n = {.kind = NODE_GROUP, .child = child, .value = group};

    if (ps->re->flags & REGEX_NO_GROUPS)
        return child;
    n.size = bounded(ps->nodes[child].size + 2ull);
    n.may_be_none = ps->nodes[child].may_be_none;
    n.depth = (uint16_t)(ps->nodes[child].depth + 1);
    return check_node(ps, at, &n) < 0 ? 0 : new_node(ps, n);
}
