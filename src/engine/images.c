#include "engine/images.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/images_internal.h"
#include "engine/images_used_internal.h"
#include "engine/policy.h"
#include "engine/pull_policy.h"
#include "engine/pulls_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/watch.h"
#include "image/image.h"
#include "oci/digest.h"
#include "oci/reference.h"

/* ---- look ---- */

int engine_image_get(struct engine *e, const char *name, struct image **ret, struct err *err)
{
    auto_free char *reference = policy_reference(e->policy, name);

    return image_get(e->images, reference, ret, err);
}

int engine_image_list(struct engine *e, struct image ***ret, unsigned *ret_n, struct err *err)
{
    return image_list(e->images, ret, ret_n, err);
}

char *engine_image_name(const struct engine *e, const struct image *image)
{
    return xasprintf("%s%s", image->name,
                     policy_is_short_name(e->policy, image->name) ? ":latest" : "");
}

json_t *engine_image_catalog(const struct engine *e)
{
    return policy_catalog(e->policy);
}

static bool made_from(struct sandbox *sb, const void *id)
{
    return sb->image_id && strcmp(sb->image_id, id) == 0;
}

bool engine_image_in_use(struct engine *e, const char *image_id)
{
    size_t n, total;

    free(roster_select(e, made_from, image_id, 0, 0, &n, &total));
    return total > 0;
}

char *image_of_id(struct engine *e, const char *name)
{
    const char *digits = digest_digits(name);
    struct image *image = NULL;
    char *found = NULL;

    if (digits && image_get(e->images, name, &image, NULL) == 0 &&
        str_starts(image->id, DIGEST_PREFIX) &&
        str_starts(image->id + strlen(DIGEST_PREFIX), digits))
        found = xstrdup(image->name);
    image_free(image);
    return found;
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
           strcmp(image->platform, platform) == 0;
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

static int check_pull(struct engine *e, const struct image_pull *pull, struct err *err)
{
    if (policy_check(e->policy, pull->reference, err) < 0)
        return -1;
    if (is_local(pull->reference))
        return err_code(err, ERR_INVALID, "bad_image_name",
                        "%s cannot be pulled: it is on this machine or nowhere", pull->reference);
    return pull->name ? policy_check_new_name(e->policy, pull->name, true, err) : 0;
}

int engine_image_pull(struct engine *e, const struct image_pull *pull, enum pull_policy policy,
                      const struct engine_watch *watch, struct image **ret, struct err *err)
{
    auto_free char *reference = policy_reference(e->policy, pull->reference);
    struct image_pull what = *pull;
    const char *name = pull->name ? pull->name : reference;
    struct image *image;

    what.reference = reference;
    if (check_pull(e, pull, err) < 0)
        return -1;
    if (policy != PULL_ALWAYS && image_get(e->images, name, &image, NULL) == 0) {
        if (fits(image, pull->platform)) {
            *ret = image;
            return 0;
        }
        image_free(image);
    }
    if (policy == PULL_NEVER)
        return image_get(e->images, name, ret, err);
    if (pull_whole(e, &what, watch, err) < 0)
        return -1;
    return image_get(e->images, name, ret, err);
}

/* ---- the image of a create ---- */

static const char *text(const json_t *in, const char *key)
{
    return json_string_value(json_object_get(in, key));
}

static int read_pull_policy(const struct engine *e, const json_t *in, enum pull_policy *ret,
                            struct err *err)
{
    const char *word = text(in, "pull");

    *ret = e->config.pull_policy;
    if (word && pull_policy_parse(word, ret) < 0)
        return err_set(err, ERR_INVALID, "pull must be missing, always or never");
    if (e->config.auto_install)
        return 0;
    if (word && *ret == PULL_ALWAYS)
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

int image_obtain(struct engine *e, const char *name, const json_t *in,
                 const struct engine_watch *watch, struct image **ret, struct err *err)
{
    auto_free char *reference = policy_reference(e->policy, name);
    const json_t *auth = json_object_get(in, "registry_auth");
    struct image_pull pull = {.reference = reference,
                              .username = text(auth, "username"),
                              .password = text(auth, "password"),
                              .platform = text(in, "platform")};
    enum pull_policy policy;
    struct err why = {0};

    if (read_pull_policy(e, in, &policy, err) < 0)
        return -1;
    if (policy != PULL_ALWAYS || is_local(reference)) {
        if (take_local(e, reference, pull.platform, ret, &why) == 0)
            return 0;
        if (!e->config.auto_install && why.kind == ERR_NOT_FOUND && !is_local(reference))
            return not_installed(name, err);
        if (policy == PULL_NEVER || why.kind != ERR_NOT_FOUND || is_local(reference)) {
            if (err)
                *err = why;
            return -1;
        }
    }
    if (pull_whole(e, &pull, watch, err) < 0)
        return -1;
    return images_take(e, reference, ret, err);
}

/* ---- import and export ---- */

/* An import tells its caller by itself; whether that one is still there is asked here. */
static int on_import(const json_t *event, void *arg)
{
    const struct engine_watch *watch = arg;
    struct pollfd caller = {.fd = watch->cancel_fd, .events = POLLRDHUP};

    if (poll(&caller, 1, 0) == 1 && (!watch->cancelled || watch->cancelled(watch->arg)))
        return -1;
    return watch->progress ? watch->progress(event, watch->arg) : 0;
}

int engine_image_import(struct engine *e, const char *path, const char *name,
                        const struct engine_watch *watch, struct image **ret, struct err *err)
{
    if (name && policy_check_new_name(e->policy, name, false, err) < 0)
        return -1;
    if (image_import(e->images, path, name, watch ? on_import : NULL, (void *)(uintptr_t)watch, ret,
                     err) < 0)
        return -1;
    images_collect(e); /* it may have replaced one */
    images_keep_budget(e, (*ret)->id);
    return 0;
}

struct image_exporter {
    struct engine *engine;
    char *name;
    int out_fd;
    pthread_t thread;
    int result;
    struct err err;
};

static void *export_main(void *arg)
{
    struct image_exporter *x = arg;

    x->result = image_export(x->engine->images, x->name, x->out_fd, &x->err);
    close_fd(&x->out_fd);
    return NULL;
}

int engine_export_open(struct engine *e, const char *name, struct image_export *ret,
                       struct err *err)
{
    struct image_exporter *x;
    int fds[2], r;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    x = xcalloc(1, sizeof(*x));
    x->engine = e;
    x->name = policy_reference(e->policy, name);
    x->out_fd = fds[1];
    r = pthread_create(&x->thread, NULL, export_main, x);
    if (r != 0) {
        (void)close(fds[0]);
        close_fd(&x->out_fd);
        free(x->name);
        free(x);
        return err_sys(err, r, "start the thread of an export");
    }
    *ret = (struct image_export){.fd = fds[0], .exporter = x};
    return 0;
}

int engine_export_close(struct image_export *export, struct err *err)
{
    struct image_exporter *x = export->exporter;
    int r;

    close_fd(&export->fd);
    (void)pthread_join(x->thread, NULL);
    r = x->result;
    if (r < 0 && err)
        *err = x->err;
    free(x->name);
    free(x);
    export->exporter = NULL;
    return r;
}

/* ---- names ---- */

int engine_image_tag(struct engine *e, const char *name, const char *new_name, struct image **ret,
                     struct err *err)
{
    auto_free char *reference = policy_reference(e->policy, name);

    if (policy_check_new_name(e->policy, new_name, false, err) < 0 ||
        image_tag(e->images, reference, new_name, ret, err) < 0)
        return -1;
    images_collect(e);
    return 0;
}

int engine_image_remove(struct engine *e, const char *name, struct err *err)
{
    auto_free char *reference = policy_reference(e->policy, name);
    struct image *image = NULL;
    struct err why = {0};
    bool in_use = false;

    if (image_get(e->images, reference, &image, &why) == 0)
        in_use = engine_image_in_use(e, image->id);
    image_free(image); /* what is wrong with one that was not found is said by image_remove */
    if (image_remove(e->images, reference, in_use, err) < 0)
        return -1;
    images_collect(e);
    return 0;
}

int engine_image_prune(struct engine *e, const struct image_prune *prune,
                       struct image ***ret_removed, unsigned *ret_n, int64_t *ret_bytes,
                       struct err *err)
{
    return images_prune(e, prune, NULL, ret_removed, ret_n, ret_bytes, err);
}
