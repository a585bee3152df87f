#pragma once

#include <jansson.h>
#include <stddef.h>

struct err;
struct field;
struct function;

/* The input of a function, whichever face it comes from. Every failure is ERR_INVALID with the name
 * of the field and what it must be. */

#define INPUT_DEPTH_MAX  64
#define INPUT_VALUES_MAX 65536 /* in one text: a small one must not become a huge tree */
#define INPUT_VALUE_SIZE 192   /* what a value takes in memory beside its text, at most */

/* A JSON value from text that anybody may have sent, or NULL with err. */
json_t *input_parse(const char *text, size_t len, struct err *err);

/* How much memory the values of that text can take, beside their own bytes. */
size_t input_weight(const char *text, size_t len);

/* Makes the input follow the fields, as fields_take() says, and adds the path parameters. */
int input_check(json_t *in, const struct field *fields, json_t *params, struct err *err);

/* The same where all of it comes in one object, also what the route has in its path: those are
 * strings that must be there. *ret_path, which the caller frees, is the path of such a request over
 * REST, as far as it is known: for errors. */
int input_take(const struct function *f, const char *prefix, json_t *in, char **ret_path,
               struct err *err);
