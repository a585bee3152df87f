#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/exec.h"
#include "functions/asciicast.h"
#include "functions/callers.h"
#include "functions/channels.h"
#include "functions/functions_internal.h"

/* Terminals. A session is an exec on a terminal that outlives its callers, and has its number:
 * term_X is ex_X. Its agent knows all there is to know of it (engine/exec.h), so nothing is stored,
 * and a daemon that comes later finds it. */

static void exec_of(const char *session_id, char ret[ID_SIZE])
{
    (void)snprintf(ret, ID_SIZE, "ex_%.24s", session_id + strlen("term_"));
}

static void session_of(const char *exec_id, char ret[ID_SIZE])
{
    (void)snprintf(ret, ID_SIZE, "term_%.24s", exec_id + strlen("ex_"));
}

static int not_found(const char *session_id, struct err *err)
{
    return err_code(err, ERR_NOT_FOUND, "terminal_not_found", "Terminal session not found: %.60s",
                    session_id);
}

/* An exec that is not there is a session that is not. */
static int explain(const char *session_id, struct err *err)
{
    if (err && err->code && strcmp(err->code, "exec_not_found") == 0)
        return not_found(session_id, err);
    return -1;
}

/* The exec of the session that the path names. */
static int in_session(const struct call *call, char ret_exec[ID_SIZE], struct err *err)
{
    const char *session_id = in_str(call, "sessionId");

    if (!id_valid(session_id, "term"))
        return not_found(session_id, err);
    exec_of(session_id, ret_exec);
    return 0;
}

/* Takes info, an ExecInfo. NULL when it is not on a terminal, or in the background. */
static json_t *session_json(const struct call *call, json_t *info)
{
    static const char *const same[] = {"cols",       "rows", "exitCode", "reason",
                                       "finishedAt", "oom",  "message"};
    const char *exec_id = json_string_value(json_object_get(info, "id"));
    json_t *o = NULL;
    char id[ID_SIZE];

    if (json_is_true(json_object_get(info, "tty")) && id_valid(exec_id, "ex")) {
        session_of(exec_id, id);
        o = json_pack(
            "{s:s, s:s, s:s, s:O, s:s, s:s, s:O}", "sessionId", id, "sandboxId", in_id(call),
            "execId", exec_id, "shell", json_object_get(info, "command"), "status",
            json_is_true(json_object_get(info, "running")) ? "running" : "exited", "backend",
            call->about->runtime, "createdAt", json_object_get(info, "startedAt"));
        for (size_t i = 0; i < ARRAY_LEN(same); i++)
            if (json_object_get(info, same[i]))
                (void)json_object_set(o, same[i], json_object_get(info, same[i]));
    }
    json_decref(info);
    return o;
}

static int look(struct call *call, const char *exec_id, json_t **ret, struct err *err)
{
    const char *session_id = in_str(call, "sessionId");
    json_t *info;

    if (engine_exec_look(call->engine, in_id(call), exec_id, &info, err) < 0)
        return explain(session_id, err);
    *ret = session_json(call, info);
    return *ret ? 0 : not_found(session_id, err);
}

/* ---- a new one ---- */

struct create_task {
    struct task task;
    struct exec *exec;
    char sandbox_id[ID_SIZE], shell[32];
    json_int_t cols, rows;
    bool record;
};

static void create_free(struct task *task)
{
    struct create_task *t = (struct create_task *)task;

    engine_exec_close(t->exec); /* it goes on */
    free(t);
}

static void set_wait(struct task *task, const struct exec *exec)
{
    struct exec_wait wait;

    engine_exec_wait(exec, &wait);
    task_wait(task, &wait);
}

static json_t *created_json(const struct call *call, const struct create_task *t)
{
    const char *exec_id = engine_exec_id(t->exec);
    char id[ID_SIZE];

    session_of(exec_id, id);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:I, s:b, s:o}", "sessionId", id,
                     "sandboxId", t->sandbox_id, "execId", exec_id, "cols", t->cols, "rows",
                     t->rows, "shell", t->shell, "status", "running", "backend",
                     call->about->runtime, "createdAt", (json_int_t)now_ms(), "recorded",
                     (int)engine_exec_is_recorded(t->exec), "channel",
                     channel_new(t->sandbox_id, exec_id, call->caller->token_id));
}

static int create_step(struct task *task, struct call *call, struct err *err)
{
    struct create_task *t = (struct create_task *)task;
    struct exec_output out;
    int r = engine_exec_next(t->exec, &out, err);

    if (r < 0)
        return -1;
    if (r == 0) {
        set_wait(task, t->exec);
        return TASK_WAITS;
    }
    if (t->record && !engine_exec_is_recorded(t->exec)) {
        engine_exec_signal(t->exec, SIGKILL); /* nobody would know that it runs */
        return err_code(err, ERR_LIMIT, "no_space",
                        "the sandbox's disk has no room for a recording; remove files");
    }
    call->out = created_json(call, t);
    /* Before it is told of: who comes to it at once must not find us there. */
    engine_exec_close(t->exec);
    t->exec = NULL;
    return TASK_DONE;
}

static const struct task_ops create_ops = {.step = create_step, .free = create_free};

static const char *const shells[] = {"/bin/sh", "/bin/bash", "/bin/zsh", "/bin/ash", NULL};

static int check_shell(const char *shell, struct err *err)
{
    for (const char *const *s = shells; *s; s++)
        if (strcmp(*s, shell) == 0)
            return 0;
    return err_code(err, ERR_FORBIDDEN, "shell_not_allowed",
                    "shell must be /bin/sh, /bin/bash, /bin/zsh or /bin/ash");
}

static int create(struct call *call, struct err *err)
{
    const char *shell = in_str(call, "shell");
    char *argv[] = {(char *)(uintptr_t)shell, NULL};
    struct exec_request req = {
        .argv = argv,
        .cwd = in_str(call, "cwd"),
        .user = in_str(call, "user"),
        .env = in_env(call),
        .tty = true,
        .want_stdin = true,
        .attached = true,
        .detach = true,
        .record = in_bool(call, "record"),
        .rows = (uint32_t)in_int(call, "rows"),
        .cols = (uint32_t)in_int(call, "cols"),
    };
    struct create_task *t;
    struct exec *exec;

    if (check_shell(shell, err) < 0 ||
        engine_exec_open(call->engine, in_id(call), &req, &exec, err) < 0)
        return -1;
    t = xcalloc(1, sizeof(*t));
    t->task.ops = &create_ops;
    t->exec = exec;
    t->cols = in_int(call, "cols");
    t->rows = in_int(call, "rows");
    t->record = req.record;
    (void)snprintf(t->shell, sizeof(t->shell), "%s", shell);
    (void)snprintf(t->sandbox_id, sizeof(t->sandbox_id), "%s", in_id(call));
    set_wait(&t->task, exec);
    call->task = &t->task;
    return 0;
}

/* ---- those that are there ---- */

static int list(struct call *call, struct err *err)
{
    json_t *all, *info, *sessions = json_array();
    size_t i;

    if (engine_exec_list(call->engine, in_id(call), &all, err) < 0) {
        json_decref(sessions);
        return -1;
    }
    json_array_foreach(json_object_get(all, "execs"), i, info)
    {
        json_t *session = session_json(call, json_incref(info));

        if (session)
            (void)json_array_append_new(sessions, session);
    }
    json_decref(all);
    call->out = json_pack("{s:o}", "sessions", sessions);
    return 0;
}

static int get(struct call *call, struct err *err)
{
    char exec_id[ID_SIZE];

    return in_session(call, exec_id, err) < 0 ? -1 : look(call, exec_id, &call->out, err);
}

static int resize(struct call *call, struct err *err)
{
    const char *session_id = in_str(call, "sessionId");
    json_t *session = NULL, *info = NULL;
    char exec_id[ID_SIZE];
    bool running;

    if (in_session(call, exec_id, err) < 0 || look(call, exec_id, &session, err) < 0)
        return -1;
    json_decref(session);
    if (engine_exec_set_size(call->engine, in_id(call), exec_id, (uint32_t)in_int(call, "rows"),
                             (uint32_t)in_int(call, "cols"), &info, err) < 0)
        return explain(session_id, err);
    running = json_is_true(json_object_get(info, "running"));
    json_decref(info);
    if (!running)
        return err_code(err, ERR_CONFLICT, "terminal_exited", "terminal session %s has ended",
                        session_id);
    call->out = json_pack("{s:I, s:I}", "cols", in_int(call, "cols"), "rows", in_int(call, "rows"));
    return 0;
}

static int close_session(struct call *call, struct err *err)
{
    const char *session_id = in_str(call, "sessionId");
    json_t *session = NULL, *info = NULL;
    char exec_id[ID_SIZE];

    if (in_session(call, exec_id, err) < 0 || look(call, exec_id, &session, err) < 0)
        return -1;
    json_decref(session);
    if (engine_exec_end(call->engine, in_id(call), exec_id, &info, err) < 0)
        return explain(session_id, err);
    json_decref(info);
    call->out = json_pack("{s:s}", "closed", session_id);
    return 0;
}

static int recording(struct call *call, struct err *err)
{
    const char *session_id = in_str(call, "sessionId");
    char exec_id[ID_SIZE];

    if (in_session(call, exec_id, err) < 0)
        return -1;
    return asciicast_send(call, in_id(call), exec_id, err) < 0 ? explain(session_id, err) : 0;
}

/* ---- its bytes ---- */

struct view_task {
    struct task task;
    struct exec *exec; /* NULL = the channel is another's */
    char session_id[ID_SIZE];
    char token_id[ID_SIZE]; /* of a channel: its maker's, or "" */
    struct services *services;
    bool plain;     /* a channel: bytes only */
    bool shows;     /* what comes out */
    bool types;     /* what comes in */
    bool has_shown; /* some of it */
    uint32_t rows, cols;
};

static void view_free(struct task *task)
{
    struct view_task *t = (struct view_task *)task;

    engine_exec_close(t->exec);
    free(t);
}

/* Who has a channel's key has no token that the face could look at: the maker's counts. */
static int check_maker(const struct view_task *t, struct err *err)
{
    if (caller_token_live(t->services, t->token_id))
        return 0;
    return err_code(err, ERR_FORBIDDEN, "invalid_token", "the token was revoked or has expired");
}

static void set_view_wait(struct view_task *t)
{
    int64_t look = mono_ns() + CALLER_LIVE_NS;

    set_wait(&t->task, t->exec);
    if (t->token_id[0] && (!t->task.until_ns || t->task.until_ns > look))
        t->task.until_ns = look;
    t->task.held = engine_exec_held(t->exec);
    t->task.takes_input = t->task.held == 0;
}

static int on_started(struct view_task *t, struct call *call, struct err *err)
{
    if (t->types && t->rows > 0 && t->cols > 0)
        engine_exec_resize(t->exec, t->rows, t->cols);
    if (t->plain)
        return sink_event(call, NULL, err);
    return sink_event(call,
                      json_pack("{s:s, s:s, s:I, s:b}", "type", "ready", "sessionId", t->session_id,
                                "cursor", (json_int_t)engine_exec_cursor(t->exec), "readOnly",
                                (int)!t->types),
                      err);
}

/* What is missing at the start is old; later on it is this caller that was too slow, and what its
 * screen shows is of no use any more. */
static int on_lost(struct view_task *t, struct call *call, uint64_t lost, struct err *err)
{
    if (!t->shows)
        return 0;
    if (t->has_shown)
        return err_code(err, ERR_LIMIT, "too_slow",
                        "%llu bytes were dropped since they were not read in time; come back for "
                        "what is kept",
                        (unsigned long long)lost);
    if (t->plain)
        return 0;
    return sink_event(call,
                      json_pack("{s:s, s:I, s:I}", "type", "lost", "bytes", (json_int_t)lost,
                                "cursor", (json_int_t)engine_exec_cursor(t->exec)),
                      err);
}

static int on_end(struct view_task *t, struct call *call, const struct exec_output *out)
{
    call->out = json_pack("{s:s, s:i, s:s}", "type", "exit", "exitCode", out->exit_code, "reason",
                          out->reason);
    engine_exec_put_words(t->exec, call->out);
    return TASK_DONE;
}

static int on_output(struct view_task *t, struct call *call, const struct exec_output *out,
                     struct err *err)
{
    int r = 0;

    switch (out->what) {
    case EXEC_STARTED:
        r = on_started(t, call, err);
        break;
    case EXEC_STDOUT:
    case EXEC_STDERR:
        if (t->shows)
            r = sink_bytes(call, CHANNEL_STDOUT, out->data, out->len, err);
        t->has_shown = true;
        break;
    case EXEC_LOST:
        r = on_lost(t, call, out->lost, err);
        break;
    case EXEC_EXIT:
        return on_end(t, call, out);
    }
    return r < 0 ? -1 : TASK_AGAIN;
}

static int view_step(struct task *task, struct call *call, struct err *err)
{
    struct view_task *t = (struct view_task *)task;
    struct exec_output out;
    int r;

    if (!t->exec)
        return sink_event(call, NULL, err) < 0
                   ? -1
                   : err_code(err, ERR_CONFLICT, "channel_taken",
                              "somebody has this end of the channel already");
    if (check_maker(t, err) < 0)
        return -1;
    r = engine_exec_next(t->exec, &out, err);
    if (r < 0)
        return explain(t->session_id, err);
    set_view_wait(t);
    return r > 0 ? on_output(t, call, &out, err) : TASK_WAITS;
}

static int view_input(struct task *task, const struct input *in, struct err *err)
{
    struct view_task *t = (struct view_task *)task;

    if (!t->exec)
        return 0;
    if (check_maker(t, err) < 0)
        return -1;
    if (!in)
        engine_exec_flush(t->exec);
    else if (!t->types || (in->what == INPUT_STDIN && in->len == 0))
        return 0;
    else if (in->what == INPUT_STDIN)
        engine_exec_stdin(t->exec, in->data, in->len);
    else if (in->what == INPUT_RESIZE)
        engine_exec_resize(t->exec, in->first, in->second);
    else
        engine_exec_signal(t->exec, in->first);
    set_view_wait(t);
    return 0;
}

static const struct task_ops view_ops = {.step = view_step, .input = view_input, .free = view_free};

static struct view_task *view_new(struct call *call, const char *exec_id)
{
    struct view_task *t = xcalloc(1, sizeof(*t));

    t->task = (struct task){.ops = &view_ops, .fd = -1};
    t->services = call->services;
    session_of(exec_id, t->session_id);
    call->task = &t->task;
    return t;
}

static int view(struct call *call, struct err *err)
{
    bool types = !in_bool(call, "readOnly");
    char exec_id[ID_SIZE];
    struct view_task *t;
    struct exec *exec;

    if (in_session(call, exec_id, err) < 0 ||
        engine_exec_again(call->engine, in_id(call), exec_id, (uint64_t)in_int(call, "cursor"),
                          types ? EXEC_SHARES : EXEC_READS, &exec, err) < 0)
        return -1;
    t = view_new(call, exec_id);
    t->exec = exec;
    t->shows = true;
    t->types = types;
    t->rows = (uint32_t)in_int(call, "rows");
    t->cols = (uint32_t)in_int(call, "cols");
    set_view_wait(t);
    return 0;
}

/* Who has the key may come, so it needs no token. */
static int channel(struct call *call, struct err *err)
{
    bool writes = strcmp(in_str(call, "dir"), "write") == 0;
    struct channel_end end;
    struct view_task *t;

    if (channel_take(in_str(call, "channelId"), in_str(call, "key"), writes, &end, err) < 0)
        return -1;
    if (!caller_token_live(call->services, end.token_id))
        return err_code(err, ERR_NOT_FOUND, "channel_not_found",
                        "the token that this channel came with was revoked or has expired");
    t = view_new(call, end.exec_id);
    t->plain = true;
    t->shows = !writes;
    t->types = writes;
    t->task.takes_input = true;
    memcpy(t->token_id, end.token_id, ID_SIZE);
    if (end.taken) {
        t->task.until_ns = 1;
        return 0;
    }
    if (engine_exec_again(call->engine, end.sandbox_id, end.exec_id, 0,
                          writes ? EXEC_WRITES : EXEC_SHARES, &t->exec, err) < 0)
        return -1;
    set_view_wait(t);
    return 0;
}

/* ---- the rows ---- */

#define SIZE_FIELD(name, ...)                                                                      \
    {                                                                                              \
        name, FIELD_INT, .min = 1, .max = 65535, __VA_ARGS__, .help = "of the terminal"            \
    }

static const struct field create_fields[] = {
    SIZE_FIELD("cols", .preset = "80"),
    SIZE_FIELD("rows", .preset = "24"),
    {"shell", FIELD_STRING, .min = 1, .max = 255, .preset = "\"/bin/sh\"",
     .help = "/bin/sh, /bin/bash, /bin/zsh or /bin/ash"},
    {"cwd", FIELD_STRING, .optional = true, .min = 1, .max = PATH_BYTES_MAX,
     .help = "where it starts; the sandbox's workdir when absent"},
    {"env", FIELD_STRING_MAP, .optional = true, .max = ARG_BYTES_MAX,
     .help = "added to the sandbox's"},
    {"user", FIELD_STRING, .optional = true, .min = 1, .max = 64,
     .help = "name or uid, with :group or :gid; the image's"},
    {"record", FIELD_BOOL, .optional = true, .help = "write down what it shows, and when"},
    {0},
};

static const struct field resize_fields[] = {
    SIZE_FIELD("cols", .example = "120"),
    SIZE_FIELD("rows", .example = "40"),
    {0},
};

static const struct field view_fields[] = {
    {"cursor", FIELD_INT, .max = 9007199254740991, .preset = "0",
     .help = "where to begin: 0 is all that is kept, a number past the end only what is to come"},
    {"readOnly", FIELD_BOOL, .optional = true, .help = "look on: what is sent is not taken"},
    SIZE_FIELD("cols", .optional = true),
    SIZE_FIELD("rows", .optional = true),
    {0},
};

static const char *const directions[] = {"read", "write", NULL};

static const struct field channel_fields[] = {
    {"key", FIELD_STRING, .min = 1, .max = 64,
     .example = "\"3f6d2c1a-0b9e-4c7d-8a51-2e4f6a8c0b1d\"",
     .help = "access_key of the end that dir names"},
    {"dir", FIELD_STRING, .choices = directions, .example = "\"read\"",
     .help = "read what the terminal shows, or write what is typed"},
    {0},
};

#define ERRORS_TERMINAL ERRORS_AGENT " terminal_not_found no_space too_many_streams"

const struct function terminal_functions[] = {
    {"terminal::create", "POST", "/sandboxes/:sandboxId/terminal", create_fields, create, NULL,
     SCOPE_EXEC, .reach = REACH_SANDBOX, .flags = FUNCTION_MAKES | FUNCTION_WAITS,
     .rate = RATE_EXEC,
     .help = "Starts a shell on a terminal, which goes on until it exits or is closed",
     .gives = &terminal_shape, .errors = ERRORS_COMMAND " shell_not_allowed no_space"},
    {"terminal::list", "GET", "/sandboxes/:sandboxId/terminal", NULL, list, NULL, SCOPE_READ,
     .reach = REACH_SANDBOX, .help = "Lists terminals, also those of commands; the newest first",
     .gives = &terminal_list_shape, .errors = ERRORS_AGENT},
    {"terminal::get", "GET", "/sandboxes/:sandboxId/terminal/:sessionId", NULL, get, NULL,
     SCOPE_READ, .reach = REACH_SANDBOX, .help = "Shows a terminal", .gives = &terminal_shape,
     .errors = ERRORS_TERMINAL},
    {"terminal::resize", "POST", "/sandboxes/:sandboxId/terminal/:sessionId/resize", resize_fields,
     resize, NULL, SCOPE_EXEC, .reach = REACH_SANDBOX, .help = "Gives a terminal another size",
     .gives = &terminal_size_shape, .errors = ERRORS_TERMINAL " terminal_exited"},
    {"terminal::close", "DELETE", "/sandboxes/:sandboxId/terminal/:sessionId", NULL, close_session,
     NULL, SCOPE_EXEC, .reach = REACH_SANDBOX,
     .help = "Ends the shell of a terminal and all that it started",
     .gives = &terminal_closed_shape, .errors = ERRORS_TERMINAL},
    {"terminal::attach", "GET", "/sandboxes/:sandboxId/terminal/:sessionId/ws", view_fields, view,
     NULL, SCOPE_EXEC, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .answer = ANSWER_SOCKET,
     .help = "Shows a terminal and takes what is typed, over a WebSocket",
     .gives = &terminal_exit_shape, .events = &terminal_event_shape,
     .errors = ERRORS_TERMINAL " exec_attached upgrade_required bad_websocket"},
    {"terminal::recording", "GET", "/sandboxes/:sandboxId/terminal/:sessionId/recording", NULL,
     recording, NULL, SCOPE_READ, .reach = REACH_SANDBOX, .answer = ANSWER_CAST,
     .help = "What a terminal that is recorded has shown until now, as asciicast v2",
     .errors = ERRORS_TERMINAL " recording_not_found"},
    {"terminal::channel", "GET", "/ws/channels/:channelId", channel_fields, channel, NULL,
     SCOPE_NONE, .reach = REACH_ALL, .flags = FUNCTION_WAITS | FUNCTION_OPEN,
     .answer = ANSWER_SOCKET,
     .help = "One end of a terminal's channel, over a WebSocket; also without the prefix",
     .gives = &terminal_exit_shape,
     .errors = ERRORS_TERMINAL " channel_not_found upgrade_required bad_websocket"},
    {0},
};
