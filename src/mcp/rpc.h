#pragma once

#include <jansson.h>
#include <stdbool.h>

/* JSON-RPC 2.0, as MCP has it: messages are read and made here, and nothing is known of what they
 * say. */

enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
    RPC_REFUSED = -32000, /* by us, for a reason that is in the text */
    RPC_NO_SESSION = -32001,
    RPC_NO_RESOURCE = -32002,
    RPC_HEADER_MISMATCH = -32020,
    RPC_CAPABILITY_MISSING = -32021,
    RPC_VERSION_UNSUPPORTED = -32022,
};

/* How messages are written: more digits would show how 0.1 is stored. */
#define MCP_DUMP (JSON_COMPACT | JSON_REAL_PRECISION(15))

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE, RPC_NEITHER };

/* What a message has, borrowed from it; what it lacks is NULL. */
struct rpc_message {
    const char *method;
    json_t *id, *params, *result, *error;
};

/* Of a request, or what else comes back with every message about one: a number, or a text that is
 * short. */
#define RPC_ID_BYTES 1024
bool rpc_is_id(const json_t *id);

enum rpc_kind rpc_read(const json_t *message, struct rpc_message *ret);

/* Whole messages. Each takes what it is given but the id, of which NULL is null. */
json_t *rpc_result(json_t *id, json_t *result);
json_t *rpc_error(json_t *id, int code, const char *text, json_t *data);
json_t *rpc_notification(const char *method, json_t *params);
json_t *rpc_request(json_t *id, const char *method, json_t *params);
