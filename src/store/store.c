#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/store_internal.h"

#define BUSY_MS 5000

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

int store_sql_error(sqlite3 *db, const char *what, struct err *err)
{
    int code = sqlite3_errcode(db) & 0xff;

    if (code == SQLITE_FULL)
        return err_code(err, ERR_UNAVAILABLE, "no_space",
                        "%s: the disk with the data directory is full; free some space", what);
    return err_set(err, code == SQLITE_BUSY ? ERR_UNAVAILABLE : ERR_INTERNAL, "%s: %s", what,
                   sqlite3_errmsg(db));
}

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

enum health { HEALTHY, CORRUPT, BROKEN };

static enum health classify(sqlite3 *db)
{
    int code = sqlite3_errcode(db) & 0xff;

    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? CORRUPT : BROKEN;
}

static enum health quick_check(sqlite3 *db, struct err *err)
{
    sqlite3_stmt *st = NULL;
    enum health health = HEALTHY;

    if (sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW) {
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
        health = quick_check(db, err);
    *ret_full = health == BROKEN && is_full(db);
    if (health != HEALTHY) {
        (void)sqlite3_close(db);
        db = NULL;
    }
    *ret = db;
    return health;
}

/* Opens and checks, changing nothing; on anything but HEALTHY, *ret is NULL. A full disk must not
 * keep the daemon away, which is the one that can remove sandboxes. */
static enum health open_checked(const char *path, sqlite3 **ret, struct err *err)
{
    bool full;
    enum health health = open_as(path, false, ret, &full, err);

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
    auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat st;

    if (fd < 0 || fchmod(fd, 0600) < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "open %s for reading and writing", path);
    *ret_empty = st.st_size == 0;
    return 0;
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
    /* NORMAL: a commit is written to the log; store_sync() makes it outlive a power cut. */
    static const char setup[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; "
                                "PRAGMA wal_autocheckpoint = " LOG_PAGES_TEXT
                                "; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;";
    auto_free char *path = xasprintf("%s/cay.db", data_dir);
    struct err why = {0};
    enum health health;
    bool empty;

    if (make_file(path, &empty, err) < 0)
        return -1;
    *ret_rebuilt = empty && has_sandboxes(data_dir);
    health = open_checked(path, &s->db, &why);
    if (health == CORRUPT) {
        if (quarantine(path, &why, err) < 0 || make_file(path, &empty, err) < 0)
            return -1;
        *ret_rebuilt = 1;
        health = open_checked(path, &s->db, &why);
    }
    if (health != HEALTHY) {
        *err = why;
        return -1;
    }
    if (store_migrate(s->db, path, err) < 0)
        return -1;
    if (sqlite3_exec(s->db, setup, NULL, NULL, NULL) != SQLITE_OK)
        return store_sql_error(s->db, "set up the database", err);
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

    s->lock_fd = s->notes_fd = s->log_fd = -1;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&s->lock, &attr);
    pthread_mutexattr_destroy(&attr);

    if (mkdir(data_dir, 0700) < 0 && errno != EEXIST)
        (void)err_sys(&failure, errno, "make the data directory %s", data_dir);
    else if (store_take_lock(data_dir, &s->lock_fd, &failure) == 0 &&
             open_db(s, data_dir, &rebuilt, &failure) == 0 && prepare_all(s, &failure) == 0 &&
             store_open_notes(s, data_dir, &failure) == 0 && store_take_back(s, &failure) == 0 &&
             store_open_log(s, data_dir, &failure) == 0 && store_sync(s, &failure) == 0) {
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
    close_fd(&s->notes_fd);
    close_fd(&s->lock_fd);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
