#include "base/err.h"
#include "base/mem.h"
#include "store/jobs_internal.h"

#define PRUNE_MAX 1000

int jobs_begin(struct jobs *s, struct err *err)
{
    if (side_begin(s->side, err) < 0)
        return -1;
    s->failed = false;
    return 0;
}

int jobs_commit(struct jobs *s, struct err *err)
{
    if (s->failed && err)
        *err = s->why;
    return side_commit(s->side, s->failed, err);
}

static int broken(struct jobs *s, const char *what)
{
    if (!s->failed)
        (void)store_sql_error(s->side->db, what, &s->why);
    s->failed = true;
    return -1;
}

/* SQLite may have taken the whole transaction back with what failed (a full disk): each statement
 * after it would be a transaction of its own, and stay. */
static int run(struct jobs *s, unsigned which, const char *what)
{
    sqlite3_stmt *st = s->side->stmts[which];
    bool done = !s->failed && sqlite3_step(st) == SQLITE_DONE;
    int r = done ? 0 : broken(s, what);

    (void)sqlite3_reset(st);
    return r;
}

static int claim_one(struct jobs *s, struct job *j, int64_t now)
{
    sqlite3_stmt *st = side_stmt(s->side, SQL_CLAIM);

    id_new(j->exec_id, "ex");
    j->state = JOB_RUNNING;
    j->live = true;
    j->started_ms = now;
    (void)sqlite3_bind_int64(st, 1, j->seq);
    side_bind_text(st, 2, j->exec_id);
    (void)sqlite3_bind_int64(st, 3, now);
    return run(s, SQL_CLAIM, "start the job");
}

#define CLAIM_MAX 64 /* as many as may run at a time in a sandbox */

int jobs_claim(struct jobs *s, const char *sandbox, unsigned most, int64_t now,
               void (*each)(struct job *j, void *arg), void *arg)
{
    struct job found[CLAIM_MAX] = {0};
    sqlite3_stmt *st = side_stmt(s->side, SQL_FIRST);
    size_t n = 0;
    int code, r = 0;

    side_bind_text(st, 1, sandbox);
    (void)sqlite3_bind_int64(st, 2, most < CLAIM_MAX ? most : CLAIM_MAX);
    while ((code = sqlite3_step(st)) == SQLITE_ROW)
        job_read_row(st, &found[n++]);
    (void)sqlite3_reset(st);
    if (code != SQLITE_DONE)
        r = broken(s, "find the next job");
    for (size_t i = 0; i < n; i++) {
        if (r == 0 && (r = claim_one(s, &found[i], now)) == 0)
            each(&found[i], arg);
        job_done(&found[i]);
    }
    return r;
}

int jobs_unclaim(struct jobs *s, int64_t seq)
{
    (void)sqlite3_bind_int64(side_stmt(s->side, SQL_UNCLAIM), 1, seq);
    if (run(s, SQL_UNCLAIM, "put the job back") < 0)
        return -1;
    if (sqlite3_changes(s->side->db) > 0)
        return 0;
    (void)sqlite3_bind_int64(side_stmt(s->side, SQL_QUIET), 1, seq);
    return run(s, SQL_QUIET, "put the job back");
}

/* In place of what the try before has put out. */
static int put_output(struct jobs *s, const struct job *j)
{
    bool some = j->has_result && j->output.len > 0;
    unsigned which = some ? SQL_PUT_OUTPUT : SQL_NO_OUTPUT;
    sqlite3_stmt *st = side_stmt(s->side, which);

    (void)sqlite3_bind_int64(st, 1, j->seq);
    if (!some)
        return run(s, which, "forget a job's output");
    (void)sqlite3_bind_blob64(st, 2, j->runs.data, j->runs.len, SQLITE_STATIC);
    (void)sqlite3_bind_blob64(st, 3, j->output.data, j->output.len, SQLITE_STATIC);
    return run(s, which, "store the job's output");
}

int jobs_put_end(struct jobs *s, const struct job *j, bool *ret)
{
    sqlite3_stmt *st = side_stmt(s->side, SQL_END);

    (void)sqlite3_bind_int64(st, 1, j->seq);
    (void)sqlite3_bind_int(st, 2, j->state);
    (void)sqlite3_bind_int64(st, 3, j->retries);
    (void)sqlite3_bind_int64(st, 4, j->run_ms);
    (void)sqlite3_bind_int64(st, 5, j->ended_ms);
    side_bind_text(st, 6, j->error);
    if (j->has_result) {
        (void)sqlite3_bind_int(st, 7, j->exit_code);
        side_bind_text(st, 8, j->reason);
        (void)sqlite3_bind_double(st, 9, j->duration_ms);
        (void)sqlite3_bind_int(st, 10, j->truncated);
        (void)sqlite3_bind_int64(st, 11, j->base);
    }
    if (run(s, SQL_END, "store how the job ended") < 0)
        return -1;
    *ret = sqlite3_changes(s->side->db) > 0;
    if (*ret)
        return put_output(s, j);
    (void)sqlite3_bind_int64(side_stmt(s->side, SQL_QUIET), 1, j->seq);
    return run(s, SQL_QUIET, "store how the job ended");
}

/* Rows of one text each. */
static int each_text(struct jobs *s, unsigned which, const char *what,
                     void (*each)(const char *text, void *arg), void *arg)
{
    sqlite3_stmt *st = s->side->stmts[which];
    int code, r = 0;

    if (s->failed)
        return -1;
    while ((code = sqlite3_step(st)) == SQLITE_ROW)
        each((const char *)sqlite3_column_text(st, 0), arg);
    if (code != SQLITE_DONE)
        r = broken(s, what);
    (void)sqlite3_reset(st);
    return r;
}

int jobs_make_ready(struct jobs *s, int64_t now, void (*each)(const char *sandbox, void *arg),
                    void *arg)
{
    (void)sqlite3_bind_int64(side_stmt(s->side, SQL_MAKE_READY), 1, now);
    return each_text(s, SQL_MAKE_READY, "start the jobs whose time has come", each, arg);
}

int jobs_next_time(struct jobs *s, int64_t *ret)
{
    sqlite3_stmt *st = side_stmt(s->side, SQL_NEXT_TIME);
    int r = sqlite3_step(st) == SQLITE_ROW ? 0 : broken(s, "find the next job");

    *ret = r == 0 ? sqlite3_column_int64(st, 0) : 0;
    (void)sqlite3_reset(st);
    return r;
}

int jobs_fail_waiting(struct jobs *s, const char *sandbox, const char *error, int64_t now,
                      void (*each)(const char *id, void *arg), void *arg)
{
    sqlite3_stmt *st = side_stmt(s->side, SQL_FAIL_WAITING);

    side_bind_text(st, 1, sandbox);
    side_bind_text(st, 2, error);
    (void)sqlite3_bind_int64(st, 3, now);
    return each_text(s, SQL_FAIL_WAITING, "end the jobs of a sandbox that is gone", each, arg);
}

static int count_over(struct jobs *s, uint64_t *ret)
{
    sqlite3_stmt *st = side_stmt(s->side, SQL_OVER);
    int r = sqlite3_step(st) == SQLITE_ROW ? 0 : broken(s, "count the jobs");

    *ret = r == 0 ? (uint64_t)sqlite3_column_int64(st, 0) : 0;
    (void)sqlite3_reset(st);
    return r;
}

/* One of the statements that take how many at most; adds how many went. */
static int prune(struct jobs *s, unsigned which, uint64_t *ret)
{
    if (run(s, which, "forget old jobs") < 0)
        return -1;
    *ret += (uint64_t)sqlite3_changes64(s->side->db);
    return 0;
}

static int prune_past(struct jobs *s, uint64_t spare, uint64_t most, uint64_t *ret)
{
    sqlite3_stmt *st = side_stmt(s->side, SQL_PRUNE_OWN);
    uint64_t own = 0;

    (void)sqlite3_bind_int64(st, 1, (int64_t)spare);
    (void)sqlite3_bind_int64(st, 2, (int64_t)most / 2);
    if (prune(s, SQL_PRUNE_OWN, &own) < 0)
        return -1;
    *ret += own;
    (void)sqlite3_bind_int64(side_stmt(s->side, SQL_PRUNE_COUNT), 1, (int64_t)(spare - own));
    return prune(s, SQL_PRUNE_COUNT, ret);
}

int jobs_prune(struct jobs *s, int64_t before, uint64_t most, uint64_t *ret)
{
    sqlite3_stmt *st = side_stmt(s->side, SQL_PRUNE_AGE);
    uint64_t over;

    *ret = 0;
    (void)sqlite3_bind_int64(st, 1, before);
    (void)sqlite3_bind_int64(st, 2, PRUNE_MAX);
    if (prune(s, SQL_PRUNE_AGE, ret) < 0 || count_over(s, &over) < 0)
        return -1;
    if (over <= most)
        return 0;
    return prune_past(s, over - most < PRUNE_MAX ? over - most : PRUNE_MAX, most, ret);
}

int jobs_each_live(struct jobs *s, void (*each)(struct job *j, void *arg), void *arg,
                   struct err *err)
{
    sqlite3_stmt *st;
    int code, r = 0;

    side_take(s->side);
    st = side_stmt(s->side, SQL_LIVE);
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        auto_job struct job j = {0};

        job_read_row(st, &j);
        each(&j, arg);
    }
    if (code != SQLITE_DONE)
        r = store_sql_error(s->side->db, "read the jobs", err);
    (void)sqlite3_reset(st);
    side_give(s->side);
    return r;
}

int jobs_each_sandbox(struct jobs *s, void (*each)(const char *sandbox, uint64_t n, void *arg),
                      void *arg, struct err *err)
{
    sqlite3_stmt *st;
    int code, r = 0;

    side_take(s->side);
    st = side_stmt(s->side, SQL_SANDBOXES);
    while ((code = sqlite3_step(st)) == SQLITE_ROW)
        each((const char *)sqlite3_column_text(st, 0), (uint64_t)sqlite3_column_int64(st, 1), arg);
    if (code != SQLITE_DONE)
        r = store_sql_error(s->side->db, "read the jobs", err);
    (void)sqlite3_reset(st);
    side_give(s->side);
    return r;
}
