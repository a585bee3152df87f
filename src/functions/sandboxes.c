#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/pull_policy.h"
#include "engine/sandboxes.h"
#include "engine/watch.h"
#include "functions/functions_internal.h"
#include "model/sandbox.h"
#include "rest/progress.h"

static struct maybe_number in_maybe(const struct call *call, const char *name)
{
    const json_t *value = json_object_get(call->in, name);

    return (struct maybe_number){.given = value, .value = json_number_value(value)};
}

/* The texts and lists in it stay the input's, or entrypoint's. */
static int read_request(const struct call *call, char *const *entrypoint,
                        struct sandbox_request *ret, struct err *err)
{
    const json_t *auth = json_object_get(call->in, "registry_auth");
    const char *pull = in_str(call, "pull");

    *ret = (struct sandbox_request){
        .image = in_str(call, "image"),
        .name = in_str(call, "name"),
        .timeout_s = in_maybe(call, "timeout"),
        .memory_mb = in_maybe(call, "memory"),
        .cpu_cores = in_maybe(call, "cpu"),
        .disk_mb = in_maybe(call, "disk"),
        .network = in_bool(call, "network"),
        .env = json_object_get(call->in, "env"),
        .metadata = json_object_get(call->in, "metadata"),
        .workdir = in_str(call, "workdir"),
        .entrypoint = entrypoint,
        .run_entrypoint = in_bool(call, "runEntrypoint"),
        .pull_given = pull,
        .platform = in_str(call, "platform"),
        .username = json_string_value(json_object_get(auth, "username")),
        .password = json_string_value(json_object_get(auth, "password")),
    };
    if (pull && pull_policy_parse(pull, &ret->pull) < 0)
        return err_set(err, ERR_INVALID, "pull must be missing, always or never");
    return 0;
}

static int create(struct call *call, struct err *err)
{
    auto_strv char **entrypoint = in_strings(call, "entrypoint");
    const char *image = in_str(call, "image");
    struct sandbox_request req;
    struct engine_watch watch;
    struct progress progress;
    json_t *sandbox = NULL;
    int r;

    if (json_object_get(call->in, "template"))
        return err_set(err, ERR_UNSUPPORTED,
                       "templates are not available in this version: send image, memory, timeout "
                       "and env instead");
    if (strstr(image, "..") || strchr(image, '$'))
        return err_code(err, ERR_INVALID, "bad_image", "image must not contain \"..\" or \"$\"");
    if (registry_auth_check(call, err) < 0 || read_request(call, entrypoint, &req, err) < 0)
        return -1;
    watch = progress_begin(&progress, call);
    r = engine_create(call->engine, &req, &watch, &sandbox, err);
    return progress_end(&progress, r, "sandbox", "sandbox", sandbox, err);
}

static int list(struct call *call, struct err *err)
{
    return engine_list(call->engine, in_str(call, "status"), json_object_get(call->in, "metadata"),
                       (uint32_t)in_int(call, "page"), (uint32_t)in_int(call, "pageSize"),
                       &call->out, err);
}

static int get(struct call *call, struct err *err)
{
    return engine_get(call->engine, in_id(call), &call->out, err);
}

static int kill_sandbox(struct call *call, struct err *err)
{
    if (engine_remove(call->engine, in_id(call), err) < 0)
        return -1;
    return reply_success(call);
}

static int pause_sandbox(struct call *call, struct err *err)
{
    return engine_pause(call->engine, in_id(call), &call->out, err);
}

static int resume(struct call *call, struct err *err)
{
    return engine_resume(call->engine, in_id(call), &call->out, err);
}

static int renew(struct call *call, struct err *err)
{
    return engine_renew(call->engine, in_id(call), in_int(call, "expiresAt"), &call->out, err);
}

static int clone_sandbox(struct call *call, struct err *err)
{
    (void)call;
    return err_set(
        err, ERR_UNSUPPORTED,
        "a sandbox cannot be cloned in this version: create a new one and copy the files "
        "with files/download and files/upload");
}

static const struct field create_fields[] = {
    {"image", FIELD_STRING, .required = true, .min = 1, .max = 512,
     .help = "image to run: a reference (python:3.12-slim), a short name of /images/catalog, or "
             "host"},
    {"name", FIELD_STRING, .max = 255, .help = "for people; the id when absent"},
    {"timeout", FIELD_INT, .clamp = true, .min = TIMEOUT_S_MIN, .max = TIMEOUT_S_MAX,
     .help = "seconds until it expires (default CAY_DEFAULT_TIMEOUT)"},
    {"memory", FIELD_INT, .clamp = true, .min = MEMORY_MB_MIN, .max = MEMORY_MB_MAX,
     .help = "MB of memory (default CAY_DEFAULT_MEMORY)"},
    {"cpu", FIELD_NUMBER, .clamp = true, .min = CPU_MILLIS_MIN / 1000.0,
     .max = CPU_MILLIS_MAX / 1000.0, .help = "cores (default CAY_DEFAULT_CPU)"},
    {"disk", FIELD_INT, .clamp = true, .min = DISK_MB_MIN, .max = DISK_MB_MAX,
     .help = "MB of disk (default CAY_DEFAULT_DISK)"},
    {"network", FIELD_BOOL, .help = "access to the network; off by default"},
    {"env", FIELD_STRING_MAP, .max = ARG_BYTES_MAX, .help = "environment of every command"},
    {"workdir", FIELD_STRING, .min = 1, .max = PATH_BYTES_MAX,
     .help = "where commands start; else where the image says, else the workspace"},
    {"metadata", FIELD_STRING_MAP, .max = 65536, .help = "kept with the sandbox, for the caller"},
    {"entrypoint", FIELD_STRINGS, .max = ARG_BYTES_MAX, .help = "main process, as arguments"},
    {"runEntrypoint", FIELD_BOOL,
     .help = "the image's own entrypoint and command are the main process"},
    {"pull", FIELD_STRING, .min = 1, .max = 16,
     .help = "pull the image: missing, always or never (default CAY_PULL_POLICY)"},
    PLATFORM_FIELD,
    REGISTRY_AUTH_FIELD,
    {"template", FIELD_STRING, .max = 255, .help = "not available in this version"},
    {0},
};

static const struct field list_fields[] = {
    {"status", FIELD_STRING, .max = 32, .help = "only those with this status"},
    {"metadata", FIELD_STRING_MAP, .help = "only those with all of these entries"},
    {"page", FIELD_INT, .min = 1, .max = 1000000, .preset = "1", .help = "counted from 1"},
    {"pageSize", FIELD_INT, .clamp = true, .min = 1, .max = 200, .preset = "20",
     .help = "sandboxes on a page"},
    {0},
};

static const struct field renew_fields[] = {
    {"expiresAt", FIELD_INT, .required = true, .max = 9007199254740991,
     .help = "Unix milliseconds; at least 60 seconds and at most 24 hours from now"},
    {0},
};

static const struct field clone_fields[] = {
    {"name", FIELD_STRING, .max = 255, .help = "of the new sandbox"},
    {0},
};

const struct function sandbox_functions[] = {
    {"sandbox::create", "POST", "/sandboxes", create_fields, create, "sandbox_create", SCOPE_WRITE,
     .flags = FUNCTION_EVENTS, .help = "Makes a sandbox and starts it",
     .result = "Sandbox; as events what a pull of its image does, then {event: sandbox, sandbox}"},
    {"sandbox::list", "GET", "/sandboxes", list_fields, list, "sandbox_list", SCOPE_READ,
     .help = "Lists sandboxes", .result = "{items: [Sandbox], total, page, pageSize}"},
    {"sandbox::get", "GET", "/sandboxes/:id", NULL, get, NULL, SCOPE_READ,
     .help = "Shows a sandbox", .result = "Sandbox"},
    {"sandbox::kill", "DELETE", "/sandboxes/:id", NULL, kill_sandbox, "sandbox_kill", SCOPE_WRITE,
     .help = "Ends a sandbox and removes it", .result = "{success: true}"},
    {"sandbox::pause", "POST", "/sandboxes/:id/pause", NULL, pause_sandbox, NULL, SCOPE_WRITE,
     .help = "Freezes every process of a sandbox", .result = "Sandbox"},
    {"sandbox::resume", "POST", "/sandboxes/:id/resume", NULL, resume, NULL, SCOPE_WRITE,
     .help = "Lets a paused sandbox go on", .result = "Sandbox"},
    {"sandbox::renew", "POST", "/sandboxes/:id/renew", renew_fields, renew, NULL, SCOPE_WRITE,
     .help = "Sets when a sandbox expires", .result = "Sandbox"},
    {"sandbox::clone", "POST", "/sandboxes/:id/clone", clone_fields, clone_sandbox, "sandbox_clone",
     SCOPE_WRITE, .help = "Not available in this version", .result = "501"},
    {0},
};
