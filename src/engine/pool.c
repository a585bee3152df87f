#include "engine/pool.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/warm_internal.h"
#include "model/sandbox.h"
#include "store/documents.h"

/* What callers see of the warm pool, and may change. */

static json_t *profiles_json(const struct engine *e)
{
    json_t *a = json_array();

    for (const struct warm_profile *p = e->warm->profiles; p; p = p->next)
        (void)json_array_append_new(a, warm_profile_json(p));
    return a;
}

void engine_pool_profiles(struct engine *e, json_t **ret)
{
    pthread_mutex_lock(&e->warm->lock);
    *ret = json_pack("{s:o}", "profiles", profiles_json(e));
    pthread_mutex_unlock(&e->warm->lock);
}

static void count_ready(const struct warm_profile *p, json_t *by_profile)
{
    auto_free char *key = warm_profile_key(p);
    json_int_t others = json_integer_value(json_object_get(by_profile, key));

    (void)json_object_set_new(by_profile, key, json_integer(others + p->ready));
}

void engine_pool_status(struct engine *e, bool names, json_t **ret)
{
    json_t *by_profile = json_object();
    unsigned total = 0, ready = 0;

    pthread_mutex_lock(&e->warm->lock);
    for (const struct warm_profile *p = e->warm->profiles; p; p = p->next) {
        if (names)
            count_ready(p, by_profile);
        total += p->want.size;
        ready += p->ready;
    }
    *ret = json_pack("{s:i, s:i, s:o, s:o*}", "total", (int)total, "ready", (int)ready,
                     "by_profile", by_profile, "profiles", names ? profiles_json(e) : NULL);
    pthread_mutex_unlock(&e->warm->lock);
}

/* With the lock held. */
static int check_room(struct engine *e, const struct warm_profile *more, struct err *err)
{
    unsigned n = 0, boxes = more->want.size;

    for (const struct warm_profile *p = e->warm->profiles; p; p = p->next) {
        if (*p->id && warm_profile_same(p, more))
            return err_code(err, ERR_CONFLICT, "pool_profile_exists",
                            "the pool has such a profile already: %s", p->id);
        n++;
        boxes += p->want.size;
    }
    if (n >= POOL_PROFILES_MAX || boxes > POOL_SIZE_MAX)
        return err_code(err, ERR_LIMIT, "pool_limit",
                        "the pool has at most %d profiles and %d boxes in all", POOL_PROFILES_MAX,
                        POOL_SIZE_MAX);
    return 0;
}

static int check_request(struct engine *e, struct warm_profile *p, struct err *err)
{
    if (!p->image == !p->template)
        return err_set(err, ERR_INVALID, "send image or template, one of them");
    return warm_profile_limits(e, p, &p->limits, err);
}

static void append(struct warm *w, struct warm_profile *p)
{
    struct warm_profile **at = &w->profiles;

    while (*at)
        at = &(*at)->next;
    *at = p;
    pthread_cond_signal(&w->more);
}

/* Their order is that of the changes, of which there is one at a time: the lock of creates is not
 * held while the disk syncs. */
static int keep(struct engine *e, struct warm_profile *p, json_t **ret, struct err *err)
{
    struct warm *w = e->warm;
    int r;

    pthread_mutex_lock(&w->lock);
    r = check_room(e, p, err);
    pthread_mutex_unlock(&w->lock);
    if (r < 0 || documents_put(w->kept, p->id, warm_profile_document(p), err) < 0)
        return -1;
    *ret = warm_profile_json(p);
    pthread_mutex_lock(&w->lock);
    append(w, p);
    pthread_mutex_unlock(&w->lock);
    return 0;
}

int engine_pool_add(struct engine *e, const struct pool_request *req, json_t **ret, struct err *err)
{
    struct warm_profile *p;
    char id[ID_SIZE];
    int r;

    id_new(id, "wp");
    p = warm_profile_new(req, id);
    pthread_mutex_lock(&e->warm->changes);
    r = check_request(e, p, err) < 0 || keep(e, p, ret, err) < 0 ? -1 : 0;
    pthread_mutex_unlock(&e->warm->changes);
    if (r < 0)
        warm_profile_unref(p);
    return r;
}

static bool has_profile(struct warm *w, const char *id)
{
    const struct warm_profile *p;

    pthread_mutex_lock(&w->lock);
    for (p = w->profiles; p && (!*id || strcmp(p->id, id) != 0); p = p->next)
        ;
    pthread_mutex_unlock(&w->lock);
    return p;
}

static void drop_profile(struct engine *e, const char *id)
{
    struct warm *w = e->warm;
    struct warm_profile **at = &w->profiles, *p;

    pthread_mutex_lock(&w->lock);
    while (strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    p = *at;
    *at = p->next;
    p->gone = true;
    warm_drop_stale(e, p, NULL);
    warm_profile_unref(p);
    pthread_mutex_unlock(&w->lock);
}

int engine_pool_remove(struct engine *e, const char *id, struct err *err)
{
    struct warm *w = e->warm;
    int r;

    pthread_mutex_lock(&w->changes);
    if (!has_profile(w, id))
        r = err_code(err, ERR_NOT_FOUND, "pool_profile_not_found",
                     "Profile not found: %.80s. `GET /pool/profiles` lists them", id);
    else
        r = documents_delete(w->kept, id, err);
    if (r == 0)
        drop_profile(e, id);
    pthread_mutex_unlock(&w->changes);
    return r;
}
