#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/store_internal.h"

void sandbox_row_done(struct sandbox_row *row)
{
    free(row->reason);
    free(row->config);
    free(row->boot_id);
    free(row->image_id);
    free(row->image_config);
    *row = (struct sandbox_row){0};
}

int store_put_sandbox(struct store *s, const struct sandbox_row *row, struct err *err)
{
    sqlite3_stmt *st = store_use(s, STMT_SANDBOX_PUT);

    (void)sqlite3_bind_text(st, 1, row->id, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 2, sandbox_state_name(row->state), -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 3, row->reason, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 4, row->created_ms);
    (void)sqlite3_bind_int64(st, 5, row->expires_ms);
    (void)sqlite3_bind_int64(st, 6, row->deadline_ns);
    (void)sqlite3_bind_text(st, 7, row->config, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 8, row->boot_id, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 9, row->pid);
    (void)sqlite3_bind_int64(st, 10, (int64_t)row->pid_start);
    (void)sqlite3_bind_int64(st, 11, row->slot);
    (void)sqlite3_bind_text(st, 12, row->image_id, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 13, row->image_config, -1, SQLITE_STATIC);
    return store_run(s, STMT_SANDBOX_PUT, "store the sandbox", err);
}

int store_delete_sandbox(struct store *s, const char *id, struct err *err)
{
    sqlite3_stmt *st = store_use(s, STMT_SANDBOX_DELETE);

    (void)sqlite3_bind_text(st, 1, id, -1, SQLITE_STATIC);
    return store_run(s, STMT_SANDBOX_DELETE, "delete the sandbox's row", err);
}

bool store_row_of(struct store *s, const char *id, bool *ret_spare)
{
    sqlite3_stmt *st = store_use(s, STMT_SANDBOX_STATE);
    bool has;

    (void)sqlite3_bind_text(st, 1, id, -1, SQLITE_STATIC);
    has = sqlite3_step(st) == SQLITE_ROW;
    if (has) {
        const char *state = (const char *)sqlite3_column_text(st, 0);

        *ret_spare = state && strcmp(state, sandbox_state_name(SANDBOX_PREPARED)) == 0;
    }
    store_done(s, STMT_SANDBOX_STATE);
    return has;
}

bool store_has_sandbox(struct store *s, const char *id)
{
    bool is_spare;

    return store_row_of(s, id, &is_spare);
}

static int read_row(sqlite3_stmt *st, struct sandbox_row *row)
{
    const char *id = (const char *)sqlite3_column_text(st, 0);
    const char *state = (const char *)sqlite3_column_text(st, 1);

    if (!id || !id_valid(id, "sbx") || !state || sandbox_state_parse(state, &row->state) < 0)
        return -1;
    (void)snprintf(row->id, sizeof(row->id), "%s", id);
    row->reason = store_column(st, 2);
    row->created_ms = sqlite3_column_int64(st, 3);
    row->expires_ms = sqlite3_column_int64(st, 4);
    row->deadline_ns = sqlite3_column_int64(st, 5);
    row->config = store_column(st, 6);
    row->boot_id = store_column(st, 7);
    row->pid = sqlite3_column_int64(st, 8);
    row->pid_start = (uint64_t)sqlite3_column_int64(st, 9);
    row->slot = (uint32_t)sqlite3_column_int64(st, 10);
    row->image_id = store_column(st, 11);
    row->image_config = store_column(st, 12);
    return 0;
}

/* Of a row that cannot be read. */
static int read_note(struct store *s, sqlite3_stmt *st, struct sandbox_row *row)
{
    const char *id = (const char *)sqlite3_column_text(st, 0);

    return id && id_valid(id, "sbx") ? store_note_read(s, id, row) : -1;
}

int store_each_sandbox(struct store *s, int (*each)(const struct sandbox_row *row, void *arg),
                       void *arg, struct err *err)
{
    sqlite3_stmt *st = store_use(s, STMT_SANDBOX_EACH);
    int r = 0, code = SQLITE_DONE;

    while (r == 0 && (code = sqlite3_step(st)) == SQLITE_ROW) {
        struct sandbox_row row = {0};

        if (read_row(st, &row) == 0 || read_note(s, st, &row) == 0)
            r = each(&row, arg);
        else
            log_warn("a row of the sandbox table cannot be read and is left alone", "id",
                     (const char *)sqlite3_column_text(st, 0));
        sandbox_row_done(&row);
    }
    if (r == 0 && code != SQLITE_DONE)
        r = store_sql_error(s->db, "read the sandboxes", err);
    store_done(s, STMT_SANDBOX_EACH);
    return r;
}
