#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "store/database_internal.h"
#include "store/side.h"

struct side {
    pthread_mutex_t lock; /* of db and all that is prepared */
    sqlite3 *db;
    sqlite3_stmt **stmts;
    size_t n_stmts;
    int log_fd, index_fd;
    pthread_mutex_t sync_lock; /* of what follows */
    pthread_cond_t synced;
    uint64_t asked, done;             /* numbers of syncs that were asked for, and that are over */
    uint64_t failed_after, failed_to; /* those between had this error, whoever syncs since */
    int sync_error;
    bool syncing;
};

/* sql: statements that are prepared once, in the order of an enum. */
int side_open(const char *data_dir, const char *name, const struct migrations *migrations,
              const char *const *sql, size_t n_sql, struct side **ret, struct err *err);

/* Between the two the database is the caller's. Commit fails when any of what was written could not
 * be kept (failed says so, or SQLite does); then none of it was. */
int side_begin(struct side *s, struct err *err);
int side_commit(struct side *s, bool failed, struct err *err);
/* The same for who only reads. */
void side_take(struct side *s);
void side_give(struct side *s);

/* The statement with nothing bound; while the database is the caller's. */
sqlite3_stmt *side_stmt(struct side *s, unsigned which);
/* Not copied: it is there until the statement has run. NULL is SQL's. */
void side_bind_text(sqlite3_stmt *st, int at, const char *text);
/* Runs one without rows. */
int side_run(struct side *s, unsigned which, const char *what, struct err *err);
