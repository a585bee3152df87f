#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/sandboxes.h"
#include "service/queue/queue_internal.h"

/* The thread that runs jobs: it reads what has come of commands, goes a round (round.c), and waits
 * for more. */

#define EVENTS       64
#define TICK_NS      (1000 * 1000000ll)
#define BLOCK_NS     (50 * 1000000ll)
#define BLOCK_MAX_NS (1000 * 1000000ll)
#define DAY_MS       (86400ll * 1000)

void queue_wake(struct queue *q)
{
    uint64_t one = 1;

    (void)!write(q->wake_fd, &one, sizeof(one));
}

/* Who asks again and again does so less and less often. */
void lane_block(struct queue *q, struct lane *lane)
{
    (void)q;
    if (lane->block_ns == 0)
        lane->block_ns = BLOCK_NS;
    else if (lane->blocked_ns <= mono_ns() && lane->block_ns < BLOCK_MAX_NS)
        lane->block_ns *= 2;
    lane->blocked_ns = mono_ns() + lane->block_ns;
}

/* ---- what has come ---- */

void queue_add_run(struct queue *q, struct run *r)
{
    r->next = q->runs;
    q->runs = r;
}

static struct run *find_run(struct queue *q, int64_t seq)
{
    for (struct run *r = q->runs; r; r = r->next)
        if (r->job.seq == seq)
            return r;
    return NULL;
}

static void doom(struct queue *q, int64_t seq)
{
    struct run *r = find_run(q, seq);

    if (!r || r->over)
        return;
    r->doomed = true;
    r->until_ns = mono_ns();
}

/* What callers and the engine have left for us. */
static void take_messages(struct queue *q)
{
    auto_buf struct buf list = {0};
    int64_t seq;

    pthread_mutex_lock(&q->lock);
    for (struct lane *lane = q->lanes.all; lane; lane = lane->all_next) {
        if (!lane->heard)
            continue;
        lane->heard = false;
        lane->blocked_ns = lane->blocked_ns ? 1 : 0; /* asked about at once */
        q->tick_ns = 0;
    }
    list = q->cancels;
    buf_init(&q->cancels, list.max);
    q->look_at_times |= q->new_time;
    q->new_time = false;
    q->ended_some |= q->new_over;
    q->new_over = false;
    pthread_mutex_unlock(&q->lock);
    for (size_t at = 0; at < list.len; at += sizeof(seq)) {
        memcpy(&seq, list.data + at, sizeof(seq));
        doom(q, seq);
    }
}

static void read_wake(struct queue *q)
{
    uint64_t n;

    (void)!read(q->wake_fd, &n, sizeof(n));
}

static void look_at_runs(struct queue *q)
{
    int64_t now = mono_ns();

    for (struct run *r = q->runs; r; r = r->next) {
        if (r->over)
            continue;
        if (r->more && !r->doomed)
            run_step(q, r);
        else if (r->until_ns && r->until_ns <= now)
            run_look(q, r);
    }
}

/* ---- now and then ---- */

/* The lanes that have jobs; only this thread takes lanes away. */
static size_t list_busy(struct queue *q, struct lane ***ret)
{
    struct lane **list;
    size_t n = 0;

    pthread_mutex_lock(&q->lock);
    lanes_sweep(&q->lanes);
    for (struct lane *lane = q->lanes.all; lane; lane = lane->all_next)
        n++;
    list = xcalloc(n + 1, sizeof(struct lane *));
    n = 0;
    for (struct lane *lane = q->lanes.all; lane; lane = lane->all_next)
        if (lane->open > 0)
            list[n++] = lane;
    pthread_mutex_unlock(&q->lock);
    *ret = list;
    return n;
}

static void find_gone(struct queue *q)
{
    struct lane **list;
    size_t n = list_busy(q, &list);

    for (size_t i = 0; i < n; i++)
        if (!engine_has(q->engine, list[i]->sandbox))
            list[i]->gone = true;
    free((void *)list);
}

/* What has ended outlives a power cut from here on. */
static void prune(struct queue *q)
{
    int64_t before = now_ms() - (int64_t)q->config.keep_days * DAY_MS;
    struct err err = {0};
    uint64_t n = 0;

    if (jobs_begin(q->jobs, &err) == 0) {
        (void)jobs_prune(q->jobs, before, q->config.keep, &n);
        (void)jobs_commit(q->jobs, &err);
    }
    (void)jobs_sync(q->jobs, &err);
    q->ended_some = n > 0; /* there may be more */
    if (err.kind)
        log_error("the queue cannot forget old jobs", "error", err.text);
}

static void tick(struct queue *q)
{
    if (mono_ns() < q->tick_ns)
        return;
    q->tick_ns = mono_ns() + TICK_NS;
    find_gone(q);
    if (q->ended_some)
        prune(q);
}

/* ---- waiting ---- */

static void sooner(int64_t *at, int64_t then)
{
    if (then && (*at == 0 || then < *at))
        *at = then;
}

/* The time of the next delayed job, which may be of the far future: it is looked at again before.
 */
static int64_t delayed_ns(const struct queue *q, int64_t now)
{
    int64_t left = q->next_time_ms - now_ms();

    return now + (left < DAY_MS ? left + 1 : DAY_MS) * 1000000;
}

/* mono_ns; 0 = nothing is to be done until something comes. */
static int64_t next_ns(struct queue *q)
{
    int64_t at = 0, now = mono_ns();

    for (const struct run *r = q->runs; r; r = r->next)
        sooner(&at, r->over || r->more ? now : r->until_ns);
    if (q->next_time_ms)
        sooner(&at, delayed_ns(q, now));
    if (q->look_at_times)
        sooner(&at, now);
    pthread_mutex_lock(&q->lock);
    for (const struct lane *lane = q->lanes.all; lane; lane = lane->all_next) {
        if (lane->gone ||
            (lane->maybe && lane->running < q->config.concurrency && q->n_runs < q->config.running))
            sooner(&at, lane->blocked_ns ? lane->blocked_ns : now);
        sooner(&at, q->tick_ns);
    }
    pthread_mutex_unlock(&q->lock);
    if (q->ended_some)
        sooner(&at, q->tick_ns);
    if (at && q->stuck_ns > at)
        at = q->stuck_ns;
    return at;
}

static int wait_ms(struct queue *q)
{
    int64_t at = next_ns(q), left = at - mono_ns();

    if (at == 0)
        return -1;
    if (left <= 0)
        return 0;
    return left > 60000 * 1000000ll ? 60000 : (int)((left + 999999) / 1000000);
}

static void wait_and_read(struct queue *q)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(q->epoll_fd, events, EVENTS, wait_ms(q));

    for (int i = 0; i < n; i++) {
        struct run *r = events[i].data.ptr;

        if (!r)
            read_wake(q);
        else if (!r->over && r->exec && !r->doomed)
            run_step(q, r);
    }
}

static void on_live(struct job *j, void *arg)
{
    struct queue *q = arg;
    struct run *r;

    pthread_mutex_lock(&q->lock);
    r = run_new(q, lanes_get(&q->lanes, j->sandbox), j);
    pthread_mutex_unlock(&q->lock);
    r->doomed = r->job.state == JOB_CANCELLED;
    r->again = true;
    r->until_ns = mono_ns();
    queue_add_run(q, r);
}

void *queue_dispatch(void *arg)
{
    struct queue *q = arg;
    struct err err = {0};

    if (jobs_each_live(q->jobs, on_live, q, &err) < 0)
        log_error("the queue cannot read which jobs run", "error", err.text);
    q->look_at_times = true;
    q->ended_some = true; /* what became old while nobody was there */
    while (!atomic_load(&q->stop)) {
        take_messages(q);
        look_at_runs(q);
        tick(q);
        queue_round(q);
        wait_and_read(q);
    }
    while (q->runs) {
        struct run *r = q->runs;

        q->runs = r->next;
        run_free(q, r);
    }
    return NULL;
}
