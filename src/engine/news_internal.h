#pragma once

#include <jansson.h>

struct engine;
struct sandbox;

/* To the listener of engine/news.h; takes data (NULL = nothing to add). */
void engine_tell(struct engine *e, const char *topic, const char *id, json_t *data);

/* Of a sandbox: {sandboxId, name, image, status} and what there is more to say, which it takes
 * (NULL = nothing). After what happened is written, in the turn of who did it. */
void sandbox_tell(struct engine *e, struct sandbox *sb, const char *topic, json_t *more);
