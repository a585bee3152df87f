#pragma once

#include "engine/lifecycle_internal.h"

struct engine;
struct err;
struct sandbox;

/* Remembers, for an hour, that it was removed and why; before anybody can miss it. */
void gone_note(struct engine *e, struct sandbox *sb, enum removal why);
/* ERR_NOT_FOUND for an id or a name that no sandbox has, which says what became of one that had it:
 * "sandbox_expired", "sandbox_removed"; else "sandbox_not_found". Returns -1. */
int gone_explain(struct engine *e, const char *word, struct err *err);
