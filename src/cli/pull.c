#include "cli/pull.h"

#include <errno.h>
#include <signal.h>
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
#include "cli/build_view.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/meter.h"
#include "cli/pull_view.h"
#include "cli/term.h"
#include "cli/ui.h"
#include "libcay/sse.h"

#define FRAME_NS     100000000 /* at most ten pictures a second */
#define WAIT_MS      250       /* and at least four, so that a rate that falls is seen */
#define TEXT_MAX     (256u << 10)
#define UPLOAD_CHUNK (256u << 10)
#define COLS_MIN     20 /* below that bars are no use */

/* ---- signals ---- */

static volatile sig_atomic_t caught;

static void on_signal(int sig)
{
    if (caught)
        _exit(STATUS_SIGNAL + sig);
    caught = sig;
}

static const int caught_signals[] = {SIGINT, SIGTERM, SIGHUP};

struct handlers {
    struct sigaction old[ARRAY_LEN(caught_signals)];
};

static void catch_signals(struct handlers *h)
{
    /* No SA_RESTART: a signal wakes who waits for the next event. */
    struct sigaction action = {.sa_handler = on_signal};

    caught = 0;
    for (size_t i = 0; i < ARRAY_LEN(caught_signals); i++)
        (void)sigaction(caught_signals[i], &action, &h->old[i]);
}

static void release_signals(const struct handlers *h)
{
    for (size_t i = 0; i < ARRAY_LEN(caught_signals); i++)
        (void)sigaction(caught_signals[i], &h->old[i], NULL);
}

int pull_signal(void)
{
    return caught;
}

static bool shown; /* what the commands of the last build printed */

int pull_fail(const struct err *err)
{
    if (!caught && !shown)
        build_view_output(api_last_output());
    if (!caught)
        return ui_fail(err);
    ui_warn("cancelled");
    return STATUS_SIGNAL + caught;
}

/* ---- what is shown ---- */

struct show {
    struct pull *pull;
    struct pull_view view;
    bool bars;    /* else one line */
    bool working; /* an event has come */
    bool said;    /* that line was printed */
    struct build_view build;
    size_t lines; /* of the picture on the screen */
    int64_t started_ns, drawn_ns;
};

static bool can_draw(void)
{
    const char *term = getenv("TERM");
    uint32_t rows, cols;

    if (isatty(STDERR_FILENO) != 1 || !term || !*term || strcmp(term, "dumb") == 0)
        return false;
    term_size(STDERR_FILENO, &rows, &cols);
    return rows > 1 && cols >= COLS_MIN;
}

static void show_begin(struct show *s, struct pull *pull)
{
    *s = (struct show){.pull = pull, .started_ns = mono_ns()};
    pull_view_init(&s->view, pull->name);
    s->bars = !pull->quiet && can_draw();
}

/* Each line over the old one, what is left of the old picture wiped, in one write: no flicker, and
 * the cursor is always below it, where the shell would go on if we were killed. */
static void draw(struct show *s)
{
    auto_buf struct buf text = {0};
    auto_buf struct buf out = {0};
    uint32_t rows, cols;
    size_t lines = 0;

    buf_init(&text, TEXT_MAX);
    buf_init(&out, TEXT_MAX);
    term_size(STDERR_FILENO, &rows, &cols);
    pull_view_tick(&s->view, mono_ns());
    pull_view_render(&s->view, rows - (rows > 1), cols, &text);
    if (s->lines > 0)
        (void)buf_addf(&out, "\033[%zuA", s->lines);
    for (const char *line = text.data; line && *line; lines++) {
        size_t n = strcspn(line, "\n");

        (void)buf_addf(&out, "\r%.*s\033[K\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
    (void)buf_add_str(&out, "\033[J");
    (void)write_all(STDERR_FILENO, out.data, out.len);
    s->lines = lines;
    s->drawn_ns = mono_ns();
}

static void erase(struct show *s)
{
    if (s->lines > 0)
        fprintf(stderr, "\033[%zuA\r\033[J", s->lines);
    s->lines = 0;
}

static void show_event(struct show *s, const json_t *event)
{
    char bytes[24];

    if (s->pull->events)
        return;
    if (build_view_knows(event)) {
        erase(s);
        s->working = false; /* until layers come again */
        if (!s->pull->quiet)
            build_view_show(&s->build, event);
        return;
    }
    build_view_end(&s->build);
    pull_view_event(&s->view, event);
    s->working = true;
    if (s->view.resolved || s->view.n_layers > 0)
        s->pull->fetched = true;
    if (s->bars || s->pull->quiet || s->said || !s->pull->fetched || s->pull->silent)
        return;
    s->said = true;
    ui_size((double)s->view.bytes, bytes);
    if (s->view.bytes > 0)
        ui_warn("pulling %s: %zu %s, %s to download", s->pull->name, s->view.n_layers,
                s->view.n_layers == 1 ? "layer" : "layers", bytes);
    else
        ui_warn("pulling %s", s->pull->name);
}

static void show_time(struct show *s)
{
    if (s->bars && s->working && mono_ns() - s->drawn_ns >= FRAME_NS)
        draw(s);
}

static void show_end(struct show *s, bool worked)
{
    int64_t bytes = pull_view_downloaded(&s->view);
    double seconds = (double)(mono_ns() - s->started_ns) / 1e9;
    char size[24], rate[24];

    erase(s);
    build_view_end(&s->build);
    shown = s->build.said;
    ui_size((double)bytes, size);
    ui_size((double)bytes / (seconds > 0.001 ? seconds : 0.001), rate);
    if (worked && s->bars && !s->pull->silent && bytes > 0)
        ui_warn("pulled %s: %s in %.1f s (%s/s)", s->pull->name, size, seconds, rate);
    pull_view_done(&s->view);
}

/* ---- the call ---- */

static int send_json(struct api *api, const char *path, json_t *body, struct err *err)
{
    auto_free char *text = json_dumps(body, JSON_COMPACT);

    json_decref(body);
    if (!text)
        return err_set(err, ERR_INVALID, "names and values must be UTF-8 text");
    if (http_client_begin(api->http, "POST", path, "application/json", (int64_t)strlen(text), err) <
            0 ||
        http_client_write(api->http, text, strlen(text), err) < 0)
        return api_explain(api, err);
    return 0;
}

/* A daemon that does not want it answers before it has come: that answer is what to tell. */
static int send_upload(struct api *api, const char *path, const struct pull *pull, struct err *err)
{
    auto_free char *data = xmalloc(UPLOAD_CHUNK);
    struct meter meter;
    int r = 0;

    if (http_client_begin(api->http, "POST", path, "application/octet-stream", pull->upload_size,
                          err) < 0)
        return api_explain(api, err);
    meter_begin(&meter, pull->quiet || pull->events ? 0 : pull->upload_size);
    for (int64_t left = pull->upload_size; r == 0 && left > 0 && !caught;) {
        ssize_t n =
            read_some(pull->upload_fd, data, left < UPLOAD_CHUNK ? (size_t)left : UPLOAD_CHUNK);

        if (n <= 0)
            r = err_sys(err, n < 0 ? (int)-n : EIO, "read the files of the build");
        else if (http_client_write(api->http, data, (size_t)n, NULL) < 0)
            break;
        left -= n;
        meter_add(&meter, n);
    }
    meter_end(&meter);
    return r;
}

static int send_request(struct api *api, const char *path, json_t *body, const struct pull *pull,
                        struct http_response *response, struct err *err)
{
    auto_free char *full = xasprintf("/sandbox%s", path);
    int r;

    http_client_accept(api->http, "text/event-stream");
    r = pull->upload_size > 0 ? send_upload(api, full, pull, err) : send_json(api, full, body, err);
    http_client_accept(api->http, NULL);
    if (r < 0)
        return -1;
    while (!caught && !http_client_wait(api->http, WAIT_MS))
        ;
    if (caught)
        return -1;
    if (http_client_finish(api->http, response, err) < 0)
        return api_explain(api, err);
    return api_check(api, response, err);
}

/* 1 when the event is the last one. */
static int take_event(struct api *api, json_t *event, struct show *s, json_t **ret, struct err *err)
{
    const char *what = json_text(event, "event");
    const char *result = strcmp(what, "done") == 0       ? "image"
                         : strcmp(what, "sandbox") == 0  ? "sandbox"
                         : strcmp(what, "template") == 0 ? "template"
                                                         : NULL;

    if (s->pull->events)
        ui_json_line(event);
    if (strcmp(what, "error") == 0)
        return api_refuse(api, event, (int)json_int(event, "status"), err);
    if (!result) {
        show_event(s, event);
        return 0;
    }
    *ret = json_incref(json_object_get(event, result));
    if (!*ret)
        return err_set(err, ERR_INTERNAL, "the answer of %s lacks the %s: is it a cay daemon?",
                       api->target, result);
    return 1;
}

static int follow(struct api *api, struct show *s, json_t **ret, struct err *err)
{
    struct sse_reader events;
    int r = 0;

    sse_attach(&events, api);
    while (r == 0 && !caught) {
        json_t *event;

        r = sse_poll(&events, WAIT_MS, &event, err);
        if (r == 0)
            r = err_set(err, ERR_UNAVAILABLE, "the daemon at %s ended before the work did",
                        api->target);
        else if (r > 0)
            r = event ? take_event(api, event, s, ret, err) : 0;
        json_decref(event);
        show_time(s);
    }
    sse_close(&events);
    return r > 0 ? 0 : -1;
}

int pull_call(struct api *api, const char *path, json_t *body, struct pull *pull, json_t **ret,
              struct err *err)
{
    struct http_response response;
    struct handlers handlers;
    struct show show;
    int r;

    catch_signals(&handlers);
    show_begin(&show, pull);
    r = send_request(api, path, body, pull, &response, err);
    /* An answer that is no stream is the result itself: there was nothing to wait for. */
    if (r == 0 && strcmp(response.type, "text/event-stream") == 0)
        r = follow(api, &show, ret, err);
    else if (r == 0)
        r = api_json(api, ret, err);
    show_end(&show, r == 0);
    release_signals(&handlers);
    return r;
}
