/* Sandboxes that are stopped: those whose time was over, how many there may be, and their names. */

#include <string.h>

#include "engine/drain_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/stopped_internal.h"
#include "engine/turn_internal.h"
#include "engine/watch.h"
#include "engine_world.h"

#define STOPS "{\"image\":\"host\",\"expiryStops\":true}"

static void set_left(struct world *w, const char *id, int64_t ms)
{
    auto_sandbox struct sandbox *sb = roster_find(w->engine, id);

    sandbox_set_expiry(sb, now_ms(), now_ms() + ms);
}

static int64_t stopped_ms(struct world *w, const char *id)
{
    auto_sandbox struct sandbox *sb = roster_find(w->engine, id);

    return sb->stopped_ms;
}

static unsigned sweep(struct world *w)
{
    unsigned n;

    CHECK_INT(engine_sweep(w->engine, &n, NULL), 0);
    return n;
}

static void expire(struct world *w, const char *id)
{
    set_left(w, id, -1);
    CHECK_INT(sweep(w), 1);
    await_status(w, id, "stopped (expired)");
}

/* The sweep passes over a sandbox that another thread has just now. */
static void sweep_away(struct world *w, const char *id)
{
    auto_free char *status = NULL;

    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1)) {
        (void)sweep(w);
        free(status);
        status = status_of(w, id);
        if (strcmp(status, "none") == 0)
            return;
    }
    CHECK_STR(status, "none");
}

static void stop(struct world *w, const char *id)
{
    json_t *s;

    CHECK_INT(engine_stop_sandbox(w->engine, id, &s, NULL), 0);
    CHECK_STR(str(s, "reason"), "requested");
    json_decref(s);
}

static int start(struct world *w, const char *id, struct err *err)
{
    json_t *s = NULL;
    int r = engine_start_sandbox(w->engine, id, &s, err);

    json_decref(s);
    return r;
}

static void world_with(struct world *w, unsigned max_stopped)
{
    world_new(w);
    w->engine->config.stopped_ttl_s = 1000;
    w->engine->config.max_stopped = max_stopped;
    world_start(w);
}

/* ---- the end of its time ---- */

TEST(a_sandbox_whose_time_is_over_is_stopped_if_it_was_made_so_and_else_removed)
{
    auto_free char *kept = NULL, *gone = NULL;
    struct world w;
    int64_t since;
    json_t *s;

    world_with(&w, 10);
    kept = create(&w, STOPS);
    gone = create(&w, "{\"image\":\"host\"}");
    set_left(&w, kept, -1);
    set_left(&w, gone, -1);
    CHECK_INT(sweep(&w), 2);
    check_status(&w, gone, "none");
    await_status(&w, kept, "stopped (expired)");
    CHECK_INT(sweep(&w), 0);
    since = stopped_ms(&w, kept);
    CHECK(since > 0);
    world_close(&w, false); /* the next daemon knows that, too */
    world_open(&w);
    w.engine->config.stopped_ttl_s = 1000;
    world_start(&w);
    check_status(&w, kept, "stopped (expired)");
    CHECK_INT(stopped_ms(&w, kept), since);
    CHECK_INT(engine_get(w.engine, kept, &s, NULL), 0);
    CHECK_STR(str(json_object_get(s, "config"), "onTimeout"), "stop");
    CHECK(num(s, "expiresAt") > now_ms());
    json_decref(s);
    CHECK_INT(start(&w, kept, NULL), 0);
    expire(&w, kept);
    set_left(&w, kept, -1); /* and CAY_STOPPED_TTL is over */
    sweep_away(&w, kept);
    world_done(&w);
}

TEST(a_paused_sandbox_is_stopped_when_its_time_is_over)
{
    auto_free char *id = NULL;
    struct world w;
    json_t *s;

    world_with(&w, 10);
    id = create(&w, STOPS);
    CHECK_INT(engine_pause(w.engine, id, &s, NULL), 0);
    json_decref(s);
    expire(&w, id);
    world_done(&w);
}

TEST(a_sandbox_that_gets_more_time_while_it_is_about_to_stop_runs_on)
{
    auto_free char *id = NULL;
    struct sandbox *sb;
    struct world w;

    world_with(&w, 10);
    id = create(&w, STOPS);
    sb = roster_find(w.engine, id);
    turn_await(&sb->turn); /* nobody stops it meanwhile */
    set_left(&w, id, -1);
    CHECK_INT(sweep(&w), 1);
    CHECK_INT(drain_check(sb, NULL), -1);
    set_left(&w, id, 100000);
    turn_give(&sb->turn);
    for (int64_t until = mono_ns() + PATIENCE_NS; drain_check(sb, NULL) < 0;) {
        CHECK(mono_ns() < until);
        (void)poll(NULL, 0, 1);
    }
    check_status(&w, id, "running");
    sandbox_unref(sb);
    world_done(&w);
}

TEST(the_entrypoint_of_a_sandbox_that_got_more_time_is_not_asked_to_end)
{
    auto_free char *id = NULL;
    struct sandbox *sb;
    struct world w;

    world_with(&w, 10);
    id = create(&w, "{\"image\":\"host\",\"expiryStops\":true,\"entrypoint\":[\"main\"]}");
    atomic_store(&fake.main_runs, true);
    atomic_store(&fake.main_signal, 0);
    sb = roster_find(w.engine, id);
    set_left(&w, id, 100000); /* between the look of the sweep and its own turn */
    CHECK(drain_expired(w.engine, sb));
    for (int64_t until = mono_ns() + PATIENCE_NS; drain_check(sb, NULL) < 0;) {
        CHECK(mono_ns() < until);
        (void)poll(NULL, 0, 1);
    }
    check_status(&w, id, "running");
    CHECK_INT(atomic_load(&fake.main_signal), 0);
    atomic_store(&fake.main_runs, false);
    sandbox_unref(sb);
    world_done(&w);
}

TEST(what_a_caller_asked_to_stop_is_not_expired)
{
    struct stop_request drain = {.drain = true};
    auto_free char *id = NULL;
    struct world w;
    json_t *s;

    world_with(&w, 10);
    id = create(&w, STOPS);
    CHECK_INT(engine_stop_later(w.engine, id, &drain, &s, NULL), 0);
    json_decref(s);
    set_left(&w, id, -1); /* its commands cannot be counted, so it runs until then */
    CHECK_INT(sweep(&w), 1);
    await_status(&w, id, "stopped (requested)");
    world_done(&w);
}

/* ---- how many ---- */

TEST(stopped_sandboxes_do_not_count_and_a_start_needs_a_place)
{
    auto_free char *stopped = NULL, *other = NULL;
    struct err err = {0};
    struct world w;
    json_t *s;

    world_with(&w, 10);
    w.engine->config.max_sandboxes = 2;
    stopped = create(&w, STOPS);
    free(create(&w, STOPS));
    CHECK_INT(try_create(&w, STOPS, &s, &err), -1);
    CHECK_STR(err.code, "sandbox_limit");
    stop(&w, stopped);
    CHECK_INT(roster_stopped(w.engine), 1);
    other = create(&w, STOPS);
    CHECK_INT(start(&w, stopped, &err), -1);
    CHECK_INT(err.kind, ERR_LIMIT);
    CHECK_STR(err.code, "sandbox_limit");
    check_status(&w, stopped, "stopped (requested)");
    CHECK_INT(engine_remove(w.engine, other, NULL), 0);
    atomic_store(&fake.fail_create, true); /* a start that fails gives its place back */
    CHECK_INT(start(&w, stopped, NULL), -1);
    atomic_store(&fake.fail_create, false);
    CHECK_INT(roster_room(w.engine), 1);
    CHECK_INT(start(&w, stopped, NULL), 0);
    CHECK_INT(roster_room(w.engine), 0);
    CHECK_INT(roster_stopped(w.engine), 0);
    world_close(&w, false);
    world_open(&w);
    w.engine->config.max_sandboxes = 2;
    world_start(&w);
    CHECK_INT(roster_room(w.engine), 0);
    world_done(&w);
}

TEST(beyond_the_limit_the_sandbox_that_expired_first_is_removed)
{
    auto_free char *asked = NULL, *first = NULL, *second = NULL, *third = NULL;
    struct world w;

    world_with(&w, 3);
    asked = create(&w, STOPS);
    stop(&w, asked);
    first = create(&w, STOPS);
    second = create(&w, STOPS);
    expire(&w, first);
    expire(&w, second);
    third = create(&w, STOPS);
    world_close(&w, false); /* the next daemon knows the order, too */
    world_open(&w);
    w.engine->config.stopped_ttl_s = 1000;
    w.engine->config.max_stopped = 2;
    world_start(&w);
    sweep_away(&w, first);
    check_status(&w, second, "stopped (expired)");
    /* A stop that was asked for always works, and is not undone. */
    stop(&w, third);
    sweep_away(&w, second);
    check_status(&w, third, "stopped (requested)");
    check_status(&w, asked, "stopped (requested)");
    world_done(&w);
}

TEST(when_none_has_expired_a_create_is_refused_and_a_stop_is_not)
{
    auto_free char *a = NULL, *b = NULL, *c = NULL;
    struct err err = {0};
    struct world w;
    json_t *s;

    world_with(&w, 2);
    a = create(&w, STOPS);
    b = create(&w, STOPS);
    c = create(&w, STOPS);
    stop(&w, a);
    stop(&w, b);
    CHECK_INT(try_create(&w, STOPS, &s, &err), -1);
    CHECK_INT(err.kind, ERR_LIMIT);
    CHECK_STR(err.code, "stopped_limit");
    CHECK(strstr(err.text, "CAY_MAX_STOPPED"));
    stop(&w, c);
    CHECK_INT(sweep(&w), 0);
    CHECK_INT(roster_stopped(w.engine), 3);
    /* Another tenant has its share. */
    free(create(&w, "{\"image\":\"host\",\"tenant\":\"team=blue\"}"));
    CHECK_INT(start(&w, a, NULL), 0);
    CHECK_INT(try_create(&w, STOPS, &s, &err), -1);
    CHECK_INT(start(&w, b, NULL), 0);
    free(create(&w, STOPS));
    world_done(&w);
}

/* A caller reads its files as slowly as it can, or has ended that. */
static void visit(struct world *w, const char *id, int by)
{
    auto_sandbox struct sandbox *sb = roster_find(w->engine, id);

    pthread_mutex_lock(&sb->lock);
    sb->visits += by;
    pthread_mutex_unlock(&sb->lock);
}

TEST(a_file_that_is_read_keeps_its_sandbox)
{
    auto_free char *id = NULL, *other = NULL;
    struct world w;

    world_with(&w, 1);
    id = create(&w, STOPS);
    other = create(&w, STOPS);
    expire(&w, id);
    visit(&w, id, 1);
    stop(&w, other);
    CHECK_INT(sweep(&w), 0);
    visit(&w, id, -1);
    sweep_away(&w, id);
    world_done(&w);
}

TEST(expired_sandboxes_that_are_in_use_do_not_lift_the_limit)
{
    struct err err = {0};
    char *ids[4], *kept[2];
    struct world w;
    json_t *s;

    world_with(&w, 2);
    w.engine->config.max_sandboxes = 2;
    ids[0] = create(&w, STOPS);
    expire(&w, ids[0]);
    visit(&w, ids[0], 1);
    for (unsigned i = 0; i < 2; i++) {
        kept[i] = create(&w, STOPS);
        stop(&w, kept[i]);
    }
    CHECK_INT(try_create(&w, STOPS, &s, &err), -1);
    CHECK_STR(err.code, "stopped_limit");
    for (unsigned i = 0; i < 2; i++) {
        CHECK_INT(engine_remove(w.engine, kept[i], NULL), 0);
        free(kept[i]);
    }
    w.engine->config.max_stopped = 10; /* until all of them are in use */
    for (unsigned i = 1; i < 4; i++) {
        ids[i] = create(&w, STOPS);
        expire(&w, ids[i]);
        visit(&w, ids[i], 1);
    }
    w.engine->config.max_stopped = 2;
    CHECK_INT(try_create(&w, STOPS, &s, &err), -1);
    CHECK_STR(err.code, "stopped_limit");
    for (unsigned i = 0; i < 4; i++)
        visit(&w, ids[i], -1);
    sweep_away(&w, ids[0]);
    free(create(&w, STOPS));
    for (unsigned i = 0; i < 4; i++)
        free(ids[i]);
    world_done(&w);
}

TEST(beyond_the_share_of_the_disk_too)
{
    auto_free char *asked = NULL, *first = NULL, *second = NULL;
    struct world w;

    world_with(&w, 10);
    w.engine->config.stopped_disk_percent = 25; /* of 1 TiB */
    atomic_store(&fake.free_mb, 1 << 20);
    asked = create(&w, STOPS);
    stop(&w, asked);
    first = create(&w, STOPS);
    expire(&w, first);
    second = create(&w, STOPS);
    expire(&w, second);
    atomic_store(&fake.disk_mb, 100 << 10);
    sweep_away(&w, first);
    check_status(&w, second, "stopped (expired)");
    w.engine->config.stopped_disk_percent = 0; /* none that expired is kept */
    sweep_away(&w, second);
    check_status(&w, asked, "stopped (requested)");
    world_done(&w);
}

/* ---- which one ---- */

#define EXPIRED(t, ms)                                                                             \
    {                                                                                              \
        .tenant = t, .weight = 1, .since_ms = ms, .expired = true                                  \
    }
#define ASKED(t, ms)                                                                               \
    {                                                                                              \
        .tenant = t, .weight = 1, .since_ms = ms                                                   \
    }

static int64_t chosen(const struct stopped_item *items, size_t n, uint64_t limit)
{
    struct stopped_item copy[16];
    long at;

    memcpy(copy, items, n * sizeof(*items));
    at = stopped_choose(copy, n, limit);
    return at < 0 ? -1 : copy[at].since_ms;
}

TEST(the_tenant_with_the_most_gives_the_one_that_expired_first)
{
    const struct stopped_item items[] = {EXPIRED("a", 1), EXPIRED("b", 4), EXPIRED("b", 3),
                                         ASKED("b", 2),   EXPIRED("", 9),  EXPIRED("", 8)};

    CHECK_INT(chosen(items, 6, 6), -1);
    CHECK_INT(chosen(items, 6, 5), 3);
    CHECK_INT(chosen(items, 1, 0), 1);
    CHECK_INT(chosen(items, 0, 0), -1);
}

TEST(a_tenant_within_its_share_loses_nothing)
{
    /* b has stopped all of its own, which stay; so do those of a, which has no more than its half.
     */
    const struct stopped_item items[] = {EXPIRED("a", 1), EXPIRED("a", 2), ASKED("b", 3),
                                         ASKED("b", 4),   ASKED("b", 5),   EXPIRED("a", 6)};

    CHECK_INT(chosen(items, 5, 4), -1);
    CHECK_INT(chosen(items, 6, 4), 1);
}

/* ---- names ---- */

#define NAMED    "\"image\":\"host\",\"name\":\"web\",\"expiryStops\":true"
#define REPLACES "{" NAMED ",\"unique\":true,\"replaces\":true}"

TEST(the_name_of_an_expired_sandbox_goes_to_the_next)
{
    auto_free char *id = NULL, *next = NULL;
    struct err err = {0};
    struct world w;
    json_t *s;

    world_with(&w, 10);
    id = create(&w, "{" NAMED "}");
    CHECK_INT(try_create(&w, REPLACES, &s, &err), -1); /* it runs */
    CHECK_STR(err.code, "name_taken");
    stop(&w, id);
    CHECK_INT(try_create(&w, REPLACES, &s, &err), -1); /* somebody stopped it */
    CHECK_STR(err.code, "name_taken");
    CHECK_INT(start(&w, id, NULL), 0);
    expire(&w, id);
    CHECK_INT(try_create(&w, "{" NAMED ",\"unique\":true}", &s, &err), -1);
    CHECK_STR(err.code, "name_taken");
    check_status(&w, id, "stopped (expired)");
    CHECK_INT(try_create(&w, REPLACES, &s, &err), 0);
    CHECK(strstr(json_string_value(json_array_get(json_object_get(s, "warnings"), 0)), id));
    json_decref(s);
    check_status(&w, id, "none");
    next = create(&w, "{\"image\":\"host\",\"name\":\"other\",\"replaces\":true}");
    check_status(&w, next, "running");
    world_done(&w);
}

TEST(a_create_that_fails_before_its_box_is_made_replaces_nothing)
{
    auto_free char *id = NULL;
    struct err err = {0};
    struct world w;
    json_t *s;

    world_with(&w, 10);
    id = create(&w, "{" NAMED "}");
    expire(&w, id);
    CHECK_INT(try_create(&w, "{\"image\":\"gone\",\"name\":\"web\",\"replaces\":true}", &s, &err),
              -1);
    check_status(&w, id, "stopped (expired)");
    world_done(&w);
}

struct starting {
    struct world *w;
    const char *id;
    bool done;
};

static int start_once(const json_t *event, void *arg)
{
    struct starting *s = arg;

    (void)event;
    if (!s->done)
        CHECK_INT(start(s->w, s->id, NULL), 0);
    s->done = true;
    return 0;
}

TEST(an_expired_sandbox_that_is_started_during_the_pull_keeps_its_name)
{
    auto_free char *id = NULL;
    struct err err = {0};
    struct world w;
    struct starting starting = {.w = &w};
    struct engine_watch watch = {.progress = start_once, .arg = &starting, .cancel_fd = -1};
    json_t *s = NULL;

    world_with(&w, 10);
    starting.id = id = create(&w, "{" NAMED "}");
    expire(&w, id);
    CHECK_INT(create_from(w.engine,
                          "{\"image\":\"far\",\"name\":\"web\",\"unique\":true,\"replaces\":true}",
                          &watch, &s, &err),
              -1);
    CHECK_STR(err.code, "name_taken");
    CHECK(strstr(err.text, id));
    CHECK(starting.done);
    check_status(&w, id, "running");
    CHECK_INT(roster_room(w.engine), w.engine->config.max_sandboxes - 1);
    world_done(&w);
}

TEST(a_sandbox_that_the_maker_may_not_know_of_keeps_its_name)
{
    const struct sandbox_pick blue = {.key = "team", .value = "blue"};
    struct sandbox_request req = {
        .image = "host", .name = "web", .unique = true, .maker = {.replaces = true, .pick = &blue}};
    auto_free char *id = NULL;
    struct err err = {0};
    struct world w;
    json_t *s;

    world_with(&w, 10);
    id = create(&w, "{" NAMED ",\"metadata\":{\"team\":\"red\"}}");
    expire(&w, id);
    CHECK_INT(engine_create(w.engine, &req, NULL, &s, &err), -1);
    CHECK_STR(err.code, "name_taken");
    req.unique = false;
    CHECK_INT(engine_create(w.engine, &req, NULL, &s, &err), 0);
    CHECK(!json_object_get(s, "warnings"));
    json_decref(s);
    check_status(&w, id, "stopped (expired)");
    world_done(&w);
}

TAP_MAIN
