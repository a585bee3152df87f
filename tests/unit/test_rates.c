#include "test_face.h"

#include "functions/rates.h"

/* How often callers may call, and sandboxes be made to do something. */

#define SECOND 1000000000LL

static struct rate_state state;

TEST(a_burst_passes_and_then_requests_wait_for_tokens)
{
    struct buckets *r = buckets_new(60, 3, 64); /* one a second */

    for (int i = 0; i < 3; i++)
        CHECK_INT(buckets_take(r, "a", 100 * SECOND, &state), 0);
    CHECK_INT(buckets_take(r, "a", 100 * SECOND, &state), 1);
    CHECK_INT(buckets_take(r, "a", 100 * SECOND + SECOND / 2, &state), 1);
    CHECK_INT(buckets_take(r, "a", 101 * SECOND, &state), 0);
    CHECK_INT(buckets_take(r, "a", 101 * SECOND, &state), 1);
    buckets_free(r);
}

TEST(idle_time_never_fills_more_than_a_burst)
{
    struct buckets *r = buckets_new(600, 2, 64);

    CHECK_INT(buckets_take(r, "a", 0, &state), 0);
    CHECK_INT(buckets_take(r, "a", 1000000 * SECOND, &state), 0);
    CHECK_INT(buckets_take(r, "a", 1000000 * SECOND, &state), 0);
    CHECK_INT(buckets_take(r, "a", 1000000 * SECOND, &state), 1);
    buckets_free(r);
}

TEST(keys_have_buckets_of_their_own_and_the_table_is_bounded)
{
    struct buckets *r = buckets_new(1, 1, 64);

    CHECK_INT(buckets_take(r, "a", SECOND, &state), 0);
    CHECK_INT(buckets_take(r, "a", SECOND, &state), 60);
    CHECK_INT(buckets_take(r, "b", SECOND, &state), 0);
    for (int i = 0; i < 10000; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%d", i);
        CHECK_INT(buckets_take(r, key, (2 + i) * SECOND, &state), 0);
        CHECK(buckets_count(r) <= 64);
    }
    buckets_free(r);
}

TEST(a_full_bucket_goes_before_one_that_is_not)
{
    struct buckets *b = buckets_new(60, 2, 2);

    CHECK_INT(buckets_take(b, "busy", 100 * SECOND, &state), 0);
    CHECK_INT(buckets_take(b, "busy", 100 * SECOND, &state), 0);
    CHECK_INT(buckets_take(b, "idle", 90 * SECOND, &state), 0);
    CHECK_INT(buckets_take(b, "new", 100 * SECOND, &state), 0);
    CHECK_INT(buckets_count(b), 2);
    CHECK_INT(buckets_take(b, "busy", 100 * SECOND, &state), 1);
    buckets_free(b);
}

TEST(what_is_left_is_told)
{
    struct buckets *b = buckets_new(60, 3, 8);

    CHECK_INT(buckets_take(b, "a", SECOND, &state), 0);
    CHECK_INT(state.limit, 3);
    CHECK_INT(state.remaining, 2);
    CHECK_INT(state.reset_s, 1);
    CHECK_INT(state.per_minute, 60);
    buckets_free(b);
}

static struct rates *rates;
static unsigned told;

static void on_rate(struct call *call)
{
    (void)call;
    told++;
}

static void face_limited(struct face *f, const char *id, const char *in)
{
    face_text(f, id, in);
    f->call.rates = rates;
    f->call.on_rate = on_rate;
}

/* Takes the first token of the sandbox's bucket for this function, at a time one day ahead. A
 * bucket gets no token back before the time of its last call, so the clock changes nothing in it
 * while the test runs. */
static void stop_refill(const char *id)
{
    struct call call = {.engine = engine, .rates = rates, .function = row_of(id)};
    struct err err = {0};

    (void)snprintf(call.sandbox_id, sizeof(call.sandbox_id), "%s", sandbox);
    CHECK_INT(rates_take_row(&call, mono_ns() + 86400 * SECOND, &err), 0);
    CHECK_INT(call.rate.remaining, call.rate.limit - 1);
}

TEST(a_sandbox_is_made_to_do_so_much_and_not_more)
{
    /* stop_refill() takes one of each, which leaves 2 and 3. */
    struct rates_config config = {.caller_rpm = 1, .caller_burst = 1, .exec_pm = 3, .file_pm = 4};
    char first[ID_SIZE];
    struct face f;

    up("{\"image\": \"host\"}");
    rates = rates_new(&config);
    stop_refill("cmd::run");
    stop_refill("fs::list");
    for (unsigned i = 0; i < 4; i++) {
        face_limited(&f, "cmd::run", "{\"command\": \"true\"}");
        if (i < 2) {
            face_succeeds(&f);
            CHECK_INT(f.call.rate.remaining, 1 - i);
        } else {
            face_fails(&f, "rate_limited");
            CHECK(f.err.retry_s > 0);
        }
        CHECK_INT(told, i + 1);
        face_done(&f);
    }
    /* Files have a rate of their own; what ends a command has none; nor has who is not limited. */
    for (unsigned i = 0; i < 4; i++) {
        face_limited(&f, "fs::list", "{}");
        if (i < 3)
            face_succeeds(&f);
        else
            face_fails(&f, "rate_limited");
        face_done(&f);
    }
    face_limited(&f, "cmd::interrupt", "{}");
    face_succeeds(&f);
    face_done(&f);
    do_call("cmd::run", "{\"command\": \"true\"}");
    /* And so has every sandbox. */
    (void)snprintf(first, sizeof(first), "%s", sandbox);
    sandbox_new("{\"image\": \"host\"}");
    face_limited(&f, "cmd::run", "{\"command\": \"true\"}");
    face_succeeds(&f);
    face_done(&f);
    rates_free(rates);
    down();
}

TEST(ids_of_no_sandbox_take_nobodys_place)
{
    struct rates_config config = {.caller_rpm = 1, .caller_burst = 1, .exec_pm = 1, .file_pm = 1};
    struct face f;

    engine_up();
    rates = rates_new(&config);
    for (int i = 0; i < 3; i++) {
        face_limited(&f, "fs::list", "{\"sandboxId\": \"sbx_000000000000000000000000\"}");
        face_fails(&f, "sandbox_not_found"); /* and never rate_limited */
        face_done(&f);
    }
    rates_free(rates);
    down();
}

TAP_MAIN
