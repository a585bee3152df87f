#pragma once

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>

#include "store/database_internal.h"
#include "store/store.h"

/* Prepared once, when the store opens. */
enum store_stmt {
    STMT_BEGIN,
    STMT_COMMIT,
    STMT_ROLLBACK,
    STMT_SANDBOX_PUT,
    STMT_SANDBOX_DELETE,
    STMT_SANDBOX_EACH,
    STMT_SANDBOX_STATE,
    STMT_EXEC_PUT,
    STMT_EXEC_GET,
    STMT_EXEC_DELETE,
    STMT_COUNTER_ADD,
    STMT_COUNTER_GET,
    STMTS,
};

struct store {
    pthread_mutex_t lock; /* recursive: held from store_begin to store_commit */
    sqlite3 *db;
    sqlite3_stmt *stmts[STMTS];
    int lock_fd, notes_fd; /* of notes: <data>/sandboxes */
    int log_fd;            /* cay.db-wal, to sync it */
    int index_fd;          /* cay.db-shm, to have its blocks */
    bool batch_failed;
    struct gone_ring *gone;
};

/* Generated from schema/: [n] takes user_version n to n + 1. */
extern const char *const store_migrations[];
extern const int store_migrations_n;

/* The descriptor that holds the lock on the data directory. */
int store_take_lock(const char *data_dir, int *ret_fd, struct err *err);

/* What is remembered of sandboxes that are no more; never fails. */
void store_open_gone(struct store *s, const char *data_dir);
void store_close_gone(struct store *s);

/* The folder with the notes, which is made. */
int store_open_notes(struct store *s, const char *data_dir, struct err *err);
/* The note of every sandbox without a row becomes one. */
int store_take_back(struct store *s, struct err *err);

/* Has it a row? *ret_spare: which says that its disk was never given to anybody. */
bool store_row_of(struct store *s, const char *id, bool *ret_spare);

/* Takes the lock and hands out the statement with nothing bound; store_done() gives both back. */
sqlite3_stmt *store_use(struct store *s, enum store_stmt which);
void store_done(struct store *s, enum store_stmt which);

/* Runs a statement without rows and gives it back. */
int store_run(struct store *s, enum store_stmt which, const char *what, struct err *err);

/* A column as a string of its own, NULL for NULL. */
char *store_column(sqlite3_stmt *st, int column);
