#include "engine/build_cache_internal.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/builds.h"
#include "engine/engine_internal.h"
#include "engine/images.h"
#include "engine/images_used_internal.h"
#include "image/image.h"
#include "store/documents.h"

#define PREFIX    "stp"
#define KEY_BYTES 64
#define ID_DIGITS 24
#define UNUSED_MS (7ll * 24 * 3600 * 1000)
#define TOUCH_MS  (3600ll * 1000) /* how often it is written that one was used */

struct build_cache {
    struct documents *documents;
    pthread_mutex_t lock; /* who changes documents and the holds that belong to them */
};

/* The id of a key's document: the beginning of the key. */
static void id_of(const char *key, char ret[ID_SIZE])
{
    (void)snprintf(ret, ID_SIZE, PREFIX "_%.*s", ID_DIGITS, key);
}

static const char *image_of(const json_t *o)
{
    const char *id = json_string_value(json_object_get(o, "imageId"));

    return id ? id : "";
}

/* Under the lock. The document first: what is not said any more may go. */
static void forget(struct engine *e, const json_t *o)
{
    struct err err = {0};

    if (documents_delete(e->build_cache->documents, json_string_value(json_object_get(o, "id")),
                         &err) < 0)
        log_warn("a step of a build is still in the cache", "error", err.text);
    else
        engine_image_let_go(e, image_of(o));
}

static void prune(struct engine *e, int64_t unused_ms)
{
    json_t *all = documents_all(e->build_cache->documents), *o;
    int64_t before = now_ms() - unused_ms;
    size_t i;

    json_array_foreach(all, i, o)
    {
        if (json_integer_value(json_object_get(o, "usedAt")) <= before)
            forget(e, o);
    }
    json_decref(all);
}

void build_cache_prune(struct engine *e, int64_t unused_ms)
{
    pthread_mutex_lock(&e->build_cache->lock);
    prune(e, unused_ms);
    pthread_mutex_unlock(&e->build_cache->lock);
}

/* Under the lock: room for one more. */
static void make_room(struct engine *e)
{
    json_t *all, *o, *oldest = NULL;
    size_t i;

    prune(e, UNUSED_MS);
    if (documents_count(e->build_cache->documents) < BUILD_CACHE_MAX)
        return;
    all = documents_all(e->build_cache->documents);
    json_array_foreach(all, i, o)
    {
        if (!oldest || json_integer_value(json_object_get(o, "usedAt")) <
                           json_integer_value(json_object_get(oldest, "usedAt")))
            oldest = o;
    }
    if (oldest)
        forget(e, oldest);
    json_decref(all);
}

static void touch(struct engine *e, json_t *o)
{
    char id[ID_SIZE];

    if (json_integer_value(json_object_get(o, "usedAt")) > now_ms() - TOUCH_MS)
        return;
    id_of(json_string_value(json_object_get(o, "key")), id);
    (void)json_object_set_new(o, "usedAt", json_integer(now_ms()));
    (void)documents_put(e->build_cache->documents, id, json_incref(o), NULL);
}

char *engine_build_cached(struct engine *e, const char *key)
{
    struct build_cache *c = e->build_cache;
    struct image *image = NULL;
    char id[ID_SIZE], *found = NULL;
    const char *said;
    json_t *o;

    id_of(key, id);
    pthread_mutex_lock(&c->lock);
    o = documents_get(c->documents, id);
    said = json_string_value(json_object_get(o, "key"));
    if (said && strcmp(said, key) == 0) {
        /* Its layers may have been lost by other hands. */
        if (image_get_id(e->images, image_of(o), &image, NULL) == 0) {
            engine_image_hold(e, image_of(o));
            found = xstrdup(image_of(o));
            touch(e, o);
        } else {
            forget(e, o);
        }
    }
    pthread_mutex_unlock(&c->lock);
    image_free(image);
    json_decref(o);
    return found;
}

void engine_build_keep(struct engine *e, const char *key, const char *image_id)
{
    struct build_cache *c = e->build_cache;
    struct err err = {0};
    char id[ID_SIZE];
    json_t *old, *o;

    if (strlen(key) != KEY_BYTES)
        return;
    id_of(key, id);
    pthread_mutex_lock(&c->lock);
    old = documents_get(c->documents, id);
    if (!old)
        make_room(e);
    o = json_pack("{s:s, s:s, s:s, s:I, s:I}", "id", id, "key", key, "imageId", image_id,
                  "createdAt", (json_int_t)now_ms(), "usedAt", (json_int_t)now_ms());
    engine_image_hold(e, image_id);
    if (documents_put(c->documents, id, o, &err) < 0) {
        log_warn("a step of a build is not kept", "error", err.text);
        engine_image_let_go(e, image_id);
    } else if (old) {
        engine_image_let_go(e, image_of(old));
    }
    pthread_mutex_unlock(&c->lock);
    json_decref(old);
}

int build_cache_open(struct engine *e, struct err *err)
{
    struct build_cache *c = xcalloc(1, sizeof(*c));
    json_t *all, *o;
    size_t i;

    pthread_mutex_init(&c->lock, NULL);
    e->build_cache = c;
    if (documents_open(e->data_dir, "builds", NULL, &c->documents, err) < 0)
        return -1;
    all = documents_all(c->documents);
    json_array_foreach(all, i, o)
    {
        images_count(e, image_of(o));
    }
    json_decref(all);
    return 0;
}

void build_cache_free(struct build_cache *c)
{
    if (!c)
        return;
    documents_close(c->documents);
    pthread_mutex_destroy(&c->lock);
    free(c);
}
