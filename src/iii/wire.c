#include "iii/wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "functions/input.h"
#include "iii/iii_internal.h"

char *wire_text(const json_t *message)
{
    char *text = json_dumps(message, JSON_COMPACT);

    if (!text)
        abort(); /* out of memory */
    return text;
}

char *wire_member(const json_t *message, const char *key)
{
    const json_t *value = wire_value(message, key);
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    if (value && !text)
        abort(); /* out of memory */
    return text;
}

void wire_put_member(json_t *message, const char *key, const char *text)
{
    if (text)
        (void)json_object_set_new(message, key, json_loads(text, JSON_DECODE_ANY, NULL));
}

static char *steal_text(json_t *message)
{
    char *text = wire_text(message);

    json_decref(message);
    return text;
}

static void put(json_t *message, const char *key, json_t *value)
{
    if (value)
        (void)json_object_set(message, key, value);
}

char *wire_result(const char *invocation_id, const char *function_id, json_t *result, json_t *error,
                  const char *traceparent, const char *baggage)
{
    json_t *m = json_pack("{s:s, s:s, s:s}", "type", "invocationresult", "invocation_id",
                          invocation_id, "function_id", function_id);

    put(m, "result", result);
    put(m, "error", error);
    json_put_text(m, "traceparent", traceparent);
    json_put_text(m, "baggage", baggage);
    return steal_text(m);
}

char *wire_invoke(const char *invocation_id, const char *function_id, json_t *data,
                  json_t *metadata, const char *traceparent, const char *baggage)
{
    json_t *m = json_pack("{s:s, s:s, s:s}", "type", "invokefunction", "invocation_id",
                          invocation_id, "function_id", function_id);

    (void)json_object_set_new(m, "data", data ? json_incref(data) : json_null());
    put(m, "metadata", metadata);
    json_put_text(m, "traceparent", traceparent);
    json_put_text(m, "baggage", baggage);
    return steal_text(m);
}

char *wire_worker_registered(const char *worker_id, const char *reattach_token)
{
    return steal_text(json_pack("{s:s, s:s, s:s}", "type", "workerregistered", "worker_id",
                                worker_id, "reattach_token", reattach_token));
}

char *wire_rejected(const char *code, const char *namespace, const char *worker_name,
                    const char *function_id, const char *owner_worker_id)
{
    json_t *m = json_pack("{s:s, s:s, s:s, s:s}", "type", "registrationrejected", "code", code,
                          "namespace", namespace, "owner_worker_id", owner_worker_id);

    json_put_text(m, "worker_name", worker_name);
    json_put_text(m, "function_id", function_id);
    return steal_text(m);
}

char *wire_trigger_refused(const json_t *message, const char *id)
{
    json_t *error = iii_error("trigger_registration_failed", "%s", III_NO_TRIGGERS);

    return steal_text(json_pack("{s:s, s:s, s:s, s:s, s:o}", "type", "triggerregistrationresult",
                                "id", id, "trigger_type", json_text(message, "trigger_type"),
                                "function_id", json_text(message, "function_id"), "error", error));
}

const char *wire_name(const json_t *message, const char *key, size_t max)
{
    const json_t *value = json_object_get(message, key);
    size_t len = json_string_length(value);

    return len > 0 && len <= max ? json_string_value(value) : NULL;
}

json_t *wire_value(const json_t *message, const char *key)
{
    json_t *value = json_object_get(message, key);

    return json_is_null(value) ? NULL : value;
}

/* By its type, which comes before what it carries in what clients send. */
static enum wire_kind kind_of(const char *text, size_t len)
{
    static const char call[] = "\"invokefunction\"", answer[] = "\"invocationresult\"";
    const char *c = memmem(text, len, call, sizeof(call) - 1);
    const char *a = memmem(text, len, answer, sizeof(answer) - 1);

    if (!c && !a)
        return WIRE_OTHER;
    return !a || (c && c < a) ? WIRE_CALL : WIRE_ANSWER;
}

enum wire_kind wire_find_id(const char *text, size_t len, char ret[UUID_SIZE])
{
    static const char key[] = "\"invocation_id\"";
    const char *at = memmem(text, len, key, sizeof(key) - 1), *end = text + len;

    if (!at)
        return WIRE_OTHER;
    at += sizeof(key) - 1;
    while (at < end && strchr(" \t\r\n:", *at))
        at++;
    if (end - at < UUID_SIZE + 1 || *at != '"' || at[UUID_SIZE] != '"')
        return WIRE_OTHER;
    memcpy(ret, at + 1, UUID_SIZE - 1);
    ret[UUID_SIZE - 1] = '\0';
    return iii_uuid_valid(ret) ? kind_of(text, len) : WIRE_OTHER;
}

size_t wire_weight(const char *text, size_t len)
{
    size_t weight = input_weight(text, len);

    return weight > len ? weight : len;
}
