#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "functions/functions_internal.h"
#include "http/server.h"
#include "rest/sse.h"

/* What the input asks for; the strings belong to it, argv to the caller. */
static struct exec_request read_request(const struct call *call, char ***argv)
{
    const json_t *command = json_object_get(call->in, "command");
    struct exec_request req = {
        .command = json_string_value(command),
        .cwd = in_str(call, "cwd"),
        .user = in_str(call, "user"),
        .env = json_object_get(call->in, "env"),
        .timeout_ms = (uint64_t)ceil(in_number(call, "timeout") * 1000),
        .tty = in_bool(call, "tty"),
        .want_stdin = in_bool(call, "stdin"),
        .rows = (uint32_t)in_int(call, "rows"),
        .cols = (uint32_t)in_int(call, "cols"),
    };

    for (size_t i = 0; i < json_array_size(command); i++)
        *argv = strv_add(*argv, json_string_value(json_array_get(command, i)));
    req.argv = *argv;
    return req;
}

static bool client_gone(void *req)
{
    return http_client_gone(req);
}

static int run(struct call *call, struct err *err)
{
    auto_strv char **argv = NULL;
    struct exec_request req = read_request(call, &argv);

    return engine_exec_run(call->engine, in_id(call), &req, call->req ? http_req_fd(call->req) : -1,
                           call->req ? client_gone : NULL, call->req, &call->out, err);
}

/* One of the two output streams as events. */
static int send_text(struct sse *sse, const char *type, struct sse_text *text, const char *data,
                     size_t len, bool last)
{
    auto_buf struct buf clean = {0};

    buf_init(&clean, 3 * (len + sizeof(text->rest)));
    sse_text_add(text, data, len, last, &clean);
    if (clean.len == 0)
        return 0;
    return sse_send(sse, sse_output(type, clean.data, clean.len));
}

static int send_exit(struct sse *sse, struct sse_text text[2], const char *code)
{
    if (send_text(sse, "stdout", &text[0], "", 0, true) < 0 ||
        send_text(sse, "stderr", &text[1], "", 0, true) < 0 ||
        sse_send(sse, sse_output("exit", code, strlen(code))) < 0)
        return -1;
    sse_end(sse);
    return 0;
}

/* Passes one piece of output on: 1 = more to come, 0 = that was the exit, -1 = the client has gone.
 */
static int pass_output(struct sse *sse, struct sse_text text[2], struct exec_stream *x)
{
    struct exec_output out;
    struct err err = {0};
    char code[16];

    if (engine_exec_next(x, &out, &err) < 0) {
        const char *lost = "the sandbox ended before the command did";

        log_error("exec stream lost", "error", err.text);
        (void)sse_send(sse, sse_output("error", lost, strlen(lost)));
        return send_exit(sse, text, "-1");
    }
    switch (out.what) {
    case EXEC_STDOUT:
        return send_text(sse, "stdout", &text[0], out.data, out.len, false) < 0 ? -1 : 1;
    case EXEC_STDERR:
        return send_text(sse, "stderr", &text[1], out.data, out.len, false) < 0 ? -1 : 1;
    case EXEC_EXIT:
        break;
    }
    (void)snprintf(code, sizeof(code), "%d",
                   strcmp(out.reason, "timeout") == 0 ? -1 : out.exit_code);
    return send_exit(sse, text, code);
}

static int stream(struct call *call, struct err *err)
{
    auto_strv char **argv = NULL;
    struct exec_request req = read_request(call, &argv);
    struct sse_text text[2] = {0};
    struct exec_stream x;
    struct sse sse;
    int r;

    if (engine_exec_open(call->engine, in_id(call), &req, &x, err) < 0)
        return -1;
    r = sse_begin(&sse, call->req) < 0 ? -1 : 1;
    while (r > 0) {
        r = sse_wait(&sse, x.fd, -1);
        if (r > 0)
            r = pass_output(&sse, text, &x);
    }
    sse_done(&sse);
    engine_exec_close(&x); /* cancels what still runs, when the client left early */
    return 0;
}

static int attach(struct call *call, struct err *err)
{
    auto_strv char **argv = NULL;
    struct exec_request req = read_request(call, &argv);

    req.attached = true;
    return exec_attach(call, &req, err);
}

static int background(struct call *call, struct err *err)
{
    auto_strv char **argv = NULL;
    struct exec_request req = read_request(call, &argv);

    return engine_exec_background(call->engine, in_id(call), &req, &call->out, err);
}

static int background_status(struct call *call, struct err *err)
{
    return engine_background_status(call->engine, in_exec_id(call), &call->out, err);
}

static int background_logs(struct call *call, struct err *err)
{
    return engine_background_logs(call->engine, in_exec_id(call), (uint64_t)in_int(call, "cursor"),
                                  &call->out, err);
}

static int interrupt(struct call *call, struct err *err)
{
    if (engine_interrupt(call->engine, in_id(call), (uint32_t)in_int(call, "pid"), err) < 0)
        return -1;
    return reply_success(call);
}

#define COMMAND_FIELDS                                                                             \
    {"command",                                                                                    \
     FIELD_COMMAND,                                                                                \
     .min = 1,                                                                                     \
     .max = ARG_BYTES_MAX,                                                                         \
     .example = "\"echo hello\"",                                                                  \
     .help = "a string for the shell, or an array of arguments run as it is"},                     \
        {"cwd",                                                                                    \
         FIELD_STRING,                                                                             \
         .optional = true,                                                                         \
         .min = 1,                                                                                 \
         .max = PATH_BYTES_MAX,                                                                    \
         .help = "where it starts; the sandbox's workdir when absent"},                            \
        {"env", FIELD_STRING_MAP, .optional = true, .max = ARG_BYTES_MAX,                          \
         .help = "added to the sandbox's"},                                                        \
    {                                                                                              \
        "user", FIELD_STRING, .optional = true, .min = 1, .max = 64,                               \
                              .help = "name or uid, with :group or :gid; the image's"              \
    }

#define TIMEOUT_FIELD                                                                              \
    {                                                                                              \
        "timeout", FIELD_NUMBER,                                                                   \
            .optional = true, .max = 1e9,                                                          \
            .help = "seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT, more is cut to it"                \
    }

static const struct field run_fields[] = {COMMAND_FIELDS, TIMEOUT_FIELD, {0}};

static const struct field attach_fields[] = {
    COMMAND_FIELDS,
    {"timeout", FIELD_NUMBER, .optional = true, .max = 1e9, .help = "seconds; 0 or absent = none"},
    {"tty", FIELD_BOOL, .optional = true, .help = "run on a terminal; output is then one stream"},
    {"stdin", FIELD_BOOL, .optional = true, .help = "STDIN frames will come"},
    {"rows", FIELD_INT, .min = 1, .max = 65535, .preset = "24", .help = "of the terminal"},
    {"cols", FIELD_INT, .min = 1, .max = 65535, .preset = "80", .help = "of the terminal"},
    {0},
};

static const struct field background_fields[] = {
    COMMAND_FIELDS,
    {"timeout", FIELD_NUMBER, .optional = true, .max = 1e9, .help = "seconds; 0 or absent = none"},
    {0},
};

static const struct field logs_fields[] = {
    {"cursor", FIELD_INT, .max = 9007199254740991, .preset = "0",
     .help = "byte offset to read from: 0, then the cursor of the last answer"},
    {0},
};

static const struct field interrupt_fields[] = {
    {"pid", FIELD_INT, .optional = true, .min = 1, .max = PID_NUMBER_MAX,
     .help = "in the sandbox; every running command when absent"},
    {0},
};

const struct function exec_functions[] = {
    {"cmd::run", "POST", "/sandboxes/:sandboxId/exec", run_fields, run, "sandbox_exec", SCOPE_EXEC,
     .help = "Runs a command and waits for it", .gives = &exec_result_shape,
     .errors = ERRORS_COMMAND " command_timeout cancelled"},
    {"cmd::run_stream", "POST", "/sandboxes/:sandboxId/exec/stream", run_fields, stream, NULL,
     SCOPE_EXEC, .flags = FUNCTION_STREAM, .help = "Runs a command and streams its output",
     .events = &exec_event_shape, .errors = ERRORS_COMMAND},
    {"cmd::attach", "POST", "/sandboxes/:sandboxId/exec/attach", attach_fields, attach, NULL,
     SCOPE_EXEC, .flags = FUNCTION_UPGRADE,
     .help = "Runs a command with input, output and signals over an upgraded connection",
     .errors = ERRORS_COMMAND " upgrade_required"},
    {"cmd::background", "POST", "/sandboxes/:sandboxId/exec/background", background_fields,
     background, NULL, SCOPE_EXEC, .help = "Starts a command and leaves it running",
     .gives = &background_exec_shape, .errors = ERRORS_COMMAND " no_space conflict"},
    {"cmd::background_status", "GET", "/exec/background/:execId/status", NULL, background_status,
     NULL, SCOPE_READ, .help = "Shows a background command", .gives = &background_exec_shape,
     .errors = ERRORS_AGENT " exec_not_found log_not_found"},
    {"cmd::background_logs", "GET", "/exec/background/:execId/logs", logs_fields, background_logs,
     NULL, SCOPE_READ, .help = "Reads the output of a background command",
     .gives = &exec_logs_shape, .errors = ERRORS_AGENT " exec_not_found log_not_found"},
    {"cmd::interrupt", "POST", "/sandboxes/:sandboxId/exec/interrupt", interrupt_fields, interrupt,
     NULL, SCOPE_EXEC, .help = "Sends SIGINT", .gives = &success_shape, .errors = ERRORS_AGENT},
    {0},
};
