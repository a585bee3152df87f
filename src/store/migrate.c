#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/database_internal.h"

static int pragma_int(sqlite3 *db, const char *sql, int *ret, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int r = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

    if (r == SQLITE_OK)
        r = sqlite3_step(st);
    if (r == SQLITE_ROW)
        *ret = sqlite3_column_int(st, 0);
    (void)sqlite3_finalize(st);
    return r == SQLITE_ROW ? 0 : store_sql_error(db, "read the version of the database", err);
}

/* A whole copy beside the database, so that a person can go back to the older program. */
static int backup(sqlite3 *db, const char *path, int version, struct err *err)
{
    auto_free char *copy = xasprintf("%s.backup-v%d", path, version);
    sqlite3_stmt *st = NULL;
    mode_t mask;
    int r;

    if (unlink(copy) < 0 && errno != ENOENT)
        return err_sys(err, errno, "replace %s", copy);
    mask = umask(0077);
    r = sqlite3_prepare_v2(db, "VACUUM INTO ?", -1, &st, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_bind_text(st, 1, copy, -1, SQLITE_STATIC);
    if (r == SQLITE_OK)
        r = sqlite3_step(st);
    (void)sqlite3_finalize(st);
    (void)umask(mask);
    if (r != SQLITE_DONE)
        return store_sql_error(db, "back up the database before changing its schema", err);
    log_info("database backed up before a migration", "file", copy);
    return 0;
}

static int step(sqlite3 *db, const struct migrations *m, int version, struct err *err)
{
    auto_free char *sql = xasprintf("BEGIN IMMEDIATE;\n%sPRAGMA user_version = %d;\nCOMMIT;",
                                    m->sql[version], version + 1);

    if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    (void)store_sql_error(db, "change the schema of the database", err);
    (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return -1;
}

int database_migrate(sqlite3 *db, const char *path, const struct migrations *m, struct err *err)
{
    int version = 0, app = 0;

    if (pragma_int(db, "PRAGMA user_version", &version, err) < 0 ||
        pragma_int(db, "PRAGMA application_id", &app, err) < 0)
        return -1;
    if (app != STORE_APPLICATION_ID && (app != 0 || version != 0))
        return err_set(err, ERR_CONFLICT,
                       "%s is a database of another program; set CAY_DATA to a "
                       "directory of cay's own",
                       path);
    if (version > m->n)
        return err_code(err, ERR_CONFLICT, "schema_too_new",
                        "%s was written by a newer cay (schema %d, this one knows %d); start that "
                        "version, or set CAY_DATA to another directory. Nothing was changed",
                        path, version, m->n);
    if (version > 0 && version < m->n && backup(db, path, version, err) < 0)
        return -1;
    if (app == 0) {
        auto_free char *sql = xasprintf("PRAGMA application_id = %d", STORE_APPLICATION_ID);

        if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
            return store_sql_error(db, "mark the database as cay's", err);
    }
    for (; version < m->n; version++)
        if (step(db, m, version, err) < 0)
            return -1;
    return 0;
}
