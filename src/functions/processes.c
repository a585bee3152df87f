#include "functions/functions_internal.h"
#include "engine/engine.h"

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
    {"pid", FIELD_INT, .required = true, .min = 1, .max = PID_NUMBER_MAX, .help = "in the sandbox"},
    {"signal", FIELD_STRING, .min = 1, .max = 8, .preset = "\"TERM\"",
     .help = "TERM, KILL, INT, HUP, USR1, USR2, STOP or CONT"},
    {0},
};

const struct function process_functions[] = {
    {"proc::list", "GET", "/sandboxes/:id/processes", NULL, list, "sandbox_process_list",
     SCOPE_READ, .help = "Lists the processes of a sandbox",
     .result = "{processes: [{pid, user, cpu, memory, command}]}"},
    {"proc::kill", "POST", "/sandboxes/:id/processes/kill", kill_fields, kill_process,
     "sandbox_process_kill", SCOPE_EXEC, .help = "Sends a signal; fine if the process is gone",
     .result = "{killed: pid, signal}"},
    {"proc::top", "GET", "/sandboxes/:id/processes/top", NULL, top, NULL, SCOPE_READ,
     .help = "Lists the processes with what they use",
     .result = "{processes: [{pid, cpu, mem, vsz, rss, command}]}"},
    {0},
};
