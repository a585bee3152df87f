#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;
struct field;

/* The input of a function: one flat object made of the query, then the body, then the path
 * parameters; later wins. Every failure is ERR_INVALID with the name of the field and what it must
 * be. */

#define INPUT_DEPTH_MAX  64
#define INPUT_VALUES_MAX 65536 /* in one body: a small text must not become a huge tree */

/* Percent-decoding of a path parameter or, with plus, of a query: a new string, or NULL when it is
 * malformed, has a NUL in it or is not UTF-8. */
char *input_decode(const char *s, size_t len, bool plus);

/* Values are read as the type of their field says; lists and maps are JSON text. Names without a
 * field are ignored. */
int input_add_query(json_t *in, const char *query, const struct field *fields, struct err *err);

/* A JSON object, or nothing at all. */
int input_add_body(json_t *in, const char *text, size_t len, struct err *err);

/* Makes the input follow the fields, as fields_take() says, and adds the path parameters. */
int input_check(json_t *in, const struct field *fields, json_t *params, struct err *err);
