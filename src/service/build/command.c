/* RUN: a sandbox of the image so far, the command in it, and what it changed as a layer. The
 * sandbox is marked as ours, so that one which a killed daemon left is removed at the next start.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/exec.h"
#include "engine/files.h"
#include "engine/images.h"
#include "engine/watch.h"
#include "service/build/build_internal.h"

#define OUTPUT_MAX (8u << 20) /* of a step that is shown; the rest is left out */
#define LOOK_MS    200        /* how often who waits is looked at, while nothing comes */
#define MARGIN_S   600        /* what a sandbox lives longer than its command may take */
#define TAIL_BYTES 4096

struct step_output {
    struct buf rest[2]; /* the beginning of a character whose end has not come, a stream */
    uint64_t shown;
    bool cut;
    char tail[TAIL_BYTES + 1]; /* of both, to see what may be the matter */
    size_t tail_len;
};

/* ---- what it puts out ---- */

static int tell_output(struct build *b, const char *stream, const char *data, size_t len,
                       struct err *err)
{
    auto_buf struct buf clean = {0};

    buf_init(&clean, 3 * len + 3); /* U+FFFD is three bytes */
    (void)utf8_clean(&clean, data, len);
    return build_tell(b,
                      json_pack("{s:s, s:I, s:s, s:s%}", "event", "output", "step",
                                (json_int_t)b->step, "stream", stream, "data",
                                clean.data ? clean.data : "", clean.len),
                      err);
}

static void keep_tail(struct step_output *o, const char *data, size_t len)
{
    size_t keep;

    if (len > TAIL_BYTES) {
        data += len - TAIL_BYTES;
        len = TAIL_BYTES;
    }
    keep = o->tail_len + len > TAIL_BYTES ? TAIL_BYTES - len : o->tail_len;
    memmove(o->tail, o->tail + o->tail_len - keep, keep);
    memcpy(o->tail + keep, data, len);
    o->tail_len = keep + len;
    o->tail[o->tail_len] = '\0';
}

static int add_output(struct build *b, struct step_output *o, const struct exec_output *out,
                      struct err *err)
{
    struct buf *rest = &o->rest[out->what == EXEC_STDERR];
    const char *stream = out->what == EXEC_STDERR ? "stderr" : "stdout";
    size_t cut;
    int r;

    keep_tail(o, out->data, out->len);
    if (o->shown > OUTPUT_MAX) {
        r = o->cut ? 0
                   : tell_output(b, "stderr", "[the rest of the output is left out]\n", 37, err);
        o->cut = true;
        return r;
    }
    o->shown += out->len;
    (void)buf_add(rest, out->data, out->len);
    cut = utf8_cut(rest->data, rest->len);
    if (cut == 0 && rest->len < 4)
        return 0;
    r = tell_output(b, stream, rest->data, cut, err);
    buf_shift(rest, cut);
    return r;
}

static int end_output(struct build *b, struct step_output *o, struct err *err)
{
    for (int i = 0; i < 2; i++)
        if (o->rest[i].len > 0 &&
            tell_output(b, i ? "stderr" : "stdout", o->rest[i].data, o->rest[i].len, err) < 0)
            return -1;
    return 0;
}

/* ---- the command ---- */

static char **command_of(const struct stage *s, const struct build_step *step)
{
    return step->shell ? strv_add(strv_copy(s->shell), step->words[0]) : strv_copy(step->words);
}

/* Until something comes, or it is time to look at who waits. */
static int wait_for(struct build *b, const struct exec *x, struct err *err)
{
    struct exec_wait w;
    struct pollfd p;

    engine_exec_wait(x, &w);
    p = (struct pollfd){.fd = w.events ? w.fd : -1, .events = (short)w.events};
    if (poll(&p, 1, LOOK_MS) < 0 && errno != EINTR)
        return err_sys(err, errno, "wait for a command");
    return p.revents ? 0 : build_tell(b, NULL, err);
}

static int follow(struct build *b, struct exec *x, struct step_output *o, struct exec_output *end,
                  struct err *err)
{
    for (;;) {
        int r = engine_exec_next(x, end, err);

        if (r == 0)
            r = wait_for(b, x, err);
        else if (r == 1 && (end->what == EXEC_STDOUT || end->what == EXEC_STDERR))
            r = add_output(b, o, end, err);
        else if (r == 1 && end->what == EXEC_EXIT)
            return end_output(b, o, err);
        if (r < 0)
            return -1;
    }
}

static bool lacks_network(const char *tail)
{
    static const char *const signs[] = {"Temporary failure in name resolution",
                                        "Temporary failure resolving",
                                        "Could not resolve host",
                                        "Name or service not known",
                                        "bad address '",
                                        "Network is unreachable",
                                        "getaddrinfo EAI_AGAIN",
                                        "Temporary failure in name"};

    for (size_t i = 0; i < ARRAY_LEN(signs); i++)
        if (strstr(tail, signs[i]))
            return true;
    return false;
}

static int failed(const struct build *b, const struct exec_output *end, const struct step_output *o,
                  uint64_t timeout_ms, struct err *err)
{
    if (strcmp(end->reason, "timeout") == 0)
        return err_code(err, ERR_CONFLICT, "build_failed", "it took longer than %llu seconds",
                        (unsigned long long)(timeout_ms / 1000));
    if (strcmp(end->reason, "oom") == 0)
        return err_code(err, ERR_CONFLICT, "build_failed",
                        "it needed more memory than its sandbox has: give the build more");
    return err_code(err, ERR_CONFLICT, "build_failed", "exit code %d%s", end->exit_code,
                    lacks_network(o->tail) ? b->req->network
                                                 ? "; see what the network of the build allows"
                                                 : "; a build has no network unless it is given one"
                                           : "");
}

static uint64_t step_timeout(const struct build *b)
{
    uint64_t ms = b->req->step_timeout_ms;

    return ms == 0 || ms > BUILD_STEP_TIMEOUT_MS ? BUILD_STEP_TIMEOUT_MS : ms;
}

static int run_in(struct build *b, const struct stage *s, const struct build_step *step,
                  const char *sandbox, struct err *err)
{
    auto_strv char **argv = command_of(s, step);
    json_t *env = stage_environment(s);
    struct exec_request req = {
        .argv = argv,
        .cwd = *s->workdir ? s->workdir : "/",
        .user = *s->user ? s->user : NULL,
        .env = env,
        .timeout_ms = step_timeout(b),
        .attached = true,
    };
    struct exec_output end = {0};
    struct step_output *o = xcalloc(1, sizeof(*o));
    struct exec *x;
    int r;

    for (int i = 0; i < 2; i++)
        buf_init(&o->rest[i], 1u << 20);
    r = engine_exec_open(b->engine, sandbox, &req, &x, err);
    if (r == 0) {
        r = follow(b, x, o, &end, err);
        if (r == 0 && (end.exit_code != 0 || strcmp(end.reason, "exit") != 0))
            r = failed(b, &end, o, req.timeout_ms, err);
        engine_exec_close(x);
    }
    for (int i = 0; i < 2; i++)
        buf_done(&o->rest[i]);
    free(o);
    json_decref(env);
    return r;
}

/* ---- its sandbox ---- */

static int make_sandbox(struct build *b, const struct stage *s, char ret[ID_SIZE], struct err *err)
{
    auto_free char *name = xasprintf("%s-%zu", b->id, b->step);
    json_t *mark = json_pack("{s:s}", BUILD_MARK, b->id), *sandbox = NULL;
    struct sandbox_request req = {
        .image = s->shown,
        .image_id = s->image_id,
        .name = name,
        .timeout_s = {true, (double)(step_timeout(b) / 1000 + MARGIN_S)},
        .memory_mb = b->req->memory_mb,
        .cpu_cores = b->req->cpu_cores,
        .disk_mb = b->req->disk_mb,
        .pids = b->req->pids,
        .network = b->req->network,
        .metadata = mark,
        .workdir = "/",
    };
    int r = engine_create(b->engine, &req, b->watch, &sandbox, err);

    if (r == 0)
        (void)snprintf(ret, ID_SIZE, "%s", json_string_value(json_object_get(sandbox, "id")));
    json_decref(sandbox);
    json_decref(mark);
    return r < 0 ? err_wrap(err, "make a sandbox for it") : 0;
}

static int make_folders(struct build *b, const struct stage *s, const char *sandbox,
                        struct err *err)
{
    json_t *dir;
    size_t i;

    json_array_foreach(s->dirs, i, dir)
    {
        struct file_path path = {.path = json_string_value(dir), .anywhere = true};

        if (engine_file_mkdir(b->engine, sandbox, path, err) < 0)
            return err_wrap(err, "make %.100s", path.path);
    }
    if (*s->workdir) { /* an image may name one that it does not have */
        struct file_path path = {.path = s->workdir, .anywhere = true};

        if (engine_file_mkdir(b->engine, sandbox, path, err) < 0)
            return err_wrap(err, "make %.100s", path.path);
    }
    return 0;
}

static int tell_warnings(struct build *b, const json_t *warnings, struct err *err)
{
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)warnings, i, one)
    {
        auto_free char *line = xasprintf("[warning: %s]\n", json_string_value(one));

        if (tell_output(b, "stderr", line, strlen(line), err) < 0)
            return -1;
    }
    return 0;
}

static int run_and_commit(struct build *b, struct stage *s, const struct build_step *step,
                          const char *sandbox, char **ret_id, struct err *err)
{
    struct commit_request commit = {0};
    json_t *image;
    int r;

    if (make_folders(b, s, sandbox, err) < 0 || run_in(b, s, step, sandbox, err) < 0)
        return -1;
    if (engine_commit(b->engine, sandbox, &commit, &image, err) < 0)
        return -1;
    r = tell_warnings(b, json_object_get(image, "warnings"), err);
    if (r == 0)
        *ret_id = xstrdup(json_string_value(json_object_get(image, "id")));
    json_decref(image);
    return r;
}

static int do_command(struct build *b, struct stage *s, const struct build_step *step,
                      char **ret_id, struct err *err)
{
    struct err remove_err = {0};
    char sandbox[ID_SIZE];
    int r;

    if (make_sandbox(b, s, sandbox, err) < 0)
        return -1;
    r = run_and_commit(b, s, step, sandbox, ret_id, err);
    if (engine_remove(b->engine, sandbox, &remove_err) < 0 && remove_err.kind != ERR_NOT_FOUND)
        log_warn("the sandbox of a build's step is still there", "id", sandbox, "error",
                 remove_err.text);
    return r;
}

static void key_of(const struct stage *s, const struct build_step *step,
                   char ret[BUILD_DIGEST_SIZE])
{
    auto_strv char **argv = command_of(s, step);
    json_t *words = json_array();

    for (char **a = argv; *a; a++)
        (void)json_array_append_new(words, json_string(*a));
    build_key(json_pack("{s:s, s:s, s:o, s:o, s:s, s:s, s:O}", "op", "run", "base", s->image_id,
                        "argv", words, "env", stage_environment(s), "user", s->user, "workdir",
                        s->workdir, "dirs", s->dirs),
              ret);
}

int build_command(struct build *b, struct stage *s, const struct build_step *step, bool *cached,
                  struct err *err)
{
    char key[BUILD_DIGEST_SIZE];
    char *id;

    if (!s->image_id)
        return err_code(err, ERR_CONFLICT, "build_failed", "there is nothing to run in scratch");
    key_of(s, step, key);
    id = build_cached(b, key);
    *cached = id != NULL;
    if (!id) {
        if (do_command(b, s, step, &id, err) < 0)
            return -1;
        engine_build_keep(b->engine, key, id);
    }
    stage_move(b->engine, s, id);
    (void)json_array_clear(s->dirs);
    return 0;
}

/* Both by its mark and by its name: a clone of one is somebody's own. */
static bool is_ours(const json_t *sandbox)
{
    const char *mark =
        json_string_value(json_object_get(json_object_get(sandbox, "metadata"), BUILD_MARK));
    const char *name = json_string_value(json_object_get(sandbox, "name"));

    return mark && name && id_valid(mark, BUILD_PREFIX) && str_starts(name, mark) &&
           name[strlen(mark)] == '-';
}

void build_recover(struct engine *e)
{
    struct sandbox_query query = {.page = 1, .page_size = 200};
    json_t *found = NULL, *item;
    size_t i;

    do {
        json_decref(found);
        engine_list(e, &query, &found);
        query.cursor = (uint64_t)json_integer_value(json_object_get(found, "nextCursor"));
        json_array_foreach(json_object_get(found, "items"), i, item)
        {
            const char *id = json_string_value(json_object_get(item, "id"));
            struct err err = {0};

            if (!is_ours(item))
                continue;
            log_info("the sandbox of a build that broke off is removed", "id", id);
            if (engine_remove(e, id, &err) < 0)
                log_warn("the sandbox of a build is still there", "id", id, "error", err.text);
        }
    } while (query.cursor);
    json_decref(found);
}
