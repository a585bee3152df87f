/* Stop and start: whatever fails on the way, a sandbox is as it was or as it was to be. */

#include <sqlite3.h>
#include <string.h>

#include "engine/drain_internal.h"
#include "engine/idle.h"
#include "engine/quiet_internal.h"
#include "engine/reaper_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/turn_internal.h"
#include "engine_world.h"

#define HOST "{\"image\":\"host\",\"metadata\":{\"k\":\"v\"}}"

static void change_database(struct world *w, const char *sql)
{
    auto_free char *path = xasprintf("%s/cay.db", w->dir);
    sqlite3 *db;

    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_busy_timeout(db, 5000), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

/* From now on no row can say that. */
static void refuse_rows(struct world *w, const char *state)
{
    auto_free char *sql = xasprintf(
        "CREATE TRIGGER refuse_new BEFORE INSERT ON sandbox WHEN NEW.state = '%s' BEGIN SELECT "
        "RAISE(ABORT, 'refused'); END; CREATE TRIGGER refuse_change BEFORE UPDATE ON sandbox WHEN "
        "NEW.state = '%s' BEGIN SELECT RAISE(ABORT, 'refused'); END;",
        state, state);

    change_database(w, sql);
}

static void accept_rows(struct world *w)
{
    change_database(w, "DROP TRIGGER refuse_new; DROP TRIGGER refuse_change;");
}

static void stop(struct world *w, const char *id)
{
    json_t *s;

    CHECK_INT(engine_stop_sandbox(w->engine, id, &s, NULL), 0);
    CHECK_STR(str(s, "status"), "stopped");
    CHECK_STR(str(s, "reason"), "requested");
    json_decref(s);
}

static json_t *start(struct world *w, const char *id)
{
    struct err err = {0};
    json_t *s;

    if (engine_start_sandbox(w->engine, id, &s, &err) < 0)
        TAP_FAIL("start: %s", err.text);
    CHECK_STR(str(s, "status"), "running");
    return s;
}

static void check_runs(struct world *w, const char *id)
{
    json_t *out = run(w, id, "echo on");

    CHECK_STR(str(out, "stdout"), "on");
    json_decref(out);
}

TEST(what_is_stopped_is_kept_for_its_own_time_and_lives_anew_when_started)
{
    auto_free char *id = NULL;
    struct world w;
    json_t *s;

    world_new(&w);
    w.engine->config.stopped_ttl_s = 1000000;
    world_start(&w);
    id = create(&w, HOST);
    CHECK_INT(engine_stop_sandbox(w.engine, id, &s, NULL), 0);
    CHECK(num(s, "expiresAt") > now_ms() + 999000000);
    json_decref(s);
    CHECK(!fake_look(id)->alive);
    /* Its disk is not to go before that, whoever asks. */
    CHECK_INT(engine_renew(w.engine, id, 1, &s, NULL), 0);
    CHECK(num(s, "expiresAt") > now_ms() + 999000000);
    json_decref(s);
    s = start(&w, id);
    CHECK(num(s, "expiresAt") < now_ms() + 3700000);
    CHECK(json_object_get(s, "reason") == NULL);
    json_decref(s);
    check_runs(&w, id);
    world_done(&w);
}

TEST(a_stop_whose_row_cannot_be_written_changes_nothing)
{
    auto_free char *id = NULL;
    struct world w;
    json_t *s;

    world_up(&w);
    id = create(&w, HOST);
    refuse_rows(&w, "stopped");
    CHECK_INT(engine_stop_sandbox(w.engine, id, &s, NULL), -1);
    check_status(&w, id, "running");
    check_runs(&w, id);
    CHECK_INT(engine_pause(w.engine, id, &s, NULL), 0);
    json_decref(s);
    CHECK_INT(engine_stop_sandbox(w.engine, id, &s, NULL), -1);
    check_status(&w, id, "paused");
    CHECK(fake_look(id)->alive);
    accept_rows(&w);
    stop(&w, id);
    CHECK(!fake_look(id)->alive);
    json_decref(start(&w, id));
    world_done(&w);
}

TEST(a_start_that_fails_leaves_it_stopped_as_it_was)
{
    auto_free char *id = NULL;
    struct world w;
    json_t *s;

    world_up(&w);
    id = create(&w, HOST);
    stop(&w, id);
    atomic_store(&fake.fail_create, true);
    CHECK_INT(engine_start_sandbox(w.engine, id, &s, NULL), -1);
    check_status(&w, id, "stopped (requested)");
    atomic_store(&fake.fail_create, false);
    refuse_rows(&w, "running");
    CHECK_INT(engine_start_sandbox(w.engine, id, &s, NULL), -1);
    check_status(&w, id, "stopped (requested)");
    CHECK(!fake_look(id)->alive);
    accept_rows(&w);
    refuse_rows(&w, "stopped"); /* the row of what is meant */
    CHECK_INT(engine_start_sandbox(w.engine, id, &s, NULL), -1);
    check_status(&w, id, "stopped (requested)");
    CHECK(!fake_look(id)->alive);
    accept_rows(&w);
    json_decref(start(&w, id));
    check_runs(&w, id);
    world_done(&w);
}

TEST(what_does_not_end_is_told_of_and_ends_before_the_next_start)
{
    auto_free char *id = NULL;
    struct err err = {0};
    struct world w;
    json_t *s;

    world_up(&w);
    id = create(&w, HOST);
    atomic_store(&fake.fail_stop, true);
    CHECK_INT(engine_stop_sandbox(w.engine, id, &s, &err), -1);
    CHECK_INT(err.kind, ERR_UNAVAILABLE);
    check_status(&w, id, "stopped (requested)");
    atomic_store(&fake.fail_stop, false);
    stop(&w, id); /* fine: it is */
    json_decref(start(&w, id));
    check_runs(&w, id);
    world_done(&w);
}

/* It was told to end: whatever it is, it is neither the sandbox's nor one for its files. */
TEST(what_does_not_end_is_no_box_for_anybody)
{
    auto_free char *started = NULL, *read = NULL;
    struct sandbox *sb;
    struct world w;
    uint32_t boots;
    json_t *s;

    world_up(&w);
    started = create(&w, HOST);
    read = create(&w, HOST);
    atomic_store(&fake.fail_stop, true);
    CHECK_INT(engine_stop_sandbox(w.engine, started, &s, NULL), -1);
    CHECK_INT(engine_stop_sandbox(w.engine, read, &s, NULL), -1);
    CHECK(fake_look(started)->alive && fake_look(read)->alive);
    atomic_store(&fake.fail_stop, false);
    sb = roster_find(w.engine, started);
    boots = sb->boots;
    json_decref(start(&w, started));
    CHECK_INT(sb->boots, boots + 1);
    sandbox_unref(sb);
    sb = roster_find(w.engine, read);
    boots = sb->boots;
    sandbox_unref(sb);
    CHECK_INT(files_begin(w.engine, read, &sb, NULL), 0);
    CHECK_INT(sb->boots, boots + 1);
    files_done(sb);
    world_done(&w);
}

TEST(a_daemon_that_was_killed_in_between_leaves_one_of_the_two)
{
    auto_free char *stopping = NULL, *starting = NULL;
    struct world w;

    world_up(&w);
    stopping = create(&w, HOST);
    starting = create(&w, HOST);
    stop(&w, starting);
    world_close(&w, false);
    /* One row was written and the processes run on; of the other a box has come up. */
    world_open(&w);
    change_database(&w, "UPDATE sandbox SET state = 'stopped', reason = 'requested', pid = 0");
    fake_boot(fake_look(starting));
    world_start(&w);
    check_status(&w, stopping, "stopped (requested)");
    check_status(&w, starting, "stopped (requested)");
    CHECK(!fake_look(stopping)->alive);
    CHECK(!fake_look(starting)->alive);
    json_decref(start(&w, stopping));
    json_decref(start(&w, starting));
    world_done(&w);
}

static struct engine *starting_engine;
static unsigned swept;

static void sweep_now(const char *id)
{
    unsigned n;

    (void)id;
    atomic_store(&fake.on_kill, NULL);
    CHECK_INT(engine_sweep(starting_engine, &n, NULL), 0);
    swept += n;
}

/* The sweeper is at work while a daemon finds out what there is. */
TEST(one_that_has_expired_is_not_swept_while_a_start_ends_its_box)
{
    auto_free char *id = NULL;
    struct world w;
    unsigned n;

    world_up(&w);
    id = create(&w, HOST);
    stop(&w, id);
    world_close(&w, false);
    world_open(&w);
    change_database(&w, "UPDATE sandbox SET expires_ms = 1, deadline_ns = 1");
    starting_engine = w.engine;
    atomic_store(&fake.on_kill, sweep_now);
    world_start(&w);
    CHECK_INT(swept, 0);
    CHECK_INT(engine_sweep(w.engine, &n, NULL), 0);
    CHECK_INT(n, 1);
    world_done(&w);
}

TEST(a_row_of_a_cay_that_could_not_start_it_counts_from_now)
{
    auto_free char *old = NULL, *new = NULL;
    struct world w;
    unsigned n;

    world_new(&w);
    w.config.stopped_ttl_s = w.engine->config.stopped_ttl_s = 1000;
    world_start(&w);
    old = create(&w, HOST);
    new = create(&w, HOST);
    stop(&w, old);
    stop(&w, new);
    world_close(&w, false);
    world_open(&w);
    {
        auto_free char *sql =
            xasprintf("UPDATE sandbox SET expires_ms = 1, deadline_ns = 1; UPDATE "
                      "sandbox SET pid = 77 WHERE id = '%s'",
                      old);

        change_database(&w, sql);
    }
    world_start(&w);
    CHECK_INT(engine_sweep(w.engine, &n, NULL), 0);
    CHECK_INT(n, 1);
    check_status(&w, new, "none");
    check_status(&w, old, "stopped (requested)");
    json_decref(start(&w, old));
    world_done(&w);
}

TEST(files_of_a_stopped_one_have_a_box_in_which_nothing_runs)
{
    auto_free char *id = NULL;
    struct world w;
    struct sandbox *sb, *again;
    uint32_t boots;
    json_t *s;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\",\"entrypoint\":[\"main\"]}");
    stop(&w, id);
    CHECK_INT(files_begin(w.engine, id, &sb, NULL), 0);
    check_status(&w, id, "stopped (requested)");
    CHECK(fake_look(id)->alive);
    run_fails(&w, id, "echo x", ERR_CONFLICT, "sandbox_not_running");
    boots = sb->boots;
    CHECK_INT(files_begin(w.engine, id, &again, NULL), 0);
    CHECK_INT(sb->boots, boots);
    files_done(again);
    /* A start takes it over, under the hands of who uses it. */
    s = start(&w, id);
    json_decref(s);
    CHECK_INT(sb->boots, boots);
    files_done(sb);
    check_runs(&w, id);
    stop(&w, id);
    CHECK_INT(files_begin(w.engine, id, &sb, NULL), 0);
    files_done(sb);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    CHECK_INT(files_begin(w.engine, id, &sb, NULL), -1);
    world_done(&w);
}

TEST(a_call_that_was_under_way_does_not_shorten_how_long_a_start_is_ready)
{
    auto_free char *id = NULL;
    int64_t until = mono_ns() + 300 * 1000000000ll;
    struct sandbox *sb;
    struct world w;

    world_up(&w);
    id = create(&w, HOST);
    CHECK_INT(files_begin(w.engine, id, &sb, NULL), 0);
    stop(&w, id);
    turn_await(&sb->turn);
    sandbox_ref(sb);
    sb->ready_wanted = false; /* this runtime cannot */
    quiet_set(sb, QUIET_READY);
    pthread_mutex_lock(&sb->lock);
    sb->quiet_until_ns = until;
    pthread_mutex_unlock(&sb->lock);
    files_done(sb);
    pthread_mutex_lock(&sb->lock);
    CHECK(sb->quiet_until_ns == until);
    pthread_mutex_unlock(&sb->lock);
    quiet_set(sb, QUIET_NOTHING);
    turn_give(&sb->turn);
    sandbox_unref(sb);
    world_done(&w);
}

TEST(a_box_for_files_goes_with_the_engine)
{
    auto_free char *id = NULL;
    struct sandbox *sb;
    struct world w;

    world_up(&w);
    id = create(&w, HOST);
    stop(&w, id);
    CHECK_INT(files_begin(w.engine, id, &sb, NULL), 0);
    files_done(sb);
    world_close(&w, false);
    CHECK(!fake_look(id)->alive);
    world_open(&w);
    world_start(&w);
    check_status(&w, id, "stopped (requested)");
    world_done(&w);
}

/* As if nobody had used it for its idleTimeout, which is an hour. */
static void pass_idle_hour(struct world *w, const char *id)
{
    struct sandbox *sb = roster_find(w->engine, id);

    atomic_store(&sb->active_ns, mono_ns() - 3600 * 1000000000ll);
    reaper_look_at(w->engine, mono_ns());
    sandbox_unref(sb);
}

/* Waits until it is stopped, and says why that is. */
static char *await_stopped(struct world *w, const char *id)
{
    for (;;) {
        json_t *s;
        auto_free char *status = NULL, *reason = NULL;

        CHECK_INT(engine_get(w->engine, id, &s, NULL), 0);
        status = xstrdup(str(s, "status"));
        reason = strcmp(status, "stopped") == 0 ? xstrdup(str(s, "reason")) : NULL;
        json_decref(s);
        if (reason)
            return steal_ptr(reason);
        (void)poll(NULL, 0, 5);
    }
}

TEST(one_that_nobody_uses_is_stopped)
{
    auto_free char *id = NULL, *reason = NULL;
    struct world w;

    world_up(&w);
    atomic_store(&fake.old, true); /* such an agent has no commands that anybody could count */
    id = create(&w, "{\"image\":\"host\",\"idleTimeout\":3600}");
    pass_idle_hour(&w, id);
    reason = await_stopped(&w, id);
    CHECK_STR(reason, "idle");
    world_done(&w);
}

static void pass_half_an_hour(struct world *w, const char *id)
{
    struct sandbox *sb = roster_find(w->engine, id);

    atomic_fetch_sub(&sb->active_ns, 1800 * 1000000000ll);
    sandbox_unref(sb);
}

/* Both are an hour old when they are looked at. */
TEST(one_that_was_used_half_an_hour_ago_stays)
{
    auto_free char *used = NULL, *unused = NULL, *reason = NULL, *last = NULL;
    struct world w;
    json_t *s;

    world_up(&w);
    atomic_store(&fake.old, true);
    used = create(&w, "{\"image\":\"host\",\"idleTimeout\":3600}");
    unused = create(&w, "{\"image\":\"host\",\"idleTimeout\":3600}");
    pass_half_an_hour(&w, used);
    pass_half_an_hour(&w, unused);
    CHECK_INT(engine_touch(w.engine, used, &s, NULL), 0);
    json_decref(s);
    pass_half_an_hour(&w, used);
    pass_half_an_hour(&w, unused);
    reaper_look_at(w.engine, mono_ns());
    reason = await_stopped(&w, unused);
    CHECK_STR(reason, "idle");
    check_status(&w, used, "running");
    pass_idle_hour(&w, used);
    last = await_stopped(&w, used);
    CHECK_STR(last, "idle");
    world_done(&w);
}

TEST(one_that_is_to_be_removed_when_nobody_uses_it_is)
{
    auto_free char *id = NULL;
    struct err err = {0};
    struct world w;
    json_t *s;

    world_up(&w);
    atomic_store(&fake.old, true);
    id = create(&w, "{\"image\":\"host\",\"idleTimeout\":3600,\"idleRemoves\":true}");
    world_close(&w, false); /* the next daemon knows that, too */
    world_open(&w);
    world_start(&w);
    CHECK_INT(engine_get(w.engine, id, &s, NULL), 0);
    CHECK(json_is_true(json_object_get(json_object_get(s, "config"), "idleRemoves")));
    json_decref(s);
    pass_idle_hour(&w, id);
    await_gone(id);
    CHECK_INT(engine_get(w.engine, id, &s, &err), -1);
    CHECK_STR(err.code, "sandbox_removed");
    world_done(&w);
}

TEST(one_that_is_stopped_on_request_is_not_removed_for_idleness)
{
    auto_free char *id = NULL, *reason = NULL;
    struct world w;
    json_t *s;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\",\"idleTimeout\":1,\"idleRemoves\":true}");
    CHECK_INT(engine_stop_sandbox(w.engine, id, &s, NULL), 0);
    json_decref(s);
    reason = await_stopped(&w, id);
    CHECK_STR(reason, "requested");
    world_done(&w);
}

TEST(one_that_drains_is_stopped_and_a_start_before_that_lets_it_run_on)
{
    struct stop_request drain = {.drain = true};
    auto_free char *id = NULL, *reason = NULL;
    struct world w;
    json_t *s;

    world_up(&w);
    id = create(&w, HOST);
    CHECK_INT(engine_stop_later(w.engine, id, &drain, &s, NULL), 0);
    CHECK(json_is_true(json_object_get(s, "draining")));
    json_decref(s);
    json_decref(start(&w, id)); /* its commands cannot be counted, so it still runs */
    CHECK_INT(engine_has_stopped(w.engine, id, &s, NULL), -1);
    atomic_store(&fake.old, true);
    CHECK_INT(engine_stop_later(w.engine, id, &drain, &s, NULL), 0);
    json_decref(s);
    reason = await_stopped(&w, id);
    CHECK_STR(reason, "requested");
    CHECK_INT(engine_has_stopped(w.engine, id, &s, NULL), 1);
    CHECK(!json_object_get(s, "draining"));
    json_decref(s);
    json_decref(start(&w, id));
    world_done(&w);
}

static void await_ctl_calls(unsigned n)
{
    for (int64_t until = mono_ns() + PATIENCE_NS; atomic_load(&fake.ctl_calls) < n;) {
        CHECK(mono_ns() < until);
        (void)poll(NULL, 0, 1);
    }
}

static enum drain_step step_of(struct sandbox *sb)
{
    enum drain_step step;

    pthread_mutex_lock(&sb->lock);
    step = sb->drain.step;
    pthread_mutex_unlock(&sb->lock);
    return step;
}

TEST(one_that_is_told_to_run_on_at_the_last_moment_does)
{
    struct stop_request drain = {.drain = true};
    struct sandbox *sb;
    auto_free char *id = NULL;
    struct world w;
    json_t *s;

    world_up(&w);
    atomic_store(&fake.old, true);
    id = create(&w, HOST);
    sb = roster_find(w.engine, id);
    CHECK_INT(engine_stop_later(w.engine, id, &drain, &s, NULL), 0);
    json_decref(s);
    turn_await(&sb->turn); /* as who starts it has it */
    while (step_of(sb) != DRAIN_STOP)
        (void)poll(NULL, 0, 5);
    AWAIT(atomic_load(&w.engine->long_work) > 0); /* until its stop waits for the turn */
    CHECK(drain_clear(sb));
    turn_give(&sb->turn);
    AWAIT(atomic_load(&w.engine->long_work) == 0); /* until it has the turn, or had it */
    turn_await(&sb->turn);
    check_status(&w, id, "running");
    turn_give(&sb->turn);
    sandbox_unref(sb);
    world_done(&w);
}

TEST(one_that_is_stopped_while_it_is_looked_at_for_idleness_stops)
{
    struct stop_request drain = {.drain = true};
    struct sandbox *sb;
    auto_free char *id = NULL;
    unsigned asked;
    struct world w;
    json_t *s;

    world_up(&w);
    id = create(&w, HOST);
    sb = roster_find(w.engine, id);
    atomic_store(&fake.silent, true);
    asked = atomic_load(&fake.ctl_calls);
    drain_idle(w.engine, sb);
    await_ctl_calls(asked + 1); /* whether a command runs */
    CHECK_INT(engine_stop_later(w.engine, id, &drain, &s, NULL), 0);
    json_decref(s);
    atomic_store(&fake.silent, false);
    await_ctl_calls(asked + 2); /* the look for idleness is over, and its stop asks, too */
    CHECK_INT(engine_has_stopped(w.engine, id, &s, NULL), 0);
    sandbox_unref(sb);
    world_done(&w);
}

TAP_MAIN
