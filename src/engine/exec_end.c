#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "engine/exec.h"
#include "engine/exec_internal.h"
#include "engine/json_text_internal.h"
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
                     what, sb->spec.limits.memory_mb);
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

const char *engine_exec_hint(const struct exec *x)
{
    const struct buf *said = &x->streams[1];

    if (exit_code_of(&x->end) == 0 || x->sandbox->spec.network ||
        !output_lacks_network(said->data, said->len))
        return NULL;
    return "the sandbox has no network: use an image that has what is needed, or bring it in with "
           "files/upload";
}
