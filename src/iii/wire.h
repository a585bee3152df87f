#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "functions/iii.h"

/* The messages that we send: one JSON object each, as text that the caller frees. What is NULL is
 * left out, since clients tell null and absent apart. */

char *wire_text(const json_t *message);

/* The text of a member that is not null, or NULL; and back, of NULL nothing. What is kept for long
 * is kept as text: the same as values may take a hundred times as much. */
char *wire_member(const json_t *message, const char *key);
void wire_put_member(json_t *message, const char *key, const char *text);

/* One of result and error is NULL. */
char *wire_result(const char *invocation_id, const char *function_id, json_t *result, json_t *error,
                  const char *traceparent, const char *baggage);
char *wire_invoke(const char *invocation_id, const char *function_id, json_t *data,
                  json_t *metadata, const char *traceparent, const char *baggage);
char *wire_worker_registered(const char *worker_id, const char *reattach_token);
/* worker_name or function_id, by the code. */
char *wire_rejected(const char *code, const char *namespace, const char *worker_name,
                    const char *function_id, const char *owner_worker_id);
/* The answer to a registertrigger message of that id: the trigger is not bound. */
char *wire_trigger_refused(const json_t *message, const char *id);

/* ---- of what is received ---- */

/* A member that is a string of 1 to max bytes; NULL when it is absent, null or something else. */
const char *wire_name(const json_t *message, const char *key, size_t max);
/* A member that is not null, or NULL. */
json_t *wire_value(const json_t *message, const char *key);
/* What a message that cannot be read is, and its id, if they can be made out. */
enum wire_kind { WIRE_OTHER, WIRE_CALL, WIRE_ANSWER };
enum wire_kind wire_find_id(const char *text, size_t len, char ret[UUID_SIZE]);
/* What it costs to keep a text, and to read it again. */
size_t wire_weight(const char *text, size_t len);
