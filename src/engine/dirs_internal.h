#pragma once

#include <stdbool.h>

struct box_root;
struct engine;
struct err;
struct sandbox;

/* Adds to root the directories that the image surely lacks: the runtime makes them before the box
 * starts, which costs nothing. false = for some of them only the box can tell whether they are
 * there, and dirs_make() has to follow. */
bool dirs_plan(const struct engine *e, const struct sandbox *sb, struct box_root *root);
/* Has the agent make what is missing. */
int dirs_make(struct engine *e, struct sandbox *sb, struct err *err);
