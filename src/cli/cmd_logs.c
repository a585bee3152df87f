#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/escape.h"
#include "cli/logs.h"
#include "cli/ui.h"
#include "libcay/sse.h"

#define TAIL_MAX (16u << 20)
#define POLL_MS  250

static void print_text(FILE *to, const char *text, size_t len, bool escapes)
{
    struct escape state = {0};
    auto_buf struct buf shown = {0};

    if (!escapes) {
        (void)fwrite(text, 1, len, to);
        return;
    }
    buf_init(&shown, 4 * len + 64);
    escape_add(&state, ESCAPE_LINES, text, len, &shown);
    escape_end(&state, &shown);
    (void)fwrite(shown.data ? shown.data : "", 1, shown.len, to);
}

/* The two streams need not lead to the same place. */
static bool wants_escape(const struct args *args, FILE *to)
{
    return isatty(fileno(to)) && !args_has(args, "raw");
}

/* ---- the main process of a sandbox ---- */

static void print_time(FILE *to, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    char text[32];
    struct tm tm;

    (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));
    fprintf(to, "%s.%03dZ ", text, (int)(ms % 1000));
}

static void print_event(const struct args *args, const json_t *event)
{
    bool error = strcmp(json_text(event, "type"), "stderr") == 0;
    const json_t *data = json_object_get(event, "data");
    FILE *to = error ? stderr : stdout;

    if (args_has(args, "json")) {
        ui_json_line(event);
        return;
    }
    if (args_has(args, "timestamps"))
        print_time(to, json_int(event, "timestamp"));
    print_text(to, json_string_value(data) ? json_string_value(data) : "", json_string_length(data),
               wants_escape(args, to));
    fputc('\n', to);
    (void)fflush(to);
}

/* Nothing came, and nothing will where there is no entrypoint. */
static void explain_nothing(const struct args *args, struct api *api, const char *id)
{
    const char *word = args->words[0];
    struct err ignored = {0};
    json_t *sandbox = NULL;

    if (api_call(api, "GET", NULL, &sandbox, &ignored, "/sandboxes/%s", id) < 0)
        return;
    if (!json_object_get(sandbox, "entrypoint") && !json_object_get(sandbox, "entrypointState"))
        ui_warn("%.80s has no entrypoint, whose output this would be; `cay jobs --all %.80s` lists "
                "commands, and `cay logs %.80s JOB` shows what one has put out",
                word, word, word);
    json_decref(sandbox);
}

static int sandbox_logs(struct args *args, struct api *api, const char *id, struct err *err)
{
    auto_free char *path =
        xasprintf("/sandboxes/%s/stream/logs?tail=%.0f&follow=%s", id,
                  args_number(args, "tail", 100), args_has(args, "follow") ? "true" : "false");
    struct sse_reader events = {0};
    json_t *event;
    bool nothing = true;
    int r = sse_open(&events, api, path, err) < 0 ? -1 : 1;

    while (r > 0 && !ui_output_failed()) {
        r = sse_next(&events, &event, err);
        if (r <= 0)
            break;
        if (strcmp(json_text(event, "type"), "end") == 0) {
            r = 0;
        } else {
            print_event(args, event);
            nothing = false;
        }
        json_decref(event);
    }
    sse_close(&events);
    if (r == 0 && nothing)
        explain_nothing(args, api, id);
    return r < 0 ? -1 : 0;
}

/* ---- a background command ---- */

/* One piece of output from *cursor on into out; 1 if there was any. */
static int read_piece(struct api *api, const char *id, uint64_t *cursor, struct buf *out,
                      struct err *err)
{
    json_t *answer = NULL, *text;
    uint64_t old = *cursor;

    if (api_call(api, "GET", NULL, &answer, err, "/exec/background/%s/logs?cursor=%" PRIu64, id,
                 old) < 0)
        return -1;
    text = json_object_get(answer, "output");
    *cursor = (uint64_t)json_int(answer, "cursor");
    buf_clear(out);
    if (json_is_string(text))
        (void)buf_add(out, json_string_value(text), json_string_length(text));
    json_decref(answer);
    return *cursor > old;
}

static int is_running(struct api *api, const char *id, struct err *err)
{
    json_t *status = NULL;
    int r;

    if (api_call(api, "GET", NULL, &status, err, "/exec/background/%s/status", id) < 0)
        return -1;
    r = json_is_true(json_object_get(status, "running"));
    json_decref(status);
    return r;
}

/* Keeps the end of what came, at most TAIL_MAX bytes. */
static void keep_tail(struct buf *tail, const struct buf *piece)
{
    if (tail->len + piece->len > tail->max)
        buf_shift(tail, tail->len < piece->len ? tail->len : piece->len);
    (void)buf_add(tail, piece->data ? piece->data : "", piece->len);
}

static const char *last_lines(const struct buf *b, double lines)
{
    const char *p = b->data + b->len;

    if (b->len > 0 && p[-1] == '\n')
        p--;
    for (; p > b->data; p--) {
        if (p[-1] == '\n' && --lines < 1)
            break;
    }
    return lines > 0 && p > b->data && p[-1] != '\n' ? b->data : p;
}

/* What is there already; with --tail only its end. */
static int print_past(struct args *args, struct api *api, const char *id, uint64_t *cursor,
                      struct err *err)
{
    auto_buf struct buf piece = {0};
    auto_buf struct buf tail = {0};
    double lines = args_number(args, "tail", 0);
    int r;

    buf_init(&piece, TAIL_MAX / 4);
    buf_init(&tail, TAIL_MAX);
    while ((r = read_piece(api, id, cursor, &piece, err)) > 0) {
        if (args_has(args, "tail"))
            keep_tail(&tail, &piece);
        else
            print_text(stdout, piece.data ? piece.data : "", piece.len, wants_escape(args, stdout));
    }
    if (r == 0 && tail.len > 0 && lines >= 1) {
        const char *from = last_lines(&tail, lines);

        print_text(stdout, from, tail.len - (size_t)(from - tail.data), wants_escape(args, stdout));
    }
    (void)fflush(stdout);
    return r;
}

static int background_logs(struct args *args, struct api *api, const char *id, struct err *err)
{
    auto_buf struct buf piece = {0};
    uint64_t cursor = 0;
    int running = 1, r;

    buf_init(&piece, TAIL_MAX / 4);
    r = print_past(args, api, id, &cursor, err);
    /* It is asked whether it runs before its output is read, so the last words are not missed. */
    while (r == 0 && running && args_has(args, "follow") && !ui_output_failed()) {
        running = is_running(api, id, err);
        if (running < 0)
            return -1;
        while ((r = read_piece(api, id, &cursor, &piece, err)) > 0)
            print_text(stdout, piece.data ? piece.data : "", piece.len, wants_escape(args, stdout));
        (void)fflush(stdout);
        if (r == 0 && running)
            (void)poll(NULL, 0, POLL_MS);
    }
    return r;
}

/* ---- a command of a sandbox, by its id ---- */

static void print_output(const struct args *args, bool is_error, const json_t *text)
{
    FILE *to = is_error ? stderr : stdout;

    if (json_string_length(text) == 0)
        return;
    print_text(to, json_string_value(text), json_string_length(text), wants_escape(args, to));
    (void)fflush(to);
}

static void note_lost(int64_t bytes)
{
    if (bytes > 0)
        ui_warn("%" PRId64 " bytes of the output are not kept any more", bytes);
}

/* What there is now. */
static int print_exec(struct args *args, struct api *api, const char *path, struct err *err)
{
    bool more = true;
    int64_t cursor = 0;

    while (more && !ui_output_failed()) {
        json_t *part = NULL;

        if (api_call(api, "GET", NULL, &part, err, "%s?cursor=%" PRId64, path, cursor) < 0)
            return -1;
        note_lost(json_int(part, "lost"));
        print_output(args, false, json_object_get(part, "stdout"));
        print_output(args, true, json_object_get(part, "stderr"));
        more = json_is_true(json_object_get(part, "more")) && json_int(part, "cursor") > cursor;
        cursor = json_int(part, "cursor");
        json_decref(part);
    }
    return 0;
}

static void print_exec_event(const struct args *args, const json_t *event)
{
    const char *type = json_text(event, "type");
    const json_t *data = json_object_get(event, "data");

    if (strcmp(type, "lost") == 0)
        note_lost(strtoll(json_text(event, "data"), NULL, 10));
    else if (strcmp(type, "error") == 0)
        ui_warn("%s", json_text(event, "data"));
    else if (strcmp(type, "exit") != 0)
        print_output(args, strcmp(type, "stderr") == 0, data);
}

static int follow_exec(struct args *args, struct api *api, const char *path, struct err *err)
{
    auto_free char *stream = xasprintf("%s/stream", path);
    struct sse_reader events = {0};
    json_t *event;
    int r = sse_open(&events, api, stream, err) < 0 ? -1 : 1;

    while (r > 0 && !ui_output_failed() && (r = sse_next(&events, &event, err)) > 0) {
        print_exec_event(args, event);
        json_decref(event);
    }
    sse_close(&events);
    return r < 0 ? -1 : 0;
}

int exec_logs(struct args *args, struct api *api, const char *id, const char *exec_id,
              struct err *err)
{
    auto_free char *encoded = url_encoded(exec_id);
    auto_free char *path = xasprintf("/sandboxes/%s/exec/%s", id, encoded);

    return args_has(args, "follow") ? follow_exec(args, api, path, err)
                                    : print_exec(args, api, path, err);
}

int cmd_logs(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    int r;

    if (args->n_words > 1 && args_has(args, "tail"))
        return ui_usage(args, "--tail is not for a command of a sandbox");
    if ((args_has(args, "json") || args_has(args, "timestamps")) &&
        (args->n_words > 1 || id_valid(args->words[0], "bg")))
        return ui_usage(args, "--json and --timestamps are for the entrypoint of a sandbox, not "
                              "for a command");
    if (args_has(args, "network") && args->n_words > 1)
        return ui_usage(args, "--network is for a whole sandbox, not for a command of it");
    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    if (args_has(args, "network")) {
        if (api_sandbox_id(&api, args->words[0], &id, &err) < 0)
            return ui_fail(&err);
        return net_log(args, &api, id, args_has(args, "follow"), args_number(args, "tail", 100));
    }
    if (args->n_words == 1 && id_valid(args->words[0], "bg")) {
        r = background_logs(args, &api, args->words[0], &err);
    } else {
        r = api_sandbox_id(&api, args->words[0], &id, &err);
        if (r == 0)
            r = args->n_words > 1 ? exec_logs(args, &api, id, args->words[1], &err)
                                  : sandbox_logs(args, &api, id, &err);
    }
    return r < 0 ? ui_fail(&err) : STATUS_OK;
}
