#pragma once

struct engine;
struct err;
struct image;
struct sandbox_request;
struct sandbox_spec;

/* All that can be said without the image: workdir, and an entrypoint that is the image's, are NULL
 * until spec_take_image. */
int spec_read(struct engine *e, const struct sandbox_request *req, struct sandbox_spec *ret,
              struct err *err);
int spec_take_image(const struct engine *e, const struct sandbox_request *req,
                    const struct image *image, struct sandbox_spec *spec, struct err *err);
