#include "store/keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "store/side_internal.h"

/* How many keys there are and how long their answers are together is counted in memory, so that a
 * key costs the same however many there are. */

#define OWN_EVERY 256 /* keys, after which it is looked whether a caller has too many */

static const char *const schema[] = {
    "CREATE TABLE key ("
    " n INTEGER PRIMARY KEY AUTOINCREMENT," /* in the order of their beginning */
    " id BLOB NOT NULL UNIQUE,"
    " caller BLOB NOT NULL,"
    " body BLOB NOT NULL,"
    " state INTEGER NOT NULL,"
    " tells INTEGER NOT NULL,"
    " at_ms INTEGER NOT NULL,"
    " made TEXT,"
    " answer TEXT"
    ") STRICT;\n"
    "CREATE INDEX key_caller ON key (caller, n);\n"
    "CREATE INDEX key_begun ON key (n) WHERE state = 0;\n",
};
static const struct migrations migrations = {schema, ARRAY_LEN(schema)};

#define COLUMNS "id, caller, body, state, tells, at_ms, made, answer"
#define GONE    " RETURNING coalesce(length(CAST(answer AS BLOB)), 0)"

enum { FIND, BEGUN, ADD, SET_MADE, END, FORGET, DROP_OLDEST, DROP_OLD, DROP_OWN, COUNT };

static const char *const sql[] = {
    [FIND] = "SELECT " COLUMNS " FROM key WHERE id = ? AND at_ms > ?",
    [BEGUN] = "SELECT " COLUMNS " FROM key WHERE state = 0 ORDER BY n LIMIT 1",
    [ADD] = "INSERT INTO key (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    [SET_MADE] = "UPDATE key SET made = ? WHERE id = ?",
    [END] = "UPDATE key SET state = ?, made = coalesce(?, made), answer = ? WHERE id = ?",
    [FORGET] = "DELETE FROM key WHERE id = ?" GONE,
    [DROP_OLDEST] = "DELETE FROM key WHERE n = (SELECT min(n) FROM key)" GONE,
    [DROP_OLD] = "DELETE FROM key WHERE n IN (SELECT n FROM key ORDER BY n LIMIT 512)"
                 " AND at_ms <= ?" GONE,
    [DROP_OWN] = "DELETE FROM key WHERE caller = ?1 AND n <="
                 " (SELECT n FROM key WHERE caller = ?1 ORDER BY n DESC LIMIT 1 OFFSET ?2)" GONE,
    [COUNT] = "SELECT count(*), coalesce(sum(length(CAST(answer AS BLOB))), 0) FROM key",
};

struct store_keys {
    struct side *side;
    int64_t count, bytes; /* under the side's lock */
    unsigned since_own;
};

void key_row_done(struct key_row *row)
{
    free(row->made);
    free(row->answer);
    row->made = row->answer = NULL;
}

static void count_all(struct store_keys *s)
{
    sqlite3_stmt *st;

    side_take(s->side);
    st = side_stmt(s->side, COUNT);
    if (sqlite3_step(st) == SQLITE_ROW) {
        s->count = sqlite3_column_int64(st, 0);
        s->bytes = sqlite3_column_int64(st, 1);
    }
    (void)sqlite3_reset(st);
    side_give(s->side);
}

int store_keys_open(const char *data_dir, struct store_keys **ret, struct err *err)
{
    struct store_keys *s = xcalloc(1, sizeof(*s));

    if (side_open(data_dir, "keys", &migrations, sql, ARRAY_LEN(sql), &s->side, err) < 0) {
        free(s);
        return err_wrap(err, "keys of requests");
    }
    count_all(s);
    *ret = s;
    return 0;
}

void store_keys_close(struct store_keys *s)
{
    if (!s)
        return;
    side_close(s->side);
    free(s);
}

int store_keys_sync(struct store_keys *s, struct err *err)
{
    return side_sync(s->side, err);
}

int64_t store_keys_count(struct store_keys *s)
{
    int64_t n;

    side_take(s->side);
    n = s->count;
    side_give(s->side);
    return n;
}

/* ---- reading ---- */

static void copy_digest(unsigned char to[KEY_DIGEST], sqlite3_stmt *st, int column)
{
    if (sqlite3_column_bytes(st, column) == KEY_DIGEST)
        memcpy(to, sqlite3_column_blob(st, column), KEY_DIGEST);
}

static char *copy_text(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);

    return text ? xstrdup(text) : NULL;
}

static void read_row(sqlite3_stmt *st, struct key_row *ret)
{
    *ret = (struct key_row){.state = (enum key_state)sqlite3_column_int(st, 3),
                            .tells = sqlite3_column_int(st, 4),
                            .at_ms = sqlite3_column_int64(st, 5),
                            .made = copy_text(st, 6),
                            .answer = copy_text(st, 7)};
    copy_digest(ret->id, st, 0);
    copy_digest(ret->caller, st, 1);
    copy_digest(ret->body, st, 2);
}

/* Takes the statement, with what it needs bound; gives the database. */
static int read_one(struct store_keys *s, sqlite3_stmt *st, struct key_row *ret, struct err *err)
{
    int step = sqlite3_step(st), r = 0;

    if (step == SQLITE_ROW) {
        read_row(st, ret);
        r = 1;
    } else if (step != SQLITE_DONE) {
        r = store_sql_error(s->side->db, "read a request's key", err);
    }
    (void)sqlite3_reset(st);
    side_give(s->side);
    return r;
}

int store_keys_find(struct store_keys *s, const unsigned char id[KEY_DIGEST], struct key_row *ret,
                    struct err *err)
{
    sqlite3_stmt *st;

    side_take(s->side);
    st = side_stmt(s->side, FIND);
    (void)sqlite3_bind_blob(st, 1, id, KEY_DIGEST, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 2, now_ms() - STORE_KEYS_KEEP_MS);
    return read_one(s, st, ret, err);
}

int store_keys_next_begun(struct store_keys *s, struct key_row *ret, struct err *err)
{
    side_take(s->side);
    return read_one(s, side_stmt(s->side, BEGUN), ret, err);
}

/* ---- writing ---- */

/* One of the deletions, in a transaction: all rows that it says are gone. */
static int drop(struct store_keys *s, unsigned which, struct err *err)
{
    sqlite3_stmt *st = s->side->stmts[which];
    int step;

    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        s->count--;
        s->bytes -= sqlite3_column_int64(st, 0);
    }
    if (step != SQLITE_DONE)
        (void)store_sql_error(s->side->db, "forget a request's key", err);
    (void)sqlite3_reset(st);
    return step == SQLITE_DONE ? 0 : -1;
}

static int drop_id(struct store_keys *s, const unsigned char id[KEY_DIGEST], struct err *err)
{
    (void)sqlite3_bind_blob(side_stmt(s->side, FORGET), 1, id, KEY_DIGEST, SQLITE_STATIC);
    return drop(s, FORGET, err);
}

static int drop_too_many(struct store_keys *s, struct err *err)
{
    while ((s->count > STORE_KEYS_MAX || s->bytes > STORE_KEYS_BYTES) && s->count > 1) {
        (void)side_stmt(s->side, DROP_OLDEST);
        if (drop(s, DROP_OLDEST, err) < 0)
            return -1;
    }
    return 0;
}

/* What is too old; and what one caller has beyond half of all, so that another's are not the oldest
 * because of it. */
static int drop_now_and_then(struct store_keys *s, const struct key_row *row, struct err *err)
{
    sqlite3_stmt *st;

    if (++s->since_own < OWN_EVERY)
        return 0;
    s->since_own = 0;
    (void)sqlite3_bind_int64(side_stmt(s->side, DROP_OLD), 1, now_ms() - STORE_KEYS_KEEP_MS);
    if (drop(s, DROP_OLD, err) < 0)
        return -1;
    if (s->count <= STORE_KEYS_MAX / 2)
        return 0;
    st = side_stmt(s->side, DROP_OWN);
    (void)sqlite3_bind_blob(st, 1, row->caller, KEY_DIGEST, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 2, STORE_KEYS_MAX / 2);
    return drop(s, DROP_OWN, err);
}

static int insert(struct store_keys *s, const struct key_row *row, struct err *err)
{
    sqlite3_stmt *st = side_stmt(s->side, ADD);

    (void)sqlite3_bind_blob(st, 1, row->id, KEY_DIGEST, SQLITE_STATIC);
    (void)sqlite3_bind_blob(st, 2, row->caller, KEY_DIGEST, SQLITE_STATIC);
    (void)sqlite3_bind_blob(st, 3, row->body, KEY_DIGEST, SQLITE_STATIC);
    (void)sqlite3_bind_int(st, 4, row->state);
    (void)sqlite3_bind_int(st, 5, row->tells);
    (void)sqlite3_bind_int64(st, 6, row->at_ms);
    (void)sqlite3_bind_text(st, 7, row->made, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 8, row->answer, -1, SQLITE_STATIC);
    if (side_run(s->side, ADD, "keep a request's key", err) < 0)
        return -1;
    s->count++;
    s->bytes += row->answer ? (int64_t)strlen(row->answer) : 0;
    return 0;
}

/* A write; when it fails nothing of it is there, and what was counted is counted again. */
static int change(struct store_keys *s,
                  int (*write)(struct store_keys *s, const void *arg, struct err *err),
                  const void *arg, struct err *err)
{
    int r;

    if (side_begin(s->side, err) < 0)
        return -1;
    r = side_commit(s->side, write(s, arg, err) < 0, err);
    if (r < 0)
        count_all(s);
    return r;
}

static int add_row(struct store_keys *s, const void *arg, struct err *err)
{
    const struct key_row *row = arg;

    if (drop_id(s, row->id, err) < 0 || drop_now_and_then(s, row, err) < 0 ||
        insert(s, row, err) < 0)
        return -1;
    return drop_too_many(s, err);
}

int store_keys_add(struct store_keys *s, const struct key_row *row, struct err *err)
{
    return change(s, add_row, row, err);
}

static int forget_row(struct store_keys *s, const void *arg, struct err *err)
{
    return drop_id(s, arg, err);
}

int store_keys_forget(struct store_keys *s, const unsigned char id[KEY_DIGEST], struct err *err)
{
    return change(s, forget_row, id, err);
}

int store_keys_set_made(struct store_keys *s, const unsigned char id[KEY_DIGEST], const char *made,
                        struct err *err)
{
    sqlite3_stmt *st;

    if (side_begin(s->side, err) < 0)
        return -1;
    st = side_stmt(s->side, SET_MADE);
    (void)sqlite3_bind_text(st, 1, made, -1, SQLITE_STATIC);
    (void)sqlite3_bind_blob(st, 2, id, KEY_DIGEST, SQLITE_STATIC);
    return side_commit(s->side, side_run(s->side, SET_MADE, "keep what a request makes", err) < 0,
                       err);
}

struct ending {
    const unsigned char *id;
    enum key_state state;
    const char *made, *answer;
};

static int end_row(struct store_keys *s, const void *arg, struct err *err)
{
    const struct ending *e = arg;
    sqlite3_stmt *st = side_stmt(s->side, END);

    (void)sqlite3_bind_int(st, 1, e->state);
    (void)sqlite3_bind_text(st, 2, e->made, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 3, e->answer, -1, SQLITE_STATIC);
    (void)sqlite3_bind_blob(st, 4, e->id, KEY_DIGEST, SQLITE_STATIC);
    if (side_run(s->side, END, "keep a request's answer", err) < 0)
        return -1;
    /* One that was among the oldest may be gone already. */
    if (sqlite3_changes(s->side->db) > 0 && e->answer)
        s->bytes += (int64_t)strlen(e->answer);
    return drop_too_many(s, err);
}

int store_keys_end(struct store_keys *s, const unsigned char id[KEY_DIGEST], enum key_state state,
                   const char *made, const char *answer, struct err *err)
{
    struct ending ending = {id, state, made, answer};

    return change(s, end_row, &ending, err);
}
