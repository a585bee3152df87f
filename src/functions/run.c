#include "functions/function.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "functions/audited.h"
#include "functions/keys.h"
#include "functions/trace.h"

/* The life of a call, whichever face it comes from: what is true of every row is done here, once.
 */

void function_begin(const struct function *f, struct call *call)
{
    call->function = f;
    call->began_ns = mono_ns();
    call_trace_begin(call);
}

/* For what is told of the call at its end. */
static void note_sandbox(struct call *call)
{
    const char *id = json_string_value(json_object_get(call->in, "sandboxId"));

    if (id)
        (void)snprintf(call->sandbox_id, sizeof(call->sandbox_id), "%s", id);
}

int function_check(const struct function *f, const struct caller *caller, struct err *err)
{
    if (f->scope != SCOPE_NONE && !(caller->scopes & 1u << f->scope))
        return err_code(err, ERR_FORBIDDEN, "scope_missing",
                        "%s needs a token with the scope \"%s\"", f->id, scope_words[f->scope]);
    if ((f->flags & FUNCTION_LOCAL) && !caller->local)
        return err_code(err, ERR_FORBIDDEN, "local_only",
                        "the daemon reads a path of its own machine only for root there: run `cay "
                        "image import` as root on that machine, over the unix socket");
    return 0;
}

static int check_rate(struct call *call, struct err *err)
{
    int r = rates_take_row(call, mono_ns(), err);

    if (call->on_rate)
        call->on_rate(call);
    return r;
}

int function_run(const struct function *f, struct call *call, struct err *err)
{
    if (function_check(f, call->caller, err) < 0 || reach_take_name(call, err) < 0)
        return -1;
    note_sandbox(call);
    audited_begin(call);
    if (reach_check(f, call, err) < 0 || check_rate(call, err) < 0)
        return -1;
    if (keyed_run(f, call, err) == 0)
        return 0;
    reach_hide(call, err);
    return -1;
}

void function_end(struct call *call, int r, const struct err *err)
{
    call_trace_end(call, r, err);
    audited_end(call, r, err);
}

void function_refused(struct services *services, const struct err *err)
{
    trace_refused(services, err);
}
