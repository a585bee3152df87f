#pragma once

struct buf;
struct command;
struct flag;

/* Completion is worked out here, from the table of commands and from what the daemon has; the
 * scripts for the shells only ask (`cay completion --line -- WORD...`) and show. */

/* What can stand in the place of the last word of a line. */
struct wanted {
    const char *kind; /* a name of the table in completion.c; "" = nothing is known */
    size_t kind_len;
    const struct command *command; /* NULL before one is known */
    const struct flag *flag;       /* whose value is wanted; NULL = none */
    const char *prefix;            /* what has been typed of it */
    const char *before;            /* what stands before that in the same word: "--pull=" */
    size_t before_len;
    const char *first; /* the word before: a group's name, or a command's first; NULL = none */
};

/* words follow `cay`; the last one is the one to complete and may be empty. n > 0. */
void completion_wanted(struct wanted *ret, int n, char **words);

/* Candidates, a line each: the word, and after a tab what it is. ":file" is a line of its own where
 * names of files fit too, ":nospace" where a word goes on. Asks the daemon for what only it knows,
 * and without one offers the rest. */
void completion_lines(const struct wanted *wanted, const char *host, struct buf *out);

/* packaging/completion: cay.bash, _cay and cay.fish. */
void completion_bash(struct buf *out);
void completion_zsh(struct buf *out);
void completion_fish(struct buf *out);
