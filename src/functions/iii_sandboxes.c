#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/idle.h"
#include "engine/images.h"
#include "engine/watch.h"
#include "functions/iii_internal.h"
#include "functions/iii_slots.h"
#include "model/sandbox.h"

#define PAGE 200

/* ---- what a create is asked for ---- */

static struct maybe_number number_or(const struct call *call, const char *name, uint32_t preset)
{
    struct maybe_number n = in_maybe(call, name);

    if (!n.given && preset > 0)
        n = (struct maybe_number){.given = true, .value = preset};
    return n;
}

/* Without an end of its own, as far as the operator lets sandboxes have none. */
static struct maybe_number life_of(const struct call *call)
{
    struct maybe_number n = in_maybe(call, "timeout_secs");

    if (n.given && n.value > 0)
        return n;
    return (struct maybe_number){.given = true,
                                 .value = engine_config(call->engine)->ceilings.timeout_s};
}

/* ---- why a create failed ---- */

static bool has_code(const struct err *err, const char *code)
{
    return err->code && strcmp(err->code, code) == 0;
}

/* The image is not on this machine. An id is looked up nowhere else (S100). Where a create does not
 * pull, the operator has to (S101). Otherwise the registry has no such name or tag (S102). */
static int no_image(struct call *call, struct err *err)
{
    const struct engine_config *config = engine_config(call->engine);
    const char *image = in_str(call, "image");

    if (str_starts(image, "sha256:"))
        return err_code(err, ERR_NOT_FOUND, "bad_image",
                        "no image on this machine has the id %.80s", image);
    if (config->auto_install && config->pull_policy != PULL_NEVER)
        return -1;
    (void)err_code(err, ERR_NOT_FOUND, "image_not_installed",
                   "image %.80s is not on this machine and is not pulled: run `cay image pull "
                   "%.80s`",
                   image, image);
    return iii_name_limit(iii_settings_of(call),
                          config->auto_install ? III_LIMIT_PULL : III_LIMIT_INSTALL, err);
}

/* Adds where the operator has set the limit that the create ran into. */
static int create_failed(struct call *call, struct err *err)
{
    static const struct {
        const char *code;
        enum iii_limit limit;
    } limits[] = {
        {"sandbox_limit", III_LIMIT_ALL_SANDBOXES},
        {"image_not_allowed", III_LIMIT_IMAGES},
        {"image_cap_exceeded", III_LIMIT_CAPS},
        {"image_not_installed", III_LIMIT_INSTALL},
    };

    if (has_code(err, "image_not_found"))
        return no_image(call, err);
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (has_code(err, limits[i].code))
            return iii_name_limit(iii_settings_of(call), limits[i].limit, err);
    return -1;
}

/* ---- create ---- */

static int create_in_place(struct call *call, const json_t *env, bool passing, char ret_id[ID_SIZE],
                           struct err *err)
{
    const struct iii_settings *settings = iii_settings_of(call);
    struct engine_watch watch = call_watch(call);
    struct maybe_number idle = in_maybe(call, "idle_timeout_secs");
    struct call_maker maker;
    json_t *sandbox = NULL;
    struct sandbox_request req = {
        .image = in_str(call, "image"),
        .name = in_str(call, "name"),
        .passing = passing,
        .timeout_s = life_of(call),
        .idle_s =
            idle.given ? idle : (struct maybe_number){.given = true, .value = settings->idle_s},
        .idle_removes = true,
        .memory_mb = number_or(call, "memory_mb", settings->memory_mb),
        .cpu_cores = number_or(call, "cpus", settings->cpus),
        .network = json_object_get(call->in, "network"),
        .env = env,
        .metadata = json_object_get(call->in, "metadata"),
    };

    /* Its clients see no warnings and know no stopped sandboxes. */
    call_read_maker(call, &maker);
    req.maker.tenant = maker.maker.tenant;
    if (engine_create(call->engine, &req, &watch, &sandbox, err) < 0)
        return create_failed(call, err);
    if (call_gives_made(call, &sandbox, err) < 0)
        return -1;
    (void)snprintf(ret_id, ID_SIZE, "%s", json_string_value(json_object_get(sandbox, "id")));
    json_decref(sandbox);
    return 0;
}

int iii_create(struct call *call, const json_t *env, bool passing, char ret_id[ID_SIZE],
               struct err *err)
{
    const struct iii_settings *settings = iii_settings_of(call);
    int r;

    if (!*in_str(call, "image"))
        return err_code(err, ERR_NOT_FOUND, "bad_image", "no image has an empty name");
    if (call_take_label(call, err) < 0)
        return -1;
    if (reach_check_image(call, in_str(call, "image"), err) < 0)
        return create_failed(call, err);
    if (iii_place_take(call->engine, settings->sandboxes_max,
                       iii_limit_source(settings, III_LIMIT_SANDBOXES), err) < 0)
        return -1;
    r = create_in_place(call, env, passing, ret_id, err);
    iii_place_give();
    if (r == 0) /* for what is told of the call */
        (void)snprintf(call->sandbox_id, sizeof(call->sandbox_id), "%s", ret_id);
    return r;
}

static int create(struct call *call, struct err *err)
{
    char id[ID_SIZE], uuid[UUID_SIZE];
    json_t *env = NULL;
    int r = iii_env(json_object_get(call->in, "env"), &env, err);

    if (r == 0)
        r = iii_create(call, env, false, id, err);
    json_decref(env);
    if (r < 0)
        return -1;
    iii_uuid_of_id(id, uuid);
    call->out = json_pack("{s:s, s:s}", "sandbox_id", uuid, "image", in_str(call, "image"));
    return 0;
}

/* ---- stop ---- */

static int stop(struct call *call, struct err *err)
{
    char uuid[UUID_SIZE];

    if (engine_remove(call->engine, in_id(call), err) < 0)
        return -1;
    iii_uuid_of_id(in_id(call), uuid);
    call->out = json_pack("{s:s, s:b}", "sandbox_id", uuid, "stopped", 1);
    return 0;
}

/* ---- list ---- */

static bool is_live(const json_t *sandbox)
{
    static const enum sandbox_state live[] = {SANDBOX_CREATING, SANDBOX_RUNNING, SANDBOX_PAUSED};
    const char *status = json_string_value(json_object_get(sandbox, "status"));

    for (size_t i = 0; i < ARRAY_LEN(live); i++)
        if (strcmp(status, sandbox_state_name(live[i])) == 0)
            return true;
    return false;
}

static json_t *copy_or(const json_t *o, const char *key, json_t *preset)
{
    json_t *value = json_object_get(o, key);

    if (!value)
        return preset;
    json_decref(preset);
    return json_incref(value);
}

static json_t *one_of(struct call *call, const json_t *sandbox)
{
    const json_t *config = json_object_get(sandbox, "config");
    const char *id = json_string_value(json_object_get(sandbox, "id"));
    json_int_t created = json_integer_value(json_object_get(sandbox, "createdAt"));
    uint32_t used = iii_slots_used(id), max = iii_settings_of(call)->execs_max;
    int64_t age_ms = now_ms() - created;
    char uuid[UUID_SIZE];

    max = max ? max : 1;
    iii_uuid_of_id(id, uuid);
    return json_pack("{s:s, s:o, s:O, s:I, s:b, s:I, s:I, s:b, s:O, s:O, s:o, s:o, s:I, s:I}",
                     "sandbox_id", uuid, "name", copy_or(config, "name", json_null()), "image",
                     json_object_get(sandbox, "image"), "age_secs",
                     (json_int_t)(age_ms > 0 ? age_ms / 1000 : 0), "exec_in_progress", used > 0,
                     "exec_in_flight", (json_int_t)used, "exec_slots_free",
                     (json_int_t)(used < max ? max - used : 0), "stopped", 0, "cpus",
                     json_object_get(config, "cpu"), "memory_mb", json_object_get(config, "memory"),
                     "network", copy_or(config, "network", json_false()), "idle_timeout_secs",
                     copy_or(config, "idleTimeout", json_integer(0)), "created_at", created / 1000,
                     "last_activity", (json_int_t)(engine_last_active(call->engine, id) / 1000));
}

static int list(struct call *call, struct err *err)
{
    struct sandbox_pick pick;
    struct sandbox_query query = {.pick = caller_pick(call->caller, &pick), .page_size = PAGE};
    json_t *all = json_array(), *page, *one;
    size_t i;

    (void)err;
    do {
        engine_list(call->engine, &query, &page);
        json_array_foreach(json_object_get(page, "items"), i, one)
        {
            if (is_live(one))
                (void)json_array_append_new(all, one_of(call, one));
        }
        query.cursor = (uint64_t)json_integer_value(json_object_get(page, "nextCursor"));
        json_decref(page);
    } while (query.cursor > 0);
    call->out = json_pack("{s:o}", "sandboxes", all);
    return 0;
}

/* ---- images ---- */

static int catalog(struct call *call, struct err *err)
{
    json_t *known = NULL, *images, *one;
    size_t i;

    if (engine_image_catalog(call->engine, &known, err) < 0)
        return -1;
    images = json_array();
    json_array_foreach(json_object_get(known, "images"), i, one)
    {
        (void)json_array_append_new(images, json_pack("{s:O, s:O, s:O}", "name",
                                                      json_object_get(one, "name"), "oci_ref",
                                                      json_object_get(one, "reference"), "kind",
                                                      json_object_get(one, "kind")));
    }
    json_decref(known);
    call->out = json_pack("{s:o}", "images", images);
    return 0;
}

/* ---- the rows ---- */

static const struct field create_fields[] = {
    {"image", FIELD_STRING, .max = IMAGE_NAME_MAX, .example = "\"python\"",
     .help = "a name of sandbox::catalog::list, or a reference where the operator allows that"},
    {"cpus", FIELD_INT, .optional = true, .clamp = true, .max = 1024, .help = "cores"},
    {"memory_mb", FIELD_INT, .optional = true, .clamp = true, .max = MEMORY_MB_MAX,
     .help = "MB of memory"},
    {"name", FIELD_STRING, .optional = true, .max = SANDBOX_NAME_MAX, .help = "a label"},
    {"network", FIELD_NETWORK, .optional = true, .max = NETWORK_TEXT_MAX,
     .of = &network_policy_shape,
     .help = "what it may reach: false (the default) nothing, true the public internet, else a "
             "preset or a policy"},
    {"idle_timeout_secs", FIELD_INT, .optional = true, .clamp = true, .max = IDLE_S_MAX,
     .help = "seconds without use until it is removed; 0 = it is not"},
    {"timeout_secs", FIELD_INT, .optional = true, .clamp = true, .max = TIMEOUT_S_MAX,
     .help = "seconds until it is removed in any case; 0 or absent = as long as the operator "
             "allows"},
    {"env", FIELD_ANY, .optional = true,
     .help = "environment of every command: [\"K=V\"] or {\"K\": \"V\"}"},
    {0},
};

static const struct field stop_fields[] = {
    III_ID_FIELD,
    {"wait", FIELD_BOOL, .preset = "false", .help = "has no effect: it is gone in any case"},
    {0},
};

static const struct field no_fields[] = {{0}};

const struct function iii_sandbox_functions[] = {
    {"sandbox::create", .fields = create_fields, .run = create, .scope = SCOPE_WRITE,
     .reach = REACH_ITSELF, .flags = FUNCTION_MAKES | FUNCTION_TELLS, .gives = &iii_created_shape,
     .help = "Makes a sandbox and starts it",
     .errors = ERRORS_PULL
     " bad_payload image_cap_exceeded image_not_installed sandbox_limit stopped_limit "
     "machine_full launcher_lost no_space conflict " ERRORS_NET},
    {"sandbox::stop", .fields = stop_fields, .run = stop, .scope = SCOPE_WRITE,
     .reach = REACH_SANDBOX, .gives = &iii_stopped_shape,
     .help = "Ends a sandbox and removes it with its files",
     .errors = ERRORS_GONE " sandbox_busy bad_payload bad_uuid"},
    {"sandbox::list", .fields = no_fields, .run = list, .scope = SCOPE_READ, .reach = REACH_ITSELF,
     .gives = &iii_list_shape, .help = "Lists the sandboxes that live", .errors = "bad_payload"},
    {"sandbox::catalog::list", .fields = no_fields, .run = catalog, .scope = SCOPE_READ,
     .reach = REACH_ALL, .gives = &iii_catalog_shape,
     .help = "Lists the images that have short names", .errors = "bad_payload"},
    {0},
};
