#include "functions/keys.h"

#include <openssl/evp.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "functions/function.h"
#include "service/keys.h"
#include "service/services.h"

#define WAIT_NS (60 * 1000000000ll) /* for the call that runs with the same key */

/* ---- what is asked for ---- */

static int check_key(const struct call *call, struct err *err)
{
    size_t n = 0;

    while (call->key[n] > 0x20 && call->key[n] < 0x7f)
        n++;
    if (call->key[n] || n == 0 || n > KEY_MAX)
        return err_code(err, ERR_INVALID, "bad_idempotency_key",
                        "Idempotency-Key must have 1 to %d visible characters of ASCII", KEY_MAX);
    if (!call->services || !call->services->keys)
        return err_set(err, ERR_UNSUPPORTED, "there are no keys of requests here");
    return 0;
}

static int add_piece(const char *data, size_t len, void *sha)
{
    return EVP_DigestUpdate(sha, data, len) == 1 ? 0 : -1;
}

/* The row and its input, however the members of that are ordered. */
static void put_body(const struct function *f, const struct call *call,
                     unsigned char ret[KEY_DIGEST])
{
    EVP_MD_CTX *sha = EVP_MD_CTX_new();

    if (!sha || EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1 ||
        add_piece(f->id, strlen(f->id) + 1, sha) < 0 ||
        json_dump_callback(call->in, add_piece, sha, JSON_COMPACT | JSON_SORT_KEYS) < 0 ||
        EVP_DigestFinal_ex(sha, ret, NULL) != 1)
        abort();
    EVP_MD_CTX_free(sha);
}

/* ---- waiting for the one that runs ---- */

struct wait_task {
    struct task task; /* first */
    struct key_wait *wait;
};

static int wait_step(struct task *task, struct call *call, struct err *err)
{
    struct wait_task *t = (struct wait_task *)task;
    int r = key_wait_result(t->wait, &call->out, err);

    if (r == 0)
        call->replayed = true;
    if (r <= 0)
        return r < 0 ? -1 : TASK_DONE;
    if (call->draining)
        return err_set(err, ERR_UNAVAILABLE, "cay is stopping; try again when it runs");
    if (mono_ns() < task->until_ns)
        return TASK_WAITS;
    (void)err_code(err, ERR_CONFLICT, "idempotency_in_progress",
                   "a request with this Idempotency-Key is not done yet; send it again");
    err->retry_s = 5;
    return -1;
}

static void wait_free(struct task *task)
{
    struct wait_task *t = (struct wait_task *)task;

    key_wait_free(t->wait);
    free(t);
}

static const struct task_ops wait_ops = {.step = wait_step, .free = wait_free};

static int wait_begin(struct call *call, struct key_wait *wait)
{
    struct wait_task *t = xcalloc(1, sizeof(*t));

    t->wait = wait;
    t->task = (struct task){.ops = &wait_ops,
                            .fd = key_wait_fd(wait),
                            .events = EPOLLIN,
                            .until_ns = mono_ns() + WAIT_NS};
    call->task = &t->task;
    return 0;
}

/* ---- running ---- */

static void end_well(struct call *call)
{
    struct key_hold *hold = steal_ptr(call->hold);

    keys_answer(hold, call->out, call->function->flags & FUNCTION_SECRET);
}

static void end_badly(struct call *call, const struct err *err)
{
    keys_fail(steal_ptr(call->hold), err);
}

/* A task of the row's, and the hold, which ends with it. */
struct run_task {
    struct task task; /* first */
    struct task *inner;
    struct call *call;
    struct err err; /* why it failed */
};

static void copy_wait(struct run_task *t)
{
    const struct task_ops *ops = t->task.ops;

    t->task = *t->inner;
    t->task.ops = ops;
}

static int run_step(struct task *task, struct call *call, struct err *err)
{
    struct run_task *t = (struct run_task *)task;
    int r = t->inner->ops->step(t->inner, call, &t->err);

    copy_wait(t);
    if (r == TASK_DONE)
        end_well(call);
    if (r < 0 && err)
        *err = t->err;
    return r;
}

static int run_input(struct task *task, const struct input *in, struct err *err)
{
    struct run_task *t = (struct run_task *)task;
    int r = t->inner->ops->input(t->inner, in, err);

    copy_wait(t);
    return r;
}

/* What it made and nobody gets is gone when the key is free again. */
static void run_free(struct task *task)
{
    struct run_task *t = (struct run_task *)task;

    t->inner->ops->free(t->inner);
    if (t->err.kind == ERR_NONE)
        (void)err_code(&t->err, ERR_CONFLICT, "cancelled", "the caller went away");
    if (t->call->hold)
        end_badly(t->call, &t->err);
    free(t);
}

static const struct task_ops run_ops = {.step = run_step, .input = run_input, .free = run_free};

static void hold_task(struct call *call)
{
    struct run_task *t = xcalloc(1, sizeof(*t));

    t->inner = call->task;
    t->call = call;
    t->task.ops = &run_ops;
    copy_wait(t);
    call->task = &t->task;
}

static int run_held(const struct function *f, struct call *call, struct err *err)
{
    struct err why = {0};

    if (f->run(call, &why) < 0) {
        end_badly(call, &why);
        *err = why;
        return -1;
    }
    if (call->task)
        hold_task(call);
    else
        end_well(call);
    return 0;
}

int keyed_run(const struct function *f, struct call *call, struct err *err)
{
    struct key_ask ask = {
        .caller = call->caller->name, .key = call->key, .tells = f->flags & FUNCTION_TELLS};
    struct key_wait *wait = NULL;

    if (!call->key || !(f->flags & FUNCTION_MAKES))
        return f->run(call, err);
    if (check_key(call, err) < 0)
        return -1;
    put_body(f, call, ask.body);
    switch (keys_take(call->services->keys, &ask, &call->hold, &call->out, &wait, err)) {
    case KEY_RUN:
        return run_held(f, call, err);
    case KEY_REPLAY:
        call->replayed = true;
        return 0;
    case KEY_WAIT:
        return wait_begin(call, wait);
    default:
        return -1;
    }
}

int call_makes(struct call *call, const char *id, struct err *err)
{
    return call->hold ? keys_makes(call->hold, id, err) : 0;
}
