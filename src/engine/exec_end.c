#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/exec.h"
#include "engine/exec_internal.h"
#include "engine/json_text_internal.h"
#include "engine/network_internal.h"
#include "engine/news_internal.h"
#include "engine/sandbox_internal.h"
#include "model/no_network.h"
#include "proto/call.h"

/* How a command ended: as a number, as a word for programs, and as a sentence for people. */

#define KILLED (128 + 9)

int exit_code_of(const struct call_exit *x)
{
    switch (x->how) {
    case EXIT_CODE:
        return (int)(x->code & 0xff);
    case EXIT_TIMEOUT:
        return 124;
    case EXIT_SIGNAL:
        return 128 + (int)(x->code & 0x7f);
    default:
        return KILLED;
    }
}

const char *exit_reason_of(const struct call_exit *x)
{
    static const char *const reasons[] = {
        [EXIT_CODE] = "exit",           [EXIT_SIGNAL] = "signal", [EXIT_TIMEOUT] = "timeout",
        [EXIT_CANCELLED] = "cancelled", [EXIT_LOST] = "lost",
    };

    if (x->how >= ARRAY_LEN(reasons))
        return NULL;
    /* A shell passes on the death of its child as 137. */
    return (x->code & EXIT_MEMORY) && exit_code_of(x) == KILLED ? "oom" : reasons[x->how];
}

static char *memory_words(const struct sandbox *sb, const struct call_exit *x)
{
    const char *what = exit_code_of(x) == KILLED
                           ? "killed"
                           : "while it ran the kernel killed a process of the sandbox";

    return xasprintf("%s: the sandbox's memory limit of %u MiB was reached; create it with more "
                     "memory",
                     what, __atomic_load_n(&sb->spec.limits.memory_mb, __ATOMIC_RELAXED));
}

/* A sentence for people, or NULL when it ended by itself. Free it. */
static char *exit_words(const struct sandbox *sb, const struct call_exit *x)
{
    const char *name = x->how == EXIT_SIGNAL ? sigabbrev_np((int)(x->code & 0x7f)) : NULL;

    if (x->code & EXIT_MEMORY)
        return memory_words(sb, x);
    switch ((enum call_exit_how)x->how) {
    case EXIT_CODE:
        return NULL;
    case EXIT_SIGNAL:
        return xasprintf("ended by signal %u%s%s%s", x->code & 0x7f, name ? " (SIG" : "",
                         name ? name : "", name ? ")" : "");
    case EXIT_TIMEOUT:
        return xstrdup("ended with all that it started: its timeout was over");
    case EXIT_CANCELLED:
        return xstrdup("ended with all that it started: somebody asked for that by its id, or who "
                       "waited for it hung up");
    case EXIT_LOST:
        return xstrdup("it has ended and nobody saw how: its sandbox was stopped, or what looked "
                       "after it was killed, most likely for lack of memory");
    }
    return NULL;
}

/* What is to say of an end beside its number and its reason. */
static void put_words(json_t *o, const struct sandbox *sb, const struct call_exit *x)
{
    auto_free char *words = exit_words(sb, x);

    if (x->code & EXIT_MEMORY)
        (void)json_object_set_new(o, "oom", json_true());
    if (words)
        (void)json_object_set_new(o, "message", json_string(words));
}

void exit_put(json_t *o, const struct sandbox *sb, const struct call_exit *x)
{
    (void)json_object_set_new(o, "exitCode", json_integer(exit_code_of(x)));
    (void)json_object_set_new(o, "reason", json_string(exit_reason_of(x)));
    put_words(o, sb, x);
}

void engine_exec_put_words(const struct exec *x, json_t *o)
{
    put_words(o, x->sandbox, &x->end);
}

void exec_tell_started(struct engine *e, const char *sandbox_id, const char *exec_id,
                       const char *command, bool background)
{
    json_t *data = json_pack("{s:s, s:s, s:o}", "sandboxId", sandbox_id, "execId", exec_id,
                             "command", json_cstr(command));

    if (background)
        (void)json_object_set_new(data, "background", json_true());
    engine_tell(e, "exec.started", sandbox_id, data);
}

/* By both names: the second is the contract's. Takes data. */
static void tell_end(struct exec *x, json_t *data)
{
    const char *id = x->sandbox->box.id;

    (void)json_object_set_new(data, "sandboxId", json_string(id));
    (void)json_object_set_new(data, "execId", json_string(x->id));
    engine_tell(x->engine, "exec.finished", id, json_deep_copy(data));
    engine_tell(x->engine, "sandbox.exec", id, data);
    x->told = false;
}

void exec_tell_ended(struct exec *x, double duration_ms)
{
    if (x->told)
        tell_end(x, json_pack("{s:i, s:s, s:f}", "exitCode", exit_code_of(&x->end), "reason",
                              exit_reason_of(&x->end), "durationMs", duration_ms));
}

void exec_tell_failed(struct exec *x, const struct err *why)
{
    if (x->told)
        tell_end(x, json_pack("{s:s, s:s, s:o}", "reason", "failed", "code",
                              why->code ? why->code : "internal", "error", json_cstr(why->text)));
}

#define SLACK_MS 1000 /* that a refusal may be heard of before we know that the command began */

/* What its policy refused while it ran, in words; free it. */
static char *refusal_words(const struct exec *x)
{
    int64_t since = now_ms() - (mono_ns() - x->opened_ns) / 1000000 - SLACK_MS;
    json_t *d = network_log_last(x->engine, x->sandbox, since);
    const char *name = json_string_value(json_object_get(d, "name"));
    const char *address = json_string_value(json_object_get(d, "address"));
    const char *why = json_string_value(json_object_get(d, "why"));
    const char *protocol = json_string_value(json_object_get(d, "protocol"));
    json_int_t port = json_integer_value(json_object_get(d, "port"));
    char *words = NULL;

    if (d)
        words = xasprintf("the network policy of the sandbox refused %s %s%s%.0lld (%s); GET "
                          "…/network/log has all, PUT …/network changes it",
                          protocol ? protocol : "",
                          name      ? name
                          : address ? address
                                    : "",
                          port ? " port " : "", (long long)port, why ? why : "no rule allows it");
    json_decref(d);
    return words;
}

char *engine_exec_hint(const struct exec *x)
{
    return engine_exec_hint_of(x, x->streams[1].data, x->streams[1].len);
}

char *engine_exec_hint_of(const struct exec *x, const char *errors, size_t len)
{
    if (exit_code_of(&x->end) == 0)
        return NULL;
    if (network_has(x->sandbox))
        return output_was_refused(errors, len) ? refusal_words(x) : NULL;
    if (!output_lacks_network(errors, len))
        return NULL;
    return xstrdup("the sandbox has no network: create it with network: \"packages\" (registries "
                   "only) or true (the public internet), or give it one with PUT …/network");
}
