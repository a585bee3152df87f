#include "engine/sandboxes.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/idle.h"
#include "engine/pull_policy.h"
#include "engine/watch.h"
#include "functions/functions_internal.h"
#include "functions/reach.h"
#include "functions/ready.h"
#include "model/sandbox.h"
#include "service/templates.h"

#define STOP_LOOK_NS (50 * 1000000ll)
#define STOP_S_MAX   86400

/* The texts and lists in it stay the input's, or entrypoint's. */
static void read_request(const struct call *call, char *const *entrypoint,
                         const struct call_maker *maker, struct sandbox_request *ret)
{
    const json_t *auth = json_object_get(call->in, "registry_auth");
    const char *pull = in_str(call, "pull");

    *ret = (struct sandbox_request){
        .image = in_str(call, "image"),
        .name = in_str(call, "name"),
        .unique = in_bool(call, "unique"),
        .maker = maker->maker,
        .timeout_s = in_maybe(call, "timeout"),
        .idle_s = in_maybe(call, "idleTimeout"),
        .memory_mb = in_maybe(call, "memory"),
        .cpu_cores = in_maybe(call, "cpu"),
        .pids = in_maybe(call, "pids"),
        .disk_mb = in_maybe(call, "disk"),
        .network = json_object_get(call->in, "network"),
        .networks = json_object_get(call->in, "networks"),
        .env = json_object_get(call->in, "env"),
        .metadata = json_object_get(call->in, "metadata"),
        .workdir = in_str(call, "workdir"),
        .entrypoint = entrypoint,
        .patches = json_object_get(call->in, "patches"),
        .run_entrypoint = in_bool(call, "runEntrypoint"),
        .pull_given = pull,
        .volumes = json_object_get(call->in, "volumes"),
        .tmpfs = json_object_get(call->in, "tmpfs"),
        .ports = json_object_get(call->in, "ports"),
        .platform = in_str(call, "platform"),
        .username = json_string_value(json_object_get(auth, "username")),
        .password = json_string_value(json_object_get(auth, "password")),
    };
    if (pull)
        (void)pull_policy_parse(pull, &ret->pull);
}

/* Public clients send such fields and expect a sandbox; who wonders finds out. */
static void put_warnings(const struct call *call, const struct template_base *base, json_t *sandbox)
{
    json_t *ignored = json_object_get(call->in, TAKE_IGNORED);
    json_t *told = ignored ? json_deep_copy(ignored) : json_array();

    if (base->warning)
        (void)json_array_append_new(told, json_string(base->warning));
    (void)json_array_extend(told, json_object_get(sandbox, "warnings"));
    if (json_array_size(told) > 0)
        (void)json_object_set(sandbox, "warnings", told);
    json_decref(told);
}

/* Adds a warning to the answer. */
static void warn(struct call *call, json_t *text)
{
    json_t *told = json_object_get(call->in, TAKE_IGNORED);

    if (!told) {
        told = json_array();
        (void)json_object_set_new(call->in, TAKE_IGNORED, told);
    }
    (void)json_array_append_new(told, text);
}

/* A template's metadata must not put the sandbox of a restricted caller into the reach of another
 * token. What the caller sent itself was checked by call_take_label(). */
static void drop_locked(struct call *call, json_t *metadata)
{
    const json_t *own = json_object_get(call->in, "metadata");
    json_t *locked = reach_locked_keys(call), *unused;
    const char *key;

    json_object_foreach(locked, key, unused)
    {
        if (!json_object_get(metadata, key) || json_object_get(own, key))
            continue;
        (void)json_object_del(metadata, key);
        warn(call, json_sprintf("metadata.%s of the template is left out: it is the label of "
                                "other tokens",
                                key));
    }
    json_decref(locked);
}

static int create_of(struct call *call, struct sandbox_request *req, struct template_base *base,
                     struct err *err)
{
    const char *template = in_str(call, "template");
    struct engine_watch watch = call_watch(call);
    json_t *sandbox = NULL, *failure = NULL;

    if (template && *template &&
        template_apply(call->engine, template, json_object_get(call->in, "network"), req, base,
                       &watch, &failure, err) < 0) {
        call->out = failure;
        return -1;
    }
    drop_locked(call, base->metadata);
    if (engine_create(call->engine, req, &watch, &sandbox, err) < 0 ||
        call_gives_made(call, &sandbox, err) < 0)
        return -1;
    put_warnings(call, base, sandbox);
    if (base->ready)
        return ready_begin(call, sandbox, base->ready, base->ready_s, err);
    call->out = sandbox;
    return 0;
}

/* Clients of before know true and false only, and some send words for them, which are dropped as
 * all that has another type. */
static void drop_yes_and_no(struct call *call)
{
    static const char *const words[] = {"", "yes", "no", "true", "false", "on", "off", "1", "0"};
    const char *text = in_str(call, "network");

    for (size_t i = 0; text && i < ARRAY_LEN(words); i++) {
        if (strcmp(text, words[i]) != 0)
            continue;
        warn(call, json_string("network must be true, false, a preset or an object; what was sent "
                               "is ignored"));
        (void)json_object_del(call->in, "network");
        return;
    }
}

/* Refuses metadata that sets a key of any token's label, except the caller's own label. */
static int check_label(const struct call *call, const json_t *metadata, struct err *err)
{
    const struct caller *caller = call->caller;
    json_t *locked = reach_locked_keys(call), *value;
    const char *key;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
    {
        const char *text = json_string_value(value);

        if (!json_object_get(locked, key) ||
            (strcmp(key, caller->label_key) == 0 && text && strcmp(text, caller->label_value) == 0))
            continue;
        r = err_code(err, ERR_FORBIDDEN, "token_restricted",
                     "metadata.%.80s is the label of a token: this token makes sandboxes with its "
                     "own label only",
                     key);
        break;
    }
    json_decref(locked);
    return r;
}

int call_take_label(struct call *call, struct err *err)
{
    const struct caller *caller = call->caller;
    json_t *metadata = json_object_get(call->in, "metadata");

    if (!caller_is_restricted(caller))
        return 0;
    if (caller->sandbox_id[0])
        return err_code(err, ERR_FORBIDDEN, "token_restricted",
                        "this token is for one sandbox and makes no others");
    if (json_array_size(json_object_get(call->in, "volumes")) > 0 ||
        json_array_size(json_object_get(call->in, "networks")) > 0)
        return err_code(err, ERR_FORBIDDEN, "token_restricted",
                        "volumes, folders of the host and networks are not for a token that is for "
                        "some sandboxes only");
    if (check_label(call, metadata, err) < 0)
        return -1;
    if (!metadata) {
        metadata = json_object();
        (void)json_object_set_new(call->in, "metadata", metadata);
    }
    (void)json_object_set_new(metadata, caller->label_key, json_string(caller->label_value));
    return 0;
}

static int create(struct call *call, struct err *err)
{
    auto_strv char **entrypoint = in_strings(call, "entrypoint");
    auto_template_base struct template_base base = {0};
    struct sandbox_request req;
    struct call_maker maker;

    drop_yes_and_no(call);
    if (call_take_label(call, err) < 0 || reach_check_image(call, in_str(call, "image"), err) < 0)
        return -1;
    call_read_maker(call, &maker);
    read_request(call, entrypoint, &maker, &req);
    return create_of(call, &req, &base, err);
}

static int list(struct call *call, struct err *err)
{
    struct sandbox_pick pick;
    struct sandbox_query query = {
        .pick = caller_pick(call->caller, &pick),
        .status = in_str(call, "status"),
        .metadata = json_object_get(call->in, "metadata"),
        .page = (uint32_t)in_int(call, "page"),
        .page_size = (uint32_t)in_int(call, "pageSize"),
        .cursor = (uint64_t)in_int(call, "cursor"),
    };

    (void)err;
    engine_list(call->engine, &query, &call->out);
    return 0;
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

/* ---- stop ---- */

static void stop_wait(struct task *t)
{
    t->fd = -1;
    t->until_ns = mono_ns() + STOP_LOOK_NS;
}

static int stop_step(struct task *t, struct call *call, struct err *err)
{
    int r = engine_has_stopped(call->engine, call->sandbox_id, &call->out, err);

    stop_wait(t);
    return r < 0 ? -1 : r > 0 ? TASK_DONE : TASK_WAITS;
}

/* It stops all the same when nobody waits for that. */
static void stop_free(struct task *t)
{
    free(t);
}

static const struct task_ops stop_ops = {.step = stop_step, .free = stop_free};

static int stop_later(struct call *call, struct err *err)
{
    struct stop_request req = {.drain = in_bool(call, "drain"),
                               .timeout_ms = engine_config(call->engine)->waits.main};
    const json_t *wait = json_object_get(call->in, "wait");
    json_t *now = NULL;

    if (req.drain || json_object_get(call->in, "timeout"))
        req.timeout_ms = (uint32_t)(in_number(call, "timeout") * 1000);
    if (engine_stop_later(call->engine, in_id(call), &req, &now, err) < 0)
        return -1;
    if (wait ? !json_is_true(wait) : req.drain) {
        call->out = now;
        return 0;
    }
    json_decref(now);
    call->task = xcalloc(1, sizeof(*call->task));
    call->task->ops = &stop_ops;
    stop_wait(call->task);
    return 0;
}

static int stop_sandbox(struct call *call, struct err *err)
{
    if (in_bool(call, "drain") || json_object_get(call->in, "timeout") ||
        json_object_get(call->in, "wait"))
        return stop_later(call, err);
    return engine_stop_sandbox(call->engine, in_id(call), &call->out, err);
}

static int start_sandbox(struct call *call, struct err *err)
{
    return engine_start_sandbox(call->engine, in_id(call), &call->out, err);
}

static int touch(struct call *call, struct err *err)
{
    return engine_touch(call->engine, in_id(call), &call->out, err);
}

static int update(struct call *call, struct err *err)
{
    json_t *locked = reach_locked_keys(call);
    const struct sandbox_change change = {
        .metadata = json_object_get(call->in, "metadata"),
        .locked = locked,
        .env = json_object_get(call->in, "env"),
        .memory_mb = in_maybe(call, "memory"),
        .cpu_cores = in_maybe(call, "cpu"),
        .pids = in_maybe(call, "pids"),
        .timeout_s = in_maybe(call, "timeout"),
        .idle_s = in_maybe(call, "idleTimeout"),
    };
    int r = engine_modify(call->engine, in_id(call), &change, &call->out, err);

    json_decref(locked);
    return r;
}

static int renew(struct call *call, struct err *err)
{
    return engine_renew(call->engine, in_id(call), in_int(call, "expiresAt"), &call->out, err);
}

static const struct field create_fields[] = {
    {"image", FIELD_STRING, .optional = true, .min = 1, .max = IMAGE_NAME_MAX,
     .example = "\"python:3.12-slim\"",
     .help = "image to run: a reference (python:3.12-slim), a short name of /images/catalog, or "
             "host; required without a template, whose own counts even when python:3.12-slim is "
             "sent, as clients do that were told of none"},
    {"name", FIELD_STRING, .optional = true, .lenient = true, .max = SANDBOX_NAME_MAX,
     .example = "\"demo\"", .help = "to use in place of the id; the id when absent"},
    {"unique", FIELD_BOOL, .optional = true,
     .help = "fail with name_taken when another sandbox has that name; else it can be shared. An "
             "expired one that the caller may remove is removed, and a warning says so"},
    /* The engine brings these four into their ranges, which end where the operator says. */
    {"timeout", FIELD_INT, .optional = true, .lenient = true, .example = "300",
     .help = "seconds until it expires (default CAY_DEFAULT_TIMEOUT); moved to the nearer end of "
             "60 to CAY_MAX_TIMEOUT. Where that is 0 there is no upper end, and 0 = never"},
    ON_TIMEOUT_FIELD,
    {"idleTimeout", FIELD_INT, .optional = true, .clamp = true, .max = IDLE_S_MAX,
     .help = "seconds without any use until it is stopped, for the reason idle; 0 or absent = it "
             "is not. Commands, calls on files and processes, traffic of ports and touch are use"},
    {"memory", FIELD_INT, .optional = true, .lenient = true, .example = "512",
     .help = "MB of memory (default CAY_DEFAULT_MEMORY); moved to the nearer end of 64 to "
             "CAY_MAX_MEMORY"},
    {"cpu", FIELD_NUMBER, .optional = true, .lenient = true,
     .help = "cores (default CAY_DEFAULT_CPU); moved to the nearer end of 0.5 to CAY_MAX_CPU"},
    {"pids", FIELD_INT, .optional = true,
     .help = "processes and threads at a time (default CAY_DEFAULT_PIDS); moved to the nearer end "
             "of 16 to CAY_MAX_PIDS"},
    {"disk", FIELD_INT, .optional = true, .clamp = true, .min = DISK_MB_MIN, .max = DISK_MB_MAX,
     .help = "MB of disk (default CAY_DEFAULT_DISK)"},
    {"network", FIELD_NETWORK, .optional = true, .lenient = true, .max = NETWORK_TEXT_MAX,
     .of = &network_policy_shape,
     .help = "what it may reach: false (the default) nothing, true the public internet, else a "
             "preset (none, public, packages, allow-all) or a policy"},
    {"networks", FIELD_STRINGS, .optional = true, .min = 1, .max = 255,
     .help = "names or ids of networks to connect it to"},
    {"env", FIELD_STRING_MAP, .optional = true, .lenient = true, .max = ARG_BYTES_MAX,
     .help = "environment of every command"},
    {"workdir", FIELD_STRING, .optional = true, .lenient = true, .min = 1, .max = PATH_BYTES_MAX,
     .help = "where commands start; else where the image says, else the workspace"},
    {"metadata", FIELD_STRING_MAP, .optional = true, .lenient = true, .max = 65536,
     .example = "{\"team\": \"blue\"}", .help = "kept with the sandbox, for the caller"},
    {"entrypoint", FIELD_STRINGS, .optional = true, .lenient = true, .max = ARG_BYTES_MAX,
     .help = "main process, as arguments"},
    {"runEntrypoint", FIELD_BOOL, .optional = true,
     .help = "the image's own entrypoint and command are the main process"},
    {"volumes", FIELD_ARRAY, .optional = true, .of = &volume_mount_shape,
     .help = "volumes and folders of the host to mount"},
    {"tmpfs", FIELD_ARRAY, .optional = true, .of = &tmpfs_mount_shape,
     .help = "folders in memory, which count as the sandbox's"},
    {"ports", FIELD_ARRAY, .optional = true, .of = &port_request_shape,
     .help = "ports of it to reach on the host"},
    {"patches", FIELD_ARRAY, .optional = true, .of = &patch_shape,
     .help =
         "changes to its files before anything runs, in this order: at most 1000 with 16 MiB of "
         "content; when one cannot be made there is no sandbox"},
    {"pull", FIELD_STRING, .optional = true, .choices = pull_policy_words,
     .help = "when to pull the image (default CAY_PULL_POLICY)"},
    PLATFORM_FIELD,
    REGISTRY_AUTH_FIELD,
    {"template", FIELD_STRING, .optional = true, .lenient = true, .max = 255,
     .help = "id or name of a template: what is not sent here is taken from it"},
    {0},
};

static const struct field list_fields[] = {
    {"status", FIELD_STRING, .optional = true, .choices = sandbox_status_words,
     .help = "only those with this status; expired = stopped because their time was over"},
    {"metadata", FIELD_STRING_MAP, .optional = true,
     .help = "only those with all of these entries"},
    {"page", FIELD_INT, .min = 1, .max = 1000000, .preset = "1", .help = "counted from 1"},
    {"pageSize", FIELD_INT, .clamp = true, .min = 1, .max = 200, .preset = "20",
     .help = "sandboxes on a page"},
    {"cursor", FIELD_INT, .optional = true, .min = 1, .max = 9007199254740991,
     .help = "nextCursor of the page before, in place of page: none is missed or repeated while "
             "others come and go"},
    {0},
};

static const struct field stop_fields[] = {
    {"drain", FIELD_BOOL, .optional = true,
     .help = "commands that run may come to their end first; new ones are refused from now on"},
    {"timeout", FIELD_NUMBER, .optional = true, .clamp = true, .max = STOP_S_MAX,
     .help = "seconds: with drain, how long commands may go on, as long as they take when 0 or "
             "absent; else how long the entrypoint may take to end, 2 when absent"},
    {"wait", FIELD_BOOL, .optional = true,
     .help = "answer when it has stopped; so it is without drain, with drain the answer comes at "
             "once"},
    {0},
};

static const struct field update_fields[] = {
    {"metadata", FIELD_STRING_MAP, .optional = true, .max = 65536,
     .example = "{\"team\": \"blue\"}", .help = "in place of what it has"},
    {"env", FIELD_STRING_MAP, .optional = true, .max = ARG_BYTES_MAX,
     .help = "environment of commands, in place of what it was given"},
    {"memory", FIELD_INT, .optional = true, .help = "MB, in the range of a create"},
    {"cpu", FIELD_NUMBER, .optional = true, .help = "cores, in the range of a create"},
    {"pids", FIELD_INT, .optional = true,
     .help = "processes and threads at a time, in the range of a create"},
    {"timeout", FIELD_INT, .optional = true,
     .help = "seconds until it expires, from now and from each start; in the range of a create"},
    {"idleTimeout", FIELD_INT, .optional = true, .clamp = true, .max = IDLE_S_MAX,
     .help = "seconds without use until it is stopped; 0 = it is not"},
    {0},
};

static const struct field renew_fields[] = {
    {"expiresAt", FIELD_INT, .max = 9007199254740991, .example = "1767225900000",
     .help =
         "Unix milliseconds; moved to the nearer end of 60 seconds to CAY_MAX_TIMEOUT from now. "
         "Where that is 0 there is no upper end, and 0 = never"},
    {0},
};

const struct function sandbox_functions[] = {
    {"sandbox::create", "POST", "/sandboxes", create_fields, create, "sandbox_create", SCOPE_WRITE,
     .reach = REACH_ITSELF,
     .flags = FUNCTION_MAKES | FUNCTION_TELLS | FUNCTION_EVENTS | FUNCTION_WAITS,
     .body_max = 24u << 20, /* patches as base64, and the rest */
     .done = "sandbox", .key = "sandbox", .help = "Makes a sandbox and starts it",
     .gives = &sandbox_shape, .events = &create_event_shape,
     .errors = ERRORS_PULL
     " " ERRORS_COMMAND " " ERRORS_PATH
     " image_cap_exceeded image_not_installed no_default_command "
     "sandbox_limit stopped_limit machine_full " ERRORS_NET " path_traversal conflict "
     "patch_failed name_taken " ERRORS_JOIN " " ERRORS_MOUNT " " ERRORS_PORT " "
     "launcher_lost template_not_found template_not_ready build_failed"},
    {"sandbox::list", "GET", "/sandboxes", list_fields, list, "sandbox_list", SCOPE_READ,
     .reach = REACH_ITSELF, .help = "Lists sandboxes, the newest first",
     .gives = &sandbox_list_shape},
    {"sandbox::get", "GET", "/sandboxes/:sandboxId", NULL, get, NULL, SCOPE_READ,
     .reach = REACH_SANDBOX, .help = "Shows a sandbox", .gives = &sandbox_shape,
     .errors = ERRORS_GONE},
    {"sandbox::update", "PATCH", "/sandboxes/:sandboxId", update_fields, update, NULL, SCOPE_WRITE,
     .reach = REACH_SANDBOX,
     .help =
         "Changes a sandbox; what is not sent stays. Limits hold at once, and programs are told "
         "of them with the next start",
     .gives = &sandbox_shape, .errors = ERRORS_FILE " image_cap_exceeded bad_image"},
    {"sandbox::kill", "DELETE", "/sandboxes/:sandboxId", NULL, kill_sandbox, "sandbox_kill",
     SCOPE_WRITE, .reach = REACH_SANDBOX, .help = "Ends a sandbox and removes it",
     .gives = &success_shape, .errors = ERRORS_GONE " sandbox_busy"},
    {"sandbox::pause", "POST", "/sandboxes/:sandboxId/pause", NULL, pause_sandbox, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX, .help = "Freezes every process of a sandbox",
     .gives = &sandbox_shape, .errors = ERRORS_GONE " sandbox_not_running sandbox_busy no_space"},
    {"sandbox::resume", "POST", "/sandboxes/:sandboxId/resume", NULL, resume, NULL, SCOPE_WRITE,
     .reach = REACH_SANDBOX, .help = "Lets a paused sandbox go on", .gives = &sandbox_shape,
     .errors = ERRORS_GONE " sandbox_not_paused sandbox_busy no_space"},
    {"sandbox::stop", "POST", "/sandboxes/:sandboxId/stop", stop_fields, stop_sandbox, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS,
     .help = "Ends every process of a sandbox and keeps its files; nothing happens to one that is "
             "stopped. It expires after CAY_STOPPED_TTL",
     .gives = &sandbox_shape, .errors = ERRORS_GONE " sandbox_busy no_space conflict"},
    {"sandbox::start", "POST", "/sandboxes/:sandboxId/start", NULL, start_sandbox, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX,
     .help = "Starts a stopped sandbox again, with its files, environment and entrypoint; nothing "
             "happens to one that runs. It expires after its timeout",
     .gives = &sandbox_shape,
     .errors = ERRORS_COMMAND " " ERRORS_BOOT " no_space conflict sandbox_limit"},
    {"sandbox::touch", "POST", "/sandboxes/:sandboxId/touch", NULL, touch, NULL, SCOPE_WRITE,
     .reach = REACH_SANDBOX, .help = "Says that a sandbox is in use, so that it is not idle",
     .gives = &sandbox_shape, .errors = ERRORS_GONE " sandbox_not_running"},
    {"sandbox::renew", "POST", "/sandboxes/:sandboxId/renew", renew_fields, renew, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX, .help = "Sets when a sandbox expires",
     .gives = &sandbox_shape, .errors = ERRORS_GONE " sandbox_busy no_space"},
    {0},
};
