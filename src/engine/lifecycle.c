#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/background_internal.h"
#include "engine/boot_internal.h"
#include "engine/drain_internal.h"
#include "engine/engine_internal.h"
#include "engine/gone_internal.h"
#include "engine/images_internal.h"
#include "engine/images_used_internal.h"
#include "engine/lifecycle_internal.h"
#include "engine/mounts_internal.h"
#include "engine/network_internal.h"
#include "engine/networks_internal.h"
#include "engine/news_internal.h"
#include "engine/ports_internal.h"
#include "engine/prepared_internal.h"
#include "engine/quiet_internal.h"
#include "engine/reaper_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/space_internal.h"
#include "engine/spec_internal.h"
#include "engine/stop_internal.h"
#include "engine/stopped_internal.h"
#include "engine/turn_internal.h"
#include "engine/warm_internal.h"
#include "engine/watch.h"
#include "engine/writer_internal.h"
#include "image/image.h"
#include "model/sandbox.h"
#include "runtime/runtime.h"

#define PAGE_MAX 200
#define ASK_NS   (200 * 1000000ll) /* so long agents are waited for that say how mains are */

/* ---- create ---- */

void sandbox_take_image(struct sandbox *sb, struct image *image)
{
    sb->image_id = xstrdup(image->id);
    sb->image_env = steal_ptr(image->env);
    sb->image_user = xstrdup(image->user);
    sb->stop_signal = stop_signal_parse(image->stop_signal);
}

static void give_up(struct engine *e, struct sandbox *sb)
{
    (void)sandbox_move(sb, SANDBOX_REMOVING, NULL, NULL);
    writer_leave(e, writer_put(e, sb)); /* after a power cut one that says creating is kept */
    roster_remove(e, sb);
    images_release(e, sb->image_id);
    reaper_doom(e, sb);
}

static json_t *expiry_json(const struct sandbox *sb)
{
    return json_integer(sb->expires_ms == EXPIRES_NEVER ? 0 : sb->expires_ms);
}

static void tell_created(struct engine *e, struct sandbox *sb)
{
    json_t *more = json_pack("{s:I, s:o}", "createdAt", (json_int_t)sb->created_ms, "expiresAt",
                             expiry_json(sb));

    pthread_mutex_lock(&sb->lock);
    (void)json_object_set_new(more, "metadata", json_deep_copy(sb->spec.metadata));
    pthread_mutex_unlock(&sb->lock);
    sandbox_tell(e, sb, "sandbox.created", more);
}

static void tell_failed(struct engine *e, struct sandbox *sb, const struct err *err)
{
    sandbox_tell(e, sb, "sandbox.error",
                 json_pack("{s:s, s:s}", "code", err && err->code ? err->code : "internal", "error",
                           err ? err->text : ""));
}

static int launch(struct engine *e, struct sandbox *sb, const struct image *image,
                  const struct engine_watch *watch, struct err *err)
{
    if (watch && watch->makes && watch->makes(sb->box.id, watch->arg, err) < 0)
        return -1;
    return sb->warm ? warm_launch(e, sb, err) : sandbox_launch(e, sb, image, err);
}

static bool is_namesake(struct sandbox *sb, const void *but)
{
    return sb != but;
}

static int refuse_name(const struct sandbox *holder, struct err *err)
{
    return err_code(err, ERR_CONFLICT, "name_taken",
                    "the name \"%.80s\" is that of %s: choose another, or remove that sandbox "
                    "first",
                    holder->spec.name, holder->box.id);
}

/* An expired sandbox can be started while the image of the new one is pulled. */
static int check_namesakes(struct sandbox *const *others, const struct sandbox_request *req,
                           struct err *err)
{
    for (; req->unique && *others; others++)
        if (!sandbox_yields_name(*others, &req->maker))
            return refuse_name(*others, err);
    return 0;
}

/* Removes the expired sandboxes whose name the new one takes, and adds a warning for each. With
 * `unique` ERR_CONFLICT "name_taken" when another sandbox keeps the name. */
static int replace_expired(struct engine *e, const struct sandbox_request *req,
                           const struct sandbox *sb, json_t *warnings, struct err *err)
{
    size_t n = 0;
    auto_free struct sandbox **others =
        sb->spec.name ? roster_select_named(e, sb->spec.name, is_namesake, sb, &n) : NULL;
    int r = n > 0 ? check_namesakes(others, req, err) : 0;

    for (size_t i = 0; i < n; i++) {
        struct err why = {0};

        if (r == 0 && sandbox_yields_name(others[i], &req->maker)) {
            if (sandbox_remove(e, others[i], REMOVED_BY_NAME, &why) == 0) {
                auto_free char *text = xasprintf("%s had expired with the same name and was "
                                                 "removed",
                                                 others[i]->box.id);

                (void)json_array_append_new(warnings, json_string(text));
            } else if (req->unique && why.kind != ERR_NOT_FOUND) {
                r = refuse_name(others[i], err);
            }
        }
        sandbox_unref(others[i]);
    }
    return r;
}

static int start(struct engine *e, const struct sandbox_request *req, struct sandbox *sb,
                 const struct image *image, const struct engine_watch *watch, json_t *warnings,
                 struct err *err)
{
    int r;

    turn_await(&sb->turn);
    roster_add(e, sb, true);
    r = replace_expired(e, req, sb, warnings, err);
    if (r == 0)
        r = ports_take_late(e, req, sb, err);
    if (r == 0)
        r = launch(e, sb, image, watch, err);
    if (r == 0)
        r = sandbox_move(sb, SANDBOX_RUNNING, NULL, err);
    if (r < 0) {
        tell_failed(e, sb, err);
        give_up(e, sb);
    } else {
        reaper_watch(e, sb);
        /* Not waited for: recovery takes a CREATING row whose box is alive for a running one. */
        atomic_fetch_add(&e->created, 1);
        if (sb->noted == SANDBOX_CREATING) {
            writer_count(e, "created");
            writer_leave(e, writer_put_state(e, sb));
        }
        tell_created(e, sb);
    }
    turn_give(&sb->turn);
    return r;
}

/* One whose box waits for somebody, or with a box of which everything but its root is ready. */
static int take_box(struct engine *e, struct image *image, const struct sandbox_spec *spec,
                    struct sandbox **ret, struct err *err)
{
    struct box box;

    *ret = warm_take(e, image->id, spec);
    if (*ret)
        return 0;
    if (prepared_take(e, &box, err) < 0)
        return -1;
    *ret = sandbox_alloc(e, &box);
    sandbox_take_image(*ret, image);
    return 0;
}

/* Nothing is held but a place among the sandboxes while the image is pulled. */
static int take_parts(struct engine *e, const struct sandbox_request *req,
                      const struct engine_watch *watch, struct sandbox_spec *spec,
                      struct image **ret, struct sandbox **sb, struct err *err)
{
    struct image *image;

    if (space_promise(e, spec->limits.disk_mb, req->disk_mb.given, err) < 0)
        return -1;
    if (image_obtain(e, req, watch, &image, err) < 0) {
        space_give(e, spec->limits.disk_mb);
        return -1;
    }
    if (spec_take_image(e, req, image, spec, err) < 0 || take_box(e, image, spec, sb, err) < 0) {
        images_release(e, image->id);
        images_drop(e, image->id, spec->image);
        image_free(image);
        space_give(e, spec->limits.disk_mb);
        return -1;
    }
    *ret = image;
    return 0;
}

static bool yields_name(struct sandbox *sb, const void *maker)
{
    return sandbox_yields_name(sb, maker);
}

/* Has an expired sandbox that the new one replaces a port of the host that it asks for? */
static bool replaces_port(struct engine *e, const struct sandbox_request *req, const char *name)
{
    size_t n = 0;
    auto_free struct sandbox **old =
        name ? roster_select_named(e, name, yields_name, &req->maker, &n) : NULL;
    bool yes = false;

    for (size_t i = 0; i < n; i++) {
        yes = yes || ports_collide(e, old[i], req->ports);
        sandbox_unref(old[i]);
    }
    return yes;
}

/* Fails before anything is made, unless it can have the port of a sandbox that it replaces: then
 * *exposed stays NULL, and ports_take_late() takes all of them. */
static int take_ports(struct engine *e, const struct sandbox_request *req,
                      struct sandbox_spec *spec, struct exposed **exposed, struct err *err)
{
    struct err why = {0};

    if (ports_read(e, req, &spec->ports, exposed, &why) == 0)
        return 0;
    if (why.code && strcmp(why.code, "port_in_use") == 0 && replaces_port(e, req, spec->name)) {
        exposed_drop(e, steal_ptr(*exposed));
        json_decref(steal_ptr(spec->ports));
        return 0;
    }
    if (err)
        *err = why;
    return -1;
}

/* Takes spec, and exposed once it has it (NULL then). */
static int create(struct engine *e, const struct sandbox_request *req,
                  const struct engine_watch *watch, struct sandbox_spec *spec,
                  struct exposed **exposed, json_t *warnings, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct image *image;
    int r;

    if (stopped_check_room(e, &req->maker, err) < 0 ||
        roster_reserve(e, spec->name, req->unique, &req->maker, err) < 0) {
        sandbox_spec_done(spec);
        return -1;
    }
    if (take_parts(e, req, watch, spec, &image, &sb, err) < 0) {
        roster_unreserve(e, spec->name);
        sandbox_spec_done(spec);
        return -1;
    }
    sb->spec = *spec;
    sb->promised_mb = spec->limits.disk_mb;
    sb->state = SANDBOX_CREATING;
    sb->tenant = req->maker.tenant ? xstrdup(req->maker.tenant) : NULL;
    if (*exposed)
        exposed_give(e, steal_ptr(*exposed), sb);
    sb->created_ms = now_ms();
    sandbox_set_expiry(sb, sb->created_ms, sandbox_expiry(sb->created_ms, spec->timeout_s));
    sb->passing = req->passing;
    sb->patches = json_array_size(req->patches) > 0 ? req->patches : NULL;
    atomic_store(&sb->unfinished, sb->patches != NULL);
    r = start(e, req, sb, image, watch, warnings, err);
    sb->patches = NULL;
    if (r == 0)
        image_touch(e->images, image->name);
    image_free(image);
    if (r < 0)
        return -1;
    *ret = sandbox_json(e, sb);
    return 0;
}

int engine_create(struct engine *e, const struct sandbox_request *req,
                  const struct engine_watch *watch, json_t **ret, struct err *err)
{
    struct exposed *exposed = NULL;
    json_t *warnings = json_array();
    struct sandbox_spec spec;
    struct mount_pins pins;
    int r;

    if (spec_read(e, req, &spec, err) < 0) {
        json_decref(warnings);
        return -1;
    }
    r = mounts_read(e, req, &spec, &pins, err);
    if (r == 0)
        r = networks_read(e, req->networks, &spec.networks, err);
    if (r == 0)
        r = take_ports(e, req, &spec, &exposed, err);
    if (r == 0)
        r = create(e, req, watch, &spec, &exposed, warnings, ret, err);
    else
        sandbox_spec_done(&spec);
    if (r == 0 && json_array_size(warnings) > 0)
        (void)json_object_set(*ret, "warnings", warnings);
    json_decref(warnings);
    exposed_drop(e, exposed);
    mounts_unpin(e, &pins);
    return r;
}

/* ---- look ---- */

int engine_get(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    main_state_ask(e, sb, mono_ns() + ASK_NS);
    *ret = sandbox_json(e, sb);
    return 0;
}

bool engine_has(struct engine *e, const char *id)
{
    auto_sandbox struct sandbox *sb = NULL;

    return sandbox_get(e, id, &sb, NULL) == 0;
}

bool engine_picks(struct engine *e, const struct sandbox_pick *pick, const char *id)
{
    auto_sandbox struct sandbox *sb = NULL;

    return sandbox_get(e, id, &sb, NULL) == 0 && sandbox_is_picked(sb, pick);
}

/* picks: an array of pointers, ended by NULL. */
static bool is_picked_by_all(struct sandbox *sb, const void *picks)
{
    for (const struct sandbox_pick *const *pick = picks; *pick; pick++)
        if (!sandbox_is_picked(sb, *pick))
            return false;
    return true;
}

/* Of one that is gone nobody knows any more who might have known of it. */
int engine_id_of_name(struct engine *e, const struct sandbox_pick *pick, const char *word,
                      char ret[ID_SIZE], struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_selector struct sandbox_selector selector = {0};
    struct sandbox_pick selected;
    const struct sandbox_pick *picks[3] = {NULL};
    struct err why = {0};
    unsigned n = 0;

    if (sandbox_selector_parse(word, &selector)) {
        selected = (struct sandbox_pick){.key = selector.key, .value = selector.value};
        picks[n++] = &selected;
    }
    if (pick)
        picks[n++] = pick;
    if (roster_find_named(e, selector.name ? selector.name : word, n ? is_picked_by_all : NULL,
                          picks, &sb, &why) < 0) {
        if (why.kind == ERR_NOT_FOUND && n == 0)
            return gone_explain(e, word, err);
        if (why.kind == ERR_NOT_FOUND)
            return err_code(err, ERR_NOT_FOUND, "sandbox_not_found", "Sandbox not found: %s", word);
        if (err)
            *err = why;
        return -1;
    }
    memcpy(ret, sb->box.id, ID_SIZE);
    return 0;
}

struct filter {
    const struct sandbox_query *query;
    size_t *total; /* of those that match, on all pages */
};

static bool matches(struct sandbox *sb, const struct sandbox_query *q)
{
    const char *key;
    json_t *value;
    bool wants_expired = q->status && strcmp(q->status, SANDBOX_STATUS_EXPIRED) == 0, yes = true;

    if (!sandbox_is_picked(sb, q->pick) || (wants_expired && !sandbox_is_expired(sb)))
        return false;
    pthread_mutex_lock(&sb->lock);
    if (q->status && !wants_expired)
        yes = strcmp(q->status, sandbox_state_name(sb->state)) == 0;
    if (q->metadata)
        json_object_foreach((json_t *)(uintptr_t)q->metadata, key, value)
        {
            yes = yes && json_equal(json_object_get(sb->spec.metadata, key), value);
        }
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

static bool is_wanted(struct sandbox *sb, const void *arg)
{
    const struct filter *f = arg;

    if (!matches(sb, f->query))
        return false;
    ++*f->total;
    return f->query->cursor == 0 || sb->serial < f->query->cursor;
}

/* The page, and one more if there is one. */
static struct sandbox **find_page(struct engine *e, const struct sandbox_query *q, uint32_t size,
                                  size_t *ret_n, size_t *ret_total)
{
    struct filter filter = {q, ret_total};
    size_t skip = q->cursor || q->page == 0 ? 0 : (size_t)(q->page - 1) * size;

    *ret_total = 0;
    return roster_select(e, is_wanted, &filter, skip, size + 1, ret_n, NULL);
}

void engine_list(struct engine *e, const struct sandbox_query *query, json_t **ret)
{
    uint32_t size = query->page_size < 1          ? 1
                    : query->page_size > PAGE_MAX ? PAGE_MAX
                                                  : query->page_size;
    size_t n, total;
    auto_free struct sandbox **found = find_page(e, query, size, &n, &total);
    json_t *items = json_array(), *o = json_object();
    int64_t until = mono_ns() + ASK_NS; /* for all of them */

    if (n > size)
        (void)json_object_set_new(o, "nextCursor",
                                  json_integer((json_int_t)found[size - 1]->serial));
    for (size_t i = 0; i < n; i++) {
        if (i < size) {
            main_state_ask(e, found[i], until);
            (void)json_array_append_new(items, sandbox_json(e, found[i]));
        }
        sandbox_unref(found[i]);
    }
    (void)json_object_set_new(o, "items", items);
    (void)json_object_set_new(o, "total", json_integer((json_int_t)total));
    (void)json_object_set_new(o, "page", json_integer(query->page ? query->page : 1));
    (void)json_object_set_new(o, "pageSize", json_integer(size));
    *ret = o;
}

/* ---- remove ---- */

/* Its time was over, and nobody waits for that. */
static bool is_by_itself(enum removal why)
{
    return why == REMOVED_BY_EXPIRY || why == REMOVED_BY_IDLENESS || why == REMOVED_BY_COUNT ||
           why == REMOVED_BY_DISK;
}

static void count_removed(struct engine *e, enum removal why)
{
    atomic_fetch_add(is_by_itself(why) ? &e->expired : &e->killed, 1);
    writer_count(e, is_by_itself(why) ? "expired" : "killed");
}

static const char *const removal_words[] = {
    [REMOVED_BY_CALL] = "requested",      [REMOVED_BY_EXPIRY] = "expired",
    [REMOVED_BY_STOP] = "daemon_stop",    [REMOVED_BY_IDLENESS] = "idle",
    [REMOVED_BY_COUNT] = "stopped_limit", [REMOVED_BY_DISK] = "stopped_disk",
    [REMOVED_BY_NAME] = "replaced"};

/* From here on nobody can find it; if the row cannot be written, removing goes on all the same, and
 * at worst a later start finds a sandbox whose processes are gone. The disk is synced while the box
 * is killed: that the row is written leads a later start to the same end, and a power cut, which a
 * row that is not synced does not outlive, ends the box too. Then nobody was told that it is
 * removed, and the sandbox is there, stopped. */
static int end_removed(struct engine *e, struct sandbox *sb, enum removal why, struct err *err)
{
    struct err write_err = {0};
    struct write_job *row;
    int r = 0;

    count_removed(e, why);
    gone_note(e, sb, why);
    row = writer_put(e, sb); /* ahead of the row of whoever takes its name next */
    roster_remove(e, sb);
    images_release(e, sb->image_id);
    reaper_unwatch(e, sb);
    /* The destroyer ends it, and whoever looks for such goes on. */
    if (!is_by_itself(why)) {
        writer_write(e, row);
        r = runtime_kill(e->runtime, &sb->box, err);
    }
    if (writer_wait(e, row, &write_err) < 0)
        log_error("state could not be stored", "id", sb->box.id, "error", write_err.text);
    sandbox_tell(e, sb, is_by_itself(why) ? "sandbox.expired" : "sandbox.killed",
                 json_pack("{s:s}", "reason", removal_words[why]));
    return r;
}

static bool runs_on(struct sandbox *sb)
{
    bool yes;

    pthread_mutex_lock(&sb->lock);
    yes = !drain_refuses(sb);
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

static bool may_make_room(struct sandbox *sb, enum removal why)
{
    bool used;

    pthread_mutex_lock(&sb->lock);
    used = sb->committing || sb->visits > 0;
    pthread_mutex_unlock(&sb->lock);
    return sandbox_is_expired(sb) && (why == REMOVED_BY_NAME || !used);
}

static int remove_in_turn(struct engine *e, struct sandbox *sb, enum removal why, struct err *err)
{
    int r;

    if (why >= REMOVED_BY_COUNT && !may_make_room(sb, why))
        return err_set(err, ERR_CONFLICT, "the sandbox is in use again");

    if (why == REMOVED_BY_EXPIRY && sb->deadline_ns > mono_ns())
        return err_set(err, ERR_CONFLICT, "the sandbox was renewed");
    if (why == REMOVED_BY_IDLENESS && runs_on(sb))
        return err_set(err, ERR_CONFLICT, "the sandbox was told to run on");
    if (sandbox_move(sb, SANDBOX_REMOVING, NULL, NULL) < 0)
        return gone_explain(e, sb->box.id, err);
    r = end_removed(e, sb, why, err);
    if (sandbox_is_committing(sb))
        atomic_store(&sb->commit_off, true); /* which then dooms it */
    else
        reaper_doom(e, sb);
    return r;
}

static int take_turn(struct engine *e, struct sandbox *sb, enum removal why, struct err *err)
{
    if (why == REMOVED_BY_CALL || why == REMOVED_BY_NAME)
        return turn_take(e, &sb->turn, err);
    if (why == REMOVED_BY_STOP)
        turn_await(&sb->turn);
    else if (!turn_try(&sb->turn))
        return err_code(err, ERR_UNAVAILABLE, "sandbox_busy", "another call changes it");
    return 0;
}

int sandbox_remove(struct engine *e, struct sandbox *sb, enum removal why, struct err *err)
{
    int r;

    if (why == REMOVED_BY_CALL)
        main_stop(e, sb); /* before its turn: it waits for an agent */
    if (take_turn(e, sb, why, err) < 0)
        return -1;
    r = remove_in_turn(e, sb, why, err);
    turn_give(&sb->turn);
    if (r == 0 && is_by_itself(why))
        log_info("a sandbox was removed by itself", "id", sb->box.id, "reason", removal_words[why]);
    return r;
}

int engine_remove(struct engine *e, const char *id, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    return sandbox_remove(e, sb, REMOVED_BY_CALL, err);
}

/* ---- pause, resume ---- */

/* Whoever is told that it is paused finds it so after a restart: a start freezes the boxes whose
 * rows say so and lets all others go on, so row and box agree whenever the daemon dies. The row is
 * written while the processes come to rest. */
static int pause_for(struct engine *e, struct sandbox *sb, const char *reason, struct err *err)
{
    if (sandbox_check_running(sb, err) < 0)
        return -1;
    execs_keep(e, sb, EXECS_KEEP_PAUSE_MS);
    if (sandbox_move(sb, SANDBOX_PAUSED, reason, err) < 0)
        return -1;
    runtime_begin_pause(e->runtime, &sb->box);
    if (writer_wait(e, writer_put_state(e, sb), err) == 0 &&
        runtime_pause(e->runtime, &sb->box, true, err) == 0) {
        sandbox_tell(e, sb, "sandbox.paused",
                     json_pack("{s:s}", "reason", reason ? reason : "requested"));
        return 0;
    }
    if (!sandbox_is_committing(sb))
        (void)runtime_pause(e->runtime, &sb->box, false, NULL);
    (void)sandbox_move(sb, SANDBOX_RUNNING, NULL, NULL);
    writer_leave(e, writer_put_state(e, sb));
    return -1;
}

static int pause_in_turn(struct engine *e, struct sandbox *sb, struct err *err)
{
    return pause_for(e, sb, NULL, err);
}

static int pause_in_turn_by_alert(struct engine *e, struct sandbox *sb, struct err *err)
{
    return pause_for(e, sb, "alert", err);
}

static int resume_in_turn(struct engine *e, struct sandbox *sb, struct err *err)
{
    enum sandbox_state state;

    pthread_mutex_lock(&sb->lock);
    state = sb->state;
    pthread_mutex_unlock(&sb->lock);
    if (state == SANDBOX_REMOVING)
        return sandbox_check_running(sb, err);
    if (state != SANDBOX_PAUSED) {
        auto_free char *status = sandbox_status(sb);

        return err_code(err, ERR_CONFLICT, "sandbox_not_paused", "Sandbox is not paused: %s",
                        status);
    }
    if (sandbox_is_committing(sb))
        return sandbox_stands_still(err);
    if (space_check_resume(e, sb, err) < 0)
        return -1;
    if (runtime_pause(e->runtime, &sb->box, false, err) < 0)
        return -1;
    interrupt_await(sb);
    if (sandbox_move(sb, SANDBOX_RUNNING, NULL, err) < 0 ||
        writer_wait(e, writer_put_state(e, sb), err) < 0)
        return -1;
    sandbox_tell(e, sb, "sandbox.resumed", NULL);
    return 0;
}

static int change(struct engine *e, const char *id,
                  int (*in_turn)(struct engine *e, struct sandbox *sb, struct err *err),
                  json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    int r;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    if (turn_take(e, &sb->turn, err) < 0)
        return -1;
    r = in_turn(e, sb, err);
    if (r == 0)
        *ret = sandbox_json(e, sb);
    turn_give(&sb->turn);
    return r;
}

int engine_pause(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    return change(e, id, pause_in_turn, ret, err);
}

int engine_pause_by_alert(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    return change(e, id, pause_in_turn_by_alert, ret, err);
}

int engine_resume(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    return change(e, id, resume_in_turn, ret, err);
}

/* ---- stop, start ---- */

static int check_there(struct sandbox *sb, enum sandbox_state *ret, struct err *err)
{
    pthread_mutex_lock(&sb->lock);
    *ret = sb->state;
    pthread_mutex_unlock(&sb->lock);
    return *ret == SANDBOX_REMOVING ? sandbox_check_running(sb, err) : 0;
}

static int stop_for(struct engine *e, struct sandbox *sb, const char *reason, struct err *err)
{
    enum sandbox_state state;
    int r;

    if (check_there(sb, &state, err) < 0)
        return -1;
    if (state == SANDBOX_STOPPED)
        return 0;
    r = sandbox_halt(e, sb, reason, err);
    roster_settle(e, sb);
    if (r < 0)
        return -1;
    sandbox_tell(e, sb, "sandbox.stopped", json_pack("{s:s}", "reason", reason));
    if (!sandbox_is_expired(sb))
        quiet_make_ready(e, sb);
    return 0;
}

static int stop_in_turn(struct engine *e, struct sandbox *sb, struct err *err)
{
    return stop_for(e, sb, "requested", err);
}

/* Who was about to have it stopped may be told that it runs on. */
static int let_run_on(struct engine *e, struct sandbox *sb, struct err *err)
{
    if (!drain_clear(sb))
        return 0;
    return writer_wait(e, writer_put(e, sb), err);
}

static int start_in_turn(struct engine *e, struct sandbox *sb, struct err *err)
{
    enum sandbox_state state;

    if (check_there(sb, &state, err) < 0)
        return -1;
    if (state == SANDBOX_RUNNING)
        return let_run_on(e, sb, err);
    if (state != SANDBOX_STOPPED)
        return sandbox_check_running(sb, err);
    if (space_check(e, err) < 0 || roster_place(e, sb, err) < 0)
        return -1;
    if (sandbox_boot(e, sb, 0, err) < 0) {
        roster_settle(e, sb);
        return -1;
    }
    sandbox_tell(e, sb, "sandbox.started", json_pack("{s:o}", "expiresAt", expiry_json(sb)));
    return 0;
}

/* A commit reads the disk of a box that stands still, or of none. */
static int change_uncommitted(struct engine *e, struct sandbox *sb,
                              int (*in_turn)(struct engine *e, struct sandbox *sb, struct err *err),
                              json_t **ret, struct err *err)
{
    int r;

    if (turn_take(e, &sb->commit_turn, NULL) < 0)
        return sandbox_stands_still(err);
    r = change(e, sb->box.id, in_turn, ret, err);
    turn_give(&sb->commit_turn);
    return r;
}

int engine_stop_sandbox(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    main_stop(e, sb); /* before its turn: it waits for an agent */
    return change_uncommitted(e, sb, stop_in_turn, ret, err);
}

int sandbox_stop(struct engine *e, struct sandbox *sb, const char *reason, struct err *err)
{
    int r;

    if (turn_take(e, &sb->commit_turn, NULL) < 0)
        return sandbox_stands_still(err);
    r = turn_take(e, &sb->turn, err);
    if (r == 0) {
        if (drain_check(sb, NULL) < 0 && !drain_was_renewed(sb))
            r = stop_for(e, sb, reason, err);
        turn_give(&sb->turn);
    }
    turn_give(&sb->commit_turn);
    return r;
}

int engine_start_sandbox(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    return change_uncommitted(e, sb, start_in_turn, ret, err);
}

/* ---- renew ---- */

/* As near to what was asked for as a life that begins now may come. */
static int64_t allowed_expiry(const struct engine *e, int64_t now, int64_t expires_ms)
{
    uint32_t most = e->config.ceilings.timeout_s;
    int64_t first = now + TIMEOUT_S_MIN * 1000LL;
    int64_t last = now + (most ? most : TIMEOUT_S_MAX) * 1000LL;

    if (expires_ms == 0 && most == 0)
        return EXPIRES_NEVER;
    if (expires_ms < first)
        return first;
    return expires_ms < last ? expires_ms : last;
}

int engine_renew(struct engine *e, const char *id, int64_t expires_ms, json_t **ret,
                 struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    int64_t now = now_ms();
    int r = 0;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    if (turn_take(e, &sb->turn, err) < 0)
        return -1;
    if (sb->state == SANDBOX_REMOVING) {
        r = sandbox_check_running(sb, err);
    } else {
        expires_ms = allowed_expiry(e, now, expires_ms);
        /* The disk of one that is stopped is kept for no less than that. */
        if (sb->state != SANDBOX_STOPPED || expires_ms > sb->expires_ms)
            sandbox_set_expiry(sb, now, expires_ms);
        r = writer_wait(e, writer_put(e, sb), err);
    }
    if (r == 0) {
        *ret = sandbox_json(e, sb);
        sandbox_tell(e, sb, "sandbox.renewed", json_pack("{s:o}", "expiresAt", expiry_json(sb)));
    }
    turn_give(&sb->turn);
    return r;
}
