#pragma once

#include <stdbool.h>

struct engine;
struct engine_watch;
struct err;
struct image;
struct sandbox_request;

/* The image for a create, which images_drop gives back: pulls it when the request and the policy
 * say so. Its name is as the caller gave it, and allowed. */
int image_obtain(struct engine *e, const struct sandbox_request *req,
                 const struct engine_watch *watch, struct image **ret, struct err *err);
/* For a name that is the id of an image here: the name of that image, or "" if it has none; else
 * NULL. Free it. */
char *image_of_id(struct engine *e, const char *name);
/* As image_policy_check(); an id is no way around the list: what counts is the image's name. */
int image_check_allowed(struct engine *e, const char *name, struct err *err);
/* May the image of an archive have the name that the archive gives it? arg is the policy. */
int image_check_archived(const char *name, void *arg, struct err *err);
