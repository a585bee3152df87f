#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct regex;

/* Regular expressions for patterns and texts that strangers wrote: whatever these are, the time is
 * the product of their lengths and no memory is taken while matching.
 *
 * The dialect is that of Rust's regex crate, leftmost-first as in Perl: . | () (?:) (?P<n>) (?<n>)
 * (?ismUx-ismUx) (?i:) * + ? {n} {n,} {n,m} and their lazy forms, ^ $ \A \z \b \B \< \> and
 * \b{start} and the like, classes with ranges, negation, [:alpha:], nested ones and && -- ~~, \d \w
 * \s and their opposites by Unicode, \n \t \xHH \x{H} \uHHHH \UHHHHHHHH. Case is ignored by simple
 * folding. Not supported, and refused: \p, (?-u), (?R), look-around, back-references. */

enum regex_flags {
    REGEX_IGNORE_CASE = 1u << 0,
    REGEX_LITERAL = 1u << 1,   /* the pattern is a text that stands for itself */
    REGEX_NO_GROUPS = 1u << 2, /* only for regex_begin(): costs less */
};

#define REGEX_PATTERN_MAX (32u << 10)
#define REGEX_INSTS_MAX   (64u << 10) /* what a pattern is compiled to */
#define REGEX_MEMORY_MAX  (8u << 20)

/* ERR_INVALID "bad_regex" says what is wrong with the pattern, and where. ERR_TOO_LARGE
 * "bad_regex": it needs more than memory bytes, on the way or afterwards. */
int regex_compile(const char *pattern, unsigned flags, size_t memory, struct regex **ret,
                  struct err *err);
void regex_free(struct regex *re);

static inline void cleanup_regexp(struct regex **re)
{
    regex_free(*re);
}
#define auto_regex __attribute__((cleanup(cleanup_regexp)))

/* Asked again and again while it works; false ends that. */
void regex_watch(struct regex *re, bool (*goes_on)(void *arg), void *arg);
/* How much it has done until now: instructions that were looked at. */
uint64_t regex_steps(const struct regex *re);

/* With the whole as the first. */
size_t regex_groups(const struct regex *re);
/* -1 when none has this name. */
int regex_group(const struct regex *re, const char *name, size_t len);

#define REGEX_TEXT_MAX (1u << 30)
#define REGEX_UNSET    UINT32_MAX

/* Finds the first match at or behind from in a text that is UTF-8, of at most REGEX_TEXT_MAX bytes:
 * 1 with start and end of each group in slots (2 * regex_groups(), REGEX_UNSET of one that took no
 * part), 0 when there is none, -1 when it was ended. */
int regex_find(struct regex *re, const char *text, size_t len, size_t from, uint32_t *slots);

/* Is there a match in a text of any length that comes in pieces? */
enum regex_verdict { REGEX_NO, REGEX_YES, REGEX_NOT_TEXT /* it is not UTF-8 */, REGEX_ENDED };
void regex_begin(struct regex *re);
void regex_feed(struct regex *re, const char *data, size_t len);
enum regex_verdict regex_end(struct regex *re);
