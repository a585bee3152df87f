#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "engine/engine.h"
#include "rest/sse.h"

struct call;
struct err;

/* Work that takes time. A caller that asked for text/event-stream gets what happens, then
 * {"event": …} with the result, or {"event": "error", "status", "error", "code"}; others get the
 * result only. Nothing is answered before the first event, so that what fails at once still has its
 * status. When the caller goes away the work ends. */
struct progress {
    struct call *call;
    struct sse sse;
    bool begun, gone;
};

struct engine_watch progress_begin(struct progress *p, struct call *call);

/* r is what the work returned, with err set if that is -1. The result (taken) goes under key, in
 * the event of that name. Returns what the function of the row must return. */
int progress_end(struct progress *p, int r, const char *event, const char *key, json_t *result,
                 struct err *err);
