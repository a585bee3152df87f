#pragma once

/* An image store without files, so that the engine is tested without the real one: every name but
 * "gone" stands for sha256:1 ("host" for itself) until fake_images says that names are removed. */

#include <pthread.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "image/image.h"

static struct {
    pthread_mutex_t lock;
    bool removed;       /* every name but host */
    unsigned collected; /* how often */
    char **kept;        /* the ids that the last collection was told */
} fake_images = {.lock = PTHREAD_MUTEX_INITIALIZER};

int image_get(struct image_store *s, const char *name, struct image **ret, struct err *err)
{
    struct image *image;
    bool removed;

    (void)s;
    pthread_mutex_lock(&fake_images.lock);
    removed = fake_images.removed;
    pthread_mutex_unlock(&fake_images.lock);
    if (strcmp(name, "gone") == 0 || (removed && strcmp(name, "host") != 0))
        return err_code(err, ERR_NOT_FOUND, "image_not_found", "no image %s", name);
    image = xcalloc(1, sizeof(*image));
    image->name = xstrdup(name);
    image->id = xstrdup(strcmp(name, "host") == 0 ? "host" : "sha256:1");
    image->env = strv_add(strv_add(NULL, "PATH=/usr/bin:/bin"), "LANG=C");
    image->workdir = xstrdup("");
    image->user = xstrdup("");
    *ret = image;
    return 0;
}

void image_free(struct image *image)
{
    if (!image)
        return;
    free(image->name);
    free(image->id);
    strv_free(image->env);
    free(image->workdir);
    free(image->user);
    free(image);
}

int image_import(struct image_store *s, const char *path, const char *name, struct image **ret,
                 struct err *err)
{
    (void)path;
    return image_get(s, name, ret, err);
}

int image_remove(struct image_store *s, const char *name, bool in_use, struct err *err)
{
    (void)s, (void)name;
    if (in_use)
        return err_code(err, ERR_CONFLICT, "image_in_use", "in use");
    pthread_mutex_lock(&fake_images.lock);
    fake_images.removed = true;
    pthread_mutex_unlock(&fake_images.lock);
    return 0;
}

int image_collect(struct image_store *s, char *const *image_ids, struct err *err)
{
    (void)s, (void)err;
    pthread_mutex_lock(&fake_images.lock);
    strv_free(fake_images.kept);
    fake_images.kept = NULL;
    for (; *image_ids; image_ids++)
        fake_images.kept = strv_add(fake_images.kept, *image_ids);
    fake_images.collected++;
    pthread_mutex_unlock(&fake_images.lock);
    return 0;
}

int image_purge(struct image_store *s, struct err *err)
{
    (void)s, (void)err;
    return 0;
}

static __attribute__((unused)) bool fake_images_kept(const char *id)
{
    bool kept = false;

    pthread_mutex_lock(&fake_images.lock);
    for (char **i = fake_images.kept; i && *i; i++)
        kept = kept || strcmp(*i, id) == 0;
    pthread_mutex_unlock(&fake_images.lock);
    return kept;
}

static __attribute__((unused)) unsigned fake_images_collected(void)
{
    unsigned n;

    pthread_mutex_lock(&fake_images.lock);
    n = fake_images.collected;
    pthread_mutex_unlock(&fake_images.lock);
    return n;
}

static __attribute__((unused)) void fake_images_reset(void)
{
    strv_free(fake_images.kept);
    fake_images.kept = NULL;
    fake_images.removed = false;
    fake_images.collected = 0;
}
