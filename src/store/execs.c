#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/store_internal.h"

void exec_record_done(struct exec_record *exec)
{
    free(exec->command);
    *exec = (struct exec_record){0};
}

int store_put_exec(struct store *s, const struct exec_record *exec, struct err *err)
{
    sqlite3_stmt *st = store_use(s, STMT_EXEC_PUT);
    int r = 0;

    (void)sqlite3_bind_text(st, 1, exec->id, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 2, exec->sandbox_id, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 3, exec->command, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 4, exec->pid);
    (void)sqlite3_bind_int64(st, 5, exec->started_ms);
    (void)sqlite3_bind_int64(st, 6, STORE_EXECS_MAX);
    if (sqlite3_step(st) != SQLITE_DONE) {
        r = store_sql_error(s->db, "store the background exec", err);
        s->batch_failed = true;
    } else if (sqlite3_changes(s->db) == 0) {
        r = err_code(err, ERR_LIMIT, "limit",
                     "the sandbox has had %d background commands, which is as many as are kept; "
                     "use exec with detach, or another sandbox",
                     STORE_EXECS_MAX);
    }
    store_done(s, STMT_EXEC_PUT);
    return r;
}

int store_get_exec(struct store *s, const char *id, struct exec_record *ret, struct err *err)
{
    sqlite3_stmt *st = store_use(s, STMT_EXEC_GET);
    int code, r = 0;

    (void)sqlite3_bind_text(st, 1, id, -1, SQLITE_STATIC);
    code = sqlite3_step(st);
    if (code == SQLITE_ROW) {
        *ret = (struct exec_record){
            .command = store_column(st, 2),
            .pid = (uint32_t)sqlite3_column_int64(st, 3),
            .started_ms = sqlite3_column_int64(st, 4),
        };
        (void)snprintf(ret->id, ID_SIZE, "%s", (const char *)sqlite3_column_text(st, 0));
        (void)snprintf(ret->sandbox_id, ID_SIZE, "%s", (const char *)sqlite3_column_text(st, 1));
    } else if (code == SQLITE_DONE) {
        r = err_code(err, ERR_NOT_FOUND, "exec_not_found", "Background exec not found: %s", id);
    } else {
        r = store_sql_error(s->db, "read the background exec", err);
    }
    store_done(s, STMT_EXEC_GET);
    return r;
}

int store_delete_exec(struct store *s, const char *id, struct err *err)
{
    sqlite3_stmt *st = store_use(s, STMT_EXEC_DELETE);

    (void)sqlite3_bind_text(st, 1, id, -1, SQLITE_STATIC);
    return store_run(s, STMT_EXEC_DELETE, "remove the background exec", err);
}
