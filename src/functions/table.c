#include "functions/function.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/sandboxes.h"
#include "model/sandbox.h"
#include "model/shapes.h"

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
    {"volumeId", FIELD_STRING, .max = 1024, .example = EXAMPLE_VOLUME_ID,
     .help = "id of a volume, or the name of exactly one, percent-encoded"},
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

/* Here, once for every row and face: what is behind knows ids only. */
static int take_name(struct call *call, struct err *err)
{
    const char *word = json_string_value(json_object_get(call->in, "sandboxId"));
    char id[ID_SIZE];

    if (!word || sandbox_name_is_like_id(word))
        return 0;
    if (engine_id_of_name(call->engine, word, id, err) < 0)
        return -1;
    (void)json_object_set_new(call->in, "sandboxId", json_string(id));
    return 0;
}

int function_run(const struct function *f, struct call *call, struct err *err)
{
    static const char *const names[SCOPES] = {[SCOPE_READ] = "read",
                                              [SCOPE_EXEC] = "exec",
                                              [SCOPE_WRITE] = "write",
                                              [SCOPE_ADMIN] = "admin"};

    if (f->scope != SCOPE_NONE && !(call->caller->scopes & 1u << f->scope))
        return err_code(err, ERR_FORBIDDEN, "scope_missing",
                        "%s needs a token with the scope \"%s\"", f->id, names[f->scope]);
    if ((f->flags & FUNCTION_LOCAL) && !call->caller->local)
        return err_code(err, ERR_FORBIDDEN, "local_only",
                        "the daemon reads a path of its own machine only for root there: run `cay "
                        "image import` as root on that machine, over the unix socket");
    if (take_name(call, err) < 0)
        return -1;
    return f->run(call, err);
}

int functions_each(int (*each)(const struct function *f, void *arg), void *arg)
{
    static const struct function *const all[] = {
        sandbox_functions, exec_functions,     file_functions,   env_functions,
        process_functions, metrics_functions,  stream_functions, image_functions,
        admin_functions,   template_functions, build_functions,  snapshot_functions,
        volume_functions,  pool_functions,
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        for (const struct function *f = all[i]; f->id; f++) {
            int r = each(f, arg);

            if (r != 0)
                return r;
        }
    }
    return 0;
}
