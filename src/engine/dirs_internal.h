#pragma once

#include <stdbool.h>

struct box_root;
struct engine;
struct err;
struct sandbox;

/* What the box surely lacks is made before it starts, which costs nothing; what only the box can
 * tell is left to its agent: false. */
bool dirs_plan(const struct engine *e, const struct sandbox *sb, struct box_root *root);
int dirs_make(struct engine *e, struct sandbox *sb, struct err *err);
