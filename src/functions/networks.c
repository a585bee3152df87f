#include "engine/networks.h"

#include "base/err.h"
#include "base/mem.h"
#include "functions/functions_internal.h"

static const char *in_network(const struct call *call)
{
    return in_str(call, "networkId");
}

static int create(struct call *call, struct err *err)
{
    return engine_networks_create(call->engine, in_str(call, "name"), &call->out, err);
}

static int list(struct call *call, struct err *err)
{
    (void)err;
    engine_networks_list(call->engine, &call->out);
    return 0;
}

static int get(struct call *call, struct err *err)
{
    return engine_networks_get(call->engine, in_network(call), &call->out, err);
}

static int connect_sandbox(struct call *call, struct err *err)
{
    if (engine_networks_connect(call->engine, in_network(call), in_id(call), err) < 0)
        return -1;
    call->out = json_pack("{s:b}", "connected", 1);
    return 0;
}

static int disconnect_sandbox(struct call *call, struct err *err)
{
    if (engine_networks_disconnect(call->engine, in_network(call), in_id(call), err) < 0)
        return -1;
    call->out = json_pack("{s:b}", "disconnected", 1);
    return 0;
}

static int delete_network(struct call *call, struct err *err)
{
    auto_free char *id = NULL;

    if (engine_networks_remove(call->engine, in_network(call), &id, err) < 0)
        return -1;
    call->out = json_pack("{s:s}", "deleted", id);
    return 0;
}

static const struct field create_fields[] = {
    {"name", FIELD_STRING, .min = 1, .max = NETWORK_NAME_MAX, .example = "\"backend\"",
     .help = "letters, digits, _ . and -; no other network has it"},
    {"driver", FIELD_STRING, .optional = true, .lenient = true, .max = 255,
     .help = "taken and ignored, for clients that send it"},
    {0},
};

static const struct field member_fields[] = {
    {"sandboxId", FIELD_STRING, .min = 1, .max = 1024, .example = EXAMPLE_SANDBOX_ID,
     .help = "id of a sandbox, or the name of exactly one"},
    {0},
};

#define ERRORS_MEMBER                                                                              \
    ERRORS_GONE " " ERRORS_NET " network_not_found sandbox_not_running sandbox_busy no_space"

const struct function network_functions[] = {
    {"network::create", "POST", "/networks", create_fields, create, "sandbox_network_create",
     SCOPE_WRITE, .reach = REACH_NEVER, .flags = FUNCTION_MAKES,
     .help = "Makes a network, in which sandboxes see each other", .gives = &network_shape,
     .errors = "network_exists network_limit no_space"},
    {"network::list", "GET", "/networks", NULL, list, NULL, SCOPE_READ, .reach = REACH_NEVER,
     .help = "Lists networks, the newest first", .gives = &network_list_shape},
    {"network::get", "GET", "/networks/:networkId", NULL, get, NULL, SCOPE_READ,
     .reach = REACH_NEVER, .help = "Shows a network and who is in it", .gives = &network_shape,
     .errors = "network_not_found"},
    {"network::connect", "POST", "/networks/:networkId/connect", member_fields, connect_sandbox,
     "sandbox_network_connect", SCOPE_WRITE, .reach = REACH_NEVER, .flags = FUNCTION_MAKES,
     .help = "Connects a sandbox, also one without network, at once and whenever it is started",
     .gives = &network_connected_shape, .errors = ERRORS_MEMBER " network_connected network_limit"},
    {"network::disconnect", "POST", "/networks/:networkId/disconnect", member_fields,
     disconnect_sandbox, NULL, SCOPE_WRITE, .reach = REACH_NEVER,
     .help = "Takes a sandbox out of a network; what is open between it and the others is cut",
     .gives = &network_disconnected_shape, .errors = ERRORS_MEMBER " network_not_connected"},
    {"network::delete", "DELETE", "/networks/:networkId", NULL, delete_network, NULL, SCOPE_WRITE,
     .reach = REACH_NEVER, .help = "Removes a network; sandboxes in it are disconnected first",
     .gives = &network_deleted_shape, .errors = ERRORS_MEMBER},
    {0},
};
