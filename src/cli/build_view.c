#include "cli/build_view.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/ui.h"

#define TEXT_MAX (1u << 20)
#define SHOWN_MS 50 /* a shorter step has no time to tell */

static bool is(const json_t *event, const char *what)
{
    return strcmp(json_text(event, "event"), what) == 0;
}

bool build_view_knows(const json_t *event)
{
    return is(event, "step") || is(event, "output") || is(event, "stepDone");
}

void build_view_end(struct build_view *v)
{
    if (v->open)
        (void)write_all(STDERR_FILENO, "\n", 1);
    v->open = v->on_step = false;
}

static void show_step(struct build_view *v, const json_t *event)
{
    auto_free char *text = escape_text(ESCAPE_CELL, json_text(event, "text"));

    build_view_end(v);
    fprintf(stderr, "[%lld/%lld] %s", (long long)json_int(event, "step"),
            (long long)json_int(event, "steps"), text);
    v->open = v->on_step = true;
}

/* Behind the step itself when it has printed nothing. */
static void show_done(struct build_view *v, const json_t *event)
{
    int64_t ms = json_int(event, "durationMs");

    if (!v->on_step)
        build_view_end(v);
    if (json_is_true(json_object_get(event, "cached")))
        fprintf(stderr, "  CACHED");
    else if (ms >= SHOWN_MS)
        fprintf(stderr, "  %.1f s", (double)ms / 1000);
    else if (!v->on_step)
        return;
    v->open = true;
    build_view_end(v);
}

static void show_output(struct build_view *v, const char *data)
{
    auto_buf struct buf out = {0};

    if (v->on_step)
        build_view_end(v);
    buf_init(&out, TEXT_MAX);
    escape_add(&v->escape, ESCAPE_OUTPUT, data, strlen(data), &out);
    (void)write_all(STDERR_FILENO, out.data, out.len);
    if (out.len > 0)
        v->open = out.data[out.len - 1] != '\n';
    v->said = true;
}

void build_view_show(struct build_view *v, const json_t *event)
{
    if (is(event, "step")) {
        show_step(v, event);
    } else if (is(event, "output")) {
        show_output(v, json_text(event, "data"));
    } else {
        show_done(v, event);
    }
}

void build_view_output(const char *text)
{
    struct build_view v = {0};

    if (!*text)
        return;
    show_output(&v, text);
    build_view_end(&v);
}
