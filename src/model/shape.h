#pragma once

#include <jansson.h>
#include <stdbool.h>

struct err;
struct shape;

/* What JSON looks like, as tables. One vocabulary for what a function takes and for what it gives:
 * input checks, JSON Schemas, the API reference and the checks of answers in tests come from them.
 */

enum field_type {
    FIELD_STRING,
    FIELD_INT,
    FIELD_NUMBER,
    FIELD_BOOL,
    FIELD_STRINGS,    /* array of strings */
    FIELD_STRING_MAP, /* object of strings */
    FIELD_OBJECT,     /* of the shape `of`; any object when there is none */
    FIELD_ARRAY,      /* of items of the shape `of`; of anything when there is none */
    FIELD_COMMAND,    /* string (shell) or array of strings (argv) */
    FIELD_ANY,        /* any value, which is not looked into */
    FIELD_NETWORK,    /* boolean, the name of a preset, or an object, which is not looked into */
};

struct field {
    const char *name;
    enum field_type type;
    bool optional; /* may be absent; so may what has a preset, in input */
    bool nullable; /* may be null in an answer; in input null is the same as absent */
    bool clamp;    /* a number outside min…max is moved to the nearer end, not refused. A negative
                    * one is refused where min is not negative, unless the field is optional:
                    * clients send -1 for "no limit" */
    bool lenient;  /* input of another type is dropped and told, not refused */
    bool filled;   /* an array or a map has at least one item */
    double min, max; /* of numbers (both 0 = any); of strings, also those in arrays and maps: length
                        in bytes (0 = no limit, in input 1 MiB) */
    const char *const *choices; /* the only strings that it can be, ended by NULL; NULL = any */
    const char *pattern; /* what a string looks like, as a regular expression; told, not checked */
    const struct shape *of;
    const char *preset;  /* the default as JSON text; filled in when it is absent from input */
    const char *example; /* as JSON text */
    const char *help;    /* one line */
};

/* A noun or an event of the API. It has one of fields, value and one_of. */
struct shape {
    const char *name;                  /* "Sandbox": no other has it; schemas refer to it by this */
    const struct field *fields;        /* an object of these, ended by {0} */
    const struct field *value;         /* something else: a string, an array */
    const struct shape *const *one_of; /* one of these, ended by NULL */
    const char *help;                  /* one line */
};

/* Is it what the shape says, with nothing missing, nothing more and nothing else? ERR_INVALID says
 * where it is not. */
int shape_check(const struct shape *shape, const json_t *value, struct err *err);

/* NULL when there is none of that name. */
const struct field *field_find(const struct field *fields, const char *name);

/* What is in an array or a map is not looked at. */
bool field_has_type(const struct field *f, const json_t *value);

#define TAKE_ITEMS_MAX  4096 /* in one array or map of input */
#define TAKE_STRING_MAX (1u << 20)

/* Makes an object of input follow the fields: nulls and unknown keys are dropped, presets filled
 * in, clamped numbers clamped, 2.0 becomes 2 where a whole number is wanted. What is dropped
 * because its field is lenient is told in an array of texts, TAKE_IGNORED, which is absent when
 * there is none. ERR_INVALID names the field and what it must be. */
#define TAKE_IGNORED "ignored"
int fields_take(const struct field *fields, json_t *in, struct err *err);
