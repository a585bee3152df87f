#pragma once

#include <stdint.h>

struct build_cache;
struct engine;
struct err;

/* Which image each step of a build has become, by all that the step depends on: documents, which
 * hold their images. */

/* Before anything is collected. */
int build_cache_open(struct engine *e, struct err *err);
void build_cache_free(struct build_cache *c);
/* Forgets what was not used for that long; 0 = all. */
void build_cache_prune(struct engine *e, int64_t unused_ms);
