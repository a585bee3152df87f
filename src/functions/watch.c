#include "engine/watch.h"

#include "base/err.h"
#include "engine/sandboxes.h"
#include "functions/functions_internal.h"
#include "functions/keys.h"

static int on_progress(const json_t *event, void *arg)
{
    struct call *call = arg;

    return sink_event(call, event ? json_deep_copy(event) : NULL, NULL);
}

static bool is_cancelled(void *arg)
{
    return !call_is_wanted(arg);
}

static int on_makes(const char *id, void *arg, struct err *err)
{
    return call_makes(arg, id, err);
}

struct engine_watch call_watch(struct call *call)
{
    return (struct engine_watch){
        .progress = on_progress,
        .cancelled = is_cancelled,
        .arg = call,
        .cancel_fd = call->gone_fd,
        .until_ns = call->deadline_ns,
        .makes = on_makes,
    };
}

static void remove_made(struct call *call, const json_t *sandbox)
{
    (void)engine_remove(call->engine, json_string_value(json_object_get(sandbox, "id")), NULL);
}

int call_gives_made(struct call *call, json_t **made, struct err *err)
{
    if (call->hold || call_is_wanted(call))
        return 0;
    if (json_is_object(*made))
        remove_made(call, *made);
    for (size_t i = 0; i < json_array_size(*made); i++)
        remove_made(call, json_array_get(*made, i));
    json_decref(*made);
    *made = NULL;
    return err_code(err, ERR_CONFLICT, "cancelled",
                    "the caller went away before it heard of the sandbox, which was removed");
}
