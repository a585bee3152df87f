#include "cli/build_view.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/ui.h"

#define TEXT_MAX (1u << 20)

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
    v->open = false;
}

static void show_step(struct build_view *v, const json_t *event)
{
    auto_free char *text = escape_text(ESCAPE_CELL, json_text(event, "text"));

    build_view_end(v);
    fprintf(stderr, "[%lld/%lld] %s\n", (long long)json_int(event, "step"),
            (long long)json_int(event, "steps"), text);
}

static void show_output(struct build_view *v, const char *data)
{
    auto_buf struct buf out = {0};

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
    } else if (json_is_true(json_object_get(event, "cached"))) {
        build_view_end(v);
        fprintf(stderr, "  done before\n");
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
