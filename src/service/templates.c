#include "service/templates.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/images.h"
#include "engine/network.h"
#include "engine/pull_policy.h"
#include "engine/sandboxes.h"
#include "engine/templates.h"
#include "engine/watch.h"
#include "model/limits.h"
#include "service/build/build.h"
#include "service/build/tail.h"

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/* ---- build ---- */

/* Gives the Image; a newer one when that is asked for. Without CAY_AUTO_INSTALL only who asks gets
 * one that is not here. */
static int get_image(struct engine *e, const char *image, bool newest,
                     const struct engine_watch *watch, json_t **ret, struct err *err)
{
    const struct pull_request req = {
        .reference = image,
        .policy = newest                           ? PULL_ALWAYS
                  : engine_config(e)->auto_install ? PULL_MISSING
                                                   : PULL_NEVER,
    };

    if (strcmp(image, "host") == 0)
        return engine_image_get(e, image, ret, err);
    return engine_image_pull(e, &req, watch, ret, err);
}

/* Where commands begin in a sandbox of that image, if nobody says. */
static const char *folder_of(struct engine *e, const json_t *image)
{
    const char *folder = text_of(image, "workdir");

    return folder && *folder == '/' ? folder : engine_config(e)->workspace;
}

static struct maybe_number number_of(const json_t *config, const char *key)
{
    const json_t *v = json_object_get(config, key);

    return (struct maybe_number){.given = v, .value = json_number_value(v)};
}

static json_t *build_json(const json_t *result, const char *base_id, const char *source)
{
    json_t *o = json_pack("{s:O, s:s, s:I}", "imageId", json_object_get(result, "imageId"),
                          "source", source, "builtAt", (json_int_t)now_ms());
    static const char *const keys[] = {"durationMs", "steps", "size", "cached"};

    if (base_id)
        (void)json_object_set_new(o, "baseId", json_string(base_id));
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (json_object_get(result, keys[i]))
            (void)json_object_set(o, keys[i], json_object_get(result, keys[i]));
    return o;
}

static int run_plan(struct engine *e, const json_t *config, const json_t *image, bool no_cache,
                    const struct engine_watch *watch, json_t **ret, struct err *err)
{
    auto_build_plan struct build_plan *plan = NULL;
    struct build_request req = {
        .no_cache = no_cache,
        .memory_mb = number_of(config, "memory"),
        .cpu_cores = number_of(config, "cpu"),
        .disk_mb = number_of(config, "disk"),
        .pids = number_of(config, "pids"),
        .network = json_object_get(config, "network"),
    };
    json_t *result = NULL;

    if (template_plan(config, folder_of(e, image), false, &plan, err) < 0)
        return -1;
    req.plan = plan;
    if (build_run(e, &req, watch, &result, err) < 0)
        return -1;
    *ret = build_json(result, text_of(image, "id"), "config");
    json_decref(result);
    return 0;
}

static int get_and_run(struct engine *e, const json_t *config, const struct template_rebuild *how,
                       const struct engine_watch *watch, json_t **ret, struct err *err)
{
    json_t *image = NULL;
    int r;

    if (get_image(e, text_of(config, "image"), how->pull, watch, &image, err) < 0)
        return -1;
    r = run_plan(e, config, image, how->no_cache, watch, ret, err);
    json_decref(image);
    return r;
}

/* What was built is held until the template holds it. */
static void build_done(struct engine *e, json_t *built)
{
    if (built)
        engine_image_let_go(e, text_of(built, "imageId"));
    json_decref(built);
}

/* With the template's turn. */
static int build(struct engine *e, const json_t *config, const struct template_rebuild *how,
                 const struct engine_watch *watch, json_t **ret, json_t **ret_failure,
                 struct err *err)
{
    struct build_tail tail = {.watch = watch};
    struct engine_watch listens = build_tail_watch(&tail);
    int r = get_and_run(e, config, how, &listens, ret, err);

    if (r < 0 && ret_failure)
        *ret_failure = build_tail_json(&tail);
    build_tail_done(&tail);
    return r;
}

/* ---- make ---- */

static bool wants_network(const json_t *config)
{
    const json_t *network = json_object_get(config, "network");

    return network && !json_is_false(network);
}

int template_check(struct engine *e, const json_t *config, bool has_context, struct err *err)
{
    auto_build_plan struct build_plan *plan = NULL;

    if (wants_network(config) &&
        (engine_network_check(json_object_get(config, "network"), err) < 0 ||
         engine_check_network(e, err) < 0))
        return -1;
    if (json_array_size(json_object_get(config, "entrypoint")) > 0 &&
        json_is_true(json_object_get(config, "runEntrypoint")))
        return err_set(err, ERR_INVALID, "send entrypoint or runEntrypoint, not both");
    return template_plan(config, engine_config(e)->workspace, has_context, &plan, err);
}

static int make(struct engine *e, const struct template_request *req,
                const struct engine_watch *watch, json_t **ret, json_t **ret_failure,
                struct err *err)
{
    struct template_new n = {
        .name = req->name, .description = req->description, .config = req->config};
    json_t *built = NULL;
    int r;

    if (engine_template_check(e, &n, err) < 0)
        return -1;
    if (req->build && template_needs_build(req->config) &&
        build(e, req->config, &(struct template_rebuild){0}, watch, &built, ret_failure, err) < 0)
        return -1;
    n.build = built;
    r = engine_template_put(e, &n, ret, err);
    build_done(e, built);
    return r;
}

int template_make(struct engine *e, const struct template_request *req,
                  const struct engine_watch *watch, json_t **ret, json_t **ret_failure,
                  struct err *err)
{
    int r;

    if (template_check(e, req->config, false, err) < 0 ||
        engine_template_begin(e, req->name, watch, err) < 0)
        return -1;
    r = make(e, req, watch, ret, ret_failure, err);
    engine_template_end(e, req->name);
    return r;
}

/* ---- build again ---- */

static bool is_of_directory(const json_t *template)
{
    const char *source = text_of(json_object_get(template, "build"), "source");

    return source && strcmp(source, "directory") == 0;
}

static int check_rebuild(const json_t *template, struct err *err)
{
    const char *name = text_of(template, "name");

    if (json_is_true(json_object_get(template, "builtin")))
        return err_code(err, ERR_FORBIDDEN, "template_builtin",
                        "%s is built in and has nothing to build", name);
    if (is_of_directory(template))
        return err_code(err, ERR_CONFLICT, "template_of_directory",
                        "%.80s was built from a directory: build it again with `cay template build "
                        "--name %.80s DIRECTORY`",
                        name, name);
    return 0;
}

/* With its turn. A template without files and commands has only its image to renew. */
static int rebuild(struct engine *e, const char *id, const struct template_rebuild *how,
                   const struct engine_watch *watch, json_t **ret, json_t **ret_failure,
                   struct err *err)
{
    json_t *whole = NULL, *built = NULL, *image = NULL;
    const json_t *config;
    int r;

    if (engine_template_get(e, id, &whole, err) < 0)
        return -1;
    config = json_object_get(whole, "config");
    if (!template_needs_build(config)) {
        r = get_image(e, text_of(config, "image"), how->pull, watch, &image, err);
        if (r == 0)
            *ret = json_incref(whole);
    } else {
        r = build(e, config, how, watch, &built, ret_failure, err);
        if (r == 0)
            r = engine_template_set_build(e, id, built, ret, err);
    }
    json_decref(image);
    build_done(e, built);
    json_decref(whole);
    return r;
}

int template_rebuild(struct engine *e, const char *word, const struct template_rebuild *how,
                     const struct engine_watch *watch, json_t **ret, json_t **ret_failure,
                     struct err *err)
{
    json_t *template = NULL;
    int r = -1;

    if (engine_template_use(e, word, &template, err) < 0)
        return -1;
    if (check_rebuild(template, err) == 0 &&
        engine_template_begin(e, text_of(template, "name"), watch, err) == 0) {
        r = rebuild(e, text_of(template, "id"), how, watch, ret, ret_failure, err);
        engine_template_end(e, text_of(template, "name"));
    }
    json_decref(template);
    return r;
}

/* ---- a create ---- */

static const char *built_image(const json_t *template)
{
    return text_of(json_object_get(template, "build"), "imageId");
}

/* In its turn, unless another has built it while we waited. */
static int build_first(struct engine *e, const char *word, bool again,
                       const struct engine_watch *watch, json_t **template, json_t **ret_failure,
                       struct err *err)
{
    const struct template_rebuild how = {.pull = again};
    auto_free char *name = xstrdup(text_of(*template, "name"));
    json_t *now = NULL, *made = NULL;
    int r;

    if (engine_template_begin(e, name, watch, err) < 0)
        return -1;
    r = engine_template_use(e, word, &now, err);
    if (r == 0 && (again || !built_image(now)))
        r = rebuild(e, text_of(now, "id"), &how, watch, &made, ret_failure, err);
    json_decref(made);
    json_decref(now);
    now = NULL;
    if (r == 0)
        r = engine_template_use(e, word, &now, err);
    engine_template_end(e, name);
    if (r < 0)
        return -1;
    json_decref(*template);
    *template = now;
    return 0;
}

/* Its own, unless the caller named another one. */
static int choose_image(const json_t *template, struct sandbox_request *req, struct err *err)
{
    const char *own = text_of(json_object_get(template, "config"), "image");

    if (!req->image || strcmp(req->image, own) == 0 || strcmp(req->image, SDK_IMAGE) == 0) {
        req->image = own;
        return 0;
    }
    if (built_image(template) || template_needs_build(json_object_get(template, "config")))
        return err_set(err, ERR_INVALID, "template %.60s is built on %.60s: send no image with it",
                       text_of(template, "name"), own);
    return 0;
}

/* The caller's pairs over those of the template. */
static json_t *merged(const json_t *base, const json_t *more)
{
    json_t *all;

    if (!base)
        return NULL;
    all = json_deep_copy(base);
    if (more)
        (void)json_object_update(all, (json_t *)(uintptr_t)more);
    return all;
}

static void take_number(const json_t *config, const char *key, struct maybe_number *n)
{
    if (!n->given)
        *n = number_of(config, key);
}

static void take_entrypoint(const json_t *config, struct sandbox_request *req,
                            struct template_base *b)
{
    const json_t *list = json_object_get(config, "entrypoint");

    if (req->entrypoint || req->run_entrypoint)
        return;
    for (size_t i = 0; i < json_array_size(list); i++)
        b->entrypoint = strv_add(b->entrypoint, json_string_value(json_array_get(list, i)));
    req->entrypoint = b->entrypoint;
    req->run_entrypoint = json_is_true(json_object_get(config, "runEntrypoint"));
}

/* Public clients know built-in templates that want a network: where there is none, they are told,
 * and have what else there is. */
static void take_network(struct engine *e, const json_t *template, struct sandbox_request *req,
                         struct template_base *b)
{
    const json_t *config = json_object_get(template, "config");

    req->network = json_object_get(config, "network");
    if (wants_network(config) && json_is_true(json_object_get(template, "builtin")) &&
        engine_check_network(e, NULL) < 0) {
        req->network = NULL;
        b->warning = xasprintf("template %s wants network access, which this machine cannot give "
                               "it: the sandbox is without",
                               text_of(template, "name"));
    }
}

static void take_rest(const json_t *config, struct sandbox_request *req, struct template_base *b)
{
    const json_t *seconds = json_object_get(config, "readyTimeout");

    take_number(config, "timeout", &req->timeout_s);
    take_number(config, "memory", &req->memory_mb);
    take_number(config, "cpu", &req->cpu_cores);
    take_number(config, "pids", &req->pids);
    take_number(config, "disk", &req->disk_mb);
    take_entrypoint(config, req, b);
    if (!req->workdir)
        req->workdir = text_of(config, "workdir");
    b->env = merged(json_object_get(config, "env"), req->env);
    b->metadata = merged(json_object_get(config, "metadata"), req->metadata);
    if (b->env)
        req->env = b->env;
    if (b->metadata)
        req->metadata = b->metadata;
    b->ready = json_object_get(config, "ready");
    b->ready_s = seconds ? (unsigned)json_integer_value(seconds) : TEMPLATE_READY_S;
}

int template_apply(struct engine *e, const char *word, bool says_network,
                   struct sandbox_request *req, struct template_base *ret,
                   const struct engine_watch *watch, json_t **ret_failure, struct err *err)
{
    auto_template_base struct template_base b = {0};
    bool again = req->pull_given && req->pull == PULL_ALWAYS;
    const json_t *config;

    if (engine_template_use(e, word, &b.template, err) < 0 ||
        choose_image(b.template, req, err) < 0)
        return -1;
    config = json_object_get(b.template, "config");
    if (template_needs_build(config) && !is_of_directory(b.template) &&
        (again || !built_image(b.template))) {
        if (build_first(e, word, again, watch, &b.template, ret_failure, err) < 0)
            return -1;
        config = json_object_get(b.template, "config");
        req->image = text_of(config, "image");
    }
    req->image_id = req->template_build = built_image(b.template);
    req->template = text_of(b.template, "name");
    if (!says_network)
        take_network(e, b.template, req, &b);
    take_rest(config, req, &b);
    *ret = b;
    b = (struct template_base){0};
    return 0;
}

void template_base_done(struct template_base *b)
{
    json_decref(b->template);
    json_decref(b->env);
    json_decref(b->metadata);
    strv_free(b->entrypoint);
    free(b->warning);
    *b = (struct template_base){0};
}
