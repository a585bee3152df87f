#pragma once

#include <jansson.h>
#include <stddef.h>

/* A JSON string of what may be any bytes: what is not UTF-8 becomes U+FFFD. */
json_t *json_of_bytes(const char *s, size_t len);
json_t *json_cstr(const char *s);
/* An array of the strings of a list, which may be NULL. */
json_t *json_of_texts(char *const *list);
/* Adds a text to the "warnings" of an answer; NULL = nothing to add. */
void json_add_warning(json_t *answer, const char *text);
