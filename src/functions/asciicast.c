#include "functions/asciicast.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/exec.h"
#include "functions/call.h"
#include "functions/output.h"

struct cast {
    struct call *call;
    const json_t *info; /* ExecInfo */
    bool begun;
    double last; /* seconds */
    struct output_text text;
};

/* Takes data. */
static int send_line(struct cast *c, double seconds, const char *kind, json_t *data,
                     struct err *err)
{
    auto_free char *text = json_dumps(data, JSON_ENCODE_ANY);
    auto_free char *line = xasprintf("[%.6f, \"%s\", %s]\n", seconds, kind, text);

    json_decref(data);
    c->last = seconds;
    return sink_bytes(c->call, CHANNEL_ANSWER, line, strlen(line), err);
}

/* The first line, which has the first size. */
static int begin(struct cast *c, const struct exec_recorded *r, struct err *err)
{
    bool sized = r->what == RECORDED_SIZE && r->rows > 0 && r->cols > 0;
    json_int_t started = json_integer_value(json_object_get(c->info, "startedAt"));
    const char *command = json_string_value(json_object_get(c->info, "command"));
    json_t *head =
        json_pack("{s:i, s:i, s:i, s:I}", "version", 2, "width", sized ? (int)r->cols : 80,
                  "height", sized ? (int)r->rows : 24, "timestamp", started / 1000);
    auto_free char *text = NULL, *line = NULL;

    if (command)
        (void)json_object_set_new(head, "command", json_string(command));
    text = json_dumps(head, JSON_COMPACT);
    line = xasprintf("%s\n", text);
    json_decref(head);
    c->begun = true;
    return sink_bytes(c->call, CHANNEL_ANSWER, line, strlen(line), err);
}

static int send_output(struct cast *c, const struct exec_recorded *r, bool last, struct err *err)
{
    auto_buf struct buf clean = {0};

    buf_init(&clean, 3 * (r->len + sizeof(c->text.rest))); /* U+FFFD is three bytes */
    output_text_add(&c->text, r->data, r->len, last, &clean);
    if (clean.len == 0)
        return 0;
    return send_line(c, r->seconds, "o", json_stringn(clean.data, clean.len), err);
}

static int on_record(const struct exec_recorded *r, void *arg, struct err *err)
{
    struct cast *c = arg;

    if (!c->begun) {
        if (begin(c, r, err) < 0)
            return -1;
        if (r->what == RECORDED_SIZE)
            return 0;
    }
    switch (r->what) {
    case RECORDED_OUTPUT:
        return send_output(c, r, false, err);
    case RECORDED_SIZE:
        return send_line(c, r->seconds, "r", json_sprintf("%ux%u", r->cols, r->rows), err);
    case RECORDED_EXIT:
        return send_line(c, r->seconds, "m", json_sprintf("exit %d", r->exit_code), err);
    case RECORDED_FULL:
        return send_line(c, r->seconds, "m", json_string("the recording is full"), err);
    }
    abort();
}

int asciicast_send(struct call *call, const char *sandbox_id, const char *exec_id, struct err *err)
{
    struct cast c = {.call = call};
    json_t *info = NULL;
    int r;

    if (engine_exec_look(call->engine, sandbox_id, exec_id, &info, err) < 0)
        return -1;
    c.info = info;
    r = engine_exec_recording(call->engine, sandbox_id, exec_id, on_record, &c, err);
    /* Half a character at the end. */
    if (r == 0)
        r = send_output(&c, &(struct exec_recorded){.data = "", .seconds = c.last}, true, err);
    json_decref(info);
    return r;
}
