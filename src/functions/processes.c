#include "engine/processes.h"
#include "base/signals.h"
#include "functions/functions_internal.h"

static int list(struct call *call, struct err *err)
{
    return engine_processes(call->engine, in_id(call), &call->out, err);
}

static int top(struct call *call, struct err *err)
{
    return engine_processes_top(call->engine, in_id(call), &call->out, err);
}

static int kill_process(struct call *call, struct err *err)
{
    const char *signal = in_str(call, "signal");
    json_int_t pid = in_int(call, "pid");

    if (engine_process_kill(call->engine, in_id(call), (uint32_t)pid, signal, err) < 0)
        return -1;
    call->out = json_pack("{s:I, s:s}", "killed", pid, "signal", signal);
    return 0;
}

static const struct field kill_fields[] = {
    {"pid", FIELD_INT, .min = 1, .max = PID_NUMBER_MAX, .example = "7", .help = "in the sandbox"},
    {"signal", FIELD_STRING, .choices = signal_words, .preset = "\"TERM\"", .help = "what to send"},
    {0},
};

const struct function process_functions[] = {
    {"proc::list", "GET", "/sandboxes/:sandboxId/processes", NULL, list, "sandbox_process_list",
     SCOPE_READ, .reach = REACH_SANDBOX, .help = "Lists the processes of a sandbox",
     .gives = &process_list_shape, .errors = ERRORS_AGENT},
    {"proc::kill", "POST", "/sandboxes/:sandboxId/processes/kill", kill_fields, kill_process,
     "sandbox_process_kill", SCOPE_EXEC, .reach = REACH_SANDBOX,
     .help = "Sends a signal; fine if the process is gone", .gives = &process_killed_shape,
     .errors = ERRORS_AGENT},
    {"proc::top", "GET", "/sandboxes/:sandboxId/processes/top", NULL, top, NULL, SCOPE_READ,
     .reach = REACH_SANDBOX, .help = "Lists the processes with what they use",
     .gives = &process_top_shape, .errors = ERRORS_AGENT},
    {0},
};
