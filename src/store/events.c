#include "store/events.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "model/event.h"
#include "store/side_internal.h"

#define TRIM_AT_ONCE 1024
#define TEXT(n)      #n
#define DIGITS(n)    TEXT(n)

/* The index answers what a list has in all, too: topics and times are looked at in it. */
static const char *const migrations[] = {
    "CREATE TABLE events (seq INTEGER PRIMARY KEY, salt INTEGER NOT NULL, time INTEGER NOT NULL,"
    " topic TEXT NOT NULL, sandbox TEXT NOT NULL, data TEXT NOT NULL, published INTEGER NOT NULL)"
    " STRICT;"
    "CREATE INDEX events_of ON events (sandbox, topic, time);"
    "CREATE TABLE floor (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL) STRICT;",
};

#define COLUMNS "SELECT seq, salt, time, topic, sandbox, data, published FROM events "
#define WANTED  "time >= ?1 AND time <= ?2 AND (?3 IS NULL OR topics_match(?3, topic))"
#define PAGE    " ORDER BY seq DESC LIMIT ?4 OFFSET ?5"
#define OLDEST  "(SELECT seq, time FROM events ORDER BY seq LIMIT " DIGITS(TRIM_AT_ONCE) ")"

enum { ADD, AFTER, LAST, COUNT, FLOOR, FLOOR_PUT, OLD, SURPLUS, REMOVE, BYTES, STMTS };

static const char *const sql[STMTS] = {
    [ADD] = "INSERT INTO events (seq, salt, time, topic, sandbox, data, published) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
    [AFTER] = COLUMNS "WHERE seq > ? ORDER BY seq LIMIT ?",
    [LAST] = "SELECT max(seq) FROM events",
    [COUNT] = "SELECT count(*) FROM events",
    [FLOOR] = "SELECT seq FROM floor",
    [FLOOR_PUT] = "INSERT INTO floor (one, seq) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET seq "
                  "= excluded.seq",
    [OLD] = "SELECT max(seq) FROM " OLDEST " WHERE time < ?",
    [SURPLUS] = "SELECT max(seq) FROM (SELECT seq FROM events ORDER BY seq LIMIT ?)",
    [REMOVE] = "DELETE FROM events WHERE seq <= ?",
    [BYTES] = "SELECT (p.page_count - f.freelist_count) * s.page_size FROM pragma_page_count p, "
              "pragma_freelist_count f, pragma_page_size s",
};

/* With a function of ours, so these are prepared when it is there. */
enum { FIND, FIND_OF, TOTAL, TOTAL_OF, FINDERS };

static const char *const finders[FINDERS] = {
    [FIND] = COLUMNS "WHERE " WANTED PAGE,
    [FIND_OF] = COLUMNS "WHERE sandbox = ?6 AND " WANTED PAGE,
    [TOTAL] = "SELECT count(*) FROM events INDEXED BY events_of WHERE " WANTED,
    [TOTAL_OF] = "SELECT count(*) FROM events WHERE sandbox = ?6 AND " WANTED,
};

struct event_store {
    struct side *side;
    sqlite3_stmt *finders[FINDERS]; /* under the lock of side */
    _Atomic int64_t last, floor;
    _Atomic uint64_t count;
};

/* ---- open ---- */

static void sql_topics_match(sqlite3_context *context, int n, sqlite3_value **args)
{
    (void)n;
    sqlite3_result_int(context, topics_match((const char *)sqlite3_value_text(args[0]),
                                             (const char *)sqlite3_value_text(args[1])));
}

static int prepare_finders(struct event_store *s, struct err *err)
{
    sqlite3 *db = s->side->db;
    bool done = sqlite3_create_function(db, "topics_match", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                        NULL, sql_topics_match, NULL, NULL) == SQLITE_OK;

    for (int i = 0; i < FINDERS && done; i++)
        done = sqlite3_prepare_v3(db, finders[i], -1, SQLITE_PREPARE_PERSISTENT, &s->finders[i],
                                  NULL) == SQLITE_OK;
    return done ? 0 : store_sql_error(db, "prepare the database's statements", err);
}

/* A number that a statement without rows of its own gives; 0 when there is none. */
static int read_number(struct event_store *s, unsigned which, int64_t *ret, struct err *err)
{
    sqlite3_stmt *st = side_stmt(s->side, which);
    int code = sqlite3_step(st), r = 0;

    if (code == SQLITE_ROW || code == SQLITE_DONE)
        *ret = code == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    else
        r = store_sql_error(s->side->db, "read the events", err);
    (void)sqlite3_reset(st);
    return r;
}

static int put_floor(struct event_store *s, int64_t seq, struct err *err)
{
    (void)sqlite3_bind_int64(side_stmt(s->side, FLOOR_PUT), 1, seq);
    return side_run(s->side, FLOOR_PUT, "remove events", err);
}

/* A database that is new does not know what was told before: who comes with an older place than
 * this moment's has missed something. */
static int read_bounds(struct event_store *s, struct err *err)
{
    int64_t last = 0, floor = 0, count = 0;
    int r = -1;

    if (side_begin(s->side, err) < 0)
        return -1;
    if (read_number(s, LAST, &last, err) == 0 && read_number(s, COUNT, &count, err) == 0 &&
        read_number(s, FLOOR, &floor, err) == 0) {
        r = 0;
        if (floor == 0 && last == 0) {
            floor = EVENT_SEQ_OF_MS(now_ms());
            r = put_floor(s, floor, err);
        }
    }
    if (side_commit(s->side, r < 0, err) < 0)
        return -1;
    atomic_init(&s->floor, floor);
    atomic_init(&s->last, last > floor ? last : floor);
    atomic_init(&s->count, (uint64_t)count);
    return 0;
}

int event_store_open(const char *data_dir, struct event_store **ret, struct err *err)
{
    static const struct migrations m = {migrations, ARRAY_LEN(migrations)};
    struct event_store *s = xcalloc(1, sizeof(*s));

    if (side_open(data_dir, "events", &m, sql, STMTS, &s->side, err) == 0 &&
        prepare_finders(s, err) == 0 && read_bounds(s, err) == 0) {
        *ret = s;
        return 0;
    }
    event_store_close(s);
    return -1;
}

void event_store_close(struct event_store *s)
{
    if (!s)
        return;
    for (int i = 0; i < FINDERS; i++)
        (void)sqlite3_finalize(s->finders[i]);
    side_close(s->side);
    free(s);
}

int64_t event_store_last(struct event_store *s)
{
    return atomic_load(&s->last);
}

int64_t event_store_floor(struct event_store *s)
{
    return atomic_load(&s->floor);
}

uint64_t event_store_count(struct event_store *s)
{
    return atomic_load(&s->count);
}

/* ---- add ---- */

static int add_one(struct event_store *s, const struct event_row *row, struct err *err)
{
    sqlite3_stmt *st = side_stmt(s->side, ADD);

    (void)sqlite3_bind_int64(st, 1, row->seq);
    (void)sqlite3_bind_int64(st, 2, row->salt);
    (void)sqlite3_bind_int64(st, 3, row->time_ms);
    (void)sqlite3_bind_text(st, 4, row->topic, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 5, row->sandbox_id, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 6, row->data, (int)row->data_len, SQLITE_STATIC);
    (void)sqlite3_bind_int(st, 7, row->published);
    return side_run(s->side, ADD, "store events", err);
}

int event_store_add(struct event_store *s, const struct event_row *rows, size_t n, struct err *err)
{
    int r = 0;

    if (n == 0)
        return 0;
    if (side_begin(s->side, err) < 0)
        return -1;
    for (size_t i = 0; i < n && r == 0; i++)
        r = add_one(s, &rows[i], err);
    if (side_commit(s->side, r < 0, err) < 0)
        return -1;
    atomic_store(&s->last, rows[n - 1].seq);
    atomic_fetch_add(&s->count, n);
    return 0;
}

/* ---- read ---- */

/* Resets the statement. */
static int each_row(struct event_store *s, sqlite3_stmt *st, event_each each, void *arg,
                    struct err *err)
{
    int code;

    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct event_row row = {
            .seq = sqlite3_column_int64(st, 0),
            .salt = (uint32_t)sqlite3_column_int64(st, 1),
            .time_ms = sqlite3_column_int64(st, 2),
            .topic = (const char *)sqlite3_column_text(st, 3),
            .sandbox_id = (const char *)sqlite3_column_text(st, 4),
            .data = (const char *)sqlite3_column_text(st, 5),
            .data_len = (size_t)sqlite3_column_bytes(st, 5),
            .published = sqlite3_column_int(st, 6),
        };

        each(&row, arg);
    }
    (void)sqlite3_reset(st);
    return code == SQLITE_DONE ? 0 : store_sql_error(s->side->db, "read the events", err);
}

int event_store_after(struct event_store *s, int64_t seq, unsigned max, event_each each, void *arg,
                      struct err *err)
{
    sqlite3_stmt *st;
    int r;

    side_take(s->side);
    st = side_stmt(s->side, AFTER);
    (void)sqlite3_bind_int64(st, 1, seq);
    (void)sqlite3_bind_int64(st, 2, max);
    r = each_row(s, st, each, arg, err);
    side_give(s->side);
    return r;
}

static sqlite3_stmt *bind_query(struct event_store *s, unsigned which, const struct event_query *q)
{
    sqlite3_stmt *st = s->finders[which];

    (void)sqlite3_reset(st);
    (void)sqlite3_clear_bindings(st);
    (void)sqlite3_bind_int64(st, 1, q->since_ms);
    (void)sqlite3_bind_int64(st, 2, q->until_ms ? q->until_ms : INT64_MAX);
    (void)sqlite3_bind_text(st, 3, q->topics, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 4, q->limit); /* of those that have no such number: no harm */
    (void)sqlite3_bind_int64(st, 5, q->offset);
    (void)sqlite3_bind_text(st, 6, q->sandbox_id, -1, SQLITE_STATIC);
    return st;
}

static int read_total(struct event_store *s, const struct event_query *q, uint64_t *ret,
                      struct err *err)
{
    sqlite3_stmt *st;
    int r = 0;

    if (!q->sandbox_id && !q->topics && !q->since_ms && !q->until_ms) {
        *ret = event_store_count(s);
        return 0;
    }
    st = bind_query(s, q->sandbox_id ? TOTAL_OF : TOTAL, q);
    if (sqlite3_step(st) == SQLITE_ROW)
        *ret = (uint64_t)sqlite3_column_int64(st, 0);
    else
        r = store_sql_error(s->side->db, "count the events", err);
    (void)sqlite3_reset(st);
    return r;
}

int event_store_find(struct event_store *s, const struct event_query *q, event_each each, void *arg,
                     uint64_t *ret_total, struct err *err)
{
    int r;

    side_take(s->side);
    r = read_total(s, q, ret_total, err);
    if (r == 0 && q->limit > 0)
        r = each_row(s, bind_query(s, q->sandbox_id ? FIND_OF : FIND, q), each, arg, err);
    side_give(s->side);
    return r;
}

/* ---- remove ---- */

static int last_to_go(struct event_store *s, unsigned which, int64_t bound, int64_t *ret,
                      struct err *err)
{
    sqlite3_stmt *st = side_stmt(s->side, which);
    int r = 0;

    (void)sqlite3_bind_int64(st, 1, bound);
    if (sqlite3_step(st) != SQLITE_ROW)
        r = store_sql_error(s->side->db, "remove events", err);
    else if (sqlite3_column_int64(st, 0) > *ret)
        *ret = sqlite3_column_int64(st, 0);
    (void)sqlite3_reset(st);
    return r;
}

/* *ret: how many that were. */
static int remove_to(struct event_store *s, int64_t seq, uint64_t *ret, struct err *err)
{
    (void)sqlite3_bind_int64(side_stmt(s->side, REMOVE), 1, seq);
    if (side_run(s->side, REMOVE, "remove events", err) < 0)
        return -1;
    *ret = (uint64_t)sqlite3_changes64(s->side->db);
    return put_floor(s, seq, err);
}

/* How many are to go for their number, or for what they take on the disk. */
static int count_surplus(struct event_store *s, const struct event_bounds *keep, int64_t *ret,
                         struct err *err)
{
    uint64_t count = event_store_count(s), surplus = count > keep->count ? count - keep->count : 0;
    int64_t bytes = 0;

    if (read_number(s, BYTES, &bytes, err) < 0)
        return -1;
    if (surplus > TRIM_AT_ONCE || (uint64_t)bytes > keep->bytes)
        surplus = TRIM_AT_ONCE;
    *ret = (int64_t)surplus;
    return 0;
}

int event_store_trim(struct event_store *s, const struct event_bounds *keep, bool *ret_more,
                     struct err *err)
{
    int64_t to = 0, surplus = 0;
    uint64_t gone = 0;
    int r;

    if (side_begin(s->side, err) < 0)
        return -1;
    r = last_to_go(s, OLD, keep->since_ms, &to, err);
    if (r == 0)
        r = count_surplus(s, keep, &surplus, err);
    if (r == 0 && surplus > 0)
        r = last_to_go(s, SURPLUS, surplus, &to, err);
    if (r == 0 && to > 0)
        r = remove_to(s, to, &gone, err);
    if (side_commit(s->side, r < 0, err) < 0)
        return -1;
    if (to > 0)
        atomic_store(&s->floor, to);
    atomic_fetch_sub(&s->count, gone);
    *ret_more = gone >= TRIM_AT_ONCE;
    return 0;
}
