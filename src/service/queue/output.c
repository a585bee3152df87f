#include <string.h>

#include "service/queue/queue_internal.h"

void job_output_init(struct job_output *o)
{
    buf_init(&o->bytes, 2 * OUTPUT_KEPT);
    buf_init(&o->runs, 2 * OUTPUT_RUNS * sizeof(uint32_t));
    o->base = 0;
}

void job_output_done(struct job_output *o)
{
    buf_done(&o->bytes);
    buf_done(&o->runs);
}

static size_t runs_count(const struct buf *runs)
{
    return runs->len / sizeof(uint32_t);
}

static uint32_t run_at(const struct buf *runs, size_t i)
{
    uint32_t n;

    memcpy(&n, runs->data + i * sizeof(n), sizeof(n));
    return n;
}

static void set_run(struct buf *runs, size_t i, uint32_t n)
{
    memcpy(runs->data + i * sizeof(n), &n, sizeof(n));
}

/* So many bytes from the front. Pieces go in pairs: the first one stays stdout's. */
static void drop(struct job_output *o, size_t n)
{
    size_t left = n, i = 0, count = runs_count(&o->runs);

    while (left > 0 && i < count) {
        uint32_t run = run_at(&o->runs, i);
        uint32_t part = run < left ? run : (uint32_t)left;

        set_run(&o->runs, i, run - part);
        left -= part;
        if (part == run)
            i++;
    }
    buf_shift(&o->runs, i / 2 * 2 * sizeof(uint32_t));
    buf_shift(&o->bytes, n);
    o->base += n;
}

/* Which piece the next bytes belong to. */
static void note_run(struct buf *runs, bool is_error, size_t len)
{
    static const uint32_t none = 0;
    size_t n = runs_count(runs);

    if (n == 0 || (n - 1) % 2 != (is_error ? 1 : 0)) {
        if (n == 0 && is_error)
            (void)buf_add(runs, &none, sizeof(none));
        (void)buf_add(runs, &none, sizeof(none));
        n = runs_count(runs);
    }
    set_run(runs, n - 1, run_at(runs, n - 1) + (uint32_t)len);
}

/* Bytes of the older half of the pieces. */
static size_t half_of_runs(const struct job_output *o)
{
    size_t n = 0;

    for (size_t i = 0; i < runs_count(&o->runs) / 2; i++)
        n += run_at(&o->runs, i);
    return n;
}

void job_output_add(struct job_output *o, bool is_error, const char *data, size_t len)
{
    while (len > 0) {
        size_t n = len < OUTPUT_KEPT ? len : OUTPUT_KEPT;

        if (runs_count(&o->runs) >= OUTPUT_RUNS)
            drop(o, half_of_runs(o));
        if (o->bytes.len + n > 2 * OUTPUT_KEPT)
            drop(o, o->bytes.len + n - OUTPUT_KEPT);
        (void)buf_add(&o->bytes, data, n);
        note_run(&o->runs, is_error, n);
        data += n;
        len -= n;
    }
}

void job_output_skip(struct job_output *o, uint64_t lost)
{
    drop(o, o->bytes.len);
    o->base += lost;
}

void job_output_trim(struct job_output *o)
{
    if (o->bytes.len > OUTPUT_KEPT)
        drop(o, o->bytes.len - OUTPUT_KEPT);
}

void job_output_split(const struct buf *bytes, const struct buf *runs, uint64_t base,
                      uint64_t cursor, struct buf *ret_out, struct buf *ret_errors)
{
    size_t at = 0;

    for (size_t i = 0; i < runs_count(runs); i++) {
        size_t len = run_at(runs, i);
        size_t skip = 0;

        if (len > bytes->len - at) /* not as we wrote it */
            len = bytes->len - at;
        if (base + at < cursor)
            skip = cursor - base - at < len ? (size_t)(cursor - base - at) : len;
        (void)buf_add(i % 2 ? ret_errors : ret_out, bytes->data + at + skip, len - skip);
        at += len;
    }
}
