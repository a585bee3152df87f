#include "service/build/directory.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/templates.h"
#include "engine/watch.h"
#include "service/build/build_internal.h"

#define DOCKERFILE "Dockerfile"

static int read_dockerfile(const struct directory_request *req, struct build_plan **ret,
                           struct err *err)
{
    const char *file = req->file ? req->file : DOCKERFILE;
    auto_free char *text = NULL;
    size_t len;

    if (req->dockerfile)
        return build_dockerfile(DOCKERFILE, req->dockerfile, strlen(req->dockerfile), ret, err);
    if (!req->build.context)
        return err_set(err, ERR_INVALID,
                       "send a tar archive of the folder as application/octet-stream, or the "
                       "Dockerfile as a text");
    if (build_context_text(req->build.context, file, DOCKERFILE_BYTES_MAX, &text, &len, err) < 0)
        return -1;
    return build_dockerfile(file, text, len, ret, err);
}

static json_t *template_build(const json_t *result)
{
    json_t *o = json_deep_copy(result);

    (void)json_object_del(o, "base");
    (void)json_object_set_new(o, "source", json_string("directory"));
    (void)json_object_set_new(o, "builtAt", json_integer((json_int_t)now_ms()));
    return o;
}

/* With the template's turn. */
static int build_and_put(struct engine *e, const struct directory_request *req,
                         const struct build_plan *plan, const struct engine_watch *watch,
                         json_t **ret, struct err *err)
{
    struct template_new n = {.name = req->name, .description = req->description, .replace = true};
    struct build_request build = req->build;
    json_t *result = NULL, *config, *made;
    int r;

    build.plan = plan;
    if (build_run(e, &build, watch, &result, err) < 0)
        return -1;
    config = json_pack("{s:O}", "image", json_object_get(result, "base"));
    made = template_build(result);
    n.config = config;
    n.build = made;
    r = engine_template_put(e, &n, ret, err);
    json_decref(config);
    json_decref(made);
    json_decref(result);
    return r;
}

int build_directory(struct engine *e, const struct directory_request *req,
                    const struct engine_watch *watch, json_t **ret, json_t **ret_failure,
                    struct err *err)
{
    auto_build_plan struct build_plan *plan = NULL;
    int r;

    (void)ret_failure;
    if (read_dockerfile(req, &plan, err) < 0 || engine_template_begin(e, req->name, watch, err) < 0)
        return -1;
    r = build_and_put(e, req, plan, watch, ret, err);
    engine_template_end(e, req->name);
    return r;
}
