#include "rest/progress.h"

#include "base/err.h"
#include "functions/functions_internal.h"
#include "http/server.h"
#include "rest/errors.h"

static int begin(struct progress *p)
{
    if (!p->begun && !p->gone) {
        p->begun = true;
        p->gone = sse_begin(&p->sse, p->call->req) < 0;
    }
    return p->gone ? -1 : 0;
}

static int on_event(const json_t *event, void *arg)
{
    struct progress *p = arg;

    if (begin(p) < 0)
        return -1;
    p->gone = (event ? sse_send(&p->sse, json_deep_copy(event)) : sse_ping(&p->sse)) < 0;
    return p->gone ? -1 : 0;
}

static bool client_gone(void *arg)
{
    const struct progress *p = arg;

    return http_client_gone(p->call->req);
}

struct engine_watch progress_begin(struct progress *p, struct call *call)
{
    *p = (struct progress){.call = call};
    return (struct engine_watch){
        .progress = call->events ? on_event : NULL,
        .cancelled = call->req ? client_gone : NULL,
        .arg = p,
        .cancel_fd = call->req ? http_req_fd(call->req) : -1,
    };
}

static json_t *error_event(const struct progress *p, const struct err *err)
{
    json_t *o = api_error(p->call->req, err);

    (void)json_object_set_new(o, "event", json_string("error"));
    (void)json_object_set_new(o, "status", json_integer(error_status(err->kind)));
    return o;
}

int progress_end(struct progress *p, int r, const char *event, const char *key, json_t *result,
                 struct err *err)
{
    json_t *last;

    if (!p->call->events) {
        if (r == 0)
            p->call->out = result;
        return r;
    }
    if (r < 0 && !p->begun)
        return -1;
    if (begin(p) == 0) {
        last = r < 0 ? error_event(p, err) : json_pack("{s:s, s:O}", "event", event, key, result);
        if (sse_send(&p->sse, last) == 0)
            sse_end(&p->sse);
    }
    json_decref(result);
    sse_done(&p->sse);
    return 0;
}
