#include <jansson.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/function.h"
#include "http/server.h"
#include "rest/rest.h"
#include "rest/serve.h"
#include "rest/sse.h"
#include "service/services.h"
#include "tap.h"

/* What the REST face does with tasks, by rows of the test's own on a real server. */

#define WORKERS 3

static struct services no_services;

static struct budget memory;
static struct rest_config config = {.prefix = "sandbox", .streams = &memory};
static struct rest *rest;
static struct http_server *server;
static char *folder, *socket_path;

/* ---- rows ---- */

static void free_task(struct task *task)
{
    free(task);
}

static int leave_task(struct call *call, const struct task_ops *ops, int64_t until_ns)
{
    call->task = xcalloc(1, sizeof(*call->task));
    *call->task = (struct task){.ops = ops, .fd = -1, .until_ns = until_ns};
    return 0;
}

static int always_more(struct task *task, struct call *call, struct err *err)
{
    (void)task;
    return sink_event(call, json_pack("{s:i}", "n", 1), err) < 0 ? -1 : TASK_AGAIN;
}

static int pour(struct call *call, struct err *err)
{
    static const struct task_ops ops = {.step = always_more, .free = free_task};

    (void)err;
    return leave_task(call, &ops, mono_ns());
}

static int answer_in_time(struct task *task, struct call *call, struct err *err)
{
    (void)err;
    if (mono_ns() < task->until_ns)
        return TASK_WAITS;
    call->out = json_pack("{s:b}", "late", 1);
    return TASK_DONE;
}

/* Longer than a worker waits for a command itself. */
static int answer_late(struct call *call, struct err *err)
{
    static const struct task_ops ops = {.step = answer_in_time, .free = free_task};

    (void)err;
    return leave_task(call, &ops, mono_ns() + 60 * 1000000);
}

static int answer_now(struct call *call, struct err *err)
{
    (void)err;
    call->out = json_pack("{s:b}", "now", 1);
    return 0;
}

static const struct function rows[] = {
    {"test::pour", "GET", "/pour", NULL, pour, NULL, SCOPE_READ, .flags = FUNCTION_WAITS,
     .answer = ANSWER_EVENTS},
    {"test::late", "GET", "/late", NULL, answer_late, NULL, SCOPE_READ, .flags = FUNCTION_WAITS},
    {"test::now", "GET", "/now", NULL, answer_now, NULL, SCOPE_READ},
};

/* Streams that were silent for a minute after an event: one of events with ids, one without. */
static void ping(struct http_req *req, bool ids)
{
    struct sse s = {.req = req};

    if (ids)
        CHECK_INT(sse_send_text(&s, "id: a\ndata: 1\n\n", 15), 0);
    else
        CHECK_INT(sse_send(&s, json_integer(1)), 0);
    s.sent_ns -= 60 * 1000000000ll;
    CHECK_INT(sse_ping(&s), 0);
    CHECK_INT(sse_send_text(&s, "end", 3), 0);
    sse_end(&s);
}

/* ---- the server ---- */

static void handle(struct http_req *req, void *arg)
{
    struct caller caller = {.face = "rest", .scopes = SCOPES_ALL};

    (void)arg;
    if (str_starts(http_req_path(req), "/ping"))
        ping(req, strcmp(http_req_path(req), "/ping/ids") == 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].route, http_req_path(req)) == 0)
            serve_call(rest, req, &rows[i], http_req_path(req), &caller, &(struct rate_state){0});
}

static void start(void)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    struct err err = {0};
    int fd;

    limits.workers_max = WORKERS;
    budget_init(&memory, 64 << 20);
    folder = xstrdup("/tmp/cay-test-serve-XXXXXX");
    CHECK(mkdtemp(folder));
    socket_path = xasprintf("%s/s", folder);
    rest = rest_new(&config, NULL, &no_services);
    server = http_server_new(&limits, handle, NULL);
    fd = unix_listen(socket_path, 16);
    CHECK(fd >= 0);
    if (http_server_listen(server, fd, false, &err) < 0 || http_server_start(server, &err) < 0)
        TAP_FAIL("%s", err.text);
}

static void finish(void)
{
    http_server_stop(server, 0);
    http_server_free(server);
    rest_free(rest);
    budget_done(&memory);
    (void)unlink(socket_path);
    (void)rmdir(folder);
    free(socket_path);
    free(folder);
}

static int ask(const char *path)
{
    auto_free char *text =
        xasprintf("GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", path);
    int fd = unix_connect(socket_path);

    CHECK(fd >= 0);
    CHECK_INT(write_all(fd, text, strlen(text)), 0);
    return fd;
}

/* Is that in the answer? */
static bool answers(const char *path, const char *part)
{
    auto_close int fd = ask(path);
    char text[1024] = "";
    size_t len = 0;
    ssize_t n;

    while (len < sizeof(text) - 1 && (n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)n;
    return strstr(text, part);
}

/* ---- tests ---- */

static void *read_on(void *fd)
{
    char data[64 << 10];

    while (read(*(int *)fd, data, sizeof(data)) > 0)
        ;
    return NULL;
}

TEST(streams_that_always_have_more_leave_workers_for_others)
{
    int fds[2 * WORKERS];
    pthread_t readers[ARRAY_LEN(fds)];

    start();
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = ask("/pour");
        CHECK_INT(pthread_create(&readers[i], NULL, read_on, &fds[i]), 0);
    }
    for (int i = 0; i < 20; i++)
        CHECK(answers("/now", "{\"now\":true}"));
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        (void)shutdown(fds[i], SHUT_RDWR);
        (void)pthread_join(readers[i], NULL);
        (void)close(fds[i]);
    }
    finish();
}

TEST(an_answer_that_is_waited_for_needs_no_memory_of_streams)
{
    start();
    CHECK(budget_take(&memory, 64 << 20));
    CHECK(answers("/late", "{\"late\":true}"));
    budget_give(&memory, 64 << 20);
    finish();
}

/* An id stays in force, so some clients make an event of any empty line behind one. */
TEST(a_ping_is_no_event)
{
    start();
    CHECK(answers("/ping/ids", "\r\n: ping\n\r\n"));
    CHECK(answers("/ping", "\r\n: ping\n\n\r\n"));
    finish();
}

TAP_MAIN
