#include "store/side_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"

static int prepare_all(struct side *s, const char *const *sql, struct err *err)
{
    for (size_t i = 0; i < s->n_stmts; i++)
        if (sqlite3_prepare_v3(s->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->stmts[i], NULL) !=
            SQLITE_OK)
            return store_sql_error(s->db, "prepare the database's statements", err);
    return 0;
}

int side_open(const char *data_dir, const char *name, const struct migrations *migrations,
              const char *const *sql, size_t n_sql, struct side **ret, struct err *err)
{
    auto_free char *path = xasprintf("%s/%s.db", data_dir, name);
    struct side *s = xcalloc(1, sizeof(*s));
    bool empty, corrupt;

    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->sync_lock, NULL);
    pthread_cond_init(&s->synced, NULL);
    s->log_fd = s->index_fd = -1;
    s->stmts = xcalloc(n_sql, sizeof(*s->stmts));
    s->n_stmts = n_sql;
    /* The log is there after a transaction only, so an empty one is made. */
    if (database_open(path, migrations, &s->db, &empty, &corrupt, err) == 0 &&
        prepare_all(s, sql, err) == 0 && side_begin(s, err) == 0 &&
        side_commit(s, false, err) == 0 && database_open_log(path, &s->log_fd, err) == 0) {
        database_open_index(path, &s->index_fd);
        *ret = s;
        return 0;
    }
    side_close(s);
    return -1;
}

void side_close(struct side *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_stmts; i++)
        (void)sqlite3_finalize(s->stmts[i]);
    (void)sqlite3_close(s->db);
    close_fd(&s->log_fd);
    close_fd(&s->index_fd);
    pthread_cond_destroy(&s->synced);
    pthread_mutex_destroy(&s->sync_lock);
    pthread_mutex_destroy(&s->lock);
    free((void *)s->stmts);
    free(s);
}

void side_take(struct side *s)
{
    pthread_mutex_lock(&s->lock);
}

void side_give(struct side *s)
{
    pthread_mutex_unlock(&s->lock);
}

int side_begin(struct side *s, struct err *err)
{
    side_take(s);
    if (sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    (void)store_sql_error(s->db, "write to the database", err);
    side_give(s);
    return -1;
}

int side_commit(struct side *s, bool failed, struct err *err)
{
    int r = failed ? -1 : 0;

    if (!failed && sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        r = store_sql_error(s->db, "write to the database", err);
    if (r < 0 && !sqlite3_get_autocommit(s->db))
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    side_give(s);
    return r;
}

sqlite3_stmt *side_stmt(struct side *s, unsigned which)
{
    (void)sqlite3_reset(s->stmts[which]);
    (void)sqlite3_clear_bindings(s->stmts[which]);
    return s->stmts[which];
}

void side_bind_text(sqlite3_stmt *st, int at, const char *text)
{
    (void)sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

int side_run(struct side *s, unsigned which, const char *what, struct err *err)
{
    int r = sqlite3_step(s->stmts[which]) == SQLITE_DONE ? 0 : store_sql_error(s->db, what, err);

    (void)sqlite3_reset(s->stmts[which]);
    return r;
}

/* A sync that began before a commit may not have it: who comes while one runs waits for the next,
 * which the first of them does for all. */
int side_sync(struct side *s, struct err *err)
{
    uint64_t mine;
    int error;

    pthread_mutex_lock(&s->sync_lock);
    mine = ++s->asked;
    while (s->syncing && s->done < mine)
        pthread_cond_wait(&s->synced, &s->sync_lock);
    if (s->done < mine) {
        uint64_t all = s->asked;

        s->syncing = true;
        pthread_mutex_unlock(&s->sync_lock);
        error = fdatasync(s->log_fd) < 0 ? errno : 0;
        pthread_mutex_lock(&s->sync_lock);
        s->syncing = false;
        if (error) {
            s->failed_after = s->done;
            s->failed_to = all;
            s->sync_error = error;
        }
        s->done = all;
        pthread_cond_broadcast(&s->synced);
    }
    error = mine > s->failed_after && mine <= s->failed_to ? s->sync_error : 0;
    pthread_mutex_unlock(&s->sync_lock);
    return error ? err_sys(err, error, "write to the disk") : 0;
}
