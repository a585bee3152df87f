#include "engine_world.h"

#include <fcntl.h>

#include "base/budget.h"
#include "engine/env.h"
#include "engine/exec.h"
#include "engine/exec_internal.h"
#include "engine/files.h"
#include "engine/images.h"
#include "engine/images_used_internal.h"
#include "engine/logs.h"
#include "engine/long_work_internal.h"
#include "engine/metrics.h"
#include "engine/path_internal.h"
#include "engine/processes.h"
#include "engine/sandboxes.h"
#include "engine/space_internal.h"
#include "engine/strays.h"

/* ---- create ---- */

TEST(a_created_sandbox_runs_and_has_the_shape_of_the_contract)
{
    struct world w;
    json_t *s, *config;

    world_up(&w);
    CHECK_INT(try_create(&w, "{\"image\":\"host\",\"metadata\":{\"a\":\"b\"}}", &s, NULL), 0);
    config = json_object_get(s, "config");
    CHECK(id_valid(str(s, "id"), "sbx"));
    CHECK_STR(str(s, "name"), str(s, "id"));
    CHECK_STR(str(s, "image"), "host");
    CHECK_STR(str(s, "status"), "running");
    CHECK_INT(num(s, "expiresAt") - num(s, "createdAt"), 3600000);
    CHECK_INT(num(config, "memory"), 512);
    CHECK_STR(str(config, "workdir"), "/workspace");
    CHECK_STR(str(json_object_get(s, "metadata"), "a"), "b");
    CHECK_STR(str(s, "runtime"), "native");
    CHECK_STR(str(s, "isolation"), "shared kernel, hardened");
    json_decref(s);
    world_done(&w);
}

TEST(numbers_are_clamped_to_the_ranges_of_the_contract)
{
    struct world w;
    json_t *s, *c;

    world_up(&w);
    CHECK_INT(
        try_create(&w, "{\"image\":\"host\",\"timeout\":1,\"memory\":99999,\"cpu\":0.1}", &s, NULL),
        0);
    c = json_object_get(s, "config");
    CHECK_INT(num(c, "timeout"), 60);
    CHECK_INT(num(c, "memory"), 4096);
    CHECK(json_real_value(json_object_get(c, "cpu")) == 0.5);
    json_decref(s);
    world_done(&w);
}

TEST(numbers_are_clamped_to_the_operators_ceilings)
{
    struct world w;
    json_t *s, *c;

    world_new(&w);
    w.engine->config.ceilings = (struct sandbox_ceilings){
        .memory_mb = 8192, .cpu_millis = 700, .pids = 300, .timeout_s = 90};
    world_start(&w);
    CHECK_INT(try_create(&w,
                         "{\"image\":\"host\",\"timeout\":100,\"memory\":99999,\"cpu\":3,\"pids\":"
                         "9999999999}",
                         &s, NULL),
              0);
    c = json_object_get(s, "config");
    CHECK_INT(num(c, "timeout"), 90);
    CHECK_INT(num(c, "memory"), 8192);
    CHECK(json_real_value(json_object_get(c, "cpu")) == 0.7);
    CHECK_INT(num(c, "pids"), 300);
    json_decref(s);
    CHECK_INT(try_create(&w, "{\"image\":\"host\",\"timeout\":0,\"pids\":-1}", &s, NULL), 0);
    c = json_object_get(s, "config");
    CHECK_INT(num(c, "timeout"), 60);
    CHECK_INT(num(c, "pids"), 16);
    json_decref(s);
    world_done(&w);
}

TEST(without_a_ceiling_a_sandbox_may_have_no_end)
{
    struct world w;
    auto_free char *id = NULL;
    unsigned swept;
    json_t *s;

    world_new(&w);
    w.engine->config.ceilings.timeout_s = 0;
    world_start(&w);
    CHECK_INT(try_create(&w, "{\"image\":\"host\",\"timeout\":0}", &s, NULL), 0);
    CHECK_INT(num(s, "expiresAt"), 0);
    CHECK_INT(num(json_object_get(s, "config"), "timeout"), 0);
    id = xstrdup(str(s, "id"));
    json_decref(s);
    CHECK_INT(engine_sweep(w.engine, &swept, NULL), 0);
    CHECK_INT(swept, 0);
    /* It may get an end, and lose it again. */
    CHECK_INT(engine_renew(w.engine, id, now_ms() + 7200000, &s, NULL), 0);
    CHECK(num(s, "expiresAt") > now_ms() + 7000000);
    json_decref(s);
    CHECK_INT(engine_renew(w.engine, id, 0, &s, NULL), 0);
    CHECK_INT(num(s, "expiresAt"), 0);
    json_decref(s);
    /* A time that is far away is a time. */
    CHECK_INT(engine_renew(w.engine, id, INT64_MAX, &s, NULL), 0);
    CHECK(num(s, "expiresAt") > now_ms() && num(s, "expiresAt") <= now_ms() + 315360000000);
    json_decref(s);
    world_done(&w);
}

TEST(bad_input_is_refused_before_anything_is_made)
{
    static const struct {
        const char *in;
        enum err_kind kind;
        const char *text;
    } bad[] = {
        {"{}", ERR_INVALID, "image is required: a name as python:3.12-slim, or host"},
        {"{\"image\":\"\"}", ERR_INVALID, "image is required"},
        {"{\"image\":\"../x\"}", ERR_INVALID, "image must be"},
        {"{\"image\":\"a$b\"}", ERR_INVALID, "image must be"},
        {"{\"image\":\"alpine\"}", ERR_FORBIDDEN, "Image not allowed: alpine"},
        {"{\"image\":\"gone\"}", ERR_NOT_FOUND, "no image"},
        {"{\"image\":\"host\",\"network\":true}", ERR_UNSUPPORTED, "networks are switched off"},
        {"{\"image\":\"host\",\"network\":{\"rules\":1}}", ERR_INVALID, "rules"},
        {"{\"image\":\"host\",\"network\":\"internet\"}", ERR_INVALID, "internet"},
        {"{\"image\":\"host\",\"env\":{\"1A\":\"\"}}", ERR_INVALID, "1A"},
        {"{\"image\":\"host\",\"env\":{\"A\":1}}", ERR_INVALID, "must be a string"},
        {"{\"image\":\"host\",\"metadata\":{\"A\":1}}", ERR_INVALID, "must be a string"},
        {"{\"image\":\"host\",\"workdir\":\"/a/../b\"}", ERR_INVALID, "workdir"},
    };
    struct world w;

    world_up(&w);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        json_t *s;

        CHECK_INT(try_create(&w, bad[i].in, &s, &err), -1);
        CHECK_INT(err.kind, bad[i].kind);
        CHECK(strstr(err.text, bad[i].text));
    }
    CHECK_INT(rows_of(&w), 0);
    world_done(&w);
}

TEST(the_limit_holds_and_a_removed_sandbox_makes_room)
{
    struct world w;
    struct err err = {0};
    char *ids[5];
    json_t *s;

    world_up(&w);
    for (int i = 0; i < 5; i++)
        ids[i] = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(try_create(&w, "{\"image\":\"host\"}", &s, &err), -1);
    CHECK_INT(err.kind, ERR_LIMIT);
    CHECK_STR(err.text, "Maximum sandbox limit reached: 5 (CAY_MAX_SANDBOXES); stop or remove one");
    CHECK_INT(engine_remove(w.engine, ids[0], NULL), 0);
    free(ids[0]);
    ids[0] = create(&w, "{\"image\":\"host\"}");
    for (int i = 0; i < 5; i++)
        free(ids[i]);
    world_done(&w);
}

TEST(a_failed_launch_leaves_nothing)
{
    struct world w;
    struct err err = {0};
    json_t *s;

    world_up(&w);
    atomic_store(&fake.fail_create, true);
    CHECK_INT(try_create(&w, "{\"image\":\"host\"}", &s, &err), -1);
    CHECK_STR(err.text, "mount the root: no such device");
    engine_list(w.engine, &(struct sandbox_query){.page_size = 20}, &s);
    CHECK_INT(num(s, "total"), 0);
    json_decref(s);
    world_close(&w, false);
    world_open(&w);
    CHECK_INT(rows_of(&w), 0);
    world_done(&w);
}

TEST(without_a_prepared_box_a_create_says_why_it_failed)
{
    struct world w;
    struct err err = {0};
    json_t *s;

    world_new(&w);
    atomic_store(&fake.fail_prepare, true);
    world_start(&w);
    CHECK_INT(try_create(&w, "{\"image\":\"host\"}", &s, &err), -1);
    CHECK(strstr(err.text, "no room for a box"));
    world_done(&w);
}

struct ranges_seen {
    unsigned rows, with_range;
};

static int see_range(const struct sandbox_row *row, void *arg)
{
    struct ranges_seen *seen = arg;

    seen->rows++;
    seen->with_range += row->slot != BOX_NO_SLOT;
    return 0;
}

/* One that was killed meanwhile left disks of that range: the next start must know whose they are.
 */
TEST(the_row_that_comes_before_a_box_names_its_id_range)
{
    struct world w;
    struct ranges_seen seen = {0};

    world_new(&w);
    atomic_store(&fake.fail_prepare, true); /* nothing was filled in later */
    atomic_store(&fake.fail_destroy, true); /* so that the row stays */
    world_start(&w);
    world_close(&w, false);
    world_open(&w);
    CHECK_INT(store_each_sandbox(w.store, see_range, &seen, NULL), 0);
    CHECK(seen.rows > 0);
    CHECK_INT(seen.with_range, seen.rows);
    atomic_store(&fake.fail_destroy, false);
    world_done(&w);
}

#define MANY 24

/* Else what waits to be taken away would grow as long as somebody makes sandboxes. */
TEST(who_takes_boxes_away_gives_way_until_many_wait)
{
    char *ids[MANY];
    struct world w;

    if (geteuid() != 0)
        SKIP("needs root, who may take back that it gives way");
    world_new(&w);
    world_close(&w, false);
    w.config.max_sandboxes = MANY;
    world_open(&w);
    world_start(&w);
    atomic_store(&fake.urgency, 19);
    for (int i = 0; i < MANY; i++)
        ids[i] = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(engine_remove(w.engine, ids[0], NULL), 0);
    while (atomic_load(&fake.destroyed) < 1)
        (void)poll(NULL, 0, 1);
    CHECK_INT(atomic_load(&fake.urgency), 10);
    atomic_store(&fake.hold_destroy, true);
    for (int i = 1; i < MANY; i++)
        CHECK_INT(engine_remove(w.engine, ids[i], NULL), 0);
    atomic_store(&fake.hold_destroy, false);
    while (atomic_load(&fake.destroyed) < MANY)
        (void)poll(NULL, 0, 1);
    CHECK_INT(atomic_load(&fake.urgency), 0);
    for (int i = 0; i < MANY; i++)
        free(ids[i]);
    world_done(&w);
}

TEST(an_entrypoint_is_started_and_its_output_can_be_read)
{
    struct world w;
    auto_free char *id = NULL;
    struct log_stream *log;
    struct log_piece piece;
    int r;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\",\"entrypoint\":[\"server\"]}");
    CHECK(fake_look(id)->main_started);
    CHECK_INT(engine_log_open(w.engine, id, 10, false, &log, NULL), 0);
    while ((r = log_stream_next(log, &piece, NULL)) == LOG_WAITS)
        log_wait_here(log);
    CHECK_INT(r, LOG_PIECE);
    CHECK_INT(piece.len, 4);
    CHECK(piece.is_stderr);
    CHECK_INT(piece.time_ms, 1700000000000);
    log_stream_close(log);
    world_done(&w);
}

TEST(a_log_is_followed_to_its_end_also_with_an_agent_that_cannot)
{
    auto_free char *id = NULL;
    struct log_stream *log;
    struct log_piece piece;
    size_t waits = 0, len = 0;
    struct world w;
    int r;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\",\"entrypoint\":[\"server\"]}");
    atomic_store(&fake.old, true);
    atomic_store(&fake.main_runs, true);
    CHECK_INT(engine_log_open(w.engine, id, 10, true, &log, NULL), 0);
    while ((r = log_stream_next(log, &piece, NULL)) > 0) {
        if (r == LOG_PIECE) {
            CHECK(!piece.is_stderr && piece.time_ms == 0);
            len += piece.len;
        }
        if (r != LOG_WAITS)
            continue;
        if (++waits == 3)
            atomic_store(&fake.main_runs, false);
        log_wait_here(log);
    }
    CHECK_INT(r, LOG_ENDED);
    CHECK_INT(len, 4);
    CHECK(waits >= 3);
    log_stream_close(log);
    atomic_store(&fake.old, false);
    world_done(&w);
}

/* ---- lifecycle ---- */

TEST(a_removed_sandbox_is_unknown_at_once_and_gone_at_the_end)
{
    struct world w;
    struct err err = {0};
    auto_free char *id = NULL;
    json_t *s;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    CHECK_INT(engine_get(w.engine, id, &s, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    CHECK_STR(err.code, "sandbox_removed");
    CHECK_INT(engine_remove(w.engine, id, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    CHECK_INT(engine_metrics(w.engine, &s, NULL), 0);
    CHECK_INT(num(s, "totalCreated"), 1);
    CHECK_INT(num(s, "totalKilled"), 1);
    CHECK_INT(num(s, "activeSandboxes"), 0);
    json_decref(s);
    world_close(&w, false);
    CHECK_INT(fake_count(), 0);
    world_open(&w);
    CHECK_INT(rows_of(&w), 0);
    CHECK_INT(engine_metrics(w.engine, &s, NULL), 0);
    CHECK_INT(num(s, "totalKilled"), 1);
    json_decref(s);
    world_done(&w);
}

TEST(pause_and_resume_check_the_state)
{
    struct world w;
    struct err err = {0};
    auto_free char *id = NULL;
    json_t *s;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(engine_resume(w.engine, id, &s, &err), -1);
    CHECK_INT(err.kind, ERR_CONFLICT);
    CHECK_STR(err.text, "Sandbox is not paused: running");
    CHECK_INT(engine_pause(w.engine, id, &s, NULL), 0);
    CHECK_STR(str(s, "status"), "paused");
    json_decref(s);
    CHECK(fake_look(id)->paused);
    CHECK_INT(engine_pause(w.engine, id, &s, &err), -1);
    CHECK(str_starts(err.text, "Sandbox is not running: paused; resume it first"));
    run_fails(&w, id, "echo x", ERR_CONFLICT, "sandbox_not_running");
    CHECK_INT(engine_resume(w.engine, id, &s, NULL), 0);
    CHECK_STR(str(s, "status"), "running");
    json_decref(s);
    CHECK(!fake_look(id)->paused);
    world_done(&w);
}

TEST(a_pause_that_fails_leaves_it_running)
{
    struct world w;
    auto_free char *id = NULL;
    json_t *s;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    atomic_store(&fake.fail_pause, true);
    CHECK_INT(engine_pause(w.engine, id, &s, NULL), -1);
    check_status(&w, id, "running");
    world_done(&w);
}

TEST(renew_is_clamped_to_a_minute_and_a_day)
{
    struct world w;
    auto_free char *id = NULL;
    int64_t asked;
    json_t *s;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    asked = now_ms();
    CHECK_INT(engine_renew(w.engine, id, 5, &s, NULL), 0);
    CHECK(num(s, "expiresAt") >= asked + 60000 && num(s, "expiresAt") <= now_ms() + 60000);
    json_decref(s);
    asked = now_ms();
    CHECK_INT(engine_renew(w.engine, id, INT64_MAX, &s, NULL), 0);
    CHECK(num(s, "expiresAt") >= asked + 86400000 && num(s, "expiresAt") <= now_ms() + 86400000);
    json_decref(s);
    world_done(&w);
}

static json_t *list_page(struct world *w, struct sandbox_query query)
{
    json_t *page;

    engine_list(w->engine, &query, &page);
    return page;
}

TEST(who_lists_all_the_time_does_not_ask_every_agent_each_time)
{
    auto_free char *id = NULL;
    struct world w;
    unsigned asked;
    int64_t began;

    world_up(&w);
    atomic_store(&fake.main_runs, true);
    id = create(&w, "{\"image\":\"host\",\"entrypoint\":[\"server\"]}");
    asked = atomic_load(&fake.logs);
    began = mono_ns();
    for (int i = 0; i < 1000; i++)
        json_decref(list_page(&w, (struct sandbox_query){.page_size = 20}));
    CHECK(atomic_load(&fake.logs) > asked);
    CHECK(atomic_load(&fake.logs) - asked <= 1 + (unsigned)((mono_ns() - began) / 100000000));
    world_done(&w);
}

/* The ids of a page's items, in their order. */
static char *ids_on(const json_t *page)
{
    json_t *items = json_object_get(page, "items"), *item;
    char *text = xstrdup("");
    size_t i;

    json_array_foreach(items, i, item)
    {
        char *longer = xasprintf("%s%s ", text, str(item, "id"));

        free(text);
        text = longer;
    }
    return text;
}

static void check_page(struct world *w, struct sandbox_query query, const char *want,
                       uint64_t *ret_cursor)
{
    json_t *page = list_page(w, query);
    auto_free char *ids = ids_on(page);

    CHECK_STR(ids, want);
    *ret_cursor = (uint64_t)json_integer_value(json_object_get(page, "nextCursor"));
    json_decref(page);
}

TEST(lists_are_filtered_and_paged)
{
    struct world w;
    json_t *s, *filter = json_pack("{s:s}", "k", "1");
    char *ids[4];

    world_up(&w);
    for (int i = 0; i < 4; i++)
        ids[i] = create(&w, i % 2 ? "{\"image\":\"host\",\"metadata\":{\"k\":\"1\"}}"
                                  : "{\"image\":\"host\"}");
    s = list_page(&w, (struct sandbox_query){.page = 2, .page_size = 3});
    CHECK_INT(num(s, "total"), 4);
    CHECK_INT(json_array_size(json_object_get(s, "items")), 1);
    CHECK_STR(str(json_array_get(json_object_get(s, "items"), 0), "id"), ids[0]);
    CHECK(!json_object_get(s, "nextCursor"));
    json_decref(s);
    s = list_page(&w,
                  (struct sandbox_query){.status = "running", .metadata = filter, .page_size = 1});
    CHECK_INT(num(s, "total"), 2);
    CHECK_INT(json_array_size(json_object_get(s, "items")), 1);
    json_decref(s);
    s = list_page(&w, (struct sandbox_query){.status = "paused", .page_size = 20});
    CHECK_INT(num(s, "total"), 0);
    json_decref(s);
    json_decref(filter);
    for (int i = 0; i < 4; i++)
        free(ids[i]);
    world_done(&w);
}

TEST(a_cursor_goes_on_where_the_page_ended_whatever_came_and_went)
{
    struct world w;
    auto_free char *want = NULL;
    uint64_t cursor;
    char *ids[5];

    world_up(&w);
    for (int i = 0; i < 4; i++)
        ids[i] = create(&w, "{\"image\":\"host\"}");
    want = xasprintf("%s %s ", ids[3], ids[2]);
    check_page(&w, (struct sandbox_query){.page_size = 2}, want, &cursor);
    CHECK(cursor > 0);
    CHECK_INT(engine_remove(w.engine, ids[2], NULL), 0);
    ids[4] = create(&w, "{\"image\":\"host\"}");
    free(want);
    want = xasprintf("%s %s ", ids[1], ids[0]);
    check_page(&w, (struct sandbox_query){.page_size = 2, .cursor = cursor}, want, &cursor);
    CHECK_INT(cursor, 0);
    free(want);
    want = xasprintf("%s ", ids[4]);
    check_page(&w, (struct sandbox_query){.page_size = 1}, want, &cursor);
    for (int i = 0; i < 5; i++)
        free(ids[i]);
    world_done(&w);
}

TEST(a_new_sandbox_is_first_even_when_the_clock_was_set_back)
{
    struct world w;
    auto_free char *want = NULL;
    auto_free char *old = NULL;
    auto_free char *new = NULL;
    struct sandbox *sb;
    uint64_t cursor;

    world_up(&w);
    old = create(&w, "{\"image\":\"host\"}");
    sb = roster_find(w.engine, old);
    roster_remove(w.engine, sb); /* as if it were made in an hour */
    sb->created_ms += 3600 * 1000;
    roster_add(w.engine, sb, false);
    sandbox_unref(sb);
    new = create(&w, "{\"image\":\"host\"}");
    want = xasprintf("%s %s ", new, old);
    check_page(&w, (struct sandbox_query){.page_size = 20}, want, &cursor);
    world_done(&w);
}

TEST(a_box_that_ends_by_itself_is_noticed)
{
    struct world w;
    struct err err = {0};
    auto_free char *id = NULL;
    json_t *s;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    fake_die(id);
    await_status(&w, id, "stopped (agent_lost)");
    run_fails(&w, id, "echo x", ERR_CONFLICT, "sandbox_not_running");
    CHECK_INT(engine_pause(w.engine, id, &s, &err), -1);
    CHECK(str_starts(err.text, "Sandbox is not running: stopped (agent_lost); "));
    CHECK_INT(engine_sandbox_metrics(w.engine, id, &s, NULL), 0);
    CHECK_INT(num(s, "pids"), 0);
    json_decref(s);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    world_done(&w);
}

/* Until a collection was told what want says about the layers of sha256:1. */
static void await_collection(unsigned after, bool want)
{
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1))
        if (fake_images_collected() > after && fake_images_kept("sha256:1") == want)
            return;
    TAP_FAIL("no collection %s the layers", want ? "kept" : "freed");
}

TEST(an_image_is_in_use_until_the_last_sandbox_of_it_is_removed)
{
    struct world w;
    auto_free char *id = NULL;
    struct err err = {0};

    world_up(&w);
    id = create(&w, "{\"image\":\"py\"}");
    CHECK(image_in_use(w.engine, "sha256:1"));
    CHECK(!image_in_use(w.engine, "host"));
    CHECK_INT(engine_image_remove(w.engine, "py", &err), -1);
    CHECK_STR(err.code, "image_in_use");
    atomic_store(&fake.hold_destroy, true);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    CHECK(!image_in_use(w.engine, "sha256:1"));
    atomic_store(&fake.hold_destroy, false);
    world_done(&w);
}

TEST(layers_of_a_removed_image_stay_until_its_last_box_is_destroyed)
{
    struct world w;
    auto_free char *id = NULL;
    unsigned before;

    world_up(&w);
    id = create(&w, "{\"image\":\"py\"}");
    atomic_store(&fake.hold_destroy, true);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    before = fake_images_collected();
    CHECK_INT(engine_image_remove(w.engine, "py", NULL), 0);
    CHECK_INT(fake_images_collected(), before + 1);
    CHECK(fake_images_kept("sha256:1"));
    atomic_store(&fake.hold_destroy, false);
    await_collection(before + 1, false);
    world_done(&w);
}

TEST(boxes_of_an_image_that_has_its_name_come_and_go_without_a_collection)
{
    struct world w;
    auto_free char *id = NULL;
    unsigned before;

    world_up(&w);
    before = fake_images_collected();
    id = create(&w, "{\"image\":\"py\"}");
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    await_gone(id);
    world_close(&w, true);
    CHECK_INT(fake_images_collected(), before);
    world_done(&w);
}

static void *churn(void *arg)
{
    struct world *w = arg;

    for (int i = 0; i < 10; i++) {
        auto_free char *id = create(w, "{\"image\":\"host\"}");
        json_t *out = run(w, id, "echo hi");
        struct err err = {0};

        CHECK_STR(str(out, "stdout"), "hi");
        json_decref(out);
        engine_list(w->engine, &(struct sandbox_query){.page_size = 20}, &out);
        json_decref(out);
        if (engine_remove(w->engine, id, &err) < 0)
            TAP_FAIL("remove: %s", err.text);
    }
    return NULL;
}

TEST(threads_create_use_and_remove_at_once)
{
    struct world w;
    pthread_t threads[4];

    world_up(&w);
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, churn, &w), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    world_close(&w, false);
    CHECK_INT(fake_count(), 0);
    world_open(&w);
    CHECK_INT(rows_of(&w), 0);
    world_done(&w);
}

struct shared {
    struct world *w;
    const char *id;
    atomic_int removed;
};

static void *fight(void *arg)
{
    struct shared *s = arg;
    json_t *out;

    for (int i = 0; i < 20; i++) {
        if (engine_pause(s->w->engine, s->id, &out, NULL) == 0)
            json_decref(out);
        if (engine_resume(s->w->engine, s->id, &out, NULL) == 0)
            json_decref(out);
        if (i == 15 && engine_remove(s->w->engine, s->id, NULL) == 0)
            atomic_fetch_add(&s->removed, 1);
    }
    return NULL;
}

TEST(of_many_removals_at_once_exactly_one_wins)
{
    struct world w;
    struct shared s = {.w = &w};
    auto_free char *id = NULL;
    pthread_t threads[4];

    world_up(&w);
    s.id = id = create(&w, "{\"image\":\"host\"}");
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, fight, &s), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(atomic_load(&s.removed), 1);
    world_done(&w);
}

/* ---- recovery ---- */

static const char stored_config[] = "{\"image\":\"host\",\"timeout\":60,\"memory\":64,\"cpu\":1.0,"
                                    "\"disk\":64,\"pids\":9,\"workdir\":\"/workspace\"}";
static const char passing_config[] = "{\"image\":\"host\",\"timeout\":60,\"memory\":64,\"cpu\":1.0,"
                                     "\"disk\":64,\"pids\":9,\"workdir\":\"/workspace\","
                                     "\"passing\":true}";

struct past {
    enum sandbox_state state;
    bool alive, other_boot, prepared;
    uint32_t slot;
    int64_t expires_in_ms, deadline_in_ms;
    const char *config, *image_id; /* NULL = of the host image */
};

/* A row as a daemon that was killed left it, and its box. */
static char *leave_behind(struct world *w, const struct past *past)
{
    struct sandbox_row row = {
        .state = past->state,
        .created_ms = now_ms(),
        .expires_ms = now_ms() + (past->expires_in_ms ? past->expires_in_ms : 60000),
        .deadline_ns = mono_ns() + (past->deadline_in_ms ? past->deadline_in_ms : 60000) * 1000000,
        .config = (char *)(uintptr_t)(past->config ? past->config : stored_config),
        .boot_id = past->other_boot ? "another" : w->engine->boot_id,
        .slot = past->slot,
        .image_id = (char *)(uintptr_t)(past->image_id ? past->image_id : "host"),
        .image_config = "{\"env\":[\"PATH=/old\"],\"user\":\"\"}",
    };

    id_new(row.id, "sbx");
    CHECK_INT(store_put_sandbox(w->store, &row, NULL), 0);
    if (past->alive || past->prepared) {
        struct fake_box *b = fake_box_new(row.id);

        if (past->alive)
            fake_boot(b);
    }
    return xstrdup(row.id);
}

TEST(recovery_brings_each_state_to_where_it_belongs)
{
    static const struct {
        struct past past;
        const char *status; /* "none" = removed with its box and row */
    } cases[] = {
        {{.state = SANDBOX_PREPARED, .prepared = true}, "none"},
        {{.state = SANDBOX_CREATING, .prepared = true}, "none"},
        {{.state = SANDBOX_CREATING}, "none"},
        {{.state = SANDBOX_CREATING, .alive = true}, "running"},
        {{.state = SANDBOX_CREATING, .other_boot = true}, "stopped (reboot)"},
        {{.state = SANDBOX_RUNNING, .alive = true}, "running"},
        {{.state = SANDBOX_RUNNING, .prepared = true}, "stopped (lost)"},
        {{.state = SANDBOX_RUNNING, .other_boot = true}, "stopped (reboot)"},
        {{.state = SANDBOX_PAUSED, .alive = true}, "paused"},
        {{.state = SANDBOX_PAUSED, .other_boot = true}, "stopped (reboot)"},
        {{.state = SANDBOX_STOPPED}, "stopped"},
        {{.state = SANDBOX_REMOVING, .alive = true}, "none"},
        {{.state = SANDBOX_CREATING, .alive = true, .config = passing_config}, "none"},
        {{.state = SANDBOX_RUNNING, .alive = true, .config = passing_config}, "none"},
        {{.state = SANDBOX_PAUSED, .alive = true, .config = passing_config}, "none"},
        {{.state = SANDBOX_RUNNING, .other_boot = true, .config = passing_config}, "none"},
        {{.state = SANDBOX_STOPPED, .config = passing_config}, "none"},
    };
    char *ids[ARRAY_LEN(cases)];
    struct world w;

    world_new(&w);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        ids[i] = leave_behind(&w, &cases[i].past);
    world_start(&w);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *status = status_of(&w, ids[i]);

        if (strcmp(status, cases[i].status) != 0)
            TAP_FAIL("case %zu is %s, not %s", i, status, cases[i].status);
        if (strcmp(status, "none") == 0)
            await_gone(ids[i]);
        if (strcmp(status, "paused") == 0)
            CHECK(fake_look(ids[i])->paused);
    }
    CHECK_INT(atomic_load(&fake.ranges_kept), ARRAY_LEN(cases));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        free(ids[i]);
    world_done(&w);
}

TEST(what_was_made_for_one_call_is_gone_after_a_start)
{
    auto_free char *kept = NULL, *status = NULL;
    struct sandbox_request req = {.image = "host", .passing = true};
    char id[ID_SIZE];
    struct world w;
    json_t *out;

    world_up(&w);
    kept = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(engine_create(w.engine, &req, NULL, &out, NULL), 0);
    CHECK(!json_object_get(json_object_get(out, "config"), "passing"));
    (void)snprintf(id, sizeof(id), "%s", str(out, "id"));
    json_decref(out);
    check_status(&w, id, "running");
    world_close(&w, false);
    world_open(&w);
    world_start(&w);
    status = status_of(&w, id);
    CHECK_STR(status, "none");
    await_gone(id);
    check_status(&w, kept, "running");
    world_done(&w);
}

TEST(a_start_keeps_the_layers_of_every_row_also_of_those_that_go_or_cannot_be_read)
{
    static const struct past pasts[] = {
        {.state = SANDBOX_RUNNING, .alive = true, .image_id = "sha256:a"},
        {.state = SANDBOX_STOPPED, .image_id = "sha256:b"},
        {.state = SANDBOX_REMOVING, .prepared = true, .image_id = "sha256:c"},
        {.state = SANDBOX_RUNNING, .image_id = "sha256:d", .config = "[]"},
    };
    struct world w;

    world_new(&w);
    atomic_store(&fake.hold_destroy, true);
    for (size_t i = 0; i < ARRAY_LEN(pasts); i++)
        free(leave_behind(&w, &pasts[i]));
    world_start(&w);
    CHECK_INT(fake_images_collected(), 1);
    for (size_t i = 0; i < ARRAY_LEN(pasts); i++)
        if (!fake_images_kept(pasts[i].image_id))
            TAP_FAIL("the layers of %s were not kept", pasts[i].image_id);
    CHECK(!fake_images_kept("sha256:1"));
    atomic_store(&fake.hold_destroy, false);
    world_done(&w);
}

/* A box as a cay left it whose database is lost and that wrote no notes. */
static char *leave_stray(bool alive)
{
    auto_free char *id = xcalloc(1, ID_SIZE);
    struct fake_box *b;

    id_new(id, "sbx");
    pthread_mutex_lock(&fake.lock);
    b = fake_box_new(id);
    if (alive)
        fake_boot(b);
    pthread_mutex_unlock(&fake.lock);
    return steal_ptr(id);
}

TEST(no_layer_goes_while_boxes_run_that_the_database_does_not_know)
{
    auto_free char *id = NULL;
    struct world w;

    world_new(&w);
    id = leave_stray(true);
    world_start(&w);
    CHECK_INT(fake_images_collected(), 0);
    CHECK_INT(engine_image_remove(w.engine, "py", NULL), 0);
    CHECK_INT(fake_images_collected(), 0);
    check_status(&w, id, "running");
    /* Now it has a row, which does not know its image any better. */
    world_close(&w, false);
    world_open(&w);
    world_start(&w);
    CHECK_INT(fake_images_collected(), 0);
    check_status(&w, id, "running");
    world_done(&w);
}

TEST(layers_go_again_when_the_last_disk_without_an_owner_is_gone)
{
    auto_free char *one = NULL, *other = NULL, *runs = NULL;
    struct world w;

    world_new(&w);
    one = leave_stray(false);
    other = leave_stray(false);
    runs = leave_stray(true);
    world_start(&w);
    CHECK_INT(engine_stray_remove(w.engine, one, NULL), 0);
    CHECK_INT(fake_images_collected(), 0);
    CHECK_INT(engine_remove(w.engine, runs, NULL), 0);
    await_gone(runs);
    CHECK_INT(fake_images_collected(), 0);
    CHECK_INT(engine_stray_remove(w.engine, other, NULL), 0);
    CHECK_INT(fake_images_collected(), 1);
    world_done(&w);
}

TEST(a_disk_without_an_owner_stays_until_an_operator_speaks)
{
    auto_free char *kept = NULL, *gone = NULL;
    struct err err = {0};
    struct world w;
    json_t *out;

    world_new(&w);
    kept = leave_stray(false);
    gone = leave_stray(false);
    for (int starts = 0; starts < 3; starts++) {
        world_start(&w);
        CHECK_INT(engine_strays(w.engine, &out, NULL), 0);
        CHECK_INT(json_array_size(json_object_get(out, "strays")), 2);
        CHECK_INT(num(out, "bytes"), 2 * 4096);
        json_decref(out);
        world_close(&w, false);
        world_open(&w);
    }
    world_start(&w);
    CHECK_INT(engine_stray_remove(w.engine, gone, NULL), 0);
    CHECK(!fake_look(gone));
    CHECK_INT(engine_stray_remove(w.engine, gone, &err), -1);
    CHECK_STR(err.code, "stray_not_found");
    CHECK_INT(engine_stray_adopt(w.engine, kept, &out, NULL), 0);
    json_decref(out);
    world_close(&w, false);
    world_open(&w);
    world_start(&w);
    check_status(&w, kept, "stopped (recovered)");
    /* It is a sandbox now, and no operator's word on strays touches one. */
    CHECK_INT(engine_stray_remove(w.engine, kept, &err), -1);
    world_done(&w);
}

TEST(what_was_made_ahead_or_removed_goes_without_its_row)
{
    auto_free char *empty = NULL;
    static const enum sandbox_state states[] = {SANDBOX_PREPARED, SANDBOX_REMOVING};
    struct world w;

    world_new(&w);
    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        auto_free char *id = leave_stray(false);
        struct sandbox_row row = {.state = SANDBOX_RUNNING, .config = (char[]){"{}"}};

        (void)snprintf(row.id, sizeof(row.id), "%s", id);
        if (states[i] == SANDBOX_REMOVING)
            CHECK_INT(store_note(w.store, &row, NULL), 0);
        row.state = states[i];
        CHECK_INT(store_note(w.store, &row, NULL), 0);
    }
    empty = leave_stray(false);
    fake_look(empty)->empty = true;
    world_start(&w);
    world_close(&w, false);
    CHECK_INT(fake_count(), 0);
    world_done(&w);
}

TEST(rubbish_that_cannot_be_removed_keeps_its_range_until_it_is)
{
    struct sandbox_row row = {.state = SANDBOX_PREPARED};
    auto_free char *id = NULL;
    struct world w;

    world_new(&w);
    id = leave_stray(false);
    (void)snprintf(row.id, sizeof(row.id), "%s", id);
    CHECK_INT(store_note(w.store, &row, NULL), 0);
    atomic_store(&fake.fail_destroy, true);
    world_start(&w);
    CHECK_INT(atomic_load(&fake.ranges_kept), 1);
    atomic_store(&fake.fail_destroy, false);
    world_close(&w, false);
    world_open(&w);
    world_start(&w);
    CHECK(!fake_look(id));
    CHECK_INT(atomic_load(&fake.ranges_kept), 0);
    world_done(&w);
}

TEST(the_range_of_a_live_sandbox_is_not_given_back_with_a_row_that_names_it_too)
{
    struct world w;
    auto_free char *live = NULL, *old = NULL, *other = NULL;

    world_new(&w);
    live = leave_behind(&w, &(struct past){.state = SANDBOX_RUNNING, .alive = true, .slot = 70});
    old = leave_behind(&w, &(struct past){.state = SANDBOX_REMOVING, .prepared = true, .slot = 70});
    other =
        leave_behind(&w, &(struct past){.state = SANDBOX_PREPARED, .prepared = true, .slot = 71});
    world_start(&w);
    await_gone(old);
    await_gone(other);
    CHECK_INT(atomic_load(&fake.released[70]), 0);
    CHECK_INT(atomic_load(&fake.released[71]), 1);
    CHECK_INT(atomic_load(&fake.ranges_kept), 3);
    world_done(&w);
    CHECK_INT(atomic_load(&fake.released[70]), 1);
}

/* Else the range that two of them name is given back by neither: the first to go sees that the
 * other has it, who then learns that it is the first's. */
TEST(what_an_earlier_daemon_left_is_known_before_any_of_it_goes)
{
    struct past past = {.state = SANDBOX_REMOVING, .prepared = true, .slot = 70};
    struct world w;
    char *ids[30];

    world_new(&w);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        past.state = i % 2 ? SANDBOX_CREATING : SANDBOX_REMOVING;
        ids[i] = leave_behind(&w, &past);
    }
    world_start(&w);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        await_gone(ids[i]);
        free(ids[i]);
    }
    CHECK_INT(atomic_load(&fake.adopted_late), 0);
    CHECK_INT(atomic_load(&fake.released[70]), ARRAY_LEN(ids));
    world_done(&w);
}

TEST(an_adopted_sandbox_works_and_keeps_its_image_environment)
{
    struct world w;
    auto_free char *id = NULL;
    json_t *out;

    world_new(&w);
    id = leave_behind(&w, &(struct past){.state = SANDBOX_RUNNING, .alive = true});
    world_start(&w);
    out = run(&w, id, "env PATH");
    CHECK_STR(str(out, "stdout"), "PATH=/old");
    json_decref(out);
    fake_die(id);
    await_status(&w, id, "stopped (agent_lost)");
    world_done(&w);
}

TEST(an_adopted_sandbox_was_not_just_out_of_memory)
{
    struct exec_request req = {.command = "killed"};
    auto_free char *id = NULL;
    struct world w;
    json_t *out;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    atomic_store(&fake.oom_kills, 2);
    world_close(&w, false);
    world_open(&w);
    world_start(&w);
    CHECK_INT(exec_run_here(w.engine, id, &req, &out, NULL), 0);
    CHECK_STR(str(out, "reason"), "signal");
    json_decref(out);
    atomic_store(&fake.oom_kills, 3);
    CHECK_INT(exec_run_here(w.engine, id, &req, &out, NULL), 0);
    CHECK_STR(str(out, "reason"), "oom");
    json_decref(out);
    world_done(&w);
}

TEST(a_half_made_sandbox_gets_its_entrypoint)
{
    static const char config[] = "{\"image\":\"host\",\"timeout\":60,\"memory\":64,\"cpu\":1.0,"
                                 "\"disk\":64,\"pids\":9,\"workdir\":\"/workspace\","
                                 "\"entrypoint\":[\"server\"]}";
    struct world w;
    auto_free char *id = NULL;

    world_new(&w);
    id = leave_behind(&w,
                      &(struct past){.state = SANDBOX_CREATING, .alive = true, .config = config});
    world_start(&w);
    check_status(&w, id, "running");
    CHECK(fake_look(id)->main_started);
    world_done(&w);
}

TEST(a_row_that_cannot_be_read_is_made_again_from_its_note)
{
    auto_free char *id = NULL;
    struct sandbox_row row = {.state = SANDBOX_RUNNING,
                              .config = "{\"image\":\"host\",\"name\":\"n\",\"timeout\":60,"
                                        "\"memory\":64,\"cpu\":1.0,\"disk\":64,\"pids\":9,"
                                        "\"workdir\":\"/workspace\"}"};
    struct world w;
    json_t *out;

    world_new(&w);
    id = leave_behind(&w,
                      &(struct past){.state = SANDBOX_RUNNING, .alive = true, .config = "{\"im"});
    (void)snprintf(row.id, sizeof(row.id), "%s", id);
    row.boot_id = w.engine->boot_id;
    row.created_ms = now_ms();
    row.expires_ms = row.created_ms + 60000;
    row.deadline_ns = mono_ns() + 60000000000;
    CHECK_INT(store_note(w.store, &row, NULL), 0);
    for (int starts = 0; starts < 2; starts++) {
        world_start(&w);
        check_status(&w, id, "running");
        CHECK_INT(engine_get(w.engine, id, &out, NULL), 0);
        CHECK_STR(str(out, "name"), "n");
        json_decref(out);
        world_close(&w, false);
        world_open(&w);
    }
    world_start(&w);
    world_done(&w);
}

TEST(a_row_that_cannot_be_read_is_left_alone)
{
    struct world w;
    auto_free char *id = NULL;

    world_new(&w);
    id = leave_behind(&w,
                      &(struct past){.state = SANDBOX_RUNNING, .alive = true, .config = "{\"im"});
    world_start(&w);
    check_status(&w, id, "none");
    CHECK_INT(rows_of(&w), 1);
    CHECK_INT(atomic_load(&fake.ranges_kept), 1);
    {
        struct box box = {0};

        snprintf(box.id, sizeof(box.id), "%s", id);
        CHECK_INT(fake_destroy(&fake.base, &box, NULL), 0);
    }
    world_done(&w);
}

/* The files of the database, as if a disk had forgotten them. */
static void lose_database(struct world *w)
{
    static const char *const names[] = {"cay.db", "cay.db-wal", "cay.db-shm"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_free char *path = xasprintf("%s/%s", w->dir, names[i]);

        (void)unlink(path);
    }
}

static void touch_disk(struct world *w, const char *id)
{
    auto_free char *path = xasprintf("%s/sandboxes/%s.img", w->dir, id);

    close_fd(&(int){open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)});
}

/* id → Sandbox */
static json_t *everything(struct world *w)
{
    json_t *all = json_object(), *page, *sandbox;
    size_t i;

    engine_list(w->engine, &(struct sandbox_query){.page_size = 200}, &page);
    json_array_foreach(json_object_get(page, "items"), i, sandbox)
    {
        (void)json_object_set(all, str(sandbox, "id"), sandbox);
    }
    json_decref(page);
    return all;
}

TEST(a_lost_database_loses_no_sandbox)
{
    auto_free char *runs = NULL, *paused = NULL, *stopped = NULL, *removed = NULL;
    json_t *before, *after;
    struct world w;

    world_up(&w);
    runs = create(&w, "{\"image\":\"host\",\"name\":\"n\",\"env\":{\"K\":\"v\"},"
                      "\"metadata\":{\"a\":\"b\"},\"memory\":128,\"disk\":100}");
    paused = create(&w, "{\"image\":\"host\"}");
    stopped = create(&w, "{\"image\":\"py\"}");
    removed = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(engine_pause(w.engine, paused, &after, NULL), 0);
    json_decref(after);
    fake_die(stopped);
    await_status(&w, stopped, "stopped (agent_lost)");
    CHECK_INT(engine_renew(w.engine, runs, now_ms() + 7200000, &after, NULL), 0);
    json_decref(after);
    CHECK_INT(engine_remove(w.engine, removed, NULL), 0);
    before = everything(&w);
    CHECK_INT(json_object_size(before), 3);
    touch_disk(&w, runs);
    touch_disk(&w, paused);
    touch_disk(&w, stopped);
    for (int starts = 0; starts < 3; starts++) {
        world_close(&w, false);
        if (starts < 2)
            lose_database(&w);
        world_open(&w);
        world_start(&w);
        after = everything(&w);
        if (!json_equal(before, after))
            TAP_FAIL("%s\n%s", json_dumps(before, 0), json_dumps(after, 0));
        json_decref(after);
        CHECK(fake_look(paused)->paused);
        after = run(&w, runs, "env K");
        CHECK_STR(str(after, "stdout"), "K=v");
        json_decref(after);
    }
    json_decref(before);
    world_done(&w);
}

/* ---- the host's disk ---- */

TEST(no_more_disk_is_promised_than_may_be)
{
    auto_free char *first = NULL;
    struct err err = {0};
    struct world w;
    json_t *out;

    world_new(&w);
    w.engine->config.disk_overcommit = 2;
    w.engine->config.disk_reserve_mb = 100;
    atomic_store(&fake.free_mb, 1100);
    world_start(&w);
    CHECK_INT(try_create(&w, "{\"image\":\"host\",\"disk\":1001}", &out, &err), -1);
    CHECK_STR(err.code, "no_space");
    CHECK_INT(err.kind, ERR_UNAVAILABLE);
    CHECK(strstr(err.text, "1001 MB: 1100 MB are free on the host, and 100 MB are kept"));
    CHECK(!strstr(err.text, "promised"));
    first = create(&w, "{\"image\":\"host\",\"disk\":1000}");
    free(create(&w, "{\"image\":\"host\",\"disk\":900}"));
    CHECK_INT(try_create(&w, "{\"image\":\"host\",\"disk\":101}", &out, &err), -1);
    CHECK_STR(err.code, "no_space");
    CHECK(strstr(err.text, "1900 promised to others"));
    /* Also after a start, and until its disk is gone. */
    world_close(&w, false);
    world_open(&w);
    w.engine->config.disk_overcommit = 2;
    w.engine->config.disk_reserve_mb = 100;
    world_start(&w);
    CHECK_INT(try_create(&w, "{\"image\":\"host\",\"disk\":101}", &out, &err), -1);
    CHECK_INT(engine_remove(w.engine, first, NULL), 0);
    await_gone(first);
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1))
        if (try_create(&w, "{\"image\":\"host\",\"disk\":101}", &out, &err) == 0)
            break;
    CHECK_STR(str(out, "status"), "running");
    json_decref(out);
    world_done(&w);
}

static void *keep_writing(void *arg)
{
    struct fake_box *b = arg;

    while (!atomic_load(&b->paused))
        if (atomic_load(&b->lease) > 0) {
            atomic_fetch_add(&b->used, 1u << 20);
            (void)poll(NULL, 0, 1);
        }
    return NULL;
}

TEST(who_writes_on_a_low_disk_is_paused_and_goes_on_with_room)
{
    auto_free char *writes = NULL, *idle = NULL, *by_user = NULL;
    struct err err = {0};
    pthread_t writer;
    struct world w;
    json_t *out;

    world_new(&w);
    w.engine->config.disk_reserve_mb = 100;
    atomic_store(&fake.free_mb, 300);
    world_start(&w);
    writes = create(&w, "{\"image\":\"host\"}");
    idle = create(&w, "{\"image\":\"host\"}");
    by_user = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(engine_pause(w.engine, by_user, &out, NULL), 0);
    json_decref(out);
    pthread_create(&writer, NULL, keep_writing, fake_look(writes));
    atomic_store(&fake.free_mb, 170);
    await_status(&w, writes, "paused (" SPACE_REASON ")");
    pthread_join(writer, NULL);
    check_status(&w, idle, "running");
    CHECK_INT(engine_resume(w.engine, writes, &out, &err), -1);
    CHECK_STR(err.code, "no_space");
    CHECK_INT(engine_resume(w.engine, by_user, &out, NULL), 0); /* a user's word on a user's */
    json_decref(out);
    CHECK_INT(engine_pause(w.engine, by_user, &out, NULL), 0);
    json_decref(out);
    CHECK_INT(try_create(&w, "{\"image\":\"host\"}", &out, &err), -1);
    CHECK_STR(err.code, "no_space");
    CHECK(strstr(err.text, "the host's disk is low, "));
    CHECK(!strstr(err.text, "promised"));
    atomic_store(&fake.free_mb, 5000);
    await_status(&w, writes, "running");
    check_status(&w, by_user, "paused");
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1))
        if (atomic_load(&fake_look(idle)->lease) == LEASE_ANY)
            break;
    CHECK(atomic_load(&fake_look(idle)->lease) == LEASE_ANY);
    world_done(&w);
}

static struct {
    struct world *w;
    char *ids[2];
    const char *_Atomic left;
} pair;

/* By the thread that looks at all disks, between two of them. */
static void remove_the_other(const char *id)
{
    bool is_first = strcmp(id, pair.ids[0]) == 0;

    if (atomic_load(&pair.left))
        return;
    CHECK_INT(engine_remove(pair.w->engine, pair.ids[is_first], NULL), 0);
    await_gone(pair.ids[is_first]);
    atomic_store(&pair.left, pair.ids[!is_first]);
}

TEST(the_disk_of_a_sandbox_that_was_just_removed_is_not_looked_at)
{
    struct world w;

    world_new(&w);
    w.engine->config.disk_reserve_mb = 100;
    atomic_store(&fake.free_mb, 500); /* so that the next look comes soon */
    world_start(&w);
    pair.w = &w;
    pair.ids[0] = create(&w, "{\"image\":\"host\"}");
    pair.ids[1] = create(&w, "{\"image\":\"host\"}");
    fake.on_disk_room = remove_the_other;
    atomic_store(&fake.free_mb, 300);
    /* Leases come when all have been looked at. */
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1))
        if (atomic_load(&pair.left) && atomic_load(&fake_look(pair.left)->lease) > 0)
            break;
    CHECK(atomic_load(&pair.left) && atomic_load(&fake_look(pair.left)->lease) > 0);
    world_done(&w);
    free(pair.ids[0]);
    free(pair.ids[1]);
}

TEST(sandboxes_outlive_an_engine_that_stops)
{
    struct world w;
    auto_free char *id = NULL;
    json_t *out;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\",\"env\":{\"K\":\"v\"}}");
    world_close(&w, false);
    CHECK_INT(fake_count(), 1);
    world_open(&w);
    world_start(&w);
    out = run(&w, id, "env K");
    CHECK_STR(str(out, "stdout"), "K=v");
    json_decref(out);
    world_done(&w);
}

TEST(a_sweep_removes_what_has_expired_but_not_what_a_set_clock_or_a_reboot_ended)
{
    struct world w;
    auto_free char *old = NULL, *jumped = NULL, *rebooted = NULL;
    unsigned n;
    json_t *s;

    world_new(&w);
    old = leave_behind(
        &w, &(struct past){.state = SANDBOX_PAUSED, .alive = true, .deadline_in_ms = -1});
    jumped = leave_behind(
        &w, &(struct past){.state = SANDBOX_RUNNING, .alive = true, .expires_in_ms = -86400000});
    rebooted = leave_behind(
        &w, &(struct past){.state = SANDBOX_RUNNING, .other_boot = true, .expires_in_ms = -1});
    world_start(&w);
    CHECK_INT(engine_sweep(w.engine, &n, NULL), 0);
    CHECK_INT(n, 1);
    check_status(&w, old, "none");
    check_status(&w, rebooted, "stopped (reboot)");
    check_status(&w, jumped, "running");
    CHECK_INT(engine_metrics(w.engine, &s, NULL), 0);
    CHECK_INT(num(s, "totalExpired"), 1);
    CHECK_INT(num(s, "totalKilled"), 0);
    json_decref(s);
    world_done(&w);
}

/* ---- exec ---- */

TEST(exec_gives_output_exit_code_and_a_duration)
{
    struct world w;
    auto_free char *id = NULL;
    json_t *out;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    out = run(&w, id, "echo hello");
    CHECK_STR(str(out, "stdout"), "hello");
    CHECK_STR(str(out, "stderr"), "");
    CHECK_STR(str(out, "reason"), "exit");
    CHECK_INT(num(out, "exitCode"), 0);
    CHECK(json_real_value(json_object_get(out, "duration")) == 1.5);
    CHECK(json_is_false(json_object_get(out, "truncated")));
    json_decref(out);
    out = run(&w, id, "err no");
    CHECK_STR(str(out, "stderr"), "no");
    CHECK_INT(num(out, "exitCode"), 3);
    json_decref(out);
    out = run(&w, id, "latin1");
    CHECK_STR(str(out, "stdout"), "caf\xef\xbf\xbd");
    json_decref(out);
    world_done(&w);
}

TEST(a_death_by_signal_is_told_as_shells_do)
{
    struct world w;
    auto_free char *id = NULL;
    json_t *out;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    out = run(&w, id, "segv");
    CHECK_INT(num(out, "exitCode"), 139);
    CHECK_STR(str(out, "reason"), "signal");
    json_decref(out);
    out = run(&w, id, "killed");
    CHECK_STR(str(out, "reason"), "signal");
    json_decref(out);
    atomic_store(&fake.oom_kills, 1);
    out = run(&w, id, "killed");
    CHECK_INT(num(out, "exitCode"), 137);
    CHECK_STR(str(out, "reason"), "oom");
    json_decref(out);
    out = run(&w, id, "killed");
    CHECK_STR(str(out, "reason"), "signal");
    json_decref(out);
    world_done(&w);
}

TEST(a_timeout_is_an_error_with_the_time_in_it)
{
    struct world w;
    auto_free char *id = NULL;
    struct exec_request req = {.command = "late", .timeout_ms = 1500};
    struct err err = {0};
    json_t *out;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(exec_run_here(w.engine, id, &req, &out, &err), -1);
    CHECK_INT(err.kind, ERR_TIMEOUT);
    CHECK_STR(err.text, "Command timed out after 1500ms");
    req.timeout_ms = 0;
    CHECK_INT(exec_run_here(w.engine, id, &req, &out, &err), -1);
    CHECK_STR(err.text,
              "Command timed out after 300000ms, the most that CAY_MAX_CMD_TIMEOUT allows");
    world_done(&w);
}

TEST(the_environment_is_the_images_then_the_sandboxs_then_the_requests)
{
    struct world w;
    json_t *more = json_pack("{s:s}", "B", "request");
    struct exec_request req = {.command = "env B", .env = more};
    auto_free char *id = NULL, *want = NULL;
    json_t *out;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\",\"env\":{\"A\":\"sandbox\",\"B\":\"sandbox\"},"
                    "\"workdir\":\"/data\"}");
    CHECK_INT(exec_run_here(w.engine, id, &req, &out, NULL), 0);
    CHECK_STR(str(out, "stdout"), "B=request");
    json_decref(out);
    static const struct {
        const char *command, *want;
    } cases[] = {
        {"env A", "A=sandbox"}, {"env PATH", "PATH=/usr/bin:/bin"},
        {"env LANG", "LANG=C"}, {"env HOME", "HOME=/root"},
        {"cwd", "/data"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        out = run(&w, id, cases[i].command);
        CHECK_STR(str(out, "stdout"), cases[i].want);
        json_decref(out);
    }
    out = run(&w, id, "env HOSTNAME");
    want = xasprintf("HOSTNAME=sbx-%s", id + strlen("sbx_"));
    CHECK_STR(str(out, "stdout"), want);
    json_decref(out);
    json_decref(more);
    world_done(&w);
}

TEST(commands_that_make_no_sense_are_refused)
{
    struct world w;
    auto_free char *id = NULL, *huge = xcalloc(1, FRAME_MAX + 2);
    char *empty[] = {NULL};
    struct exec_request req = {.argv = empty};
    struct err err = {0};
    json_t *out;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    run_fails(&w, id, "", ERR_INVALID, NULL);
    run_fails(&w, "sbx_000000000000000000000000", "echo x", ERR_NOT_FOUND, "sandbox_not_found");
    CHECK_INT(exec_run_here(w.engine, id, &req, &out, &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    memset(huge, 'x', FRAME_MAX + 1);
    run_fails(&w, id, huge, ERR_TOO_LARGE, NULL);
    world_done(&w);
}

TEST(output_past_the_maximum_is_cut_and_said_to_be)
{
    struct world w;
    auto_free char *id = NULL;
    json_t *out;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    out = run(&w, id, "flood");
    CHECK_INT(json_string_length(json_object_get(out, "stdout")), EXEC_OUTPUT_MAX);
    CHECK(json_is_true(json_object_get(out, "truncated")));
    json_decref(out);
    world_done(&w);
}

struct hanging {
    struct world *w;
    const char *id;
    struct err err;
    int result;
};

static void *hang(void *arg)
{
    struct hanging *h = arg;
    struct exec_output out;
    struct exec *x;
    uint32_t pid;

    h->result = exec_open_here(h->w->engine, h->id, &(struct exec_request){.command = "hang"}, &x,
                               &pid, &h->err);
    if (h->result < 0)
        return NULL;
    h->result = exec_next_here(x, &out, &h->err);
    engine_exec_close(x);
    return NULL;
}

TEST(output_that_finds_no_memory_is_waited_with_and_then_cut)
{
    struct exec_request req = {.command = "flood", .collect = true, .timeout_ms = 60000};
    struct exec_result result;
    auto_free char *id = NULL;
    struct budget memory;
    struct err err = {0};
    struct world w;
    struct exec *x;

    world_new(&w);
    world_close(&w, false);
    budget_init(&memory, 1);
    w.config.memory = &memory;
    world_open(&w);
    world_start(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(engine_exec_open(w.engine, id, &req, &x, &err), 0);
    while (!x->wants_memory_ns) {
        CHECK_INT(engine_exec_collect(x, &result, &err), 1);
        exec_wait_here(x);
    }
    CHECK_INT(engine_exec_collect(x, &result, &err), 1);
    /* As if it had waited long, past its timeout too: that is not the agent's fault. */
    x->wants_memory_ns -= 120 * 1000000000ll;
    x->started_ns -= 120 * 1000000000ll;
    while (engine_exec_collect(x, &result, &err) > 0)
        exec_wait_here(x);
    CHECK_STR(err.text, "");
    CHECK(result.truncated);
    CHECK(result.out->len > 0);
    engine_exec_close(x);
    world_done(&w);
    budget_done(&memory);
}

TEST(removing_a_sandbox_ends_a_command_that_runs_in_it)
{
    struct world w;
    auto_free char *id = NULL;
    struct hanging h = {.w = &w};
    pthread_t thread;

    world_up(&w);
    h.id = id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(pthread_create(&thread, NULL, hang, &h), 0);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_INT(h.result, -1);
    CHECK_INT(h.err.kind, ERR_NOT_FOUND);
    world_done(&w);
}

/* Its box is being destroyed meanwhile, and what the runtime knows of it freed. */
TEST(a_command_whose_sandbox_was_removed_does_not_ask_for_its_box)
{
    auto_free char *id = NULL;
    struct exec_output out;
    struct err err = {0};
    unsigned asked;
    struct world w;
    struct exec *x;
    uint32_t pid;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(
        exec_open_here(w.engine, id, &(struct exec_request){.command = "hang"}, &x, &pid, &err), 0);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    asked = atomic_load(&fake.watch_asked);
    CHECK_INT(exec_next_here(x, &out, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    CHECK_INT(atomic_load(&fake.watch_asked), asked);
    engine_exec_close(x);
    world_done(&w);
}

#define SOME_EXEC "ex_000000000000000000000000"

TEST(a_sandbox_with_an_older_agent_keeps_no_execs)
{
    struct exec_request req = {.command = "hang"};
    struct err err = {0};
    auto_free char *id = NULL;
    struct exec_output end;
    struct world w;
    struct exec *x;
    uint32_t pid;
    json_t *out;

    world_up(&w);
    atomic_store(&fake.old, true);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(exec_open_here(w.engine, id, &req, &x, &pid, &err), 0);
    CHECK_STR(engine_exec_id(x), "");
    engine_exec_close(x); /* it hears of that: else the world would not end */
    req.detach = true;
    CHECK_INT(exec_open_here(w.engine, id, &req, &x, &pid, &err), -1);
    CHECK_INT(err.kind, ERR_UNSUPPORTED);
    CHECK_INT(engine_exec_state(w.engine, id, SOME_EXEC, 0, &out, &err), -1);
    CHECK_STR(err.code, "exec_not_found");
    CHECK_INT(engine_exec_again(w.engine, id, SOME_EXEC, 0, EXEC_TYPES, &x, &err), 0);
    CHECK_INT(exec_next_here(x, &end, &err), -1);
    CHECK_STR(err.code, "exec_not_found");
    engine_exec_close(x);
    CHECK_INT(engine_exec_list(w.engine, id, &out, &err), 0);
    CHECK_INT(json_array_size(json_object_get(out, "execs")), 0);
    json_decref(out);
    atomic_store(&fake.old, false);
    world_done(&w);
}

TEST(an_agent_cannot_hold_a_reader_with_losses)
{
    struct err err = {0};
    auto_free char *id = NULL;
    struct world w;
    json_t *out;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(engine_exec_state(w.engine, id, SOME_EXEC, 0, &out, &err), -1);
    CHECK_STR(err.code, "agent_protocol");
    CHECK_INT(engine_exec_state(w.engine, id, "../x", 0, &out, &err), -1);
    CHECK_STR(err.code, "exec_not_found");
    world_done(&w);
}

TEST(an_agent_cannot_lose_more_than_there_can_be)
{
    struct err err = {0};
    auto_free char *id = NULL;
    struct exec_output out;
    struct world w;
    struct exec *x;

    world_up(&w);
    atomic_store(&fake.loses, UINT64_MAX); /* a cursor that it is added to wraps */
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(engine_exec_again(w.engine, id, SOME_EXEC, 1, EXEC_READS, &x, &err), 0);
    CHECK_INT(exec_next_here(x, &out, &err), 0);
    CHECK_INT(out.what, EXEC_STARTED);
    CHECK_INT(exec_next_here(x, &out, &err), -1);
    CHECK_STR(err.code, "agent_protocol");
    engine_exec_close(x);
    atomic_store(&fake.loses, 0);
    world_done(&w);
}

TEST(one_that_was_refused_ends_no_other_of_its_id)
{
    struct exec_request req = {.command = "taken", .want_stdin = true, .exec_id = SOME_EXEC};
    auto_free char *input = xcalloc(1, FRAME_MAX);
    struct err err = {0};
    auto_free char *id = NULL;
    struct exec_output out;
    struct world w;
    struct exec *x;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(engine_exec_open(w.engine, id, &req, &x, &err), 0);
    while (engine_exec_held(x) == 0) /* more than anybody takes */
        engine_exec_stdin(x, input, FRAME_MAX);
    CHECK_INT(exec_next_here(x, &out, &err), -1);
    CHECK_INT(err.kind, ERR_CONFLICT);
    engine_exec_close(x);
    world_done(&w);
    CHECK_INT(atomic_load(&fake.agains), 0);
}

TEST(a_call_behind_one_that_does_not_end_is_told_to_come_again)
{
    struct err err = {0};
    auto_free char *id = NULL;
    struct sandbox *sb;
    struct world w;
    json_t *out;
    uint32_t usual;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(sandbox_get(w.engine, id, &sb, NULL), 0);
    turn_await(&sb->turn); /* as a commit has it */
    usual = w.engine->config.waits.turn;
    CHECK_INT(usual, 5000);
    w.engine->config.waits.turn = 10;
    CHECK_INT(engine_pause(w.engine, id, &out, &err), -1);
    CHECK_STR(err.code, "sandbox_busy");
    w.engine->config.waits.turn = usual;
    turn_give(&sb->turn);
    CHECK_INT(engine_pause(w.engine, id, &out, &err), 0);
    json_decref(out);
    sandbox_unref(sb);
    world_done(&w);
}

TEST(long_work_has_a_bound)
{
    struct err err = {0};
    struct world w;

    world_up(&w);
    for (int i = 0; i < LONG_WORK_MAX; i++)
        CHECK_INT(long_work_begin(w.engine, NULL), 0);
    CHECK_INT(long_work_begin(w.engine, &err), -1);
    CHECK_STR(err.code, "busy");
    for (int i = 0; i < LONG_WORK_MAX; i++)
        long_work_end(w.engine);
    CHECK_INT(long_work_begin(w.engine, NULL), 0);
    long_work_end(w.engine);
    world_done(&w);
}

/* ---- a hostile agent ---- */

TEST(a_lying_exec_gives_a_typed_error)
{
    static const char *const lies[] = {"badexit", "badhow", "wrongtype", "garbage"};
    struct world w;
    auto_free char *id = NULL;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    for (size_t i = 0; i < ARRAY_LEN(lies); i++)
        run_fails(&w, id, lies[i], ERR_INTERNAL, "agent_protocol");
    world_done(&w);
}

TEST(a_command_that_takes_its_supervisor_with_it_has_ended)
{
    struct exec_request req = {.command = "silently-gone"};
    auto_free char *id = NULL;
    unsigned asked;
    struct world w;
    json_t *out;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    asked = atomic_load(&fake.watch_asked);
    CHECK_INT(exec_run_here(w.engine, id, &req, &out, NULL), 0);
    CHECK_INT(json_integer_value(json_object_get(out, "exitCode")), 137);
    CHECK_STR(str(out, "reason"), "lost");
    /* Its descriptor is for who has the sandbox's turn: another could destroy the box meanwhile. */
    CHECK_INT(atomic_load(&fake.watch_asked), asked);
    json_decref(out);
    world_done(&w);
}

TEST(a_command_that_did_not_start_has_no_end)
{
    struct exec_request req = {.command = "unborn"};
    auto_free char *id = NULL;
    struct err err = {0};
    struct world w;
    struct exec *x;
    uint32_t pid;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(exec_open_here(w.engine, id, &req, &x, &pid, &err), -1);
    CHECK_STR(err.code, "agent_lost");
    world_done(&w);
}

TEST(endless_output_ends_with_the_timeout)
{
    struct world w;
    auto_free char *id = NULL;
    struct exec_request req = {.command = "endless", .timeout_ms = 1};
    struct err err = {0};
    json_t *out;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    w.engine->config.waits.overrun = 10; /* the agent never says how it ended */
    CHECK_INT(exec_run_here(w.engine, id, &req, &out, &err), -1);
    CHECK_INT(err.kind, ERR_TIMEOUT);
    CHECK_STR(err.code, "agent_timeout");
    world_done(&w);
}

/* Waits until the agent has sent everything and hung up. Nothing is read meanwhile. */
static void await_hangup(const struct exec *x)
{
    struct pollfd p = {.fd = x->reader.fd, .events = POLLRDHUP};

    CHECK_INT(poll(&p, 1, PATIENCE_MS), 1);
}

/* For longer than the timeout and what the agent has beyond it: that is no fault of the agent's. */
TEST(a_command_that_ended_while_the_daemon_stood_still_has_ended)
{
    struct exec_request req = {.command = "err hello", .timeout_ms = 60000};
    auto_free char *id = NULL;
    struct exec_output out;
    struct err err = {0};
    struct world w;
    struct exec *x;
    uint32_t pid;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(exec_open_here(w.engine, id, &req, &x, &pid, &err), 0);
    CHECK_INT(exec_next_here(x, &out, &err), 0);
    CHECK_INT(out.what, EXEC_STDERR);
    await_hangup(x);
    x->started_ns -= 3600 * 1000000000ll;
    if (engine_exec_next(x, &out, &err) < 0)
        TAP_FAIL("%s", err.text);
    CHECK_INT(out.what, EXEC_EXIT);
    CHECK_INT(out.exit_code, 3);
    CHECK_STR(out.reason, "exit");
    engine_exec_close(x);
    world_done(&w);
}

TEST(no_lie_of_an_agent_gets_past_any_call)
{
    struct world w;
    auto_free char *id = NULL;
    json_t *vars = json_pack("{s:s}", "A", "1");
    struct file_path path = {.path = "a"};

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    for (int lie = LIE_GARBAGE; lie < LIES; lie++) {
        json_t *out = NULL;
        auto_buf struct buf data = {0};
        struct err errs[8] = {0};

        buf_init(&data, 1 << 20);
        atomic_store(&fake.lie, (enum lie)lie);
        CHECK_INT(file_list_here(w.engine, id, path, &out, &errs[0]), -1);
        CHECK_INT(file_read_here(w.engine, id, path, &data, &errs[1]), -1);
        CHECK_INT(engine_file_write(w.engine, id, path, "x", 1, &errs[2]), -1);
        CHECK_INT(engine_processes(w.engine, id, &out, &errs[3]), -1);
        CHECK_INT(engine_env_set(w.engine, id, vars, &out, &errs[4]), -1);
        CHECK_INT(engine_interrupt(w.engine, id, 0, &(bool){false}, &errs[5]), -1);
        CHECK_INT(engine_file_mkdir(w.engine, id, path, &errs[6]), -1);
        CHECK_INT(file_search_here(w.engine, id, path, "*", &out, &errs[7]), -1);
        for (size_t i = 0; i < ARRAY_LEN(errs); i++) {
            CHECK(errs[i].kind == ERR_INTERNAL || errs[i].kind == ERR_UNAVAILABLE ||
                  errs[i].kind == ERR_TOO_LARGE);
            CHECK(utf8_valid(errs[i].text, strlen(errs[i].text)) && !strchr(errs[i].text, '\n'));
        }
    }
    atomic_store(&fake.lie, LIE_NOT);
    json_decref(vars);
    world_done(&w);
}

/* ---- files, env, background, processes, metrics ---- */

TEST(the_path_rule)
{
    static const struct {
        const char *path, *want; /* NULL = refused */
        bool anywhere;
    } cases[] = {
        {"a", "/workspace/a", false},
        {"./a//b/", "/workspace/a/b", false},
        {"a..b", "/workspace/a..b", false},
        {"...", "/workspace/...", false},
        {"/workspace", "/workspace", false},
        {"/workspace/", "/workspace", false},
        {"/workspace/x", "/workspace/x", false},
        {".", "/workspace", false},
        {"/workspacex", NULL, false},
        {"/etc/passwd", NULL, false},
        {"/etc/shadow", NULL, false},
        {"../../x", NULL, false},
        {"/workspace/../etc/passwd", NULL, false},
        {"/../../../etc/hostname", NULL, false},
        {"a/..", NULL, false},
        {"/", NULL, false},
        {"/", "/", true},
        {"/etc/passwd", "/etc/passwd", true},
        {"/etc/../x", NULL, true},
    };
    auto_free char *longest = xcalloc(1, 6000);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *got = NULL;
        struct err err = {0};
        int r = path_resolve("/workspace", cases[i].path, cases[i].anywhere, &got, &err);

        if (cases[i].want) {
            CHECK_INT(r, 0);
            CHECK_STR(got, cases[i].want);
        } else {
            CHECK_INT(r, -1);
            CHECK_STR(err.code, "path_traversal");
            CHECK(str_starts(err.text, "Path traversal detected: "));
        }
    }
    memset(longest, 'x', 5999);
    {
        struct err err = {0};
        char *got;

        CHECK_INT(path_resolve("/workspace", longest, false, &got, &err), -1);
        CHECK_INT(err.kind, ERR_INVALID);
        CHECK_INT(path_resolve("/workspace", "", false, &got, &err), -1);
        CHECK_STR(err.text, "path is required");
    }
}

TEST(lists_of_files_have_the_shape_of_the_contract)
{
    struct world w;
    auto_free char *id = NULL;
    json_t *out, *paths = json_pack("[s]", "a.txt"), *f;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(file_list_here(w.engine, id, (struct file_path){0}, &out, NULL), 0);
    f = json_array_get(out, 0);
    CHECK_STR(str(f, "path"), "/workspace/a.txt");
    CHECK_INT(num(f, "size"), 5);
    CHECK(json_is_false(json_object_get(f, "isDirectory")));
    json_decref(out);
    CHECK_INT(engine_file_info(w.engine, id, paths, false, false, &out, NULL), 0);
    f = json_array_get(out, 0);
    CHECK_STR(str(f, "permissions"), "-rw-r--r--");
    CHECK_STR(str(f, "owner"), "root");
    CHECK(json_is_false(json_object_get(f, "isSymlink")));
    json_decref(out);
    json_decref(paths);
    CHECK_INT(engine_file_chmod(w.engine, id, (struct file_path){"a", false}, "u+x", NULL), 0);
    CHECK_INT(engine_file_chmod(w.engine, id, (struct file_path){"a", false}, "99", NULL), -1);
    CHECK_INT(file_search_here(w.engine, id, (struct file_path){0}, "a;b", &out, NULL), -1);
    world_done(&w);
}

TEST(env_set_is_seen_by_get_list_exec_and_the_file)
{
    struct world w;
    auto_free char *id = NULL;
    json_t *out, *vars = json_pack("{s:s,s:s}", "A", "1", "B", "x=y");
    struct err err = {0};

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    buf_init(&fake_look(id)->environment, 1 << 20);
    CHECK_INT(buf_add_str(&fake_look(id)->environment, "KEEP=me\nA=old"), 0);
    CHECK_INT(engine_env_set(w.engine, id, vars, &out, NULL), 0);
    CHECK_INT(num(out, "count"), 2);
    json_decref(out);
    CHECK_STR(fake_look(id)->environment.data, "KEEP=me\nA=1\nB=x=y\n");
    CHECK_INT(engine_env_get(w.engine, id, "A", &out, NULL), 0);
    CHECK_STR(str(out, "value"), "1");
    CHECK(json_is_true(json_object_get(out, "exists")));
    json_decref(out);
    CHECK_INT(engine_env_list(w.engine, id, &out, NULL), 0);
    CHECK_STR(str(json_object_get(out, "vars"), "B"), "x=y");
    CHECK_STR(str(json_object_get(out, "vars"), "HOSTNAME") + 4, id + 4);
    json_decref(out);
    out = run(&w, id, "env B");
    CHECK_STR(str(out, "stdout"), "B=x=y");
    json_decref(out);
    CHECK_INT(engine_env_delete(w.engine, id, "A", &out, NULL), 0);
    json_decref(out);
    CHECK_STR(fake_look(id)->environment.data, "KEEP=me\nB=x=y\n");
    CHECK_INT(engine_env_get(w.engine, id, "A", &out, NULL), 0);
    CHECK(json_is_null(json_object_get(out, "value")));
    json_decref(out);
    CHECK_INT(engine_env_delete(w.engine, id, "PATH", &out, &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    CHECK_INT(engine_env_get(w.engine, id, "A-B", &out, &err), -1);
    json_decref(vars);
    world_done(&w);
}

TEST(a_background_exec_can_be_followed_by_its_id)
{
    struct world w;
    auto_free char *id = NULL, *bg = NULL;
    json_t *out;
    struct err err = {0};

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(engine_exec_background(w.engine, id, &(struct exec_request){.command = "sleep 9"},
                                     &out, NULL),
              0);
    bg = xstrdup(str(out, "id"));
    CHECK(id_valid(bg, "bg"));
    CHECK_STR(str(out, "command"), "sleep 9");
    CHECK_INT(num(out, "pid"), 7);
    CHECK(json_is_true(json_object_get(out, "running")));
    json_decref(out);
    CHECK_INT(engine_background_status(w.engine, bg, &out, NULL), 0);
    CHECK(json_is_true(json_object_get(out, "running")));
    json_decref(out);
    /* The log ends inside a character: that byte is left for the next call. */
    CHECK_INT(engine_background_logs(w.engine, bg, 0, &out, NULL), 0);
    CHECK_STR(str(out, "output"), "caf");
    CHECK_INT(num(out, "cursor"), 3);
    json_decref(out);
    CHECK_INT(engine_background_status(w.engine, "bg_none", &out, &err), -1);
    CHECK_STR(err.text, "Background exec not found: bg_none");
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    CHECK_INT(engine_background_status(w.engine, bg, &out, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    world_done(&w);
}

TEST(processes_and_metrics_have_the_shape_of_the_contract)
{
    struct world w;
    auto_free char *id = NULL;
    json_t *out, *p;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK_INT(engine_processes(w.engine, id, &out, NULL), 0);
    p = json_array_get(json_object_get(out, "processes"), 0);
    CHECK_INT(num(p, "pid"), 3);
    CHECK_STR(str(p, "cpu"), "50.0");
    CHECK_STR(str(p, "memory"), "12.5");
    json_decref(out);
    CHECK_INT(engine_processes_top(w.engine, id, &out, NULL), 0);
    p = json_array_get(json_object_get(out, "processes"), 0);
    CHECK_STR(str(p, "mem"), "12.5");
    CHECK_INT(num(p, "rss"), 64 << 10);
    json_decref(out);
    CHECK_INT(engine_process_kill(w.engine, id, 3, "TERM", NULL), 0);
    CHECK_INT(engine_process_kill(w.engine, id, 3, "SEGV", NULL), -1);
    CHECK_INT(engine_process_kill(w.engine, id, 0, "TERM", NULL), -1);
    CHECK_INT(engine_sandbox_metrics(w.engine, id, &out, NULL), 0);
    CHECK_INT(num(out, "pids"), 2);
    CHECK(json_number_value(json_object_get(out, "memoryUsageMb")) == 3);
    CHECK(json_number_value(json_object_get(out, "memoryLimitMb")) == 512);
    json_decref(out);
    world_done(&w);
}

TAP_MAIN
