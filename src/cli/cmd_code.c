#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/env_args.h"
#include "cli/escape.h"
#include "cli/objects.h"
#include "cli/table.h"
#include "cli/ui.h"
#include "libcay/sse.h"

/* `cay code` and `cay context`: code in a sandbox's interpreters. */

#define CODE_MAX    (1u << 20)
#define PICTURE_MAX (8u << 20)

/* ---- the code ---- */

static int read_code(const char *path, struct buf *out, struct err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    char piece[65536];
    ssize_t n = 0;
    int r = 0;

    if (fd < 0)
        return err_set(err, ERR_INVALID, "%.120s cannot be read: %s", path, strerror(errno));
    while (r == 0 && (n = read_some(fd, piece, sizeof(piece))) > 0)
        if (buf_add(out, piece, (size_t)n) < 0)
            r = err_set(err, ERR_INVALID, "%.120s is longer than 1 MiB", path);
    if (n < 0)
        r = err_set(err, ERR_INVALID, "%.120s cannot be read: %s", path, strerror((int)-n));
    if (!is_stdin)
        (void)close(fd);
    if (r == 0 && !utf8_valid(out->data ? out->data : "", out->len))
        r = err_set(err, ERR_INVALID, "%.120s is no text in UTF-8", path);
    return r;
}

/* By the end of its name; NULL = it does not say. */
static const char *language_of(const char *path)
{
    static const struct {
        const char *end, *language;
    } ends[] = {{".py", "python"},     {".js", "javascript"}, {".mjs", "javascript"},
                {".ts", "typescript"}, {".go", "go"},         {".sh", "bash"}};

    for (size_t i = 0; path && i < ARRAY_LEN(ends); i++)
        if (str_ends(path, ends[i].end))
            return ends[i].language;
    return NULL;
}

static int put_env(const struct args *args, json_t *body, struct err *err)
{
    json_t *env = NULL;

    if (env_read_args(args, &env, err) < 0)
        return -1;
    if (env)
        (void)json_object_set_new(body, "env", env);
    return 0;
}

static int make_body(const struct args *args, json_t **ret, struct err *err)
{
    const char *path = args->n_words > 1 ? args->words[1] : "-";
    const char *code = args_text(args, "code"), *language = args_text(args, "language");
    auto_buf struct buf text = {0};
    json_t *body;

    buf_init(&text, CODE_MAX);
    if (!code && read_code(path, &text, err) < 0)
        return -1;
    if (!language && !code)
        language = language_of(path);
    body = json_pack("{s:s, s:s*, s:s*, s:s*, s:s*}", "code",
                     code        ? code
                     : text.data ? text.data
                                 : "",
                     "language", language, "contextId", args_text(args, "context"), "cwd",
                     args_text(args, "workdir"), "user", args_text(args, "user"));
    if (args_has(args, "timeout"))
        (void)json_object_set_new(body, "timeout", json_real(args_number(args, "timeout", 0)));
    if (put_env(args, body, err) < 0) {
        json_decref(body);
        return -1;
    }
    *ret = body;
    return 0;
}

/* ---- what comes ---- */

struct shown {
    const struct args *args;
    struct escape streams[2];
    unsigned pictures;
    bool ended; /* the code, whose status it is */
    int status;
};

static void print_text(struct shown *s, bool is_error, const char *text, size_t len)
{
    FILE *out = is_error ? stderr : stdout;
    auto_buf struct buf clean = {0};

    if (isatty(fileno(out))) {
        buf_init(&clean, 8 * len + 64);
        escape_add(&s->streams[is_error], ESCAPE_OUTPUT, text, len, &clean);
        (void)fwrite(clean.data, 1, clean.len, out);
    } else {
        (void)fwrite(text, 1, len, out);
    }
    (void)fflush(out);
}

static int save(struct shown *s, const char *dir, const json_t *result, const char *end,
                struct err *err)
{
    const json_t *data = json_object_get(result, "data");
    auto_free char *path = xasprintf("%s/result-%u.%s", dir, ++s->pictures, end);
    auto_buf struct buf bytes = {0};
    auto_close int fd = -1;
    bool is_svg = strcmp(end, "svg") == 0;

    buf_init(&bytes, PICTURE_MAX);
    if (!is_svg && base64_decode(&bytes, json_string_value(data), json_string_length(data)) < 0)
        return err_set(err, ERR_INTERNAL, "the daemon sent a picture that is none");
    if (is_svg)
        (void)buf_add(&bytes, json_string_value(data), json_string_length(data));
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 || write_all(fd, bytes.data, bytes.len) < 0)
        return err_set(err, ERR_INVALID, "%.120s cannot be written: %s", path, strerror(errno));
    (void)fprintf(stderr, "%s\n", path);
    return 0;
}

/* Of each value its text; of pictures the name of the file that they are saved to. */
static int print_result(struct shown *s, const json_t *result, struct err *err)
{
    const char *mime = json_text(result, "mime"), *dir = args_text(s->args, "save");
    const json_t *data = json_object_get(result, "data");

    if (strcmp(mime, "text/plain") == 0) {
        print_text(s, false, json_string_value(data), json_string_length(data));
        print_text(s, false, "\n", 1);
        return 0;
    }
    if (!json_is_string(data) || !str_starts(mime, "image/"))
        return 0;
    if (!dir) {
        ui_warn("a picture (%.40s); --save DIR keeps such", mime);
        return 0;
    }
    return save(s, dir, result,
                strcmp(mime, "image/svg+xml") == 0 ? "svg"
                : strcmp(mime, "image/png") == 0   ? "png"
                                                   : "jpg",
                err);
}

static int take_event(struct shown *s, const struct api *api, const json_t *event, struct err *err)
{
    const char *what = json_text(event, "event");
    const json_t *text = json_object_get(event, "text");

    if (strcmp(what, "stdout") == 0 || strcmp(what, "stderr") == 0) {
        print_text(s, strcmp(what, "stderr") == 0, json_string_value(text),
                   json_string_length(text));
    } else if (strcmp(what, "result") == 0) {
        return print_result(s, json_object_get(event, "result"), err);
    } else if (strcmp(what, "done") == 0) {
        s->ended = true;
        s->status = (int)json_int(json_object_get(event, "execution"), "exitCode");
    } else if (strcmp(what, "error") == 0) {
        return api_refuse(api, event, 0, err);
    }
    return 0;
}

static int follow(struct api *api, struct shown *s, struct err *err)
{
    struct sse_reader reader;
    json_t *event;
    int r = 1;

    sse_attach(&reader, api);
    /* Whoever read our output has gone: the code goes too, when we hang up. */
    while (!ui_output_failed() && (r = sse_next(&reader, &event, err)) > 0) {
        r = take_event(s, api, event, err);
        json_decref(event);
        if (r < 0)
            break;
    }
    sse_close(&reader);
    if (r == 0 && !s->ended && !ui_output_failed())
        return err_set(err, ERR_UNAVAILABLE, "the daemon ended before the code did");
    return r;
}

static int send_code(struct api *api, const char *id, const json_t *body, struct err *err)
{
    auto_free char *path = xasprintf("/sandbox/sandboxes/%s/interpret/execute", id);
    auto_free char *text = json_dumps(body, JSON_COMPACT);
    struct http_response response;
    int r;

    http_client_accept(api->http, "text/event-stream");
    r = http_client_send(api->http, "POST", path, "application/json", text, strlen(text), &response,
                         err);
    http_client_accept(api->http, NULL);
    return r < 0 ? api_explain(api, err) : api_check(api, &response, err);
}

/* As of `cay exec`. */
static int fail(const struct err *err)
{
    int status = ui_fail(err);

    if (status != STATUS_FAILED)
        return status;
    return strcmp(api_last_code(), "command_timeout") == 0 ? STATUS_TIMEOUT : STATUS_CAY;
}

static int run_as_json(struct api *api, const char *id, json_t *body, struct err *err)
{
    json_t *answer = NULL;
    int status;

    if (api_call(api, "POST", body, &answer, err, "/sandboxes/%s/interpret/execute", id) < 0)
        return fail(err);
    ui_json(answer);
    status = (int)json_int(answer, "exitCode");
    json_decref(answer);
    return status;
}

int cmd_code(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct shown s = {.args = args};
    struct err err = {0};
    json_t *body = NULL;
    int r;

    if (args_has(args, "code") && args->n_words > 1)
        return ui_usage(args, "code needs --code or a file, not both");
    if (make_body(args, &body, &err) < 0)
        return ui_usage(args, "%s", err.text);
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0) {
        json_decref(body);
        return fail(&err);
    }
    if (args_has(args, "json"))
        return run_as_json(&api, id, body, &err);
    r = send_code(&api, id, body, &err);
    json_decref(body);
    if (r < 0 || follow(&api, &s, &err) < 0)
        return fail(&err);
    return s.status;
}

/* ---- contexts ---- */

static int open_sandbox(const struct args *args, struct api *api, char **ret_id, struct err *err)
{
    if (api_open(api, args, err) < 0)
        return -1;
    return api_sandbox_id(api, args->words[0], ret_id, err);
}

int cmd_context_create(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *made = NULL, *body = json_object();

    json_put_text(body, "language", args_text(args, "language"));
    json_put_text(body, "cwd", args_text(args, "workdir"));
    json_put_text(body, "user", args_text(args, "user"));
    if (args_has(args, "idle"))
        (void)json_object_set_new(body, "idleTimeout",
                                  json_integer((json_int_t)args_number(args, "idle", 0)));
    for (char **name = args_list(args, "import"); name && *name; name++) {
        if (!json_object_get(body, "imports"))
            (void)json_object_set_new(body, "imports", json_array());
        (void)json_array_append_new(json_object_get(body, "imports"), json_string(*name));
    }
    if (put_env(args, body, &err) < 0 || open_sandbox(args, &api, &id, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &made, &err, "/sandboxes/%s/interpret/contexts", id) < 0)
        return ui_fail(&err);
    return ui_made(args, made);
}

static void print_contexts(const json_t *contexts)
{
    auto_table struct table t = {0};
    json_t *context;
    size_t i;

    table_init(&t, "ID|LANGUAGE|AGE");
    json_array_foreach(contexts, i, context)
    {
        char age[24];

        ui_duration(now_ms() - json_int(context, "createdAt"), age);
        table_cell(&t, json_text(context, "id"));
        table_cell(&t, json_text(context, "language"));
        table_cell(&t, age);
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

int cmd_context_ls(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *answer = NULL, *contexts;

    if (open_sandbox(args, &api, &id, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/sandboxes/%s/interpret/contexts", id) < 0)
        return ui_fail(&err);
    contexts = json_object_get(answer, "contexts");
    if (args_has(args, "json"))
        ui_json(contexts);
    else if (args_has(args, "quiet"))
        objects_print_ids(contexts);
    else
        print_contexts(contexts);
    json_decref(answer);
    return STATUS_OK;
}

/* One call about each context; what = "", "/restart" or "/interrupt". */
static int about_contexts(struct args *args, const char *method, const char *what)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    int status = STATUS_OK;

    if (open_sandbox(args, &api, &id, &err) < 0)
        return ui_fail(&err);
    for (size_t i = 1; i < args->n_words && status != STATUS_NO_DAEMON; i++) {
        auto_free char *context = url_encoded(args->words[i]);

        if (api_call(&api, method, NULL, NULL, &err, "/sandboxes/%s/interpret/contexts/%s%s", id,
                     context, what) < 0)
            status = ui_fail(&err);
        else if (!args_has(args, "quiet"))
            printf("%s\n", args->words[i]);
    }
    return status;
}

int cmd_context_rm(struct args *args)
{
    return about_contexts(args, "DELETE", "");
}

int cmd_context_restart(struct args *args)
{
    return about_contexts(args, "POST", "/restart");
}

int cmd_context_interrupt(struct args *args)
{
    return about_contexts(args, "POST", "/interrupt");
}
