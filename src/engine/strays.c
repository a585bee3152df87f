#include "engine/strays.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/images_used_internal.h"
#include "engine/news_internal.h"
#include "engine/recover_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/strays_internal.h"
#include "engine/writer_internal.h"
#include "runtime/runtime.h"
#include "store/store.h"

/* What has no row is told apart by what it says of itself:
 *  1. A disk that was never given out, or whose sandbox somebody removed: it goes.
 *  2. An id without disk and without processes: empty folders and groups, which go.
 *  3. A box that runs: it becomes a sandbox again.
 *  4. Anything else is an operator's to decide.
 * A disk with a note of its own is not here: it got its row back when the store was opened. */

/* ---- making a sandbox of one ---- */

/* What nobody knows any more (its image, name, environment and limits) takes the default; it gets
 * all the time there is. */
static int take(struct engine *e, const struct box *box, enum sandbox_state state, bool *ret_dead,
                struct err *err)
{
    struct sandbox_spec spec = {.image = (char[]){"unknown"},
                                .timeout_s = e->config.ceilings.timeout_s,
                                .limits = e->config.default_limits,
                                .workdir = (char *)(uintptr_t)e->config.workspace,
                                .metadata = json_pack("{s:s}", "recovered", "true")};
    bool stopped = state == SANDBOX_STOPPED;
    int64_t now = now_ms();
    int64_t expires_ms = sandbox_expiry(now, stopped ? e->config.stopped_ttl_s : spec.timeout_s);
    json_t *object = sandbox_spec_json(&spec);
    auto_free char *config = json_dumps(object, 0);
    struct sandbox_row row = {.state = state,
                              .reason = stopped ? (char[]){"recovered"} : NULL,
                              .created_ms = now,
                              .expires_ms = expires_ms,
                              .deadline_ns = mono_ns() + (expires_ms - now) * 1000000,
                              .config = config,
                              .boot_id = e->boot_id,
                              .pid = box->pid,
                              .pid_start = box->pid_start,
                              .slot = box->slot};

    json_decref(object);
    json_decref(spec.metadata);
    (void)snprintf(row.id, sizeof(row.id), "%s", box->id);
    return recover_row(e, &row, ret_dead, err);
}

/* As if it had been made just now: that asks its agent whether it is there. */
static bool take_running(struct engine *e, const struct box *box)
{
    struct err err = {0};
    bool dead = false;

    if (take(e, box, SANDBOX_CREATING, &dead, &err) < 0)
        log_error("a box without a row cannot be taken back", "id", box->id, "error", err.text);
    else if (!dead)
        log_warn("a sandbox was taken back without its row", "id", box->id);
    return !dead;
}

/* ---- at the start ---- */

struct sorting {
    struct engine *e;
    uint32_t *slots;
    size_t n;
};

static bool is_known(struct engine *e, const char *id)
{
    struct sandbox *sb = roster_find(e, id);

    sandbox_unref(sb);
    return sb || store_has_sandbox(e->store, id);
}

static bool remove_rubbish(struct engine *e, const struct box *box)
{
    struct box nameless = *box;
    struct err err = {0};

    nameless.slot = BOX_NO_SLOT; /* it may be another's by now */
    if (runtime_destroy(e->runtime, &nameless, &err) < 0) {
        log_error("a leftover of an earlier run could not be removed; the next start tries again",
                  "id", box->id, "error", err.text);
        return false;
    }
    store_note_remove(e->store, box->id);
    return true;
}

static void leave(struct engine *e, struct box_trace *trace)
{
    char bytes[24];

    (void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)trace->disk_bytes);
    log_warn("a disk has no owner and is left alone; `cay doctor` shows it", "id", trace->box.id,
             "path", trace->path, "bytes", bytes);
    trace->box.pid = 0;
    (void)runtime_adopt(e->runtime, &trace->box, NULL); /* keeps its id range from others */
}

static void keep_range(struct sorting *s, uint32_t slot)
{
    s->slots = xrealloc(s->slots, (s->n + 1) * sizeof(*s->slots));
    s->slots[s->n++] = slot;
}

static void sort_out(const char *id, void *arg)
{
    struct sorting *s = arg;
    struct box_trace trace;

    if (is_known(s->e, id))
        return;
    runtime_trace(s->e->runtime, id, &trace);
    if (store_note_says_rubbish(s->e->store, id) ||
        (!trace.has_disk && !trace.running && trace.processes == 0)) {
        if (!remove_rubbish(s->e, &trace.box))
            keep_range(s, trace.box.slot); /* something of it may run on */
        return;
    }
    if (!trace.running || !take_running(s->e, &trace.box))
        leave(s->e, &trace);
    atomic_store(&s->e->unknown_images, true);
    keep_range(s, trace.box.slot);
}

void strays_sort_out(struct engine *e, uint32_t **ret, size_t *ret_n)
{
    struct sorting s = {.e = e};

    runtime_each(e->runtime, sort_out, &s);
    *ret = s.slots;
    *ret_n = s.n;
}

/* ---- by an operator's word ---- */

struct stray_listing {
    struct engine *e;
    json_t *all;
    uint64_t bytes;
};

/* Rows come before what they lead to and go after it, so that what has none now had none when it
 * was found, or is gone. */
static bool is_stray(struct engine *e, const char *id, struct box_trace *ret)
{
    if (!id_valid(id, "sbx") || is_known(e, id))
        return false;
    runtime_trace(e->runtime, id, ret);
    return ret->has_disk || ret->processes > 0;
}

static void list(const char *id, void *arg)
{
    struct stray_listing *l = arg;
    struct box_trace trace;

    if (!is_stray(l->e, id, &trace))
        return;
    l->bytes += trace.disk_bytes;
    (void)json_array_append_new(l->all, json_pack("{s:s, s:s, s:I, s:I}", "id", id, "path",
                                                  trace.path, "bytes", (json_int_t)trace.disk_bytes,
                                                  "processes", (json_int_t)trace.processes));
}

int engine_strays(struct engine *e, json_t **ret, struct err *err)
{
    struct stray_listing l = {.e = e, .all = json_array()};

    (void)err;
    runtime_each(e->runtime, list, &l);
    *ret = json_pack("{s:o, s:I}", "strays", l.all, "bytes", (json_int_t)l.bytes);
    return 0;
}

static int find_stray(struct engine *e, const char *id, struct box_trace *ret, struct err *err)
{
    if (is_stray(e, id, ret))
        return 0;
    return err_code(err, ERR_NOT_FOUND, "stray_not_found", "Nothing without an owner has the id %s",
                    id);
}

static int adopt(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct box_trace trace = {0};
    bool dead = false;

    if (find_stray(e, id, &trace, err) < 0)
        return -1;
    if (trace.processes > 0)
        return err_code(err, ERR_CONFLICT, "conflict",
                        "%s has processes that nobody can reach; it can only be removed", id);
    trace.box.pid = 0;
    if (take(e, &trace.box, SANDBOX_STOPPED, &dead, err) < 0 || sandbox_get(e, id, &sb, err) < 0 ||
        writer_wait(e, writer_put(e, sb), err) < 0)
        return -1;
    log_info("a disk without an owner became a sandbox", "id", id);
    sandbox_tell(e, sb, "sandbox.adopted", NULL);
    *ret = sandbox_json(e, sb);
    return 0;
}

int engine_stray_adopt(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    int r;

    pthread_mutex_lock(&e->strays_lock);
    r = adopt(e, id, ret, err);
    pthread_mutex_unlock(&e->strays_lock);
    return r;
}

static bool stands_on_unknown(struct sandbox *sb, const void *arg)
{
    bool yes;

    (void)arg;
    pthread_mutex_lock(&sb->lock);
    yes = sb->state != SANDBOX_STOPPED && sb->image_id && !*sb->image_id;
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

/* Layers may go again when nothing is left of which nobody knows what it stands on. */
static void collect_again(struct engine *e)
{
    struct stray_listing l = {.e = e, .all = json_array()};
    size_t n, total;

    runtime_each(e->runtime, list, &l);
    free(roster_select(e, stands_on_unknown, NULL, 0, 0, &n, &total));
    if (json_array_size(l.all) == 0 && total == 0) {
        atomic_store(&e->unknown_images, false);
        images_collect(e);
    }
    json_decref(l.all);
}

static int remove_stray(struct engine *e, const char *id, struct err *err)
{
    struct box_trace trace = {0};

    if (find_stray(e, id, &trace, err) < 0 || runtime_destroy(e->runtime, &trace.box, err) < 0)
        return -1;
    store_note_remove(e->store, id);
    log_info("a disk without an owner was removed", "id", id, "path", trace.path);
    collect_again(e);
    return 0;
}

int engine_stray_remove(struct engine *e, const char *id, struct err *err)
{
    int r;

    pthread_mutex_lock(&e->strays_lock);
    r = remove_stray(e, id, err);
    pthread_mutex_unlock(&e->strays_lock);
    return r;
}
