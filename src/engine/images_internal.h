#pragma once

#include <jansson.h>

struct engine;
struct engine_watch;
struct err;
struct image;

/* The image for a create, which images_drop gives back: pulls it when in and the policy say so.
 * name is as the caller gave it, and allowed. */
int image_obtain(struct engine *e, const char *name, const json_t *in,
                 const struct engine_watch *watch, struct image **ret, struct err *err);
/* For a name that is the id of an image here: the name of that image, or "" if it has none; else
 * NULL. Free it. */
char *image_of_id(struct engine *e, const char *name);
