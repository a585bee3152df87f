#include "functions/function.h"

#include <string.h>

#include "base/mem.h"
#include "model/shapes.h"

const char *const scope_words[SCOPES] = {[SCOPE_NONE] = "none",
                                         [SCOPE_READ] = "read",
                                         [SCOPE_EXEC] = "exec",
                                         [SCOPE_WRITE] = "write",
                                         [SCOPE_ADMIN] = "admin"};

const char *const reach_words[REACHES] = {
    [REACH_UNSAID] = "never",  [REACH_SANDBOX] = "sandbox", [REACH_OWNED] = "owned",
    [REACH_CLONES] = "clones", [REACH_FILTER] = "filter",   [REACH_ITSELF] = "itself",
    [REACH_ALL] = "all",       [REACH_MAKERS] = "makers",   [REACH_NEVER] = "never",
};

const struct field path_params[] = {
    {"sandboxId", FIELD_STRING, .max = 1024, .example = EXAMPLE_SANDBOX_ID,
     .help = "id of a sandbox, or the name of exactly one, percent-encoded"},
    {"snapshotId", FIELD_STRING, .max = 1024, .example = EXAMPLE_SNAPSHOT_ID,
     .help = "id of a snapshot, or the name of exactly one, percent-encoded"},
    {"strayId", FIELD_STRING, .pattern = "^sbx_[0-9a-f]{24}$", .example = EXAMPLE_SANDBOX_ID,
     .help = "id of what belongs to no sandbox"},
    {"profileId", FIELD_STRING, .pattern = "^wp_[0-9a-f]{24}$",
     .example = "\"wp_5f0c1e6b2a9d4c7e8f013b52\"", .help = "id of a profile of the pool"},
    {"execId", FIELD_STRING, .pattern = "^(ex|bg)_[0-9a-f]{24}$", .example = EXAMPLE_EXEC_ID,
     .help = "id of a command; bg_ of one in the background"},
    {"contextId", FIELD_STRING, .pattern = "^ctx_[0-9a-f]{24}$", .example = EXAMPLE_CONTEXT_ID,
     .help = "id of a context of the interpreter"},
    {"jobId", FIELD_STRING, .pattern = "^job_[0-9a-f]{24}$", .example = EXAMPLE_JOB_ID,
     .help = "id of a job"},
    {"sessionId", FIELD_STRING, .pattern = "^term_[0-9a-f]{24}$", .example = EXAMPLE_TERMINAL_ID,
     .help = "id of a terminal"},
    {"channelId", FIELD_STRING, .max = 64, .example = "\"3f6d2c1a-0b9e-4c7d-8a51-2e4f6a8c0b1d\"",
     .help = "id of a channel"},
    {"volumeId", FIELD_STRING, .max = 1024, .example = EXAMPLE_VOLUME_ID,
     .help = "id of a volume, or the name of exactly one, percent-encoded"},
    {"networkId", FIELD_STRING, .max = 1024, .example = EXAMPLE_NETWORK_ID,
     .help = "id or name of a network"},
    {"tokenId", FIELD_STRING, .pattern = "^tok_[0-9a-f]{24}$", .example = EXAMPLE_TOKEN_ID,
     .help = "id of a token"},
    {"webhookId", FIELD_STRING, .pattern = "^wh_[0-9a-f]{24}$", .example = EXAMPLE_WEBHOOK_ID,
     .help = "id of a webhook"},
    {"alertId", FIELD_STRING, .pattern = "^alrt_[0-9a-f]{24}$", .example = EXAMPLE_ALERT_ID,
     .help = "id of an alert"},
    {"port", FIELD_STRING, .pattern = "^[0-9]{1,5}$", .example = "\"8080\"",
     .help = "number of a port in the sandbox"},
    {"name", FIELD_STRING, .max = 1024, .example = "\"python:3.12-slim\"",
     .help = "name or id of an image; its / and : are percent-encoded"},
    {"templateId", FIELD_STRING, .max = 1024, .example = "\"tpl_node-web\"",
     .help = "id or name of a template, percent-encoded"},
    {"image", FIELD_STRING, .max = 1024, .example = "\"python:3.12-slim\"",
     .help = "name or id of an image; its / and : are percent-encoded"},
    {0},
};

const struct field *path_param(const char *name, size_t len)
{
    for (const struct field *f = path_params; f->name; f++)
        if (strlen(f->name) == len && memcmp(f->name, name, len) == 0)
            return f;
    return NULL;
}

int functions_each(int (*each)(const struct function *f, void *arg), void *arg)
{
    /* One a line, in the order of the documentation. */
    /* clang-format off */
    static const struct function *const all[] = {
        sandbox_functions,
        sandbox_network_functions,
        exec_functions,
        file_functions,
        queue_functions,
        file_watch_functions,
        interpreter_functions,
        context_functions,
        env_functions,
        git_functions,
        alert_functions,
        process_functions,
        metrics_functions,
        observability_functions,
        stream_functions,
        image_functions,
        admin_functions,
        worker_functions,
        template_functions,
        build_functions,
        snapshot_functions,
        volume_functions,
        terminal_functions,
        pool_functions,
        proxy_functions,
        network_functions,
        port_functions,
        event_functions,
        token_functions,
        webhook_functions,
        audit_functions,
    };
    /* clang-format on */

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        for (const struct function *f = all[i]; f->id; f++) {
            int r = each(f, arg);

            if (r != 0)
                return r;
        }
    }
    return 0;
}

static int same_id(const struct function *f, void *arg)
{
    const void **found = arg;

    if (strcmp(f->id, found[0]) != 0)
        return 0;
    found[1] = f;
    return 1;
}

const struct function *function_find(const char *id)
{
    const void *found[2] = {id, NULL};

    (void)functions_each(same_id, found);
    return found[1];
}
