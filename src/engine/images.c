#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "image/image.h"

/* Which images have boxes. A box counts from before it is made until it is destroyed, however its
 * sandbox ends, so a layer never goes while something is mounted on it. images.lock is held while
 * an image is looked up and counted, and while layers are picked: never while they are deleted. */

static struct image_use *find(struct engine *e, const char *id)
{
    struct image_use *use = e->images_used.first;

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
        use->next = e->images_used.first;
        e->images_used.first = use;
    }
    use->boxes++;
}

void images_count(struct engine *e, const char *id)
{
    if (!id || !*id)
        return;
    pthread_mutex_lock(&e->images_used.lock);
    count(e, id);
    pthread_mutex_unlock(&e->images_used.lock);
}

int images_take(struct engine *e, const char *name, struct image **ret, struct err *err)
{
    int r;

    pthread_mutex_lock(&e->images_used.lock);
    r = image_get(e->images, name, ret, err);
    if (r == 0)
        count(e, (*ret)->id);
    pthread_mutex_unlock(&e->images_used.lock);
    return r;
}

static bool name_means(struct engine *e, const char *name, const char *id)
{
    struct image *image = NULL;
    bool yes = name && image_get(e->images, name, &image, NULL) == 0 && strcmp(image->id, id) == 0;

    image_free(image);
    return yes;
}

void images_drop(struct engine *e, const char *id, const char *name)
{
    struct image_use **at = &e->images_used.first, *use = NULL;

    if (!id || !*id)
        return;
    pthread_mutex_lock(&e->images_used.lock);
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    if (*at && --(*at)->boxes == 0) {
        use = *at;
        *at = use->next;
    }
    pthread_mutex_unlock(&e->images_used.lock);
    if (!use)
        return;
    /* The last box of an image whose name was removed or given to another one. */
    if (!name_means(e, name, use->id))
        images_collect(e);
    free(use->id);
    free(use);
}

void images_collect(struct engine *e)
{
    auto_strv char **ids = xcalloc(1, sizeof(*ids));
    struct err err = {0};
    int r;

    /* Boxes run that nothing is known about, and on layers that nothing is known about. */
    if (e->config.keep_strays)
        return;
    pthread_mutex_lock(&e->images_used.lock);
    for (const struct image_use *use = e->images_used.first; use; use = use->next)
        ids = strv_add(ids, use->id);
    r = image_collect(e->images, ids, &err);
    pthread_mutex_unlock(&e->images_used.lock);
    if (r < 0 || image_purge(e->images, &err) < 0)
        log_warn("layers of removed images are still on disk; the next start tries again", "error",
                 err.text);
}

void images_done(struct engine *e)
{
    while (e->images_used.first) {
        struct image_use *use = e->images_used.first;

        e->images_used.first = use->next;
        free(use->id);
        free(use);
    }
    pthread_mutex_destroy(&e->images_used.lock);
}

static bool made_from(struct sandbox *sb, const void *id)
{
    return sb->image_id && strcmp(sb->image_id, id) == 0;
}

bool engine_image_in_use(struct engine *e, const char *image_id)
{
    size_t n, total;

    free(table_select(e, made_from, image_id, 0, 0, &n, &total));
    return total > 0;
}

int engine_image_import(struct engine *e, const char *path, const char *name, struct image **ret,
                        struct err *err)
{
    if (image_import(e->images, path, name, ret, err) < 0)
        return -1;
    images_collect(e); /* it may have replaced one */
    return 0;
}

int engine_image_remove(struct engine *e, const char *name, struct err *err)
{
    struct image *image = NULL;
    struct err why = {0};
    bool in_use = false;

    if (image_get(e->images, name, &image, &why) == 0)
        in_use = engine_image_in_use(e, image->id);
    image_free(image); /* what is wrong with one that was not found is said by image_remove */
    if (image_remove(e->images, name, in_use, err) < 0)
        return -1;
    images_collect(e);
    return 0;
}
