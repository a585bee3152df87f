#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "engine/network.h"
#include "functions/functions_internal.h"

#define LOG_LIMIT_MAX 1000

/* What a sandbox may reach, while it lives. */

static int get(struct call *call, struct err *err)
{
    return engine_network_get(call->engine, in_id(call), &call->out, err);
}

static int set(struct call *call, struct err *err)
{
    return engine_network_set(call->engine, in_id(call), json_object_get(call->in, "network"),
                              &call->out, err);
}

static int explain(struct call *call, struct err *err)
{
    struct network_question q = {.host = in_str(call, "host"),
                                 .port = (uint16_t)in_int(call, "port"),
                                 .protocol = in_str(call, "protocol")};

    return engine_network_explain(call->engine, in_id(call), &q, &call->out, err);
}

static int log_of(struct call *call, struct err *err)
{
    return engine_network_log(call->engine, in_id(call), (uint64_t)in_int(call, "after"),
                              (uint32_t)in_int(call, "limit"), &call->out, err);
}

/* ---- following the log ---- */

struct follow_task {
    struct task task;
    struct network_watch *watch;
    char id[ID_SIZE];
    uint64_t after;
    uint32_t limit; /* of the next look */
};

static void follow_free(struct task *task)
{
    struct follow_task *t = (struct follow_task *)task;

    network_watch_close(t->watch);
    free(t);
}

static int send_denials(struct call *call, const json_t *denials, struct err *err)
{
    size_t i;
    json_t *d;

    json_array_foreach(denials, i, d)
    {
        if (sink_event(call, json_incref(d), err) < 0)
            return -1;
    }
    return i > 0 ? 0 : sink_event(call, NULL, err);
}

/* It ends with the sandbox. */
static int follow_step(struct task *task, struct call *call, struct err *err)
{
    struct follow_task *t = (struct follow_task *)task;
    json_t *log = NULL;
    int r;

    network_watch_seen(t->watch);
    if (engine_network_log(call->engine, t->id, t->after, t->limit, &log, NULL) < 0)
        return TASK_DONE;
    t->after = (uint64_t)json_integer_value(json_object_get(log, "next"));
    t->limit = LOG_LIMIT_MAX;
    r = send_denials(call, json_object_get(log, "denied"), err);
    json_decref(log);
    if (r < 0)
        return -1;
    return call->draining ? TASK_DONE : TASK_WAITS;
}

static const struct task_ops follow_ops = {.step = follow_step, .free = follow_free};

static int follow(struct call *call, struct err *err)
{
    struct network_watch *watch;
    struct follow_task *t;
    json_t *now;

    if (engine_network_watch(call->engine, in_id(call), &watch, err) < 0)
        return -1;
    t = xcalloc(1, sizeof(*t));
    t->task = (struct task){.ops = &follow_ops, .fd = network_watch_fd(watch), .events = EPOLLIN};
    t->watch = watch;
    (void)snprintf(t->id, sizeof(t->id), "%s", in_id(call));
    t->limit = (uint32_t)in_int(call, "tail");
    call->task = &t->task;
    if (t->limit > 0)
        return 0;
    /* Nothing of before: from where it is now. */
    if (engine_network_log(call->engine, t->id, 0, 1, &now, err) < 0)
        return -1;
    t->after = (uint64_t)json_integer_value(json_object_get(now, "next"));
    t->limit = LOG_LIMIT_MAX;
    json_decref(now);
    return 0;
}

static const struct field set_fields[] = {
    {"network", FIELD_NETWORK, .max = NETWORK_TEXT_MAX, .example = "\"packages\"",
     .help = "as in a create: false nothing, true the public internet, a preset or a policy"},
    {0},
};

static const char *const protocols[] = {"tcp", "udp", "icmp", NULL};

static const struct field explain_fields[] = {
    {"host", FIELD_STRING, .min = 1, .max = 253, .example = "\"pypi.org\"",
     .help = "a name or an address"},
    {"port", FIELD_INT, .min = 1, .max = 65535, .preset = "443", .help = "there"},
    {"protocol", FIELD_STRING, .choices = protocols, .preset = "\"tcp\"", .help = "of it"},
    {0},
};

static const struct field log_fields[] = {
    {"after", FIELD_INT, .min = 0, .max = 9007199254740991, .preset = "0",
     .help = "`next` of the answer before"},
    {"limit", FIELD_INT, .clamp = true, .min = 1, .max = LOG_LIMIT_MAX, .preset = "100",
     .help = "at most so many, the newest"},
    {0},
};

static const struct field follow_fields[] = {
    {"tail", FIELD_INT, .clamp = true, .min = 0, .max = LOG_LIMIT_MAX, .preset = "100",
     .help = "how many of the last lines to begin with"},
    {0},
};

#define ERRORS_NETWORK ERRORS_GONE " network_unsupported gateway_down gateway_failed"

const struct function sandbox_network_functions[] = {
    {"sandbox::network", "GET", "/sandboxes/:sandboxId/network", NULL, get, NULL, SCOPE_READ,
     .reach = REACH_SANDBOX,
     .help = "Shows what a sandbox may reach, its addresses and what it was refused",
     .gives = &sandbox_network_shape, .errors = ERRORS_GONE},
    {"sandbox::network_set", "PUT", "/sandboxes/:sandboxId/network", set_fields, set, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX,
     .help = "Changes what a sandbox may reach, also while it is paused or stopped; connections "
             "that are no longer allowed are cut",
     .gives = &sandbox_network_shape,
     .errors = ERRORS_NETWORK " bad_policy network_full sandbox_busy no_space"},
    {"sandbox::network_explain", "GET", "/sandboxes/:sandboxId/network/explain", explain_fields,
     explain, NULL, SCOPE_READ, .reach = REACH_SANDBOX,
     .help = "Tells what would happen to a connection, and why", .gives = &network_verdict_shape,
     .errors = ERRORS_NETWORK " network_not_attached"},
    {"sandbox::network_explain_post", "POST", "/sandboxes/:sandboxId/network/explain",
     explain_fields, explain, NULL, SCOPE_READ, .reach = REACH_SANDBOX,
     .help = "Tells what would happen to a connection, and why", .gives = &network_verdict_shape,
     .errors = ERRORS_NETWORK " network_not_attached"},
    {"sandbox::network_log", "GET", "/sandboxes/:sandboxId/network/log", log_fields, log_of, NULL,
     SCOPE_READ, .reach = REACH_SANDBOX, .help = "Lists what a sandbox was refused",
     .gives = &network_log_shape, .errors = ERRORS_GONE},
    {"stream::network", "GET", "/sandboxes/:sandboxId/stream/network", follow_fields, follow, NULL,
     SCOPE_READ, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .answer = ANSWER_EVENTS,
     .help = "Streams what a sandbox is refused, until it is removed",
     .events = &network_denial_shape, .errors = ERRORS_GONE " too_many_streams"},
    {0},
};
