#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The languages that code can be in, and how a sandbox's own programs run it. */

struct language {
    const char *name;           /* "python" */
    const char *const *aliases; /* ended by NULL */
    const char *kernel;         /* "python3" */
    const char *shown;          /* "Python 3" */
    const char *program;        /* that a sandbox must have */
    bool keeps_state;           /* a context can be made of it */
};

extern const struct language languages[]; /* ends with {0} */

/* By its name or an alias; NULL when there is none. */
const struct language *language_find(const char *name);

/* One run in a process of its own: what is to be started, which the caller frees, and whether the
 * code is its standard input. */
struct code_plan {
    char **argv;
    bool code_is_input;
};

struct code_plan language_plan(const struct language *l, const char *code);

/* What such a run says on stderr, and its exit status, when the sandbox lacks the program. */
#define CODE_MISSING      "cay: interpreter missing\n"
#define CODE_MISSING_EXIT 127

/* Lines NAME PATH VERSION of the programs that are there. */
extern const char *const languages_look;

/* How packages come, by the manager's name or a language's; NULL when there is no such. The
 * caller frees it. */
char **install_plan(const char *manager, char *const *packages);
