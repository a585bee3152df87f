#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
uint32_t str_hash(const char *s); /* FNV-1a, which whoever chooses s can make collide */

/* "." or "..", which every directory has. */
bool str_is_dot(const char *name);

/* Puts n strings in the order of their bytes. */
void strings_sort(char **v, size_t n);

/* Whole string, base 10 (or 8 for the octal one), no sign, no space: 0 or -EINVAL / -ERANGE. */
int str_u64(const char *s, uint64_t *ret);
int str_octal(const char *s, uint32_t *ret);

/* Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. NUL bytes are valid. */
bool utf8_valid(const char *s, size_t len);

/* Appends text with each bad sequence replaced by U+FFFD: 0 or -EMSGSIZE. */
int utf8_clean(struct buf *out, const char *s, size_t len);

/* The largest n <= len at which text can be cut without splitting a character; bytes that cannot
 * start or continue a character count as characters of their own. */
size_t utf8_cut(const char *s, size_t len);

/* The same for text that goes into a JSON string, as utf8_clean() makes it and with control
 * characters escaped: how much of it takes at most max bytes there, and how many it takes. */
size_t utf8_cut_json(const char *s, size_t len, size_t max, size_t *ret_size);

/* Standard base64 with padding. Decoding refuses white space, missing padding and stray bits:
 * 0, -EINVAL, or -EMSGSIZE when out is full. */
int base64_encode(struct buf *out, const void *data, size_t len);
int base64_decode(struct buf *out, const char *text, size_t len);

/* How many single-character edits make a out of b, for "did you mean"; of strings of more than
 * STR_DISTANCE_BYTES_MAX bytes only that they are far apart. */
#define STR_DISTANCE_BYTES_MAX 63
size_t str_distance(const char *a, const char *b);

/* Equal strings? Takes the same time whatever they hold; only the length of b shows. */
bool str_equal_secret(const char *a, const char *b);

/* A shell glob, as in lists of images and in searches: '*' matches anything, '?' one character,
 * "[a-z]" one of these; a backslash is no more than itself. */
bool str_glob(const char *pattern, const char *s);

/* A glob that callers may search files with: 1 to GLOB_BYTES_MAX bytes without ; | $ ` and
 * backslash. */
#define GLOB_BYTES_MAX 200
bool glob_valid(const char *pattern);
