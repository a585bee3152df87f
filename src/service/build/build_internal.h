#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "service/build/build.h"

/* What the files of a build share. */

/* ---- words.c ---- */

/* Cuts a line into words at white space, outside of quotes; quotes and escapes stay in them. */
int words_split(const char *text, char escape, char ***ret, struct err *err);

/* What a name means, or NULL. */
typedef const char *(*words_lookup)(const char *name, void *arg);

#define WORD_BYTES_MAX (128u << 10)

/* A word as a shell would see it: without its quotes and escapes, and with $name, ${name},
 * ${name:-word}, ${name-word}, ${name:+word} and ${name+word} replaced. Free *ret. */
int words_expand(const char *word, char escape, words_lookup lookup, void *arg, char **ret,
                 struct err *err);
/* The same for a text in which quotes and escapes are no more than themselves; what is escaped is
 * not replaced. */
int words_expand_text(const char *text, char escape, words_lookup lookup, void *arg, char **ret,
                      struct err *err);
