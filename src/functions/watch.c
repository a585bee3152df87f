#include "engine/watch.h"

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
