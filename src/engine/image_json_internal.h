#pragma once

#include <jansson.h>

struct engine;
struct image;

/* Returns the name that stands for exactly this image. A stored name that is a short name too may
 * stand for another image, so it gets its tag or its host; where those are short names as well, the
 * id is returned. Free it. */
char *image_plain_name(const struct engine *e, const struct image *image);
/* The Image of the contract. Takes the image. */
json_t *image_json(struct engine *e, struct image *image);
/* An array of them. Takes the images and the array. */
json_t *images_json(struct engine *e, struct image **all, unsigned n);
