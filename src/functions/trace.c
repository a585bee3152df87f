#include "functions/trace.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "functions/functions_internal.h"
#include "service/services.h"
#include "service/traces.h"

static struct traces *traces_of(const struct call *call)
{
    return call->services ? call->services->traces : NULL;
}

void call_trace_begin(struct call *call)
{
    struct traces *traces = traces_of(call);

    call->exec_us = -1;
    if (traces)
        traces_begin(traces);
    if (!traces && !call->traceparent)
        return;
    trace_context_new(&call->trace);
    trace_context_join(&call->trace, call->traceparent);
}

json_t *in_env(struct call *call)
{
    json_t *env = json_object_get(call->in, "env");
    char parent[TRACE_PARENT_SIZE];

    if (!call->trace.remote)
        return env;
    if (!env) {
        env = json_object();
        (void)json_object_set_new(call->in, "env", env);
    }
    if (json_object_get(env, "TRACEPARENT"))
        return env;
    trace_context_text(&call->trace, parent);
    (void)json_object_set_new(env, "TRACEPARENT", json_string(parent));
    if (call->tracestate && trace_state_valid(call->tracestate))
        (void)json_object_set_new(env, "TRACESTATE", json_string(call->tracestate));
    return env;
}

/* Does it last as long as its caller likes? */
static bool is_stream(const struct function *f)
{
    return f->answer == ANSWER_EVENTS || f->answer == ANSWER_ATTACH || f->answer == ANSWER_SOCKET ||
           f->answer == ANSWER_DIAL;
}

/* Who leaves a stream that only shows something has had what it came for; with one that runs a
 * command, that command ends. */
static bool is_left(const struct function *f, const struct err *err)
{
    return is_stream(f) && (f->scope == SCOPE_READ || f->answer == ANSWER_SOCKET) && err &&
           err->code && strcmp(err->code, "cancelled") == 0;
}

/* What fails inside of us may name paths of the host, which who reads traces need not know. */
static void set_error(struct trace *t, const struct err *err)
{
    bool ours = err->kind == ERR_NONE || err->kind == ERR_INTERNAL ||
                (err->kind == ERR_UNAVAILABLE && !err->code);
    auto_buf struct buf text = {0};

    t->kind = err->kind == ERR_NONE ? ERR_INTERNAL : err->kind;
    t->code = err->code ? err->code : err_kind_code(t->kind);
    buf_init(&text, 3 * sizeof(err->text) + 1);
    if (ours && strchr(err->text, '/'))
        (void)buf_add_str(&text, "internal error; see the daemon's log");
    else
        (void)utf8_clean(&text, err->text, strlen(err->text));
    if (!text.data)
        return;
    if (text.len >= sizeof(t->error))
        text.data[utf8_cut(text.data, sizeof(t->error) - 1)] = '\0';
    (void)snprintf(t->error, sizeof(t->error), "%s", text.data);
}

static const struct err unknown = {.kind = ERR_INTERNAL};

void call_trace_end(struct call *call, int r, const struct err *err)
{
    struct traces *traces = traces_of(call);
    const char *made = json_string_value(json_object_get(call->out, "id"));
    struct trace t = {
        .context = call->trace,
        .end_ms = now_ms(),
        .duration_us = (mono_ns() - call->began_ns) / 1000,
        .exec_us = call->exec_us,
        .function = call->function->id,
        .face = call->caller->face,
        .is_stream = is_stream(call->function),
    };

    if (!traces)
        return;
    if (r < 0 && !is_left(call->function, err))
        set_error(&t, err ? err : &unknown);
    /* A create has no sandbox before it has made one. */
    if (!call->sandbox_id[0] && r == 0 && made && id_valid(made, "sbx"))
        (void)snprintf(t.sandbox_id, sizeof(t.sandbox_id), "%s", made);
    else
        memcpy(t.sandbox_id, call->sandbox_id, sizeof(t.sandbox_id));
    (void)snprintf(t.caller, sizeof(t.caller), "%s", call->caller->name);
    traces_put(traces, &t);
}

void trace_refused(struct services *services, const struct err *err)
{
    if (services && services->traces)
        traces_refused(services->traces, err->kind == ERR_NONE ? ERR_INTERNAL : err->kind);
}
