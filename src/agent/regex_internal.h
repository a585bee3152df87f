#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/regex.h"

/* A pattern becomes a tree (regex_parse.c), the tree a program (regex_compile.c), which is followed
 * along all its ways at once (regex_match.c). */

#define CHAR_LAST 0x10ffffu
#define CHAR_NONE UINT32_MAX /* what is before the first character and behind the last */

/* ---- regex_tables.c */

struct range {
    uint32_t first, last;
};

/* Each step-th of first…last is the same as the character delta further on, but for case. */
struct fold {
    uint32_t first, last;
    int32_t delta;
    uint32_t step;
};

extern const struct range unicode_word[], unicode_digit[];
extern const struct fold unicode_fold[];
extern const size_t n_unicode_word, n_unicode_digit, n_unicode_fold;

/* ---- regex_set.c: sets of characters */

/* How much memory there is for a pattern, and how much of it is taken. */
struct regex_room {
    size_t taken, most;
};

/* 0, or -1 when there is not as much. */
int room_take(struct regex_room *room, size_t bytes);

/* In order and apart from each other, once set_tidy() was called. */
struct set {
    struct range *ranges;
    size_t n, cap;
    struct regex_room *room;
};

/* Each but the last: 0, or -1 when there is no room. */
int set_add(struct set *s, uint32_t first, uint32_t last);
int set_add_all(struct set *s, const struct range *ranges, size_t n);
int set_add_others(struct set *s, const struct range *ranges, size_t n); /* all but these */
int set_fold(struct set *s); /* adds what differs in case only */
int set_negate(struct set *s);
int set_keep(struct set *s, const struct set *other);   /* what both have */
int set_remove(struct set *s, const struct set *other); /* what other has */
int set_toggle(struct set *s, const struct set *other); /* what one of the two has */
void set_tidy(struct set *s);
void set_fit(struct set *s); /* gives back what it does not need */
void set_done(struct set *s);
#define auto_set __attribute__((cleanup(set_done)))

bool ranges_have(const struct range *ranges, size_t n, uint32_t c);
bool is_word(uint32_t c);

enum perl_class { PERL_DIGIT, PERL_SPACE, PERL_WORD, PERL_CLASSES };
const struct range *perl_ranges(enum perl_class which, size_t *ret_n);
/* NULL when there is no such [:name:]. */
const struct range *posix_ranges(const char *name, size_t len, size_t *ret_n);

/* ---- the tree */

enum node_kind {
    NODE_EMPTY,
    NODE_CHAR,  /* value */
    NODE_CLASS, /* value: which of them */
    NODE_ANY,   /* value: also a newline */
    NODE_LOOK,  /* value: enum look */
    NODE_GROUP, /* value: which */
    NODE_REPEAT,
    NODE_CAT,
    NODE_ALT,
};

enum look {
    LOOK_START,
    LOOK_END,
    LOOK_LINE_START,
    LOOK_LINE_END,
    LOOK_WORD,
    LOOK_NOT_WORD,
    LOOK_WORD_START,
    LOOK_WORD_END,
    LOOK_WORD_START_HALF, /* what is before is none of a word */
    LOOK_WORD_END_HALF,   /* what is behind */
};

#define REPEAT_ENDLESS UINT32_MAX

struct node {
    uint8_t kind;
    bool lazy;        /* of a repetition */
    bool may_be_none; /* it can match nothing at all */
    uint16_t depth;
    uint32_t value, min, max;
    uint32_t child, next; /* 0 = none */
    uint32_t size;        /* instructions: exact, or more than REGEX_INSTS_MAX */
};

/* ---- the program */

enum op {
    OP_CHAR,
    OP_CLASS,
    OP_ANY,
    OP_ANY_IN_LINE,
    OP_SPLIT,
    OP_JUMP,
    OP_SAVE,
    OP_LOOK,
    OP_MATCH
};

struct inst {
    uint32_t op;
    uint32_t x, y; /* the character, class or slot; where to go on, x rather than y */
};

struct class
{
    const struct range *ranges;
    struct range *own; /* the same, unless they are those of a table */
    size_t n;
    uint64_t ascii[2];
};

/* A way through the program that is being followed: where it goes on behind the last character. */
struct ways {
    uint32_t *at;
    uint32_t *slots; /* of each */
    uint32_t n;
};

/* What is still to be looked at behind one character: an instruction, or a slot to put back. */
struct later {
    uint32_t at;
    uint32_t slot, old; /* slot: CHAR_NONE = it is an instruction */
};

struct regex {
    struct regex_room room;
    unsigned flags;

    struct inst *insts;
    uint32_t n_insts;
    struct class *classes;
    size_t n_classes, cap_classes;
    uint32_t groups;
    char **names; /* of each group but the whole; "" = none */

    /* What a match can begin with, as bytes; not known if it can be empty. */
    bool begins[256], begins_known;
    int begins_only; /* the only one, or -1 */
    bool at_start;   /* only at the start of the text */

    bool (*goes_on)(void *arg);
    void *arg;
    uint64_t steps, ask_at;

    /* The match that is looked for. */
    struct ways now, then;
    struct later *later;
    uint32_t *seen; /* of each instruction: the last round in which it was looked at */
    uint32_t round;
    uint32_t before;   /* the character before */
    bool found, ended; /* ended: by who watches */
    bool no_more;      /* no match can begin any more */
    uint32_t *slots;   /* of the match */
    uint32_t *fresh;   /* of the way that is being looked at */
    char part[4];      /* of a character that has not come as a whole */
    size_t n_part;
    bool bad; /* it is not UTF-8 */
};

/* ---- regex_parse.c */

enum parse_flags {
    PARSE_IGNORE_CASE = 1u << 0,
    PARSE_LINES = 1u << 1,    /* ^ and $ are of lines */
    PARSE_ANY_LINE = 1u << 2, /* . is a newline, too */
    PARSE_SWAP = 1u << 3,     /* lazy unless there is a ? */
    PARSE_SPACED = 1u << 4,   /* white space and comments say nothing */
};

struct parser {
    struct regex *re;
    const char *pattern, *p, *end;
    unsigned flags;  /* enum parse_flags, as they are here */
    unsigned nested; /* groups and classes that are open */
    struct node *nodes;
    uint32_t n_nodes, cap_nodes;
    uint32_t perl[PERL_CLASSES][2]; /* classes that there are already, and one more; negated */
    struct err *err;
};

#define NESTED_MAX 250

/* Says what is wrong with the pattern at this place: -1. */
int parse_fail(struct parser *ps, const char *at, const char *what);
static inline bool parse_ended(const struct parser *ps)
{
    return ps->p == ps->end;
}
/* The next character is this one, and is passed over. */
bool parse_take(struct parser *ps, char c);
uint32_t parse_char(struct parser *ps);   /* there is one */
void parse_skip_space(struct parser *ps); /* where it says nothing */
int parse_nest(struct parser *ps, const char *at);

/* ---- regex_tree.c: each makes a node and returns its number; 0 = err says why not */

/* Several nodes, one after the other or one instead of the other. */
struct node_list {
    uint32_t first, last, n;
    uint64_t size;
    uint16_t depth;
    bool all_none, any_none;
};

void list_add(struct parser *ps, struct node_list *l, uint32_t id);
/* kind: NODE_CAT or NODE_ALT. at: where the pattern says so. */
uint32_t list_node(struct parser *ps, const char *at, const struct node_list *l,
                   enum node_kind kind);
uint32_t new_leaf(struct parser *ps, enum node_kind kind, uint32_t value);
/* how: a NODE_REPEAT with how often and how lazily. */
uint32_t new_repeat(struct parser *ps, const char *at, uint32_t child, struct node how);
/* A group whose place is kept, if any is. */
uint32_t new_kept(struct parser *ps, const char *at, uint32_t child, uint32_t group);

struct escape;

uint32_t new_class(struct parser *ps, struct set *s); /* empties it */
uint32_t new_char(struct parser *ps, uint32_t c);
uint32_t new_perl(struct parser *ps, const struct escape *e);

/* ---- regex_class.c */

struct escape {
    bool is_class; /* of Perl */
    bool is_look;
    bool negated;
    enum perl_class perl;
    uint32_t value; /* a character, or enum look */
};

/* Behind a backslash at `at`. */
int parse_escape(struct parser *ps, const char *at, bool in_class, struct escape *ret);
/* Behind its [: all characters of a class. */
int parse_class(struct parser *ps, const char *at, struct set *ret);

/* Each fills in a part of re: 0, or -1 with err. */
int regex_parse(struct regex *re, const char *pattern, struct node **ret_nodes, uint32_t *ret_top,
                struct err *err);
int regex_build(struct regex *re, const struct node *nodes, uint32_t top, struct err *err);

int regex_too_large(struct err *err);

/* The character at s, of a text that is UTF-8, and how long it is. */
static inline uint32_t char_at(const char *s, size_t *ret_len)
{
    const unsigned char *u = (const unsigned char *)s;

    if (u[0] < 0x80) {
        *ret_len = 1;
        return u[0];
    }
    if (u[0] < 0xe0) {
        *ret_len = 2;
        return (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu);
    }
    if (u[0] < 0xf0) {
        *ret_len = 3;
        return (u[0] & 0xfu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
    }
    *ret_len = 4;
    return (u[0] & 7u) << 18 | (u[1] & 0x3fu) << 12 | (u[2] & 0x3fu) << 6 | (u[3] & 0x3fu);
}
