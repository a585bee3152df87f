#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/background_internal.h"
#include "engine/boot_internal.h"
#include "engine/dirs_internal.h"
#include "engine/engine_internal.h"
#include "engine/exec.h"
#include "engine/exec_internal.h"
#include "engine/mounts_internal.h"
#include "engine/network_internal.h"
#include "engine/patches_internal.h"
#include "engine/quiet_internal.h"
#include "engine/reaper_internal.h"
#include "engine/restore_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/stop_internal.h"
#include "engine/volumes_internal.h"
#include "engine/writer_internal.h"
#include "image/image.h"
#include "runtime/runtime.h"

/* How the box of a sandbox comes up and goes, for all who need one: a create, a start, a restore.
 */

/* The agent is an older one only when a daemon died in the midst of a create and its successor is
 * of a newer version. */
static int start_main(struct engine *e, struct sandbox *sb, struct err *err)
{
    struct exec_request req = {.argv = sb->spec.entrypoint, .apart = true};
    struct err why = {0};
    auto_close int fd = -1;
    uint32_t pid;

    if (exec_start(e, sb, &req, "main", EXEC_LOG_MAX, &fd, &pid, &why) == 0)
        return 0;
    if (why.kind == ERR_INVALID && strstr(why.text, "unknown flags")) {
        req.apart = false;
        return exec_start(e, sb, &req, "main", EXEC_LOG_MAX, &fd, &pid, err);
    }
    if (err)
        *err = why;
    return -1;
}

/* The row that says that they are there comes before anything runs: a start in between would find
 * a box of which it cannot tell how far it has come. */
static int apply_patches(struct engine *e, struct sandbox *sb, struct err *err)
{
    if (patches_apply(e, sb, sb->patches, err) < 0)
        return -1;
    atomic_store(&sb->unfinished, false);
    return writer_wait(e, writer_put(e, sb), err);
}

int sandbox_set_up(struct engine *e, struct sandbox *sb, bool has_dirs, struct err *err)
{
    if (!has_dirs && dirs_make(e, sb, err) < 0)
        return -1;
    if (sb->patches && apply_patches(e, sb, err) < 0)
        return -1;
    if (sb->spec.entrypoint && start_main(e, sb, err) < 0)
        return err_wrap(err, "start the entrypoint");
    main_state_begin(sb);
    return 0;
}

/* ---- coming up ---- */

static void note_box(struct sandbox *sb, const struct box *box)
{
    pthread_mutex_lock(&sb->lock);
    sb->box.pid = box->pid;
    sb->box.pid_start = box->pid_start;
    sb->box.slot = box->slot;
    sb->started_ns = mono_ns();
    sb->boots++;
    sb->sample_ns = 0;
    sb->sample_cpu_ns = 0;
    sb->oom_seen = 0;
    pthread_mutex_unlock(&sb->lock);
    agent_answered(sb); /* what the one before did not */
}

/* Up, but for its network if that is wanted. */
static int create_box(struct engine *e, struct sandbox *sb, struct box *box, struct box_root *root,
                      struct err *err)
{
    struct open_mounts mounts;
    int r = mounts_open(e, sb, &mounts, err);

    root->mounts = mounts.list;
    root->n_mounts = mounts.n;
    if (r == 0)
        r = runtime_create(e->runtime, box, root, &sb->spec.limits, err);
    mounts_close(&mounts);
    return r;
}

/* A row of what is meant, if there is one to write, is written while the box comes up, and so is
 * its network made. A box for files has none. */
static int make_box(struct engine *e, struct sandbox *sb, struct box_root *root, bool quiet,
                    struct write_job *intent, struct err *err)
{
    struct network_attach net = {0};
    struct err write_err = {0};
    struct box box = sb->box;
    int made, written = 0;

    if (intent)
        writer_begin(e, intent);
    if (!quiet)
        network_begin(e, sb, &net);
    made = create_box(e, sb, &box, root, err);
    note_box(sb, &box);
    if (network_end(&net, made == 0, err) < 0)
        made = -1;
    if (intent)
        written = writer_wait(e, intent, &write_err);
    if (made < 0)
        return -1;
    if (written < 0 && err)
        *err = write_err;
    return written;
}

/* Until its row of intent is there, the PREPARED row leads recovery to the same box. */
int sandbox_launch(struct engine *e, struct sandbox *sb, const struct image *image, struct err *err)
{
    struct box_root root = {.layers = image->layers, .binds = image->binds};
    bool has_dirs = dirs_plan(e, sb, &root);

    if (make_box(e, sb, &root, false, writer_put(e, sb), err) < 0)
        return -1;
    return sandbox_set_up(e, sb, has_dirs, err);
}

/* ---- going ---- */

static void forget_process(struct sandbox *sb)
{
    pthread_mutex_lock(&sb->lock);
    sb->box.pid = 0;
    sb->box.pid_start = 0;
    pthread_mutex_unlock(&sb->lock);
}

void sandbox_stopped_life(struct engine *e, struct sandbox *sb)
{
    int64_t now = now_ms();

    if (sb->expires_ms < EXPIRES_NEVER) /* what has no end stays */
        sandbox_set_expiry(sb, now, sandbox_expiry(now, e->config.stopped_ttl_s));
    forget_process(sb);
}

int sandbox_move_stopped(struct engine *e, struct sandbox *sb, const char *reason, struct err *err)
{
    int64_t life_ms = sb->expires_ms;

    if (sandbox_move(sb, SANDBOX_STOPPED, reason, err) < 0)
        return -1;
    pthread_mutex_lock(&sb->lock);
    sb->life_ms = life_ms;
    sb->stopped_ms = now_ms();
    pthread_mutex_unlock(&sb->lock);
    sandbox_stopped_life(e, sb);
    return 0;
}

/* As it was before sandbox_move_stopped(). */
static void move_back(struct engine *e, struct sandbox *sb, enum sandbox_state was,
                      const struct box *box, int64_t expires_ms, int64_t deadline_ns)
{
    (void)sandbox_move(sb, SANDBOX_RUNNING, NULL, NULL);
    if (was == SANDBOX_PAUSED)
        (void)sandbox_move(sb, SANDBOX_PAUSED, NULL, NULL);
    pthread_mutex_lock(&sb->lock);
    sb->box = *box;
    sb->expires_ms = expires_ms;
    sb->deadline_ns = deadline_ns;
    pthread_mutex_unlock(&sb->lock);
    reaper_watch(e, sb);
}

static void has_gone(struct engine *e, struct sandbox *sb)
{
    network_detach(e, sb);
    quiet_set(sb, QUIET_NOTHING);
    volumes_settle(e, sb->spec.mounts);
}

/* The row first: who starts after a crash ends what it finds of a stopped one. */
int sandbox_halt(struct engine *e, struct sandbox *sb, const char *reason, struct err *err)
{
    int64_t expires_ms = sb->expires_ms, deadline_ns = sb->deadline_ns;
    enum sandbox_state was = sb->state;
    struct box box = sb->box;

    if (was == SANDBOX_RUNNING)
        execs_keep(e, sb, EXECS_KEEP_MS);
    if (was != SANDBOX_STOPPED) {
        reaper_unwatch(e, sb);
        if (sandbox_move_stopped(e, sb, reason, err) < 0)
            return -1;
        if (writer_wait(e, writer_put(e, sb), err) < 0) {
            move_back(e, sb, was, &box, expires_ms, deadline_ns);
            return -1;
        }
    }
    close_fd(&sb->interrupt_fd);
    if (runtime_stop(e->runtime, &sb->box, err) < 0) {
        quiet_leave_rest(e, sb);
        return -1;
    }
    has_gone(e, sb);
    return 0;
}

/* ---- coming up again ---- */

/* For its files any will do: what it wrote is on its disk. */
static int find_image(struct engine *e, struct sandbox *sb, unsigned flags, struct image **ret,
                      struct err *err)
{
    bool known = sb->image_id && *sb->image_id;

    if (!known && !(flags & BOOT_QUIET))
        return err_code(err, ERR_CONFLICT, "conflict",
                        "what %s was made from is not known any more, so it cannot be started",
                        sb->box.id);
    if (image_get(e->images, known ? sb->image_id : "host", ret, err) < 0)
        return err_wrap(err, "the image of %s", sb->box.id);
    return 0;
}

/* What is meant is that it is kept for a while from now: should the row that says that it runs be
 * lost in a power cut, the one before may be at its end. */
static int bring_up(struct engine *e, struct sandbox *sb, unsigned flags, struct err *err)
{
    struct image *image;
    struct box_root root = {0};
    struct write_job *intent = NULL;
    int r;

    if (restore_finish(e, sb, err) < 0 || find_image(e, sb, flags, &image, err) < 0)
        return -1;
    root.layers = image->layers;
    root.binds = image->binds;
    (void)dirs_plan(e, sb, &root); /* a power cut may have taken them from the disk */
    if (!(flags & BOOT_QUIET)) {
        sandbox_stopped_life(e, sb);
        intent = writer_put(e, sb);
    }
    r = make_box(e, sb, &root, flags & BOOT_QUIET, intent, err);
    image_free(image);
    return r;
}

static void set_life(struct sandbox *sb, unsigned flags)
{
    int64_t now = now_ms();

    sandbox_set_expiry(
        sb, now, flags & BOOT_SAME_LIFE ? sb->life_ms : sandbox_expiry(now, sb->spec.timeout_s));
}

static void take_down(struct engine *e, struct sandbox *sb)
{
    if (runtime_stop(e->runtime, &sb->box, NULL) < 0)
        quiet_leave_rest(e, sb);
    else
        has_gone(e, sb);
    forget_process(sb);
}

/* Synced unless a row of intent was. */
static int become_running(struct engine *e, struct sandbox *sb, unsigned flags, bool synced,
                          struct err *err)
{
    auto_free char *reason = sb->reason ? xstrdup(sb->reason) : NULL;

    set_life(sb, flags);
    (void)drain_clear(sb);
    (void)sandbox_move(sb, SANDBOX_RUNNING, NULL, NULL);
    if (writer_wait(e, synced ? writer_put_state(e, sb) : writer_put(e, sb), err) < 0) {
        (void)sandbox_move_stopped(e, sb, reason, NULL);
        return -1;
    }
    reaper_watch(e, sb);
    return 0;
}

static int make_run(struct engine *e, struct sandbox *sb, unsigned flags, bool synced,
                    struct err *err)
{
    if (sandbox_set_up(e, sb, true, err) < 0)
        return -1;
    return become_running(e, sb, flags, synced, err);
}

/* Until the row says that it runs, a start after a crash ends the box again. That there is
 * something of a box is said before: it has volumes open. */
int sandbox_boot(struct engine *e, struct sandbox *sb, unsigned flags, struct err *err)
{
    bool has_box = quiet_has_box(e, sb), quiet = flags & BOOT_QUIET;
    int r = 0;

    if (!has_box) {
        quiet_set(sb, QUIET_REST);
        r = bring_up(e, sb, flags, err);
    }
    if (r == 0 && !quiet && has_box)
        r = network_attach_up(e, sb, err);
    if (r == 0 && !quiet)
        r = make_run(e, sb, flags, !has_box, err);
    if (r < 0)
        take_down(e, sb);
    else
        quiet_set(sb, quiet ? QUIET_BOX : QUIET_NOTHING);
    return r;
}
