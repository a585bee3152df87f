#include "engine/warm_internal.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/boot_internal.h"
#include "engine/dirs_internal.h"
#include "engine/engine_internal.h"
#include "engine/image_policy.h"
#include "engine/images_used_internal.h"
#include "engine/lifecycle_internal.h"
#include "engine/network_internal.h"
#include "engine/prepared_internal.h"
#include "engine/reaper_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/space_internal.h"
#include "engine/spec_internal.h"
#include "engine/threads_internal.h"
#include "engine/writer_internal.h"
#include "image/image.h"
#include "runtime/runtime.h"
#include "store/documents.h"

#define FOLDER      "pool"
#define CALM_NS     (20 * 1000000ll) /* after a create; prepared boxes come first */
#define RETRY_S_MAX 30

/* ---- taking one ---- */

static bool fits(const struct sandbox *sb, const char *image_id, const struct sandbox_spec *spec)
{
    return warm_limits_same(&sb->spec.limits, &spec->limits) &&
           sandbox_network_same(sb->spec.network, spec->network) && !spec->mounts &&
           !spec->networks && strcmp(sb->image_id, image_id) == 0;
}

/* With the lock held. */
static struct sandbox *take_out(struct waiting **at)
{
    struct waiting *box = *at;
    struct sandbox *sb = box->sb;

    *at = box->next;
    box->profile->ready--;
    warm_profile_unref(box->profile);
    free(box);
    return sb;
}

static struct sandbox *take_fitting(struct warm *w, const char *image_id,
                                    const struct sandbox_spec *spec)
{
    struct waiting **at = &w->first;
    struct sandbox *sb = NULL;

    pthread_mutex_lock(&w->lock);
    w->taken_ns = mono_ns();
    while (*at && !fits((*at)->sb, image_id, spec))
        at = &(*at)->next;
    if (*at) {
        sb = take_out(at);
        pthread_cond_signal(&w->more);
    }
    pthread_mutex_unlock(&w->lock);
    return sb;
}

void warm_discard(struct engine *e, struct sandbox *sb)
{
    sb->state = SANDBOX_REMOVING;
    reaper_doom(e, sb);
    sandbox_unref(sb);
}

struct sandbox *warm_take(struct engine *e, const char *image_id, const struct sandbox_spec *spec)
{
    struct sandbox *sb;

    while ((sb = take_fitting(e->warm, image_id, spec))) {
        if (runtime_lives(e->runtime, &sb->box))
            break;
        warm_discard(e, sb);
    }
    if (!sb)
        return NULL;
    images_drop(e, image_id, NULL); /* the caller has counted it once more */
    sb->warm = strcmp(sb->spec.workdir, spec->workdir) == 0 ? WARM_DIRS : WARM_BOX;
    sandbox_spec_done(&sb->spec);
    return sb;
}

/* Is there nothing to be done but to write its row? */
static bool is_complete(const struct sandbox *sb)
{
    return sb->warm == WARM_DIRS && !sb->spec.entrypoint && !sb->patches;
}

int warm_launch(struct engine *e, struct sandbox *sb, struct err *err)
{
    struct write_job *row;

    pthread_mutex_lock(&sb->lock);
    sb->started_ns = mono_ns();
    sb->boots++;
    pthread_mutex_unlock(&sb->lock);
    if (is_complete(sb)) {
        writer_count(e, "created");
        row = writer_put_up(e, sb);
    } else {
        row = writer_put(e, sb);
    }
    if (writer_wait(e, row, err) < 0)
        return -1;
    return sandbox_set_up(e, sb, sb->warm == WARM_DIRS, err);
}

/* ---- making one ---- */

/* The row has the image, so that a start that throws the box away keeps its layers until then; a
 * power cut ends the box, so it waits for no disk. */
static int start_box(struct engine *e, struct sandbox *sb, const struct image *image,
                     struct err *err)
{
    struct box_root root = {.layers = image->layers, .binds = image->binds};
    bool has_dirs = dirs_plan(e, sb, &root);

    if (writer_wait(e, writer_put_state(e, sb), err) < 0 ||
        runtime_create(e->runtime, &sb->box, &root, &sb->spec.limits, err) < 0 ||
        network_attach_up(e, sb, err) < 0)
        return -1;
    return has_dirs ? 0 : dirs_make(e, sb, err);
}

/* Takes the spec and the image's count. */
static int make_box(struct engine *e, struct sandbox_spec *spec, struct image *image,
                    struct sandbox **ret, struct err *err)
{
    struct sandbox *sb;
    struct box box;

    if (prepared_make(e, &spec->limits, &box, err) < 0) {
        images_drop(e, image->id, spec->image);
        sandbox_spec_done(spec);
        return -1;
    }
    sb = sandbox_alloc(e, &box);
    sb->state = SANDBOX_PREPARED;
    sb->spec = *spec;
    sandbox_take_image(sb, image);
    if (start_box(e, sb, image, err) < 0) {
        warm_discard(e, sb);
        return -1;
    }
    *ret = sb;
    return 0;
}

static int take_image_of(struct engine *e, const struct sandbox_request *req, struct image **ret,
                         struct err *err)
{
    auto_free char *reference = NULL;

    if (req->image_id)
        return images_take_id(e, req->image_id, ret, err);
    reference = image_policy_reference(e->policy, req->image);
    return images_take(e, reference, ret, err);
}

/* Nothing is pulled or built for the pool: who wants that asks for it. The image is counted for the
 * box and not for a sandbox, so that it can be removed or replaced meanwhile. */
static int make_one(struct engine *e, const struct sandbox_request *req, struct sandbox **ret,
                    struct err *err)
{
    struct sandbox_spec spec;
    struct image *image;
    int r;

    if (space_check(e, err) < 0 || spec_read(e, req, &spec, err) < 0)
        return -1;
    if (take_image_of(e, req, &image, err) < 0) {
        sandbox_spec_done(&spec);
        return -1;
    }
    images_release(e, image->id);
    r = spec_take_image(e, req, image, &spec, err);
    if (r < 0) {
        images_drop(e, image->id, spec.image);
        sandbox_spec_done(&spec);
    } else {
        r = make_box(e, &spec, image, ret, err);
    }
    image_free(image);
    return r;
}

static int make_of(struct engine *e, const struct warm_profile *p, struct sandbox **ret,
                   struct err *err)
{
    struct sandbox_request req;
    json_t *hold = NULL;
    int r = warm_profile_request(e, p, &req, &hold, err);

    if (r == 0)
        r = make_one(e, &req, ret, err);
    json_decref(hold);
    if (r == 0 && p->helper && warm_helper_start(e, *ret, p->helper, err) < 0) {
        warm_discard(e, *ret);
        r = -1;
    }
    return r;
}

/* With the lock held. */
static void note_failure(struct warm_profile *p, const struct err *err)
{
    unsigned delay_s = p->failures < 5 ? 1u << p->failures : RETRY_S_MAX;

    if (!p->error || strcmp(p->error, err->text) != 0) {
        log_info("a profile of the pool cannot be filled now", "profile", warm_profile_word(p),
                 "error", err->text);
        free(p->error);
        p->error = xstrdup(err->text);
    }
    p->failures++;
    p->again_ns = mono_ns() + delay_s * 1000000000ll;
}

static void note_success(struct warm *w, struct warm_profile *p, struct sandbox *sb)
{
    struct waiting *box = xcalloc(1, sizeof(*box)), **at = &w->first;

    while (*at)
        at = &(*at)->next;
    *box = (struct waiting){.sb = sb, .profile = warm_profile_ref(p)};
    *at = box;
    p->ready++;
    p->limits = sb->spec.limits;
    p->failures = 0;
    p->again_ns = 0;
    free(p->error);
    p->error = NULL;
}

/* With the lock held, which is given up meanwhile. */
static void fill_one(struct engine *e, struct warm_profile *p)
{
    struct warm *w = e->warm;
    struct sandbox *sb = NULL;
    struct err err = {0};
    uint64_t seq;
    int r;

    (void)warm_profile_ref(p);
    seq = w->changes_seq;
    pthread_mutex_unlock(&w->lock);
    r = make_of(e, p, &sb, &err);
    pthread_mutex_lock(&w->lock);
    if (r < 0)
        note_failure(p, &err);
    else if (w->stop || p->gone)
        warm_discard(e, sb);
    else
        note_success(w, p, sb);
    if (r < 0 && w->changes_seq != seq)
        p->again_ns = 0; /* the attempt may have read what was there before the change */
    warm_profile_unref(p);
}

/* ---- looking after those that wait ---- */

/* Of the image that a box of it would be made from now; NULL = there is none. */
static char *image_id_of(struct engine *e, const struct warm_profile *p)
{
    auto_free char *reference = NULL;
    struct sandbox_request req;
    struct image *image = NULL;
    json_t *hold = NULL;
    char *id = NULL;

    if (warm_profile_request(e, p, &req, &hold, NULL) == 0) {
        reference = image_policy_reference(e->policy, req.image);
        if (req.image_id)
            id = xstrdup(req.image_id);
        else if (image_get(e->images, reference, &image, NULL) == 0)
            id = xstrdup(image->id);
    }
    image_free(image);
    json_decref(hold);
    return id;
}

void warm_drop_stale(struct engine *e, const struct warm_profile *p, const char *id)
{
    struct waiting **at = &e->warm->first;

    while (*at) {
        struct sandbox *sb = (*at)->sb;

        if ((*at)->profile == p && (!id || strcmp(id, sb->image_id) != 0 ||
                                    !warm_limits_same(&sb->spec.limits, &p->limits) ||
                                    !runtime_lives(e->runtime, &sb->box)))
            warm_discard(e, take_out(at));
        else
            at = &(*at)->next;
    }
}

/* With the lock held. */
static void set_next_look(struct engine *e)
{
    e->warm->look_ns = mono_ns() + e->config.waits.pool * 1000000ll;
}

/* With the lock held, which is given up meanwhile. */
static void look(struct engine *e)
{
    struct warm *w = e->warm;
    struct warm_profile *p = w->profiles, *next;

    set_next_look(e);
    if (p)
        (void)warm_profile_ref(p);
    for (; p; p = next) {
        auto_free char *id = NULL;
        struct sandbox_limits limits;
        bool known;

        pthread_mutex_unlock(&w->lock);
        id = image_id_of(e, p);
        known = warm_profile_limits(e, p, &limits, NULL) == 0;
        pthread_mutex_lock(&w->lock);
        if (known)
            p->limits = limits;
        warm_drop_stale(e, p, id);
        next = p->gone ? NULL : p->next; /* the rest next time */
        if (next)
            (void)warm_profile_ref(next);
        warm_profile_unref(p);
    }
}

void warm_sources_changed(struct engine *e)
{
    struct warm *w = e->warm;

    pthread_mutex_lock(&w->lock);
    w->changes_seq++;
    w->look_ns = 0;
    for (struct warm_profile *p = w->profiles; p; p = p->next)
        p->again_ns = 0;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}

/* ---- the thread ---- */

/* The emptiest that can be filled now. *ret_due: when another could be, at the latest. */
static struct warm_profile *choose(struct engine *e, int64_t now, int64_t *ret_due)
{
    struct warm *w = e->warm;
    struct warm_profile *best = NULL;
    unsigned ready = 0, room = roster_room(e);

    *ret_due = w->look_ns;
    for (struct warm_profile *p = w->profiles; p; p = p->next)
        ready += p->ready;
    for (struct warm_profile *p = w->profiles; p; p = p->next) {
        if (p->ready >= p->want.size || ready >= room)
            continue;
        if (p->again_ns > now)
            *ret_due = p->again_ns < *ret_due ? p->again_ns : *ret_due;
        else if (!best || p->ready < best->ready)
            best = p;
    }
    return best;
}

static void wait_until(struct warm *w, int64_t ns)
{
    struct timespec until = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    (void)pthread_cond_timedwait(&w->more, &w->lock, &until);
}

/* Creates come first: nothing is made before they have rested for a while. */
static void *warm_main(void *arg)
{
    struct engine *e = arg;
    struct warm *w = e->warm;

    thread_is_background();
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        int64_t now = mono_ns(), due;
        struct warm_profile *p = choose(e, now, &due);

        if (w->look_ns <= now)
            look(e);
        else if (!p)
            wait_until(w, due);
        else if (w->taken_ns + CALM_NS > now)
            wait_until(w, w->taken_ns + CALM_NS);
        else
            fill_one(e, p);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- start and stop ---- */

struct warm *warm_new(void)
{
    struct warm *w = xcalloc(1, sizeof(*w));

    pthread_mutex_init(&w->changes, NULL);
    pthread_mutex_init(&w->lock, NULL);
    cond_init_monotonic(&w->more);
    return w;
}

void warm_free(struct warm *w)
{
    if (!w)
        return;
    while (w->profiles) {
        struct warm_profile *p = w->profiles;

        w->profiles = p->next;
        warm_profile_unref(p);
    }
    documents_close(w->kept);
    pthread_mutex_destroy(&w->changes);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->more);
    free(w);
}

int warm_start(struct engine *e, struct err *err)
{
    struct warm *w = e->warm;
    struct warm_profile *profiles;
    int r;

    if (documents_open(e->config.data_dir, FOLDER, NULL, &w->kept, err) < 0)
        return -1;
    r = warm_profiles_load(e, w->kept, &profiles, err);
    pthread_mutex_lock(&w->lock); /* what recovery removes has images_collect() look at them */
    w->profiles = profiles;
    set_next_look(e);
    pthread_mutex_unlock(&w->lock);
    if (r < 0)
        return -1;
    r = pthread_create(&w->thread, NULL, warm_main, e);
    if (r != 0)
        return err_sys(err, r, "start the thread that fills the pool");
    w->running = true;
    return 0;
}

void warm_stop(struct engine *e)
{
    struct warm *w = e->warm;

    if (!w->running)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    w->running = false;
    while (w->first)
        warm_discard(e, take_out(&w->first));
}
