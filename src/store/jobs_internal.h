#pragma once

#include "base/err.h"
#include "store/jobs.h"
#include "store/side_internal.h"

/* What the files of jobs share: jobs.c has the table and what callers ask, jobs_run.c what the one
 * who runs them does, in transactions of its own. */

enum {
    SQL_LAST,
    SQL_ADD,
    SQL_GET,
    SQL_OUTPUT,
    SQL_CANCEL,
    SQL_REQUEUE,
    SQL_PURGE,
    SQL_PURGE_ONE,
    SQL_FIRST,
    SQL_CLAIM,
    SQL_UNCLAIM,
    SQL_END,
    SQL_QUIET,
    SQL_PUT_OUTPUT,
    SQL_NO_OUTPUT,
    SQL_MAKE_READY,
    SQL_NEXT_TIME,
    SQL_FAIL_WAITING,
    SQL_PRUNE_AGE,
    SQL_PRUNE_OWN,
    SQL_PRUNE_COUNT,
    SQL_OVER,
    SQL_LIVE,
    SQL_SANDBOXES,
    SQL_COUNT,
};

struct jobs {
    struct side *side;
    int64_t next; /* number of the next job; while the database is held */
    bool failed;  /* some of the transaction was */
    struct err why;
};

void job_read_row(sqlite3_stmt *st, struct job *j);
