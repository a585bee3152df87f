#include "engine/images.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/build_cache_internal.h"
#include "engine/engine_internal.h"
#include "engine/image_json_internal.h"
#include "engine/image_policy.h"
#include "engine/images_internal.h"
#include "engine/images_used_internal.h"
#include "engine/json_text_internal.h"
#include "engine/long_work_internal.h"
#include "engine/news_internal.h"
#include "engine/pull_policy.h"
#include "engine/pulls_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/space_internal.h"
#include "engine/watch.h"
#include "image/image.h"
#include "oci/digest.h"
#include "oci/manifest.h"
#include "oci/reference.h"

#define TAKE_TRIES 3

/* ---- look ---- */

int engine_image_get(struct engine *e, const char *name, json_t **ret, struct err *err)
{
    auto_free char *reference = image_policy_reference(e->policy, name);
    struct image *image;

    if (image_get(e->images, reference, &image, err) < 0)
        return -1;
    *ret = image_json(e, image);
    return 0;
}

int engine_image_list(struct engine *e, json_t **ret, struct err *err)
{
    struct image **all;
    unsigned n;

    if (image_list(e->images, &all, &n, err) < 0)
        return -1;
    *ret = json_pack("{s:o}", "images", images_json(e, all, n));
    return 0;
}

int engine_image_catalog(struct engine *e, json_t **ret, struct err *err)
{
    (void)err;
    *ret = json_pack("{s:o}", "images", image_policy_catalog(e->policy));
    return 0;
}

/* ---- the policy, for an image that a caller may name by its id ---- */

static bool looks_like_id(const struct engine *e, const char *name)
{
    return digest_digits(name) && !image_policy_is_short_name(e->policy, name);
}

/* For an id of an image here: returns the name that stands for exactly that image, or the whole id
 * if it has no name. Else NULL. The stored name will not do: the operator may have made it a short
 * name of another image. Free it. */
static char *name_of_id(struct engine *e, const char *id)
{
    struct image *image;
    char *name;

    if (!looks_like_id(e, id) || image_get(e->images, id, &image, NULL) < 0)
        return NULL;
    name = image_plain_name(e, image);
    image_free(image);
    return name;
}

int image_check_allowed(struct engine *e, const char *name, struct err *err)
{
    auto_free char *known = name_of_id(e, name);

    return image_policy_check(e->policy, known ? known : name, err);
}

int image_limit(struct engine *e, const char *name, const struct image_wish *wish,
                struct sandbox_limits *limits, struct err *err)
{
    auto_free char *known = name_of_id(e, name);
    bool has_name = known ? !str_starts(known, DIGEST_PREFIX) : !looks_like_id(e, name);

    if (has_name)
        return image_policy_limit(e->policy, known ? known : name, wish->cpu, wish->memory, limits,
                                  err);
    return image_policy_limit_nameless(e->policy, wish->cpu, wish->memory, wish->granted, limits,
                                       err);
}

/* ---- pull ---- */

static int not_installed(const char *name, struct err *err)
{
    return err_code(err, ERR_NOT_FOUND, "image_not_installed",
                    "image %s is not on this machine and is not pulled without being asked: run "
                    "`cay image pull %s`",
                    name, name);
}

static bool fits(const struct image *image, const char *platform)
{
    return !platform || !image->platform || !*image->platform ||
           platform_fits(image->platform, platform);
}

/* Names that no registry has: what they mean is here or nowhere. */
static bool is_local(const char *name)
{
    auto_free char *text = str_starts(name, DIGEST_PREFIX) ? NULL : reference_shorten(name);

    return !text || strcmp(text, "host") == 0;
}

/* The reference is made whole, so that one image is pulled once whatever it is called. */
static int pull_whole(struct engine *e, const struct image_pull *pull,
                      const struct engine_watch *watch, struct err *err)
{
    struct image_pull what = *pull;
    auto_free char *full = NULL;
    struct reference ref;

    if (reference_parse(pull->reference, &ref, err) < 0)
        return -1;
    full = reference_full(&ref);
    reference_done(&ref);
    what.reference = full;
    return pulls_run(e, &what, watch, err);
}

static int check_pull(struct engine *e, const struct pull_request *req, struct err *err)
{
    auto_free char *reference = image_policy_reference(e->policy, req->reference);

    if (image_policy_check(e->policy, req->reference, err) < 0)
        return -1;
    if (is_local(reference))
        return err_code(err, ERR_INVALID, "bad_image_name",
                        "%s cannot be pulled: it is on this machine or nowhere", req->reference);
    return req->name ? image_policy_check_new_name(e->policy, req->name, true, err) : 0;
}

static int pull_image(struct engine *e, const struct pull_request *req,
                      const struct engine_watch *watch, struct image **ret, struct err *err)
{
    auto_free char *reference = image_policy_reference(e->policy, req->reference);
    const char *name = req->name ? req->name : reference;
    struct image_pull what = {
        .reference = reference,
        .name = req->name,
        .username = req->username,
        .password = req->password,
        .insecure = req->insecure,
        .platform = req->platform,
    };
    struct image *image;

    if (check_pull(e, req, err) < 0)
        return -1;
    if (req->policy != PULL_ALWAYS && image_get(e->images, name, &image, NULL) == 0) {
        if (fits(image, req->platform)) {
            *ret = image;
            return 0;
        }
        image_free(image);
    }
    if (req->policy != PULL_NEVER && pull_whole(e, &what, watch, err) < 0)
        return -1;
    return image_get(e->images, name, ret, err);
}

int engine_image_pull(struct engine *e, const struct pull_request *req,
                      const struct engine_watch *watch, json_t **ret, struct err *err)
{
    struct image *image;

    if (pull_image(e, req, watch, &image, err) < 0)
        return -1;
    *ret = image_json(e, image);
    return 0;
}

/* ---- the image of a create ---- */

static int choose_policy(const struct engine *e, const struct sandbox_request *req,
                         enum pull_policy *ret, struct err *err)
{
    *ret = req->pull_given ? req->pull : e->config.pull_policy;
    if (e->config.auto_install)
        return 0;
    if (req->pull_given && *ret == PULL_ALWAYS)
        return err_code(err, ERR_FORBIDDEN, "image_not_installed",
                        "a create does not pull here (CAY_AUTO_INSTALL is false): run `cay image "
                        "pull` first");
    *ret = PULL_NEVER;
    return 0;
}

static int take_local(struct engine *e, const char *reference, const char *platform,
                      struct image **ret, struct err *err)
{
    struct image *image;

    if (images_take(e, reference, &image, err) < 0)
        return -1;
    if (fits(image, platform)) {
        *ret = image;
        return 0;
    }
    images_release(e, image->id);
    images_drop(e, image->id, reference);
    image_free(image);
    return err_code(err, ERR_NOT_FOUND, "image_not_found",
                    "image %s is not on this machine for %s: run `cay image pull`", reference,
                    platform);
}

/* Between the two someone may remove it, or make room for another one. */
static int pull_and_take(struct engine *e, const struct image_pull *pull,
                         const struct engine_watch *watch, struct image **ret, struct err *err)
{
    struct err why = {0};

    for (int i = 0; i < TAKE_TRIES; i++) {
        if (pull_whole(e, pull, watch, err) < 0)
            return -1;
        if (images_take(e, pull->reference, ret, &why) == 0)
            return 0;
        if (why.kind != ERR_NOT_FOUND)
            break;
    }
    if (err)
        *err = why;
    return -1;
}

int image_obtain(struct engine *e, const struct sandbox_request *req,
                 const struct engine_watch *watch, struct image **ret, struct err *err)
{
    auto_free char *reference = image_policy_reference(e->policy, req->image);
    struct image_pull pull = {.reference = reference,
                              .username = req->username,
                              .password = req->password,
                              .platform = req->platform};
    enum pull_policy policy;
    struct err why = {0};

    if (req->image_id)
        return images_take_id(e, req->image_id, ret, err);
    if (choose_policy(e, req, &policy, err) < 0)
        return -1;
    if (policy != PULL_ALWAYS || is_local(reference)) {
        if (take_local(e, reference, pull.platform, ret, &why) == 0)
            return 0;
        if (!e->config.auto_install && why.kind == ERR_NOT_FOUND && !is_local(reference))
            return not_installed(req->image, err);
        if (policy == PULL_NEVER || why.kind != ERR_NOT_FOUND || is_local(reference)) {
            if (err)
                *err = why;
            return -1;
        }
    }
    return pull_and_take(e, &pull, watch, ret, err);
}

/* ---- import ---- */

int image_check_archived(const char *name, void *arg, struct err *err)
{
    return image_policy_check_new_name(arg, name, false, err);
}

/* The archive chose the name, not the caller, who should hear what else it changes. */
static void warn_of_meaning(struct engine *e, const char *name, json_t *answer)
{
    const char *word = image_policy_word_for(e->policy, name);
    auto_free char *text =
        word ? xasprintf("the archive calls its image %.100s, which is what \"%.60s\" stands for: "
                         "new sandboxes of that name are made from it",
                         name, word)
             : NULL;

    json_add_warning(answer, text);
}

/* An import tells its caller by itself; whether that one is still there is asked here. */
static int on_import(const json_t *event, void *arg)
{
    const struct engine_watch *watch = arg;

    if (engine_watch_is_over(watch))
        return -1;
    return watch->progress ? watch->progress(event, watch->arg) : 0;
}

int engine_image_import(struct engine *e, const char *path, const char *name,
                        const struct engine_watch *watch, json_t **ret, struct err *err)
{
    auto_free char *kept = NULL;
    struct image *image;
    int r;

    if ((name && image_policy_check_new_name(e->policy, name, false, err) < 0) ||
        space_check(e, err) < 0 || worker_begin(e, err) < 0)
        return -1;
    r = image_import(e->images, path, name, watch ? on_import : NULL, (void *)(uintptr_t)watch,
                     &image, err);
    worker_end(e);
    images_collect(e); /* it may have replaced one, or have been waited for */
    if (r < 0)
        return -1;
    images_keep_budget(e, image->id);
    engine_tell(
        e, "image.imported", "",
        json_pack("{s:s, s:s}", "name", image->name ? image->name : "", "imageId", image->id));
    kept = xstrdup(image->name ? image->name : "");
    *ret = image_json(e, image);
    if (!name)
        warn_of_meaning(e, kept, *ret);
    return 0;
}

/* ---- names ---- */

int engine_image_tag(struct engine *e, const char *name, const char *new_name, json_t **ret,
                     struct err *err)
{
    auto_free char *reference = image_policy_reference(e->policy, name);
    struct image *image;

    if (image_policy_check_new_name(e->policy, new_name, false, err) < 0 ||
        image_tag(e->images, reference, new_name, &image, err) < 0)
        return -1;
    images_collect(e);
    *ret = image_json(e, image);
    return 0;
}

int engine_image_remove(struct engine *e, const char *name, struct err *err)
{
    auto_free char *reference = image_policy_reference(e->policy, name);

    if (images_remove(e, reference, err) < 0)
        return -1;
    engine_tell(e, "image.removed", "", json_pack("{s:s}", "name", reference));
    images_collect(e);
    return 0;
}

int engine_image_prune(struct engine *e, const struct prune_request *req, json_t **ret,
                       struct err *err)
{
    struct image_prune prune = {
        .unused_ms = req->unused_ms,
        .keep_bytes = req->keep_bytes,
        .dry_run = req->dry_run,
    };
    struct image **removed;
    int64_t bytes;
    unsigned n;

    if (!req->dry_run && req->keep_bytes == 0)
        build_cache_prune(e, req->unused_ms);
    if (images_prune(e, &prune, NULL, &removed, &n, &bytes, err) < 0)
        return -1;
    *ret = json_pack("{s:o, s:I, s:b}", "removed", images_json(e, removed, n), "bytes",
                     (json_int_t)bytes, "dryRun", req->dry_run);
    if (!req->dry_run && n > 0)
        engine_tell(e, "image.pruned", "",
                    json_pack("{s:I, s:I}", "images", (json_int_t)n, "bytes", (json_int_t)bytes));
    return 0;
}
