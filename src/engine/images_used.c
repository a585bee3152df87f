#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/health.h"
#include "engine/image_policy.h"
#include "engine/images.h"
#include "engine/images_used_internal.h"
#include "engine/warm_internal.h"
#include "image/image.h"

struct image_use {
    char *id;
    unsigned boxes;     /* made from it and not yet destroyed: its layers stay */
    unsigned sandboxes; /* of these, those that are not removed: its names stay */
    struct image_use *next;
};

struct images_used {
    pthread_mutex_t lock;
    struct image_use *first;
};

/* A box counts from before it is made until it is destroyed, however its
 * sandbox ends, so a layer never goes while something is mounted on it. images_used.lock is held
 * while an image is looked up and counted, and while layers are picked: never while they are
 * deleted. */

struct images_used *images_used_new(void)
{
    struct images_used *u = xcalloc(1, sizeof(*u));

    pthread_mutex_init(&u->lock, NULL);
    return u;
}

void images_used_free(struct images_used *u)
{
    if (!u)
        return;
    while (u->first) {
        struct image_use *use = u->first;

        u->first = use->next;
        free(use->id);
        free(use);
    }
    pthread_mutex_destroy(&u->lock);
    free(u);
}

static struct image_use *find(struct engine *e, const char *id)
{
    struct image_use *use = e->images_used->first;

    while (use && strcmp(use->id, id) != 0)
        use = use->next;
    return use;
}

static void count(struct engine *e, const char *id)
{
    struct image_use *use = find(e, id);

    if (!use) {
        use = xcalloc(1, sizeof(*use));
        use->id = xstrdup(id);
        use->next = e->images_used->first;
        e->images_used->first = use;
    }
    use->boxes++;
    use->sandboxes++;
}

void images_count(struct engine *e, const char *id)
{
    if (!id || !*id)
        return;
    pthread_mutex_lock(&e->images_used->lock);
    count(e, id);
    pthread_mutex_unlock(&e->images_used->lock);
}

int images_take(struct engine *e, const char *name, struct image **ret, struct err *err)
{
    int r;

    pthread_mutex_lock(&e->images_used->lock);
    r = image_get(e->images, name, ret, err);
    if (r == 0)
        count(e, (*ret)->id);
    pthread_mutex_unlock(&e->images_used->lock);
    return r;
}

int images_take_id(struct engine *e, const char *id, struct image **ret, struct err *err)
{
    int r;

    pthread_mutex_lock(&e->images_used->lock);
    r = image_get_id(e->images, id, ret, err);
    if (r == 0)
        count(e, id);
    pthread_mutex_unlock(&e->images_used->lock);
    return r;
}

void images_doubt(struct engine *e, const char *folder)
{
    e->images_in_doubt = true;
    (void)engine_trouble(e, "document_damaged", "",
                         "images that nothing is known to need stay, since a damaged document may "
                         "name them: mend or remove *.damaged in the data folder, then restart");
    log_error("no image is removed while there are damaged documents: mend or remove them and "
              "restart",
              "folder", folder);
}

void engine_image_hold(struct engine *e, const char *id)
{
    images_count(e, id);
}

void engine_image_let_go(struct engine *e, const char *id)
{
    images_release(e, id);
    images_drop(e, id, NULL);
}

static bool name_means(struct engine *e, const char *name, const char *id)
{
    auto_free char *reference = name ? image_policy_reference(e->policy, name) : NULL;
    struct image *image = NULL;
    bool yes = reference && image_get(e->images, reference, &image, NULL) == 0 &&
               strcmp(image->id, id) == 0;

    image_free(image);
    return yes;
}

void images_release(struct engine *e, const char *id)
{
    struct image_use *use;

    if (!id || !*id)
        return;
    pthread_mutex_lock(&e->images_used->lock);
    use = find(e, id);
    if (use && use->sandboxes > 0)
        use->sandboxes--;
    pthread_mutex_unlock(&e->images_used->lock);
}

/* Under the lock: those with boxes, or only those with sandboxes. */
static char **used_ids(struct engine *e, bool sandboxes)
{
    char **ids = xcalloc(1, sizeof(*ids));

    for (const struct image_use *use = e->images_used->first; use; use = use->next)
        if (!sandboxes || use->sandboxes > 0)
            ids = strv_add(ids, use->id);
    return ids;
}

/* Removes the layers that no name and no box needs. */
static void collect_layers(struct engine *e)
{
    auto_strv char **ids = NULL;
    struct err err = {0};
    int r;

    /* There are boxes, disks or documents whose layers are not known. */
    if (atomic_load(&e->unknown_images) || e->images_in_doubt)
        return;
    pthread_mutex_lock(&e->images_used->lock);
    ids = used_ids(e, false);
    r = image_collect(e->images, ids, &err);
    pthread_mutex_unlock(&e->images_used->lock);
    if (r < 0 || image_purge(e->images, &err) < 0)
        log_warn("layers of removed images are still on disk; the next start tries again", "error",
                 err.text);
}

void images_drop(struct engine *e, const char *id, const char *name)
{
    struct image_use **at = &e->images_used->first, *use = NULL;

    if (!id || !*id)
        return;
    pthread_mutex_lock(&e->images_used->lock);
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    if (*at && --(*at)->boxes == 0) {
        use = *at;
        *at = use->next;
    }
    pthread_mutex_unlock(&e->images_used->lock);
    if (!use)
        return;
    /* The last box of an image whose name was removed or given to another one. The pool need not
     * look: a pool whose own failed attempts woke it would try again without a pause. */
    if (!name_means(e, name, use->id))
        collect_layers(e);
    free(use->id);
    free(use);
}

static bool has_sandboxes(struct engine *e, const char *id)
{
    const struct image_use *use = find(e, id);

    return use && use->sandboxes > 0;
}

bool image_in_use(struct engine *e, const char *image_id)
{
    bool yes;

    pthread_mutex_lock(&e->images_used->lock);
    yes = has_sandboxes(e, image_id);
    pthread_mutex_unlock(&e->images_used->lock);
    return yes;
}

/* Under the lock while the name goes, as images_prune. */
int images_remove(struct engine *e, const char *reference, struct err *err)
{
    struct image *image = NULL;
    bool in_use = false;
    int r;

    pthread_mutex_lock(&e->images_used->lock);
    /* What is wrong with one that is not found is said by image_remove. */
    if (image_get(e->images, reference, &image, NULL) == 0)
        in_use = has_sandboxes(e, image->id);
    r = image_remove(e->images, reference, in_use, err);
    pthread_mutex_unlock(&e->images_used->lock);
    image_free(image);
    return r;
}

/* For callers that have changed what a name means. */
void images_collect(struct engine *e)
{
    warm_sources_changed(e);
    collect_layers(e);
}

/* Under the lock while names go: whoever takes an image has either counted it by now, or does not
 * find it. */
int images_prune(struct engine *e, const struct image_prune *prune, const char *keep_id,
                 struct image ***ret_removed, unsigned *ret_n, int64_t *ret_bytes, struct err *err)
{
    struct image_prune all = *prune;
    auto_strv char **ids = NULL;
    int r;

    pthread_mutex_lock(&e->images_used->lock);
    ids = used_ids(e, true);
    if (keep_id)
        ids = strv_add(ids, keep_id);
    all.used_ids = ids;
    r = image_prune(e->images, &all, ret_removed, ret_n, ret_bytes, err);
    pthread_mutex_unlock(&e->images_used->lock);
    if (r == 0 && !prune->dry_run)
        images_collect(e);
    return r;
}

void images_keep_budget(struct engine *e, const char *keep_id)
{
    struct image_prune prune = {.keep_bytes = (int64_t)e->config.image_budget};
    struct image **removed;
    struct err err = {0};
    int64_t bytes;
    unsigned n;

    if (!e->config.image_budget)
        return;
    if (images_prune(e, &prune, keep_id, &removed, &n, &bytes, &err) < 0) {
        log_warn("images take more room than CAY_IMAGE_BUDGET says", "error", err.text);
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        log_info("image removed to make room", "name", removed[i]->name);
        image_free(removed[i]);
    }
    free(removed);
}
