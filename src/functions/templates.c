#include "engine/templates.h"

#include "base/err.h"
#include "engine/watch.h"
#include "functions/functions_internal.h"
#include "service/templates.h"

static int list(struct call *call, struct err *err)
{
    (void)err;
    engine_template_list(call->engine, &call->out);
    return 0;
}

static int get(struct call *call, struct err *err)
{
    return engine_template_get(call->engine, in_str(call, "templateId"), &call->out, err);
}

static int remove_template(struct call *call, struct err *err)
{
    const char *word = in_str(call, "templateId");
    json_t *template = NULL;

    if (engine_template_get(call->engine, word, &template, err) < 0)
        return -1;
    if (engine_template_remove(call->engine, word, err) < 0) {
        json_decref(template);
        return -1;
    }
    call->out = json_pack("{s:O}", "deleted", json_object_get(template, "id"));
    json_decref(template);
    return 0;
}

/* What belongs to a failure becomes the answer's. */
static int create(struct call *call, struct err *err)
{
    struct engine_watch watch = call_watch(call);
    struct template_request req = {
        .name = in_str(call, "name"),
        .description = in_str(call, "description"),
        .config = json_object_get(call->in, "config"),
        .build = in_bool(call, "build"),
    };
    json_t *failure = NULL;

    if (template_make(call->engine, &req, &watch, &call->out, &failure, err) == 0)
        return 0;
    call->out = failure;
    return -1;
}

static int build(struct call *call, struct err *err)
{
    struct engine_watch watch = call_watch(call);
    struct template_rebuild how = {.pull = in_bool(call, "pull"),
                                   .no_cache = in_bool(call, "noCache")};
    json_t *failure = NULL;

    if (template_rebuild(call->engine, in_str(call, "templateId"), &how, &watch, &call->out,
                         &failure, err) == 0)
        return 0;
    call->out = failure;
    return -1;
}

static const struct field create_fields[] = {
    {"name", FIELD_STRING, .min = 1, .max = TEMPLATE_NAME_MAX, .example = "\"web\"",
     .help = "to use in place of the id; no other template has it"},
    {"description", FIELD_STRING, .optional = true, .max = 4096, .help = "for people"},
    {"config", FIELD_OBJECT, .of = &template_config_shape,
     .example = "{\"image\": \"python:3.12-slim\"}", .help = "what its sandboxes are made from"},
    {"build", FIELD_BOOL, .preset = "true",
     .help = "run setup now; else when the template is first used"},
    {0},
};

static const struct field build_fields[] = {
    {"pull", FIELD_BOOL, .optional = true, .help = "look for a newer image first"},
    {"noCache", FIELD_BOOL, .optional = true, .help = "run every command again"},
    {0},
};

const struct function template_functions[] = {
    {"template::create", "POST", "/templates", create_fields, create, NULL, SCOPE_WRITE,
     .reach = REACH_NEVER, .flags = FUNCTION_MAKES | FUNCTION_EVENTS, .done = "template",
     .key = "template", .help = "Makes a template; with setup it is built first",
     .gives = &template_shape, .events = &template_event_shape,
     .errors = ERRORS_BUILD " template_exists template_limit " ERRORS_NET},
    {"template::list", "GET", "/templates", NULL, list, "sandbox_template_list", SCOPE_READ,
     .reach = REACH_MAKERS, .help = "Lists templates", .gives = &template_list_shape},
    {"template::get", "GET", "/templates/:templateId", NULL, get, NULL, SCOPE_READ,
     .reach = REACH_MAKERS, .help = "Shows a template", .gives = &template_shape,
     .errors = "template_not_found"},
    {"template::delete", "DELETE", "/templates/:templateId", NULL, remove_template, NULL,
     SCOPE_WRITE, .reach = REACH_NEVER, .help = "Removes a template; sandboxes made from it stay",
     .gives = &template_deleted_shape, .errors = "template_not_found template_builtin"},
    {"template::build", "POST", "/templates/:templateId/build", build_fields, build, NULL,
     SCOPE_WRITE, .reach = REACH_NEVER, .flags = FUNCTION_EVENTS, .done = "template",
     .key = "template", .help = "Builds a template again, on what its image's name means now",
     .gives = &template_shape, .events = &template_event_shape,
     .errors =
         ERRORS_BUILD " template_not_found template_builtin template_of_directory template_limit"},
    {0},
};
