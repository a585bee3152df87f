#pragma once

#include <jansson.h>

struct engine;
struct image;

/* The Image of the contract. Takes the image. */
json_t *image_json(struct engine *e, struct image *image);
/* An array of them. Takes the images and the array. */
json_t *images_json(struct engine *e, struct image **all, unsigned n);
