#pragma once

#include <stddef.h>

/* A header line: both are NUL-terminated once the head is parsed. */
struct http_field {
    const char *name, *value;
    size_t name_len, value_len;
};
