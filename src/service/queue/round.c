#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/queue/queue_internal.h"

/* A round: in one transaction it writes how some commands ended, and takes jobs in their place,
 * which are then started. */

#define STUCK_NS (1000 * 1000000ll)

/* ---- lanes ---- */

struct wish {
    struct lane *lane;
    unsigned most, got;
};

/* A lane that was blocked is asked about first: writing that a job starts and does not is dear. */
static bool is_open(struct queue *q, struct lane *lane)
{
    enum place place;

    if (lane->blocked_ns == 0)
        return true;
    if (lane->blocked_ns > mono_ns())
        return false;
    place = place_of(q, lane->sandbox);
    if (place == PLACE_RUNS) {
        lane->blocked_ns = 0;
        return true;
    }
    lane->gone |= place == PLACE_GONE;
    lane_block(q, lane);
    return false;
}

static size_t list_lanes(struct queue *q, struct wish **ret)
{
    size_t n = 0, cap = 0;
    struct wish *list = NULL;

    pthread_mutex_lock(&q->lock);
    for (struct lane *lane = q->lanes.all; lane; lane = lane->all_next) {
        if (!lane->gone && (!lane->maybe || lane->running >= q->config.concurrency))
            continue;
        if (n == cap) {
            cap = cap ? 2 * cap : 16;
            list = xrealloc(list, cap * sizeof(*list));
        }
        list[n++] = (struct wish){.lane = lane};
    }
    pthread_mutex_unlock(&q->lock);
    *ret = list;
    return n;
}

/* Who gets how many of the places that are free. Where one stopped the next round begins. */
static size_t share(struct queue *q, struct wish *list, size_t n)
{
    unsigned left = q->config.running > q->n_runs ? q->config.running - q->n_runs : 0;
    size_t kept = 0, first = n > 0 ? q->turn % n : 0;

    for (size_t i = 0; i < n; i++) {
        struct wish *w = &list[(first + i) % n];
        unsigned room = q->config.concurrency - w->lane->running;

        if (w->lane->gone || left == 0 || w->lane->running >= q->config.concurrency ||
            !is_open(q, w->lane))
            continue;
        w->most = room < left ? room : left;
        left -= w->most;
        q->turn = left == 0 ? (unsigned)((first + i) % n) : q->turn;
    }
    for (size_t i = 0; i < n; i++)
        if (list[i].most > 0 || list[i].lane->gone)
            list[kept++] = list[i];
    return kept;
}

/* ---- the transaction ---- */

struct round {
    struct queue *q;
    struct wish *wishes, *wish;
    size_t n_wishes;
    struct run *claimed; /* linked; started once it is written */
    struct buf told;     /* struct told */
};

/* What is told when it is written. */
struct told {
    char id[ID_SIZE], sandbox[ID_SIZE];
};

static void on_claim(struct job *j, void *arg)
{
    struct round *round = arg;
    struct run *r = run_new(round->q, round->wish->lane, j);

    round->wish->got++;
    r->next = round->claimed;
    round->claimed = r;
}

static void on_ready(const char *sandbox, void *arg)
{
    struct queue *q = ((struct round *)arg)->q;
    struct lane *lane;

    pthread_mutex_lock(&q->lock);
    lane = lanes_find(&q->lanes, sandbox);
    if (lane)
        lane->maybe = true;
    pthread_mutex_unlock(&q->lock);
}

static void on_lost(const char *id, void *arg)
{
    struct round *round = arg;
    struct told t = {0};

    (void)snprintf(t.id, sizeof(t.id), "%s", id);
    (void)snprintf(t.sandbox, sizeof(t.sandbox), "%s", round->wish->lane->sandbox);
    (void)buf_add(&round->told, &t, sizeof(t));
}

static void write_ends(struct queue *q)
{
    for (struct run *r = q->runs; r; r = r->next) {
        bool counted = true;

        if (!r->over)
            continue;
        if (r->back)
            (void)jobs_unclaim(q->jobs, r->job.seq);
        else
            (void)jobs_put_end(q->jobs, &r->job, &counted);
        r->cancelled = !counted;
    }
}

static void write_lane(struct round *round)
{
    struct queue *q = round->q;
    struct lane *lane = round->wish->lane;
    char why[80];

    if (!lane->gone) {
        (void)jobs_claim(q->jobs, lane->sandbox, round->wish->most, now_ms(), on_claim, round);
        return;
    }
    (void)snprintf(why, sizeof(why), "Sandbox not found: %s", lane->sandbox);
    (void)jobs_fail_waiting(q->jobs, lane->sandbox, why, now_ms(), on_lost, round);
}

static int write_all(struct round *round, struct err *err)
{
    struct queue *q = round->q;

    if (jobs_begin(q->jobs, err) < 0)
        return -1;
    write_ends(q);
    if (q->look_at_times || (q->next_time_ms && q->next_time_ms <= now_ms())) {
        (void)jobs_make_ready(q->jobs, now_ms(), on_ready, round);
        (void)jobs_next_time(q->jobs, &q->next_time_ms);
    }
    for (size_t i = 0; i < round->n_wishes; i++) {
        round->wish = &round->wishes[i];
        write_lane(round);
    }
    return jobs_commit(q->jobs, err);
}

/* ---- afterwards ---- */

static json_t *data_of(const struct job *j)
{
    return json_pack("{s:s, s:s, s:I}", "jobId", j->id, "sandboxId", j->sandbox, "retries",
                     (json_int_t)j->retries);
}

static void tell_end(struct queue *q, const struct job *j)
{
    json_t *data = data_of(j);

    if (j->has_result)
        (void)json_object_set_new(data, "exitCode", json_integer(j->exit_code));
    if (j->error)
        (void)json_object_set_new(data, "error", json_string(j->error));
    if (j->state == JOB_COMPLETED) {
        atomic_fetch_add(&q->completed, 1);
        queue_tell(q, "queue.completed", j->sandbox, data);
    } else if (j->state == JOB_FAILED) {
        atomic_fetch_add(&q->failed, 1);
        queue_tell(q, "queue.failed", j->sandbox, data);
    } else {
        atomic_fetch_add(&q->retried, 1);
        (void)json_object_set_new(data, "runAt", json_integer(j->run_ms));
        queue_tell(q, "queue.retrying", j->sandbox, data);
    }
}

/* Its place is free, and if it is over it is no longer counted. Who cancelled it has done that. */
static void settle(struct queue *q, struct run *r)
{
    const struct job *j = &r->job;
    bool final = !r->back && !r->cancelled && j->state >= JOB_COMPLETED;

    if (!r->back && !r->cancelled)
        tell_end(q, j);
    q->look_at_times |= !r->back && j->state == JOB_DELAYED;
    q->ended_some |= final;
    pthread_mutex_lock(&q->lock);
    if (final) {
        r->lane->open--;
        q->lanes.open--;
    }
    r->lane->maybe = true;
    pthread_mutex_unlock(&q->lock);
    if (!r->back)
        r->lane->block_ns = 0;
    run_free(q, r);
}

static void settle_all(struct queue *q)
{
    for (struct run **at = &q->runs; *at;) {
        struct run *r = *at;

        if (!r->over) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        settle(q, r);
    }
}

static void settle_lost(struct round *round)
{
    struct queue *q = round->q;

    for (size_t at = 0; at < round->told.len; at += sizeof(struct told)) {
        struct told t;
        struct lane *lane;

        memcpy(&t, round->told.data + at, sizeof(t));
        queue_tell(q, "queue.failed", t.sandbox,
                   json_pack("{s:s, s:s, s:s}", "jobId", t.id, "sandboxId", t.sandbox, "error",
                             "Sandbox not found"));
        atomic_fetch_add(&q->failed, 1);
        pthread_mutex_lock(&q->lock);
        lane = lanes_find(&q->lanes, t.sandbox);
        if (lane) {
            lane->open--;
            q->lanes.open--;
        }
        pthread_mutex_unlock(&q->lock);
    }
    q->ended_some |= round->told.len > 0;
}

/* More may be ready in a lane that gave all it was asked for. */
static void settle_wishes(struct round *round, bool written)
{
    pthread_mutex_lock(&round->q->lock);
    for (size_t i = 0; i < round->n_wishes; i++) {
        struct wish *w = &round->wishes[i];

        if (!written || (!w->lane->gone && w->got == w->most))
            w->lane->maybe = true;
        if (written)
            w->lane->gone = false;
    }
    pthread_mutex_unlock(&round->q->lock);
}

static void start_claimed(struct round *round)
{
    while (round->claimed) {
        struct run *r = round->claimed;

        round->claimed = r->next;
        queue_add_run(round->q, r);
        queue_tell(round->q, "queue.started", r->job.sandbox, data_of(&r->job));
        run_start(round->q, r);
    }
}

static void drop_claimed(struct round *round)
{
    while (round->claimed) {
        struct run *r = round->claimed;

        round->claimed = r->next;
        run_free(round->q, r);
    }
}

/* ---- a round ---- */

static bool has_ended_runs(const struct queue *q)
{
    for (const struct run *r = q->runs; r; r = r->next)
        if (r->over)
            return true;
    return false;
}

/* Cleared before the database is looked at: who comes in between sets it again. */
static void clear_maybe(struct round *round)
{
    pthread_mutex_lock(&round->q->lock);
    for (size_t i = 0; i < round->n_wishes; i++)
        round->wishes[i].lane->maybe = false;
    pthread_mutex_unlock(&round->q->lock);
}

static void reverse(struct run **list)
{
    struct run *r = *list, *back = NULL;

    while (r) {
        struct run *next = r->next;

        r->next = back;
        back = r;
        r = next;
    }
    *list = back;
}

static bool has_work(const struct queue *q, const struct round *round)
{
    return round->n_wishes > 0 || has_ended_runs(q) || q->look_at_times ||
           (q->next_time_ms && q->next_time_ms <= now_ms());
}

void queue_round(struct queue *q)
{
    struct round round = {.q = q};
    struct err err = {0};
    size_t n;

    if (mono_ns() < q->stuck_ns)
        return;
    n = list_lanes(q, &round.wishes);
    round.n_wishes = share(q, round.wishes, n);
    buf_init(&round.told, (size_t)q->config.sandbox_max * 2 * sizeof(struct told) * (n + 1));
    if (has_work(q, &round)) {
        clear_maybe(&round);
        if (write_all(&round, &err) == 0) {
            q->look_at_times = false;
            settle_all(q);
            settle_lost(&round);
            settle_wishes(&round, true);
            reverse(&round.claimed);
            start_claimed(&round);
        } else {
            log_error("the queue cannot write to its database; it tries again", "error", err.text);
            q->stuck_ns = mono_ns() + STUCK_NS;
            q->look_at_times = true; /* what had become ready is delayed as before */
            settle_wishes(&round, false);
            drop_claimed(&round);
        }
    }
    buf_done(&round.told);
    free(round.wishes);
}
