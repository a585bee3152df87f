#include "functions/iii_read.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/iii_internal.h"
#include "functions/pipe.h"

/* A file over a pipe, and if it is short in the answer, too. Many who get both read the answer
 * only: so the file is opened again for the pipe when somebody reads that, and holds nothing of the
 * sandbox until then. What comes is the file as it was told, or a word that it is another by now.
 */

#define BODY_MAX (1u << 20) /* a file of fewer bytes comes in the answer, if that has room */

/* ---- what fills the pipe ---- */

struct feed {
    struct pipe_feed feed; /* first */
    struct engine *engine;
    char id[ID_SIZE];
    char *path;
    struct file_look look; /* as it was told */
    struct file_stream *file;
    uint64_t left;
    const char *piece; /* what is not written yet: the file's until it is asked for more */
    size_t len;
    char *last_word; /* what went wrong, to be said */
};

static void feed_free(struct pipe_feed *base)
{
    struct feed *f = (struct feed *)base;

    engine_file_close(f->file);
    free(f->path);
    free(f->last_word);
    free(f);
}

/* Says why there is no more, as soon as there is room for it. */
static int give_up(struct feed *f, struct pipe *p, const char *why)
{
    if (!f->last_word) {
        json_t *o = json_pack("{s:s}", "error", why);

        f->last_word = o ? json_dumps(o, JSON_COMPACT) : xstrdup("{\"error\":\"it failed\"}");
        json_decref(o);
    }
    return p->ops->say(p, f->last_word) == 0 ? 1 : 0;
}

/* Texts of ours tell of the host. */
static const char *told(const struct err *err)
{
    return err->kind == ERR_INTERNAL || (err->kind == ERR_UNAVAILABLE && !err->code)
               ? "the file could not be read"
               : err->text;
}

/* Files of the kernel have no size to tell, and another time with every look. */
static bool is_same(const struct file_look *a, const struct file_look *b)
{
    return a->size == b->size && (a->size == 0 || a->mtime_ms == b->mtime_ms);
}

static int open_file(struct feed *f, struct err *err)
{
    struct file_path path = {.path = f->path, .anywhere = true};
    struct file_look look;

    if (engine_file_open_read(f->engine, f->id, path, (struct file_range){0}, &f->file, &look.size,
                              err) < 0)
        return -1;
    engine_file_look(f->file, &look);
    if (is_same(&look, &f->look))
        return 0;
    return err_code(err, ERR_CONFLICT, "file_changed", "the file has changed since; read it again");
}

/* Of a file with a size no more than that: it may grow. */
static ssize_t next_piece(struct feed *f, struct err *err)
{
    ssize_t n;

    if (f->look.size > 0 && f->left == 0)
        return 0;
    n = engine_file_next(f->file, &f->piece, err);
    if (n < 0)
        return -1;
    if (n == 0 && f->look.size > 0)
        return err_code(err, ERR_CONFLICT, "file_changed",
                        "the file became shorter while it was read");
    f->len = f->look.size > 0 && (uint64_t)n > f->left ? (size_t)f->left : (size_t)n;
    f->left -= f->look.size > 0 ? f->len : 0;
    return (ssize_t)f->len;
}

static int feed_fill(struct pipe_feed *base, struct pipe *p)
{
    struct feed *f = (struct feed *)base;
    struct err err = {0};
    ssize_t n = 0;

    if (f->last_word)
        return give_up(f, p, NULL);
    if (!f->file && open_file(f, &err) < 0)
        return give_up(f, p, told(&err));
    for (;;) {
        while (f->len > 0) {
            size_t len = f->len < PIPE_PIECE ? f->len : PIPE_PIECE;
            int r = p->ops->write(p, f->piece, len);

            if (r <= 0)
                return r == 0 ? 1 : 0;
            f->piece += len;
            f->len -= len;
        }
        n = next_piece(f, &err);
        if (n <= 0)
            return n < 0 ? give_up(f, p, told(&err)) : 0;
    }
}

/* The reference that the reader is given; NULL with err. */
static json_t *make_pipe(struct call *call, const char *path, const struct file_look *look,
                         struct err *err)
{
    struct feed *f;
    json_t *ref = NULL;
    struct pipe *p = call->pipes->ops->make(call->pipes, &ref, err);

    if (!p)
        return NULL;
    f = xcalloc(1, sizeof(*f));
    f->feed = (struct pipe_feed){.fill = feed_fill, .free = feed_free};
    f->engine = call->engine;
    (void)snprintf(f->id, sizeof(f->id), "%s", in_id(call));
    f->path = xstrdup(path);
    f->look = *look;
    f->left = look->size;
    call->pipes->ops->feed(call->pipes, p, &f->feed);
    return ref;
}

/* ---- the answer ---- */

/* All of it if that is less than BODY_MAX: 1; 0 when it is more. */
static int read_body(struct file_stream *file, struct buf *body, struct err *err)
{
    const char *piece;
    ssize_t n;

    buf_init(body, BODY_MAX - 1);
    while ((n = engine_file_next(file, &piece, err)) > 0)
        if (buf_add(body, piece, (size_t)n) < 0)
            return 0;
    return n < 0 ? -1 : 1;
}

static bool fits(const struct buf *body)
{
    size_t size;

    return utf8_valid(body->data, body->len) &&
           utf8_cut_json(body->data, body->len, III_ANSWER_MAX, &size) == body->len;
}

static json_t *answer_of(const struct file_look *look, const struct buf *body, bool whole)
{
    char mode[8];
    json_t *o;

    (void)snprintf(mode, sizeof(mode), "%04o", look->mode & 07777);
    o = json_pack("{s:I, s:s, s:I}", "size",
                  (json_int_t)(look->size == 0 && whole ? body->len : look->size), "mode", mode,
                  "mtime", (json_int_t)time_ms_seconds(look->mtime_ms));
    if (whole && fits(body))
        (void)json_object_set_new(o, "body", json_stringn(body->len ? body->data : "", body->len));
    return o;
}

int iii_read_file(struct call *call, struct err *err)
{
    auto_file_stream struct file_stream *file = NULL;
    auto_buf struct buf body = {0};
    auto_free char *text = NULL;
    struct file_path path = iii_path(in_str(call, "path"), "", &text);
    struct file_look look;
    json_t *ref = NULL;
    int whole = 0;

    if (engine_file_open_read(call->engine, in_id(call), path, (struct file_range){0}, &file,
                              &look.size, err) < 0)
        return iii_file_error(err);
    engine_file_look(file, &look);
    if (look.size < BODY_MAX)
        whole = read_body(file, &body, err);
    if (whole < 0)
        return iii_file_error(err);
    if (call->pipes) {
        ref = make_pipe(call, text, &look, err);
        if (!ref)
            return -1;
    }
    call->out = answer_of(&look, &body, whole > 0);
    (void)json_object_set_new(call->out, "content", ref ? ref : json_null());
    return 0;
}
