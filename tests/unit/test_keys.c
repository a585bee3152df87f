#include <poll.h>
#include <sqlite3.h>

#include "engine/watch.h"
#include "engine_world.h"
#include "service/keys.h"

/* Keys of requests: one of those with the same key runs, and the others get its answer, also after
 * a daemon that ended in between. */

static struct world w;
static struct keys *keys;

static void up(void)
{
    struct err err = {0};

    world_up(&w);
    if (keys_open(w.dir, w.engine, &keys, &err) < 0)
        TAP_FAIL("%s", err.text);
    keys_start(keys);
}

static void down(void)
{
    keys_close(keys);
    world_done(&w);
}

/* The next daemon, while what the last one had is as it was when that ended. */
static struct keys *after_crash(void)
{
    struct err err = {0};
    struct keys *next;

    if (keys_open(w.dir, w.engine, &next, &err) < 0)
        TAP_FAIL("%s", err.text);
    keys_start(next);
    return next;
}

struct asked {
    int r;
    struct key_hold *hold;
    struct key_wait *wait;
    json_t *answer;
    struct err err;
};

static struct asked ask_as(struct keys *k, const char *caller, const char *key, char body,
                           bool tells)
{
    struct key_ask ask = {.caller = caller, .key = key, .tells = tells};
    struct asked a = {0};

    memset(ask.body, body, sizeof(ask.body));
    a.r = keys_take(k, &ask, &a.hold, &a.answer, &a.wait, &a.err);
    return a;
}

static struct asked ask(const char *key, char body)
{
    return ask_as(keys, "me", key, body, true);
}

static void check_refused(const struct asked *a, const char *code)
{
    CHECK_INT(a->r, -1);
    CHECK_STR(a->err.code ? a->err.code : "", code);
}

static void give(struct key_hold *hold, const char *text)
{
    json_t *out = json_loads(text, 0, NULL);

    keys_answer(hold, out, false);
    json_decref(out);
}

TEST(the_same_request_gets_the_same_answer)
{
    struct asked a, b;

    up();
    a = ask("k", 1);
    CHECK_INT(a.r, KEY_RUN);
    give(a.hold, "{\"id\": \"x\", \"n\": 1}");
    b = ask("k", 1);
    CHECK_INT(b.r, KEY_REPLAY);
    CHECK_STR(str(b.answer, "id"), "x");
    json_decref(b.answer);
    b = ask("k", 2);
    check_refused(&b, "idempotency_key_reused");
    b = ask_as(keys, "somebody else", "k", 2, true);
    CHECK_INT(b.r, KEY_RUN);
    keys_fail(b.hold, &b.err);
    down();
}

TEST(who_fails_has_made_nothing_and_the_key_is_free)
{
    struct err failure = {.kind = ERR_NOT_FOUND, .code = "image_not_found"};
    struct asked a;

    up();
    for (int i = 0; i < 3; i++) {
        a = ask("k", (char)i); /* another body, too */
        CHECK_INT(a.r, KEY_RUN);
        keys_fail(a.hold, &failure);
    }
    down();
}

static void check_woken(const struct asked *a)
{
    struct pollfd p = {.fd = key_wait_fd(a->wait), .events = POLLIN};

    CHECK_INT(poll(&p, 1, 0), 1);
}

TEST(who_comes_meanwhile_waits_for_the_result)
{
    struct err failure = {.kind = ERR_NOT_FOUND, .code = "image_not_found"}, err = {0};
    struct asked a, b, c;
    json_t *out = NULL;

    up();
    a = ask("k", 1);
    b = ask("k", 1);
    CHECK_INT(b.r, KEY_WAIT);
    c = ask("k", 2);
    check_refused(&c, "idempotency_key_reused");
    CHECK_INT(key_wait_result(b.wait, &out, &err), 1);
    give(a.hold, "{\"id\": \"x\"}");
    check_woken(&b);
    CHECK_INT(key_wait_result(b.wait, &out, &err), 0);
    CHECK_STR(str(out, "id"), "x");
    json_decref(out);
    key_wait_free(b.wait);

    a = ask("fails", 1);
    b = ask("fails", 1);
    keys_fail(a.hold, &failure);
    check_woken(&b);
    CHECK_INT(key_wait_result(b.wait, &out, &err), -1);
    CHECK_STR(err.code, "image_not_found");
    key_wait_free(b.wait);

    failure.code = "cancelled"; /* the other's caller went away: this one can try */
    a = ask("goes", 1);
    b = ask("goes", 1);
    keys_fail(a.hold, &failure);
    CHECK_INT(key_wait_result(b.wait, &out, &err), -1);
    CHECK_STR(err.code, "idempotency_in_progress");
    CHECK(err.retry_s > 0);
    key_wait_free(b.wait);
    down();
}

TEST(not_more_wait_than_may)
{
    struct asked a, all[64], more;

    up();
    a = ask("k", 1);
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        all[i] = ask("k", 1);
        CHECK_INT(all[i].r, KEY_WAIT);
    }
    more = ask("k", 1);
    check_refused(&more, "idempotency_in_progress");
    for (size_t i = 0; i < ARRAY_LEN(all); i += 2)
        key_wait_free(all[i].wait); /* some go before, */
    give(a.hold, "{}");
    for (size_t i = 1; i < ARRAY_LEN(all); i += 2)
        key_wait_free(all[i].wait); /* some after */
    down();
}

/* ---- when the daemon ends in between ---- */

static int on_makes(const char *id, void *hold, struct err *err)
{
    return keys_makes(hold, id, err);
}

TEST(a_crash_before_anything_is_chosen_leaves_the_key_free)
{
    struct asked a, b;
    struct keys *next;

    up();
    a = ask("k", 1);
    next = after_crash();
    b = ask_as(next, "me", "k", 1, true);
    CHECK_INT(b.r, KEY_RUN);
    keys_fail(b.hold, &b.err);
    keys_close(next);
    keys_fail(a.hold, &a.err);
    down();
}

TEST(a_crash_before_it_is_made_leaves_the_key_free)
{
    struct asked a, b;
    struct keys *next;

    up();
    a = ask("k", 1);
    CHECK_INT(keys_makes(a.hold, "sbx_0123456789abcdef01234567", NULL), 0);
    next = after_crash();
    b = ask_as(next, "me", "k", 1, true);
    CHECK_INT(b.r, KEY_RUN);
    keys_fail(b.hold, &b.err);
    keys_close(next);
    keys_fail(a.hold, &a.err);
    down();
}

TEST(a_crash_after_it_is_made_gives_what_was_made)
{
    struct engine_watch watch = {.makes = on_makes, .cancel_fd = -1};
    struct err err = {0};
    struct asked a, b;
    struct keys *next;
    json_t *sandbox;

    up();
    a = ask("k", 1);
    watch.arg = a.hold;
    if (create_from(w.engine, "{\"image\": \"host\"}", &watch, &sandbox, &err) < 0)
        TAP_FAIL("%s", err.text);
    next = after_crash();
    b = ask_as(next, "me", "k", 2, true);
    check_refused(&b, "idempotency_key_reused");
    b = ask_as(next, "me", "k", 1, true);
    CHECK_INT(b.r, KEY_REPLAY);
    CHECK_STR(str(b.answer, "id"), str(sandbox, "id"));
    json_decref(b.answer);
    /* Also when it is gone meanwhile: it was made. */
    CHECK_INT(engine_remove(w.engine, str(sandbox, "id"), NULL), 0);
    b = ask_as(next, "me", "k", 1, true);
    CHECK_INT(b.r, KEY_REPLAY);
    json_decref(b.answer);
    json_decref(sandbox);
    keys_close(next);
    keys_fail(a.hold, &a.err);
    down();
}

static sqlite3 *open_database(void)
{
    auto_free char *path = xasprintf("%s/keys.db", w.dir);
    sqlite3 *db;

    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

TEST(a_daemon_that_cannot_write_starts_and_nobody_runs_with_what_was_begun)
{
    struct asked a, again;
    struct keys *next;
    sqlite3 *db;

    up();
    a = ask("k", 1);
    CHECK_INT(a.r, KEY_RUN);
    db = open_database();
    CHECK_INT(sqlite3_exec(db,
                           "CREATE TRIGGER no BEFORE DELETE ON key BEGIN"
                           " SELECT RAISE(ABORT, 'no'); END",
                           NULL, NULL, NULL),
              SQLITE_OK);
    next = after_crash();
    again = ask_as(next, "me", "k", 1, true);
    check_refused(&again, "idempotency_unknown");
    keys_close(next);
    CHECK_INT(sqlite3_exec(db, "DROP TRIGGER no", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    keys_fail(a.hold, &a.err);
    down();
}

TEST(a_key_that_cannot_be_kept_makes_nothing)
{
    struct engine_watch watch = {.makes = on_makes, .cancel_fd = -1};
    struct err err = {0};
    struct asked a;
    json_t *sandbox;
    sqlite3 *db;

    up();
    a = ask("k", 1);
    watch.arg = a.hold;
    db = open_database();
    CHECK_INT(sqlite3_exec(db,
                           "CREATE TRIGGER no BEFORE UPDATE ON key BEGIN"
                           " SELECT RAISE(ABORT, 'no'); END",
                           NULL, NULL, NULL),
              SQLITE_OK);
    CHECK_INT(create_from(w.engine, "{\"image\": \"host\"}", &watch, &sandbox, &err), -1);
    keys_fail(a.hold, &err);
    (void)sqlite3_close(db);
    down(); /* which finds no box */
}

TEST(what_tells_nothing_is_not_run_again_after_a_crash)
{
    struct asked a, b;
    struct keys *next;

    up();
    a = ask_as(keys, "me", "k", 1, false);
    next = after_crash();
    b = ask_as(next, "me", "k", 1, false);
    check_refused(&b, "idempotency_unknown");
    keys_close(next);
    keys_fail(a.hold, &a.err);
    down();
}

TEST(secrets_and_long_answers_are_not_kept)
{
    auto_free char *text = xcalloc(1, 300000);
    struct asked a, b;
    json_t *out;

    up();
    memset(text, 'x', 299999);
    out = json_pack("{s:s, s:s}", "id", "thing_1", "text", text);
    for (int i = 0; i < 2; i++) {
        a = ask(i ? "secret" : "long", 1);
        keys_answer(a.hold, out, i);
        if (i == 0)
            (void)json_object_set_new(out, "text", json_string("short"));
        b = ask(i ? "secret" : "long", 1);
        check_refused(&b, "idempotency_unknown");
        CHECK(strstr(b.err.text, "thing_1"));
    }
    json_decref(out);
    down();
}

/* ---- how many there are ---- */

static struct store_keys *store;
static char *dir;

static void fill(const char *sql)
{
    auto_free char *path = xasprintf("%s/keys.db", dir);
    struct err err = {0};
    sqlite3 *db;

    store_keys_close(store);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    if (store_keys_open(dir, &store, &err) < 0)
        TAP_FAIL("%s", err.text);
}

static int add(int n, char caller)
{
    struct key_row row = {.state = KEY_ANSWERED, .at_ms = now_ms(), .answer = "{}"};

    memcpy(row.id, &n, sizeof(n));
    memset(row.caller, caller, sizeof(row.caller));
    return store_keys_add(store, &row, NULL);
}

static bool has(int n)
{
    unsigned char id[KEY_DIGEST] = {0};
    struct key_row row;

    memcpy(id, &n, sizeof(n));
    if (store_keys_find(store, id, &row, NULL) <= 0)
        return false;
    key_row_done(&row);
    return true;
}

/* Rows of the caller 7, whose ids are longer than those of add(). */
#define FILL(n, at, answer)                                                                        \
    "INSERT INTO key (id, caller, body, state, tells, at_ms, answer)"                              \
    " WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < " #n ")"            \
    " SELECT CAST(printf('%040d', i) AS BLOB), CAST(printf('%.32c', char(7)) AS BLOB), x'00', 1,"  \
    " 0, " at ", " answer " FROM c"
#define NOW "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

TEST(the_oldest_of_too_many_go)
{
    dir = dir_new();
    CHECK_INT(store_keys_open(dir, &store, NULL), 0);
    CHECK_INT(add(1, 1), 0);
    fill(FILL(99998, NOW, "'{}'"));
    CHECK_INT(store_keys_count(store), 99999);
    CHECK_INT(add(2, 1), 0);
    CHECK(has(1));
    CHECK_INT(add(3, 1), 0);
    CHECK_INT(store_keys_count(store), STORE_KEYS_MAX);
    CHECK(!has(1) && has(2) && has(3));
    /* One caller has no more than half of them: others' keys stay. */
    for (int i = 0; i < 300; i++)
        CHECK_INT(add(1000 + i, 7), 0);
    CHECK(store_keys_count(store) <= STORE_KEYS_MAX / 2 + 600);
    CHECK(has(2) && has(3) && has(1299));
    store_keys_close(store);
    dir_remove(&dir);
}

TEST(answers_take_no_more_room_than_they_may)
{
    dir = dir_new();
    CHECK_INT(store_keys_open(dir, &store, NULL), 0);
    CHECK_INT(add(1, 1), 0);
    fill(FILL(256, NOW, "hex(zeroblob(131072))"));
    CHECK_INT(add(2, 1), 0);
    CHECK(!has(1) && has(2));
    CHECK(store_keys_count(store) < 258);
    store_keys_close(store);
    dir_remove(&dir);
}

TEST(a_key_of_yesterday_is_none)
{
    struct key_row row = {.state = KEY_ANSWERED, .answer = "{}"};

    dir = dir_new();
    CHECK_INT(store_keys_open(dir, &store, NULL), 0);
    row.at_ms = now_ms() - STORE_KEYS_KEEP_MS - 1;
    CHECK_INT(store_keys_add(store, &row, NULL), 0);
    CHECK(!has(0));
    fill(FILL(300, "1", "'{}'"));
    for (int i = 1; i < 300; i++)
        CHECK_INT(add(i, 1), 0);
    CHECK_INT(store_keys_count(store), 299);
    store_keys_close(store);
    dir_remove(&dir);
}

TAP_MAIN
