#include "base/err.h"
#include "store/store_internal.h"

int store_count(struct store *s, const char *name, int64_t add, struct err *err)
{
    sqlite3_stmt *st = store_use(s, STMT_COUNTER_ADD);

    (void)sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 2, add);
    return store_run(s, STMT_COUNTER_ADD, "store a counter", err);
}

int store_counter(struct store *s, const char *name, int64_t *ret, struct err *err)
{
    sqlite3_stmt *st = store_use(s, STMT_COUNTER_GET);
    int code, r = 0;

    (void)sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    code = sqlite3_step(st);
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        *ret = code == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    else
        r = store_sql_error(s->db, "read a counter", err);
    store_done(s, STMT_COUNTER_GET);
    return r;
}
