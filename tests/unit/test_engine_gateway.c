/* The engine and a network gateway that does not answer. The gateway is this program itself, which
 * the engine starts under another name: it answers every request with its pid, and with whether
 * it was told everything. */
#include "engine_world.h"

#include <jansson.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/program.h"
#include "engine/gateway_internal.h"

/* ---- the gateway ---- */

#define CONNS_MAX  32
#define LIFETIME_S 120 /* so that it does not outlive a test that failed */

/* False: that was the last request. */
static bool gateway_answer(int conn, const char *build, const char *request)
{
    static bool settled;
    auto_free char *answer = NULL;

    settled = settled || strstr(request, "\"settled\"");
    answer = xasprintf("{\"build\": \"%s\", \"pid\": %d, \"boxes\": [], \"settled\": %s}", build,
                       (int)getpid(), settled ? "true" : "false");
    (void)send(conn, answer, strlen(answer), MSG_NOSIGNAL);
    return !strstr(request, "\"stop\"") && !strstr(request, "\"quit\"");
}

static int gateway_main(const char *setup_text)
{
    json_t *setup = json_loads(setup_text, 0, NULL);
    const char *build = json_string_value(json_object_get(setup, "build"));
    struct pollfd fds[CONNS_MAX] = {{.fd = PROGRAM_FD, .events = POLLIN}};
    nfds_t n = 1;

    (void)alarm(LIFETIME_S);
    (void)prctl(PR_SET_NAME, "cay-gateway");
    if (!build || listen(PROGRAM_FD, CONNS_MAX) < 0)
        return 1;
    for (;;) {
        (void)poll(fds, n, -1);
        for (nfds_t i = n; i-- > 1;) {
            char request[4096];
            ssize_t got = fds[i].revents ? recv(fds[i].fd, request, sizeof(request) - 1, 0) : 0;

            if (!fds[i].revents)
                continue;
            request[got > 0 ? got : 0] = '\0';
            if (got > 0 && !gateway_answer(fds[i].fd, build, request))
                return 0;
            if (got <= 0) {
                (void)close(fds[i].fd);
                fds[i] = fds[--n];
            }
        }
        if (fds[0].revents && n < CONNS_MAX)
            fds[n++] = (struct pollfd){.fd = accept(PROGRAM_FD, NULL, NULL), .events = POLLIN};
    }
}

/* ---- a world with it ---- */

struct rig {
    struct world w;
    char *program;
    size_t program_bytes;
};

static void rig_up(struct rig *r, uint32_t wait_ms)
{
    FILE *file = fopen("/proc/self/exe", "re");
    struct stat st;

    CHECK(file != NULL);
    CHECK_INT(fstat(fileno(file), &st), 0);
    r->program_bytes = (size_t)st.st_size;
    r->program = xmalloc(r->program_bytes);
    CHECK(fread(r->program, 1, r->program_bytes, file) == r->program_bytes);
    (void)fclose(file);
    world_new(&r->w);
    world_close(&r->w, true);
    r->w.config.run_dir = r->w.dir;
    r->w.config.gateway = r->program;
    r->w.config.gateway_bytes = r->program_bytes;
    r->w.config.waits.gateway = wait_ms;
    world_open(&r->w);
    world_start(&r->w);
}

static void rig_down(struct rig *r)
{
    world_done(&r->w);
    free(r->program);
}

/* The pid of the gateway, once the engine's thread has told it everything and waits for its events.
 * On a busy machine a gateway that runs may answer too late; then it is replaced as well. */
static pid_t await_gateway(struct rig *r)
{
    struct err err = {0};

    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1)) {
        json_t *answer = NULL;
        pid_t pid = 0;

        err = (struct err){0};
        if (gateway_call(r->w.engine, json_pack("{s:s}", "op", "names"), -1, &answer, &err) < 0)
            CHECK_STR(err.code, "gateway_down");
        if (json_is_true(json_object_get(answer, "settled")))
            pid = (pid_t)json_integer_value(json_object_get(answer, "pid"));
        json_decref(answer);
        if (pid)
            return pid;
    }
    TAP_FAIL("no gateway answers: %s", err.text);
}

static void check_ended(int process)
{
    struct pollfd p = {.fd = process, .events = POLLIN};
    bool ended = poll(&p, 1, 0) == 1;

    (void)pidfd_send_signal(process, SIGKILL, NULL, 0); /* nothing of a failed test stays */
    CHECK(ended);
}

TEST(an_answer_of_the_gateway_is_waited_for_5_s)
{
    struct rig r;

    rig_up(&r, 0);
    CHECK_INT(r.w.engine->config.waits.gateway, 5000);
    rig_down(&r);
}

TEST(a_gateway_that_hangs_is_ended_before_another_answers)
{
    struct rig r;
    pid_t first, second;

    rig_up(&r, 50);
    first = await_gateway(&r);
    for (int i = 0; i < 3; i++) {
        auto_close int process = pidfd_open(first, 0);

        CHECK(process >= 0);
        CHECK_INT(pidfd_send_signal(process, SIGSTOP, NULL, 0), 0);
        second = await_gateway(&r);
        CHECK(second != first);
        check_ended(process);
        first = second;
    }
    rig_down(&r);
}

/* The daemon that comes meets it: it did not start it, and has no connection to it. */
TEST(a_gateway_that_hung_before_the_daemon_came_is_ended_before_another_answers)
{
    struct rig r;
    auto_close int process = -1;
    pid_t first;

    rig_up(&r, 50);
    first = await_gateway(&r);
    process = pidfd_open(first, 0);
    CHECK(process >= 0);
    CHECK_INT(pidfd_send_signal(process, SIGSTOP, NULL, 0), 0);
    world_close(&r.w, false);
    world_open(&r.w);
    world_start(&r.w);
    CHECK(await_gateway(&r) != first);
    check_ended(process);
    rig_down(&r);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[0], "cay-gateway") == 0)
        return gateway_main(argv[1]);
    return tap_main(argc > 1 ? argv[1] : NULL);
}
