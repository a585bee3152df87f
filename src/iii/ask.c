#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/function.h"
#include "iii/iii_internal.h"
#include "iii/registry.h"

/* ---- who asks ---- */

struct iii_asker *iii_asker_ref(struct iii_asker *a)
{
    atomic_fetch_add(&a->refs, 1);
    return a;
}

void iii_asker_unref(struct iii_asker *a)
{
    if (!a || atomic_fetch_sub(&a->refs, 1) != 1)
        return;
    iii_share_unref(a->share);
    a->free(a);
}

static void asker_free(struct iii_asker *a)
{
    free(a);
}

struct iii_asker *iii_asker_new(const struct caller *caller, struct rates *rates,
                                const char *namespace)
{
    struct iii_asker *a = xcalloc(1, sizeof(*a));

    atomic_init(&a->refs, 1);
    a->caller = *caller;
    a->caller.face = "iii";
    a->rates = rates;
    a->share = iii_share_new(caller);
    a->free = asker_free;
    (void)snprintf(a->namespace, sizeof(a->namespace), "%s", namespace ? namespace : III_NAMESPACE);
    return a;
}

json_t *iii_error(const char *code, const char *fmt, ...)
{
    auto_buf struct buf clean = {0};
    char *text = NULL;
    json_t *error;
    va_list args;

    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        abort(); /* out of memory */
    va_end(args);
    /* One that was cut in the middle of a character would not be JSON. */
    buf_init(&clean, 3 * strlen(text) + 1);
    (void)utf8_clean(&clean, text, strlen(text));
    error = json_pack("{s:s, s:s#}", "code", code, "message", clean.data ? clean.data : "",
                      (int)clean.len);
    free(text);
    return error;
}

/* ---- asking ---- */

json_t *iii_call_begin(struct iii_hub *hub, const struct iii_asker *asker)
{
    if (iii_share_take_call(asker->share, &hub->calls, III_CALLS_MAX))
        return NULL;
    return iii_error("invocation_error",
                     "as many calls of this client wait for their answers as may, of the %d of "
                     "all; try again when some have been answered",
                     III_CALLS_MAX);
}

void iii_call_end(struct iii_hub *hub, const struct iii_asker *asker)
{
    iii_share_give_call(asker->share, &hub->calls);
}

static void ignore(void *arg, json_t *result, json_t *error)
{
    (void)arg;
    (void)result;
    (void)error;
}

/* The daemon's own functions are in the default namespace. Returns NULL when there is none. */
static const struct function *row_of(const struct iii_question *q)
{
    const struct function *f;

    if (q->namespace && strcmp(q->namespace, III_NAMESPACE) != 0)
        return NULL;
    f = iii_function(q->function_id);
    return f ? f : function_find(q->function_id);
}

/* Functions of the workers that come with an iii engine: state, streams, queues and topics. */
static bool is_engines(const char *id)
{
    static const char *const begin[] = {
        "engine::", "state::", "stream::", "iii::", "queue::", "configuration::"};

    for (size_t i = 0; i < ARRAY_LEN(begin); i++)
        if (str_starts(id, begin[i]))
            return true;
    return strcmp(id, "publish") == 0;
}

void iii_ask(struct iii_hub *hub, const struct iii_question *q, iii_answered answered, void *arg)
{
    const struct function *f;
    json_t *error;

    if (!answered)
        answered = ignore;
    if (iii_engine_ask(hub, q, answered, arg))
        return;
    f = row_of(q);
    if (f) {
        iii_row_ask(hub, f, q, answered, arg);
        return;
    }
    if (iii_registry_ask(hub->registry, q, answered, arg))
        return;
    error = iii_error("function_not_found", "Function %s not found%s", q->function_id,
                      is_engines(q->function_id) ? "; " III_NO_STATE : "");
    answered(arg, NULL, error);
    json_decref(error);
}
