#include "functions/function.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "model/shapes.h"

const struct field path_params[] = {
    {"sandboxId", FIELD_STRING, .pattern = "^sbx_[0-9a-f]{24}$", .example = EXAMPLE_SANDBOX_ID,
     .help = "id of a sandbox"},
    {"execId", FIELD_STRING, .pattern = "^(ex|bg)_[0-9a-f]{24}$", .example = EXAMPLE_EXEC_ID,
     .help = "id of a command; bg_ of one in the background"},
    {"name", FIELD_STRING, .max = 1024, .example = "\"python:3.12-slim\"",
     .help = "name or id of an image; its / and : are percent-encoded"},
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
    return f->run(call, err);
}

int functions_each(int (*each)(const struct function *f, void *arg), void *arg)
{
    static const struct function *const all[] = {
        sandbox_functions, exec_functions,   file_functions,  env_functions,   process_functions,
        metrics_functions, stream_functions, image_functions, admin_functions,
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
