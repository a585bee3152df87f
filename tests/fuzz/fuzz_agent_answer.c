/* What a hostile agent answers: the first byte picks a call of the engine, two bytes say how long
 * the agent's first stream is, and the rest are the bytes of that stream and of every later one;
 * streams end after them. No answer may crash the daemon, make it wait, or get it to pass on what
 * is no JSON. */
#pragma GCC diagnostic ignored "-Wunused-variable"

#include "../unit/engine_world.h"
#include "engine/dial.h"
#include "engine/env.h"
#include "engine/file_watch.h"
#include "engine/files.h"
#include "engine/logs.h"
#include "engine/processes.h"

#define STREAM_MAX (64u << 10) /* fits into the buffer of a socket */
#define PEERS_MAX  64
#define IDLE_MAX   100000 /* "nothing now", of a stream that has ended */
#define EXEC_ID    "ex_0123456789abcdef01234567"

static struct {
    struct world world;
    struct runtime_ops ops;
    char *id, *background;
    const uint8_t *data; /* NULL = the agent of fake_runtime.h */
    size_t len, first;   /* first: of the first stream */
    int peers[PEERS_MAX];
    unsigned n_peers;
} rig;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static int connect_hostile(struct runtime *rt, const struct box *box, enum box_channel channel,
                           int *ret_fd, struct err *err)
{
    const uint8_t *data = rig.data;
    size_t len = rig.first;
    int pair[2];

    if (!rig.data)
        return fake_connect(rt, box, channel, ret_fd, err);
    if (rig.n_peers == PEERS_MAX)
        return err_set(err, ERR_UNAVAILABLE, "the agent does not listen");
    if (rig.n_peers > 0) {
        data += rig.first;
        len = rig.len - rig.first;
    }
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    require(len == 0 || write(pair[1], data, len) == (ssize_t)len);
    require(shutdown(pair[1], SHUT_WR) == 0);
    rig.peers[rig.n_peers++] = pair[1];
    *ret_fd = pair[0];
    return 0;
}

static void rig_end(void)
{
    rig.data = NULL;
    free(rig.id);
    free(rig.background);
    world_done(&rig.world);
}

static void rig_begin(void)
{
    json_t *started;

    world_new(&rig.world);
    rig.ops = fake_ops;
    rig.ops.connect = connect_hostile;
    fake.base.ops = &rig.ops;
    world_start(&rig.world);
    rig.id = create(&rig.world, "{\"image\":\"py\",\"entrypoint\":[\"run\"]}");
    require(engine_exec_background(rig.world.engine, rig.id,
                                   &(struct exec_request){.command = "true"}, &started, NULL) == 0);
    rig.background = xstrdup(str(started, "id"));
    json_decref(started);
    (void)atexit(rig_end);
}

/* ---- what a call gives ---- */

static void check_json(json_t *o)
{
    char *text = json_dumps(o, JSON_ENCODE_ANY);

    require(text);
    free(text);
    json_decref(o);
}

static int check_item(json_t *item, void *arg, struct err *err)
{
    (void)arg, (void)err;
    if (item)
        check_json(item);
    return 0;
}

/* An answer of a call that has succeeded, or an error with words that can be shown. */
static void check(int r, json_t *out, const struct err *err)
{
    if (r >= 0) {
        if (out)
            check_json(out);
        return;
    }
    require(err->kind != ERR_NONE && err->kind < ERR_KINDS && err->kind != ERR_UNAUTHORIZED &&
            err->kind != ERR_FORBIDDEN && err->text[0]);
    for (const unsigned char *p = (const unsigned char *)err->text; *p; p++)
        require(*p >= 0x20 && *p != 0x7f);
}

static struct file_path at(const char *path)
{
    return (struct file_path){.path = path};
}

static int read_file_whole(struct engine *e, const char *id, struct err *err)
{
    auto_file_stream struct file_stream *file = NULL;
    struct file_look look;
    const char *piece;
    uint64_t size;
    ssize_t n;

    if (engine_file_open_read(e, id, at("f"), (struct file_range){0}, &file, &size, err) < 0)
        return -1;
    engine_file_look(file, &look);
    require(look.size <= INT64_MAX && look.mtime_ms == time_ms_clamp(look.mtime_ms));
    while ((n = engine_file_next(file, &piece, err)) > 0)
        require(piece && n <= (ssize_t)FRAME_MAX);
    return n < 0 ? -1 : 0;
}

static int run_exec(struct exec *x, struct err *err)
{
    struct exec_output out;
    int r = 1;

    for (unsigned idle = 0; r >= 0; idle += r == 0) {
        require(idle < IDLE_MAX);
        r = engine_exec_next(x, &out, err);
        if (r == 1 && out.what == EXEC_EXIT) {
            json_t *words = json_object();

            engine_exec_put_words(x, words);
            check_json(words);
            free(engine_exec_hint(x));
            require(out.reason && out.exit_code >= 0);
            break;
        }
    }
    engine_exec_close(x);
    return r < 0 ? -1 : 0;
}

static int collect_exec(struct exec *x, struct err *err)
{
    struct exec_result result;
    int r = 1;

    for (unsigned idle = 0; r > 0; idle++) {
        require(idle < IDLE_MAX);
        r = engine_exec_collect(x, &result, err);
    }
    require(r < 0 || (result.out->len <= EXEC_OUTPUT_MAX && result.errors->len <= EXEC_OUTPUT_MAX));
    engine_exec_close(x);
    return r;
}

static int check_recorded(const struct exec_recorded *r, void *arg, struct err *err)
{
    (void)arg, (void)err;
    require(r->seconds >= 0 && r->rows <= UINT16_MAX && r->cols <= UINT16_MAX);
    return 0;
}

static int read_log(struct engine *e, const char *id, struct err *err)
{
    struct log_stream *log = NULL;
    struct log_piece piece;
    int r = LOG_WAITS, fd = -1;
    int64_t until;

    if (engine_log_open(e, id, 10, true, &log, err) < 0)
        return -1;
    for (unsigned idle = 0; log && r > LOG_ENDED; idle += r == LOG_WAITS) {
        require(idle < IDLE_MAX);
        r = log_stream_next(log, &piece, err);
        require(r != LOG_PIECE || (piece.len <= LOG_PIECE_MAX && piece.time_ms >= 0));
        log_stream_wait(log, &fd, &until);
        if (r == LOG_WAITS && fd < 0)
            break; /* it says that the command runs: it would be asked again */
    }
    log_stream_close(log);
    return r < 0 ? -1 : 0;
}

static int watch_files(struct engine *e, const char *id, struct err *err)
{
    struct file_watch_request req = {.path = at("."), .changes = FILE_CREATED};
    struct file_watch *w;
    json_t *change;
    int r = FILE_WATCH_WAITS;

    if (engine_file_watch(e, id, &req, &w, err) < 0)
        return -1;
    for (unsigned idle = 0; r > FILE_WATCH_ENDED; idle += r == FILE_WATCH_WAITS) {
        require(idle < IDLE_MAX);
        r = file_watch_next(w, &change, err);
        if (r == FILE_WATCH_CHANGE)
            check_json(change);
    }
    file_watch_close(w);
    return r;
}

static int dial(struct engine *e, const char *id, enum dial_kind kind, struct err *err)
{
    int fd;

    if (engine_dial(e, id, 80, kind, &fd, err) < 0)
        return -1;
    dial_close(fd, false);
    return 0;
}

static int search_text(struct engine *e, const char *id, bool replace, struct err *err)
{
    struct file_text text = {.path = at("."), .recursive = true, .pattern = "a"};
    struct file_grep grep = {text, .matches_max = 10, .line_max = 100, .bytes_max = 4096};
    struct file_sed sed = {.text = text, .replacement = "b"};
    bool truncated;

    return replace ? engine_file_sed(e, id, &sed, check_item, NULL, err)
                   : engine_file_grep(e, id, &grep, check_item, NULL, &truncated, err);
}

static int set_variable(struct engine *e, const char *id, json_t **out, struct err *err)
{
    json_t *vars = json_pack("{s:s}", "A", "b");
    int r = engine_env_set(e, id, vars, out, err);

    json_decref(vars);
    return r;
}

static int ask(unsigned which, json_t **out, struct err *err)
{
    struct file_marks marks = {.mode = 0640, .uid = FILE_OWNER_KEEP, .gid = FILE_OWNER_KEEP};
    struct engine *e = rig.world.engine;
    json_t *paths;
    struct exec *x;
    uint32_t n;
    bool made;
    int r;

    switch (which) {
    case 0:
        return engine_file_list(e, rig.id, at("."), check_item, NULL, err);
    case 1:
        return engine_file_search(e, rig.id, at("."), "*", check_item, NULL, err);
    case 2:
        paths = json_pack("[s, s]", "a", "b");
        r = engine_file_info(e, rig.id, paths, false, false, out, err);
        json_decref(paths);
        return r;
    case 3:
        return read_file_whole(e, rig.id, err);
    case 4:
        return engine_file_write(e, rig.id, at("f"), "text", 4, err);
    case 5:
        return search_text(e, rig.id, false, err);
    case 6:
        return search_text(e, rig.id, true, err);
    case 7:
        return engine_file_make_dir(e, rig.id, at("d"), 0755, false, &made, err);
    case 8:
        return engine_file_mark(e, rig.id, at("d"), &marks, &n, err);
    case 9:
        return engine_processes(e, rig.id, out, err);
    case 10:
        r = engine_exec_open(e, rig.id, &(struct exec_request){.command = "x"}, &x, err);
        return r < 0 ? r : run_exec(x, err);
    case 11:
        r = engine_exec_open(e, rig.id, &(struct exec_request){.command = "x", .collect = true}, &x,
                             err);
        return r < 0 ? r : collect_exec(x, err);
    case 12:
        r = engine_exec_again(e, rig.id, EXEC_ID, 0, EXEC_READS, &x, err);
        return r < 0 ? r : run_exec(x, err);
    case 13:
        return engine_exec_list(e, rig.id, out, err);
    case 14:
        return engine_exec_state(e, rig.id, EXEC_ID, 0, out, err);
    case 15:
        return engine_exec_set_size(e, rig.id, EXEC_ID, 24, 80, out, err);
    case 16:
        return engine_exec_recording(e, rig.id, EXEC_ID, check_recorded, NULL, err);
    case 17:
        return read_log(e, rig.id, err);
    case 18:
        return watch_files(e, rig.id, err);
    case 19:
        return engine_background_status(e, rig.background, out, err);
    case 20:
        return engine_background_logs(e, rig.background, 0, out, err);
    case 21:
        return set_variable(e, rig.id, out, err);
    case 22:
        return dial(e, rig.id, DIAL_TCP, err);
    default:
        return dial(e, rig.id, DIAL_UDP, err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    json_t *out = NULL;

    if (!rig.id)
        rig_begin();
    if (size < 3)
        return 0;
    rig.data = data + 3;
    rig.len = size - 3 < STREAM_MAX ? size - 3 : STREAM_MAX;
    rig.first = data[1] | (size_t)data[2] << 8;
    if (rig.first > rig.len)
        rig.first = rig.len;
    check(ask(data[0] % 24, &out, &err), out, &err);
    while (rig.n_peers > 0)
        (void)close(rig.peers[--rig.n_peers]);
    return 0;
}
