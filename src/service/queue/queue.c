#include "service/queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/env.h"
#include "engine/exec.h"
#include "engine/sandboxes.h"
#include "service/events.h"
#include "service/queue/queue_internal.h"

/* What callers ask of the queue, on their own threads. */

#define CANCELS_MAX ((1u << 20) * sizeof(int64_t))

void queue_tell(struct queue *q, const char *topic, const char *sandbox, json_t *data)
{
    if (q->events)
        events_publish(q->events, topic, sandbox, data);
    else
        json_decref(data);
}

/* ---- its life ---- */

static void add_lane(const char *sandbox, uint64_t n, void *arg)
{
    struct queue *q = arg;
    struct lane *lane = lanes_get(&q->lanes, sandbox);

    lane->open = n;
    lane->maybe = true;
    q->lanes.open += n;
}

static int make_fds(struct queue *q, struct err *err)
{
    struct epoll_event e = {.events = EPOLLIN};

    q->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    q->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (q->wake_fd < 0 || q->epoll_fd < 0 ||
        epoll_ctl(q->epoll_fd, EPOLL_CTL_ADD, q->wake_fd, &e) < 0)
        return err_sys(err, errno, "make what the queue waits on");
    return 0;
}

int queue_open(const char *data_dir, const struct queue_config *config, struct engine *engine,
               struct events *events, struct queue **ret, struct err *err)
{
    struct queue *q = xcalloc(1, sizeof(*q));

    q->config = *config;
    q->engine = engine;
    q->events = events;
    q->wake_fd = q->epoll_fd = -1;
    pthread_mutex_init(&q->lock, NULL);
    buf_init(&q->cancels, CANCELS_MAX);
    if (make_fds(q, err) == 0 && jobs_open(data_dir, &q->jobs, err) == 0 &&
        jobs_each_sandbox(q->jobs, add_lane, q, err) == 0) {
        *ret = q;
        return 0;
    }
    queue_close(q);
    return -1;
}

int queue_start(struct queue *q, struct err *err)
{
    int r = pthread_create(&q->thread, NULL, queue_dispatch, q);

    if (r != 0)
        return err_sys(err, r, "start the queue's thread");
    q->started = true;
    return 0;
}

void queue_stop(struct queue *q)
{
    if (!q || !q->started)
        return;
    atomic_store(&q->stop, true);
    queue_wake(q);
    pthread_join(q->thread, NULL);
    q->started = false;
}

void queue_close(struct queue *q)
{
    if (!q)
        return;
    jobs_close(q->jobs);
    lanes_done(&q->lanes);
    buf_done(&q->cancels);
    close_fd(&q->wake_fd);
    close_fd(&q->epoll_fd);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

void queue_hear(struct queue *q, const char *topic, const char *sandbox)
{
    static const char *const news[] = {"sandbox.resumed", "sandbox.started", "sandbox.killed",
                                       "sandbox.expired"};
    struct lane *lane;
    bool heard = false;

    for (size_t i = 0; i < ARRAY_LEN(news) && !heard; i++)
        heard = strcmp(topic, news[i]) == 0;
    if (!heard)
        return;
    pthread_mutex_lock(&q->lock);
    lane = lanes_find(&q->lanes, sandbox);
    if (lane)
        lane->heard = true;
    pthread_mutex_unlock(&q->lock);
    if (lane)
        queue_wake(q);
}

/* ---- places ---- */

static int take_place(struct queue *q, const char *sandbox, struct err *err)
{
    struct lane *lane;
    int r = 0;

    pthread_mutex_lock(&q->lock);
    lane = lanes_find(&q->lanes, sandbox);
    if (lane && lane->open >= q->config.sandbox_max)
        r = err_code(err, ERR_LIMIT, "queue_full",
                     "%u jobs of this sandbox wait or run, which is the most "
                     "(CAY_QUEUE_SANDBOX_MAX); try again when some have ended",
                     q->config.sandbox_max);
    else if (q->lanes.open >= q->config.total_max)
        r = err_code(err, ERR_LIMIT, "queue_full",
                     "%u jobs wait or run, which is the most (CAY_QUEUE_MAX); try again when some "
                     "have ended",
                     q->config.total_max);
    if (r == 0) {
        lanes_get(&q->lanes, sandbox)->open++;
        q->lanes.open++;
    }
    pthread_mutex_unlock(&q->lock);
    return r;
}

static void give_place(struct queue *q, const char *sandbox)
{
    struct lane *lane;

    pthread_mutex_lock(&q->lock);
    lane = lanes_find(&q->lanes, sandbox);
    if (lane)
        lane->open--;
    q->lanes.open--;
    pthread_mutex_unlock(&q->lock);
}

/* There is a job more to look at. */
static void knock(struct queue *q, const char *sandbox, bool delayed)
{
    struct lane *lane;

    pthread_mutex_lock(&q->lock);
    lane = lanes_find(&q->lanes, sandbox);
    if (lane)
        lane->maybe = true;
    q->new_time |= delayed;
    pthread_mutex_unlock(&q->lock);
    queue_wake(q);
}

static int find_sandbox(struct queue *q, const char *sandbox, struct err *err)
{
    json_t *found;

    if (engine_has(q->engine, sandbox))
        return 0;
    if (engine_get(q->engine, sandbox, &found, err) < 0)
        return -1;
    json_decref(found);
    return 0;
}

/* ---- submitting ---- */

#define COMMAND_SHOWN 4096 /* bytes of a command that is arguments */

static char *joined(const json_t *argv)
{
    struct buf text = {0};

    buf_init(&text, COMMAND_SHOWN);
    for (size_t i = 0; i < json_array_size(argv); i++)
        if (buf_addf(&text, "%s%s", i ? " " : "", json_string_value(json_array_get(argv, i))) < 0)
            break;
    return buf_steal(&text);
}

/* What is not in a column of its own; NULL = there is none of it. */
static char *request_text(const struct queue_submission *s)
{
    json_t *o = json_object();
    char *text = NULL;

    if (json_is_array(s->command))
        (void)json_object_set(o, "argv", (json_t *)(uintptr_t)s->command);
    if (s->cwd)
        (void)json_object_set_new(o, "cwd", json_string(s->cwd));
    if (s->user)
        (void)json_object_set_new(o, "user", json_string(s->user));
    if (s->env)
        (void)json_object_set(o, "env", (json_t *)(uintptr_t)s->env);
    if (json_object_size(o) > 0)
        text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    return text;
}

static int check(const struct queue_submission *s, struct err *err)
{
    auto_strv char **argv = NULL;
    struct exec_request req = {
        .command = json_string_value(s->command), .cwd = s->cwd, .user = s->user, .env = s->env};

    for (size_t i = 0; i < json_array_size(s->command); i++)
        argv = strv_add(argv, json_string_value(json_array_get(s->command, i)));
    req.argv = argv;
    return engine_exec_check(&req, err);
}

static void fill(struct job *j, const char *sandbox, const struct queue_submission *s)
{
    int64_t now = now_ms();

    *j = (struct job){
        .state = s->run_ms > now ? JOB_DELAYED : JOB_READY,
        .command =
            json_is_array(s->command) ? joined(s->command) : xstrdup(json_string_value(s->command)),
        .request = request_text(s),
        .priority = s->priority,
        .timeout_ms = (int64_t)s->timeout_ms,
        .retry_ms = s->retry_ms,
        .retry_exit = s->retry_exit,
        .max_retries = s->max_retries,
        .run_ms = s->run_ms > now ? s->run_ms : 0,
        .created_ms = now,
    };
    (void)snprintf(j->sandbox, sizeof(j->sandbox), "%s", sandbox);
}

int queue_submit(struct queue *q, const char *sandbox, const struct queue_submission *s,
                 json_t **ret, struct err *err)
{
    auto_job struct job j = {0};

    if (check(s, err) < 0 || find_sandbox(q, sandbox, err) < 0 || take_place(q, sandbox, err) < 0)
        return -1;
    fill(&j, sandbox, s);
    if (jobs_add(q->jobs, &j, err) < 0) {
        give_place(q, sandbox);
        return -1;
    }
    /* From here on it is there, whatever becomes of the answer; told before it can start. */
    queue_tell(q, "queue.submitted", sandbox,
               json_pack("{s:s, s:s}", "jobId", j.id, "sandboxId", sandbox));
    knock(q, sandbox, j.state == JOB_DELAYED);
    if (jobs_sync(q->jobs, err) < 0)
        return -1;
    *ret = job_json(&j, false);
    return 0;
}

/* ---- looking ---- */

int queue_get(struct queue *q, const char *id, json_t **ret, struct err *err)
{
    auto_job struct job j = {0};

    if (jobs_get(q->jobs, id, true, &j, err) < 0)
        return -1;
    *ret = job_json(&j, true);
    return 0;
}

int queue_owner(struct queue *q, const char *id, char ret[ID_SIZE], struct err *err)
{
    auto_job struct job j = {0};

    if (jobs_get(q->jobs, id, false, &j, err) < 0)
        return -1;
    (void)snprintf(ret, ID_SIZE, "%s", j.sandbox);
    return 0;
}

static void add_to_list(const struct job *j, void *arg)
{
    (void)json_array_append_new(arg, job_json(j, false));
}

static void take_status(struct jobs_query *q, const char *status)
{
    for (int i = 0; status && i < JOB_STATES; i++)
        if (strcmp(job_word((enum job_state)i), status) == 0)
            q->states[q->n_states++] = (enum job_state)i;
}

int queue_list(struct queue *q, const struct queue_query *query, json_t **ret, struct err *err)
{
    struct jobs_query asked = {
        .sandbox = query->sandbox, .limit = query->limit, .offset = query->offset};
    json_t *jobs = json_array();
    uint64_t total;

    take_status(&asked, query->status);
    if (jobs_list(q->jobs, &asked, add_to_list, jobs, &total, err) < 0) {
        json_decref(jobs);
        return -1;
    }
    *ret = json_pack("{s:o, s:I}", "jobs", jobs, "total", (json_int_t)total);
    return 0;
}

/* ---- what it put out ---- */

/* Of one that runs, from its sandbox. */
static int running_logs(struct queue *q, const struct job *j, uint64_t cursor, json_t *o)
{
    static const char *const keys[] = {"stdout", "stderr", "cursor", "lost"};
    json_t *state;

    if (engine_exec_state(q->engine, j->sandbox, j->exec_id, cursor, &state, NULL) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        (void)json_object_set(o, keys[i], json_object_get(state, keys[i]));
    json_decref(state);
    return 0;
}

static void kept_logs(const struct job *j, uint64_t cursor, json_t *o)
{
    uint64_t base = (uint64_t)j->base, end = base + j->output.len;

    put_streams(o, j, cursor);
    (void)json_object_set_new(o, "cursor", json_integer((json_int_t)(cursor > end ? cursor : end)));
    (void)json_object_set_new(o, "lost",
                              json_integer((json_int_t)(cursor < base ? base - cursor : 0)));
}

int queue_logs(struct queue *q, const char *id, uint64_t cursor, json_t **ret, struct err *err)
{
    auto_job struct job j = {0};
    json_t *o;

    if (jobs_get(q->jobs, id, true, &j, err) < 0)
        return -1;
    o = json_pack("{s:s, s:s, s:b}", "jobId", j.id, "status", job_word(j.state), "done",
                  j.state >= JOB_COMPLETED);
    if (j.state != JOB_RUNNING || running_logs(q, &j, cursor, o) < 0)
        kept_logs(&j, cursor, o);
    *ret = o;
    return 0;
}

/* ---- ending and beginning again ---- */

/* The dispatcher ends its command, if it runs, and forgets old jobs in its place. */
static void tell_cancelled(struct queue *q, const struct job *j)
{
    pthread_mutex_lock(&q->lock);
    if (j->state == JOB_RUNNING)
        (void)buf_add(&q->cancels, &j->seq, sizeof(j->seq));
    q->new_over = true;
    pthread_mutex_unlock(&q->lock);
    queue_wake(q);
}

int queue_cancel(struct queue *q, const char *id, struct err *err)
{
    auto_job struct job j = {0};

    if (jobs_cancel(q->jobs, id, now_ms(), &j, err) < 0)
        return -1;
    give_place(q, j.sandbox);
    atomic_fetch_add(&q->cancelled, 1);
    queue_tell(q, "queue.cancelled", j.sandbox,
               json_pack("{s:s, s:s, s:b}", "jobId", j.id, "sandboxId", j.sandbox, "ran",
                         j.state == JOB_RUNNING));
    tell_cancelled(q, &j);
    return jobs_sync(q->jobs, err);
}

int queue_requeue(struct queue *q, const char *id, json_t **ret, struct err *err)
{
    auto_job struct job j = {0}, before = {0};

    if (jobs_get(q->jobs, id, false, &before, err) < 0 ||
        find_sandbox(q, before.sandbox, err) < 0 || take_place(q, before.sandbox, err) < 0)
        return -1;
    if (jobs_requeue(q->jobs, id, &j, err) < 0) {
        give_place(q, before.sandbox);
        return -1;
    }
    queue_tell(q, "queue.submitted", j.sandbox,
               json_pack("{s:s, s:s, s:b}", "jobId", j.id, "sandboxId", j.sandbox, "requeued", 1));
    knock(q, before.sandbox, false);
    if (jobs_sync(q->jobs, err) < 0)
        return -1;
    return queue_get(q, id, ret, err);
}

int queue_purge(struct queue *q, const char *id, const char *sandbox, uint64_t *ret,
                struct err *err)
{
    *ret = 1;
    if (id ? jobs_purge_one(q->jobs, id, err) : jobs_purge(q->jobs, sandbox, ret, err))
        return -1;
    return jobs_sync(q->jobs, err);
}

void queue_numbers(struct queue *q, struct queue_numbers *ret)
{
    pthread_mutex_lock(&q->lock);
    ret->open = q->lanes.open;
    pthread_mutex_unlock(&q->lock);
    ret->running = atomic_load(&q->running);
    ret->completed = atomic_load(&q->completed);
    ret->failed = atomic_load(&q->failed);
    ret->cancelled = atomic_load(&q->cancelled);
    ret->retried = atomic_load(&q->retried);
}
