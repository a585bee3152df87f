/* Who waits for whom: what takes long is in nobody's way, and what fails is tried again. */

#include <pthread.h>
#include <string.h>

#include "engine/boot_internal.h"
#include "engine/health.h"
#include "engine/images.h"
#include "engine/reaper_internal.h"
#include "engine/space_internal.h"
#include "engine_world.h"

#define HOST "{\"image\":\"host\"}"

static struct sandbox *held(struct world *w, const char *id)
{
    struct sandbox *sb = roster_find(w->engine, id);

    if (!sb)
        TAP_FAIL("there is no %s", id);
    return sb;
}

static void expire(struct world *w, const char *id)
{
    struct sandbox *sb = held(w, id);

    pthread_mutex_lock(&sb->lock);
    sb->deadline_ns = mono_ns() - 1;
    pthread_mutex_unlock(&sb->lock);
    sandbox_unref(sb);
}

static void await_count(const atomic_uint *count, unsigned least)
{
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1))
        if (atomic_load(count) >= least)
            return;
    TAP_FAIL("it came to %u, not %u", atomic_load(count), least);
}

/* ---- destroying ---- */

static const char *problem(json_t *problems, const char *key)
{
    return str(json_array_get(problems, 0), key);
}

TEST(what_cannot_be_destroyed_is_tried_until_it_is_gone_and_told_of_meanwhile)
{
    auto_free char *id = NULL, *next = NULL;
    json_t *problems;
    struct world w;

    world_up(&w);
    id = create(&w, HOST);
    CHECK(engine_problems(w.engine, true) == NULL);
    w.engine->config.waits.again = 1;
    atomic_store(&fake.fail_destroy, true);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    await_count(&fake.destroys, 4); /* more than it ever was before it gave up */
    problems = engine_problems(w.engine, true);
    CHECK_INT(json_array_size(problems), 1);
    CHECK_STR(problem(problems, "what"), "sandbox_not_removed");
    CHECK_STR(problem(problems, "sandboxId"), id);
    CHECK(strstr(problem(problems, "text"), "the disk is busy") != NULL);
    CHECK(num(json_array_get(problems, 0), "attempts") >= 3);
    CHECK(num(json_array_get(problems, 0), "since") > 0);
    json_decref(problems);

    problems = engine_problems(w.engine, false);
    CHECK(json_object_get(json_array_get(problems, 0), "sandboxId") == NULL);
    CHECK(json_object_get(json_array_get(problems, 0), "text") == NULL);
    json_decref(problems);

    CHECK_INT(rows_of(&w), 1); /* which would lead a later start to it */
    atomic_store(&fake.fail_destroy, false);
    next = create(&w, HOST);
    CHECK_INT(engine_remove(w.engine, next, NULL), 0);
    await_gone(next); /* though another waits for its next try */
    await_gone(id);
    world_done(&w);
}

TEST(the_problem_is_over_when_it_is_gone)
{
    auto_free char *id = NULL;
    json_t *problems = NULL;
    struct world w;

    world_up(&w);
    id = create(&w, HOST);
    atomic_store(&fake.fail_destroy, true);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    await_count(&fake.destroys, 2);
    atomic_store(&fake.fail_destroy, false);
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1)) {
        json_decref(problems);
        problems = engine_problems(w.engine, true);
        if (!problems)
            break;
    }
    CHECK(problems == NULL);
    CHECK(!fake_look(id));
    world_done(&w);
}

TEST(an_engine_ends_though_something_cannot_be_destroyed_and_the_next_start_does_it)
{
    auto_free char *id = NULL;
    struct world w;

    world_up(&w);
    id = create(&w, HOST);
    atomic_store(&fake.fail_destroy, true);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    world_close(&w, false);
    atomic_store(&fake.fail_destroy, false);
    CHECK(fake_look(id) != NULL);
    world_open(&w);
    world_start(&w);
    await_gone(id);
    world_done(&w);
}

TEST(what_a_failed_preparation_left_is_destroyed)
{
    struct world w;

    world_up(&w);
    atomic_store(&fake.fail_create, true);
    CHECK_INT(try_create(&w, HOST, &(json_t *){NULL}, NULL), -1);
    atomic_store(&fake.fail_create, false);
    await_count(&fake.destroyed, 1);
    world_done(&w);
}

/* ---- those that look after all ---- */

TEST(the_watcher_does_not_wait_for_a_sandbox_that_is_busy)
{
    auto_free char *busy = NULL, *other = NULL;
    struct sandbox *sb;
    struct world w;

    world_up(&w);
    busy = create(&w, HOST);
    other = create(&w, HOST);
    sb = held(&w, busy);
    turn_await(&sb->turn); /* as something that takes long has it */
    fake_die(busy);
    fake_die(other);
    await_status(&w, other, "stopped (agent_lost)");
    check_status(&w, busy, "running");
    turn_give(&sb->turn);
    await_status(&w, busy, "stopped (agent_lost)");
    sandbox_unref(sb);
    world_done(&w);
}

static bool is_watched(struct sandbox *sb)
{
    bool yes;

    pthread_mutex_lock(&sb->lock);
    yes = sb->watched_fd >= 0;
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

/* Its descriptor is closed without the watcher's knowledge, and the number is another's then. */
TEST(a_box_for_files_is_not_watched_though_the_one_before_it_ended)
{
    auto_free char *id = NULL;
    struct sandbox *sb;
    struct world w;
    unsigned users;

    world_up(&w);
    id = create(&w, HOST);
    sb = held(&w, id);
    users = atomic_load(&sb->refs);
    turn_await(&sb->turn);
    fake_die(id);
    while (is_watched(sb))
        (void)poll(NULL, 0, 1);
    CHECK_INT(sandbox_halt(w.engine, sb, "requested", NULL), 0);
    CHECK_INT(sandbox_boot(w.engine, sb, BOOT_QUIET, NULL), 0);
    turn_give(&sb->turn);
    AWAIT(atomic_load(&sb->refs) <= users); /* until the watcher has had the turn */
    CHECK(!is_watched(sb));
    check_status(&w, id, "stopped (requested)");
    sandbox_unref(sb);
    world_done(&w);
}

TEST(a_box_that_ends_while_it_is_removed_is_forgotten)
{
    auto_free char *id = NULL;
    struct sandbox *sb;
    struct world w;

    world_up(&w);
    id = create(&w, HOST);
    sb = held(&w, id);
    turn_await(&sb->turn);
    fake_die(id);
    while (is_watched(sb)) /* until the watcher has seen it */
        (void)poll(NULL, 0, 1);
    turn_give(&sb->turn);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    await_gone(id);
    sandbox_unref(sb);
    world_done(&w);
}

TEST(a_sweep_leaves_out_a_sandbox_that_is_busy)
{
    auto_free char *busy = NULL, *other = NULL;
    struct sandbox *sb;
    struct world w;
    unsigned n;

    world_up(&w);
    busy = create(&w, HOST);
    other = create(&w, HOST);
    expire(&w, busy);
    expire(&w, other);
    sb = held(&w, busy);
    turn_await(&sb->turn);
    CHECK_INT(engine_sweep(w.engine, &n, NULL), 0);
    CHECK_INT(n, 1);
    check_status(&w, other, "none");
    turn_give(&sb->turn);
    CHECK_INT(engine_sweep(w.engine, &n, NULL), 0);
    CHECK_INT(n, 1);
    check_status(&w, busy, "none");
    sandbox_unref(sb);
    world_done(&w);
}

/* ---- commits ---- */

struct committing {
    struct world *w;
    const char *id;
    pthread_t thread;
    int result;
    struct err err;
};

static void *commit_main(void *arg)
{
    struct committing *c = arg;
    json_t *image = NULL;

    c->result = engine_commit(c->w->engine, c->id, &(struct commit_request){.name = "made:1"},
                              &image, &c->err);
    json_decref(image);
    return NULL;
}

/* Returns when the disk is being read. */
static void commit_begin(struct committing *c)
{
    fake_images_hold_commit(true);
    CHECK_INT(pthread_create(&c->thread, NULL, commit_main, c), 0);
    while (fake_images_count(&fake_images.commits) == 0)
        (void)poll(NULL, 0, 1);
}

static void commit_end(struct committing *c)
{
    fake_images_hold_commit(false);
    pthread_join(c->thread, NULL);
}

TEST(removing_a_sandbox_interrupts_its_commit)
{
    auto_free char *id = NULL;
    struct world w;
    struct committing c = {.w = &w};

    world_up(&w);
    c.id = id = create(&w, HOST);
    commit_begin(&c);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    check_status(&w, id, "none");
    pthread_join(c.thread, NULL);
    CHECK_INT(c.result, -1);
    CHECK_STR(c.err.code, "commit_interrupted");
    CHECK_INT(c.err.kind, ERR_CONFLICT);
    await_gone(id);
    world_done(&w);
}

TEST(the_disk_of_a_removed_sandbox_stays_while_its_commit_reads_it)
{
    auto_free char *id = NULL, *other = NULL;
    struct world w;
    struct committing c = {.w = &w};

    world_up(&w);
    c.id = id = create(&w, HOST);
    other = create(&w, HOST);
    fake_images_deafen_commit(true);
    commit_begin(&c);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    CHECK_INT(engine_remove(w.engine, other, NULL), 0);
    await_gone(other);
    CHECK(fake_look(id) != NULL);
    CHECK(!fake_look(id)->alive);
    commit_end(&c);
    await_gone(id);
    fake_images_deafen_commit(false);
    world_done(&w);
}

static void write_until_paused(struct world *w, const char *id)
{
    struct fake_box *b = fake_look(id);

    atomic_store(&fake.free_mb, 170);
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1)) {
        auto_free char *status = status_of(w, id);

        if (strcmp(status, "paused (" SPACE_REASON ")") == 0)
            return;
        atomic_fetch_add(&b->used, 1u << 20);
    }
    check_status(w, id, "paused (" SPACE_REASON ")");
}

TEST(room_on_the_disk_lets_nobody_go_on_that_is_being_committed)
{
    auto_free char *id = NULL, *other = NULL;
    struct world w;
    struct committing c = {.w = &w};

    world_new(&w);
    w.engine->config.disk_reserve_mb = 100;
    atomic_store(&fake.free_mb, 300);
    world_start(&w);
    c.id = id = create(&w, HOST);
    other = create(&w, HOST);
    commit_begin(&c);
    write_until_paused(&w, id);
    write_until_paused(&w, other);
    atomic_store(&fake.free_mb, 5000);
    await_status(&w, other, "running");
    CHECK(atomic_load(&fake_look(id)->paused));
    commit_end(&c);
    CHECK_INT(c.result, 0);
    await_status(&w, id, "running");
    CHECK(!atomic_load(&fake_look(id)->paused));
    world_done(&w);
}

static int64_t went_on(struct world *w, const char *id)
{
    struct sandbox *sb = roster_find(w->engine, id);
    int64_t when = sb->wrote_ns; /* it is taken to write then */

    sandbox_unref(sb);
    return when;
}

TEST(who_was_paused_first_for_want_of_room_goes_on_first)
{
    char *ids[3];
    struct world w;

    world_new(&w);
    w.engine->config.disk_reserve_mb = 100;
    atomic_store(&fake.free_mb, 300);
    world_start(&w);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        ids[i] = create(&w, HOST);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        write_until_paused(&w, ids[(i + 1) % 3]);
    atomic_store(&fake.free_mb, 5000);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        await_status(&w, ids[i], "running");
    CHECK(went_on(&w, ids[1]) < went_on(&w, ids[2]));
    CHECK(went_on(&w, ids[2]) < went_on(&w, ids[0]));
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        free(ids[i]);
    world_done(&w);
}

TEST(others_are_swept_and_watched_while_one_is_committed)
{
    auto_free char *id = NULL, *old = NULL, *dying = NULL;
    struct world w;
    struct committing c = {.w = &w};
    unsigned n;

    world_up(&w);
    c.id = id = create(&w, HOST);
    old = create(&w, HOST);
    dying = create(&w, HOST);
    expire(&w, id);
    expire(&w, old);
    commit_begin(&c);
    CHECK_INT(engine_sweep(w.engine, &n, NULL), 0);
    CHECK_INT(n, 1); /* and not the one that is being committed */
    fake_die(dying);
    await_status(&w, dying, "stopped (agent_lost)");
    commit_end(&c);
    CHECK_INT(c.result, 0);
    CHECK_INT(engine_sweep(w.engine, &n, NULL), 0);
    CHECK_INT(n, 1);
    world_done(&w);
}

TEST(a_sandbox_that_is_committed_is_paused_renewed_and_looked_at_but_runs_nothing)
{
    auto_free char *id = NULL;
    struct err err = {0};
    struct world w;
    struct committing c = {.w = &w};
    json_t *out;
    uint32_t usual;

    world_up(&w);
    c.id = id = create(&w, HOST);
    commit_begin(&c);
    usual = w.engine->config.waits.turn;
    w.engine->config.waits.turn = 10;
    run_fails(&w, id, "echo x", ERR_UNAVAILABLE, "sandbox_busy");
    w.engine->config.waits.turn = usual;
    CHECK_INT(engine_renew(w.engine, id, now_ms() + 100000, &out, NULL), 0);
    json_decref(out);
    CHECK_INT(engine_get(w.engine, id, &out, NULL), 0);
    json_decref(out);
    CHECK_INT(engine_commit(w.engine, id, &(struct commit_request){.name = "made:2"}, &out, &err),
              -1);
    CHECK_STR(err.code, "sandbox_busy");
    CHECK_INT(engine_pause(w.engine, id, &out, NULL), 0);
    json_decref(out);
    CHECK_INT(engine_resume(w.engine, id, &out, &err), -1);
    CHECK_STR(err.code, "sandbox_busy");
    CHECK(fake_look(id)->paused);
    commit_end(&c);
    CHECK_INT(c.result, 0);
    CHECK(fake_look(id)->paused); /* by the pause, which came meanwhile */
    CHECK_INT(engine_resume(w.engine, id, &out, NULL), 0);
    json_decref(out);
    out = run(&w, id, "echo x");
    json_decref(out);
    world_done(&w);
}

static void pause_for_space(struct world *w, const char *id)
{
    struct sandbox *sb = held(w, id);

    turn_await(&sb->turn);
    CHECK_INT(runtime_pause(w->engine->runtime, &sb->box, true, NULL), 0);
    CHECK_INT(sandbox_move(sb, SANDBOX_PAUSED, SPACE_REASON, NULL), 0);
    turn_give(&sb->turn);
    sandbox_unref(sb);
}

TEST(a_sandbox_that_is_committed_does_not_go_on_when_the_disk_has_room)
{
    auto_free char *id = NULL, *before = NULL, *after = NULL;
    struct world w;
    struct committing c = {.w = &w};

    world_new(&w);
    w.engine->config.disk_reserve_mb = 100;
    atomic_store(&fake.free_mb,
                 500); /* so little more than enough that it is looked at all the time */
    world_start(&w);
    before = create(&w, HOST);
    c.id = id = create(&w, HOST);
    after = create(&w, HOST);
    commit_begin(&c);
    pause_for_space(&w, id);
    /* Others do, on whichever side of it they are. */
    pause_for_space(&w, before);
    pause_for_space(&w, after);
    await_status(&w, before, "running");
    await_status(&w, after, "running");
    check_status(&w, id, "paused (" SPACE_REASON ")");
    CHECK(atomic_load(&fake_look(id)->paused));
    commit_end(&c);
    CHECK_INT(c.result, 0);
    await_status(&w, id, "running");
    CHECK(!atomic_load(&fake_look(id)->paused));
    world_done(&w);
}

TEST(an_engine_that_ends_ends_commits)
{
    auto_free char *id = NULL;
    struct world w;
    struct committing c = {.w = &w};

    world_up(&w);
    c.id = id = create(&w, HOST);
    commit_begin(&c);
    engine_drain(w.engine);
    pthread_join(c.thread, NULL);
    CHECK_INT(c.result, -1);
    CHECK_INT(c.err.kind, ERR_UNAVAILABLE);
    CHECK(!fake_look(id)->paused);
    world_done(&w);
}

TAP_MAIN
