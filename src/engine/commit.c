#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/env_internal.h"
#include "engine/images.h"
#include "engine/images_used_internal.h"
#include "engine/json_text_internal.h"
#include "engine/policy.h"
#include "engine/sandbox_internal.h"
#include "engine/writer_internal.h"
#include "image/image.h"
#include "model/sandbox.h"
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

static json_t *config_of(const struct sandbox *sb, const json_t *changes)
{
    static const char *const plain[] = {"workdir", "user", "entrypoint", "cmd", "labels"};
    const json_t *env = json_object_get(changes, "env");
    json_t *config = json_object();

    for (size_t i = 0; i < ARRAY_LEN(plain); i++)
        if (json_object_get(changes, plain[i]))
            (void)json_object_set(config, plain[i], json_object_get(changes, plain[i]));
    if (env)
        (void)json_object_set_new(config, "env", merged_env(sb, env));
    return config;
}

static int write_image(struct engine *e, struct sandbox *sb, const json_t *changes,
                       struct image **ret, struct err *err)
{
    json_t *config = config_of(sb, changes);
    struct image_commit commit = {
        .base_id = sb->image_id,
        .name = json_string_value(json_object_get(changes, "name")),
        .config = config,
    };
    auto_close int disk = -1;
    int r = runtime_disk_open(e->runtime, &sb->box, &disk, &commit.ids_base, err);

    commit.scratch_fd = disk;
    if (r == 0)
        r = image_commit(e->images, &commit, ret, err);
    json_decref(config);
    return r;
}

/* It could not be made to go on: that can be tried again when its state says so. */
static void stays_paused(struct engine *e, struct sandbox *sb, const struct err *why)
{
    log_error("a sandbox stays paused after its commit", "id", sb->box.id, "error", why->text);
    if (sandbox_move(sb, SANDBOX_PAUSED, NULL, NULL) == 0)
        writer_leave(e, writer_put(e, sb));
}

/* Nothing runs meanwhile, so that the image is the sandbox of one moment. Its state stays: calls on
 * it wait, and if the daemon dies here the next start lets it go on. */
static int commit_in_turn(struct engine *e, struct sandbox *sb, const json_t *changes,
                          struct image **ret, struct err *err)
{
    enum sandbox_state state;
    struct err why = {0};
    int r;

    pthread_mutex_lock(&sb->lock);
    state = sb->state;
    pthread_mutex_unlock(&sb->lock);
    if (state == SANDBOX_REMOVING)
        return sandbox_check_running(sb, err);
    if (state == SANDBOX_RUNNING && runtime_pause(e->runtime, &sb->box, true, err) < 0)
        return -1;
    r = write_image(e, sb, changes, ret, err);
    if (state == SANDBOX_RUNNING && runtime_pause(e->runtime, &sb->box, false, &why) < 0)
        stays_paused(e, sb, &why);
    return r;
}

static int check(struct engine *e, const json_t *changes, struct err *err)
{
    const char *name = json_string_value(json_object_get(changes, "name"));
    const char *workdir = json_string_value(json_object_get(changes, "workdir"));
    const json_t *env = json_object_get(changes, "env");

    if (!name)
        return err_set(err, ERR_INVALID, "name is required");
    if (workdir && *workdir && *workdir != '/')
        return err_set(err, ERR_INVALID, "workdir must be an absolute path");
    if (env && env_check(env, err) < 0)
        return -1;
    return policy_check_new_name(e->policy, name, true, err);
}

int engine_commit(struct engine *e, const char *id, const json_t *changes, struct image **ret,
                  struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    int r;

    if (sandbox_get(e, id, &sb, err) < 0 || check(e, changes, err) < 0)
        return -1;
    if (!sb->image_id || !*sb->image_id)
        return err_set(err, ERR_CONFLICT,
                       "what %s was made from is not known any more, so it cannot become an image",
                       id);
    pthread_mutex_lock(&sb->turn);
    r = commit_in_turn(e, sb, changes, ret, err);
    pthread_mutex_unlock(&sb->turn);
    if (r == 0) {
        images_collect(e); /* it may have replaced one */
        images_keep_budget(e, (*ret)->id);
    }
    return r;
}
