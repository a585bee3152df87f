#pragma once

#include <jansson.h>

/* The array of a NULL-terminated list, empty for NULL. What is not UTF-8 has no form in JSON and is
 * left out. */
json_t *json_of_strings(char *const *v);

/* The elements of an array in an order, as qsort() compares pointers to them. Takes the array. */
json_t *json_sorted(json_t *array, int (*compare)(const void *a, const void *b));
