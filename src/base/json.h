#pragma once

#include <jansson.h>

/* The array of a NULL-terminated list, empty for NULL. What is not UTF-8 has no form in JSON and is
 * left out. */
json_t *json_of_strings(char *const *v);
