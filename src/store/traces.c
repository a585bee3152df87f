#include "store/traces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "store/side_internal.h"

struct trace_store {
    struct side *side;
    uint32_t keep;
};

static const char *const steps[] = {
    "CREATE TABLE traces (seq INTEGER PRIMARY KEY AUTOINCREMENT, ended INTEGER NOT NULL,"
    " us INTEGER NOT NULL, function TEXT NOT NULL, sandbox TEXT, caller TEXT NOT NULL,"
    " face TEXT NOT NULL, stream INTEGER NOT NULL, kind INTEGER NOT NULL, code TEXT, error TEXT,"
    " trace BLOB NOT NULL, span BLOB NOT NULL, parent BLOB);\n"
    "CREATE INDEX traces_sandbox ON traces (sandbox, seq) WHERE sandbox IS NOT NULL;\n"
    "CREATE TABLE totals (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;\n",
};

enum { STMT_ADD, STMT_TRIM, STMT_TOTAL, STMT_TOTALS, STMT_CLEAR, STMTS };

static const char *const sql[STMTS] = {
    [STMT_ADD] =
        "INSERT INTO traces (ended, us, function, sandbox, caller, face, kind, code,"
        " error, trace, span, parent, stream) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [STMT_TRIM] = "DELETE FROM traces WHERE seq <= (SELECT max(seq) FROM traces) - ?",
    [STMT_TOTAL] = "INSERT INTO totals VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET text = ?2",
    [STMT_TOTALS] = "SELECT name, text FROM totals",
    [STMT_CLEAR] = "DELETE FROM traces WHERE ended < ?",
};

int trace_store_open(const char *data_dir, uint32_t keep, struct trace_store **ret, struct err *err)
{
    static const struct migrations migrations = {steps, ARRAY_LEN(steps)};
    struct trace_store *s = xcalloc(1, sizeof(*s));

    s->keep = keep;
    if (side_open(data_dir, "traces", &migrations, sql, STMTS, &s->side, err) < 0) {
        free(s);
        return -1;
    }
    *ret = s;
    return 0;
}

void trace_store_close(struct trace_store *s)
{
    if (!s)
        return;
    side_close(s->side);
    free(s);
}

/* ---- writing ---- */

static void bind_text(sqlite3_stmt *st, int at, const char *text)
{
    if (text && *text)
        (void)sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

static int add(struct trace_store *s, const struct trace *t, struct err *err)
{
    sqlite3_stmt *st = side_stmt(s->side, STMT_ADD);
    const struct trace_context *c = &t->context;

    (void)sqlite3_bind_int64(st, 1, t->end_ms);
    (void)sqlite3_bind_int64(st, 2, t->duration_us);
    (void)sqlite3_bind_text(st, 3, t->function, -1, SQLITE_STATIC);
    bind_text(st, 4, t->sandbox_id);
    (void)sqlite3_bind_text(st, 5, t->caller, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 6, t->face, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int(st, 7, (int)t->kind);
    bind_text(st, 8, t->code);
    bind_text(st, 9, t->error);
    (void)sqlite3_bind_blob(st, 10, c->trace_id, sizeof(c->trace_id), SQLITE_STATIC);
    (void)sqlite3_bind_blob(st, 11, c->span_id, sizeof(c->span_id), SQLITE_STATIC);
    if (c->remote)
        (void)sqlite3_bind_blob(st, 12, c->parent_id, sizeof(c->parent_id), SQLITE_STATIC);
    (void)sqlite3_bind_int(st, 13, t->is_stream);
    return side_run(s->side, STMT_ADD, "store a trace", err);
}

static int set_total(struct trace_store *s, const struct trace_total *t, struct err *err)
{
    sqlite3_stmt *st = side_stmt(s->side, STMT_TOTAL);

    (void)sqlite3_bind_text(st, 1, t->name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 2, t->text, -1, SQLITE_STATIC);
    return side_run(s->side, STMT_TOTAL, "store a total", err);
}

int trace_store_add(struct trace_store *s, const struct trace *traces, size_t n,
                    const struct trace_total *totals, size_t n_totals, struct err *err)
{
    int r = 0;

    if (side_begin(s->side, err) < 0)
        return -1;
    for (size_t i = 0; i < n && r == 0; i++)
        r = add(s, &traces[i], err);
    for (size_t i = 0; i < n_totals && r == 0; i++)
        r = set_total(s, &totals[i], err);
    if (r == 0 && n > 0) {
        (void)sqlite3_bind_int64(side_stmt(s->side, STMT_TRIM), 1, s->keep);
        r = side_run(s->side, STMT_TRIM, "remove old traces", err);
    }
    return side_commit(s->side, r < 0, err);
}

int trace_store_clear(struct trace_store *s, int64_t before_ms, uint64_t *ret_cleared,
                      struct err *err)
{
    int r;

    if (side_begin(s->side, err) < 0)
        return -1;
    (void)sqlite3_bind_int64(side_stmt(s->side, STMT_CLEAR), 1, before_ms);
    r = side_run(s->side, STMT_CLEAR, "clear traces", err);
    *ret_cleared = r == 0 ? (uint64_t)sqlite3_changes64(s->side->db) : 0;
    return side_commit(s->side, r < 0, err);
}

/* ---- reading ---- */

/* Only what is asked for stands in the statement, so that SQLite can use the index, or count
 * without looking at rows. */
static void add_conditions(struct buf *text, const struct trace_query *q)
{
    const char *outcome = q->outcome == TRACE_OK ? "kind = 0" : "kind <> 0";
    const char *const conditions[] = {
        q->since_ms > 0 ? "ended >= :since" : NULL, q->sandbox_id ? "sandbox = :sandbox" : NULL,
        q->function ? "function = :function" : NULL, q->trace_id ? "trace = :trace" : NULL,
        q->outcome != TRACE_ANY ? outcome : NULL};
    const char *before = " WHERE ";

    (void)buf_add_str(text, " FROM traces");
    for (size_t i = 0; i < ARRAY_LEN(conditions); i++) {
        if (!conditions[i])
            continue;
        (void)buf_addf(text, "%s%s", before, conditions[i]);
        before = " AND ";
    }
}

static void bind_conditions(sqlite3_stmt *st, const struct trace_query *q)
{
    int at;

    if ((at = sqlite3_bind_parameter_index(st, ":since")) > 0)
        (void)sqlite3_bind_int64(st, at, q->since_ms);
    if ((at = sqlite3_bind_parameter_index(st, ":sandbox")) > 0)
        (void)sqlite3_bind_text(st, at, q->sandbox_id, -1, SQLITE_STATIC);
    if ((at = sqlite3_bind_parameter_index(st, ":function")) > 0)
        (void)sqlite3_bind_text(st, at, q->function, -1, SQLITE_STATIC);
    if ((at = sqlite3_bind_parameter_index(st, ":trace")) > 0)
        (void)sqlite3_bind_blob(st, at, q->trace_id, 16, SQLITE_STATIC);
    if ((at = sqlite3_bind_parameter_index(st, ":limit")) > 0)
        (void)sqlite3_bind_int64(st, at, q->limit);
    if ((at = sqlite3_bind_parameter_index(st, ":offset")) > 0)
        (void)sqlite3_bind_int64(st, at, q->offset);
}

static void copy_text(char *to, size_t size, sqlite3_stmt *st, int at)
{
    const char *text = (const char *)sqlite3_column_text(st, at);

    (void)snprintf(to, size, "%s", text ? text : "");
}

static void copy_bytes(uint8_t *to, int n, sqlite3_stmt *st, int at)
{
    if (sqlite3_column_bytes(st, at) == n)
        memcpy(to, sqlite3_column_blob(st, at), (size_t)n);
}

#define COLUMNS                                                                                    \
    "ended, us, function, sandbox, caller, face, kind, code, error, trace, span, parent, "         \
    "stream"

static void read_row(sqlite3_stmt *st, struct trace *t)
{
    *t = (struct trace){
        .end_ms = sqlite3_column_int64(st, 0),
        .duration_us = sqlite3_column_int64(st, 1),
        .exec_us = -1,
        .function = (const char *)sqlite3_column_text(st, 2),
        .face = (const char *)sqlite3_column_text(st, 5),
        .kind = (enum err_kind)sqlite3_column_int(st, 6),
        .code = (const char *)sqlite3_column_text(st, 7),
        .is_stream = sqlite3_column_int(st, 12),
    };
    copy_text(t->sandbox_id, sizeof(t->sandbox_id), st, 3);
    copy_text(t->caller, sizeof(t->caller), st, 4);
    copy_text(t->error, sizeof(t->error), st, 8);
    copy_bytes(t->context.trace_id, 16, st, 9);
    copy_bytes(t->context.span_id, 8, st, 10);
    copy_bytes(t->context.parent_id, 8, st, 11);
    t->context.remote = sqlite3_column_type(st, 11) != SQLITE_NULL;
}

/* A statement of its own; the database is the caller's. */
static int prepare(struct trace_store *s, const char *start, const char *end,
                   const struct trace_query *q, sqlite3_stmt **ret, struct err *err)
{
    auto_buf struct buf text = {0};

    buf_init(&text, 1024);
    (void)buf_add_str(&text, start);
    add_conditions(&text, q);
    (void)buf_add_str(&text, end);
    if (sqlite3_prepare_v2(s->side->db, text.data, -1, ret, NULL) != SQLITE_OK)
        return store_sql_error(s->side->db, "read traces", err);
    bind_conditions(*ret, q);
    return 0;
}

static int count(struct trace_store *s, const struct trace_query *q, uint64_t *ret, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int r = prepare(s, "SELECT count(*)", "", q, &st, err);

    if (r == 0 && sqlite3_step(st) != SQLITE_ROW)
        r = store_sql_error(s->side->db, "count traces", err);
    if (r == 0)
        *ret = (uint64_t)sqlite3_column_int64(st, 0);
    (void)sqlite3_finalize(st);
    return r;
}

static int list(struct trace_store *s, const struct trace_query *q,
                void (*each)(const struct trace *t, void *arg), void *arg, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int code = SQLITE_ERROR, r;

    r = prepare(s, "SELECT " COLUMNS, " ORDER BY seq DESC LIMIT :limit OFFSET :offset", q, &st,
                err);
    while (r == 0 && (code = sqlite3_step(st)) == SQLITE_ROW) {
        struct trace t;

        read_row(st, &t);
        each(&t, arg);
    }
    if (r == 0 && code != SQLITE_DONE)
        r = store_sql_error(s->side->db, "read traces", err);
    (void)sqlite3_finalize(st);
    return r;
}

int trace_store_list(struct trace_store *s, const struct trace_query *q,
                     void (*each)(const struct trace *t, void *arg), void *arg, uint64_t *ret_total,
                     struct err *err)
{
    int r;

    side_take(s->side);
    r = count(s, q, ret_total, err);
    if (r == 0 && q->limit > 0)
        r = list(s, q, each, arg, err);
    side_give(s->side);
    return r;
}

int trace_store_totals(struct trace_store *s, void (*each)(const struct trace_total *t, void *arg),
                       void *arg, struct err *err)
{
    sqlite3_stmt *st;
    int code, r = 0;

    side_take(s->side);
    st = side_stmt(s->side, STMT_TOTALS);
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct trace_total t = {(const char *)sqlite3_column_text(st, 0),
                                (const char *)sqlite3_column_text(st, 1)};

        each(&t, arg);
    }
    if (code != SQLITE_DONE)
        r = store_sql_error(s->side->db, "read totals", err);
    (void)sqlite3_reset(st);
    side_give(s->side);
    return r;
}
