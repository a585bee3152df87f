#pragma once

#include <jansson.h>

struct engine;
struct engine_config;
struct err;
struct image;
struct sandbox_change;
struct sandbox_request;
struct sandbox_spec;

/* Checks the request and fills what does not depend on the image. A workdir that was not given, and
 * an entrypoint that is to be the image's, stay NULL until spec_take_image(). */
int spec_read(struct engine *e, const struct sandbox_request *req, struct sandbox_spec *ret,
              struct err *err);
int spec_take_image(const struct engine *e, const struct sandbox_request *req,
                    const struct image *image, struct sandbox_spec *spec, struct err *err);
/* Its numbers, as the change has them. */
void spec_change(const struct engine_config *c, const struct sandbox_change *change,
                 struct sandbox_spec *spec);
/* Strings, and not too many. */
int spec_check_metadata(const json_t *metadata, struct err *err);
