/* What is left when a box waits with its root and its agent: its limits are written, its agent is
 * told something and answers, and a row that says whose it is is synced. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "floor.h"
#include "floor_load.h"
#include "samples.h"

#define ROW_SIZE (4096 + 24) /* a page of SQLite and the head of its frame in the log */
#define ROWS_MAX 512 /* as long as the log gets, and with all its bytes there from the start */

static int log_make(const char *path, struct err *err)
{
    static const char zeros[ROW_SIZE];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_sys(err, errno, "make %s", path);
    for (unsigned i = 0; i < ROWS_MAX; i++)
        if (pwrite(fd, zeros, ROW_SIZE, (off_t)i * ROW_SIZE) < 0)
            return err_sys(err, errno, "fill %s", path);
    return fsync(fd) < 0 ? err_sys(err, errno, "sync %s", path) : fd;
}

static int write_row(int log, uint64_t i, struct err *err)
{
    char row[ROW_SIZE];

    memset(row, (int)(i & 127) + 1, sizeof(row));
    if (pwrite(log, row, sizeof(row), (off_t)(i % ROWS_MAX) * ROW_SIZE) < 0 || fdatasync(log) < 0)
        return err_sys(err, errno, "write a row");
    return 0;
}

static int claim(struct box *box, int agent, int log, uint64_t i, struct samples *row,
                 struct err *err)
{
    int64_t t = mono_ns();

    if (box_limit(box, err) < 0 || floor_hello(agent, err) < 0 || write_row(log, i, err) < 0)
        return -1;
    (void)samples_since(row, t);
    return 0;
}

static int measure_one(int log, uint64_t i, struct samples *row, struct err *err)
{
    struct box *box = box_park(err);
    auto_close int agent = -1;
    int r = -1;

    if (box && box_start(box, err) == 0 && (agent = box_connect(box, FLOOR_READ, err)) >= 0) {
        rest();
        r = claim(box, agent, log, i, row, err);
    }
    box_free(box);
    return r;
}

int measure_warm(uint64_t n, struct err *err)
{
    auto_free char *path = xasprintf("%s/log", floor_dir);
    struct samples row = {"warm", "us"};
    auto_close int log = log_make(path, err);
    int r = log < 0 ? -1 : 0;

    for (uint64_t i = 0; i < n && r == 0 && !floor_stopping; i++)
        r = measure_one(log, i, &row, err);
    (void)unlink(path);
    samples_print(&row);
    return r;
}
