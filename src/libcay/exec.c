#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "libcay/stream_internal.h"

/* Commands that are waited for. A call of exec is the fastest way, and its answer is text: where
 * that does not do (there is input, or it is not exact, or the connection was lost) the command is
 * attached to, which has its bytes. */

#define OUTPUT_MAX (10u << 20) /* of each stream; what exec collects too */

/* ---- attached ---- */

struct collected {
    struct buf out, errors;
    bool truncated;
};

static void collect(struct collected *c, struct buf *to, const struct cay_event *e)
{
    size_t room = to->max - to->len, n = e->len < room ? e->len : room;

    c->truncated |= n < e->len;
    (void)buf_add(to, e->data, n);
}

/* Input that is left, as much as there is room for. */
static int feed(struct cay_stream *s, const struct cay_command *command, size_t *sent,
                struct cay_error *err)
{
    int64_t n;

    if (!command->input || s->session.input_ended)
        return 0;
    n = cay_stream_write(s, (const char *)command->input + *sent, command->input_len - *sent, err);
    if (n < 0)
        return -1;
    *sent += (size_t)n;
    return *sent == command->input_len ? cay_stream_end_input(s, err) : 0;
}

static int follow(struct cay_stream *s, const struct cay_command *command, struct collected *c,
                  struct cay_result *ret, struct cay_error *err)
{
    size_t sent = 0;

    for (;;) {
        struct cay_event e;

        if (feed(s, command, &sent, err) < 0 || cay_stream_next(s, -1, &e, err) < 0)
            return -1;
        if (e.what == CAY_STDOUT)
            collect(c, &c->out, &e);
        else if (e.what == CAY_STDERR)
            collect(c, &c->errors, &e);
        if (e.what == CAY_EXIT) {
            *ret = e.result;
            ret->truncated |= c->truncated;
            return 0;
        }
    }
}

/* Takes the stream to the end of its command. */
static int collect_all(struct cay_stream *s, const struct cay_command *command,
                       struct cay_output *ret, struct cay_error *err)
{
    size_t max = command->output_max ? command->output_max : OUTPUT_MAX;
    struct cay_output output = {0};
    struct collected c = {0};
    int r;

    buf_init(&c.out, max);
    buf_init(&c.errors, max);
    r = follow(s, command, &c, &output.result, err);
    if (r == 0) {
        output.out_len = c.out.len;
        output.out = buf_steal(&c.out);
        output.errors_len = c.errors.len;
        output.errors = buf_steal(&c.errors);
        (void)snprintf(output.exec_id, sizeof(output.exec_id), "%s", s->session.exec_id);
        *ret = output;
    }
    buf_done(&c.out);
    buf_done(&c.errors);
    cay_stream_close(s);
    return r;
}

static int exec_attached(struct cay *client, const char *sandbox, const struct cay_command *command,
                         struct cay_output *ret, struct cay_error *err)
{
    struct cay_stream *s;

    if (stream_start(client, sandbox, command, command->input != NULL, false, &s, err) < 0)
        return -1;
    return collect_all(s, command, ret, err);
}

/* Comes to one that was started, or may have been (request). */
static int exec_found(struct cay *client, const char *sandbox, const struct cay_command *command,
                      const struct session_request *request, struct cay_output *ret,
                      struct cay_error *err)
{
    struct cay_stream *s;

    if (stream_open(client, sandbox, request, &s, err) < 0)
        return -1;
    return collect_all(s, command, ret, err);
}

/* ---- by a call ---- */

/* As much of it as the caller wants. */
static void take_text(const json_t *answer, const char *key, size_t max, struct cay_result *result,
                      char **ret, size_t *ret_len)
{
    const json_t *text = json_object_get(answer, key);
    size_t len = json_string_length(text);

    result->truncated |= len > max;
    len = len > max ? max : len;
    *ret = xmalloc(len + 1);
    if (len > 0)
        memcpy(*ret, json_string_value(text), len);
    (*ret)[len] = '\0';
    *ret_len = len;
}

static void take_answer(const json_t *answer, const char *exec_id, size_t max,
                        struct cay_output *ret)
{
    const char *reason = json_text(answer, "reason");
    int code = (int)json_int(answer, "exitCode");
    bool killed = strcmp(reason, "signal") == 0 || strcmp(reason, "oom") == 0;

    *ret = (struct cay_output){
        .result = {.exit_code = code,
                   .signal = killed && code > 128 ? code - 128 : 0,
                   .cancelled = strcmp(reason, "cancelled") == 0,
                   .oom = json_is_true(json_object_get(answer, "oom")),
                   .truncated = json_is_true(json_object_get(answer, "truncated")),
                   .duration_ms = json_num(answer, "duration")}};
    take_text(answer, "stdout", max, &ret->result, &ret->out, &ret->out_len);
    take_text(answer, "stderr", max, &ret->result, &ret->errors, &ret->errors_len);
    (void)snprintf(ret->exec_id, sizeof(ret->exec_id), "%s", exec_id);
}

/* Bytes that are no text were replaced, or the text has that character itself. */
static bool is_exact(const struct cay_output *o)
{
    return !memmem(o->out, o->out_len, "\xef\xbf\xbd", 3) &&
           !memmem(o->errors, o->errors_len, "\xef\xbf\xbd", 3);
}

/* One call, again while nothing was done: 1 with the answer, 0 when the command is to be looked for
 * (*ret_maybe: it may not have been started), -1. */
static int ask(struct cay *client, const char *path, const char *text, const char *exec_id,
               json_t **ret, bool *ret_maybe, struct cay_error *err)
{
    struct call_asked asked = {.method = "POST", .path = path, .exec_id = exec_id};
    struct attempt a;
    int r;

    attempt_begin(&a, client);
    do {
        struct err why = {0};
        struct line *line = line_take(client, 0, &why);
        auto_free char *answer = NULL;
        bool lost, late;

        r = line ? api_exchange(&line->api, "POST", path, text, &answer, &why) : -1;
        lost = client->retry_ms >= 0 && why.code && strcmp(why.code, "connection_lost") == 0;
        late = line && strcmp(line->failure.code, "command_timeout") == 0;
        if (r == 0 && !(*ret = json_loads(answer, JSON_ALLOW_NUL, NULL)))
            r = err_set(&why, ERR_INTERNAL, "the answer of %s is not JSON: is it a cay daemon?",
                        client->target);
        *ret_maybe = lost;
        if (r == 0) {
            atomic_store(&client->known, true);
            r = 1;
        } else if (lost || late) {
            r = 0;
        } else if (attempt_again(&a, line, &why, true)) {
            r = 2;
        } else {
            (void)report(line, &why, &asked, err);
        }
        line_give(client, line);
    } while (r == 2);
    return r;
}

static int exec_called(struct cay *client, const char *sandbox, const struct cay_command *command,
                       json_t *body, struct cay_output *ret, struct cay_error *err)
{
    size_t max = command->output_max ? command->output_max : OUTPUT_MAX;
    auto_free char *word = url_encoded(sandbox);
    auto_free char *path = xasprintf("/sandbox/sandboxes/%s/exec", word);
    auto_free char *text = NULL;
    struct session_request request = {.body = body};
    char exec_id[ID_SIZE];
    json_t *answer = NULL;
    struct cay_output exact;
    bool maybe;
    int r;

    id_new(exec_id, "ex");
    (void)json_object_set_new(body, "execId", json_string(exec_id));
    text = json_dumps(body, JSON_COMPACT);
    r = ask(client, path, text, exec_id, &answer, &maybe, err);
    if (r < 0)
        return -1;
    request.maybe = maybe ? exec_id : NULL;
    request.again = maybe ? NULL : exec_id;
    if (r == 0)
        return exec_found(client, sandbox, command, &request, ret, err);
    take_answer(answer, exec_id, max, ret);
    json_decref(answer);
    /* What cannot be had any more stays as it was told. */
    if (is_exact(ret) || exec_found(client, sandbox, command, &request, &exact, NULL) < 0)
        return 0;
    cay_output_done(ret);
    *ret = exact;
    return 0;
}

int cay_exec(struct cay *client, const char *sandbox, const struct cay_command *command,
             struct cay_output *ret, struct cay_error *err)
{
    json_t *body;
    int r;

    if (command->input || command->tty || command->output_max > OUTPUT_MAX)
        return exec_attached(client, sandbox, command, ret, err);
    body = command_json(command);
    if (!body)
        return bad_command(err);
    r = exec_called(client, sandbox, command, body, ret, err);
    json_decref(body);
    return r;
}

void cay_output_done(struct cay_output *output)
{
    if (!output)
        return;
    free(output->out);
    free(output->errors);
    *output = (struct cay_output){0};
}

int cay_background(struct cay *client, const char *sandbox, const struct cay_command *command,
                   char ret[40], struct cay_error *err)
{
    auto_free char *word = url_encoded(sandbox);
    json_t *body = command_json(command), *answer = NULL;

    if (!body)
        return bad_command(err);
    if (client_call(client, "POST", body, &answer, err, "/sandboxes/%s/exec/background", word) < 0)
        return -1;
    (void)snprintf(ret, 40, "%s", json_text(answer, "id"));
    json_decref(answer);
    return 0;
}
