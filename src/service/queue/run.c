#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/exec.h"
#include "engine/sandboxes.h"
#include "service/queue/queue_internal.h"

/* One job's command, from its start to how it ended. */

#define PIECES_A_STEP  64 /* then others have their turn */
#define FIND_TRIES     20
#define AGAIN_NS       (500 * 1000000ll)
#define PAUSED_NS      (1000 * 1000000ll)
#define AWAKE_NS       (3000 * 1000000ll) /* for one that has just gone on to say that it ended */
#define BACKOFF_MAX_MS (300 * 1000)

struct run *run_new(struct queue *q, struct lane *lane, struct job *job)
{
    struct run *r = xcalloc(1, sizeof(*r));

    r->lane = lane;
    r->job = *job;
    *job = (struct job){0};
    r->job.has_result = false; /* that was the try before */
    job_output_init(&r->output);
    lane->running++;
    q->n_runs++;
    atomic_fetch_add(&q->running, 1);
    return r;
}

void run_free(struct queue *q, struct run *r)
{
    engine_exec_close(r->exec);
    r->lane->running--;
    q->n_runs--;
    atomic_fetch_sub(&q->running, 1);
    job_done(&r->job);
    job_output_done(&r->output);
    free(r);
}

bool sandbox_is_gone(const struct err *err)
{
    return err->kind == ERR_NOT_FOUND && err->code && strncmp(err->code, "sandbox_", 8) == 0;
}

static bool has_code(const struct err *err, const char *code)
{
    return err->code && strcmp(err->code, code) == 0;
}

/* ---- how it ended ---- */

int64_t queue_backoff(int64_t first_ms, unsigned retries, double chance)
{
    double ms = (double)first_ms * pow(2, retries > 0 ? retries - 1 : 0);

    if (ms > BACKOFF_MAX_MS)
        ms = first_ms > BACKOFF_MAX_MS ? (double)first_ms : BACKOFF_MAX_MS;
    return (int64_t)(ms / 2 + ms / 2 * chance);
}

static double chance(void)
{
    uint32_t n = 0;

    (void)getrandom(&n, sizeof(n), GRND_NONBLOCK);
    return n / 4294967296.0;
}

static void over(struct run *r, enum job_state state)
{
    r->over = true;
    r->job.state = state;
    r->job.live = false;
    r->job.ended_ms = state >= JOB_COMPLETED ? now_ms() : 0;
    engine_exec_close(steal_ptr(r->exec));
}

/* No more tries. */
static void fail_for_good(struct run *r, const char *why)
{
    free(r->job.error);
    r->job.error = xstrdup(why);
    over(r, JOB_FAILED);
}

/* This try has failed; the last one makes the job fail. */
static void fail(struct run *r, const char *why)
{
    struct job *j = &r->job;
    int64_t wait;

    j->retries++;
    if (j->retries >= j->max_retries) {
        fail_for_good(r, why);
        return;
    }
    free(j->error);
    j->error = xstrdup(why);
    wait = queue_backoff(j->retry_ms, j->retries, chance());
    j->run_ms = now_ms() + wait;
    over(r, wait > 0 ? JOB_DELAYED : JOB_READY);
}

static void take_result(struct run *r, const struct exec_output *end)
{
    struct job *j = &r->job;

    job_output_trim(&r->output);
    j->has_result = true;
    j->exit_code = end->exit_code;
    (void)snprintf(j->reason, sizeof(j->reason), "%s", end->reason);
    j->duration_ms = end->duration_ms;
    j->truncated = r->output.base + r->lost + end->lost_stdout + end->lost_stderr > 0;
    j->base = (int64_t)r->output.base;
    j->output = r->output.bytes;
    j->runs = r->output.runs;
    r->output.bytes = r->output.runs = (struct buf){0};
}

static void take_exit(struct run *r, const struct exec_output *end)
{
    struct job *j = &r->job;
    char why[80];

    take_result(r, end);
    if (strcmp(end->reason, "timeout") == 0) {
        bool asked = j->timeout_ms && end->duration_ms >= (double)j->timeout_ms;

        (void)snprintf(why, sizeof(why), "Command timed out after %.0fms",
                       asked ? (double)j->timeout_ms : end->duration_ms);
        fail(r, why);
    } else if (end->exit_code != 0 && j->retry_exit) {
        (void)snprintf(why, sizeof(why), "Command exited with code %d", end->exit_code);
        fail(r, why);
    } else {
        free(steal_ptr(j->error));
        over(r, JOB_COMPLETED);
    }
}

/* ---- where its sandbox is ---- */

enum place place_of(struct queue *q, const char *sandbox)
{
    json_t *now;
    const char *status;
    enum place place = PLACE_STOPPED;

    if (engine_get(q->engine, sandbox, &now, NULL) < 0)
        return PLACE_GONE;
    status = json_string_value(json_object_get(now, "status"));
    if (status && strcmp(status, "running") == 0)
        place = PLACE_RUNS;
    else if (status && strcmp(status, "paused") == 0)
        place = PLACE_PAUSED;
    json_decref(now);
    return place;
}

static void lose(struct run *r)
{
    char why[80];

    r->lane->gone = true;
    (void)snprintf(why, sizeof(why), "Sandbox not found: %s", r->job.sandbox);
    fail_for_good(r, why);
}

/* ---- starting ---- */

/* The strings belong to the job and to *request. */
static struct exec_request request_of(const struct job *j, const json_t *request, char ***argv)
{
    const json_t *list = json_object_get(request, "argv");
    struct exec_request req = {
        .command = j->command,
        .cwd = json_string_value(json_object_get(request, "cwd")),
        .user = json_string_value(json_object_get(request, "user")),
        .env = json_object_get(request, "env"),
        .timeout_ms = (uint64_t)j->timeout_ms,
        .collect = true,
        .once = true,
        .no_waiting = true,
        .exec_id = j->exec_id,
    };

    for (size_t i = 0; i < json_array_size(list); i++)
        *argv = strv_add(*argv, json_string_value(json_array_get(list, i)));
    req.argv = *argv;
    return req;
}

static void watch(struct queue *q, struct run *r)
{
    struct exec_wait wait;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = r};

    engine_exec_wait(r->exec, &wait);
    r->until_ns = wait.until_ns;
    if (epoll_ctl(q->epoll_fd, EPOLL_CTL_ADD, wait.fd, &e) < 0)
        r->until_ns = mono_ns(); /* looked at all the time, and not lost */
}

/* Not a failure of the job: it waits until the sandbox takes commands again. */
static bool is_for_later(const struct err *err)
{
    return has_code(err, "sandbox_not_running") || has_code(err, "sandbox_busy") ||
           has_code(err, "sandbox_draining");
}

static void could_not_start(struct queue *q, struct run *r, const struct err *err)
{
    if (sandbox_is_gone(err)) {
        lose(r);
    } else if (is_for_later(err)) {
        r->back = r->over = true;
        lane_block(q, r->lane);
    } else {
        fail(r, err->text);
    }
}

void run_start(struct queue *q, struct run *r)
{
    auto_strv char **argv = NULL;
    json_t *request = r->job.request ? json_loads(r->job.request, 0, NULL) : NULL;
    struct exec_request req = request_of(&r->job, request, &argv);
    struct err err = {0};

    r->again = false;
    req.once = !r->plain;
    if (engine_exec_open(q->engine, r->job.sandbox, &req, &r->exec, &err) == 0)
        watch(q, r);
    else
        could_not_start(q, r, &err);
    json_decref(request);
}

/* ---- finding ---- */

static void find_later(struct run *r)
{
    engine_exec_close(steal_ptr(r->exec));
    r->until_ns = mono_ns() + AGAIN_NS;
}

/* It cannot be asked now. What a stopped sandbox ran has ended with it. */
static void could_not_find(struct queue *q, struct run *r, const struct err *err)
{
    enum place place = place_of(q, r->job.sandbox);

    if (place == PLACE_GONE)
        lose(r);
    else if (place == PLACE_STOPPED)
        fail(r, "the sandbox was stopped while the job ran");
    else if (place == PLACE_PAUSED || r->tries++ < FIND_TRIES)
        find_later(r);
    else
        fail(r, err->text);
}

void run_find(struct queue *q, struct run *r)
{
    struct err err = {0};

    r->again = true;
    r->until_ns = 0;
    job_output_skip(&r->output, 0);
    r->output.base = 0;
    if (engine_exec_again(q->engine, r->job.sandbox, r->job.exec_id, 0, EXEC_READS, &r->exec,
                          &err) == 0)
        watch(q, r);
    else
        could_not_find(q, r, &err);
}

/* ---- while it runs ---- */

/* Without the certainty of rule 3 in what is left of a call by a daemon that was killed. */
static void run_start_plain(struct queue *q, struct run *r)
{
    r->plain = true;
    run_start(q, r);
}

static void broke_off(struct queue *q, struct run *r, const struct err *err)
{
    bool found = r->again;

    engine_exec_close(steal_ptr(r->exec));
    if (found && has_code(err, "exec_not_found") && r->tries++ < FIND_TRIES)
        run_start(q, r); /* it had not come to that */
    else if (!found && !r->plain && err->kind == ERR_UNSUPPORTED)
        run_start_plain(q, r);
    else if (has_code(err, "exec_exists") && r->tries++ < FIND_TRIES)
        run_find(q, r);
    else if (found)
        could_not_find(q, r, err);
    else if (sandbox_is_gone(err))
        lose(r);
    else
        fail(r, err->text);
}

static void take(struct run *r, const struct exec_output *out)
{
    switch (out->what) {
    case EXEC_STARTED:
        break;
    case EXEC_STDOUT:
    case EXEC_STDERR:
        job_output_add(&r->output, out->what == EXEC_STDERR, out->data, out->len);
        break;
    case EXEC_LOST:
        r->lost += out->lost;
        job_output_skip(&r->output, out->lost);
        break;
    case EXEC_EXIT:
        take_exit(r, out);
        break;
    }
}

void run_step(struct queue *q, struct run *r)
{
    struct exec_output out;
    struct exec_wait wait;
    struct err err = {0};
    int n = 0, got = 0;

    while (r->exec && !r->over && n++ < PIECES_A_STEP &&
           (got = engine_exec_next(r->exec, &out, &err)) > 0)
        take(r, &out);
    if (got < 0) {
        broke_off(q, r, &err);
        return;
    }
    r->more = got > 0 && !r->over;
    if (r->exec) {
        engine_exec_wait(r->exec, &wait);
        r->until_ns = wait.until_ns;
    }
}

/* A paused sandbox says nothing, and that is no failure: a command whose time is over ends when it
 * goes on, and is not to run beside its next try. */
void run_look(struct queue *q, struct run *r)
{
    if (r->doomed) {
        r->over = run_end(q, r);
        r->until_ns = mono_ns() + AGAIN_NS;
    } else if (!r->exec) {
        run_find(q, r);
    } else if (place_of(q, r->job.sandbox) == PLACE_PAUSED) {
        r->was_paused = true;
        r->until_ns = mono_ns() + PAUSED_NS;
    } else if (r->was_paused) {
        r->was_paused = false;
        r->until_ns = mono_ns() + AWAKE_NS;
    } else {
        run_step(q, r);
    }
}

/* Closing one that we have started ends it; another daemon's has to be told. */
bool run_end(struct queue *q, struct run *r)
{
    bool ours = r->exec && !r->again;
    json_t *info = NULL;
    struct err err = {0};
    int ended;

    engine_exec_close(steal_ptr(r->exec));
    if (ours && !atomic_load(&q->stop))
        return true;
    ended = engine_exec_end(q->engine, r->job.sandbox, r->job.exec_id, &info, &err);
    json_decref(info);
    if (ended == 0 || err.kind == ERR_NOT_FOUND)
        return true;
    return place_of(q, r->job.sandbox) == PLACE_STOPPED;
}
