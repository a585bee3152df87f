#include "store/database_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/regular.h"

#define BUSY_MS     5000
#define ROOM_BYTES  (1 << 20)     /* for the index of a log */
#define CHECKED_MAX (256ll << 20) /* bytes of a database that is read whole at a start */

int store_sql_error(sqlite3 *db, const char *what, struct err *err)
{
    int code = sqlite3_errcode(db) & 0xff;

    if (code == SQLITE_FULL)
        return err_code(err, ERR_UNAVAILABLE, "no_space",
                        "%s: the disk with the data directory is full; free some space", what);
    return err_set(err, code == SQLITE_BUSY ? ERR_UNAVAILABLE : ERR_INTERNAL, "%s: %s", what,
                   sqlite3_errmsg(db));
}

enum health { HEALTHY, CORRUPT, BROKEN };

static enum health classify(sqlite3 *db)
{
    int code = sqlite3_errcode(db) & 0xff;

    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? CORRUPT : BROKEN;
}

/* Of a large one, which has much that was put out by jobs, only the beginning is looked at: nobody
 * waits for a start while gigabytes are read. */
static bool is_large(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_size > CHECKED_MAX;
}

static enum health quick_check(sqlite3 *db, const char *path, struct err *err)
{
    const char *sql =
        is_large(path) ? "SELECT 'ok' FROM sqlite_schema LIMIT 1" : "PRAGMA quick_check(1)";
    sqlite3_stmt *st = NULL;
    enum health health = HEALTHY;

    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW) {
        health = classify(db);
        (void)store_sql_error(db, "check the database", err);
    } else {
        const char *said = (const char *)sqlite3_column_text(st, 0);

        if (!said || strcmp(said, "ok") != 0) {
            (void)err_set(err, ERR_INTERNAL, "check the database: %s", said ? said : "no answer");
            health = CORRUPT;
        }
    }
    (void)sqlite3_finalize(st);
    return health;
}

/* Else the index of the log is a file, so that other programs may read too. */
static bool keep_to_ourselves(sqlite3 *db)
{
    return sqlite3_exec(db, "PRAGMA locking_mode = EXCLUSIVE", NULL, NULL, NULL) == SQLITE_OK;
}

static bool is_full(sqlite3 *db)
{
    int code = sqlite3_extended_errcode(db);

    return code == SQLITE_IOERR_SHMSIZE || code == SQLITE_FULL;
}

static enum health open_as(const char *path, bool alone, sqlite3 **ret, bool *ret_full,
                           struct err *err)
{
    int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    enum health health = HEALTHY;
    sqlite3 *db = NULL;

    if (sqlite3_open_v2(path, &db, flags, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(db, BUSY_MS) != SQLITE_OK || (alone && !keep_to_ourselves(db))) {
        health = classify(db);
        (void)store_sql_error(db, "open the database", err);
    }
    if (health == HEALTHY)
        health = quick_check(db, path, err);
    *ret_full = health == BROKEN && is_full(db);
    if (health != HEALTHY) {
        (void)sqlite3_close(db);
        db = NULL;
    }
    *ret = db;
    return health;
}

static bool has_room(const char *path)
{
    struct statvfs st;

    return statvfs(path, &st) < 0 || (uint64_t)st.f_bavail * st.f_frsize >= ROOM_BYTES;
}

/* Opens and checks, changing nothing; on anything but HEALTHY, *ret is NULL. A full disk must not
 * keep the daemon away, which is the one that can remove sandboxes. */
static enum health open_checked(const char *path, sqlite3 **ret, struct err *err)
{
    enum health health = BROKEN;
    bool full = !has_room(path);

    if (!full)
        health = open_as(path, false, ret, &full, err);
    if (!full)
        return health;
    log_warn("the disk with the data directory is full; until the next start no other program can "
             "read the database",
             "file", path);
    return open_as(path, true, ret, &full, err);
}

/* Nothing is deleted: whoever wants the rows back finds the file and its log under new names. */
static int quarantine(const char *path, const struct err *why, struct err *err)
{
    auto_free char *aside = xasprintf("%s.corrupt-%lld", path, (long long)now_ms());

    for (int i = 0; i < 3; i++) {
        static const char *const parts[] = {"", "-wal", "-shm"};
        auto_free char *from = xasprintf("%s%s", path, parts[i]);
        auto_free char *to = xasprintf("%s%s", aside, parts[i]);

        if (rename(from, to) < 0 && errno != ENOENT)
            return err_sys(err, errno, "move the corrupt database %s aside", from);
    }
    log_error("the database is corrupt; it was moved aside and a new one is started", "file", aside,
              "why", why->text);
    return 0;
}

/* SQLite makes its files with the mode of the database, so that one is made here, closed to others.
 */
static int make_file(const char *path, bool *ret_empty, struct err *err)
{
    auto_close int fd = regular_open(AT_FDCWD, path, O_RDWR | O_CREAT, 0600, err);
    struct stat st;

    if (fd < 0)
        return -1;
    if (fchmod(fd, 0600) < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "open %s for reading and writing", path);
    *ret_empty = st.st_size == 0;
    return 0;
}

/* What SQLite opens by itself, beside the database. */
static int check_parts(const char *path, struct err *err)
{
    static const char *const parts[] = {"-wal", "-shm", "-journal"};

    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        auto_free char *part = xasprintf("%s%s", path, parts[i]);
        auto_close int fd = regular_open(AT_FDCWD, part, O_RDWR, 0, err);

        if (fd < 0 && fd != -ENOENT)
            return -1;
    }
    return 0;
}

static int set_up(sqlite3 *db, const char *path, const struct migrations *migrations,
                  struct err *err)
{
    /* NORMAL: a commit is written to the log; who syncs that makes it outlive a power cut. */
    static const char setup[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; "
                                "PRAGMA wal_autocheckpoint = " LOG_PAGES_TEXT
                                "; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;";

    if (database_migrate(db, path, migrations, err) < 0)
        return -1;
    if (sqlite3_exec(db, setup, NULL, NULL, NULL) != SQLITE_OK)
        return store_sql_error(db, "set up the database", err);
    return 0;
}

int database_open(const char *path, const struct migrations *migrations, sqlite3 **ret,
                  bool *ret_empty, bool *ret_corrupt, struct err *err)
{
    struct err why = {0};
    enum health health;
    bool empty;

    if (make_file(path, ret_empty, err) < 0 || check_parts(path, err) < 0)
        return -1;
    *ret_corrupt = false;
    health = open_checked(path, ret, &why);
    if (health == CORRUPT) {
        if (quarantine(path, &why, err) < 0 || make_file(path, &empty, err) < 0)
            return -1;
        *ret_corrupt = true;
        health = open_checked(path, ret, &why);
    }
    if (health != HEALTHY) {
        if (err)
            *err = why;
        return -1;
    }
    if (set_up(*ret, path, migrations, err) == 0)
        return 0;
    (void)sqlite3_close(*ret);
    *ret = NULL;
    return -1;
}
