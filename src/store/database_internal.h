#pragma once

#include <sqlite3.h>
#include <stdbool.h>

struct err;

/* What every database of cay's has in common: how it is opened, checked, brought up to date, and
 * synced. */

/* [n] takes user_version n to n + 1. */
struct migrations {
    const char *const *sql;
    int n;
};

/* "CAY1" */
#define STORE_APPLICATION_ID 0x43415931

/* SQLite empties the log into the database when it has so many pages. */
#define LOG_PAGES      256
#define LOG_PAGES_TEXT "256"

/* One that is corrupt is moved aside to <path>.corrupt-<time>, and a new one is started;
 * *ret_empty: there was none, or nothing in it. */
int database_open(const char *path, const struct migrations *migrations, sqlite3 **ret,
                  bool *ret_empty, bool *ret_corrupt, struct err *err);
int database_migrate(sqlite3 *db, const char *path, const struct migrations *m, struct err *err);

/* The log of the database, made as long as it will be, to sync it (fdatasync): after a transaction,
 * for which SQLite has made it. */
int database_open_log(const char *path, int *ret_fd, struct err *err);
/* The index of the log where that is a file: it is written through a mapping, and there a disk that
 * is full is no error but a signal, so that all of its blocks have to be had before. SQLite asks
 * for one byte of each page, which is not all of it where blocks are smaller. The descriptor is to
 * be closed after the database: SQLite's locks end with the first that is. *ret_fd = -1: there is
 * no such file. */
void database_open_index(const char *path, int *ret_fd);

/* Fills err with what SQLite says; -1. */
int store_sql_error(sqlite3 *db, const char *what, struct err *err);
