#include "service/interpreter/driver.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/exec.h"
#include "service/interpreter/languages.h"

/* Made from driver.py and driver.js by the build. */
extern const char driver_python[], driver_javascript[];

#define PIECE (32u << 10) /* of code: one byte can become six, and a line is one frame of input */

#define APART_MAX (48u << 10)

#define VERSION_MAX   64
#define FRAMES_A_STEP 4 /* that are of no use: then others have their turn */

#define MARK_MAX (ID_SIZE + 2)

#define IDLE_S_MAX (INT32_MAX / 1000) /* as long as interpreters can wait */

struct driver {
    struct exec *exec;
    bool attached; /* what we send arrives */
    bool joined;   /* others run code in it, too */

    char id[ID_SIZE]; /* of the run */
    json_t *code;     /* what is to be sent of it from sent on; NULL = nothing */
    json_t *apart;    /* env and cwd of one in a process of its own; NULL = it is not */
    size_t sent;
    bool begun, done;
    bool cancelled, interrupted; /* nobody wants it; it had begun, and was told so */

    struct buf lines; /* what has come, from at on */
    size_t at;
    json_t *held;       /* the line that the last news points into */
    struct buf printed; /* past the driver; told by the last news up to given */
    size_t given;
    char mark[MARK_MAX];
    bool in_turn, turn_marked; /* what is printed is of the run; a mark said so */
    bool mark_came;
    struct driver_news last; /* DONE, while its mark is waited for */
    bool waits_for_mark;
};

/* ---- starting ---- */

/* How the commands of contexts begin, so that they are known again: ": cay-context python as
 * 1000;". The agent keeps that, so the code of a context cannot say that it was another's. */
#define CONTEXT_WORDS ": cay-context "
#define USER_WORDS    " as "

/* Requests on 3, answers on 4; what is printed past the driver goes to stderr. */
#define DRIVER_FDS "3<&0 4>&1 0</dev/null 1>&2\n"

static const char needs_python[] =
    "command -v python3 >/dev/null 2>&1 || { echo 'cay: interpreter missing' >&2; exit 127; }\n"
    "exec python3 -c \"$@\" " DRIVER_FDS;
static const char needs_node[] =
    "command -v node >/dev/null 2>&1 || { echo 'cay: interpreter missing' >&2; exit 127; }\n"
    "export NODE_PATH=\"${NODE_PATH:+$NODE_PATH:}/usr/local/lib/node_modules:"
    "/usr/lib/node_modules:$HOME/.local/lib/node_modules\"\n"
    "d=$1; shift; exec node -e \"$d\" -- \"$@\" " DRIVER_FDS;

const struct language *driver_language(const char *command)
{
    const struct language *l = NULL;
    auto_free char *name = NULL;

    if (!str_starts(command, CONTEXT_WORDS))
        return NULL;
    command += strlen(CONTEXT_WORDS);
    name = xstrndup(command, strcspn(command, " ;"));
    l = language_find(name);
    return l && l->keeps_state ? l : NULL;
}

char *driver_user(const char *command)
{
    if (!str_starts(command, CONTEXT_WORDS))
        return NULL;
    command += strlen(CONTEXT_WORDS);
    command += strcspn(command, " ;");
    if (!str_starts(command, USER_WORDS))
        return NULL;
    command += strlen(USER_WORDS);
    return xstrndup(command, strcspn(command, ";"));
}

bool driver_user_valid(const char *user)
{
    return user[strspn(
               user, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-")] == '\0';
}

/* mode: "once", "context" or "wait". */
static char **driver_argv(const struct language *l, const char *mode,
                          const struct driver_options *o)
{
    bool python = strcmp(l->name, "python") == 0;
    bool context = strcmp(mode, "context") == 0;
    auto_free char *script =
        xasprintf("%s%s%s%s;\n%s", context ? CONTEXT_WORDS : ": cay-code ", l->name,
                  context && o->user ? USER_WORDS : "", context && o->user ? o->user : "",
                  python ? needs_python : needs_node);
    uint32_t idle_s = o->idle_s <= IDLE_S_MAX ? o->idle_s : 0;
    auto_free char *idle = xasprintf("%llu", (unsigned long long)idle_s * 1000);
    char **argv = strv_add(NULL, "/bin/sh");

    argv = strv_add(argv, "-c");
    argv = strv_add(argv, script);
    argv = strv_add(argv, "sh");
    argv = strv_add(argv, python ? driver_python : driver_javascript);
    argv = strv_add(argv, mode);
    argv = strv_add(argv, o->text ? o->text : "");
    argv = strv_add(argv, idle);
    for (size_t i = 0; i < json_array_size(o->imports); i++)
        argv = strv_add(argv, json_string_value(json_array_get(o->imports, i)));
    return argv;
}

static struct driver *driver_new(struct exec *exec)
{
    struct driver *d = xcalloc(1, sizeof(*d));

    d->exec = exec;
    buf_init(&d->lines, DRIVER_LINE_MAX);
    buf_init(&d->printed, DRIVER_LINE_MAX);
    return d;
}

static int start(struct engine *e, const char *sandbox, const struct language *l,
                 const struct driver_options *o, bool once, struct exec_request *req,
                 struct driver **ret, struct err *err)
{
    auto_strv char **argv = driver_argv(l, once ? "once" : "context", o);
    auto_free char *told = xasprintf("%s: %s", once ? "code" : "context", l->name);
    struct exec *exec;

    req->argv = argv;
    req->told = told;
    req->cwd = o->cwd;
    req->user = o->user;
    req->env = o->env;
    req->want_stdin = true;
    if (engine_exec_open(e, sandbox, req, &exec, err) < 0)
        return -1;
    *ret = driver_new(exec);
    (*ret)->attached = true;
    return 0;
}

int driver_start(struct engine *e, const char *sandbox, const struct language *l,
                 const char *exec_id, const struct driver_options *o, struct driver **ret,
                 struct err *err)
{
    struct exec_request req = {.attached = true, .detach = true, .exec_id = exec_id};

    return start(e, sandbox, l, o, false, &req, ret, err);
}

int driver_start_once(struct engine *e, const char *sandbox, const struct language *l,
                      const struct driver_options *o, uint64_t timeout_ms, struct driver **ret,
                      struct err *err)
{
    struct exec_request req = {.timeout_ms = timeout_ms};

    return start(e, sandbox, l, o, true, &req, ret, err);
}

char **driver_waiting_argv(const json_t *interpreter)
{
    const char *name = json_string_value(json_object_get(interpreter, "language"));
    const struct language *l = name ? language_find(name) : NULL;
    struct driver_options o = {.imports = json_object_get(interpreter, "imports")};

    return l && strcmp(l->name, "python") == 0 ? driver_argv(l, "wait", &o) : NULL;
}

int driver_again(struct engine *e, const char *sandbox, const char *exec_id, struct driver **ret,
                 struct err *err)
{
    struct exec *exec;

    /* From its end on: what others have run before is theirs. */
    if (engine_exec_again(e, sandbox, exec_id, INT64_MAX, EXEC_SHARES, &exec, err) < 0)
        return -1;
    *ret = driver_new(exec);
    (*ret)->joined = true;
    return 0;
}

void driver_close(struct driver *d)
{
    if (!d)
        return;
    engine_exec_close(d->exec);
    json_decref(d->code);
    json_decref(d->held);
    json_decref(d->apart);
    buf_done(&d->lines);
    buf_done(&d->printed);
    free(d);
}

/* ---- requests ---- */

/* Takes o. */
static void send_line(struct driver *d, json_t *o)
{
    auto_free char *text = json_dumps(o, JSON_COMPACT);
    auto_buf struct buf line = {0};

    buf_init(&line, strlen(text) + 1);
    (void)buf_add_str(&line, text);
    (void)buf_add(&line, "\n", 1);
    engine_exec_stdin(d->exec, line.data, line.len);
    json_decref(o);
}

/* As much as is taken now. A line is one frame, so that those of several callers do not mix. */
static void send_code(struct driver *d)
{
    const char *code = json_string_value(d->code);
    size_t len = json_string_length(d->code);

    while (d->code && d->attached && engine_exec_held(d->exec) == 0) {
        bool last = len - d->sent <= PIECE;
        size_t n = last ? len - d->sent : utf8_cut(code + d->sent, PIECE);

        send_line(d, json_pack("{s:s, s:s, s:s%, s:O*, s:O*}", "op",
                               !last      ? "part"
                               : d->apart ? "once"
                                          : "run",
                               "id", d->id, "code", code + d->sent, n, "env",
                               last ? json_object_get(d->apart, "env") : NULL, "cwd",
                               last ? json_object_get(d->apart, "cwd") : NULL));
        d->sent += n;
        if (last) {
            json_decref(d->code);
            d->code = NULL;
        }
    }
}

void driver_run(struct driver *d, json_t *code)
{
    id_new(d->id, "run");
    (void)snprintf(d->mark, sizeof(d->mark), "\x1e%s\x1e", d->id);
    d->mark_came = d->turn_marked = false;
    d->in_turn = d->apart != NULL; /* nobody else is there */
    d->code = code;
    d->sent = 0;
    d->begun = d->done = d->cancelled = d->interrupted = false;
    send_code(d);
}

int driver_run_apart(struct driver *d, json_t *code, json_t *env, const char *cwd)
{
    auto_free char *text = json_dumps(env, JSON_COMPACT);

    if (strlen(text) > APART_MAX) { /* with a piece of code it must be one frame */
        json_decref(env);
        json_decref(code);
        return -1;
    }
    json_decref(d->apart);
    d->apart = json_pack("{s:o, s:s}", "env", env, "cwd", cwd);
    driver_run(d, code);
    return 0;
}

/* A second one would hit what the run does to end well. */
static void interrupt_once(struct driver *d)
{
    if (!d->interrupted)
        engine_exec_signal(d->exec, SIGINT);
    d->interrupted = true;
}

void driver_cancel(struct driver *d)
{
    json_decref(d->code);
    d->code = NULL;
    if (driver_is_over(d))
        return;
    if (d->begun)
        interrupt_once(d);
    else if (!d->cancelled)
        send_line(d, json_pack("{s:s, s:s}", "op", "cancel", "id", d->id));
    d->cancelled = true;
}

bool driver_is_over(const struct driver *d)
{
    return !d->attached || d->done || !d->id[0];
}

bool driver_has_begun(const struct driver *d)
{
    return d->begun;
}

void driver_interrupt(struct driver *d)
{
    engine_exec_signal(d->exec, SIGINT);
}

void driver_kill(struct driver *d)
{
    engine_exec_signal(d->exec, SIGKILL);
}

void driver_wait(const struct driver *d, struct exec_wait *ret)
{
    engine_exec_wait(d->exec, ret);
}

void driver_put_words(const struct driver *d, json_t *o)
{
    engine_exec_put_words(d->exec, o);
}

/* ---- answers ---- */

static int broken(const char *what, struct err *err)
{
    return err_code(err, ERR_CONFLICT, "context_broken",
                    "the code has broken its interpreter: %s; restart or remove the context", what);
}

/* A small text must not become a huge tree. */
static bool is_small(const char *line, size_t len)
{
    size_t values = 0, depth = 0;
    bool in_string = false;

    for (size_t i = 0; i < len; i++) {
        char c = line[i];

        if (c == '"')
            in_string = !in_string;
        else if (in_string)
            i += c == '\\';
        else if (c == ']' || c == '}')
            depth -= depth > 0;
        else if (c == ',')
            values++;
        else if ((c == '[' || c == '{') && (++values, ++depth > DRIVER_DEPTH_MAX))
            return false;
    }
    return values <= DRIVER_VALUES_MAX;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static int take_text(struct driver *d, json_t *o, struct driver_news *ret)
{
    const json_t *text = json_object_get(o, "d");

    if (!json_is_string(text))
        return 0;
    d->held = json_incref(o);
    *ret = (struct driver_news){
        .what = DRIVER_TEXT,
        .is_error = json_integer_value(json_object_get(o, "s")) == 2,
        .text = json_string_value(text),
        .len = json_string_length(text),
    };
    return 1;
}

static bool is_result(const json_t *r)
{
    return json_is_string(json_object_get(r, "type")) &&
           json_is_string(json_object_get(r, "mime")) && json_object_get(r, "data");
}

/* Only what the shape has, whatever the code has written. */
static json_t *clean_result(const json_t *r)
{
    json_t *o = json_pack("{s:O, s:O, s:O}", "type", json_object_get(r, "type"), "mime",
                          json_object_get(r, "mime"), "data", json_object_get(r, "data"));
    json_t *group = json_object_get(r, "group");

    if (json_is_true(json_object_get(r, "main")))
        (void)json_object_set_new(o, "main", json_true());
    if (json_is_integer(group))
        (void)json_object_set(o, "group", group);
    return o;
}

static json_t *number_or_null(const json_t *v)
{
    return json_is_integer(v) ? json_integer(json_integer_value(v)) : json_null();
}

static json_t *clean_exception(const json_t *e)
{
    json_t *places = json_array(), *place;
    size_t i;

    json_array_foreach(json_object_get(e, "traceback"), i, place)
    {
        (void)json_array_append_new(
            places, json_pack("{s:s, s:o, s:s, s:s}", "file", text_of(place, "file"), "line",
                              number_or_null(json_object_get(place, "line")), "function",
                              text_of(place, "function"), "text", text_of(place, "text")));
    }
    return json_pack("{s:s, s:s, s:o, s:o, s:s}", "name", text_of(e, "name"), "value",
                     text_of(e, "value"), "traceback", places, "line",
                     number_or_null(json_object_get(e, "line")), "text", text_of(e, "text"));
}

static int take_done(struct driver *d, const json_t *o, struct driver_news *ret)
{
    json_int_t code = json_integer_value(json_object_get(o, "exit"));
    double ms = json_number_value(json_object_get(o, "ms"));

    *ret = (struct driver_news){
        .what = DRIVER_DONE,
        .exit_code = code >= 0 && code <= 255 ? (int)code : 1,
        .ms = ms > 0 && isfinite(ms) ? ms : 0.001,
        .truncated = json_is_true(json_object_get(o, "truncated")),
    };
    d->done = true;
    if (d->joined && !d->apart)
        send_line(d, json_pack("{s:s, s:s, s:b}", "op", "over", "id", d->id, "interrupted",
                               (int)d->interrupted));
    if (!json_is_true(json_object_get(o, "mark")) || d->mark_came)
        return 1;
    d->waits_for_mark = true;
    d->last = *ret;
    return 0;
}

/* A mark that has come already is the end's when there is none at the start. */
static void take_start(struct driver *d, const json_t *o)
{
    if (json_is_true(json_object_get(o, "mark")))
        return;
    d->mark_came |= d->turn_marked;
    d->in_turn = true;
}

static int take_cancelled(struct driver *d, struct driver_news *ret)
{
    if (!d->cancelled || d->begun)
        return 0;
    d->done = true;
    *ret = (struct driver_news){.what = DRIVER_CANCELLED};
    return 1;
}

/* Of one in a process of its own, which is a child of the driver's. */
static int take_exit(struct driver *d, const json_t *o, struct driver_news *ret)
{
    json_int_t code = json_integer_value(json_object_get(o, "exit"));

    *ret = (struct driver_news){
        .what = DRIVER_LEFT,
        .exit_code = code >= 0 && code <= 255 ? (int)code : 1,
        .reason = "exit",
        .had_begun = true,
        .was_done = d->done,
    };
    return 1;
}

static json_t *version_of(const json_t *o)
{
    const char *version = text_of(o, "version");
    size_t len = strlen(version);

    return json_stringn(version, len > VERSION_MAX ? utf8_cut(version, VERSION_MAX) : len);
}

/* 1 = it is news, 0 = it is not for us, -1. */
static int take_line(struct driver *d, json_t *o, size_t len, struct driver_news *ret)
{
    const char *kind = text_of(o, "t");
    const json_t *value;

    if (strcmp(kind, "ready") == 0) {
        *ret = (struct driver_news){.what = DRIVER_READY, .value = version_of(o)};
        return 1;
    }
    if (strcmp(text_of(o, "id"), d->id) != 0 || !d->id[0])
        return 0;
    if (strcmp(kind, "exit") == 0)
        return take_exit(d, o, ret);
    if (d->done)
        return 0;
    if (strcmp(kind, "cancelled") == 0)
        return take_cancelled(d, ret);
    d->begun = true;
    /* The driver had begun it before it read that nobody wants it. */
    if (d->cancelled && strcmp(kind, "done") != 0)
        interrupt_once(d);
    if (strcmp(kind, "start") == 0)
        take_start(d, o);
    if (strcmp(kind, "out") == 0)
        return take_text(d, o, ret);
    if (strcmp(kind, "done") == 0)
        return take_done(d, o, ret);
    value = json_object_get(o, "r");
    if (strcmp(kind, "result") == 0 && is_result(value)) {
        *ret =
            (struct driver_news){.what = DRIVER_RESULT, .value = clean_result(value), .len = len};
        return 1;
    }
    value = json_object_get(o, "e");
    if (strcmp(kind, "error") == 0 && json_is_object(value)) {
        *ret = (struct driver_news){.what = DRIVER_EXCEPTION, .value = clean_exception(value)};
        return 1;
    }
    return 0;
}

/* One line of those that have come; 0 = there is none for us. */
static int next_line(struct driver *d, struct driver_news *ret, struct err *err)
{
    int r = 0;

    while (r == 0 && !d->waits_for_mark) {
        const char *line = d->lines.data ? d->lines.data + d->at : NULL;
        const char *end = line ? memchr(line, '\n', d->lines.len - d->at) : NULL;
        size_t len = end ? (size_t)(end - line) : 0;
        json_t *o;

        if (!end)
            break;
        d->at += len + 1;
        o = is_small(line, len) ? json_loadb(line, len, JSON_ALLOW_NUL, NULL) : NULL;
        if (json_is_object(o))
            r = take_line(d, o, len, ret);
        /* Who comes while others run may come in the middle of a line. */
        else if (d->begun)
            r = broken("it wrote where only the interpreter does", err);
        json_decref(o);
    }
    if (d->at == d->lines.len || d->at > d->lines.max / 4) {
        buf_shift(&d->lines, d->at);
        d->at = 0;
        if (d->lines.len == 0)
            buf_done(&d->lines);
    }
    return r;
}

/* How much of it is no mark: what may become one at its end is not told yet. */
static size_t before_mark(const struct driver *d, bool *ret_whole)
{
    const struct buf *b = &d->printed;
    const char *mark = memmem(b->data, b->len, d->mark, strlen(d->mark));
    const char *start = d->mark[0] ? memrchr(b->data, d->mark[0], b->len) : NULL;

    *ret_whole = mark && d->mark[0];
    if (*ret_whole)
        return (size_t)(mark - b->data);
    if (start && (size_t)(b->data + b->len - start) < strlen(d->mark))
        return (size_t)(start - b->data);
    return b->len;
}

/* Of one that others use too: what is printed before its start or its first mark is of their runs.
 */
static bool has_turn(struct driver *d)
{
    struct buf *b = &d->printed;
    size_t n = strlen(d->mark);
    const char *mark = n > 0 && b->len > 0 ? memmem(b->data, b->len, d->mark, n) : NULL;

    if (d->in_turn || !d->joined)
        return true;
    if (mark) {
        buf_shift(b, (size_t)(mark - b->data) + n);
        d->in_turn = d->turn_marked = true;
    } else if (b->len >= MARK_MAX) {
        buf_shift(b, b->len - MARK_MAX); /* which may be the beginning of it */
    }
    return d->in_turn;
}

/* What was printed past the driver. */
static int next_printed(struct driver *d, struct driver_news *ret)
{
    struct buf *b = &d->printed;
    bool whole;
    size_t n;

    buf_shift(b, d->given);
    d->given = 0;
    if (!has_turn(d) || (d->joined && !d->begun) || b->len == 0)
        return 0;
    n = before_mark(d, &whole);
    if (n > 0) {
        d->given = n;
        *ret = (struct driver_news){
            .what = DRIVER_TEXT, .is_error = !d->begun, .text = b->data, .len = n};
        return 1;
    }
    if (!whole)
        return 0;
    buf_shift(b, strlen(d->mark));
    d->mark_came = true;
    if (!d->waits_for_mark)
        return next_printed(d, ret);
    d->waits_for_mark = false;
    *ret = d->last;
    return 1;
}

static int take_ended(struct driver *d, const struct exec_output *out, struct driver_news *ret)
{
    d->waits_for_mark = false;
    *ret = (struct driver_news){
        .what = DRIVER_ENDED,
        .exit_code = out->exit_code,
        .reason = out->reason,
        .ms = out->duration_ms,
        .had_begun = d->begun,
        .was_done = d->done,
    };
    return 1;
}

static int take_output(struct driver *d, const struct exec_output *out, struct driver_news *ret,
                       struct err *err)
{
    switch (out->what) {
    case EXEC_STARTED:
        d->attached = true;
        send_code(d);
        *ret = (struct driver_news){.what = DRIVER_STARTED};
        return 1;
    case EXEC_STDOUT:
        if (buf_add(&d->lines, out->data, out->len) < 0)
            return broken("a line without an end", err);
        return 0;
    case EXEC_STDERR:
        if (d->printed.len + out->len > d->printed.max)
            buf_shift(&d->printed, d->printed.len); /* without its end it is of no use */
        (void)buf_add(&d->printed, out->data, out->len);
        return 0;
    case EXEC_LOST: /* others have read quicker: from the next whole line on */
        buf_clear(&d->lines);
        d->at = 0;
        d->in_turn = d->mark_came = true; /* they may be among them */
        if (!d->waits_for_mark)
            return 0;
        d->waits_for_mark = false;
        *ret = d->last;
        return 1;
    case EXEC_EXIT:
        return take_ended(d, out, ret);
    }
    abort();
}

int driver_next(struct driver *d, struct driver_news *ret, struct err *err)
{
    struct exec_output out;
    int r;

    json_decref(d->held);
    d->held = NULL;
    for (unsigned i = 0; i <= FRAMES_A_STEP; i++) {
        r = next_printed(d, ret);
        if (r == 0)
            r = next_line(d, ret, err);
        if (r != 0)
            return r;
        r = engine_exec_next(d->exec, &out, err);
        if (r <= 0) {
            send_code(d);
            return r;
        }
        r = take_output(d, &out, ret, err);
        if (r != 0)
            return r;
    }
    *ret = (struct driver_news){.what = DRIVER_NOISE};
    return 1;
}
