#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct command;
struct err;

/* Flags are rows of a table; help, completion and the manual page come from the same rows. */

enum flag_kind {
    FLAG_BOOL,
    FLAG_TEXT,
    FLAG_COUNT,  /* whole number */
    FLAG_NUMBER, /* decimal number */
    FLAG_TIME,   /* seconds, or 500ms, 30s, 5m, 2h, 7d; held as seconds */
    FLAG_MB,     /* megabytes, or 512M, 2G; held as megabytes */
    FLAG_LIST,   /* may be given more than once */
    FLAG_MAYBE,  /* --name alone, with the text "", or --name=VALUE; a word of its own is its value
                    only when it is one of choices, and others may stand behind = */
};

struct flag {
    const char *name;
    char letter; /* 0 = none */
    enum flag_kind kind;
    const char *value; /* what the value is called in help; NULL for FLAG_BOOL */
    const char *help;
    const char *also;    /* another long name; NULL = none */
    const char *choices; /* the only values, separated by spaces; NULL = any */
    const char
        *offers;  /* what completion offers for the value, as a command's words; NULL = none */
    bool is_here; /* a text that names files of this machine, which need not be UTF-8 */
};

/* Accepted by every command. */
extern const struct flag common_flags[];

#define ARGS_FLAGS_MAX 48

struct arg_value {
    bool set;
    const char *text; /* the last one given */
    double number;    /* of the numeric kinds */
    char **list;      /* of FLAG_LIST, NULL-terminated */
};

struct args {
    const struct command *command;
    struct arg_value values[ARGS_FLAGS_MAX];
    char **words; /* what is not a flag, NULL-terminated; the strings are argv's */
    size_t n_words;
    char **rest; /* the command line to run, of commands that take one; NULL = none */
    size_t n_rest;
    bool exact; /* "--" stood before it */
};

/* argv[0] is the first argument after the command's name. Of a command that takes a command line,
 * flags end at the first word (an id or an image), as in docker: what follows is the command's own,
 * and "--" before it is optional. Errors are usage errors: ERR_INVALID. */
int args_parse(struct args *ret, const struct command *command, int argc, char **argv,
               struct err *err);
void args_done(struct args *args);

/* Asking for a flag that the command's table does not have is a bug and aborts. */
bool args_has(const struct args *args, const char *name);
const char *args_text(const struct args *args, const char *name); /* NULL when not given */
double args_number(const struct args *args, const char *name, double preset);
/* Unix milliseconds of so long ago as --since says; 0 when that is before 1970. */
int64_t args_since_ms(const struct args *args);
char **args_list(const struct args *args, const char *name); /* NULL when not given */

/* Seconds of a time as FLAG_TIME takes it: 0 or -EINVAL. */
int args_time(const char *text, double *ret);

/* The flag that --name, or a letter, means for this command; NULL when there is none. */
const struct flag *flag_by_name(const struct command *command, const char *name, size_t len);
const struct flag *flag_by_letter(const struct command *command, char letter);

/* Is word one of the words in a list with spaces between them? */
bool list_has(const char *list, const char *word, size_t len);
