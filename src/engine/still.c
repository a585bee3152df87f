#include "engine/still_internal.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/long_work_internal.h"
#include "engine/quiet_internal.h"
#include "engine/reaper_internal.h"
#include "engine/restore_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/writer_internal.h"
#include "model/sandbox.h"
#include "runtime/runtime.h"

int still_claim(struct engine *e, struct sandbox *sb, bool patience, struct err *err)
{
    if (patience ? turn_take(e, &sb->commit_turn, err) < 0 : !turn_try(&sb->commit_turn))
        return patience ? -1
                        : err_code(err, ERR_UNAVAILABLE, "sandbox_busy",
                                   "%s is being committed already; try again when that is done",
                                   sb->box.id);
    if (worker_begin(e, err) == 0)
        return 0;
    turn_give(&sb->commit_turn);
    return -1;
}

void still_release(struct engine *e, struct sandbox *sb)
{
    worker_end(e);
    turn_give(&sb->commit_turn);
}

/* It could not be made to go on: that can be tried again when its state says so. */
static void stays_paused(struct engine *e, struct sandbox *sb, const struct err *why)
{
    log_error("a sandbox stays paused after its disk was read", "id", sb->box.id, "error",
              why->text);
    if (sandbox_move(sb, SANDBOX_PAUSED, NULL, NULL) == 0)
        writer_leave(e, writer_put_state(e, sb));
}

/* In its turn: of one that is stopped nothing but the disk is there, and that is the one it is to
 * have. */
static int settle(struct engine *e, struct sandbox *sb, enum sandbox_state *ret, struct err *err)
{
    pthread_mutex_lock(&sb->lock);
    *ret = sb->state;
    pthread_mutex_unlock(&sb->lock);
    if (*ret == SANDBOX_REMOVING)
        return sandbox_check_running(sb, err);
    if (*ret == SANDBOX_STOPPED && (quiet_end(e, sb, err) < 0 || restore_finish(e, sb, err) < 0))
        return -1;
    return 0;
}

int still_open_disk(struct engine *e, struct sandbox *sb, int *ret_fd, uint32_t *ret_ids_base,
                    struct err *err)
{
    enum sandbox_state state;
    int r;

    if (turn_take(e, &sb->turn, err) < 0)
        return -1;
    r = settle(e, sb, &state, err);
    if (r == 0)
        r = runtime_disk_open(e->runtime, &sb->box, true, ret_fd, ret_ids_base, err);
    turn_give(&sb->turn);
    return r;
}

/* In its turn, as its end is; what takes long is between the two, in nobody's way. */
static int begin(struct engine *e, struct sandbox *sb, struct err *err)
{
    enum sandbox_state state;

    if (settle(e, sb, &state, err) < 0)
        return -1;
    if (state == SANDBOX_RUNNING && runtime_pause(e->runtime, &sb->box, true, err) < 0)
        return -1;
    pthread_mutex_lock(&sb->lock);
    sb->committing = true;
    pthread_mutex_unlock(&sb->lock);
    return 0;
}

int still_begin(struct engine *e, struct sandbox *sb, struct err *err)
{
    int r;

    if (turn_take(e, &sb->turn, err) < 0)
        return -1;
    r = begin(e, sb, err);
    turn_give(&sb->turn);
    return r;
}

void still_end(struct engine *e, struct sandbox *sb)
{
    enum sandbox_state state;
    struct err why = {0};

    turn_await(&sb->turn);
    pthread_mutex_lock(&sb->lock);
    sb->committing = false;
    state = sb->state;
    pthread_mutex_unlock(&sb->lock);
    if (state == SANDBOX_RUNNING && runtime_pause(e->runtime, &sb->box, false, &why) < 0)
        stays_paused(e, sb, &why);
    if (state == SANDBOX_REMOVING)
        reaper_doom(e, sb);
    turn_give(&sb->turn);
}

int still_goes_on(struct engine *e, struct sandbox *sb, struct err *err)
{
    if (atomic_load(&sb->commit_off))
        return err_code(err, ERR_CONFLICT, "commit_interrupted",
                        "%s was removed while it was committed; there is no image of it",
                        sb->box.id);
    if (atomic_load(&e->draining))
        return err_set(err, ERR_UNAVAILABLE, "cay is stopping; try again when it runs");
    return 0;
}
