#include "cli/ending.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/ui.h"
#include "model/no_network.h"

/* The configuration of the sandbox, or NULL when it cannot be had any more. */
static json_t *get_config(struct api *api, const char *id)
{
    struct err err = {0};
    json_t *sandbox = NULL, *config;

    if (api_call(api, "GET", NULL, &sandbox, &err, "/sandboxes/%s", id) < 0)
        return NULL;
    config = json_incref(json_object_get(sandbox, "config"));
    json_decref(sandbox);
    return config;
}

static char *memory_words(struct api *api, const char *id, const struct attach_result *result)
{
    json_t *config = get_config(api, id);
    auto_free char *limit = xstrdup("");
    bool killed = result->status == STATUS_SIGNAL + SIGKILL;

    if (json_int(config, "memory") > 0) {
        free(limit);
        limit = xasprintf(" of %" PRId64 " MiB", json_int(config, "memory"));
    }
    json_decref(config);
    return xasprintf("%s: the sandbox's memory limit%s was reached; raise it with --memory",
                     killed ? "killed" : "a process of the command was killed", limit);
}

static char *signal_words(int sig)
{
    const char *name = sigabbrev_np(sig);

    return xasprintf("the command was ended by signal %d%s%s%s", sig, name ? " (SIG" : "",
                     name ? name : "", name ? ")" : "");
}

static char *timeout_words(const struct attach_options *o)
{
    return xasprintf("the command was ended: it ran longer than %sthe daemon allows "
                     "(CAY_MAX_CMD_TIMEOUT of `cay serve`)",
                     o->timeout_s > 0 ? "its --timeout, or than " : "");
}

char *ending_words(struct api *api, const char *id, const struct attach_options *o,
                   const struct attach_result *result)
{
    if (result->timed_out)
        return timeout_words(o);
    if (result->oom)
        return memory_words(api, id, result);
    if (result->cancelled)
        return xstrdup("somebody has ended the command by its id");
    /* Who has interrupted it knows that. */
    if (result->signal && !result->interrupted && !(o->tty && result->signal == SIGINT))
        return signal_words(result->signal);
    return NULL;
}

#define SLACK_MS 2000 /* between the daemon's clock and what it has heard of */

/* What its policy refused while the command ran; NULL = nothing. */
static char *refusal_words(struct api *api, const char *id, const struct attach_result *result)
{
    struct err err = {0};
    json_t *answer = NULL, *d;
    const char *name;
    char *words = NULL;

    if (api_call(api, "GET", NULL, &answer, &err, "/sandboxes/%s/network/log?limit=1", id) < 0)
        return NULL;
    d = json_array_get(json_object_get(answer, "denied"), 0);
    name = json_text(d, "name");
    if (d && json_int(d, "time") >= now_ms() - (int64_t)result->duration_ms - SLACK_MS)
        words =
            xasprintf("its network policy refused %s %s%s%.0lld (%s); `cay net log %s` has all, "
                      "`cay net set %s` changes it",
                      json_text(d, "protocol"), *name ? name : json_text(d, "address"),
                      json_int(d, "port") ? " port " : "", (long long)json_int(d, "port"),
                      json_text(d, "why"), id, id);
    json_decref(answer);
    return words;
}

char *ending_hint(struct api *api, const char *id, const struct attach_result *result)
{
    json_t *config;
    bool has;

    if (result->status == 0 || !output_was_refused(result->tail, result->tail_len))
        return NULL;
    config = get_config(api, id);
    has = json_object_get(config, "network");
    json_decref(config);
    if (has)
        return refusal_words(api, id, result);
    if (!output_lacks_network(result->tail, result->tail_len))
        return NULL;
    return xstrdup("this sandbox has no network: --network lets one reach the public internet, "
                   "--network=packages only registries of packages, and `cay net set ID packages` "
                   "is for one that runs");
}

void ending_tell(struct api *api, const char *id, const struct attach_options *o,
                 const struct attach_result *result)
{
    auto_free char *words = ending_words(api, id, o, result);
    auto_free char *hint = ending_hint(api, id, result);

    if (words)
        ui_warn("%s", words);
    if (hint)
        ui_warn("%s", hint);
}
