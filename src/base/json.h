#pragma once

#include <jansson.h>
#include <stdint.h>

/* The array of a NULL-terminated list, empty for NULL. What is not UTF-8 has no form in JSON and is
 * left out. */
json_t *json_of_strings(char *const *v);

/* The elements of an array in an order, as qsort() compares pointers to them. Takes the array. */
json_t *json_sorted(json_t *array, int (*compare)(const void *a, const void *b));

/* Members of an object that may not have them, and may be NULL. */
const char *json_text(const json_t *object, const char *key); /* "" when absent or no string */
/* 0 when absent or no number; what no int64_t can hold is the nearest that one can. */
int64_t json_int(const json_t *object, const char *key);
double json_num(const json_t *object, const char *key);
/* Sets key, unless value is NULL. */
void json_put_text(json_t *object, const char *key, const char *value);
