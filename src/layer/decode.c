#include "layer/decode.h"

#include <bzlib.h>
#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <lzma.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/err.h"
#include "base/mem.h"

#define IN_SIZE  (128u << 10)
#define IN_SLACK 32 /* isa-l may give back bytes of the piece before */
#define HEAD_MAX 18 /* the longest header of a zstd frame */

/* Windows up to 8 MiB (zstd -19, and what image builders use) are had at any time; larger ones, up
 * to 32 MiB, by one stream at a time. xz -9 needs 65 MiB. */
#define ZSTD_WINDOW_LOG     23
#define ZSTD_WINDOW_LOG_BIG 25
#define XZ_MEMORY           (80ull << 20)

static pthread_mutex_t big_window = PTHREAD_MUTEX_INITIALIZER;

enum step { STEP_MORE, STEP_END, STEP_DAMAGED, STEP_TOO_BIG };

/* One compression. step takes what it can from d->in and writes to *out, and moves all of these on;
 * STEP_END is the end of a member, after which start is called for the next. */
struct codec {
    const char *name;
    const char *magic;
    size_t magic_len;
    int (*start)(struct decoder *d); /* 0 or -1 */
    enum step (*step)(struct decoder *d, uint8_t **out, size_t *room);
    void (*done)(struct decoder *d);
};

struct decoder {
    decode_read read;
    void *arg;
    const struct codec *codec;
    bool started, in_member, eof, holds_big_window;
    enum step failed;
    int error; /* errno of a failed read */
    uint64_t taken;
    const uint8_t *in; /* not used yet */
    size_t left;
    union {
        struct inflate_state *gzip;
        ZSTD_DCtx *zstd;
        lzma_stream xz;
        bz_stream bzip2;
    };
    uint8_t data[IN_SLACK + IN_SIZE];
};

/* ---- gzip: isa-l, which takes less than half the time of zlib ---- */

static int gzip_start(struct decoder *d)
{
    if (!d->gzip)
        d->gzip = xmalloc(sizeof(*d->gzip));
    isal_inflate_init(d->gzip);
    d->gzip->crc_flag = ISAL_GZIP;
    return 0;
}

static enum step gzip_step(struct decoder *d, uint8_t **out, size_t *room)
{
    struct inflate_state *z = d->gzip;
    int r;

    z->next_in = (uint8_t *)(uintptr_t)d->in;
    z->avail_in = (uint32_t)d->left;
    z->next_out = *out;
    z->avail_out = (uint32_t)*room;
    r = isal_inflate(z);
    d->in = z->next_in;
    d->left = z->avail_in;
    *out = z->next_out;
    *room = z->avail_out;
    if (r != ISAL_DECOMP_OK && r != ISAL_END_INPUT && r != ISAL_OUT_OVERFLOW)
        return STEP_DAMAGED;
    return z->block_state == ISAL_BLOCK_FINISH ? STEP_END : STEP_MORE;
}

static void gzip_done(struct decoder *d)
{
    free(d->gzip);
}

/* ---- zstd ---- */

static int zstd_start(struct decoder *d)
{
    if (!d->zstd)
        d->zstd = ZSTD_createDCtx();
    if (!d->zstd)
        abort();
    return ZSTD_isError(
               ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax,
                                      d->holds_big_window ? ZSTD_WINDOW_LOG_BIG : ZSTD_WINDOW_LOG))
               ? -1
               : 0;
}

static enum step zstd_step(struct decoder *d, uint8_t **out, size_t *room)
{
    ZSTD_inBuffer in = {.src = d->in, .size = d->left};
    ZSTD_outBuffer to = {.dst = *out, .size = *room};
    size_t r = ZSTD_decompressStream(d->zstd, &to, &in);

    if (ZSTD_isError(r) && ZSTD_getErrorCode(r) == ZSTD_error_frameParameter_windowTooLarge) {
        if (d->holds_big_window)
            return STEP_TOO_BIG;
        /* A frame's header is seen as a whole, so that it can be read again. */
        (void)pthread_mutex_lock(&big_window);
        d->holds_big_window = true;
        (void)ZSTD_DCtx_reset(d->zstd, ZSTD_reset_session_only);
        return zstd_start(d) < 0 ? STEP_DAMAGED : zstd_step(d, out, room);
    }
    if (ZSTD_isError(r))
        return STEP_DAMAGED;
    d->in += in.pos;
    d->left -= in.pos;
    *out += to.pos;
    *room -= to.pos;
    return r == 0 ? STEP_END : STEP_MORE;
}

static void zstd_done(struct decoder *d)
{
    (void)ZSTD_freeDCtx(d->zstd);
    if (d->holds_big_window)
        (void)pthread_mutex_unlock(&big_window);
}

/* ---- xz ---- */

static int xz_start(struct decoder *d)
{
    return lzma_stream_decoder(&d->xz, XZ_MEMORY, 0) == LZMA_OK ? 0 : -1;
}

static enum step xz_step(struct decoder *d, uint8_t **out, size_t *room)
{
    lzma_ret r;

    d->xz.next_in = d->in;
    d->xz.avail_in = d->left;
    d->xz.next_out = *out;
    d->xz.avail_out = *room;
    r = lzma_code(&d->xz, LZMA_RUN);
    d->in = d->xz.next_in;
    d->left = d->xz.avail_in;
    *out = d->xz.next_out;
    *room = d->xz.avail_out;
    if (r == LZMA_STREAM_END)
        return STEP_END;
    if (r == LZMA_MEMLIMIT_ERROR)
        return STEP_TOO_BIG;
    return r == LZMA_OK || r == LZMA_BUF_ERROR ? STEP_MORE : STEP_DAMAGED;
}

static void xz_done(struct decoder *d)
{
    lzma_end(&d->xz);
}

/* ---- bzip2 ---- */

static int bzip2_start(struct decoder *d)
{
    if (d->started)
        (void)BZ2_bzDecompressEnd(&d->bzip2);
    memset(&d->bzip2, 0, sizeof(d->bzip2));
    return BZ2_bzDecompressInit(&d->bzip2, 0, 0) == BZ_OK ? 0 : -1;
}

static enum step bzip2_step(struct decoder *d, uint8_t **out, size_t *room)
{
    int r;

    d->bzip2.next_in = (char *)(uintptr_t)d->in;
    d->bzip2.avail_in = (unsigned)d->left;
    d->bzip2.next_out = (char *)*out;
    d->bzip2.avail_out = (unsigned)*room;
    r = BZ2_bzDecompress(&d->bzip2);
    d->in = (const uint8_t *)d->bzip2.next_in;
    d->left = d->bzip2.avail_in;
    *out = (uint8_t *)d->bzip2.next_out;
    *room = d->bzip2.avail_out;
    if (r == BZ_STREAM_END)
        return STEP_END;
    return r == BZ_OK ? STEP_MORE : STEP_DAMAGED;
}

static void bzip2_done(struct decoder *d)
{
    (void)BZ2_bzDecompressEnd(&d->bzip2);
}

/* ---- none ---- */

static int plain_start(struct decoder *d)
{
    (void)d;
    return 0;
}

static enum step plain_step(struct decoder *d, uint8_t **out, size_t *room)
{
    size_t n = d->left < *room ? d->left : *room;

    memcpy(*out, d->in, n);
    d->in += n;
    d->left -= n;
    *out += n;
    *room -= n;
    return d->left == 0 ? STEP_END : STEP_MORE; /* it may end anywhere */
}

static void plain_done(struct decoder *d)
{
    (void)d;
}

static const struct codec codecs[] = {
    {"gzip", "\x1f\x8b", 2, gzip_start, gzip_step, gzip_done},
    {"zstd", "\x28\xb5\x2f\xfd", 4, zstd_start, zstd_step, zstd_done},
    {"zstd", "\x50\x2a\x4d\x18", 4, zstd_start, zstd_step, zstd_done}, /* a frame to skip */
    {"xz",
     "\xfd"
     "7zXZ",
     6, xz_start, xz_step, xz_done},
    {"bzip2", "BZh", 3, bzip2_start, bzip2_step, bzip2_done},
    {"tar", "", 0, plain_start, plain_step, plain_done},
};

/* ---- the stream ---- */

struct decoder *decoder_new(decode_read read, void *arg)
{
    struct decoder *d = xcalloc(1, sizeof(*d));

    d->read = read;
    d->arg = arg;
    d->in = d->data + IN_SLACK;
    return d;
}

void decoder_free(struct decoder *d)
{
    if (!d)
        return;
    if (d->started)
        d->codec->done(d);
    free(d);
}

uint64_t decoder_taken(const struct decoder *d)
{
    return d->taken;
}

/* Reads until at least want bytes are there, or the end. What is left moves to the front; the
 * bytes before it stay before it. */
static void refill(struct decoder *d, size_t want)
{
    uint8_t *front = d->data + IN_SLACK;

    memmove(d->data, d->in - IN_SLACK, IN_SLACK + d->left);
    d->in = front;
    while (d->left < want && !d->eof) {
        ssize_t n = d->read(d->arg, front + d->left, IN_SIZE - d->left);

        d->eof = n <= 0;
        if (n < 0) {
            d->error = (int)-n;
        } else {
            d->left += (size_t)n;
            d->taken += (uint64_t)n;
        }
    }
}

/* The next member, if there is one; the first decides what the stream is. */
static int next_member(struct decoder *d)
{
    if (d->left < HEAD_MAX)
        refill(d, HEAD_MAX);
    if (d->left == 0 || d->error)
        return 0;
    for (const struct codec *c = codecs; !d->codec; c++)
        if (d->left >= c->magic_len && memcmp(d->in, c->magic, c->magic_len) == 0)
            d->codec = c;
    if (d->codec->start(d) < 0)
        return -1;
    d->started = true;
    return 1;
}

static int decode_failed(const struct decoder *d, struct err *err)
{
    if (d->error)
        return err_sys(err, d->error, "read the archive");
    if (d->failed == STEP_TOO_BIG)
        return err_code(err, ERR_TOO_LARGE, "image_too_large",
                        "reading it takes too much memory; compress it again, zstd without --long "
                        "or --ultra, xz with -9 at most");
    return err_code(err, ERR_INVALID, "bad_image",
                    "the %s data is damaged, cut short, or has something behind its end",
                    d->codec->name);
}

/* One step of the member that is read. */
static void decode_step(struct decoder *d, uint8_t **out, size_t *room)
{
    size_t had_room = *room, had;
    enum step s;

    if (d->left == 0)
        refill(d, 1);
    had = d->left;
    s = d->codec->step(d, out, room);
    if (s == STEP_END)
        d->in_member = false;
    else if (s != STEP_MORE)
        d->failed = s;
    else if (*room == had_room && d->left == had)
        d->failed = STEP_DAMAGED; /* it wants more, and there is no more */
}

ssize_t decoder_read(struct decoder *d, void *out, size_t len, struct err *err)
{
    uint8_t *at = out;
    size_t room = len;

    while (room > 0 && !d->failed && !d->error) {
        if (!d->in_member) {
            int r = next_member(d);

            if (r < 0)
                d->failed = STEP_DAMAGED;
            if (r <= 0)
                break;
            d->in_member = true;
        }
        decode_step(d, &at, &room);
    }
    if (room < len)
        return (ssize_t)(len - room);
    return d->failed || d->error ? decode_failed(d, err) : 0;
}
