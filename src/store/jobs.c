#include "store/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/jobs_internal.h"

/* A job's id has its number in it, which is the key of its row: nothing else has to be looked up.
 */

#define OUTPUT_MAX (1u << 20)

static const char *const steps[] = {
    "CREATE TABLE jobs ("
    "  seq INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL,"
    "  sandbox TEXT NOT NULL,"
    "  state INTEGER NOT NULL,"
    "  live INTEGER NOT NULL DEFAULT 0,"
    "  exec_id TEXT NOT NULL DEFAULT '',"
    "  command TEXT NOT NULL,"
    "  request TEXT,"
    "  priority INTEGER NOT NULL,"
    "  timeout_ms INTEGER NOT NULL,"
    "  retry_ms INTEGER NOT NULL,"
    "  retry_exit INTEGER NOT NULL,"
    "  retries INTEGER NOT NULL DEFAULT 0,"
    "  max_retries INTEGER NOT NULL,"
    "  run_ms INTEGER NOT NULL,"
    "  created_ms INTEGER NOT NULL,"
    "  started_ms INTEGER NOT NULL DEFAULT 0,"
    "  ended_ms INTEGER NOT NULL DEFAULT 0,"
    "  error TEXT,"
    "  exit_code INTEGER,"
    "  reason TEXT,"
    "  duration_ms REAL,"
    "  truncated INTEGER,"
    "  base INTEGER);"
    "CREATE TABLE outputs (seq INTEGER PRIMARY KEY, runs BLOB, bytes BLOB);"
    "CREATE INDEX of_sandbox ON jobs (sandbox, seq);"
    "CREATE INDEX ready ON jobs (sandbox, priority DESC, seq) WHERE state = 1;"
    "CREATE INDEX delayed ON jobs (run_ms) WHERE state = 0;"
    "CREATE INDEX live ON jobs (seq) WHERE live = 1;"
    "CREATE INDEX over ON jobs (ended_ms) WHERE state >= 3;"
    "CREATE INDEX failed ON jobs (seq) WHERE state = 4;"
    "CREATE TRIGGER forget AFTER DELETE ON jobs BEGIN"
    "  DELETE FROM outputs WHERE seq = old.seq; END;",
};

#define COLUMNS                                                                                    \
    "seq, id, sandbox, state, live, exec_id, command, request, priority, timeout_ms, retry_ms, "   \
    "retry_exit, retries, max_retries, run_ms, created_ms, started_ms, ended_ms, error, "          \
    "exit_code, reason, duration_ms, truncated, base"

static const char *const sql[SQL_COUNT] = {
    [SQL_LAST] = "SELECT max(seq) FROM jobs",
    [SQL_ADD] = "INSERT INTO jobs (seq, id, sandbox, state, command, request, priority, "
                "timeout_ms, retry_ms, retry_exit, max_retries, run_ms, created_ms) "
                "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    [SQL_GET] = "SELECT " COLUMNS " FROM jobs WHERE seq = ?1",
    [SQL_OUTPUT] = "SELECT runs, bytes FROM outputs WHERE seq = ?1",
    [SQL_CANCEL] = "UPDATE jobs SET state = 5, ended_ms = ?2 WHERE seq = ?1",
    [SQL_REQUEUE] = "UPDATE jobs SET state = 1, retries = 0, run_ms = 0, started_ms = 0, "
                    "ended_ms = 0, exec_id = '', error = NULL, exit_code = NULL WHERE seq = ?1",
    [SQL_PURGE] = "DELETE FROM jobs WHERE state = 4 AND (?1 IS NULL OR sandbox = ?1)",
    [SQL_PURGE_ONE] = "DELETE FROM jobs WHERE seq = ?1",
    [SQL_FIRST] = "SELECT " COLUMNS " FROM jobs WHERE sandbox = ?1 AND state = 1 "
                  "ORDER BY priority DESC, seq LIMIT ?2",
    [SQL_CLAIM] =
        "UPDATE jobs SET state = 2, live = 1, exec_id = ?2, started_ms = ?3 WHERE seq = ?1",
    [SQL_UNCLAIM] = "UPDATE jobs SET state = 1, live = 0, exec_id = '', started_ms = 0 "
                    "WHERE seq = ?1 AND state = 2",
    [SQL_END] = "UPDATE jobs SET state = ?2, live = 0, retries = ?3, run_ms = ?4, ended_ms = ?5, "
                "error = ?6, exit_code = ?7, reason = ?8, duration_ms = ?9, truncated = ?10, "
                "base = ?11 WHERE seq = ?1 AND state = 2",
    [SQL_QUIET] = "UPDATE jobs SET live = 0 WHERE seq = ?1",
    [SQL_PUT_OUTPUT] = "INSERT OR REPLACE INTO outputs (seq, runs, bytes) VALUES (?1, ?2, ?3)",
    [SQL_NO_OUTPUT] = "DELETE FROM outputs WHERE seq = ?1",
    [SQL_MAKE_READY] =
        "UPDATE jobs SET state = 1 WHERE state = 0 AND run_ms <= ?1 RETURNING sandbox",
    [SQL_NEXT_TIME] = "SELECT min(run_ms) FROM jobs WHERE state = 0",
    [SQL_FAIL_WAITING] = "UPDATE jobs SET state = 4, error = ?2, ended_ms = ?3 "
                         "WHERE sandbox = ?1 AND state IN (0, 1) RETURNING id",
    [SQL_PRUNE_AGE] = "DELETE FROM jobs WHERE seq IN (SELECT seq FROM jobs WHERE state >= 3 AND "
                      "ended_ms < ?1 AND live = 0 ORDER BY ended_ms LIMIT ?2)",
    [SQL_PRUNE_OWN] = "DELETE FROM jobs WHERE seq IN (SELECT seq FROM jobs WHERE state >= 3 AND "
                      "live = 0 AND sandbox = (SELECT sandbox FROM jobs WHERE state >= 3 GROUP BY "
                      "sandbox HAVING count(*) > ?2 ORDER BY count(*) DESC LIMIT 1) "
                      "ORDER BY ended_ms LIMIT ?1)",
    [SQL_PRUNE_COUNT] = "DELETE FROM jobs WHERE seq IN (SELECT seq FROM jobs WHERE state >= 3 AND "
                        "live = 0 ORDER BY ended_ms LIMIT ?1)",
    [SQL_OVER] = "SELECT count(*) FROM jobs WHERE state >= 3",
    [SQL_LIVE] = "SELECT " COLUMNS " FROM jobs WHERE live = 1 ORDER BY seq",
    [SQL_SANDBOXES] = "SELECT sandbox, count(*) FROM jobs WHERE state IN (0, 1, 2) "
                      "GROUP BY sandbox",
};

void job_done(struct job *j)
{
    free(j->command);
    free(j->request);
    free(j->error);
    buf_done(&j->output);
    buf_done(&j->runs);
    *j = (struct job){0};
}

/* ---- ids ---- */

#define PREFIX     "job_"
#define SEQ_DIGITS 16

bool job_id_valid(const char *id)
{
    return id_valid(id, "job");
}

static void make_id(struct job *j)
{
    unsigned char mark[4];

    if (getrandom(mark, sizeof(mark), 0) != (ssize_t)sizeof(mark))
        abort();
    (void)snprintf(j->id, sizeof(j->id), PREFIX "%016llx%02x%02x%02x%02x",
                   (unsigned long long)j->seq, mark[0], mark[1], mark[2], mark[3]);
}

/* 0 = that cannot be one of ours. */
static int64_t seq_of(const char *id)
{
    char digits[SEQ_DIGITS + 1];
    unsigned long long n;

    if (!job_id_valid(id))
        return 0;
    memcpy(digits, id + strlen(PREFIX), SEQ_DIGITS);
    digits[SEQ_DIGITS] = '\0';
    n = strtoull(digits, NULL, 16);
    return n <= INT64_MAX ? (int64_t)n : 0;
}

/* ---- rows ---- */

static char *text_of(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);

    return text ? xstrdup(text) : NULL;
}

static void copy_text(sqlite3_stmt *st, int column, char *ret, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(st, column);

    (void)snprintf(ret, size, "%s", text ? text : "");
}

void job_read_row(sqlite3_stmt *st, struct job *j)
{
    *j = (struct job){
        .seq = sqlite3_column_int64(st, 0),
        .state = (enum job_state)sqlite3_column_int(st, 3),
        .live = sqlite3_column_int(st, 4),
        .command = text_of(st, 6),
        .request = text_of(st, 7),
        .priority = sqlite3_column_int(st, 8),
        .timeout_ms = sqlite3_column_int64(st, 9),
        .retry_ms = sqlite3_column_int64(st, 10),
        .retry_exit = sqlite3_column_int(st, 11),
        .retries = (unsigned)sqlite3_column_int64(st, 12),
        .max_retries = (unsigned)sqlite3_column_int64(st, 13),
        .run_ms = sqlite3_column_int64(st, 14),
        .created_ms = sqlite3_column_int64(st, 15),
        .started_ms = sqlite3_column_int64(st, 16),
        .ended_ms = sqlite3_column_int64(st, 17),
        .error = text_of(st, 18),
        .has_result = sqlite3_column_type(st, 19) != SQLITE_NULL,
        .exit_code = sqlite3_column_int(st, 19),
        .duration_ms = sqlite3_column_double(st, 21),
        .truncated = sqlite3_column_int(st, 22),
        .base = sqlite3_column_int64(st, 23),
    };
    copy_text(st, 1, j->id, sizeof(j->id));
    copy_text(st, 2, j->sandbox, sizeof(j->sandbox));
    copy_text(st, 5, j->exec_id, sizeof(j->exec_id));
    copy_text(st, 20, j->reason, sizeof(j->reason));
}

static void read_blob(sqlite3_stmt *st, int column, struct buf *ret)
{
    buf_init(ret, OUTPUT_MAX);
    (void)buf_add(ret, sqlite3_column_blob(st, column), (size_t)sqlite3_column_bytes(st, column));
}

static int not_found(const char *id, struct err *err)
{
    return err_code(err, ERR_NOT_FOUND, "job_not_found", "Queue job not found: %.60s", id);
}

/* While the database is held. */
static int get(struct jobs *s, const char *id, struct job *ret, struct err *err)
{
    sqlite3_stmt *st = side_stmt(s->side, SQL_GET);
    int code, r = 0;

    (void)sqlite3_bind_int64(st, 1, seq_of(id));
    code = sqlite3_step(st);
    if (code == SQLITE_ROW)
        job_read_row(st, ret);
    (void)sqlite3_reset(st);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        r = store_sql_error(s->side->db, "read the job", err);
    else if (code == SQLITE_DONE || strcmp(ret->id, id) != 0)
        r = not_found(id, err);
    if (r < 0 && code == SQLITE_ROW)
        job_done(ret);
    return r;
}

static void get_output(struct jobs *s, struct job *j)
{
    sqlite3_stmt *st = side_stmt(s->side, SQL_OUTPUT);

    (void)sqlite3_bind_int64(st, 1, j->seq);
    if (sqlite3_step(st) == SQLITE_ROW) {
        read_blob(st, 0, &j->runs);
        read_blob(st, 1, &j->output);
    }
    (void)sqlite3_reset(st);
}

/* ---- opening ---- */

static int find_next(struct jobs *s, struct err *err)
{
    sqlite3_stmt *st;
    int r = 0;

    side_take(s->side);
    st = side_stmt(s->side, SQL_LAST);
    if (sqlite3_step(st) == SQLITE_ROW)
        s->next = sqlite3_column_int64(st, 0) + 1;
    else
        r = store_sql_error(s->side->db, "read the jobs", err);
    (void)sqlite3_reset(st);
    side_give(s->side);
    return r;
}

int jobs_open(const char *data_dir, struct jobs **ret, struct err *err)
{
    static const struct migrations migrations = {steps, ARRAY_LEN(steps)};
    struct jobs *s = xcalloc(1, sizeof(*s));

    if (side_open(data_dir, "jobs", &migrations, sql, SQL_COUNT, &s->side, err) == 0 &&
        find_next(s, err) == 0) {
        *ret = s;
        return 0;
    }
    jobs_close(s);
    return -1;
}

void jobs_close(struct jobs *s)
{
    if (!s)
        return;
    side_close(s->side);
    free(s);
}

int jobs_sync(struct jobs *s, struct err *err)
{
    return side_sync(s->side, err);
}

/* ---- for callers ---- */

int jobs_add(struct jobs *s, struct job *j, struct err *err)
{
    sqlite3_stmt *st;
    int r;

    if (side_begin(s->side, err) < 0)
        return -1;
    j->seq = s->next++;
    make_id(j);
    st = side_stmt(s->side, SQL_ADD);
    (void)sqlite3_bind_int64(st, 1, j->seq);
    side_bind_text(st, 2, j->id);
    side_bind_text(st, 3, j->sandbox);
    (void)sqlite3_bind_int(st, 4, j->state);
    side_bind_text(st, 5, j->command);
    side_bind_text(st, 6, j->request);
    (void)sqlite3_bind_int(st, 7, j->priority);
    (void)sqlite3_bind_int64(st, 8, j->timeout_ms);
    (void)sqlite3_bind_int64(st, 9, j->retry_ms);
    (void)sqlite3_bind_int(st, 10, j->retry_exit);
    (void)sqlite3_bind_int64(st, 11, j->max_retries);
    (void)sqlite3_bind_int64(st, 12, j->run_ms);
    (void)sqlite3_bind_int64(st, 13, j->created_ms);
    r = side_run(s->side, SQL_ADD, "store the job", err);
    return side_commit(s->side, r < 0, err);
}

int jobs_get(struct jobs *s, const char *id, bool output, struct job *ret, struct err *err)
{
    int r;

    side_take(s->side);
    r = get(s, id, ret, err);
    if (r == 0 && output)
        get_output(s, ret);
    side_give(s->side);
    return r;
}

const char *job_word(enum job_state state)
{
    static const char *const words[JOB_STATES] = {
        [JOB_DELAYED] = "pending",     [JOB_READY] = "pending", [JOB_RUNNING] = "running",
        [JOB_COMPLETED] = "completed", [JOB_FAILED] = "failed", [JOB_CANCELLED] = "cancelled"};

    return words[state];
}

/* One row, found by its id and judged, is changed by one statement. */
static int change(struct jobs *s, const char *id, unsigned which, int64_t now,
                  bool (*may)(const struct job *j, struct err *err), struct job *ret,
                  struct err *err)
{
    sqlite3_stmt *st;
    int r;

    if (side_begin(s->side, err) < 0)
        return -1;
    r = get(s, id, ret, err);
    if (r < 0)
        return side_commit(s->side, true, err);
    if (may(ret, err)) {
        st = side_stmt(s->side, which);
        (void)sqlite3_bind_int64(st, 1, ret->seq);
        if (now)
            (void)sqlite3_bind_int64(st, 2, now);
        r = side_run(s->side, which, "change the job", err);
    } else {
        r = -1;
    }
    r = side_commit(s->side, r < 0, err);
    if (r < 0)
        job_done(ret);
    return r;
}

static bool may_cancel(const struct job *j, struct err *err)
{
    if (j->state < JOB_COMPLETED)
        return true;
    (void)err_code(err, ERR_CONFLICT, "job_not_pending", "Job is not pending: %s",
                   job_word(j->state));
    return false;
}

int jobs_cancel(struct jobs *s, const char *id, int64_t now, struct job *ret, struct err *err)
{
    return change(s, id, SQL_CANCEL, now, may_cancel, ret, err);
}

static bool has_failed(const struct job *j, struct err *err)
{
    if (j->state == JOB_FAILED)
        return true;
    (void)err_code(err, ERR_CONFLICT, "job_not_failed", "Job has not failed: %s",
                   job_word(j->state));
    return false;
}

int jobs_requeue(struct jobs *s, const char *id, struct job *ret, struct err *err)
{
    return change(s, id, SQL_REQUEUE, 0, has_failed, ret, err);
}

int jobs_purge_one(struct jobs *s, const char *id, struct err *err)
{
    auto_job struct job j = {0};

    return change(s, id, SQL_PURGE_ONE, 0, has_failed, &j, err);
}

int jobs_purge(struct jobs *s, const char *sandbox, uint64_t *ret, struct err *err)
{
    int r;

    if (side_begin(s->side, err) < 0)
        return -1;
    side_bind_text(side_stmt(s->side, SQL_PURGE), 1, sandbox);
    r = side_run(s->side, SQL_PURGE, "forget the jobs that failed", err);
    *ret = r < 0 ? 0 : (uint64_t)sqlite3_changes64(s->side->db);
    return side_commit(s->side, r < 0, err);
}

/* ---- lists ---- */

/* Made of our own words only; what callers gave is bound. */
static sqlite3_stmt *prepare_list(struct jobs *s, const struct jobs_query *q, const char *what,
                                  const char *tail, struct err *err)
{
    auto_buf struct buf text = {0};
    sqlite3_stmt *st = NULL;

    buf_init(&text, 4096);
    (void)buf_addf(&text, "SELECT %s FROM jobs WHERE 1", what);
    if (q->sandbox)
        (void)buf_add_str(&text, " AND sandbox = ?1");
    for (size_t i = 0; i < q->n_states; i++)
        (void)buf_addf(&text, "%s%d%s", i == 0 ? " AND state IN (" : ", ", (int)q->states[i],
                       i + 1 == q->n_states ? ")" : "");
    (void)buf_add_str(&text, tail);
    if (sqlite3_prepare_v2(s->side->db, text.data, -1, &st, NULL) != SQLITE_OK) {
        (void)store_sql_error(s->side->db, "list the jobs", err);
        return NULL;
    }
    if (q->sandbox)
        side_bind_text(st, 1, q->sandbox);
    return st;
}

static int count(struct jobs *s, const struct jobs_query *q, uint64_t *ret, struct err *err)
{
    sqlite3_stmt *st = prepare_list(s, q, "count(*)", "", err);
    int r = st && sqlite3_step(st) == SQLITE_ROW ? 0 : -1;

    if (r == 0)
        *ret = (uint64_t)sqlite3_column_int64(st, 0);
    else if (st)
        (void)store_sql_error(s->side->db, "count the jobs", err);
    (void)sqlite3_finalize(st);
    return r;
}

int jobs_list(struct jobs *s, const struct jobs_query *q,
              void (*each)(const struct job *j, void *arg), void *arg, uint64_t *ret_total,
              struct err *err)
{
    sqlite3_stmt *st;
    int code = SQLITE_DONE, r;

    side_take(s->side);
    r = count(s, q, ret_total, err);
    st = r == 0 ? prepare_list(s, q, COLUMNS, " ORDER BY seq DESC LIMIT ?2 OFFSET ?3", err) : NULL;
    if (st) {
        (void)sqlite3_bind_int64(st, 2, q->limit);
        (void)sqlite3_bind_int64(st, 3, q->offset);
    }
    while (st && (code = sqlite3_step(st)) == SQLITE_ROW) {
        auto_job struct job j = {0};

        job_read_row(st, &j);
        each(&j, arg);
    }
    if (st && code != SQLITE_DONE)
        (void)store_sql_error(s->side->db, "list the jobs", err);
    (void)sqlite3_finalize(st);
    side_give(s->side);
    return r == 0 && st && code == SQLITE_DONE ? 0 : -1;
}
