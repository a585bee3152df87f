#include "functions/execution.h"

#include <string.h>

#include "base/budget.h"
#include "base/err.h"
#include "base/str.h"
#include "functions/call.h"
#include "service/interpreter/interpreter.h"
#include "service/interpreter/languages.h"
#include "service/services.h"

#define STEP      (256u << 10) /* of the budget */
#define CODE_FREE (64u << 10)
#define ERROR_MAX (64u << 10) /* of stderr in `error`: its end */

void execution_init(struct execution *x, const struct call *call)
{
    *x = (struct execution){.results = json_array()};
    if (call->services && call->services->interpreter)
        x->memory = &call->services->interpreter->memory;
    buf_init(&x->streams[0], EXECUTION_TEXT_MAX);
    buf_init(&x->streams[1], EXECUTION_TEXT_MAX);
}

void execution_done(struct execution *x)
{
    buf_done(&x->streams[0]);
    buf_done(&x->streams[1]);
    json_decref(x->results);
    json_decref(x->exception);
    if (x->memory)
        budget_give(x->memory, x->taken + x->code);
}

int execution_keep_code(struct execution *x, size_t len, struct err *err)
{
    if (len <= CODE_FREE || !x->memory)
        return 0;
    if (!budget_take(x->memory, len))
        return err_code(err, ERR_UNAVAILABLE, "busy",
                        "the daemon holds as much of other callers' code as it may; send it again");
    x->code = len;
    return 0;
}

/* Is there room for so much more? */
static bool take(struct execution *x, size_t len)
{
    size_t held = x->streams[0].len + x->streams[1].len + x->results_len;

    while (held + len > x->taken) {
        if (!budget_take(x->memory, STEP))
            return false;
        x->taken += STEP;
    }
    return true;
}

/* Has the answer what the code put out? Events have told it already, unless that was for people. */
static bool is_kept(const struct call *call)
{
    return !call->events || call->whole;
}

static void keep_text(struct execution *x, bool is_error, const char *data, size_t len)
{
    struct buf *b = &x->streams[is_error];
    size_t room = b->max - b->len, n = len < room ? len : room;

    if (n < len || !take(x, n))
        x->truncated = true;
    if (n > 0 && take(x, n))
        (void)buf_add(b, data, n);
}

int execution_text(struct execution *x, struct call *call, bool is_error, const char *data,
                   size_t len, bool last, struct err *err)
{
    struct output_text *text = &x->text[is_error];
    auto_buf struct buf clean = {0};

    /* The end of what failed is told in its answer, however the rest came. */
    if (is_kept(call) || is_error)
        keep_text(x, is_error, data, len);
    if (!call->events)
        return 0;
    buf_init(&clean, 3 * (len + sizeof(text->rest))); /* U+FFFD is three bytes */
    output_text_add(text, data, len, last, &clean);
    if (clean.len == 0)
        return 0;
    return sink_event(call,
                      json_pack("{s:s, s:s%}", "event", is_error ? "stderr" : "stdout", "text",
                                clean.data, clean.len),
                      err);
}

int execution_result(struct execution *x, struct call *call, json_t *result, size_t len,
                     struct err *err)
{
    if (call->events &&
        sink_event(call, json_pack("{s:s, s:O}", "event", "result", "result", result), err) < 0) {
        json_decref(result);
        return -1;
    }
    if (!is_kept(call)) {
        json_decref(result);
        return 0;
    }
    if (x->results_len + len > EXECUTION_RESULTS_MAX || !take(x, len)) {
        x->truncated = true;
        json_decref(result);
        return 0;
    }
    x->results_len += len;
    (void)json_array_append_new(x->results, result);
    return 0;
}

int execution_exception(struct execution *x, struct call *call, json_t *exception, struct err *err)
{
    json_decref(x->exception);
    x->exception = exception;
    if (!call->events)
        return 0;
    return sink_event(call, json_pack("{s:s, s:O}", "event", "exception", "exception", exception),
                      err);
}

bool code_lacks_program(const struct buf *said, int exit_code)
{
    return exit_code == CODE_MISSING_EXIT && said->len == strlen(CODE_MISSING) &&
           memcmp(said->data, CODE_MISSING, said->len) == 0;
}

int code_missing(const char *program, struct err *err)
{
    return err_code(err, ERR_CONFLICT, "interpreter_missing",
                    "the sandbox has no %s; use an image that has, or install it", program);
}

/* What it said on stderr, as far as it is likely to be read. */
static json_t *error_text(const struct buf *b, int exit_code)
{
    size_t skip = b->len > ERROR_MAX ? b->len - ERROR_MAX : 0;
    auto_buf struct buf clean = {0};

    if (b->len == 0)
        return json_sprintf("exited with status %d", exit_code);
    buf_init(&clean, 3 * ERROR_MAX);
    (void)utf8_clean(&clean, b->data + skip, b->len - skip);
    return json_stringn_nocheck(clean.data, clean.len);
}

int execution_answer(struct execution *x, struct call *call, int exit_code, double ms,
                     struct err *err)
{
    if (execution_text(x, call, false, "", 0, true, err) < 0 ||
        execution_text(x, call, true, "", 0, true, err) < 0)
        return -1;
    call->out = json_pack("{s:o, s:f, s:i, s:b, s:O*}", "error",
                          exit_code == 0 ? json_null() : error_text(&x->streams[1], exit_code),
                          "executionTime", ms, "exitCode", exit_code, "truncated",
                          (int)x->truncated, "exception", x->exception);
    if (!is_kept(call))
        return 0;
    (void)json_object_set(call->out, "results", x->results);
    call->texts[0] = (struct text){"output", &x->streams[0]};
    call->texts[1] = (struct text){"stderr", &x->streams[1]};
    return 0;
}
