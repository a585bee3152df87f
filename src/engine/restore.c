#include "engine/restore_internal.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/boot_internal.h"
#include "engine/engine_internal.h"
#include "engine/images_used_internal.h"
#include "engine/news_internal.h"
#include "engine/quiet_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/snapshots.h"
#include "engine/snapshots_internal.h"
#include "engine/space_internal.h"
#include "engine/still_internal.h"
#include "engine/writer_internal.h"
#include "image/image.h"
#include "model/sandbox.h"
#include "runtime/runtime.h"

/* A sandbox gets the files of a snapshot back, under its id. What it is made from becomes the
 * snapshot's image, and its disk an empty one:
 *
 * 1. The row says "stopped (restoring)" with the new image. Before it nothing has happened; from
 *    here on the old disk is unwanted, whoever comes: the snapshot is what the sandbox is.
 * 2. The box ends, and the disk is replaced.
 * 3. The row says "restored", so that this is not done again to what is written from now on.
 * 4. A box comes up.
 *
 * When the daemon ends in between, its successor goes on from 2 to 3, and the sandbox is stopped.
 */

#define RESTORING "restoring"
#define RESTORED  "restored"

static void set_reason(struct sandbox *sb, const char *reason)
{
    pthread_mutex_lock(&sb->lock);
    free(sb->reason);
    sb->reason = xstrdup(reason);
    pthread_mutex_unlock(&sb->lock);
}

int restore_finish(struct engine *e, struct sandbox *sb, struct err *err)
{
    if (sb->state != SANDBOX_STOPPED || !sb->reason || strcmp(sb->reason, RESTORING) != 0)
        return 0;
    if (runtime_disk_replace(e->runtime, &sb->box, sb->spec.limits.disk_mb, err) < 0)
        return -1;
    set_reason(sb, RESTORED);
    if (writer_wait(e, writer_put(e, sb), err) == 0)
        return 0;
    set_reason(sb, RESTORING);
    return -1;
}

/* The one before is freed with the sandbox: others may look at it without a lock. */
static void set_image(struct sandbox *sb, char *image_id)
{
    pthread_mutex_lock(&sb->lock);
    sb->images_before =
        xrealloc(sb->images_before, (sb->n_images_before + 1) * sizeof(*sb->images_before));
    sb->images_before[sb->n_images_before++] = sb->image_id;
    sb->image_id = image_id;
    pthread_mutex_unlock(&sb->lock);
}

/* Step 1, and the end of the box. -1 and *ret_done false: it is as it was. */
static int let_go(struct engine *e, struct sandbox *sb, bool was_stopped, bool *ret_done,
                  struct err *err)
{
    auto_free char *reason = sb->reason ? xstrdup(sb->reason) : NULL;
    int r;

    if (!was_stopped) {
        runtime_disk_abandon(e->runtime, &sb->box, true);
        r = sandbox_halt(e, sb, RESTORING, err);
        *ret_done = sb->state == SANDBOX_STOPPED;
        if (!*ret_done)
            runtime_disk_abandon(e->runtime, &sb->box, false);
        return r;
    }
    set_reason(sb, RESTORING);
    r = writer_wait(e, writer_put(e, sb), err);
    *ret_done = r == 0;
    if (r < 0)
        set_reason(sb, reason ? reason : "");
    return r;
}

/* With its turns. The new image is counted; one of the two is not any more when this returns. */
static int restore(struct engine *e, struct sandbox *sb, const char *image_id, struct err *err)
{
    bool was_stopped = sb->state == SANDBOX_STOPPED, done;
    const char *old = sb->image_id, *unwanted;
    int r;

    if (was_stopped && (quiet_end(e, sb, err) < 0 || restore_finish(e, sb, err) < 0)) {
        images_release(e, image_id);
        images_drop(e, image_id, NULL);
        return -1;
    }
    set_image(sb, xstrdup(image_id));
    r = let_go(e, sb, was_stopped, &done, err);
    if (!done)
        set_image(sb, xstrdup(old));
    unwanted = done ? old : image_id;
    if (done && r == 0)
        r = sandbox_boot(e, sb, was_stopped ? 0 : BOOT_SAME_LIFE, err);
    images_release(e, unwanted);
    images_drop(e, unwanted, sb->spec.image);
    return r;
}

static int in_turn(struct engine *e, struct sandbox *sb, const char *image_id,
                   const char *snapshot_id, json_t **ret, struct err *err)
{
    struct image *image = NULL;
    int r;

    if (turn_take(e, &sb->turn, err) < 0)
        return -1;
    r = sb->state == SANDBOX_REMOVING ? sandbox_check_running(sb, err) : roster_place(e, sb, err);
    if (r == 0) {
        r = images_take_id(e, image_id, &image, err);
        if (r == 0)
            r = restore(e, sb, image_id, err);
        roster_settle(e, sb);
    }
    if (r == 0) {
        *ret = sandbox_json(e, sb);
        sandbox_tell(e, sb, "sandbox.restored", json_pack("{s:s}", "snapshotId", snapshot_id));
    }
    turn_give(&sb->turn);
    image_free(image);
    return r;
}

static int check_owner(const json_t *o, const struct sandbox *sb, struct err *err)
{
    const char *of = json_string_value(json_object_get(o, "sandboxId"));

    if (of && strcmp(of, sb->box.id) == 0)
        return 0;
    return err_code(err, ERR_CONFLICT, "snapshot_of_another",
                    "%s is a snapshot of %s: make a new sandbox from it (POST .../clone, `cay "
                    "snapshot clone`)",
                    json_string_value(json_object_get(o, "id")), of ? of : "no sandbox");
}

int engine_restore(struct engine *e, const char *sandbox_id, const char *snapshot_id, json_t **ret,
                   struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    json_t *o;
    int r;

    if (sandbox_get(e, sandbox_id, &sb, err) < 0 ||
        snapshot_hold(e, snapshot_id, sb->box.id, &o, err) < 0)
        return -1;
    r = check_owner(o, sb, err);
    if (r == 0)
        r = space_check(e, err); /* the old disk is gone before the new one has its room */
    if (r == 0)
        r = still_claim(e, sb, true, err);
    if (r == 0) {
        r = in_turn(e, sb, json_string_value(json_object_get(o, "imageId")),
                    json_string_value(json_object_get(o, "id")), ret, err);
        still_release(e, sb);
    }
    snapshot_let_go(e, o);
    return r;
}
