#pragma once

#include <jansson.h>
#include <stdbool.h>

struct engine;
struct engine_watch;
struct err;

/* Templates: what sandboxes are made from by one word. A Template is {id, name, description,
 * config, builtin, createdAt, build?}: config has the keys of a create, and files, setup, ready and
 * user; build says which image its files and setup commands have become. Names are unique. Here
 * they are kept; service/templates.h builds them and makes sandboxes of them.
 *
 * A word is an id or a name: ERR_NOT_FOUND "template_not_found" when there is none. */

/* {templates: [Template]}: built-in ones first, then by age. Of files no contents. */
void engine_template_list(struct engine *e, json_t **ret);
/* Template, whole. */
int engine_template_get(struct engine *e, const char *word, json_t **ret, struct err *err);
/* Sandboxes that were made from it stay as they are. ERR_FORBIDDEN "template_builtin". */
int engine_template_remove(struct engine *e, const char *word, struct err *err);

/* For a create: the Template without contents of files, which nobody may change, at no cost; let go
 * with json_decref. Asks the list of allowed images. */
int engine_template_use(struct engine *e, const char *word, json_t **ret, struct err *err);

struct template_new {
    const char *name;        /* required */
    const char *description; /* NULL = "" */
    const json_t *config;    /* required, of the shape TemplateConfig */
    const json_t *build;     /* of the shape TemplateBuild, whose image is there; NULL = none */
    bool replace;            /* one of that name gets these in place of its own, and keeps its id */
};

/* May there be one such? ERR_CONFLICT "template_exists", ERR_LIMIT "template_limit"; to be asked
 * before work that takes time. */
int engine_template_check(struct engine *e, const struct template_new *t, struct err *err);
/* Gives the Template; it is on the disk then. Its image stays as long as the template says it. */
int engine_template_put(struct engine *e, const struct template_new *t, json_t **ret,
                        struct err *err);
int engine_template_set_build(struct engine *e, const char *id, const json_t *build, json_t **ret,
                              struct err *err);

/* Who builds a template has its turn, by name, also of one that is yet to come: another waits, as
 * long as its watch lets it, and finds what has been built. */
int engine_template_begin(struct engine *e, const char *name, const struct engine_watch *watch,
                          struct err *err);
void engine_template_end(struct engine *e, const char *name);

#define TEMPLATE_NAME_MAX   255
#define TEMPLATE_BYTES_MAX  (256u << 10) /* of one, as JSON */
#define TEMPLATES_BYTES_MAX (32u << 20)  /* of all */
