#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/images.h"
#include "engine/sandbox_internal.h"
#include "engine/snapshots_internal.h"
#include "engine/space_internal.h"
#include "engine/still_internal.h"
#include "engine/watch.h"
#include "image/image.h"

/* What a sandbox changed becomes a layer. It stands still from begin to end, which image_snapshot
 * keeps to the copying. */

struct taking {
    struct engine *engine;
    struct sandbox *sb;
    const struct engine_watch *watch;
    int disk;
    char *held; /* the image, which is kept from before it is there; NULL = not yet known */
};

static int begin(void *arg, struct err *err)
{
    struct taking *t = arg;

    return still_begin(t->engine, t->sb, err);
}

static void end(void *arg)
{
    struct taking *t = arg;

    close_fd(&t->disk); /* before its box may go */
    still_end(t->engine, t->sb);
}

int snapshot_check_watch(const struct engine_watch *watch, struct err *err)
{
    if (engine_watch_is_over(watch))
        return err_code(err, ERR_CONFLICT, "cancelled", "nobody waited for it any more");
    return 0;
}

static int goes_on(void *arg, struct err *err)
{
    struct taking *t = arg;

    if (snapshot_check_watch(t->watch, err) < 0)
        return -1;
    return still_goes_on(t->engine, t->sb, err);
}

static void hold(const char *image_id, void *arg)
{
    struct taking *t = arg;

    engine_image_hold(t->engine, image_id);
    t->held = xstrdup(image_id);
}

/* With its commit_turn. */
static int take(struct taking *t, int64_t *ret_bytes, unsigned *ret_own, char **ret_warning,
                struct err *err)
{
    struct image_snapshot snap = {
        .base_id = t->sb->image_id,
        .begin = begin,
        .end = end,
        .goes_on = goes_on,
        .made = hold,
        .arg = t,
    };

    int r;

    if (still_open_disk(t->engine, t->sb, &t->disk, &snap.ids_base, err) < 0)
        return -1;
    snap.scratch_fd = t->disk;
    r = image_snapshot(t->engine->images, &snap, ret_bytes, ret_own, ret_warning, err);
    close_fd(&t->disk);
    return r;
}

int snapshot_take(struct engine *e, struct sandbox *sb, const struct engine_watch *watch,
                  char **ret_image_id, int64_t *ret_bytes, char **ret_warning, struct err *err)
{
    struct taking t = {.engine = e, .sb = sb, .watch = watch, .disk = -1};
    unsigned own;
    int r;

    if (space_check(e, err) < 0)
        return -1;
    if (!sb->image_id || !*sb->image_id)
        return err_set(err, ERR_CONFLICT,
                       "what %s was made from is not known any more, so it has no snapshots",
                       sb->box.id);
    if (still_claim(e, sb, true, err) < 0)
        return -1;
    r = take(&t, ret_bytes, &own, ret_warning, err);
    still_release(e, sb);
    if (r == 0) {
        if (own > OWN_MAX)
            flatten_now(e, &t.held);
        *ret_image_id = t.held;
        return 0;
    }
    if (t.held)
        engine_image_let_go(e, t.held);
    free(t.held);
    return -1;
}
