#pragma once

#include <jansson.h>

struct engine;
struct err;
struct image;
struct sandbox_spec;

/* All that can be said without the image: workdir, and an entrypoint that is the image's, are NULL
 * until spec_take_image. */
int spec_read(struct engine *e, const json_t *in, struct sandbox_spec *ret, struct err *err);
int spec_take_image(const struct engine *e, const json_t *in, const struct image *image,
                    struct sandbox_spec *spec, struct err *err);
