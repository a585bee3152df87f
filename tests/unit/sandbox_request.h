#pragma once

#include <jansson.h>

#include "base/mem.h"
#include "engine/sandboxes.h"
#include "tap.h"

/* What a test asks of engine_create(), from JSON that looks like a caller's. */

static struct maybe_number request_number(const json_t *in, const char *key)
{
    const json_t *value = json_object_get(in, key);

    return (struct maybe_number){.given = value, .value = json_number_value(value)};
}

static const char *request_text(const json_t *in, const char *key)
{
    return json_string_value(json_object_get(in, key));
}

/* As engine_create(), with text instead of the request. */
static int create_from(struct engine *e, const char *text, const struct engine_watch *watch,
                       json_t **ret, struct err *err)
{
    json_t *in = json_loads(text, 0, NULL), *entrypoint = json_object_get(in, "entrypoint");
    const json_t *auth = json_object_get(in, "registry_auth");
    auto_strv char **argv = NULL;
    struct sandbox_request req = {
        .image = request_text(in, "image"),
        .image_id = request_text(in, "imageId"),
        .name = request_text(in, "name"),
        .unique = json_is_true(json_object_get(in, "unique")),
        .timeout_s = request_number(in, "timeout"),
        .idle_s = request_number(in, "idleTimeout"),
        .idle_removes = json_is_true(json_object_get(in, "idleRemoves")),
        .maker = {.expiry_stops = json_is_true(json_object_get(in, "expiryStops")),
                  .tenant = request_text(in, "tenant"),
                  .replaces = json_is_true(json_object_get(in, "replaces"))},
        .memory_mb = request_number(in, "memory"),
        .cpu_cores = request_number(in, "cpu"),
        .pids = request_number(in, "pids"),
        .disk_mb = request_number(in, "disk"),
        .network = json_object_get(in, "network"),
        .env = json_object_get(in, "env"),
        .metadata = json_object_get(in, "metadata"),
        .workdir = request_text(in, "workdir"),
        .run_entrypoint = json_is_true(json_object_get(in, "runEntrypoint")),
        .pull_given = json_object_get(in, "pull"),
        .platform = request_text(in, "platform"),
        .username = request_text(auth, "username"),
        .password = request_text(auth, "password"),
    };
    int r;

    CHECK(in);
    for (size_t i = 0; i < json_array_size(entrypoint); i++)
        argv = strv_add(argv, json_string_value(json_array_get(entrypoint, i)));
    req.entrypoint = argv;
    if (req.pull_given)
        CHECK_INT(pull_policy_parse(request_text(in, "pull"), &req.pull), 0);
    r = engine_create(e, &req, watch, ret, err);
    json_decref(in);
    return r;
}
