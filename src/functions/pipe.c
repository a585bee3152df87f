#include "functions/pipe.h"

bool pipe_is_ref(const json_t *value)
{
    return json_is_string(json_object_get(value, "channel_id")) &&
           json_is_string(json_object_get(value, "access_key")) &&
           json_is_string(json_object_get(value, "direction"));
}
