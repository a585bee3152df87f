#include "test_face.h"

#include "functions/keys.h"
#include "service/keys.h"

/* Calls with keys, by a face without HTTP. */

static void face_keyed(struct face *f, const char *id, const char *in, const char *key)
{
    face_text(f, id, in);
    f->call.key = key;
}

static int count_sandboxes(void)
{
    json_t *list = ask("sandbox::list", "{}");
    int n = (int)num(list, "total");

    json_decref(list);
    return n;
}

#define CREATE "{\"image\": \"host\", \"metadata\": {\"b\": \"1\", \"a\": \"2\"}}"
#define SAME   "{\"metadata\": {\"a\": \"2\", \"b\": \"1\"}, \"image\": \"host\"}"

TEST(a_call_with_a_key_is_run_once)
{
    char id[ID_SIZE];
    struct face f;

    engine_up();
    face_keyed(&f, "sandbox::create", CREATE, "k");
    face_succeeds(&f);
    CHECK(!f.call.replayed);
    (void)snprintf(id, sizeof(id), "%s", str(f.call.out, "id"));
    face_done(&f);
    face_keyed(&f, "sandbox::create", SAME, "k");
    face_succeeds(&f);
    face_check(&f);
    CHECK(f.call.replayed);
    CHECK_STR(str(f.call.out, "id"), id);
    face_done(&f);
    CHECK_INT(count_sandboxes(), 1);

    face_keyed(&f, "sandbox::create", "{\"image\": \"host\"}", "k");
    face_fails(&f, "idempotency_key_reused");
    face_done(&f);
    face_keyed(&f, "volume::create", "{\"name\": \"v\"}", "k"); /* nor for another row */
    face_fails(&f, "idempotency_key_reused");
    face_done(&f);
    down();
}

TEST(rows_that_make_nothing_take_no_notice_of_keys)
{
    struct face f;

    up("{\"image\": \"host\"}");
    for (int i = 0; i < 2; i++) {
        face_keyed(&f, "sandbox::get", "{}", "not a key, since it has spaces");
        face_succeeds(&f);
        CHECK(!f.call.replayed);
        face_done(&f);
    }
    down();
}

TEST(keys_that_are_none)
{
    char key[KEY_MAX + 2] = "";
    struct face f;

    engine_up();
    memset(key, 'x', sizeof(key) - 1);
    for (int i = 0; i < 4; i++) {
        const char *bad[] = {"", "a b", "\xc3\xa4", key};

        face_keyed(&f, "sandbox::create", CREATE, bad[i]);
        face_fails(&f, "bad_idempotency_key");
        face_done(&f);
    }
    CHECK_INT(count_sandboxes(), 0);
    down();
}

TEST(a_call_that_fails_can_be_sent_again)
{
    struct face f;

    engine_up();
    for (int i = 0; i < 2; i++) {
        face_keyed(&f, "snapshot::clone", "{\"snapshotId\": \"none\"}", "k");
        face_fails(&f, "snapshot_not_found");
        face_done(&f);
    }
    face_keyed(&f, "sandbox::create", CREATE, "k");
    face_succeeds(&f);
    CHECK(!f.call.replayed);
    face_done(&f);
    down();
}

/* A terminal's create leaves a task: its answer comes later, and is kept all the same. */
TEST(a_call_that_waits_keeps_its_key_until_its_end)
{
    struct face f, again;

    up("{\"image\": \"host\"}");
    face_keyed(&f, "terminal::create", "{}", "k");
    CHECK_INT(face_begin(&f), 0);
    if (f.call.task) {
        face_keyed(&again, "terminal::create", "{}", "k");
        CHECK_INT(face_begin(&again), 0);
        CHECK(again.call.task); /* it waits for the other */
        face_done(&again);
    }
    CHECK_INT(call_wait(&f.call, 0, &f.err), TASK_DONE);
    face_keyed(&again, "terminal::create", "{}", "k");
    face_succeeds(&again);
    CHECK(again.call.replayed);
    CHECK_STR(str(again.call.out, "sessionId"), str(f.call.out, "sessionId"));
    face_done(&again);
    face_done(&f);
    down();
}

/* One whose caller goes away in the middle is over, and its key free. */
TEST(who_goes_away_frees_the_key)
{
    struct face f;

    up("{\"image\": \"host\"}");
    face_keyed(&f, "terminal::create", "{}", "k");
    CHECK_INT(face_begin(&f), 0);
    if (!f.call.task)
        SKIP("it was done at once");
    face_done(&f);
    face_keyed(&f, "terminal::create", "{}", "k");
    face_succeeds(&f);
    CHECK(!f.call.replayed);
    face_done(&f);
    down();
}

static int check_row(const struct function *f, void *arg)
{
    (void)arg;
    if (!(f->flags & FUNCTION_MAKES)) {
        if (f->flags & (FUNCTION_TELLS | FUNCTION_SECRET))
            TAP_FAIL("%s makes nothing to tell or to keep", f->id);
        return 0;
    }
    if (strcmp(f->method, "POST") != 0 || f->answer != ANSWER_JSON || !f->gives)
        TAP_FAIL("%s: only an answer of JSON can be given again", f->id);
    if (f->flags & FUNCTION_RAW_IN)
        TAP_FAIL("%s: a body of bytes is not compared with another", f->id);
    return 0;
}

TEST(rows_that_take_keys_can)
{
    (void)functions_each(check_row, NULL);
    CHECK(row_of("sandbox::create")->flags & FUNCTION_MAKES);
}

TAP_MAIN
