#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "adapter.h"
#include "base/buf.h"
#include "base/mem.h"

#define OUTPUT_MAX (64u << 20)

/* Operations for which libcay has functions of their own. */

/* ---- arguments ---- */

/* An object of strings as "KEY=value"s; the caller frees it with strv_free(). */
static char **pairs(const json_t *object)
{
    char **v = NULL;
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value)
    {
        auto_free char *pair = xasprintf("%s=%s", key, json_string_value(value));

        v = strv_add(v, pair);
    }
    return v;
}

struct command {
    struct cay_command c;
    char **argv, **env;
    char *input;
};

static void command_done(struct command *c)
{
    strv_free(c->argv);
    strv_free(c->env);
    free(c->input);
}

static void command_read(const struct operation *o, struct command *ret)
{
    const json_t *command = json_object_get(o->args, "command");
    const json_t *data = json_object_get(o->args, "stdin");

    *ret = (struct command){.env = pairs(json_object_get(o->args, "env"))};
    for (size_t i = 0; i < json_array_size(command); i++)
        ret->argv = strv_add(ret->argv, json_string_value(json_array_get(command, i)));
    ret->c = (struct cay_command){
        .line = json_string_value(command),
        .argv = (const char *const *)ret->argv,
        .env = (const char *const *)ret->env,
        .cwd = arg(o, "cwd"),
        .user = arg(o, "user"),
        .timeout_s = json_number_value(json_object_get(o->args, "timeout")),
    };
    if (data) {
        auto_close int fd = data_fd(data);
        off_t size = lseek(fd, 0, SEEK_END);

        ret->input = xmalloc((size_t)size + 1);
        ret->c.input = ret->input;
        ret->c.input_len = (size_t)pread(fd, ret->input, (size_t)size, 0);
    }
}

static const char *reason(const struct cay_result *r)
{
    if (r->timed_out)
        return "timeout";
    if (r->cancelled)
        return "cancelled";
    if (r->oom && r->exit_code == 137)
        return "oom";
    return r->signal ? "signal" : "exit";
}

/* ---- sandboxes ---- */

static int told(struct operation *o, int r, struct cay_sandbox *s, const struct cay_error *err)
{
    json_t *all;

    if (r < 0)
        return failed(o, err);
    all = json_loads(s->json, 0, NULL);
    o->ok = json_pack("{s:s, s:s, s:s, s:s, s:O, s:I}", "id", s->id, "name", s->name, "image",
                      s->image, "status", s->status, "metadata", json_object_get(all, "metadata"),
                      "expires_in", (json_int_t)(s->expires_ms / 1000 - time(NULL)));
    json_decref(all);
    cay_sandbox_done(s);
    return 0;
}

static int create(struct operation *o)
{
    auto_free char *more = json_dumps(o->args, 0);
    struct cay_create create = {.template_name = arg(o, "template"), .more = more};
    struct cay_sandbox s;
    struct cay_error err;
    int r = cay_create(o->cay, &create, &s, &err);

    return told(o, r, &s, &err);
}

static int get(struct operation *o)
{
    struct cay_sandbox s;
    struct cay_error err;
    int r = cay_get(o->cay, arg(o, "sandbox"), &s, &err);

    return told(o, r, &s, &err);
}

typedef int (*turn_fn)(struct cay *, const char *, struct cay_sandbox *, struct cay_error *);

static int turn(struct operation *o, turn_fn fn)
{
    struct cay_sandbox s;
    struct cay_error err;
    int r = fn(o->cay, arg(o, "sandbox"), &s, &err);

    return told(o, r, &s, &err);
}

static int pause_it(struct operation *o)
{
    return turn(o, cay_pause);
}

static int resume(struct operation *o)
{
    return turn(o, cay_resume);
}

static int stop(struct operation *o)
{
    return turn(o, cay_stop);
}

static int start(struct operation *o)
{
    return turn(o, cay_start);
}

static int renew(struct operation *o)
{
    struct cay_sandbox s;
    struct cay_error err;
    int r = cay_renew(o->cay, arg(o, "sandbox"),
                      json_integer_value(json_object_get(o->args, "timeout")), &s, &err);

    return told(o, r, &s, &err);
}

static int kill_it(struct operation *o)
{
    struct cay_error err;

    return cay_kill(o->cay, arg(o, "sandbox"), &err) < 0 ? failed(o, &err) : 0;
}

static int list_with(struct operation *o, struct cay *cay, const char *query)
{
    struct cay_sandbox *list;
    struct cay_error err;
    json_t *ids = json_array();
    size_t n;

    if (cay_list(cay, query, &list, &n, &err) < 0) {
        json_decref(ids);
        return failed(o, &err);
    }
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(ids, json_string(list[i].id));
    cay_list_free(list, n);
    o->ok = json_pack("{s:o}", "ids", ids);
    return 0;
}

static int list(struct operation *o)
{
    const json_t *metadata = json_object_get(o->args, "metadata");
    auto_free char *text = metadata ? json_dumps(metadata, 0) : xstrdup("{}");
    char *encoded = cay_url_encode(text);
    auto_free char *query = arg(o, "status")
                                ? xasprintf("status=%s&metadata=%s", arg(o, "status"), encoded)
                                : xasprintf("metadata=%s", encoded);

    cay_free(encoded);
    return list_with(o, o->cay, query);
}

static int connect_to(struct operation *o)
{
    struct cay_options options = {.address = arg(o, "url"), .token = arg(o, "token")};
    struct cay_error err;
    struct cay *other;
    int r;

    if (cay_open(&options, &other, &err) < 0)
        return failed(o, &err);
    r = list_with(o, other, NULL);
    cay_close(other);
    return r;
}

/* ---- commands ---- */

static int timed_out(struct operation *o, json_t *out, json_t *errors)
{
    (void)refuse(o, "command_timeout", 408, "the command ran too long");
    (void)json_object_set_new(o->error, "stdout", out);
    (void)json_object_set_new(o->error, "stderr", errors);
    return -1;
}

static int exec(struct operation *o)
{
    bool as_text = !json_is_true(json_object_get(o->args, "bytes"));
    struct cay_output output;
    struct command command;
    struct cay_error err;
    json_t *out, *errors;
    int r;

    command_read(o, &command);
    r = cay_exec(o->cay, arg(o, "sandbox"), &command.c, &output, &err);
    command_done(&command);
    if (r < 0)
        return failed(o, &err);
    out = data_json(output.out, output.out_len, as_text);
    errors = data_json(output.errors, output.errors_len, as_text);
    if (output.result.timed_out)
        r = timed_out(o, out, errors);
    else
        o->ok = json_pack("{s:i, s:o, s:o, s:b, s:s}", "exit_code", output.result.exit_code,
                          "stdout", out, "stderr", errors, "truncated", output.result.truncated,
                          "reason", reason(&output.result));
    cay_output_done(&output);
    return r;
}

/* Input as the command takes it, then its end. */
static int feed(struct cay_stream *s, const struct cay_command *c, size_t *sent,
                struct cay_error *err)
{
    int64_t n;

    if (!c->input || *sent > c->input_len)
        return 0;
    n = cay_stream_write(s, (const char *)c->input + *sent, c->input_len - *sent, err);
    if (n < 0)
        return -1;
    *sent += (size_t)n;
    if (*sent < c->input_len)
        return 0;
    *sent += 1;
    return cay_stream_end_input(s, err);
}

/* Until its end, or so many bytes of stdout (0 = all): 1 when it was left, 0, -1. */
static int follow(struct cay_stream *s, const struct cay_command *c, size_t leave, struct buf *out,
                  struct buf *errors, struct cay_result *ret, struct cay_error *err)
{
    size_t sent = 0;

    for (;;) {
        struct cay_event e;

        if (feed(s, c, &sent, err) < 0 || cay_stream_next(s, -1, &e, err) < 0)
            return -1;
        if (e.what == CAY_STDOUT)
            (void)buf_add(out, e.data, e.len);
        if (e.what == CAY_STDERR)
            (void)buf_add(errors, e.data, e.len);
        if (leave && out->len >= leave)
            return 1;
        if (e.what == CAY_EXIT) {
            *ret = e.result;
            return 0;
        }
    }
}

static int exec_stream(struct operation *o)
{
    bool as_text = !json_is_true(json_object_get(o->args, "bytes"));
    size_t leave = (size_t)json_integer_value(json_object_get(o->args, "cancel_after_bytes"));
    auto_buf struct buf out = {.max = OUTPUT_MAX};
    auto_buf struct buf errors = {.max = OUTPUT_MAX};
    struct cay_stream *s = NULL;
    struct cay_result result = {0};
    struct command command;
    struct cay_error err;
    int r;

    command_read(o, &command);
    command.c.with_input = command.c.input != NULL;
    r = cay_exec_open(o->cay, arg(o, "sandbox"), &command.c, &s, &err);
    if (r == 0)
        r = follow(s, &command.c, leave, &out, &errors, &result, &err);
    cay_stream_close(s);
    command_done(&command);
    if (r < 0)
        return failed(o, &err);
    if (r > 0)
        o->ok = json_pack("{s:b}", "cancelled", 1);
    else
        o->ok =
            json_pack("{s:i, s:o, s:o, s:s}", "exit_code", result.timed_out ? -1 : result.exit_code,
                      "stdout", data_json(out.data, out.len, as_text), "stderr",
                      data_json(errors.data, errors.len, as_text), "reason", reason(&result));
    return 0;
}

static int background(struct operation *o)
{
    struct command command;
    struct cay_error err;
    char id[40];
    int r;

    command_read(o, &command);
    r = cay_background(o->cay, arg(o, "sandbox"), &command.c, id, &err);
    command_done(&command);
    if (r < 0)
        return failed(o, &err);
    o->ok = json_pack("{s:s}", "exec_id", id);
    return 0;
}

static int background_wait(struct operation *o)
{
    auto_buf struct buf out = {.max = OUTPUT_MAX};
    auto_buf struct buf errors = {.max = OUTPUT_MAX};
    struct cay_command none = {0};
    struct cay_stream *s = NULL;
    struct cay_result result = {0};
    struct cay_error err;
    int r = cay_exec_again(o->cay, arg(o, "sandbox"), arg(o, "exec_id"), 0, CAY_READ, &s, &err);

    if (r == 0)
        r = follow(s, &none, 0, &out, &errors, &result, &err);
    cay_stream_close(s);
    if (r < 0)
        return failed(o, &err);
    o->ok = json_pack("{s:i, s:o}", "exit_code", result.exit_code, "stdout",
                      data_json(out.data, out.len, true));
    return 0;
}

static int type_into(struct cay_stream *s, const char *input, const char *until,
                     struct cay_error *err)
{
    auto_buf struct buf shown = {.max = OUTPUT_MAX};
    struct cay_event e;

    if (cay_stream_write(s, input, strlen(input), err) < 0)
        return -1;
    for (;;) {
        int r = cay_stream_next(s, -1, &e, err);

        if (r <= 0 || e.what == CAY_EXIT)
            return r < 0 ? -1 : 0;
        if (e.what == CAY_STDOUT)
            (void)buf_add(&shown, e.data, e.len);
        if (shown.len > 0 && memmem(shown.data, shown.len, until, strlen(until)))
            return 1;
    }
}

static int terminal(struct operation *o)
{
    char *sandbox = cay_url_encode(arg(o, "sandbox"));
    auto_free char *path = xasprintf("/sandbox/sandboxes/%s/terminal", sandbox);
    json_t *body = json_copy(o->args);
    auto_free char *text = NULL, *gone = NULL;
    char *made = NULL, *exec_id, *session;
    struct cay_stream *s = NULL;
    struct cay_error err;
    int r;

    cay_free(sandbox);
    for (size_t i = 0; i < 3; i++)
        (void)json_object_del(body, (const char *[]){"sandbox", "input", "until"}[i]);
    text = json_dumps(body, 0);
    json_decref(body);
    if (cay_call(o->cay, "POST", path, text, &made, &err) < 0)
        return failed(o, &err);
    exec_id = cay_json_get(made, "/execId");
    session = cay_json_get(made, "/sessionId");
    r = cay_exec_again(o->cay, arg(o, "sandbox"), exec_id, 0, CAY_SHARED, &s, &err);
    if (r == 0)
        r = type_into(s, arg(o, "input"), arg(o, "until"), &err);
    cay_stream_close(s);
    gone = xasprintf("%s/%s", path, session);
    if (r >= 0 && cay_call(o->cay, "DELETE", gone, NULL, NULL, &err) < 0)
        r = -1;
    cay_free(exec_id);
    cay_free(session);
    cay_free(made);
    if (r < 0)
        return failed(o, &err);
    o->ok = json_pack("{s:b}", "seen", r);
    return 0;
}

static int logs(struct operation *o)
{
    char *sandbox = cay_url_encode(arg(o, "sandbox"));
    json_int_t tail = json_integer_value(json_object_get(o->args, "tail"));
    auto_free char *last = tail ? xasprintf("&tail=%lld", (long long)tail) : xstrdup("");
    auto_free char *path =
        xasprintf("/sandbox/sandboxes/%s/stream/logs?follow=false%s", sandbox, last);
    json_t *lines = json_array();
    struct cay_feed *feed_ = NULL;
    struct cay_error err;
    const char *event;
    int r;

    cay_free(sandbox);
    r = cay_feed_open(o->cay, "GET", path, NULL, &feed_, &err);
    while (r == 0 && (r = cay_feed_next(feed_, -1, &event, &err)) == 1) {
        json_t *e = json_loads(event, 0, NULL);
        bool is_end = strcmp(json_string_value(json_object_get(e, "type")), "end") == 0;

        if (!is_end)
            (void)json_array_append(lines, json_object_get(e, "data"));
        json_decref(e);
        r = is_end ? 1 : 0;
    }
    cay_feed_close(feed_);
    if (r < 0) {
        json_decref(lines);
        return failed(o, &err);
    }
    o->ok = json_pack("{s:o}", "lines", lines);
    return 0;
}

/* ---- files ---- */

static unsigned flags(const struct operation *o)
{
    return json_is_true(json_object_get(o->args, "anywhere")) ? CAY_ANYWHERE : 0;
}

static int write_file(struct operation *o)
{
    const json_t *content = json_object_get(o->args, "content");
    struct cay_error err;

    if (!json_is_string(content))
        return refuse(o, "invalid", 400, "content is a text");
    if (cay_write_file(o->cay, arg(o, "sandbox"), arg(o, "path"), flags(o),
                       json_string_value(content), json_string_length(content), -1, &err) < 0)
        return failed(o, &err);
    return 0;
}

static int read_file(struct operation *o)
{
    struct cay_error err;
    size_t len;
    char *text;

    if (cay_read_file(o->cay, arg(o, "sandbox"), arg(o, "path"), flags(o), 0, &text, &len, &err) <
        0)
        return failed(o, &err);
    o->ok = json_pack("{s:o}", "content", data_json(text, len, true));
    cay_free(text);
    return 0;
}

static int upload(struct operation *o)
{
    auto_close int fd = data_fd(json_object_get(o->args, "bytes"));
    const char *bits = arg(o, "mode");
    int mode = bits ? (int)strtol(bits, NULL, 8) : -1;
    struct cay_error err;

    if (cay_upload(o->cay, arg(o, "sandbox"), arg(o, "path"), flags(o), fd, -1, mode, &err) < 0)
        return failed(o, &err);
    return 0;
}

static int download(struct operation *o)
{
    FILE *file = tmpfile();
    struct cay_error err;
    int r = cay_download(o->cay, arg(o, "sandbox"), arg(o, "path"), flags(o), fileno(file), &err);

    if (r == 0)
        o->ok = json_pack("{s:o}", "bytes", data_of_fd(fileno(file)));
    (void)fclose(file);
    return r < 0 ? failed(o, &err) : 0;
}

/* ---- environment and snapshots ---- */

static int env_set(struct operation *o)
{
    auto_strv char **vars = pairs(json_object_get(o->args, "vars"));
    struct cay_error err;

    if (cay_env_set(o->cay, arg(o, "sandbox"), (const char *const *)vars, &err) < 0)
        return failed(o, &err);
    return 0;
}

static int env_get(struct operation *o)
{
    struct cay_error err;
    char *value = NULL;
    int r = cay_env_get(o->cay, arg(o, "sandbox"), arg(o, "key"), &value, &err);

    if (r < 0)
        return failed(o, &err);
    o->ok = json_pack("{s:b, s:s?}", "exists", r, "value", value);
    cay_free(value);
    return 0;
}

static int env_delete(struct operation *o)
{
    struct cay_error err;

    return cay_env_delete(o->cay, arg(o, "sandbox"), arg(o, "key"), &err) < 0 ? failed(o, &err) : 0;
}

static int snapshot(struct operation *o)
{
    struct cay_error err;
    char id[40];

    if (cay_snapshot(o->cay, arg(o, "sandbox"), arg(o, "name"), id, &err) < 0)
        return failed(o, &err);
    o->ok = json_pack("{s:s}", "id", id);
    return 0;
}

static int restore(struct operation *o)
{
    struct cay_error err;

    if (cay_restore(o->cay, arg(o, "sandbox"), arg(o, "snapshot"), &err) < 0)
        return failed(o, &err);
    return get(o);
}

operation_fn command_operation(const char *name)
{
    static const struct {
        const char *name;
        operation_fn fn;
    } all[] = {
        {"create", create},
        {"get", get},
        {"list", list},
        {"pause", pause_it},
        {"resume", resume},
        {"stop", stop},
        {"start", start},
        {"renew", renew},
        {"kill", kill_it},
        {"connect", connect_to},
        {"exec", exec},
        {"exec_stream", exec_stream},
        {"background", background},
        {"background_wait", background_wait},
        {"terminal", terminal},
        {"logs", logs},
        {"write_file", write_file},
        {"read_file", read_file},
        {"upload", upload},
        {"download", download},
        {"env_set", env_set},
        {"env_get", env_get},
        {"env_delete", env_delete},
        {"snapshot", snapshot},
        {"restore", restore},
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].fn;
    return NULL;
}
