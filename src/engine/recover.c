#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/agent_client_internal.h"
#include "engine/background_internal.h"
#include "engine/boot_internal.h"
#include "engine/engine_internal.h"
#include "engine/idle_internal.h"
#include "engine/images_used_internal.h"
#include "engine/modify_internal.h"
#include "engine/mounts_internal.h"
#include "engine/network_internal.h"
#include "engine/news_internal.h"
#include "engine/ports_internal.h"
#include "engine/quiet_internal.h"
#include "engine/reaper_internal.h"
#include "engine/recover_internal.h"
#include "engine/restore_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/space_internal.h"
#include "engine/stop_internal.h"
#include "engine/strays_internal.h"
#include "engine/turn_internal.h"
#include "engine/writer_internal.h"
#include "model/sandbox.h"
#include "proto/call.h"
#include "runtime/runtime.h"
#include "store/store.h"

/* At start the rows are what was meant and the boxes are what is. A box that runs is taken as it
 * is; a row without one becomes stopped, or goes when it was never finished. One that was for a
 * single call goes in any case. */

struct rows {
    struct engine *engine;
    struct past {
        struct sandbox_row row;
        bool unwanted; /* half-made or half-removed, or without anybody who would remove it */
    } * list;
    unsigned n;
};

static int collect(const struct sandbox_row *from, void *arg)
{
    struct rows *rows = arg;
    struct sandbox_row *to;

    rows->list = xrealloc(rows->list, (rows->n + 1) * sizeof(*rows->list));
    rows->list[rows->n].unwanted = false;
    to = &rows->list[rows->n++].row;
    *to = *from;
    to->reason = from->reason ? xstrdup(from->reason) : NULL;
    to->config = from->config ? xstrdup(from->config) : NULL;
    to->boot_id = from->boot_id ? xstrdup(from->boot_id) : NULL;
    to->image_id = from->image_id ? xstrdup(from->image_id) : NULL;
    to->image_config = from->image_config ? xstrdup(from->image_config) : NULL;
    images_count(rows->engine, to->image_id);
    return 0;
}

static struct box box_of(const struct sandbox_row *row)
{
    struct box box = {.pid = row->pid, .pid_start = row->pid_start, .slot = row->slot};

    (void)snprintf(box.id, sizeof(box.id), "%s", row->id);
    return box;
}

static void load_image_config(struct sandbox *sb, const char *text)
{
    json_t *o = text ? json_loads(text, 0, NULL) : NULL;
    const char *user = json_string_value(json_object_get(o, "user"));
    size_t i;
    json_t *var;

    json_array_foreach(json_object_get(o, "env"), i, var)
    {
        if (json_is_string(var))
            sb->image_env = strv_add(sb->image_env, json_string_value(var));
    }
    sb->image_user = xstrdup(user ? user : "");
    sb->stop_signal = stop_signal_parse(json_string_value(json_object_get(o, "stopSignal")));
    json_decref(o);
}

static struct sandbox *load(struct engine *e, const struct sandbox_row *row, bool same_boot,
                            struct err *err)
{
    json_t *config = row->config ? json_loads(row->config, 0, NULL) : NULL;
    struct box box = box_of(row);
    struct sandbox_spec spec;
    int64_t now = now_ms();
    struct sandbox *sb;
    bool unfinished = json_is_true(json_object_get(config, SANDBOX_UNFINISHED));
    bool passing = json_is_true(json_object_get(config, SANDBOX_PASSING));
    int r = sandbox_spec_load(config, &spec, err);

    if (r < 0) {
        json_decref(config);
        return NULL;
    }
    sb = sandbox_alloc(e, &box);
    sb->spec = spec;
    drain_load(sb, json_object_get(config, SANDBOX_DRAINING));
    sb->stopped_ms = json_int(config, SANDBOX_STOPPED_AT);
    if (*json_text(config, SANDBOX_TENANT))
        sb->tenant = xstrdup(json_text(config, SANDBOX_TENANT));
    json_decref(config);
    atomic_store(&sb->unfinished, unfinished);
    sb->passing = passing;
    sb->state = row->state;
    sb->reason = row->reason ? xstrdup(row->reason) : NULL;
    sb->created_ms = row->created_ms;
    sb->started_ns = mono_ns() - (now - row->created_ms) * 1000000;
    sb->promised_mb = spec.limits.disk_mb;
    space_promised(e, sb->promised_mb);
    sb->image_id = xstrdup(row->image_id ? row->image_id : "");
    load_image_config(sb, row->image_config);
    sandbox_set_expiry(sb, now, row->expires_ms);
    if (same_boot)
        sb->deadline_ns = row->deadline_ns;
    return sb;
}

/* A box was destroyed and its range given to the next one, but the daemon ended before the row
 * was deleted. Of the rows that name one range a wanted one has it, else all have: who goes last
 * gives it back. */
static bool slot_is_anothers(const struct rows *rows, unsigned at)
{
    for (unsigned i = 0; i < rows->n; i++)
        if (rows->list[i].row.slot == rows->list[at].row.slot && !rows->list[i].unwanted)
            return true;
    return false;
}

/* Adopted: only so the runtime knows what there is to end, and who else has that range. */
static struct sandbox *adopt_unwanted(struct engine *e, const struct rows *rows, unsigned at)
{
    const char *image_id = rows->list[at].row.image_id;
    struct box box = box_of(&rows->list[at].row);
    struct sandbox *sb;

    if (slot_is_anothers(rows, at))
        box.slot = BOX_NO_SLOT;
    (void)runtime_adopt(e->runtime, &box, NULL);
    sb = sandbox_alloc(e, &box);
    sb->state = SANDBOX_REMOVING;
    sb->image_id = image_id ? xstrdup(image_id) : NULL;
    images_release(e, image_id);
    return sb;
}

/* All are adopted before the first goes. They go later, by the reaper: a box that is slow to go
 * must not hold up the start. */
static void discard_unwanted(struct engine *e, const struct rows *rows)
{
    auto_free struct sandbox **doomed = xcalloc(rows->n + 1, sizeof(*doomed));
    unsigned n = 0;

    for (unsigned i = 0; i < rows->n; i++)
        if (rows->list[i].unwanted)
            doomed[n++] = adopt_unwanted(e, rows, i);
    for (unsigned i = 0; i < n; i++) {
        reaper_doom(e, doomed[i]);
        sandbox_unref(doomed[i]);
    }
}

/* A box whose launch had just ended: what was to follow may not have been done. */
static int finish_create(struct engine *e, struct sandbox *sb, struct err *err)
{
    struct call_log log;

    if (agent_hello(e, sb, err) < 0)
        return -1;
    if (sb->spec.entrypoint && log_read(e, sb, "main", 0, 1, NULL, &log, NULL) == 0)
        return 0;
    return sandbox_set_up(e, sb, false, err);
}

static bool end_box(struct engine *e, struct sandbox *sb)
{
    struct err err = {0};

    if (runtime_stop(e->runtime, &sb->box, &err) == 0)
        return true;
    log_error("what is left of a sandbox could not be ended; trying again", "id", sb->box.id,
              "error", err.text);
    quiet_leave_rest(e, sb);
    return false;
}

static void stop_as(struct engine *e, struct sandbox *sb, const char *reason)
{
    (void)end_box(e, sb);
    (void)sandbox_move_stopped(e, sb, reason, NULL);
    roster_settle(e, sb);
    writer_leave(e, writer_put(e, sb));
    log_info("sandbox is stopped", "id", sb->box.id, "reason", reason);
    sandbox_tell(e, sb, "sandbox.lost", json_pack("{s:s}", "reason", reason));
}

/* One that a daemon was about to start, or to stop, may have a box. A process in the row is of a
 * cay that could not start it again, and gave it the life of one that runs. */
static void keep_stopped(struct engine *e, struct sandbox *sb, const struct sandbox_row *row)
{
    struct err err = {0};

    if (end_box(e, sb) && restore_finish(e, sb, &err) < 0)
        log_warn("a restore that was interrupted goes on when the sandbox is started", "id",
                 sb->box.id, "error", err.text);
    if (row->pid == 0)
        return;
    sandbox_stopped_life(e, sb);
    writer_leave(e, writer_put(e, sb));
}

static void keep_running(struct engine *e, struct sandbox *sb)
{
    bool paused = sb->state == SANDBOX_PAUSED;
    struct box_stats stats;
    struct err err = {0};

    /* One that runs may have been stopped by a commit that did not come to its end. */
    if (runtime_pause(e->runtime, &sb->box, paused, &err) < 0 && err.kind != ERR_UNSUPPORTED)
        log_warn(paused ? "a paused sandbox could not be paused again"
                        : "a sandbox could not be made to go on",
                 "id", sb->box.id, "error", err.text);
    /* What was killed for memory before us was told then, and is not the next command's end. */
    if (runtime_stats(e->runtime, &sb->box, &stats, NULL) == 0)
        sb->oom_seen = stats.oom_kills;
    modify_recover(e, sb);
    network_adopt(e, sb);
    reaper_watch(e, sb);
    idle_begin(e, sb);
    drain_recover(e, sb);
}

/* In its turn. True = it was never finished, or was for a call that has ended with the daemon, and
 * goes. */
static bool recover_in_turn(struct engine *e, struct sandbox *sb, const struct sandbox_row *row,
                            bool same_boot)
{
    bool creating = row->state == SANDBOX_CREATING, half;
    struct err why = {0};
    int alive;

    if (sb->passing)
        return true;
    alive = runtime_adopt(e->runtime, &sb->box, &why);
    if (alive < 0)
        log_warn("cannot tell whether a sandbox runs; taking it for stopped", "id", row->id,
                 "error", why.text);
    if (!same_boot)
        alive = 0;                                   /* whatever has that pid now */
    half = creating && atomic_load(&sb->unfinished); /* nobody was told that it is made */
    if (creating && !half && alive == 1 && finish_create(e, sb, &why) < 0) {
        log_warn("a sandbox that was being made does not answer and is removed", "id", row->id,
                 "error", why.text);
        alive = 0;
    }
    /* After a power cut nobody knows whether its maker was answered; then it is kept. */
    if (half || (creating && alive != 1 && same_boot))
        return true;
    /* With or without its box it was made: none that is being made can be stopped, or expires. */
    if (creating)
        (void)sandbox_move(sb, SANDBOX_RUNNING, NULL, NULL);
    roster_add(e, sb, false);
    /* One that was taken back without its row: what it runs on is not known to this start either.
     */
    if (alive == 1 && !*sb->image_id)
        atomic_store(&e->unknown_images, true);
    if (!store_has_note(e->store, row->id))
        writer_leave(e, writer_put(e, sb)); /* it is of a cay that wrote none */
    if (row->state == SANDBOX_STOPPED) {
        keep_stopped(e, sb, row);
        ports_recover(e, sb);
        return false;
    }
    if (alive != 1) {
        stop_as(e, sb, same_boot ? "lost" : "reboot");
        ports_recover(e, sb);
        return false;
    }
    keep_running(e, sb);
    mounts_recover(e, sb);
    ports_recover(e, sb);
    if (creating || sb->box.pid != row->pid)
        writer_leave(e, writer_put(e, sb));
    return false;
}

/* In its turn from before others can find it: those who sweep, watch and take away are at work. */
int recover_row(struct engine *e, const struct sandbox_row *row, bool *ret_discard, struct err *err)
{
    bool same_boot = row->boot_id && strcmp(row->boot_id, e->boot_id) == 0;
    auto_sandbox struct sandbox *sb = load(e, row, same_boot, err);

    if (!sb)
        return -1;
    turn_await(&sb->turn);
    *ret_discard = recover_in_turn(e, sb, row, same_boot);
    turn_give(&sb->turn);
    return 0;
}

/* Of a row that cannot be read: the note beside its disk may be whole. */
static int recover_note(struct engine *e, const char *id, bool *ret_discard)
{
    struct sandbox_row row = {0};
    auto_sandbox struct sandbox *sb = NULL;
    int r = store_note_read(e->store, id, &row);

    if (r == 0)
        r = recover_row(e, &row, ret_discard, NULL);
    sandbox_row_done(&row);
    sb = r == 0 ? roster_find(e, id) : NULL;
    if (sb) {
        log_warn("the row of a sandbox cannot be read; its note was taken", "id", id);
        writer_leave(e, writer_put(e, sb));
    }
    return r;
}

/* Those that go on first: they hold their id ranges before anything else is touched. */
static void sort_out(struct engine *e, struct rows *rows)
{
    for (unsigned i = 0; i < rows->n; i++) {
        const struct sandbox_row *row = &rows->list[i].row;
        struct err err = {0};

        if (row->state == SANDBOX_PREPARED || row->state == SANDBOX_REMOVING)
            rows->list[i].unwanted = true;
        else if (recover_row(e, row, &rows->list[i].unwanted, &err) < 0 &&
                 recover_note(e, row->id, &rows->list[i].unwanted) < 0)
            log_error("a sandbox cannot be read from the database and is left alone", "id", row->id,
                      "error", err.text);
    }
    discard_unwanted(e, rows);
}

/* The id ranges of rows and of strays; the others that are ours are free. */
static void keep_ranges(const struct rows *rows, const uint32_t *strays, size_t n_strays)
{
    auto_free uint32_t *slots = xcalloc(rows->n + n_strays + 1, sizeof(*slots));
    size_t n = 0;

    for (unsigned i = 0; i < rows->n; i++)
        slots[n++] = rows->list[i].row.slot;
    for (size_t i = 0; i < n_strays; i++)
        slots[n++] = strays[i];
    runtime_keep_ranges(rows->engine->runtime, slots, n);
}

int recover(struct engine *e, struct err *err)
{
    struct rows rows = {.engine = e};
    auto_free uint32_t *strays = NULL;
    size_t n_strays = 0;
    int r = store_each_sandbox(e->store, collect, &rows, err);

    if (r == 0) {
        sort_out(e, &rows);
        strays_sort_out(e, &strays, &n_strays);
        keep_ranges(&rows, strays, n_strays);
        images_collect(e);
    }
    for (unsigned i = 0; i < rows.n; i++)
        sandbox_row_done(&rows.list[i].row);
    free(rows.list);
    return r;
}
