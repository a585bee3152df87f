#include <stdlib.h>
#include <string.h>

#include "agent/regex_internal.h"
#include "base/mem.h"

int room_take(struct regex_room *room, size_t bytes)
{
    if (bytes > room->most - room->taken)
        return -1;
    room->taken += bytes;
    return 0;
}

/* ---- sets ---- */

#define SET_FIRST 16

static int set_grow(struct set *s, size_t want)
{
    size_t cap = s->cap ? s->cap : SET_FIRST;

    while (cap < want)
        cap *= 2;
    if (cap == s->cap)
        return 0;
    if (room_take(s->room, (cap - s->cap) * sizeof(*s->ranges)) < 0)
        return -1;
    s->ranges = xrealloc(s->ranges, cap * sizeof(*s->ranges));
    s->cap = cap;
    return 0;
}

void set_done(struct set *s)
{
    if (s->room)
        s->room->taken -= s->cap * sizeof(*s->ranges);
    free(s->ranges);
    *s = (struct set){.room = s->room};
}

void set_fit(struct set *s)
{
    size_t cap = s->n > 0 ? s->n : 1;

    if (cap >= s->cap)
        return;
    s->room->taken -= (s->cap - cap) * sizeof(*s->ranges);
    s->ranges = xrealloc(s->ranges, cap * sizeof(*s->ranges));
    s->cap = cap;
}

int set_add(struct set *s, uint32_t first, uint32_t last)
{
    if (s->n == s->cap && set_grow(s, s->n + 1) < 0)
        return -1;
    s->ranges[s->n++] = (struct range){first, last};
    return 0;
}

int set_add_all(struct set *s, const struct range *ranges, size_t n)
{
    if (n == 0)
        return 0;
    if (set_grow(s, s->n + n) < 0)
        return -1;
    memcpy(s->ranges + s->n, ranges, n * sizeof(*ranges));
    s->n += n;
    return 0;
}

static int by_first(const void *a, const void *b)
{
    uint32_t x = ((const struct range *)a)->first, y = ((const struct range *)b)->first;

    return x < y ? -1 : x > y;
}

void set_tidy(struct set *s)
{
    size_t n = 0;

    if (s->n > 1)
        qsort(s->ranges, s->n, sizeof(*s->ranges), by_first);
    for (size_t i = 0; i < s->n; i++) {
        struct range r = s->ranges[i];

        if (n > 0 && r.first <= s->ranges[n - 1].last + 1) {
            if (r.last > s->ranges[n - 1].last)
                s->ranges[n - 1].last = r.last;
        } else {
            s->ranges[n++] = r;
        }
    }
    s->n = n;
}

int set_add_others(struct set *s, const struct range *ranges, size_t n)
{
    uint32_t next = 0;

    for (size_t i = 0; i < n; i++) {
        if (ranges[i].first > next && set_add(s, next, ranges[i].first - 1) < 0)
            return -1;
        next = ranges[i].last + 1;
    }
    return next <= CHAR_LAST ? set_add(s, next, CHAR_LAST) : 0;
}

/* Takes what another holds. */
static void set_become(struct set *s, struct set *other)
{
    set_done(s);
    *s = *other;
    *other = (struct set){.room = s->room};
}

int set_negate(struct set *s)
{
    auto_set struct set others = {.room = s->room};

    set_tidy(s);
    if (set_add_others(&others, s->ranges, s->n) < 0)
        return -1;
    set_become(s, &others);
    return 0;
}

static int add_shared(struct set *both, struct range a, struct range b)
{
    uint32_t first = a.first > b.first ? a.first : b.first;
    uint32_t last = a.last < b.last ? a.last : b.last;

    return first <= last ? set_add(both, first, last) : 0;
}

/* Both are tidy. */
static int set_keep_tidy(struct set *s, const struct set *other)
{
    auto_set struct set both = {.room = s->room};
    size_t i = 0, j = 0;

    while (i < s->n && j < other->n) {
        if (add_shared(&both, s->ranges[i], other->ranges[j]) < 0)
            return -1;
        if (s->ranges[i].last < other->ranges[j].last)
            i++;
        else
            j++;
    }
    set_become(s, &both);
    return 0;
}

static int set_copy(struct set *s, const struct set *other)
{
    s->room = other->room;
    if (set_add_all(s, other->ranges, other->n) < 0)
        return -1;
    set_tidy(s);
    return 0;
}

int set_keep(struct set *s, const struct set *other)
{
    auto_set struct set copy = {0};

    set_tidy(s);
    return set_copy(&copy, other) < 0 ? -1 : set_keep_tidy(s, &copy);
}

int set_remove(struct set *s, const struct set *other)
{
    auto_set struct set copy = {0};

    set_tidy(s);
    return set_copy(&copy, other) < 0 || set_negate(&copy) < 0 ? -1 : set_keep_tidy(s, &copy);
}

int set_toggle(struct set *s, const struct set *other)
{
    auto_set struct set both = {0};

    if (set_copy(&both, s) < 0 || set_keep(&both, other) < 0 ||
        set_add_all(s, other->ranges, other->n) < 0)
        return -1;
    return set_remove(s, &both);
}

/* The part of r that the fold is about, moved. */
static int add_folded(struct set *s, struct range r, const struct fold *f)
{
    uint32_t first = r.first > f->first ? r.first : f->first;
    uint32_t last = r.last < f->last ? r.last : f->last;

    first += (first - f->first) % f->step;
    if (f->step == 1)
        return first <= last ? set_add(s, first + (uint32_t)f->delta, last + (uint32_t)f->delta)
                             : 0;
    for (; first <= last; first += f->step)
        if (set_add(s, first + (uint32_t)f->delta, first + (uint32_t)f->delta) < 0)
            return -1;
    return 0;
}

/* The table has every pair of characters in both directions, so that once is enough. */
int set_fold(struct set *s)
{
    size_t n, next = 0;

    set_tidy(s);
    n = s->n;
    for (size_t f = 0; f < n_unicode_fold; f++) {
        const struct fold *fold = &unicode_fold[f];

        while (next < n && s->ranges[next].last < fold->first)
            next++;
        for (size_t i = next; i < n && s->ranges[i].first <= fold->last; i++)
            if (add_folded(s, s->ranges[i], fold) < 0)
                return -1;
    }
    set_tidy(s);
    return 0;
}

/* ---- what is in them ---- */

bool ranges_have(const struct range *ranges, size_t n, uint32_t c)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (c < ranges[mid].first)
            high = mid;
        else if (c > ranges[mid].last)
            low = mid + 1;
        else
            return true;
    }
    return false;
}

bool is_word(uint32_t c)
{
    if (c < 0x80)
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_';
    return c != CHAR_NONE && ranges_have(unicode_word, n_unicode_word, c);
}

static const struct range spaces[] = {
    {0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
};

const struct range *perl_ranges(enum perl_class which, size_t *ret_n)
{
    switch (which) {
    case PERL_DIGIT:
        *ret_n = n_unicode_digit;
        return unicode_digit;
    case PERL_SPACE:
        *ret_n = ARRAY_LEN(spaces);
        return spaces;
    case PERL_WORD:
    case PERL_CLASSES:
    default:
        *ret_n = n_unicode_word;
        return unicode_word;
    }
}

/* They are of ASCII only, as in Rust. */
static const struct {
    const char *name;
    size_t n;
    struct range ranges[4];
} posix[] = {
    {"alnum", 3, {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
    {"alpha", 2, {{'A', 'Z'}, {'a', 'z'}}},
    {"ascii", 1, {{0, 0x7f}}},
    {"blank", 2, {{'\t', '\t'}, {' ', ' '}}},
    {"cntrl", 2, {{0, 0x1f}, {0x7f, 0x7f}}},
    {"digit", 1, {{'0', '9'}}},
    {"graph", 1, {{'!', '~'}}},
    {"lower", 1, {{'a', 'z'}}},
    {"print", 1, {{' ', '~'}}},
    {"punct", 4, {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
    {"space", 2, {{'\t', '\r'}, {' ', ' '}}},
    {"upper", 1, {{'A', 'Z'}}},
    {"word", 4, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {"xdigit", 3, {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
};

const struct range *posix_ranges(const char *name, size_t len, size_t *ret_n)
{
    for (size_t i = 0; i < ARRAY_LEN(posix); i++)
        if (strlen(posix[i].name) == len && memcmp(posix[i].name, name, len) == 0) {
            *ret_n = posix[i].n;
            return posix[i].ranges;
        }
    return NULL;
}
