#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/walk.h"
#include "base/buf.h"

struct err;
struct regex;

/* What grep and sed have in common: a pattern, and the files that it is looked for in. */

/* Who has this many bytes before the first NUL is taken for text. */
#define TEXT_LOOK_BYTES (8u << 10)
bool is_binary(const char *data, size_t len); /* the beginning of a file */

struct text_search {
    struct walk walk; /* first: it is what walk_tree() hands back */
    struct regex *re;
    const char *root; /* that globs are relative to */
    char **include, **exclude;
    struct buf alive; /* the item that says that it goes on */
    int64_t told_ns;  /* when the caller heard of us last */
    bool gone;        /* there is no caller any more */
};

/* Frees the pattern. */
void text_search_done(struct text_search *t);

/* flags of regex_compile(). Takes a turn (heavy.c) for one that needs much memory. */
int text_search_compile(struct text_search *t, const char *pattern, unsigned flags,
                        struct err *err);
int text_search_check_globs(const struct text_search *t, struct err *err);

/* To be asked often, as regex_watch() does: false when nobody waits any more. A caller that does is
 * told now and then that we have not died. */
bool text_search_goes_on(void *text_search);

/* By its path, is it one of the files? */
bool text_search_takes(const struct text_search *t, const char *path);
/* For the walk: are all files below a directory left out? */
bool text_search_skips(struct walk *w, const char *path);

/* Is root a directory, and may it be one? 1 or 0, or -1. */
int text_search_look(const struct text_search *t, bool recursive, struct err *err);
