#include "service/build/directory.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/images.h"
#include "engine/templates.h"
#include "engine/watch.h"
#include "model/shapes.h"
#include "service/build/build_internal.h"
#include "service/build/tail.h"
#include "service/templates.h"

#define DOCKERFILE "Dockerfile"
#define CAY_JSON   "cay.json"

struct directory {
    const struct directory_request *req;
    struct build_plan *plan;
    json_t *config; /* of a cay.json; NULL = it is a Dockerfile */
    char *description;
};

static void directory_done(struct directory *d)
{
    build_plan_free(d->plan);
    json_decref(d->config);
    free(d->description);
}
#define auto_directory __attribute__((cleanup(directory_done)))

/* ---- what is to be built ---- */

/* The text, and what it is called. */
static int read_text(const struct directory_request *req, char **ret, const char **ret_file,
                     struct err *err)
{
    struct build_context *c = req->build.context;
    const char *apart = c ? build_context_apart(c) : NULL;
    struct err why = {0};
    size_t len;

    *ret_file = req->file ? req->file : DOCKERFILE;
    if (req->dockerfile || apart) {
        *ret = xstrdup(req->dockerfile ? req->dockerfile : apart);
        return 0;
    }
    if (!c)
        return err_set(err, ERR_INVALID,
                       "send a tar archive of the folder as application/octet-stream, or the "
                       "Dockerfile as a text");
    if (build_context_text(c, *ret_file, DOCKERFILE_BYTES_MAX, ret, &len, &why) == 0)
        return 0;
    if (!req->file && why.kind == ERR_NOT_FOUND) {
        *ret_file = CAY_JSON;
        if (build_context_text(c, CAY_JSON, DOCKERFILE_BYTES_MAX, ret, &len, NULL) == 0)
            return 0;
    }
    if (err)
        *err = why;
    return -1;
}

/* Where its commands begin, if it does not say. */
static int find_folder(struct engine *e, const char *image, const struct engine_watch *watch,
                       char **ret, struct err *err)
{
    const char *folder;
    json_t *base;

    if (engine_build_base(e, image, NULL, watch, &base, err) < 0)
        return -1;
    folder = json_string_value(json_object_get(base, "workdir"));
    *ret = xstrdup(folder && *folder == '/' ? folder : engine_config(e)->workspace);
    engine_image_let_go(e, json_string_value(json_object_get(base, "id")));
    json_decref(base);
    return 0;
}

/* {image, setup, …}, or with a name and a description around it. */
static int take_config(const char *file, const char *text, struct directory *d, struct err *err)
{
    json_error_t where;
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    const char *description = json_string_value(json_object_get(o, "description"));
    json_t *config = json_object_get(o, "config");

    if (!json_is_object(o)) {
        json_decref(o);
        return err_code(err, ERR_INVALID, "bad_dockerfile", "%.80s:%d: %s", file, where.line,
                        o ? "it is not an object" : where.text);
    }
    d->description = description ? xstrdup(description) : NULL;
    d->config = config ? json_incref(config) : json_incref(o);
    if (!config) {
        (void)json_object_del(o, "description");
        (void)json_object_del(o, "name");
    }
    json_decref(o);
    if (shape_check(&template_config_shape, d->config, err) < 0) {
        if (err)
            err->kind = ERR_INVALID;
        return err_wrap(err, "%.80s", file);
    }
    return 0;
}

static int read_plan(struct engine *e, struct directory *d, const struct engine_watch *watch,
                     struct err *err)
{
    auto_free char *text = NULL, *folder = NULL;
    const char *file;

    if (read_text(d->req, &text, &file, err) < 0)
        return -1;
    if (!str_ends(file, ".json"))
        return build_dockerfile(file, text, strlen(text), &d->plan, err);
    if (take_config(file, text, d, err) < 0 || template_check(e, d->config, true, err) < 0 ||
        find_folder(e, json_string_value(json_object_get(d->config, "image")), watch, &folder,
                    err) < 0)
        return -1;
    return template_plan(d->config, folder, true, &d->plan, err);
}

/* ---- building it ---- */

static json_t *template_build(const json_t *result)
{
    json_t *o = json_deep_copy(result);

    (void)json_object_del(o, "base");
    (void)json_object_set_new(o, "source", json_string("directory"));
    (void)json_object_set_new(o, "builtAt", json_integer((json_int_t)now_ms()));
    return o;
}

/* With the template's turn. */
static int build_and_put(struct engine *e, const struct directory *d,
                         const struct engine_watch *watch, json_t **ret, struct err *err)
{
    struct template_new n = {.name = d->req->name,
                             .description =
                                 d->req->description ? d->req->description : d->description,
                             .replace = true};
    struct build_request build = d->req->build;
    json_t *result = NULL, *config, *made;
    int r;

    build.plan = d->plan;
    if (!build.network)
        build.network = json_object_get(d->config, "network");
    if (build_run(e, &build, watch, &result, err) < 0)
        return -1;
    config = d->config ? json_incref(d->config)
                       : json_pack("{s:O}", "image", json_object_get(result, "base"));
    made = template_build(result);
    n.config = config;
    n.build = made;
    r = engine_template_put(e, &n, ret, err);
    engine_image_let_go(e, json_string_value(json_object_get(result, "imageId")));
    json_decref(config);
    json_decref(made);
    json_decref(result);
    return r;
}

int build_directory(struct engine *e, const struct directory_request *req,
                    const struct engine_watch *watch, json_t **ret, json_t **ret_failure,
                    struct err *err)
{
    auto_directory struct directory d = {.req = req};
    struct build_tail tail = {.watch = watch};
    struct engine_watch listens = build_tail_watch(&tail);
    int r;

    if (read_plan(e, &d, watch, err) < 0 || engine_template_begin(e, req->name, watch, err) < 0)
        return -1;
    r = build_and_put(e, &d, &listens, ret, err);
    engine_template_end(e, req->name);
    if (r < 0 && ret_failure)
        *ret_failure = build_tail_json(&tail);
    build_tail_done(&tail);
    return r;
}
