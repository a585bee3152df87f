/* floor: measures the kernel work behind each row of the bench, in this process.
 *
 *   floor rows N            N parked boxes: create, exec, write, read, pause, resume, kill, run
 *   floor cold N            N boxes made with nothing parked
 *   floor warm N            N boxes that are up: limits, a message, a row
 *   floor parallel N        N times three parked boxes, started at once by three processes
 *   floor burst N           N boxes, nothing parked, by eight processes: until the last serves
 *   floor lives C S         whole lives a second (make, exec, kill, remove), by C processes
 *   floor fill N            N boxes, nothing parked, that stay until the end of standard input
 *   floor throughput C S    execs a second, C outstanding, for S seconds
 *
 * A scratch directory is made below $CAY_BENCH_DIR (default: /var/tmp) and removed at the end. */

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "floor.h"
#include "floor_load.h"
#include "samples.h"

#define BOXES_MAX   8
#define CLIENTS_MAX 32

static const char command[] = "echo hello";

volatile sig_atomic_t floor_stopping;
const char *floor_dir;

static void on_signal(int sig)
{
    (void)sig;
    floor_stopping = 1;
}

static int send_request(int sock, enum floor_op op, const void *data, size_t len, struct err *err)
{
    struct {
        struct floor_head head;
        char data[FLOOR_DATA_MAX];
    } req = {.head = {.op = op, .len = (uint32_t)len}};
    int r;

    memcpy(req.data, data, len);
    r = write_all(sock, &req, sizeof(req.head) + len);
    return r < 0 ? err_sys(err, -r, "ask the agent") : 0;
}

static int read_answer(int sock, char *data, size_t want, struct err *err)
{
    struct floor_head head;
    int r = read_exact(sock, &head, sizeof(head));

    if (r == 0 && head.op != 0)
        return err_sys(err, (int)head.op, "the agent refused");
    if (r == 0 && head.len != want)
        return err_set(err, ERR_INTERNAL, "the agent sent %u bytes instead of %zu", head.len, want);
    if (r == 0)
        r = read_exact(sock, data, head.len);
    return r < 0 ? err_sys(err, -r, "read the agent's answer") : 0;
}

static int ask(int sock, enum floor_op op, const void *data, size_t len, size_t want,
               struct err *err)
{
    static char answer[FLOOR_DATA_MAX];

    return send_request(sock, op, data, len, err) < 0 ? -1 : read_answer(sock, answer, want, err);
}

int floor_hello(int sock, struct err *err)
{
    return ask(sock, FLOOR_HELLO, "", 0, 0, err);
}

int floor_echo(int sock, struct err *err)
{
    return ask(sock, FLOOR_EXEC, command, strlen(command), strlen("hello\n"), err);
}

/* The calls that go to the agent. *ret_us is the time of the first exec. */
static int measure_agent(int execs, int files, double *ret_us, struct err *err)
{
    char kilobyte[FILE_SIZE];
    int64_t t;

    memset(kilobyte, 'x', sizeof(kilobyte));
    for (int i = 0; i < EXECS_PER_SANDBOX; i++) {
        double us;

        t = mono_ns();
        if (floor_echo(execs, err) < 0)
            return -1;
        us = samples_since(&rows[EXEC], t);
        if (i == 0)
            *ret_us = us;
    }
    t = mono_ns();
    if (ask(files, FLOOR_WRITE, kilobyte, sizeof(kilobyte), 0, err) < 0)
        return -1;
    (void)samples_since(&rows[WRITE], t);
    t = mono_ns();
    if (ask(files, FLOOR_READ, "", 0, sizeof(kilobyte), err) < 0)
        return -1;
    (void)samples_since(&rows[READ], t);
    return 0;
}

static int measure_box(struct box *box, struct err *err)
{
    auto_close int execs = -1, files = -1;
    double run, exec = 0;
    int64_t t = mono_ns();

    if (box_start(box, err) < 0)
        return -1;
    run = samples_since(&rows[CREATE], t);
    /* Kept open: freezing would have to wait for a process that is just ending. */
    execs = box_connect(box, FLOOR_EXEC, err);
    files = execs < 0 ? -1 : box_connect(box, FLOOR_READ, err);
    if (files < 0 || measure_agent(execs, files, &exec, err) < 0)
        return -1;
    t = mono_ns();
    if (box_freeze(box, true, err) < 0)
        return -1;
    (void)samples_since(&rows[PAUSE], t);
    t = mono_ns();
    if (box_freeze(box, false, err) < 0)
        return -1;
    (void)samples_since(&rows[RESUME], t);
    t = mono_ns();
    if (box_kill(box, err) < 0)
        return -1;
    run += samples_since(&rows[KILL], t);
    samples_add(&rows[RUN], run + exec);
    return 0;
}

static int measure_rows(uint64_t n, struct err *err)
{
    for (uint64_t i = 0; i < n && !floor_stopping; i++) {
        struct box *box = box_park(err);
        int r;

        rest();
        r = box ? measure_box(box, err) : -1;
        box_free(box);
        if (r < 0)
            return -1;
    }
    rows_print();
    return 0;
}

static int measure_cold(uint64_t n, struct err *err)
{
    struct samples row = {"cold", "us"};
    int r = 0;

    for (uint64_t i = 0; i < n && r == 0 && !floor_stopping; i++) {
        struct box *box;
        int64_t t;

        rest();
        t = mono_ns();
        box = box_park(err);
        r = box ? box_start(box, err) : -1;
        if (r == 0)
            (void)samples_since(&row, t);
        box_free(box);
    }
    samples_print(&row);
    return r;
}

/* Keeps one request outstanding on each connection. */
static int pump(const int *socks, unsigned clients, uint64_t seconds, uint64_t *ret_count,
                struct err *err)
{
    struct pollfd p[CLIENTS_MAX];
    const int64_t end = mono_ns() + (int64_t)seconds * 1000000000;

    for (unsigned i = 0; i < clients; i++) {
        p[i] = (struct pollfd){.fd = socks[i], .events = POLLIN};
        if (send_request(socks[i], FLOOR_EXEC, command, strlen(command), err) < 0)
            return -1;
    }
    for (*ret_count = 0; mono_ns() < end && !floor_stopping;) {
        if (poll(p, clients, 1000) <= 0)
            continue;
        for (unsigned i = 0; i < clients; i++) {
            char answer[FLOOR_DATA_MAX];

            if (!p[i].revents)
                continue;
            if (read_answer(p[i].fd, answer, strlen("hello\n"), err) < 0 ||
                send_request(p[i].fd, FLOOR_EXEC, command, strlen(command), err) < 0)
                return -1;
            ++*ret_count;
        }
    }
    return 0;
}

static int measure_throughput(uint64_t clients, uint64_t seconds, struct err *err)
{
    struct samples row = {"throughput", "exec/s"};
    struct box *boxes[BOXES_MAX] = {0};
    int socks[CLIENTS_MAX], r = 0;
    uint64_t count = 0, open = 0;
    int64_t t;

    if (clients < 1 || clients > CLIENTS_MAX)
        return err_set(err, ERR_INVALID, "clients must be 1 to %d", CLIENTS_MAX);
    for (unsigned i = 0; i < BOXES_MAX && i < clients && r == 0; i++)
        if (!(boxes[i] = box_park(err)) || box_start(boxes[i], err) < 0)
            r = -1;
    for (; open < clients && r == 0; open++)
        if ((socks[open] = box_connect(boxes[open % BOXES_MAX], FLOOR_EXEC, err)) < 0)
            r = -1;
    t = mono_ns();
    if (r == 0)
        r = pump(socks, (unsigned)clients, seconds, &count, err);
    if (r == 0) {
        samples_add(&row, (double)count * 1e9 / (double)(mono_ns() - t));
        samples_print(&row);
    }
    for (uint64_t i = 0; i < open; i++)
        if (socks[i] >= 0)
            (void)close(socks[i]);
    for (unsigned i = 0; i < BOXES_MAX; i++)
        box_free(boxes[i]);
    return r;
}

static const struct {
    const char *name;
    int (*once)(uint64_t n, struct err *err);
    int (*timed)(uint64_t clients, uint64_t seconds, struct err *err);
} modes[] = {
    {"rows", measure_rows, NULL},   {"cold", measure_cold, NULL},
    {"warm", measure_warm, NULL},   {"parallel", measure_parallel, NULL},
    {"burst", measure_burst, NULL}, {"fill", fill, NULL},
    {"lives", NULL, measure_lives}, {"throughput", NULL, measure_throughput},
};

static int measure(int argc, char **argv, struct err *err)
{
    uint64_t n, seconds = 0;

    if (argc < 3 || argc > 4 || str_u64(argv[2], &n) < 0 ||
        (argc == 4 && str_u64(argv[3], &seconds) < 0))
        argc = 0;
    for (size_t i = 0; i < ARRAY_LEN(modes) && argc > 0; i++) {
        if (strcmp(argv[1], modes[i].name) != 0)
            continue;
        if (argc == 3 && modes[i].once)
            return modes[i].once(n, err);
        if (argc == 4 && modes[i].timed)
            return modes[i].timed(n, seconds, err);
    }
    return err_set(
        err, ERR_INVALID,
        "usage: floor rows|cold|warm|parallel|burst|fill N | lives|throughput CLIENTS SECONDS");
}

int main(int argc, char **argv)
{
    const char *base = getenv("CAY_BENCH_DIR");
    auto_free char *dir = xasprintf("%s/cay-floor-XXXXXX", base && *base ? base : "/var/tmp");
    auto_free char *agent = NULL;
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    struct err err = {0};
    int r;

    if (n < 0 || !mkdtemp(dir)) {
        (void)fprintf(stderr, "floor: make %s: %s\n", dir, strerror(errno));
        return 1;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    agent = xasprintf("%s/floor-agent", self);
    floor_dir = dir;
    r = floor_setup(dir, agent, getenv("CAY_BENCH_ROOT"), &err);
    if (r == 0)
        r = measure(argc, argv, &err);
    floor_teardown();
    (void)rmdir(dir);
    if (r < 0)
        (void)fprintf(stderr, "floor: %s\n", err.text);
    return r < 0;
}
