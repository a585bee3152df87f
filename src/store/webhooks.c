#include "store/webhooks.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/side_internal.h"

#define TEXT(n)   #n
#define DIGITS(n) TEXT(n)

static const char *const migrations[] = {
    "CREATE TABLE places (webhook TEXT PRIMARY KEY, place INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE deliveries (id TEXT PRIMARY KEY, webhook TEXT NOT NULL, event TEXT NOT NULL,"
    " topic TEXT NOT NULL, state INTEGER NOT NULL, attempts INTEGER NOT NULL,"
    " status INTEGER NOT NULL, error TEXT NOT NULL, message TEXT NOT NULL, address TEXT NOT NULL,"
    " took INTEGER NOT NULL, at INTEGER NOT NULL, next INTEGER NOT NULL) STRICT;"
    "CREATE INDEX deliveries_of ON deliveries (webhook, at, id);",
};

#define NEWEST "FROM deliveries WHERE webhook = ?1 ORDER BY at DESC, id DESC LIMIT "

enum { PUT, TRIM, FIND, ATTEMPTS, FORGET, PLACE_PUT, PLACE, PLACE_FORGET, STMTS };

static const char *const sql[STMTS] = {
    [PUT] = "INSERT OR REPLACE INTO deliveries (id, webhook, event, topic, state, attempts, status,"
            " error, message, address, took, at, next)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [TRIM] = "DELETE FROM deliveries WHERE webhook = ?1 AND id NOT IN (SELECT id " NEWEST DIGITS(
        WEBHOOK_DELIVERIES) ")",
    [FIND] = "SELECT id, webhook, event, topic, state, attempts, status, error, message, address,"
             " took, at, next " NEWEST "?2",
    [ATTEMPTS] = "SELECT attempts FROM deliveries WHERE id = ?",
    [FORGET] = "DELETE FROM deliveries WHERE webhook = ?",
    [PLACE_PUT] = "INSERT OR REPLACE INTO places (webhook, place) VALUES (?, ?)",
    [PLACE] = "SELECT place FROM places WHERE webhook = ?",
    [PLACE_FORGET] = "DELETE FROM places WHERE webhook = ?",
};

struct webhook_store {
    struct side *side;
};

int webhook_store_open(const char *data_dir, struct webhook_store **ret, struct err *err)
{
    static const struct migrations m = {migrations, ARRAY_LEN(migrations)};
    struct webhook_store *s = xcalloc(1, sizeof(*s));

    if (side_open(data_dir, "webhooks", &m, sql, STMTS, &s->side, err) < 0) {
        free(s);
        return -1;
    }
    *ret = s;
    return 0;
}

void webhook_store_close(struct webhook_store *s)
{
    if (!s)
        return;
    side_close(s->side);
    free(s);
}

/* ---- write ---- */

static int run_for(struct webhook_store *s, unsigned which, const char *webhook, struct err *err)
{
    side_bind_text(side_stmt(s->side, which), 1, webhook);
    return side_run(s->side, which, "write webhooks' deliveries", err);
}

static int put(struct webhook_store *s, const struct delivery *d, struct err *err)
{
    sqlite3_stmt *st = side_stmt(s->side, PUT);

    side_bind_text(st, 1, d->id);
    side_bind_text(st, 2, d->webhook);
    side_bind_text(st, 3, d->event);
    side_bind_text(st, 4, d->topic);
    (void)sqlite3_bind_int(st, 5, (int)d->state);
    (void)sqlite3_bind_int64(st, 6, d->attempts);
    (void)sqlite3_bind_int(st, 7, d->status);
    side_bind_text(st, 8, d->error);
    side_bind_text(st, 9, d->message);
    side_bind_text(st, 10, d->address);
    (void)sqlite3_bind_int64(st, 11, d->took_ms);
    (void)sqlite3_bind_int64(st, 12, d->at_ms);
    (void)sqlite3_bind_int64(st, 13, d->next_ms);
    if (side_run(s->side, PUT, "write webhooks' deliveries", err) < 0)
        return -1;
    return run_for(s, TRIM, d->webhook, err);
}

static int put_place(struct webhook_store *s, const struct webhook_place *p, struct err *err)
{
    sqlite3_stmt *st = side_stmt(s->side, PLACE_PUT);

    side_bind_text(st, 1, p->webhook);
    (void)sqlite3_bind_int64(st, 2, p->place);
    return side_run(s->side, PLACE_PUT, "write how far a webhook has come", err);
}

int webhook_store_write(struct webhook_store *s, const struct delivery *deliveries, size_t n,
                        const struct webhook_place *places, size_t n_places, struct err *err)
{
    int r = 0;

    if (side_begin(s->side, err) < 0)
        return -1;
    for (size_t i = 0; i < n && r == 0; i++)
        r = put(s, &deliveries[i], err);
    for (size_t i = 0; i < n_places && r == 0; i++)
        r = put_place(s, &places[i], err);
    return side_commit(s->side, r < 0, err);
}

int webhook_store_forget(struct webhook_store *s, const char *webhook, struct err *err)
{
    int r;

    if (side_begin(s->side, err) < 0)
        return -1;
    r = run_for(s, FORGET, webhook, err);
    if (r == 0)
        r = run_for(s, PLACE_FORGET, webhook, err);
    return side_commit(s->side, r < 0, err);
}

/* ---- read ---- */

static int read_number(struct webhook_store *s, unsigned which, const char *key, int64_t *ret,
                       struct err *err)
{
    sqlite3_stmt *st;
    int code, r = 0;

    side_take(s->side);
    st = side_stmt(s->side, which);
    side_bind_text(st, 1, key);
    code = sqlite3_step(st);
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        *ret = code == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    else
        r = store_sql_error(s->side->db, "read webhooks' deliveries", err);
    (void)sqlite3_reset(st);
    side_give(s->side);
    return r;
}

int webhook_store_place(struct webhook_store *s, const char *webhook, int64_t *ret, struct err *err)
{
    return read_number(s, PLACE, webhook, ret, err);
}

int webhook_store_attempts(struct webhook_store *s, const char *delivery, unsigned *ret,
                           struct err *err)
{
    int64_t n;

    if (read_number(s, ATTEMPTS, delivery, &n, err) < 0)
        return -1;
    *ret = (unsigned)n;
    return 0;
}

static void take_text(sqlite3_stmt *st, int at, char *ret, size_t size)
{
    const unsigned char *text = sqlite3_column_text(st, at);

    (void)snprintf(ret, size, "%s", text ? (const char *)text : "");
}

static void take_row(sqlite3_stmt *st, struct delivery *d)
{
    take_text(st, 0, d->id, sizeof(d->id));
    take_text(st, 1, d->webhook, sizeof(d->webhook));
    take_text(st, 2, d->event, sizeof(d->event));
    take_text(st, 3, d->topic, sizeof(d->topic));
    d->state = (enum delivery_state)sqlite3_column_int(st, 4);
    d->attempts = (unsigned)sqlite3_column_int64(st, 5);
    d->status = sqlite3_column_int(st, 6);
    take_text(st, 7, d->error, sizeof(d->error));
    take_text(st, 8, d->message, sizeof(d->message));
    take_text(st, 9, d->address, sizeof(d->address));
    d->took_ms = (unsigned)sqlite3_column_int64(st, 10);
    d->at_ms = sqlite3_column_int64(st, 11);
    d->next_ms = sqlite3_column_int64(st, 12);
}

int webhook_store_deliveries(struct webhook_store *s, const char *webhook, unsigned limit,
                             delivery_each each, void *arg, struct err *err)
{
    sqlite3_stmt *st;
    int code, r = 0;

    side_take(s->side);
    st = side_stmt(s->side, FIND);
    side_bind_text(st, 1, webhook);
    (void)sqlite3_bind_int64(st, 2, limit);
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct delivery d = {0};

        take_row(st, &d);
        each(&d, arg);
    }
    if (code != SQLITE_DONE)
        r = store_sql_error(s->side->db, "read webhooks' deliveries", err);
    (void)sqlite3_reset(st);
    side_give(s->side);
    return r;
}
