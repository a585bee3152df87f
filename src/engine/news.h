#pragma once

#include <jansson.h>

struct engine;

/* What happens is told to one listener, in the order in which it happened to each sandbox. It is
 * called on the thread that did it, often with a lock held: it takes data (an object, never NULL),
 * queues it, and calls nothing of the engine. id is the sandbox's, or "" when it is about none. */
typedef void (*engine_listener)(const char *topic, const char *id, json_t *data, void *arg);

/* Before engine_start(). */
void engine_listen(struct engine *e, engine_listener listener, void *arg);
