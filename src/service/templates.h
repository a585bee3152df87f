#pragma once

#include <jansson.h>
#include <stdbool.h>

struct build_context;
struct build_plan;
struct engine;
struct engine_watch;
struct err;
struct sandbox_request;

/* What a template's files and setup commands become: an image, once, by service/build. Keeping
 * templates is the engine's (engine/templates.h).
 *
 * Where a build fails, *ret_failure (may be NULL) tells of the step: {command, output}, of the
 * output the last lines. Nothing is left of it but the layers of steps that were done, in the cache
 * of builds. */

struct template_request {
    const char *name, *description;
    const json_t *config; /* of the shape TemplateConfig */
    bool build;           /* now; else when it is first used */
};

/* Gives the Template. */
int template_make(struct engine *e, const struct template_request *req,
                  const struct engine_watch *watch, json_t **ret, json_t **ret_failure,
                  struct err *err);

/* What its shape does not say: can sandboxes be made from it? With a context files may have a
 * source there. */
int template_check(struct engine *e, const json_t *config, bool has_context, struct err *err);

struct template_rebuild {
    bool pull;     /* look for a newer image first */
    bool no_cache; /* run every command again */
};

/* Builds it anew; sandboxes that were made from it stay as they are. Gives the Template. */
int template_rebuild(struct engine *e, const char *word, const struct template_rebuild *how,
                     const struct engine_watch *watch, json_t **ret, json_t **ret_failure,
                     struct err *err);

/* A create with a template: what the request does not say is taken from it. */
struct template_base {
    json_t *template;       /* with what the request now points to */
    json_t *env, *metadata; /* the template's, with the request's over them; NULL = none */
    char **entrypoint;      /* NULL = none */
    const json_t *ready;    /* a command that must succeed; NULL = none */
    unsigned ready_s;       /* in that time */
    char *warning;          /* what of it cannot be had here; NULL = nothing */
};

/* What public clients send when their user has named no image. */
#define SDK_IMAGE "python:3.12-slim"

/* Builds the template when it must be and was not yet; another that does already is waited for.
 * says_network: the caller has said whether. */
int template_apply(struct engine *e, const char *word, bool says_network,
                   struct sandbox_request *req, struct template_base *ret,
                   const struct engine_watch *watch, json_t **ret_failure, struct err *err);
void template_base_done(struct template_base *b);
#define auto_template_base __attribute__((cleanup(template_base_done)))

/* ---- template_plan.c ---- */

/* Has it anything that must be built? Else its image is used as it is. */
bool template_needs_build(const json_t *config);
/* Files and commands begin at folder, unless config.workdir says another. ERR_INVALID for what
 * cannot be built; `source` of files needs a context. */
int template_plan(const json_t *config, const char *folder, bool has_context,
                  struct build_plan **ret, struct err *err);
