#include "engine/processes.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/signals.h"
#include "engine/agent_client_internal.h"
#include "engine/json_text_internal.h"
#include "engine/sandbox_internal.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

struct process_list {
    json_t *items;
    double memory_limit; /* bytes */
    bool top;            /* the columns of top, else those of the plain list */
};

static json_t *percent(double part, double whole)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%.1f", whole > 0 ? 100 * part / whole : 0.0);
    return json_string(text);
}

static int add_process(const struct buf *payload, void *arg, struct err *err)
{
    struct process_list *l = arg;
    struct call_process p;
    struct wire w;
    json_t *o;

    wire_init(&w, payload->data, payload->len);
    call_process_get(&w, &p);
    if (!wire_ok(&w) || p.vsz > INT64_MAX || p.rss > INT64_MAX) {
        call_process_done(&p);
        return agent_broken(err, "a process in a form that cannot be read");
    }
    o = json_object();
    (void)json_object_set_new(o, "pid", json_integer(p.pid));
    if (!l->top)
        (void)json_object_set_new(o, "user", json_cstr(p.user));
    /* Over its whole life, as ps says it. */
    (void)json_object_set_new(o, "cpu", percent((double)p.cpu_ms, (double)p.age_ms));
    (void)json_object_set_new(o, l->top ? "mem" : "memory",
                              percent((double)p.rss, l->memory_limit));
    if (l->top) {
        (void)json_object_set_new(o, "vsz", json_integer((json_int_t)p.vsz / 1024));
        (void)json_object_set_new(o, "rss", json_integer((json_int_t)p.rss / 1024));
    }
    (void)json_object_set_new(o, "command", json_cstr(p.command));
    (void)json_array_append_new(l->items, o);
    call_process_done(&p);
    return 0;
}

static int list(struct engine *e, const char *id, bool top, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct process_list l = {.top = top};

    if (sandbox_get_running(e, id, &sb, err) < 0)
        return -1;
    l.memory_limit = (double)sandbox_limits(sb).memory_mb * (1 << 20);
    l.items = json_array();
    if (agent_items(e, sb, CALL_PS, NULL, add_process, &l, err) < 0) {
        json_decref(l.items);
        return -1;
    }
    *ret = json_object();
    (void)json_object_set_new(*ret, "processes", l.items);
    return 0;
}

int engine_processes(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    return list(e, id, false, ret, err);
}

int engine_processes_top(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    return list(e, id, true, ret, err);
}

static int bad_signal(struct err *err)
{
    auto_buf struct buf words = {0};

    buf_init(&words, 200);
    for (const char *const *w = signal_words; *w; w++)
        (void)buf_addf(&words, "%s%s", words.len > 0 ? ", " : "", *w);
    return err_set(err, ERR_INVALID, "signal must be one of %s", words.data);
}

int engine_process_kill(struct engine *e, const char *id, uint32_t pid, const char *signal,
                        struct err *err)
{
    int number = signal_of_word(signal ? signal : "TERM");
    auto_sandbox struct sandbox *sb = NULL;
    auto_buf struct buf args = {0};

    if (number < 0)
        return bad_signal(err);
    if (sandbox_get_running(e, id, &sb, err) < 0)
        return -1;
    if (pid == 0)
        return err_set(err, ERR_INVALID, "pid is required: a process id of the sandbox");
    buf_init(&args, FRAME_MAX);
    wire_put_u32(&args, pid);
    wire_put_u32(&args, (uint32_t)number);
    return agent_simple(e, sb, CALL_KILL, &args, err);
}
