#pragma once

#include <jansson.h>

struct engine;
struct err;
struct sandbox;

/* Can these be patches at all? ERR_INVALID or ERR_TOO_LARGE says which is none, before anything is
 * made. */
int patches_check(const struct engine *e, const json_t *patches, struct err *err);
/* Applies them in their order, in a box in which nothing runs. What cannot be applied is
 * ERR_INVALID "patch_failed", or "no_space"; some of them may be there then. */
int patches_apply(struct engine *e, struct sandbox *sb, const json_t *patches, struct err *err);
