#pragma once

#include <stddef.h>
#include <stdint.h>

struct engine;

/* At the start, after the rows were sorted out: what has no row. *ret are the id ranges of what was
 * taken or left alone, to be freed. */
void strays_sort_out(struct engine *e, uint32_t **ret, size_t *ret_n);
