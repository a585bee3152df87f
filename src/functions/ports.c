#include "engine/ports.h"

#include "functions/functions_internal.h"
#include "functions/proxied.h"
#include "functions/proxy_internal.h"
#include "model/port.h"

static int expose(struct call *call, struct err *err)
{
    return engine_port_expose(call->engine, in_id(call), call->in, &call->out, err);
}

static int list(struct call *call, struct err *err)
{
    return engine_ports(call->engine, in_id(call), &call->out, err);
}

static int unexpose(struct call *call, struct err *err)
{
    return engine_port_remove(call->engine, in_id(call), (uint16_t)in_int(call, "containerPort"),
                              in_str(call, "protocol"), &call->out, err);
}

/* The face connects; here is said whether it can come to that. */
static int dial(struct call *call, struct err *err)
{
    uint16_t port;

    return in_port(call, &port, err) < 0 ? -1 : proxied_check(call->engine, in_id(call), err);
}

static const struct field unexpose_fields[] = {
    {"containerPort", FIELD_INT, .min = 1, .max = 65535, .example = "8000",
     .help = "in the sandbox"},
    {"protocol", FIELD_STRING, .optional = true, .choices = port_protocol_words,
     .help = "only this one (default: both)"},
    {0},
};

const struct function port_functions[] = {
    {"port::expose", "POST", "/sandboxes/:sandboxId/ports", port_request_fields, expose,
     "sandbox_port_expose", SCOPE_WRITE, .reach = REACH_SANDBOX, .flags = FUNCTION_MAKES,
     .help = "Lets a port of a sandbox be reached on the host, with or without a network",
     .gives = &port_shape,
     .errors = ERRORS_GONE " sandbox_not_running sandbox_busy no_space " ERRORS_PORT},
    {"port::list", "GET", "/sandboxes/:sandboxId/ports", NULL, list, "sandbox_port_list",
     SCOPE_READ, .reach = REACH_SANDBOX,
     .help = "Lists the ports of a sandbox that can be reached on the host",
     .gives = &port_list_shape, .errors = ERRORS_GONE " sandbox_busy"},
    {"port::unexpose", "DELETE", "/sandboxes/:sandboxId/ports", unexpose_fields, unexpose, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX,
     .help = "A port cannot be reached on the host any more; connections are cut",
     .gives = &port_removed_shape,
     .errors = ERRORS_GONE " sandbox_not_running sandbox_busy no_space port_not_found"},
    {"port::dial", "POST", "/sandboxes/:sandboxId/dial/:port", NULL, dial, NULL, SCOPE_EXEC,
     .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .answer = ANSWER_DIAL,
     .help = "Connects to a TCP port of a sandbox: the connection becomes that one (Upgrade: "
             "cay-dial)",
     .errors = ERRORS_AGENT " port_closed port_busy too_many_streams upgrade_required"},
    {0},
};
