#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/store_internal.h"

static const char *const sql[STMTS] = {
    [STMT_BEGIN] = "BEGIN IMMEDIATE",
    [STMT_COMMIT] = "COMMIT",
    [STMT_ROLLBACK] = "ROLLBACK",
    /* Not REPLACE: that deletes the old row first, and its execs with it. */
    [STMT_SANDBOX_PUT] =
        "INSERT INTO sandbox (id, state, reason, created_ms, expires_ms, deadline_ns, config, "
        "boot_id, "
        "pid, pid_start, slot, image_id, image_config) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) "
        "ON CONFLICT (id) DO UPDATE SET state = ?2, reason = ?3, created_ms = ?4, expires_ms = ?5, "
        "deadline_ns = ?6, config = ?7, boot_id = ?8, pid = ?9, pid_start = ?10, slot = ?11, "
        "image_id = ?12, image_config = ?13",
    [STMT_SANDBOX_DELETE] = "DELETE FROM sandbox WHERE id = ?",
    [STMT_SANDBOX_EACH] =
        "SELECT id, state, reason, created_ms, expires_ms, deadline_ns, config, boot_id, pid, "
        "pid_start, slot, image_id, image_config FROM sandbox ORDER BY created_ms, id",
    [STMT_SANDBOX_STATE] = "SELECT state FROM sandbox WHERE id = ?",
    [STMT_EXEC_PUT] = "INSERT INTO exec (id, sandbox_id, command, pid, started_ms) "
                      "SELECT ?1, ?2, ?3, ?4, ?5 "
                      "WHERE (SELECT count(*) FROM exec WHERE sandbox_id = ?2) < ?6",
    [STMT_EXEC_GET] = "SELECT id, sandbox_id, command, pid, started_ms FROM exec WHERE id = ?",
    [STMT_EXEC_DELETE] = "DELETE FROM exec WHERE id = ?",
    [STMT_COUNTER_ADD] = "INSERT INTO counter (name, value) VALUES (?1, ?2) "
                         "ON CONFLICT (name) DO UPDATE SET value = value + ?2",
    [STMT_COUNTER_GET] = "SELECT value FROM counter WHERE name = ?",
};

sqlite3_stmt *store_use(struct store *s, enum store_stmt which)
{
    pthread_mutex_lock(&s->lock);
    return s->stmts[which];
}

void store_done(struct store *s, enum store_stmt which)
{
    (void)sqlite3_reset(s->stmts[which]);
    (void)sqlite3_clear_bindings(s->stmts[which]);
    pthread_mutex_unlock(&s->lock);
}

int store_run(struct store *s, enum store_stmt which, const char *what, struct err *err)
{
    int r = 0;

    if (sqlite3_step(s->stmts[which]) != SQLITE_DONE) {
        r = store_sql_error(s->db, what, err);
        s->batch_failed = true;
    }
    store_done(s, which);
    return r;
}

char *store_column(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);

    return text ? xstrdup(text) : NULL;
}

void store_begin(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    (void)store_use(s, STMT_BEGIN);
    s->batch_failed = false;
    (void)store_run(s, STMT_BEGIN, "begin", NULL);
}

int store_commit(struct store *s, struct err *err)
{
    int r = 0;

    if (s->batch_failed)
        r = err_set(err, ERR_INTERNAL, "the state could not be stored; see the daemon's log");
    (void)store_use(s, STMT_COMMIT);
    if (r < 0)
        store_done(s, STMT_COMMIT);
    else
        r = store_run(s, STMT_COMMIT, "store the state", err);
    if (r < 0 && !sqlite3_get_autocommit(s->db)) {
        (void)store_use(s, STMT_ROLLBACK);
        (void)store_run(s, STMT_ROLLBACK, "roll back", NULL);
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* An empty database beside the disks of sandboxes has lost its rows. */
static bool has_sandboxes(const char *data_dir)
{
    auto_free char *path = xasprintf("%s/sandboxes", data_dir);
    DIR *dir = opendir(path);
    const struct dirent *entry;
    bool found = false;

    if (!dir)
        return false;
    while (!found && (entry = readdir(dir)))
        found = str_starts(entry->d_name, "sbx_");
    (void)closedir(dir);
    return found;
}

static int open_db(struct store *s, const char *data_dir, int *ret_rebuilt, struct err *err)
{
    auto_free char *path = xasprintf("%s/cay.db", data_dir);
    const struct migrations migrations = {store_migrations, store_migrations_n};
    bool empty, corrupt;

    if (database_open(path, &migrations, &s->db, &empty, &corrupt, err) < 0)
        return -1;
    *ret_rebuilt = corrupt || (empty && has_sandboxes(data_dir));
    return 0;
}

static int open_log(struct store *s, const char *data_dir, struct err *err)
{
    auto_free char *path = xasprintf("%s/cay.db", data_dir);

    if (database_open_log(path, &s->log_fd, err) < 0)
        return -1;
    database_open_index(path, &s->index_fd);
    return 0;
}

int store_sync(struct store *s, struct err *err)
{
    if (fdatasync(s->log_fd) < 0)
        return err_sys(err, errno, "write the state to the disk");
    return 0;
}

static int prepare_all(struct store *s, struct err *err)
{
    for (int i = 0; i < STMTS; i++)
        if (sqlite3_prepare_v3(s->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->stmts[i], NULL) !=
            SQLITE_OK)
            return store_sql_error(s->db, "prepare the database's statements", err);
    return 0;
}

int store_open(const char *data_dir, struct store **ret, int *ret_rebuilt, struct err *err)
{
    struct store *s = xcalloc(1, sizeof(*s));
    pthread_mutexattr_t attr;
    struct err failure = {0};
    int rebuilt = 0;

    s->lock_fd = s->notes_fd = s->log_fd = s->index_fd = -1;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&s->lock, &attr);
    pthread_mutexattr_destroy(&attr);

    if (mkdir(data_dir, 0700) < 0 && errno != EEXIST)
        (void)err_sys(&failure, errno, "make the data directory %s", data_dir);
    else if (store_take_lock(data_dir, &s->lock_fd, &failure) == 0 &&
             open_db(s, data_dir, &rebuilt, &failure) == 0 && prepare_all(s, &failure) == 0 &&
             store_open_notes(s, data_dir, &failure) == 0 && store_take_back(s, &failure) == 0 &&
             open_log(s, data_dir, &failure) == 0 && store_sync(s, &failure) == 0) {
        store_open_gone(s, data_dir);
        *ret_rebuilt = rebuilt;
        *ret = s;
        return 0;
    }
    store_close(s);
    if (err)
        *err = failure;
    return -1;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    for (int i = 0; i < STMTS; i++)
        (void)sqlite3_finalize(s->stmts[i]);
    (void)sqlite3_close(s->db);
    store_close_gone(s);
    close_fd(&s->log_fd);
    close_fd(&s->index_fd);
    close_fd(&s->notes_fd);
    close_fd(&s->lock_fd);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
