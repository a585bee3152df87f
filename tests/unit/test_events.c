#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "model/event.h"
#include "service/events.h"
#include "service/events_internal.h"
#include "store/events.h"
#include "tap.h"
#include "tmpdir.h"

/* ---- ids and topics ---- */

TEST(ids_sort_as_what_they_name_and_lead_back_to_it)
{
    char a[ID_SIZE], b[ID_SIZE];
    int64_t seq;

    event_id(a, EVENT_SEQ_OF_MS(1700000000000), 0xffffffff);
    event_id(b, EVENT_SEQ_OF_MS(1700000000000) + 1, 0);
    CHECK(strcmp(a, b) < 0);
    CHECK(id_valid(a, "evt"));
    CHECK(event_id_seq(b, &seq) && seq == EVENT_SEQ_OF_MS(1700000000000) + 1);
    CHECK(!event_id_seq("evt_1", &seq));
    CHECK(!event_id_seq("sbx_000000000000000000000000", &seq));
    CHECK(!event_id_seq("evt_ffffffffffffffff00000000", &seq));
}

TEST(topics_are_matched_whole_or_by_their_beginning)
{
    CHECK(topics_match(NULL, "a"));
    CHECK(topics_match("*", "a"));
    CHECK(topics_match("x,sandbox.created", "sandbox.created"));
    CHECK(!topics_match("sandbox.create", "sandbox.created"));
    CHECK(!topics_match("sandbox.created", "sandbox.create"));
    CHECK(topics_match("exec.*,x", "exec.started"));
    CHECK(!topics_match("exec.*", "exec"));
    CHECK(topics_valid("a,b.*,*") && topics_valid("A:b/c_d-1"));
    CHECK(!topics_valid("") && !topics_valid("a,,b") && !topics_valid("a*b") &&
          !topics_valid("a b") && !topics_valid("a,"));
    CHECK(topic_valid("sandbox.created") && !topic_valid("") && !topic_valid("a*"));
}

TEST(what_a_sandbox_makes_by_itself_has_a_share)
{
    struct event_shares *s = xcalloc(1, sizeof(*s));
    int64_t now = 1000000000;
    uint64_t lost;

    for (int i = 0; i < EVENT_SHARE; i++)
        CHECK(event_share_take(s, "file.changed", "sbx_a", now, &lost));
    CHECK(!event_share_take(s, "file.changed", "sbx_a", now, &lost) && lost == 0);
    CHECK(!event_share_take(s, "network.denied", "sbx_a", now, &lost));
    /* Others have theirs, and what callers do is not counted. */
    CHECK(event_share_take(s, "file.changed", "sbx_b", now, &lost) && lost == 0);
    CHECK(event_share_take(s, "exec.finished", "sbx_a", now, &lost) && lost == 0);
    now += 1000000000;
    for (int i = 0; i < EVENT_SHARE_A_SECOND; i++)
        CHECK(event_share_take(s, "git.progress", "sbx_a", now, &lost) && lost == (i ? 0 : 2));
    CHECK(!event_share_take(s, "git.progress", "sbx_a", now, &lost));
    free(s);
}

/* ---- the store ---- */

static struct event_store *open_store(const char *dir)
{
    struct event_store *s = NULL;
    struct err err = {0};

    if (event_store_open(dir, &s, &err) < 0)
        TAP_FAIL("event_store_open: %s", err.text);
    return s;
}

/* One of a sandbox, at a time. */
static void add(struct event_store *s, int64_t ms, const char *topic, const char *sandbox)
{
    struct err err = {0};
    struct event_row row = {.seq = EVENT_SEQ_OF_MS(ms),
                            .time_ms = ms,
                            .topic = topic,
                            .sandbox_id = sandbox,
                            .data = "{}",
                            .data_len = 2};

    if (row.seq <= event_store_last(s))
        row.seq = event_store_last(s) + 1;
    if (event_store_add(s, &row, 1, &err) < 0)
        TAP_FAIL("event_store_add: %s", err.text);
}

static void add_topic(const struct event_row *row, void *arg)
{
    char *text = arg;

    (void)snprintf(text + strlen(text), 256 - strlen(text), "%s ", row->topic);
}

static const char *found(struct event_store *s, struct event_query q, uint64_t *ret_total)
{
    static char text[256];

    text[0] = '\0';
    q.limit = q.limit ? q.limit : 100;
    CHECK_INT(event_store_find(s, &q, add_topic, text, ret_total, NULL), 0);
    return text;
}

TEST(what_is_asked_for_is_found_the_newest_first)
{
    auto_dir char *dir = dir_new();
    struct event_store *s = open_store(dir);
    int64_t t = now_ms() + 1000;
    uint64_t total;

    add(s, t, "a.1", "x");
    add(s, t + 1, "a.2", "y");
    add(s, t + 2, "b.1", "x");
    CHECK_STR(found(s, (struct event_query){0}, &total), "b.1 a.2 a.1 ");
    CHECK_INT(total, 3);
    CHECK_STR(found(s, (struct event_query){.sandbox_id = "x"}, &total), "b.1 a.1 ");
    CHECK_STR(found(s, (struct event_query){.topics = "a.*"}, &total), "a.2 a.1 ");
    CHECK_STR(found(s, (struct event_query){.topics = "a.*", .sandbox_id = "x"}, &total), "a.1 ");
    CHECK_STR(found(s, (struct event_query){.since_ms = t + 1}, &total), "b.1 a.2 ");
    CHECK_STR(found(s, (struct event_query){.until_ms = t + 1}, &total), "a.2 a.1 ");
    CHECK_STR(found(s, (struct event_query){.limit = 1, .offset = 1}, &total), "a.2 ");
    CHECK_INT(total, 3);
    CHECK_STR(found(s, (struct event_query){.topics = "c"}, &total), "");
    CHECK_INT(total, 0);
    event_store_close(s);
}

static int trim(struct event_store *s, uint64_t count, uint64_t bytes, int64_t since_ms,
                bool *ret_more)
{
    const struct event_bounds keep = {.count = count, .bytes = bytes, .since_ms = since_ms};

    return event_store_trim(s, &keep, ret_more, NULL);
}

TEST(few_that_are_large_go_too)
{
    auto_dir char *dir = dir_new();
    struct event_store *s = open_store(dir);
    auto_free char *large = xmalloc(60000);
    int64_t t = now_ms() + 1000;
    bool more = true;

    memset(large, ' ', 60000);
    memcpy(large, "{", 1);
    large[59999] = '}';
    for (int i = 0; i < 3000; i++) {
        const struct event_row row = {.seq = EVENT_SEQ_OF_MS(t + i),
                                      .time_ms = t + i,
                                      .topic = "a",
                                      .sandbox_id = "x",
                                      .data = large,
                                      .data_len = 60000};

        CHECK_INT(event_store_add(s, &row, 1, NULL), 0);
    }
    CHECK_INT(trim(s, 10000, UINT64_MAX, 0, &more), 0);
    CHECK_INT(event_store_count(s), 3000);
    do
        CHECK_INT(trim(s, 10000, 100u << 20, 0, &more), 0);
    while (more);
    CHECK(event_store_count(s) < 1800);
    CHECK(event_store_count(s) >= 900);
    event_store_close(s);
}

TEST(what_is_too_old_or_too_much_goes_and_is_remembered_to_have_been)
{
    auto_dir char *dir = dir_new();
    struct event_store *s = open_store(dir);
    int64_t t = now_ms() + 1000, floor;
    bool more;

    for (int i = 0; i < 10; i++)
        add(s, t + i, "a", "x");
    CHECK_INT(trim(s, 100, UINT64_MAX, t + 3, &more), 0);
    CHECK_INT(event_store_count(s), 7);
    CHECK_INT(trim(s, 4, UINT64_MAX, 0, &more), 0);
    CHECK_INT(event_store_count(s), 4);
    CHECK(!more);
    floor = event_store_floor(s);
    CHECK_INT(floor, EVENT_SEQ_OF_MS(t + 5));
    event_store_close(s);
    s = open_store(dir);
    CHECK_INT(event_store_count(s), 4);
    CHECK_INT(event_store_floor(s), floor);
    CHECK_INT(event_store_last(s), EVENT_SEQ_OF_MS(t + 9));
    event_store_close(s);
}

/* ---- the service ---- */

static struct events *open_events(const char *dir, uint32_t max)
{
    struct events_config config = {.data_dir = dir, .max = max, .days = 7};
    struct events *ev = NULL;
    struct err err = {0};

    if (events_open(&config, &ev, &err) < 0)
        TAP_FAIL("events_open: %s", err.text);
    return ev;
}

static struct events_reader *subscribe(struct events *ev, struct events_from from)
{
    struct events_reader *r = NULL;
    struct err err = {0};

    if (events_subscribe(ev, &from, &r, &err) < 0)
        TAP_FAIL("events_subscribe: %s", err.text);
    return r;
}

/* Waits for it. */
static struct events_block *next_block(struct events_reader *r)
{
    struct events_block *b = NULL;
    bool more = false;

    for (;;) {
        struct pollfd p = {.fd = events_reader_fd(r), .events = POLLIN};

        CHECK_INT(events_take(r, &b, &more, NULL), 0);
        if (b)
            return b;
        if (!more && poll(&p, 1, PATIENCE_MS) == 0)
            TAP_FAIL("no event came");
    }
}

/* What the reader is given until n have come: their topics, in order. */
static void expect(struct events_reader *r, const char *const *topics)
{
    while (*topics) {
        struct events_block *b = next_block(r);

        for (size_t i = 0; i < b->n; i++) {
            if (!*topics)
                TAP_FAIL("%s is one too many", b->events[i].topic);
            CHECK_STR(b->events[i].topic, *topics++);
        }
        events_block_unref(b);
    }
}

static void publish_n(struct events *ev, unsigned from, unsigned n)
{
    for (unsigned i = from; i < from + n; i++) {
        char topic[32];

        (void)snprintf(topic, sizeof(topic), "n.%u", i);
        events_publish(ev, topic, i % 2 ? "odd" : "even", json_pack("{s:i}", "i", (int)i));
    }
}

/* From i on, in steps, until before end; nothing missing, nothing twice. */
static void expect_numbers(struct events_reader *r, unsigned i, unsigned step, unsigned end)
{
    while (i < end) {
        struct events_block *b = next_block(r);

        for (size_t k = 0; k < b->n; k++, i += step) {
            unsigned n = 0;

            CHECK_INT(sscanf(b->events[k].topic, "n.%u", &n), 1);
            CHECK_INT(n, i);
        }
        events_block_unref(b);
    }
    CHECK_INT(i, end + (end - i) % step);
}

TEST(who_reads_is_told_what_happens_from_then_on_in_order)
{
    auto_dir char *dir = dir_new();
    struct events *ev = open_events(dir, 1000);
    struct events_reader *r;
    json_t *before;

    events_publish(ev, "before", "", NULL);
    CHECK_INT(events_history(ev, &(struct event_query){.limit = 1}, &before, NULL), 0);
    json_decref(before);
    events_publish(ev, "exec.before", "", NULL); /* is not written yet */
    r = subscribe(ev, (struct events_from){0});
    events_publish(ev, "sandbox.created", "sbx", json_pack("{s:s}", "a", "\xc3\xa4"));
    events_publish(ev, "exec.started", "sbx", NULL);
    expect(r, (const char *const[]){"sandbox.created", "exec.started", NULL});
    events_unsubscribe(r);
    events_close(ev);
}

TEST(the_text_of_an_event_is_one_line_of_ascii_with_its_id_before)
{
    auto_dir char *dir = dir_new();
    struct events *ev = open_events(dir, 1000);
    struct events_reader *r = subscribe(ev, (struct events_from){0});
    struct events_block *b;
    char *want;
    json_t *o;

    events_publish(ev, "t", "a \"quoted\"\n id", json_pack("{s:s}", "k", "\xe2\x80\xa8"));
    b = next_block(r);
    CHECK_INT(b->n, 1);
    want = xasprintf("id: %s\ndata: ", b->events[0].id);
    CHECK(strncmp(b->text, want, strlen(want)) == 0);
    CHECK_INT(b->events[0].lines_len, b->len);
    CHECK(strcmp(b->text + b->len - 3, "}\n\n") == 0);
    for (size_t i = 0; i < b->len; i++)
        CHECK((unsigned char)b->text[i] < 128);
    o = json_loadb(b->events[0].json, b->events[0].json_len, 0, NULL);
    CHECK_STR(json_string_value(json_object_get(o, "sandboxId")), "a \"quoted\"\n id");
    CHECK_STR(json_string_value(json_object_get(json_object_get(o, "data"), "k")), "\xe2\x80\xa8");
    json_decref(o);
    free(want);
    events_block_unref(b);
    events_unsubscribe(r);
    events_close(ev);
}

TEST(a_reader_is_given_what_it_asked_for_only)
{
    auto_dir char *dir = dir_new();
    struct events *ev = open_events(dir, 10000);
    struct events_reader *odd = subscribe(ev, (struct events_from){.sandbox_id = "odd"});
    struct events_reader *some = subscribe(ev, (struct events_from){.topics = "last,n.19*"});

    publish_n(ev, 0, 200);
    expect_numbers(odd, 1, 2, 200);
    events_publish(ev, "last", "odd", NULL);
    expect(odd, (const char *const[]){"last", NULL});
    expect(some, (const char *const[]){"n.19", "n.190", "n.191", "n.192", "n.193", "n.194", "n.195",
                                       "n.196", "n.197", "n.198", "n.199", "last", NULL});
    events_unsubscribe(odd);
    events_unsubscribe(some);
    events_close(ev);
}

/* More than the ring holds, and more than a page. */
TEST(one_who_is_slow_reads_from_the_store_and_misses_nothing)
{
    auto_dir char *dir = dir_new();
    struct events *ev = open_events(dir, 100000);
    struct events_reader *slow = subscribe(ev, (struct events_from){0});

    for (unsigned i = 0; i < 30; i++) {
        json_t *history = NULL;

        publish_n(ev, i * 1000, 1000);
        CHECK_INT(events_history(ev, &(struct event_query){.limit = 1}, &history, NULL), 0);
        json_decref(history);
    }
    expect_numbers(slow, 0, 1, 30000);
    events_unsubscribe(slow);
    events_close(ev);
}

/* Some are read, then the reader is gone, comes back with where it was, again and again, while
 * others publish. */
static void *publish_many(void *ev)
{
    publish_n(ev, 0, 20000);
    return NULL;
}

TEST(who_comes_back_goes_on_where_it_was)
{
    auto_dir char *dir = dir_new();
    struct events *ev = open_events(dir, 100000);
    struct events_reader *r = subscribe(ev, (struct events_from){0});
    unsigned at = 0;
    int64_t place = 0;
    pthread_t thread;

    CHECK_INT(pthread_create(&thread, NULL, publish_many, ev), 0);
    while (at < 20000) {
        struct events_block *b = next_block(r);
        size_t take = at % 3 ? b->n : (b->n + 1) / 2; /* now and then it goes within a block */

        for (size_t i = 0; i < take; i++) {
            unsigned n = 0;

            CHECK_INT(sscanf(b->events[i].topic, "n.%u", &n), 1);
            CHECK_INT(n, at++);
            place = b->events[i].seq;
        }
        events_block_unref(b);
        events_unsubscribe(r);
        r = subscribe(ev, (struct events_from){.after = place});
    }
    CHECK_INT(pthread_join(thread, NULL), 0);
    events_unsubscribe(r);
    events_close(ev);
}

TEST(after_a_restart_it_goes_on_and_numbers_grow)
{
    auto_dir char *dir = dir_new();
    struct events *ev = open_events(dir, 1000);
    struct events_reader *r;
    json_t *first = NULL;
    int64_t seq;

    CHECK_INT(events_publish_kept(ev, "mine", "x", json_pack("{s:i}", "a", 1), &first, NULL), 0);
    CHECK(json_is_true(json_object_get(first, "published")));
    CHECK(event_id_seq(json_string_value(json_object_get(first, "id")), &seq));
    publish_n(ev, 0, 10);
    events_close(ev); /* which writes them */
    ev = open_events(dir, 1000);
    r = subscribe(ev, (struct events_from){.after = seq});
    publish_n(ev, 10, 5);
    expect_numbers(r, 0, 1, 15);
    CHECK(events_reader_place(r) > seq);
    events_unsubscribe(r);
    events_close(ev);
    json_decref(first);
}

TEST(who_comes_too_late_is_told_what_is_gone)
{
    auto_dir char *dir = dir_new();
    struct events *ev = open_events(dir, 100);
    struct events_reader *r;
    struct events_block *b;
    json_t *first = NULL, *o, *history;
    int64_t seq;
    size_t kept;

    CHECK_INT(events_publish_kept(ev, "first", "x", NULL, &first, NULL), 0);
    CHECK(event_id_seq(json_string_value(json_object_get(first, "id")), &seq));
    publish_n(ev, 0, 1000);
    do { /* the writer trims when it has written */
        CHECK_INT(events_history(ev, &(struct event_query){.limit = 1}, &history, NULL), 0);
        kept = (size_t)json_integer_value(json_object_get(history, "total"));
        json_decref(history);
        events_publish(ev, "again", "", NULL);
    } while (kept > 110);
    r = subscribe(ev, (struct events_from){.after = seq});
    b = next_block(r);
    CHECK_STR(b->events[0].topic, EVENTS_LOST);
    CHECK(b->events[0].seq > seq);
    o = json_loadb(b->events[0].json, b->events[0].json_len, 0, NULL);
    CHECK(json_string_value(json_object_get(json_object_get(o, "data"), "from")));
    json_decref(o);
    events_block_unref(b);
    b = next_block(r); /* and then what there is */
    CHECK(strcmp(b->events[0].topic, EVENTS_LOST) != 0);
    events_block_unref(b);
    events_unsubscribe(r);
    events_close(ev);
    json_decref(first);
}

TEST(who_asks_for_a_time_is_given_what_there_is_of_it)
{
    auto_dir char *dir = dir_new();
    struct events *ev = open_events(dir, 1000);
    struct events_reader *r;

    publish_n(ev, 0, 10);
    r = subscribe(ev, (struct events_from){.since_ms = 1});
    expect_numbers(r, 0, 1, 10);
    events_unsubscribe(r);
    events_close(ev);
}

/* ---- who wants it kept ---- */

struct publisher {
    struct events *ev;
    const char *topic;
    unsigned kept;
};

static void *publish_often(void *arg)
{
    struct publisher *p = arg;

    for (int i = 0; i < 300; i++) {
        json_t *event = NULL;

        if (events_publish_kept(p->ev, p->topic, "", json_object(), &event, NULL) == 0)
            p->kept++;
        json_decref(event);
    }
    return NULL;
}

TEST(who_is_told_that_it_is_kept_finds_it_also_when_others_fail)
{
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/events.db", dir);
    struct events *ev = open_events(dir, 10000);
    struct publisher all[] = {{ev, "bad", 0}, {ev, "good", 0}, {ev, "bad", 0}, {ev, "good", 0}};
    pthread_t threads[ARRAY_LEN(all)];
    sqlite3 *db;

    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 10000); /* the writer may be at it */
    CHECK_INT(sqlite3_exec(db,
                           "CREATE TRIGGER no BEFORE INSERT ON events WHEN new.topic = 'bad' BEGIN"
                           " SELECT RAISE(ABORT, 'no'); END",
                           NULL, NULL, NULL),
              SQLITE_OK);
    (void)sqlite3_close(db);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        CHECK_INT(pthread_create(&threads[i], NULL, publish_often, &all[i]), 0);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        (void)pthread_join(threads[i], NULL);
    CHECK_INT(all[0].kept + all[2].kept, 0);
    CHECK_INT(all[1].kept + all[3].kept, event_store_count(ev->store));
    events_close(ev);
}

/* The disk takes nothing: who reads now is told all the same, and who wants it kept is refused. */
TEST(what_cannot_be_written_is_told_and_counted)
{
    auto_dir char *dir = dir_new();
    struct events *ev = open_events(dir, 1000);
    struct events_reader *r = subscribe(ev, (struct events_from){0});
    struct events_figures figures;
    struct rlimit none = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
    json_t *event = NULL;

    CHECK_INT(setrlimit(RLIMIT_FSIZE, &none), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    events_publish(ev, "unkept", "", NULL);
    expect(r, (const char *const[]){"unkept", NULL});
    CHECK_INT(events_publish_kept(ev, "mine", "x", NULL, &event, NULL), -1);
    events_figures(ev, &figures);
    CHECK_INT(figures.lost, 2);
    none.rlim_cur = RLIM_INFINITY;
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &none), 0);
    expect(r, (const char *const[]){"mine", NULL});
    CHECK_INT(events_publish_kept(ev, "kept", "x", NULL, &event, NULL), 0);
    expect(r, (const char *const[]){"kept", NULL});
    json_decref(event);
    events_unsubscribe(r);
    events_close(ev);
}

/* The writer waits for the database, which another has. */
TEST(past_the_bound_of_the_queue_events_are_counted_and_that_is_told)
{
    auto_dir char *dir = dir_new();
    struct events *ev = open_events(dir, 200000);
    struct events_reader *r = subscribe(ev, (struct events_from){.topics = EVENTS_LOST});
    auto_free char *path = xasprintf("%s/events.db", dir);
    struct events_figures figures;
    struct events_block *b;
    sqlite3 *db = NULL;
    json_t *o;

    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 10000);
    CHECK_INT(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    publish_n(ev, 0, 2 * EVENTS_QUEUE_MAX + 1024); /* some may be the writer's already */
    events_figures(ev, &figures);
    CHECK(figures.lost > 0);
    CHECK(figures.queued <= EVENTS_QUEUE_MAX);
    CHECK_INT(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
    b = next_block(r);
    o = json_loadb(b->events[0].json, b->events[0].json_len, 0, NULL);
    CHECK_INT(json_integer_value(json_object_get(json_object_get(o, "data"), "lost")),
              (intmax_t)figures.lost);
    json_decref(o);
    events_block_unref(b);
    events_unsubscribe(r);
    events_close(ev);
}

TEST(there_is_a_most_of_readers)
{
    auto_dir char *dir = dir_new();
    struct events *ev = open_events(dir, 1000);
    static struct events_reader *all[EVENTS_READERS_MAX];
    struct rlimit files = {EVENTS_READERS_MAX + 100, EVENTS_READERS_MAX + 100};
    struct events_reader *more = NULL;
    struct err err = {0};

    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        SKIP("there are too few descriptors");
    for (unsigned i = 0; i < EVENTS_READERS_MAX; i++)
        all[i] = subscribe(ev, (struct events_from){0});
    CHECK_INT(events_subscribe(ev, &(struct events_from){0}, &more, &err), -1);
    CHECK_STR(err.code, "too_many_streams");
    for (unsigned i = 0; i < EVENTS_READERS_MAX; i++)
        events_unsubscribe(all[i]);
    events_close(ev);
}

TAP_MAIN
