#pragma once

#include <stdbool.h>

struct engine;
struct engine_watch;
struct err;
struct image;
struct sandbox_limits;
struct sandbox_request;

/* The image for a create, which images_drop gives back: pulls it when the request and the policy
 * say so. Its name is as the caller gave it, and allowed. */
int image_obtain(struct engine *e, const struct sandbox_request *req,
                 const struct engine_watch *watch, struct image **ret, struct err *err);
/* As image_policy_check(), but an id is judged by the name of its image. */
int image_check_allowed(struct engine *e, const char *name, struct err *err);

struct image_wish {
    bool cpu, memory;                     /* the caller asked for this much of it */
    const struct sandbox_limits *granted; /* what the sandbox, or the source of a clone, has
                                           * already; NULL = nothing */
};

/* As image_policy_limit(), but an id is judged by the name of its image. When no image here has
 * that id, or the image has lost its name: image_policy_limit_nameless(). */
int image_limit(struct engine *e, const char *name, const struct image_wish *wish,
                struct sandbox_limits *limits, struct err *err);
/* May the image of an archive have the name that the archive gives it? arg is the policy. */
int image_check_archived(const char *name, void *arg, struct err *err);
