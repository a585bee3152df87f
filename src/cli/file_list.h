#pragma once

#include <jansson.h>

struct args;

/* What files/list gave, of a sandbox or a volume: as --json says, names only with --quiet, else a
 * table. */
void file_list_print(const struct args *args, const json_t *list);
