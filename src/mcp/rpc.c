#include "mcp/rpc.h"

#include <string.h>

#include "base/buf.h"
#include "base/str.h"

bool rpc_is_id(const json_t *id)
{
    return json_is_integer(id) || (json_is_string(id) && json_string_length(id) <= RPC_ID_BYTES);
}

enum rpc_kind rpc_read(const json_t *message, struct rpc_message *ret)
{
    const char *version = json_string_value(json_object_get(message, "jsonrpc"));

    *ret = (struct rpc_message){
        .method = json_string_value(json_object_get(message, "method")),
        .id = json_object_get(message, "id"),
        .params = json_object_get(message, "params"),
        .result = json_object_get(message, "result"),
        .error = json_object_get(message, "error"),
    };
    if (!version || strcmp(version, "2.0") != 0 || (ret->params && !json_is_object(ret->params)))
        return RPC_NEITHER;
    if (ret->id && !rpc_is_id(ret->id))
        return RPC_NEITHER;
    if (ret->method)
        return ret->id ? RPC_REQUEST : RPC_NOTIFICATION;
    if (ret->id && (json_is_object(ret->result) || json_is_object(ret->error)))
        return RPC_RESPONSE;
    return RPC_NEITHER;
}

static json_t *envelope(json_t *id)
{
    return json_pack("{s:s, s:o}", "jsonrpc", "2.0", "id", id ? json_incref(id) : json_null());
}

json_t *rpc_result(json_t *id, json_t *result)
{
    json_t *message = envelope(id);

    (void)json_object_set_new(message, "result", result);
    return message;
}

/* A text that names what a client sent may be cut in the middle of a character. */
static json_t *clean_string(const char *text)
{
    auto_buf struct buf clean = {0};
    size_t len = strlen(text);

    buf_init(&clean, 3 * len + 3); /* U+FFFD is three bytes */
    (void)utf8_clean(&clean, text, len);
    return json_stringn(clean.data ? clean.data : "", clean.len);
}

json_t *rpc_error(json_t *id, int code, const char *text, json_t *data)
{
    json_t *message = envelope(id);
    json_t *error = json_pack("{s:i, s:o}", "code", code, "message", clean_string(text));

    if (data)
        (void)json_object_set_new(error, "data", data);
    (void)json_object_set_new(message, "error", error);
    return message;
}

json_t *rpc_notification(const char *method, json_t *params)
{
    json_t *message = json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", method);

    if (params)
        (void)json_object_set_new(message, "params", params);
    return message;
}

json_t *rpc_request(json_t *id, const char *method, json_t *params)
{
    json_t *message = rpc_notification(method, params);

    (void)json_object_set(message, "id", id);
    return message;
}
