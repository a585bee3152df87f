#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/escape.h"
#include "cli/humantime.h"
#include "cli/iii_client.h"
#include "cli/sandbox_output.h"
#include "cli/ui.h"

#define EXEC_MS   86400000 /* the longest default that a daemon can have: it answers before that */
#define MORE_MS   10000    /* for the way there and back, and for output that is read slowly */
#define STDIN_MAX (8u << 20)
#define EXEC      "sandbox::exec"

/* ---- what is asked ---- */

/* As the program of iii it leaves out what has no '=', as that one does. */
static bool is_iii(void)
{
    return strcmp(program_invocation_short_name, "iii") == 0 ||
           strcmp(program_invocation_short_name, "iii-worker") == 0;
}

/* ["K=V", …] as iii takes it. K alone is this shell's, and one that it has not is left out. */
static json_t *env_list(char *const *given)
{
    json_t *list = json_array();

    for (; given && *given; given++) {
        const char *value = strchr(*given, '=') || is_iii() ? NULL : getenv(*given);
        auto_free char *pair = value ? xasprintf("%s=%s", *given, value) : xstrdup(*given);

        if (strchr(pair, '='))
            (void)json_array_append_new(list, json_string(pair));
    }
    return list;
}

static json_t *create_data(const struct args *args)
{
    json_t *data = json_pack("{s:s, s:I, s:I}", "image", args->words[0], "cpus",
                             (json_int_t)args_number(args, "cpus", 1), "memory_mb",
                             (json_int_t)args_number(args, "memory", 512));

    if (!data)
        return NULL;
    if (args_has(args, "idle-timeout"))
        (void)json_object_set_new(data, "idle_timeout_secs",
                                  json_integer((json_int_t)args_number(args, "idle-timeout", 0)));
    json_put_text(data, "name", args_text(args, "name"));
    if (args_has(args, "network"))
        (void)json_object_set_new(data, "network", json_true());
    if (args_list(args, "env"))
        (void)json_object_set_new(data, "env", env_list(args_list(args, "env")));
    return data;
}

/* A command whose name has a space in it would be taken for a line. */
static void put_command(json_t *data, const struct args *args)
{
    if (strpbrk(args->rest[0], " \t\r\n")) {
        (void)json_object_set_new(data, "argv", json_of_strings(args->rest));
        return;
    }
    json_put_text(data, "cmd", args->rest[0]);
    (void)json_object_set_new(data, "args", json_of_strings(args->rest + 1));
}

static int put_stdin(json_t *data, struct err *err)
{
    auto_buf struct buf in = {0};
    auto_buf struct buf text = {0};

    buf_init(&in, STDIN_MAX);
    buf_init(&text, 2 * STDIN_MAX);
    for (;;) {
        char *room = buf_room(&in, 1);
        size_t want = room && in.max - in.len < 65536 ? in.max - in.len : 65536;
        ssize_t n;

        room = room ? buf_room(&in, want) : NULL;
        if (!room)
            return err_set(err, ERR_TOO_LARGE, "standard input is larger than %u MiB",
                           STDIN_MAX >> 20);
        n = read_some(STDIN_FILENO, room, want);
        if (n < 0)
            return err_sys(err, (int)-n, "read standard input");
        if (n == 0)
            break;
        in.len += (size_t)n;
    }
    (void)base64_encode(&text, in.data ? in.data : "", in.len);
    json_put_text(data, "stdin", text.data ? text.data : "");
    return 0;
}

/* What exec is asked for; id NULL = not known yet, timeout_ms 0 = nothing was said. */
static int exec_data(const struct args *args, const char *id, int64_t timeout_ms, json_t **ret,
                     struct err *err)
{
    json_t *data = json_object();

    json_put_text(data, "sandbox_id", id);
    put_command(data, args);
    json_put_text(data, "workdir", args_text(args, "workdir"));
    if (timeout_ms > 0)
        (void)json_object_set_new(data, "timeout_ms", json_integer(timeout_ms));
    if (strcmp(args->command->name, "sandbox exec") == 0 && args_list(args, "env"))
        (void)json_object_set_new(data, "env", env_list(args_list(args, "env")));
    if (args_has(args, "interactive") && put_stdin(data, err) < 0) {
        json_decref(data);
        return -1;
    }
    *ret = data;
    return 0;
}

static int read_timeout(const struct args *args, int64_t *ret)
{
    const char *text = args_text(args, "timeout");

    *ret = 0;
    if (!text || (humantime_ms(text, ret) == 0 && *ret > 0))
        return STATUS_OK;
    return ui_usage(args, "--timeout must be a time such as 30s, 5m or 500ms, not \"%.40s\"", text);
}

static int need_command(const struct args *args)
{
    if (args->n_rest == 0)
        return ui_usage(args, "a command is needed, after \"--\": cay %s %s -- COMMAND",
                        args->command->name, args->n_words ? args->words[0] : "ID");
    for (size_t i = 0; i < args->n_rest; i++)
        if (!utf8_valid(args->rest[i], strlen(args->rest[i])))
            return ui_usage(args, "the command is not valid UTF-8 text");
    return STATUS_OK;
}

/* ---- what is shown ---- */

static void print_output(const struct args *args, const json_t *result, const char *key, FILE *out,
                         int fd)
{
    const json_t *value = json_object_get(result, key);
    size_t len = json_string_length(value);
    const char *text = json_string_value(value);
    auto_buf struct buf shown = {0};
    struct escape state = {0};

    if (!text)
        return;
    buf_init(&shown, 4 * len + 16);
    if (isatty(fd) == 1 && !args_has(args, "raw")) {
        escape_add(&state, ESCAPE_OUTPUT, text, len, &shown);
        escape_end(&state, &shown);
        text = shown.data ? shown.data : "";
        len = shown.len;
    }
    errno = 0;
    (void)fwrite(text, 1, len, out);
    ui_flush(); /* before what goes to stderr */
}

/* The exit status that the result of a command means. streams: has printed what came before; NULL =
 * the result has all output. */
static int show_result(const struct args *args, const struct sandbox_output *streams,
                       const json_t *result)
{
    const json_t *code = json_object_get(result, "exit_code");

    if (args_has(args, "json")) {
        ui_json(result);
    } else {
        if (!streams || !sandbox_output_came(streams, OUTPUT_STDOUT))
            print_output(args, result, "stdout", stdout, STDOUT_FILENO);
        if (!streams || !sandbox_output_came(streams, OUTPUT_STDERR))
            print_output(args, result, "stderr", stderr, STDERR_FILENO);
    }
    if (json_is_true(json_object_get(result, "timed_out")))
        return STATUS_TIMEOUT;
    return json_is_integer(code) ? (int)(json_integer_value(code) & 0xff) : STATUS_FAILED;
}

/* ---- create, exec, list, stop ---- */

static int create(struct iii_client *c, json_t *data, json_t **ret, struct err *err)
{
    json_t *made = NULL;

    if (iii_client_call(c, "sandbox::create", NULL, data, III_CREATE_MS, &made, err) < 0)
        return -1;
    if (!*json_text(made, "sandbox_id")) {
        json_decref(made);
        return err_set(err, ERR_INTERNAL, "%.100s made a sandbox and does not say which", c->url);
    }
    *ret = made;
    return 0;
}

/* For people; a script that takes the id from stdout sees nothing of it. */
static void tell_ready(int64_t start_ns)
{
    if (isatty(STDERR_FILENO) == 1 && ui_stdout_is_terminal())
        (void)fprintf(stderr, "\xe2\x9c\x93 sandbox ready in %.1fs\n",
                      (double)(mono_ns() - start_ns) / 1e9);
}

int cmd_sandbox_create(struct args *args)
{
    auto_iii struct iii_client c = {.stop_fd = -1};
    auto_free char *id = NULL;
    json_t *data = create_data(args), *made = NULL;
    int64_t start = mono_ns();
    struct err err = {0};
    int status;

    if (!data)
        return ui_usage(args, "the name of the image is not valid UTF-8 text");
    status = iii_client_start(&c, args, -1);
    if (status != STATUS_OK) {
        json_decref(data);
        return status;
    }
    if (create(&c, data, &made, &err) < 0)
        return iii_client_fail(&c, &err);
    tell_ready(start);
    id = escape_text(ESCAPE_CELL, json_text(made, "sandbox_id"));
    if (args_has(args, "json"))
        ui_json(made);
    else
        printf("%s\n", id);
    json_decref(made);
    return STATUS_OK;
}

/* A reader of our output that has gone ends the command, as in a pipeline. */
static int output_status(int error)
{
    if (error == EPIPE)
        return STATUS_SIGNAL + SIGPIPE;
    ui_warn("cannot write the output: %s", strerror(error));
    return STATUS_FAILED;
}

/* Takes data. */
static int exec_streams(struct iii_client *c, struct sandbox_output *streams, json_t *data,
                        int64_t limit_ms, json_t **ret, struct err *err)
{
    if (!streams)
        return iii_client_call(c, EXEC, NULL, data, limit_ms, ret, err);
    if (iii_client_ask(c, EXEC, NULL, data, err) < 0)
        return -1;
    return sandbox_output_wait(streams, EXEC, limit_ms, ret, err) < 0 ? -1 : 0;
}

/* A command that succeeded has failed when its output is not whole. */
static int warn_if_cut(const struct sandbox_output *streams, int status)
{
    if (!streams || !sandbox_output_is_cut(streams))
        return status;
    ui_warn("some of the output is missing: its connection broke off");
    return status == STATUS_OK ? STATUS_FAILED : status;
}

/* Prints the output as it comes, or with --json the result with all output at the end. Takes data.
 */
static int exec(struct iii_client *c, const struct args *args, json_t *data, int64_t timeout_ms,
                struct err *err)
{
    int64_t limit_ms = (timeout_ms ? timeout_ms : EXEC_MS) + MORE_MS;
    struct sandbox_output *streams = NULL;
    json_t *result = NULL;
    int status = -1;

    if (!args_has(args, "json"))
        streams = sandbox_output_open(c, args_has(args, "raw"), data, err);
    if (!streams && err->kind != ERR_NONE)
        json_decref(data);
    else if (exec_streams(c, streams, data, limit_ms, &result, err) == 0)
        status = warn_if_cut(streams, show_result(args, streams, result));
    else if (streams && sandbox_output_error(streams))
        status = output_status(sandbox_output_error(streams));
    json_decref(result);
    sandbox_output_free(streams);
    return status;
}

int cmd_sandbox_exec(struct args *args)
{
    auto_iii struct iii_client c = {.stop_fd = -1};
    json_t *data = NULL;
    struct err err = {0};
    int64_t timeout_ms;
    int status = need_command(args);

    if (status == STATUS_OK)
        status = read_timeout(args, &timeout_ms);
    if (status != STATUS_OK)
        return status;
    if (exec_data(args, args->words[0], timeout_ms, &data, &err) < 0)
        return ui_usage(args, "%s", err.text);
    status = iii_client_start(&c, args, -1);
    if (status != STATUS_OK) {
        json_decref(data);
        return status;
    }
    status = exec(&c, args, data, timeout_ms, &err);
    return status < 0 ? iii_client_fail(&c, &err) : status;
}

static void print_list(const json_t *sandboxes)
{
    const json_t *s;
    size_t i;

    printf("%-36s  %-10s  %8s  %s\n", "SANDBOX_ID", "IMAGE", "AGE_SECS", "NAME");
    json_array_foreach(sandboxes, i, s)
    {
        auto_free char *id = escape_text(ESCAPE_CELL, json_text(s, "sandbox_id")),
                       *image = escape_text(ESCAPE_CELL, json_text(s, "image")),
                       *name = escape_text(ESCAPE_CELL, json_text(s, "name"));

        printf("%-36s  %-10s  %8lld  %s\n", id, image, (long long)json_int(s, "age_secs"), name);
    }
}

int cmd_sandbox_list(struct args *args)
{
    auto_iii struct iii_client c = {.stop_fd = -1};
    json_t *answer = NULL;
    struct err err = {0};
    int status = iii_client_start(&c, args, -1);

    if (status != STATUS_OK)
        return status;
    if (iii_client_call(&c, "sandbox::list", NULL, json_object(), III_CALL_MS, &answer, &err) < 0)
        return iii_client_fail(&c, &err);
    if (args_has(args, "json"))
        ui_json(answer);
    else
        print_list(json_object_get(answer, "sandboxes"));
    json_decref(answer);
    return STATUS_OK;
}

static int stop(struct iii_client *c, const char *id, json_t **ret, struct err *err)
{
    json_t *data = json_pack("{s:s, s:b}", "sandbox_id", id, "wait", 1);

    if (!data)
        return err_set(err, ERR_INVALID, "the id is not valid UTF-8 text");
    return iii_client_call(c, "sandbox::stop", NULL, data, III_CALL_MS, ret, err);
}

int cmd_sandbox_stop(struct args *args)
{
    auto_iii struct iii_client c = {.stop_fd = -1};
    json_t *answer = NULL;
    struct err err = {0};
    int status = iii_client_start(&c, args, -1);

    if (status != STATUS_OK)
        return status;
    if (stop(&c, args->words[0], &answer, &err) < 0)
        return iii_client_fail(&c, &err);
    if (args_has(args, "json"))
        ui_json(answer);
    else
        printf("stopped %s\n", args->words[0]);
    json_decref(answer);
    return STATUS_OK;
}

/* ---- run ---- */

struct run {
    const struct args *args;
    struct iii_client client;
    sigset_t before;
    int signal_fd, signal;
    int64_t timeout_ms;
    json_t *data; /* that the command is run with, but for the sandbox */
    char *id;     /* of what was made; NULL = nothing */
};

/* The first signal ends what waits, so that the sandbox goes too; the next one does what it always
 * does. */
static void catch_signals(struct run *run)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, &run->before);
    run->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The one that came; 0 = none did. */
static int caught_signal(int fd)
{
    struct signalfd_siginfo info;

    return read_some(fd, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}

static void let_signals(struct run *run)
{
    if (run->signal_fd < 0)
        return;
    run->signal = caught_signal(run->signal_fd);
    close_fd(&run->signal_fd);
    run->client.stop_fd = -1;
    (void)sigprocmask(SIG_SETMASK, &run->before, NULL);
}

static int run_create(struct run *run, struct err *err)
{
    json_t *made = NULL;
    int r = create(&run->client, create_data(run->args), &made, err);

    if (r < 0 && err->code && strcmp(err->code, "cancelled") == 0) {
        /* It is under way and cannot be called back: wait for what it is called. */
        let_signals(run);
        (void)fprintf(stderr, "stopping\n");
        (void)iii_client_answer(&run->client, III_CREATE_MS, &made, NULL);
    }
    if (*json_text(made, "sandbox_id"))
        run->id = xstrdup(json_text(made, "sandbox_id"));
    json_decref(made);
    return r;
}

static int run_all(struct run *run, struct err *err)
{
    if (run_create(run, err) < 0)
        return -1;
    json_put_text(run->data, "sandbox_id", run->id);
    return exec(&run->client, run->args, json_incref(run->data), run->timeout_ms, err);
}

static void run_stop(struct run *run)
{
    struct err err = {0};

    if (run->id && stop(&run->client, run->id, NULL, &err) < 0)
        ui_warn("cannot stop %s: %s; it goes when it has been idle for long enough", run->id,
                err.text);
    free(run->id);
}

int cmd_sandbox_run(struct args *args)
{
    struct run run = {.args = args, .signal_fd = -1};
    struct err err = {0};
    int status = need_command(args);

    if (status == STATUS_OK)
        status = read_timeout(args, &run.timeout_ms);
    if (status == STATUS_OK && !utf8_valid(args->words[0], strlen(args->words[0])))
        status = ui_usage(args, "the name of the image is not valid UTF-8 text");
    if (status != STATUS_OK)
        return status;
    /* Standard input first: while it is waited for nobody looks at signals, and no sandbox has to
     * wait with us. */
    if (exec_data(args, NULL, run.timeout_ms, &run.data, &err) < 0)
        return ui_usage(args, "%s", err.text);
    catch_signals(&run);
    status = iii_client_start(&run.client, args, run.signal_fd);
    if (status == STATUS_OK) {
        status = run_all(&run, &err);
        let_signals(&run);
        if (status < 0 && !run.signal)
            status = iii_client_fail(&run.client, &err);
        run_stop(&run);
    }
    let_signals(&run);
    iii_client_close(&run.client);
    json_decref(run.data);
    return run.signal ? STATUS_SIGNAL + run.signal : status;
}
