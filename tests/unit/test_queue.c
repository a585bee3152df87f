#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "service/queue/queue_internal.h"
#include "store/jobs.h"
#include "store/jobs_internal.h"
#include "tap.h"
#include "tmpdir.h"

#define BOX   "sbx_aaaaaaaaaaaaaaaaaaaaaaaa"
#define OTHER "sbx_bbbbbbbbbbbbbbbbbbbbbbbb"

static struct jobs *jobs;
static char *dir;

static void up(void)
{
    struct err err = {0};

    dir = dir_new();
    if (jobs_open(dir, &jobs, &err) < 0)
        TAP_FAIL("%s", err.text);
}

static void reopen(void)
{
    struct err err = {0};

    jobs_close(jobs);
    if (jobs_open(dir, &jobs, &err) < 0)
        TAP_FAIL("%s", err.text);
}

static void down(void)
{
    jobs_close(jobs);
    dir_remove(&dir);
}

/* Its id. */
static const char *add(const char *sandbox, const char *command, int priority, int64_t run_ms)
{
    static char ids[64][ID_SIZE];
    static unsigned n;
    char *id = ids[n++ % ARRAY_LEN(ids)];
    auto_job struct job j = {.state = run_ms ? JOB_DELAYED : JOB_READY,
                             .command = xstrdup(command),
                             .priority = priority,
                             .run_ms = run_ms,
                             .retry_ms = 1000,
                             .max_retries = 3,
                             .created_ms = 1};

    (void)snprintf(j.sandbox, sizeof(j.sandbox), "%s", sandbox);
    CHECK_INT(jobs_add(jobs, &j, NULL), 0);
    CHECK(job_id_valid(j.id));
    (void)snprintf(id, ID_SIZE, "%s", j.id);
    return id;
}

static enum job_state state_of(const char *id)
{
    auto_job struct job j = {0};

    CHECK_INT(jobs_get(jobs, id, false, &j, NULL), 0);
    return j.state;
}

/* ---- claiming ---- */

static struct job claimed[64];
static size_t n_claimed;

static void on_claim(struct job *j, void *arg)
{
    (void)arg;
    claimed[n_claimed++] = *j;
    *j = (struct job){0};
}

static void forget_claimed(void)
{
    while (n_claimed > 0)
        job_done(&claimed[--n_claimed]);
}

/* The commands that were claimed, with spaces between them. */
static const char *claim(const char *sandbox, unsigned most)
{
    static char words[256];

    forget_claimed();
    words[0] = '\0';
    CHECK_INT(jobs_begin(jobs, NULL), 0);
    CHECK_INT(jobs_claim(jobs, sandbox, most, 5, on_claim, NULL), 0);
    CHECK_INT(jobs_commit(jobs, NULL), 0);
    for (size_t i = 0; i < n_claimed; i++)
        (void)snprintf(words + strlen(words), sizeof(words) - strlen(words), "%s%s", i ? " " : "",
                       claimed[i].command);
    return words;
}

TEST(jobs_start_by_priority_and_then_in_order)
{
    up();
    add(BOX, "a", 0, 0);
    add(BOX, "b", 5, 0);
    add(OTHER, "other", 9, 0);
    add(BOX, "c", 0, 0);
    add(BOX, "d", 5, 0);
    add(BOX, "later", 9, 1000);
    CHECK_STR(claim(BOX, 3), "b d a");
    CHECK(claimed[0].live && claimed[0].exec_id[0] && claimed[0].started_ms == 5);
    CHECK_STR(claim(BOX, 3), "c");
    CHECK_STR(claim(BOX, 3), "");
    forget_claimed();
    down();
}

TEST(as_many_as_may_run_are_claimed_at_once)
{
    up();
    for (int i = 0; i < 64; i++)
        add(BOX, "x", 0, 0);
    (void)claim(BOX, 64);
    CHECK_INT(n_claimed, 64);
    forget_claimed();
    down();
}

TEST(a_job_that_is_put_back_keeps_its_place)
{
    const char *first;

    up();
    first = add(BOX, "first", 0, 0);
    add(BOX, "second", 0, 0);
    CHECK_STR(claim(BOX, 1), "first");
    CHECK_INT(jobs_begin(jobs, NULL), 0);
    CHECK_INT(jobs_unclaim(jobs, claimed[0].seq), 0);
    CHECK_INT(jobs_commit(jobs, NULL), 0);
    CHECK_INT(state_of(first), JOB_READY);
    CHECK_STR(claim(BOX, 2), "first second");
    forget_claimed();
    down();
}

static void count_text(const char *text, void *arg)
{
    (void)text;
    ++*(unsigned *)arg;
}

TEST(delayed_jobs_become_ready_when_their_time_has_come)
{
    unsigned n = 0;
    int64_t next;

    up();
    add(BOX, "late", 0, 2000);
    add(BOX, "later", 0, 3000);
    CHECK_INT(jobs_begin(jobs, NULL), 0);
    CHECK_INT(jobs_make_ready(jobs, 2500, count_text, &n), 0);
    CHECK_INT(jobs_next_time(jobs, &next), 0);
    CHECK_INT(jobs_commit(jobs, NULL), 0);
    CHECK_INT(n, 1);
    CHECK_INT(next, 3000);
    CHECK_STR(claim(BOX, 5), "late");
    forget_claimed();
    down();
}

/* ---- ends ---- */

static bool end(struct job *j, enum job_state state, const char *output)
{
    bool counted = false;

    j->state = state;
    j->ended_ms = state >= JOB_COMPLETED ? 7 : 0;
    j->has_result = true;
    j->exit_code = 3;
    (void)snprintf(j->reason, sizeof(j->reason), "exit");
    buf_init(&j->output, 64);
    buf_init(&j->runs, 64);
    (void)buf_add_str(&j->output, output);
    (void)buf_add(&j->runs, &(uint32_t){(uint32_t)strlen(output)}, sizeof(uint32_t));
    CHECK_INT(jobs_begin(jobs, NULL), 0);
    CHECK_INT(jobs_put_end(jobs, j, &counted), 0);
    CHECK_INT(jobs_commit(jobs, NULL), 0);
    return counted;
}

TEST(what_has_ended_is_kept_with_its_output)
{
    auto_job struct job j = {0};
    const char *id;

    up();
    id = add(BOX, "x", 0, 0);
    (void)claim(BOX, 1);
    CHECK(end(&claimed[0], JOB_COMPLETED, "said"));
    reopen();
    CHECK_INT(jobs_get(jobs, id, true, &j, NULL), 0);
    CHECK(j.state == JOB_COMPLETED && !j.live && j.has_result && j.exit_code == 3);
    CHECK_STR(j.output.data, "said");
    forget_claimed();
    down();
}

/* SQLite takes the whole transaction back, and then would keep each statement by itself. */
TEST(nothing_of_a_transaction_stays_when_the_disk_is_full)
{
    auto_free char *much = xcalloc(1, 100000);
    bool counted;
    const char *ran, *waits;
    struct err err = {0};

    up();
    ran = add(BOX, "ran", 0, 0);
    (void)claim(BOX, 1);
    waits = add(BOX, "waits", 0, 0);
    claimed[0].state = JOB_COMPLETED;
    claimed[0].has_result = true;
    buf_init(&claimed[0].output, 100000);
    (void)buf_add(&claimed[0].output, much, 100000);
    CHECK_INT(sqlite3_exec(jobs->side->db, "PRAGMA max_page_count = 1", NULL, NULL, NULL), 0);
    CHECK_INT(jobs_begin(jobs, NULL), 0);
    CHECK_INT(jobs_put_end(jobs, &claimed[0], &counted), -1);
    CHECK_INT(jobs_claim(jobs, BOX, 1, 5, on_claim, NULL), -1);
    CHECK_INT(jobs_commit(jobs, &err), -1);
    CHECK(err.kind);
    CHECK_INT(n_claimed, 1);
    CHECK_INT(state_of(ran), JOB_RUNNING);
    CHECK_INT(state_of(waits), JOB_READY);
    forget_claimed();
    down();
}

TEST(a_cancel_wins_over_the_end_that_comes_after_it)
{
    auto_job struct job was = {0};
    const char *id;
    struct err err = {0};

    up();
    id = add(BOX, "x", 0, 0);
    (void)claim(BOX, 1);
    CHECK_INT(jobs_cancel(jobs, id, 6, &was, NULL), 0);
    CHECK_INT(was.state, JOB_RUNNING);
    CHECK(!end(&claimed[0], JOB_COMPLETED, ""));
    CHECK_INT(state_of(id), JOB_CANCELLED);
    job_done(&was);
    CHECK_INT(jobs_cancel(jobs, id, 6, &was, &err), -1);
    CHECK_STR(err.code, "job_not_pending");
    CHECK_STR(err.text, "Job is not pending: cancelled");
    forget_claimed();
    down();
}

TEST(dead_letters_are_put_back_and_purged)
{
    auto_job struct job was = {0};
    const char *a, *b;
    uint64_t n;

    up();
    a = add(BOX, "a", 0, 0);
    b = add(OTHER, "b", 0, 0);
    CHECK_INT(jobs_requeue(jobs, a, &was, NULL), -1);
    (void)claim(BOX, 1);
    CHECK(end(&claimed[0], JOB_FAILED, ""));
    (void)claim(OTHER, 1);
    CHECK(end(&claimed[0], JOB_FAILED, ""));
    CHECK_INT(jobs_requeue(jobs, a, &was, NULL), 0);
    CHECK_INT(state_of(a), JOB_READY);
    CHECK_INT(jobs_purge(jobs, BOX, &n, NULL), 0);
    CHECK_INT(n, 0);
    CHECK_INT(jobs_purge(jobs, NULL, &n, NULL), 0);
    CHECK_INT(n, 1);
    CHECK_INT(jobs_get(jobs, b, false, &was, NULL), -1);
    forget_claimed();
    down();
}

/* ---- after a crash ---- */

static void count_live(struct job *j, void *arg)
{
    CHECK(j->exec_id[0] && j->command);
    ++*(unsigned *)arg;
}

static void count_open(const char *sandbox, uint64_t n, void *arg)
{
    CHECK_STR(sandbox, BOX);
    *(uint64_t *)arg += n;
}

TEST(another_daemon_finds_what_runs_and_what_waits)
{
    auto_job struct job was = {0};
    unsigned live = 0;
    uint64_t open = 0;
    const char *cancelled;

    up();
    cancelled = add(BOX, "cancelled", 0, 0);
    add(BOX, "runs", 0, 0);
    add(BOX, "waits", 0, 0);
    add(BOX, "late", 0, 1000);
    (void)claim(BOX, 2);
    CHECK_INT(jobs_cancel(jobs, cancelled, 6, &was, NULL), 0);
    reopen();
    CHECK_INT(jobs_each_live(jobs, count_live, &live, NULL), 0);
    CHECK_INT(live, 2); /* one of them is to be ended */
    CHECK_INT(jobs_each_sandbox(jobs, count_open, &open, NULL), 0);
    CHECK_INT(open, 3);
    CHECK(strcmp(add(BOX, "new", 0, 0), cancelled) > 0); /* ids go on */
    forget_claimed();
    down();
}

TEST(what_is_over_goes_by_age_and_by_count)
{
    uint64_t n = 0;

    up();
    for (int i = 0; i < 6; i++) {
        add(BOX, "x", 0, 0);
        (void)claim(BOX, 1);
        CHECK(end(&claimed[0], JOB_COMPLETED, "y"));
    }
    add(BOX, "waits", 0, 0);
    CHECK_INT(jobs_begin(jobs, NULL), 0);
    CHECK_INT(jobs_prune(jobs, 0, 4, &n), 0);
    CHECK_INT(n, 2);
    CHECK_INT(jobs_prune(jobs, 8, 4, &n), 0);
    CHECK_INT(n, 4);
    CHECK_INT(jobs_commit(jobs, NULL), 0);
    CHECK_STR(claim(BOX, 9), "waits");
    forget_claimed();
    down();
}

TEST(what_waits_in_a_sandbox_that_is_gone_fails)
{
    unsigned n = 0;
    const char *a, *b;

    up();
    a = add(BOX, "a", 0, 0);
    b = add(OTHER, "b", 0, 0);
    add(BOX, "late", 0, 1000);
    CHECK_INT(jobs_begin(jobs, NULL), 0);
    CHECK_INT(jobs_fail_waiting(jobs, BOX, "gone", 9, count_text, &n), 0);
    CHECK_INT(jobs_commit(jobs, NULL), 0);
    CHECK_INT(n, 2);
    CHECK_INT(state_of(a), JOB_FAILED);
    CHECK_INT(state_of(b), JOB_READY);
    down();
}

TEST(what_one_sandbox_has_makes_nobody_else_forget)
{
    uint64_t gone = 0;
    unsigned n = 0;

    up();
    for (int i = 0; i < 2; i++)
        (void)add(OTHER, "old", 0, 0);
    for (int i = 0; i < 10; i++)
        (void)add(BOX, "new", 0, 0);
    CHECK_INT(jobs_begin(jobs, NULL), 0);
    CHECK_INT(jobs_fail_waiting(jobs, OTHER, "gone", 8, count_text, &n), 0);
    CHECK_INT(jobs_fail_waiting(jobs, BOX, "gone", 9, count_text, &n), 0);
    CHECK_INT(jobs_prune(jobs, 1, 6, &gone), 0);
    CHECK_INT(jobs_commit(jobs, NULL), 0);
    CHECK_INT(gone, 6);
    CHECK_INT(jobs_begin(jobs, NULL), 0);
    CHECK_INT(jobs_prune(jobs, 9, 6, &gone), 0);
    CHECK_INT(jobs_commit(jobs, NULL), 0);
    CHECK_INT(gone, 2); /* those of the other were there */
    down();
}

/* ---- waits ---- */

TEST(each_wait_is_twice_as_long_up_to_a_maximum)
{
    CHECK_INT(queue_backoff(1000, 1, 0), 500);
    CHECK_INT(queue_backoff(1000, 1, 0.5), 750);
    CHECK_INT(queue_backoff(1000, 2, 0), 1000);
    CHECK_INT(queue_backoff(1000, 5, 0), 8000);
    CHECK_INT(queue_backoff(1000, 60, 0), 150000);
    CHECK_INT(queue_backoff(3600000, 9, 0), 1800000);
    CHECK_INT(queue_backoff(0, 9, 0.9), 0);
}

/* ---- output ---- */

static void check_split(const struct job_output *o, uint64_t cursor, const char *out,
                        const char *errors)
{
    auto_buf struct buf a = {0}, b = {0};

    buf_init(&a, 1 << 20);
    buf_init(&b, 1 << 20);
    job_output_split(&o->bytes, &o->runs, o->base, cursor, &a, &b);
    CHECK_STR(a.data ? a.data : "", out);
    CHECK_STR(b.data ? b.data : "", errors);
}

TEST(both_streams_are_read_from_a_cursor_on)
{
    struct job_output o;

    job_output_init(&o);
    check_split(&o, 0, "", "");
    job_output_add(&o, true, "bad ", 4);
    job_output_add(&o, false, "good ", 5);
    job_output_add(&o, false, "more ", 5);
    job_output_add(&o, true, "worse", 5);
    check_split(&o, 0, "good more ", "bad worse");
    check_split(&o, 6, "od more ", "worse");
    check_split(&o, 16, "", "rse");
    check_split(&o, 99, "", "");
    job_output_skip(&o, 7);
    job_output_add(&o, true, "x", 1);
    CHECK_INT(o.base, 26);
    check_split(&o, 0, "", "x");
    job_output_done(&o);
}

TEST(of_much_output_the_end_is_kept)
{
    struct job_output o;
    uint64_t total = 0;

    job_output_init(&o);
    for (unsigned i = 0; i < 20000; i++) {
        char line[32];
        int n = snprintf(line, sizeof(line), "line %u\n", i);

        job_output_add(&o, i % 2, line, (size_t)n);
        total += (uint64_t)n;
    }
    job_output_trim(&o);
    CHECK_INT(o.base + o.bytes.len, total);
    CHECK(o.bytes.len <= OUTPUT_KEPT && o.runs.len <= OUTPUT_RUNS * sizeof(uint32_t));
    CHECK(strcmp(o.bytes.data + o.bytes.len - 11, "line 19999\n") == 0);
    check_split(&o, total - 11, "", "line 19999\n");
    job_output_done(&o);
}

TAP_MAIN
