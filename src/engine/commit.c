#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/env_internal.h"
#include "engine/image_json_internal.h"
#include "engine/image_policy.h"
#include "engine/images.h"
#include "engine/images_used_internal.h"
#include "engine/json_text_internal.h"
#include "engine/news_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/space_internal.h"
#include "engine/still_internal.h"
#include "image/image.h"
#include "runtime/runtime.h"

/* A sandbox becomes an image: what it wrote is a layer on top of those that it was made from. */

/* The image's list, with the caller's variables in place of those of the same name. */
static json_t *merged_env(const struct sandbox *sb, const json_t *more)
{
    json_t *list = json_array();
    const char *key;
    json_t *value;

    for (char **var = sb->image_env; var && *var; var++) {
        auto_free char *name = xstrndup(*var, strcspn(*var, "="));

        if (!json_object_get(more, name))
            (void)json_array_append_new(list, json_cstr(*var));
    }
    json_object_foreach((json_t *)(uintptr_t)more, key, value)
    {
        (void)json_array_append_new(list, json_sprintf("%s=%s", key, json_string_value(value)));
    }
    return list;
}

static void set_new(json_t *o, const char *key, json_t *value)
{
    (void)json_object_set_new(o, key, value);
}

/* The part of the configuration that changes, as image_commit() takes it. */
static json_t *config_of(const struct sandbox *sb, const struct commit_request *req)
{
    json_t *config = json_object();

    if (req->env)
        set_new(config, "env", merged_env(sb, req->env));
    if (req->workdir)
        set_new(config, "workdir", json_cstr(req->workdir));
    if (req->user)
        set_new(config, "user", json_cstr(req->user));
    if (req->entrypoint)
        set_new(config, "entrypoint", json_of_texts(req->entrypoint));
    if (req->cmd)
        set_new(config, "cmd", json_of_texts(req->cmd));
    if (req->labels)
        set_new(config, "labels", json_deep_copy(req->labels));
    return config;
}

struct writing {
    struct sandbox *sb;
    char *held; /* the id of an image without a name; NULL = not yet known */
};

/* Not when the sandbox is removed or the daemon ends meanwhile. */
static int goes_on(const json_t *event, void *arg)
{
    const struct writing *w = arg;

    (void)event;
    return still_goes_on(w->sb->engine, w->sb, NULL);
}

static void hold(const char *image_id, void *arg)
{
    struct writing *w = arg;

    engine_image_hold(w->sb->engine, image_id);
    w->held = xstrdup(image_id);
}

static int write_image(struct engine *e, struct sandbox *sb, const struct commit_request *req,
                       struct image **ret, char **ret_warning, struct err *err)
{
    json_t *config = config_of(sb, req);
    struct writing w = {.sb = sb};
    struct image_commit commit = {
        .base_id = sb->image_id,
        .name = req->name,
        .made = req->name ? NULL : hold,
        .config = config,
        .progress = goes_on,
        .arg = &w,
    };
    auto_close int disk = -1;
    int r = -1;

    if (runtime_disk_open(e->runtime, &sb->box, false, &disk, &commit.ids_base, err) == 0) {
        commit.scratch_fd = disk;
        r = image_commit(e->images, &commit, ret, ret_warning, err);
    }
    if (r < 0 && w.held)
        engine_image_let_go(e, w.held);
    free(w.held);
    json_decref(config);
    return r;
}

/* With its commit_turn. */
static int commit(struct engine *e, struct sandbox *sb, const struct commit_request *req,
                  struct image **ret, char **ret_warning, struct err *err)
{
    int r;

    if (still_begin(e, sb, err) < 0)
        return -1;
    r = write_image(e, sb, req, ret, ret_warning, err);
    still_end(e, sb);
    /* What the worker says of its end is not what the caller should hear when we ended it. */
    if (r < 0)
        (void)still_goes_on(e, sb, err);
    return r;
}

static int check(struct engine *e, const struct commit_request *req, struct err *err)
{
    if (req->workdir && *req->workdir && *req->workdir != '/')
        return err_set(err, ERR_INVALID, "workdir must be an absolute path");
    if (req->env && env_check(req->env, err) < 0)
        return -1;
    return req->name ? image_policy_check_new_name(e->policy, req->name, true, err) : 0;
}

int engine_commit(struct engine *e, const char *id, const struct commit_request *req, json_t **ret,
                  struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *warning = NULL;
    struct image *image;
    int r;

    if (sandbox_get(e, id, &sb, err) < 0 || check(e, req, err) < 0 || space_check(e, err) < 0)
        return -1;
    if (!sb->image_id || !*sb->image_id)
        return err_set(err, ERR_CONFLICT,
                       "what %s was made from is not known any more, so it cannot become an image",
                       id);
    if (still_claim(e, sb, false, err) < 0)
        return -1;
    r = commit(e, sb, req, &image, &warning, err);
    still_release(e, sb);
    if (r < 0)
        return -1;
    images_collect(e); /* it may have replaced one */
    images_keep_budget(e, image->id);
    engine_tell(e, "image.committed", sb->box.id,
                json_pack("{s:s, s:s, s:s}", "sandboxId", sb->box.id, "name",
                          image->name ? image->name : "", "imageId", image->id));
    *ret = image_json(e, image);
    json_add_warning(*ret, warning);
    return 0;
}
