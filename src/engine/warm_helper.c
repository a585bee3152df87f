#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/exec.h"
#include "engine/exec_internal.h"
#include "engine/pool.h"
#include "engine/sandbox_internal.h"
#include "engine/warm_internal.h"

/* A helper is an exec of a box that waits in the pool, which outlives the caller and has the number
 * of its sandbox: of sbx_X it is ex_X. It is started before anybody has the box, so nothing of
 * anybody's is in it. After a restart of the daemon nobody takes it any more. */

#define READY_NS (20 * 1000000000ll)

static void exec_of(const struct sandbox *sb, char ret[ID_SIZE])
{
    (void)snprintf(ret, ID_SIZE, "ex_%.24s", sb->box.id + strlen("sbx_"));
}

void engine_pool_helper(struct engine *e, char **(*argv)(const json_t *helper))
{
    e->warm->helper_argv = argv;
}

/* Until it has written something, on the thread that fills the pool. */
static int wait_ready(struct exec *x, struct err *err)
{
    int64_t until = mono_ns() + READY_NS;
    struct exec_output out;
    int r;

    while (mono_ns() < until) {
        struct exec_wait wait;
        struct pollfd p;

        while ((r = engine_exec_next(x, &out, err)) > 0 && mono_ns() < until) {
            if (out.what == EXEC_STDOUT)
                return 0;
            if (out.what == EXEC_EXIT)
                return err_set(err, ERR_UNAVAILABLE,
                               "the interpreter that shall wait in it ended with status %d",
                               out.exit_code);
        }
        if (r < 0)
            return -1;
        engine_exec_wait(x, &wait);
        p = (struct pollfd){.fd = wait.fd, .events = (short)wait.events};
        (void)poll(&p, 1, 100);
    }
    return err_set(err, ERR_UNAVAILABLE, "the interpreter that shall wait in it does not start");
}

/* As whoever takes it will, so that all that it takes in the box is there. */
static int look_at(struct engine *e, struct sandbox *sb, const char *exec_id, struct err *err)
{
    auto_close int fd = -1;
    auto_buf struct buf args = {0}, payload = {0};

    buf_init(&args, FRAME_MAX);
    exec_put_again(&args, exec_id, INT64_MAX, 0, 0);
    if (agent_call(e, sb, BOX_CTL, CALL_AGAIN, &args, &fd, err) < 0)
        return -1;
    return agent_expect(sb, fd, FRAME_OK, &payload, err);
}

int warm_helper_start(struct engine *e, struct sandbox *sb, const json_t *helper, struct err *err)
{
    auto_strv char **argv = e->warm->helper_argv ? e->warm->helper_argv(helper) : NULL;
    char exec_id[ID_SIZE];
    struct exec_request req = {
        .argv = argv, .want_stdin = true, .attached = true, .detach = true, .exec_id = exec_id};
    struct exec *x;
    int r;

    if (!argv)
        return 0;
    exec_of(sb, exec_id);
    if (exec_open_in(sb, &req, &x, err) < 0)
        return -1;
    r = wait_ready(x, err);
    engine_exec_close(x);
    if (r == 0)
        r = look_at(e, sb, exec_id, err);
    if (r == 0)
        atomic_store(&sb->helper, HELPER_FREE);
    return r;
}

bool engine_helper_take(struct engine *e, const char *id, char ret_exec[ID_SIZE])
{
    auto_sandbox struct sandbox *sb = NULL;
    enum helper was = HELPER_FREE;

    if (sandbox_get(e, id, &sb, NULL) < 0 ||
        !atomic_compare_exchange_strong(&sb->helper, &was, HELPER_TAKEN))
        return false;
    exec_of(sb, ret_exec);
    return true;
}

void engine_helper_give(struct engine *e, const char *id)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, NULL) == 0)
        atomic_store(&sb->helper, HELPER_FREE);
}
