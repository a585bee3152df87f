/* Boxes that do not answer: who waits for them, for how long, and how many at a time. */
#include "engine_world.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "engine/agent_client_internal.h"
#include "engine/agent_wait_internal.h"
#include "engine/background_internal.h"
#include "engine/files.h"
#include "engine/files_internal.h"
#include "engine/roster_internal.h"

static int hello(struct world *w, struct sandbox *sb, struct err *err)
{
    return agent_hello(w->engine, sb, err);
}

/* An agent that does not answer is looked at and given up at once. Set while no call is under way,
 * and only around calls whose answer cannot come: to a machine that is busy this is no time at all.
 */
static void lose_patience(struct world *w)
{
    w->engine->config.waits.look = 20;
    w->engine->config.waits.silent = 40;
    w->engine->config.waits.agent = 3600 * 1000; /* so that nothing else ends a call */
}

/* It is looked at soon, and has long to answer then. */
static void look_soon(struct world *w)
{
    w->engine->config.waits.look = 20;
}

static void check_refused(const struct err *err, const char *code)
{
    CHECK_INT(err->kind, ERR_UNAVAILABLE);
    CHECK_STR(err->code, code);
}

/* It was judged, and not merely waited for in vain. */
static void check_judged(const struct err *err)
{
    check_refused(err, "agent_timeout");
    CHECK(strstr(err->text, "the sandbox does not answer;") != NULL);
}

/* A world with one sandbox, whose id is freed with it. */
static struct sandbox *world_with_box(struct world *w)
{
    auto_free char *id = NULL;

    world_up(w);
    id = create(w, "{\"image\": \"host\"}");
    return roster_find(w->engine, id);
}

/* Someone who greets a sandbox on a thread of his own. */
struct caller {
    struct world *w;
    struct sandbox *sb;
    pthread_t thread;
    struct err err;
    int result;
    atomic_bool done;
};

static void *caller_main(void *arg)
{
    struct caller *c = arg;

    c->result = hello(c->w, c->sb, &c->err);
    atomic_store(&c->done, true);
    return NULL;
}

static void caller_start(struct caller *c, struct world *w, struct sandbox *sb)
{
    *c = (struct caller){.w = w, .sb = sb};
    CHECK_INT(pthread_create(&c->thread, NULL, caller_main, c), 0);
}

static void await_waiting(struct sandbox *sb, unsigned n)
{
    while (atomic_load(&sb->waits.threads) < n)
        (void)poll(NULL, 0, 1);
}

static void await_silent(struct sandbox *sb)
{
    while (!atomic_load(&sb->waits.silent))
        (void)poll(NULL, 0, 1);
}

TEST(connecting_now_does_not_wait_for_one_who_does_not_accept)
{
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/sock", dir);
    int server = unix_listen(path, 1), fds[8], n = 0, r;

    CHECK(server >= 0);
    while ((r = unix_connect_now(path)) >= 0) {
        CHECK_INT(fcntl(r, F_GETFL) & O_NONBLOCK, 0);
        CHECK(n < 8);
        fds[n++] = r;
    }
    CHECK_INT(r, -EAGAIN);
    CHECK(n > 0);
    while (n > 0)
        (void)close(fds[--n]);
    (void)close(server);
}

TEST(an_agent_is_asked_early_enough_to_answer_before_it_counts_as_silent)
{
    static const struct {
        uint32_t look, silent, look_is;
    } cases[] = {{0, 0, 1500}, {0, 500, 250}, {400, 500, 250}, {100, 500, 100}, {0, 1, 1}};

    struct world w;

    world_new(&w);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        world_close(&w, true);
        w.config.waits = (struct engine_waits){.look = cases[i].look, .silent = cases[i].silent};
        world_open(&w);
        CHECK_INT(w.engine->config.waits.look, cases[i].look_is);
    }
    world_done(&w);
}

TEST(an_agent_that_does_not_answer_is_judged_and_given_up)
{
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    struct engine_waits usual = w.engine->config.waits;
    struct err err = {0};

    CHECK_INT(usual.look, 1500);
    CHECK_INT(usual.silent, 3000);
    CHECK_INT(usual.agent, 30000);
    lose_patience(&w);
    atomic_store(&fake.silent, true);
    CHECK_INT(hello(&w, sb, &err), -1);
    check_judged(&err);
    CHECK(atomic_load(&sb->waits.silent));
    w.engine->config.waits = usual;
    atomic_store(&fake.silent, false);
    CHECK_INT(hello(&w, sb, &err), 0);
    CHECK(!atomic_load(&sb->waits.silent));
    sandbox_unref(sb);
    world_done(&w);
}

TEST(a_sandbox_that_is_paused_under_a_call_holds_its_caller_for_a_moment_only)
{
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    struct caller c;
    json_t *out;

    lose_patience(&w);
    atomic_store(&fake.silent, true);
    atomic_store(&fake.look, BOX_BUSY); /* until the pause it is merely slow */
    caller_start(&c, &w, sb);
    await_waiting(sb, 1);
    CHECK_INT(engine_pause(w.engine, sb->box.id, &out, NULL), 0);
    atomic_store(&fake.look, BOX_QUIET);
    json_decref(out);
    CHECK_INT(pthread_join(c.thread, NULL), 0);
    CHECK_INT(c.result, -1);
    CHECK_INT(c.err.kind, ERR_CONFLICT);
    CHECK_STR(c.err.code, "sandbox_not_running");
    sandbox_unref(sb);
    world_done(&w);
}

TEST(an_agent_that_is_merely_slow_is_waited_for)
{
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    struct caller c;

    lose_patience(&w);
    atomic_store(&fake.silent, true);
    atomic_store(&fake.look, BOX_BUSY);
    caller_start(&c, &w, sb);
    await_silent(sb); /* it was judged, and not given up */
    atomic_store(&fake.silent, false);
    CHECK_INT(pthread_join(c.thread, NULL), 0);
    CHECK_INT(c.result, 0);
    sandbox_unref(sb);
    world_done(&w);
}

TEST(a_stopped_agent_goes_on_and_its_callers_get_their_answer)
{
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    struct err err = {0};

    look_soon(&w);
    atomic_store(&fake.silent, true);
    atomic_store(&fake.look, BOX_WOKEN);
    CHECK_INT(hello(&w, sb, &err), 0);
    CHECK_INT(atomic_load(&fake.looks), 1);
    sandbox_unref(sb);
    world_done(&w);
}

TEST(a_silent_sandbox_holds_few_callers_and_the_others_many)
{
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    struct caller c[AGENT_SILENT_MAX];
    struct err err = {0};

    lose_patience(&w);
    atomic_store(&fake.silent, true);
    atomic_store(&fake.look, BOX_BUSY);
    atomic_store(&fake.hold_look, true);
    for (unsigned i = 0; i < AGENT_SILENT_MAX; i++)
        caller_start(&c[i], &w, sb);
    await_waiting(sb, AGENT_SILENT_MAX);
    CHECK_INT(agent_admit(sb, &err), 0); /* it may still answer in time */
    atomic_store(&fake.hold_look, false);
    await_silent(sb);
    CHECK_INT(hello(&w, sb, &err), -1);
    check_refused(&err, "sandbox_busy");
    atomic_store(&fake.silent, false);
    for (unsigned i = 0; i < AGENT_SILENT_MAX; i++) {
        CHECK_INT(pthread_join(c[i].thread, NULL), 0);
        CHECK_INT(c[i].result, 0);
    }
    CHECK_INT(hello(&w, sb, &err), 0);
    CHECK_INT(atomic_load(&sb->waits.threads), 0);
    sandbox_unref(sb);
    world_done(&w);
}

TEST(who_waits_for_the_rest_of_an_answer_is_counted_too)
{
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    struct caller c;

    atomic_store(&fake.lie, LIE_HALF);
    caller_start(&c, &w, sb);
    while (!atomic_load(&fake.half_read))
        (void)poll(NULL, 0, 1);
    while (atomic_load(&sb->waits.threads) == 0 && !atomic_load(&c.done))
        (void)poll(NULL, 0, 1);
    CHECK_INT(atomic_load(&sb->waits.threads), 1);
    atomic_store(&fake.lie, LIE_NOT);
    CHECK_INT(pthread_join(c.thread, NULL), 0);
    CHECK_INT(c.result, -1);
    check_refused(&c.err, "agent_lost");
    CHECK_INT(atomic_load(&sb->waits.threads), 0);
    sandbox_unref(sb);
    world_done(&w);
}

#define DRIPS (AGENT_EXTRA_ALL_MAX / 2 + 32)

/* A caller that waits for the rest of an answer, of which there is nothing until the test closes
 * the other end. */
struct drip {
    struct sandbox *sb;
    int fd, agent;
    pthread_t thread;
    struct err err;
    int result;
};

static atomic_uint drips_refused;

static void *drip_main(void *arg)
{
    struct drip *d = arg;

    d->result = agent_admit(d->sb, &d->err) < 0 ? -1 : agent_await(d->sb, d->fd, POLLIN, &d->err);
    if (d->result < 0)
        (void)atomic_fetch_add(&drips_refused, 1);
    return NULL;
}

static void drip_start(struct drip *d, struct sandbox *sb)
{
    int pair[2] = {-1, -1};

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    *d = (struct drip){.sb = sb, .fd = pair[0], .agent = pair[1]};
    CHECK_INT(pthread_create(&d->thread, NULL, drip_main, d), 0);
}

static struct sandbox *another_box(struct world *w)
{
    auto_free char *id = create(w, "{\"image\": \"host\"}");

    return roster_find(w->engine, id);
}

/* All callers of a sandbox come together. */
TEST(sandboxes_that_drip_hold_few_places_each)
{
    enum { BOXES = 2, WAITING = BOXES * AGENT_WAITS_MAX + AGENT_EXTRA_ALL_MAX };
    static struct drip drips[BOXES * DRIPS];
    struct world w;
    struct sandbox *boxes[BOXES] = {world_with_box(&w), another_box(&w)}, *other = another_box(&w);
    unsigned waiting = 0;
    struct err err = {0};

    w.engine->config.waits.look = w.engine->config.waits.silent = w.engine->config.waits.agent =
        3600 * 1000;
    atomic_store(&drips_refused, 0);
    for (unsigned i = 0; i < ARRAY_LEN(drips); i++)
        drip_start(&drips[i], boxes[i % BOXES]);
    while (waiting != WAITING || atomic_load(&drips_refused) != ARRAY_LEN(drips) - WAITING) {
        (void)poll(NULL, 0, 1);
        waiting = 0;
        for (unsigned i = 0; i < BOXES; i++)
            waiting += atomic_load(&boxes[i]->waits.threads) + atomic_load(&boxes[i]->waits.extra);
    }
    for (unsigned i = 0; i < BOXES; i++) {
        CHECK_INT(atomic_load(&boxes[i]->waits.threads), AGENT_WAITS_MAX);
        CHECK(atomic_load(&boxes[i]->waits.extra) <= AGENT_EXTRA_MAX);
        CHECK_INT(agent_admit(boxes[i], &err), -1);
        check_refused(&err, "sandbox_busy");
    }
    CHECK_INT(hello(&w, other, &err), 0);
    for (unsigned i = 0; i < ARRAY_LEN(drips); i++)
        (void)close(drips[i].agent);
    for (unsigned i = 0; i < ARRAY_LEN(drips); i++) {
        CHECK_INT(pthread_join(drips[i].thread, NULL), 0);
        if (drips[i].result < 0)
            check_refused(&drips[i].err, "sandbox_busy");
        (void)close(drips[i].fd);
    }
    for (unsigned i = 0; i < BOXES; i++) {
        CHECK_INT(atomic_load(&boxes[i]->waits.threads), 0);
        CHECK_INT(atomic_load(&boxes[i]->waits.extra), 0);
        CHECK_INT(hello(&w, boxes[i], &err), 0);
        sandbox_unref(boxes[i]);
    }
    sandbox_unref(other);
    world_done(&w);
}

TEST(an_extra_thread_waits_on_in_a_place_that_has_become_free_and_is_refused_without_one)
{
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    struct drip d;

    lose_patience(&w);
    atomic_store(&drips_refused, 0);
    atomic_store(&fake.look, BOX_BUSY); /* nobody is guilty */
    atomic_store(&fake.hold_look, true);
    atomic_store(&sb->waits.threads, AGENT_WAITS_MAX);
    drip_start(&d, sb);
    while (atomic_load(&fake.looks) == 0)
        (void)poll(NULL, 0, 1);
    CHECK_INT(atomic_load(&sb->waits.extra), 1);
    atomic_store(&sb->waits.threads, 0);
    atomic_store(&fake.hold_look, false);
    while (atomic_load(&sb->waits.threads) == 0 && atomic_load(&drips_refused) == 0)
        (void)poll(NULL, 0, 1);
    CHECK_INT(atomic_load(&sb->waits.threads), 1);
    CHECK_INT(atomic_load(&sb->waits.extra), 0);
    (void)close(d.agent);
    CHECK_INT(pthread_join(d.thread, NULL), 0);
    CHECK_INT(d.result, 0);
    CHECK_INT(atomic_load(&sb->waits.threads), 0);
    (void)close(d.fd);

    atomic_store(&sb->waits.threads, AGENT_WAITS_MAX);
    drip_start(&d, sb);
    CHECK_INT(pthread_join(d.thread, NULL), 0);
    CHECK_INT(d.result, -1);
    check_refused(&d.err, "sandbox_busy");
    CHECK_INT(atomic_load(&sb->waits.extra), 0);
    atomic_store(&sb->waits.threads, 0);
    (void)close(d.agent);
    (void)close(d.fd);
    sandbox_unref(sb);
    world_done(&w);
}

static void *judge_main(void *arg)
{
    struct caller *c = arg;

    c->result = agent_judge_try(c->w->engine, c->sb, &c->err);
    atomic_store(&c->done, true);
    return NULL;
}

TEST(a_task_that_judges_is_counted_as_a_thread_that_waits)
{
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    struct caller c = {.w = &w, .sb = sb};

    lose_patience(&w);
    atomic_store(&fake.silent, true);
    atomic_store(&fake.hold_look, true);
    CHECK_INT(pthread_create(&c.thread, NULL, judge_main, &c), 0);
    while (atomic_load(&sb->waits.threads) == 0 && !atomic_load(&c.done))
        (void)poll(NULL, 0, 1);
    CHECK_INT(atomic_load(&sb->waits.threads), 1);
    atomic_store(&fake.hold_look, false);
    CHECK_INT(pthread_join(c.thread, NULL), 0);
    CHECK_INT(c.result, -1);
    check_judged(&c.err);
    CHECK_INT(atomic_load(&sb->waits.threads), 0);
    atomic_store(&fake.silent, false);
    sandbox_unref(sb);
    world_done(&w);
}

TEST(threads_and_tasks_of_a_sandbox_are_bounded)
{
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    struct err err = {0};

    atomic_store(&sb->waits.threads, AGENT_WAITS_MAX - 1);
    CHECK_INT(agent_admit(sb, &err), 0);
    atomic_store(&sb->waits.threads, AGENT_WAITS_MAX);
    atomic_store(&sb->waits.extra, AGENT_EXTRA_MAX - 1);
    CHECK_INT(agent_admit(sb, &err), 0);
    atomic_store(&sb->waits.extra, AGENT_EXTRA_MAX);
    CHECK_INT(agent_admit(sb, &err), -1);
    check_refused(&err, "sandbox_busy");
    atomic_store(&sb->waits.extra, 0);
    atomic_store(&sb->waits.threads, 0);
    for (unsigned i = 0; i < AGENT_TASKS_MAX; i++)
        CHECK_INT(agent_task_begin(sb, &err), 0);
    CHECK_INT(agent_task_begin(sb, &err), -1);
    check_refused(&err, "sandbox_busy");
    agent_task_end(sb);
    CHECK_INT(agent_task_begin(sb, &err), 0);
    sandbox_unref(sb);
    world_done(&w);
}

/* As it is while a commit has frozen it. */
TEST(removing_a_sandbox_does_not_wait_for_an_agent_that_is_slow)
{
    auto_free char *id = NULL;
    struct world w;

    world_up(&w);
    id = create(&w, "{\"image\": \"host\", \"entrypoint\": [\"server\"]}");
    atomic_store(&fake.main_runs, true);
    lose_patience(&w); /* a call that waits for the agent waits for an hour */
    atomic_store(&fake.silent, true);
    atomic_store(&fake.look, BOX_BUSY);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    atomic_store(&fake.silent, false);
    world_done(&w);
}

/* More than a socket takes by default, to an agent that reads nothing. */
TEST(a_long_call_is_sent_without_waiting_for_its_reader)
{
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    auto_buf struct buf args = {0};
    struct err err = {0};
    int fd;

    atomic_store(&fake.unread, true);
    buf_init(&args, FRAME_MAX);
    while (buf_add(&args, "0123456789abcdef", 16) == 0)
        ;
    /* Its thread would fail rather than wait: nothing makes room. */
    CHECK_INT(agent_open(w.engine, sb, BOX_EXEC, CALL_EXEC, &args, &fd, &err), 0);
    (void)close(fd);
    sandbox_unref(sb);
    world_done(&w);
}

/* A file of more than a socket takes, to an agent that reads nothing. */
TEST(sending_to_a_silent_agent_is_given_up_too)
{
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    auto_free char *data = xcalloc(1, 4 << 20);
    struct err err = {0};

    lose_patience(&w);
    atomic_store(&fake.unread, true);
    CHECK_INT(file_write(w.engine, sb, "/workspace/x", data, 4 << 20, &err), -1);
    check_judged(&err);
    sandbox_unref(sb);
    world_done(&w);
}

/* The last frame of a log that is followed. */
static struct call_log read_end(struct sandbox *sb, int fd)
{
    auto_buf struct buf payload = {0};
    struct call_log log = {0};
    unsigned type = FRAME_DATA;
    struct wire wire;

    while (type == FRAME_DATA || type == FRAME_STDERR)
        CHECK_INT(agent_next(sb, fd, &type, &payload, NULL), 0);
    CHECK_INT(type, FRAME_END);
    wire_init(&wire, payload.data, payload.len);
    call_log_get(&wire, &log);
    CHECK(wire_ok(&wire));
    (void)close(fd);
    return log;
}

TEST(an_agent_that_cannot_follow_tells_how_a_log_is_now)
{
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    struct log_request req = {.id = "bg_1", .follow = true};
    struct err err = {0};
    bool timed;
    int fd;

    CHECK_INT(log_stream_start(w.engine, sb, &req, &fd, &timed, &err), 0);
    CHECK(timed);
    CHECK_INT(read_end(sb, fd).running, 0);
    atomic_store(&fake.old, true);
    CHECK_INT(log_stream_start(w.engine, sb, &req, &fd, &timed, &err), 0);
    CHECK(!timed);
    CHECK_INT(read_end(sb, fd).running, 1);
    sandbox_unref(sb);
    world_done(&w);
}

static void check_too_old(struct err *err)
{
    CHECK_INT(err->kind, ERR_UNSUPPORTED);
    CHECK_STR(err->code, "agent_too_old");
    *err = (struct err){0};
}

TEST(an_older_agent_is_said_to_know_neither_limits_nor_input)
{
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    struct rlimit_wish limit = {.resource = 4};
    struct exec_request limited = {.command = "x", .limits = &limit, .n_limits = 1};
    struct exec_request given = {.command = "x", .input = "in", .input_len = 2};
    struct err err = {0};
    json_t *out = NULL;

    atomic_store(&fake.old, true);
    CHECK_INT(exec_run_here(w.engine, sb->box.id, &limited, &out, &err), -1);
    check_too_old(&err);
    CHECK_INT(exec_run_here(w.engine, sb->box.id, &given, &out, &err), -1);
    check_too_old(&err);
    CHECK_INT(engine_exec_background(w.engine, sb->box.id, &given, &out, &err), -1);
    check_too_old(&err);
    sandbox_unref(sb);
    world_done(&w);
}

TEST(an_older_agent_is_said_to_change_files_in_no_exact_way)
{
    struct file_path path = {.path = "/a", .anywhere = true};
    struct file_marks marks = {.mode = 0644, .uid = FILE_OWNER_KEEP, .gid = FILE_OWNER_KEEP};
    struct world w;
    struct sandbox *sb = world_with_box(&w);
    struct err err = {0};
    uint32_t n;
    bool made;

    CHECK_INT(engine_file_make_dir(w.engine, sb->box.id, path, 0755, false, &made, &err), -1);
    check_too_old(&err);
    CHECK_INT(engine_file_remove(w.engine, sb->box.id, path, false, &err), -1);
    check_too_old(&err);
    CHECK_INT(engine_file_mark(w.engine, sb->box.id, path, &marks, &n, &err), -1);
    check_too_old(&err);
    CHECK_INT(engine_file_rename(w.engine, sb->box.id, path, path, false, &err), -1);
    check_too_old(&err);
    sandbox_unref(sb);
    world_done(&w);
}

TAP_MAIN
