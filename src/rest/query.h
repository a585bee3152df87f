#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;
struct field;

/* How input comes over HTTP: one flat object made of the query, then the body, then the path
 * parameters; later wins. */

/* Percent-decoding of a path parameter or, with plus, of a query: a new string, or NULL when it is
 * malformed, has a NUL in it or is not UTF-8. */
char *query_decode(const char *s, size_t len, bool plus);

/* Values are read as the type of their field says; lists and maps are JSON text. Names without a
 * field are ignored. */
int query_add(json_t *in, const char *query, const struct field *fields, struct err *err);

/* A JSON object, or nothing at all. */
int body_add(json_t *in, const char *text, size_t len, struct err *err);
