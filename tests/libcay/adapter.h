#pragma once

#include <cay.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The adapter of libcay for sdk/conformance: operations as lines of JSON, each on a thread of its
 * own. */

/* What an operation has, and gives: exactly one of ok and error. */
struct operation {
    struct cay *cay; /* of its own, so that it can be cancelled */
    json_t *args;
    json_t *ok;
    json_t *error;
};

/* An argument as a text; NULL when there is none. */
const char *arg(const struct operation *o, const char *key);

/* Each returns -1 and fills o->error. */
int refuse(struct operation *o, const char *code, int status, const char *message);
int failed(struct operation *o, const struct cay_error *err);

/* Bytes as results have them: text, base64 or a digest. as_text: what is no UTF-8 becomes U+FFFD.
 */
json_t *data_json(const char *data, size_t len, bool as_text);
/* The same of a whole file. */
json_t *data_of_fd(int fd);
/* Data of an argument, in a temporary file without a name at its beginning; -1 = it is none. */
int data_fd(const json_t *data);

typedef int (*operation_fn)(struct operation *o);
/* NULL = there is none of that name. */
operation_fn command_operation(const char *name); /* adapter_commands.c */
/* Operations that are one call: 0 or -1, or 1 when there is none of that name. */
int plain_operation(const char *name, struct operation *o); /* adapter_calls.c */
