/* Boxes of the floor that are made beside each other, a process each or several to a process. */

#include "floor_load.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "floor.h"
#include "samples.h"

#define PARALLEL      3
#define WORKERS_MAX   32
#define BURST_WORKERS 8
#define BURST_MAX     100

/* What the processes of one load share. They begin at the end of file on start, and write one
 * double to done for each box. */
struct load {
    int start[2], done[2];
    uint64_t n;              /* boxes wanted */
    _Atomic uint64_t *taken; /* of them, in shared memory */
    int64_t seconds;
    struct box **boxes; /* parked ahead */
};

typedef int worker_fn(struct load *load, unsigned number, struct err *err);

static int tell(const struct load *load, double us, struct err *err)
{
    int r = write_all(load->done[1], &us, sizeof(us));

    return r < 0 ? err_sys(err, -r, "tell of a box") : 0;
}

static void run_worker(struct load *load, unsigned number, worker_fn *work)
{
    struct err err = {0};
    char byte;
    int r;

    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)close(load->start[1]);
    (void)close(load->done[0]);
    r = floor_worker(number + 1, &err);
    (void)read_some(load->start[0], &byte, 1);
    if (r == 0)
        r = work(load, number, &err);
    if (r < 0)
        (void)fprintf(stderr, "floor: %s\n", err.text);
    _exit(r < 0);
}

/* Reads what they tell. Returns the time until the last word of the n that are wanted (0 = until
 * all have ended) in microseconds. */
static double listen_to(const struct load *load, struct samples *row, uint64_t n, int64_t start)
{
    double us, last = 0;

    while (read_exact(load->done[0], &us, sizeof(us)) == 0) {
        samples_add(row, us);
        if (row->n == n)
            last = (double)(mono_ns() - start) / 1000;
    }
    return n > 0 ? last : (double)(mono_ns() - start) / 1000;
}

/* Runs so many workers. Adds what they tell to row, and *ret_us is the time as above. */
static int run_load(struct load *load, unsigned workers, worker_fn *work, struct samples *row,
                    double *ret_us, struct err *err)
{
    pid_t pids[WORKERS_MAX];
    int r = 0, status;
    int64_t t;

    if (pipe(load->start) < 0 || pipe(load->done) < 0)
        return err_sys(err, errno, "make a pipe");
    for (unsigned i = 0; i < workers; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            run_worker(load, i, work);
    }
    (void)close(load->start[0]);
    (void)close(load->done[1]);
    rest();
    t = mono_ns();
    (void)close(load->start[1]);
    *ret_us = listen_to(load, row, load->n, t);
    (void)close(load->done[0]);
    for (unsigned i = 0; i < workers; i++)
        if (pids[i] < 0 || waitpid(pids[i], &status, 0) < 0 || status != 0)
            r = err_set(err, ERR_INTERNAL, "one of the floor's processes failed");
    return r;
}

/* ---- three at once, parked ahead ---- */

static int start_one(struct load *load, unsigned number, struct err *err)
{
    int64_t t = mono_ns();
    int r = box_start(load->boxes[number], err);

    if (r == 0)
        r = tell(load, (double)(mono_ns() - t) / 1000, err);
    (void)close(load->done[1]);
    return r;
}

int measure_parallel(uint64_t n, struct err *err)
{
    struct samples row = {"create_3", "us"};
    int r = 0;

    for (uint64_t i = 0; i < n && r == 0 && !floor_stopping; i++) {
        struct samples each = {0};
        struct box *boxes[PARALLEL] = {0};
        struct load load = {.n = PARALLEL, .boxes = boxes};
        double us = 0;

        for (int k = 0; k < PARALLEL && r == 0; k++)
            r = (boxes[k] = box_park(err)) ? 0 : -1;
        if (r == 0)
            r = run_load(&load, PARALLEL, start_one, &each, &us, err);
        if (r == 0)
            samples_add(&row, us);
        for (int k = 0; k < PARALLEL; k++)
            box_free(boxes[k]);
        free(each.v);
    }
    samples_print(&row);
    return r;
}

/* ---- many at once, with nothing parked ---- */

static int make_some(struct load *load, unsigned number, struct err *err)
{
    struct box *boxes[BURST_MAX];
    unsigned made = 0;
    int r = 0;

    (void)number;
    while (r == 0 && atomic_fetch_add(load->taken, 1) < load->n) {
        int64_t t = mono_ns();

        boxes[made] = box_park(err);
        r = boxes[made] ? box_start(boxes[made], err) : -1;
        made += boxes[made] ? 1 : 0;
        if (r == 0)
            r = tell(load, (double)(mono_ns() - t) / 1000, err);
    }
    while (made > 0)
        box_free(boxes[--made]);
    return r;
}

int measure_burst(uint64_t n, struct err *err)
{
    struct samples row = {"burst", "us"}, each = {0};
    struct load load = {.n = n};
    double us = 0;
    int r;

    if (n < 1 || n > BURST_MAX)
        return err_set(err, ERR_INVALID, "boxes must be 1 to %d", BURST_MAX);
    load.taken =
        mmap(NULL, sizeof(*load.taken), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (load.taken == MAP_FAILED)
        return err_sys(err, errno, "map shared memory");
    r = run_load(&load, BURST_WORKERS, make_some, &each, &us, err);
    if (r == 0) {
        samples_add(&row, us);
        samples_print(&row);
    }
    free(each.v);
    (void)munmap(load.taken, sizeof(*load.taken));
    return r;
}

/* ---- whole lives ---- */

static int live_once(double *ret_us, struct err *err)
{
    auto_close int sock = -1;
    int64_t t = mono_ns();
    struct box *box = box_park(err);
    int r = box ? box_start(box, err) : -1;

    *ret_us = (double)(mono_ns() - t) / 1000;
    if (r == 0)
        r = sock = box_connect(box, FLOOR_EXEC, err);
    if (r >= 0)
        r = floor_echo(sock, err);
    box_free(box);
    return r < 0 ? -1 : 0;
}

static int live_until(struct load *load, unsigned number, struct err *err)
{
    const int64_t until = mono_ns() + load->seconds * 1000000000;
    double us;
    int r = 0;

    (void)number;
    while (r == 0 && mono_ns() < until && !floor_stopping) {
        r = live_once(&us, err);
        if (r == 0)
            r = tell(load, us, err);
    }
    return r;
}

int measure_lives(uint64_t clients, uint64_t seconds, struct err *err)
{
    struct samples row = {"lives", "lives/s"}, creates = {"create", "us"};
    struct load load = {.seconds = (int64_t)seconds};
    double us = 0;

    if (clients < 1 || clients > WORKERS_MAX)
        return err_set(err, ERR_INVALID, "clients must be 1 to %d", WORKERS_MAX);
    if (run_load(&load, (unsigned)clients, live_until, &creates, &us, err) < 0)
        return -1;
    samples_add(&row, (double)creates.n * 1e6 / us);
    samples_print(&row);
    samples_print(&creates);
    return 0;
}

/* ---- boxes that stay ---- */

int fill(uint64_t n, struct err *err)
{
    struct samples row = {"fill", "us"};
    struct box *boxes[BURST_MAX];
    unsigned made = 0;
    int r = 0;
    char byte;

    if (n > BURST_MAX)
        return err_set(err, ERR_INVALID, "boxes must be at most %d", BURST_MAX);
    while (r == 0 && made < n && !floor_stopping) {
        int64_t t = mono_ns();

        boxes[made] = box_park(err);
        r = boxes[made] ? box_start(boxes[made], err) : -1;
        made += boxes[made] ? 1 : 0;
        (void)samples_since(&row, t);
    }
    samples_print(&row);
    if (r == 0 && !floor_stopping)
        (void)read_some(STDIN_FILENO, &byte, 1);
    while (made > 0)
        box_free(boxes[--made]);
    return r;
}
