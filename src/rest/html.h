#pragma once

#include <stddef.h>

struct buf;

/* Text as it is to be shown in a page, or in an attribute between double quotes. */
void html_add(struct buf *b, const char *s, size_t len);
void html_add_str(struct buf *b, const char *s);
