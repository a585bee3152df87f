#include "cli/meter.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/ui.h"

#define METER_MIN (1 << 20)
#define METER_NS  100000000

void meter_begin(struct meter *m, int64_t total)
{
    *m = (struct meter){.total = total, .shown_ns = mono_ns()};
    m->enabled = (total < 0 || total > METER_MIN) && isatty(STDERR_FILENO) == 1;
}

static void show(const struct meter *m)
{
    char done[24], total[24];
    int percent = m->total > 0 ? (int)(100 * m->done / m->total) : 0;

    ui_size((double)m->done, done);
    ui_size((double)m->total, total);
    if (m->total < 0) {
        if (m->done > METER_MIN)
            fprintf(stderr, "\r\033[K%s", done);
        return;
    }
    fprintf(stderr, "\r\033[K%3d%% [%-20.*s] %s of %s", percent, percent / 5,
            "####################", done, total);
}

void meter_add(struct meter *m, int64_t bytes)
{
    int64_t now;

    m->done += bytes;
    if (!m->enabled)
        return;
    now = mono_ns();
    if (now - m->shown_ns < METER_NS)
        return;
    m->shown_ns = now;
    show(m);
}

void meter_end(struct meter *m)
{
    if (m->enabled)
        fputs("\r\033[K", stderr);
}
