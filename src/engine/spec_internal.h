#pragma once

struct engine;
struct err;
struct image;
struct sandbox_request;
struct sandbox_spec;

/* Checks the request and fills what does not depend on the image. A workdir that was not given, and
 * an entrypoint that is to be the image's, stay NULL until spec_take_image(). */
int spec_read(struct engine *e, const struct sandbox_request *req, struct sandbox_spec *ret,
              struct err *err);
int spec_take_image(const struct engine *e, const struct sandbox_request *req,
                    const struct image *image, struct sandbox_spec *spec, struct err *err);
