#pragma once

/* An engine on a fake runtime with fake images, and what tests do with one. */

#pragma GCC diagnostic ignored "-Wunused-function" /* no test needs all of it */

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/engine_internal.h"
#include "engine/exec.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "exec_rig.h"
#include "fake_images.h"
#include "fake_runtime.h"
#include "sandbox_request.h"
#include "store/store.h"
#include "tap.h"
#include "tmpdir.h"

struct world {
    char *dir;
    struct store *store;
    struct engine *engine;
    struct engine_config config;
};

static void world_open(struct world *w)
{
    struct err err = {0};
    int rebuilt;

    w->config.data_dir = w->dir;
    if (store_open(w->dir, &w->store, &rebuilt, &err) < 0 ||
        engine_new(&w->config, w->store, NULL, &fake.base, &w->engine, &err) < 0)
        TAP_FAIL("%s", err.text);
}

static void world_start(struct world *w)
{
    struct err err = {0};

    if (engine_start(w->engine, &err) < 0)
        TAP_FAIL("engine_start: %s", err.text);
}

static void world_new(struct world *w)
{
    *w = (struct world){
        .dir = dir_new(),
        .config = {.default_image = "host",
                   .default_timeout_s = 3600,
                   .default_limits = {512, 1000, 256, 4096},
                   .ceilings = {4096, 4000, 4096, 86400},
                   .max_sandboxes = 5,
                   .max_snapshots = 3,
                   .max_templates = 3,
                   .allowed_images = "host, py*,gone,far*",
                   .auto_install = true,
                   .workspace = "/workspace",
                   .max_command_s = 300,
                   .sweep_s = 3600,
                   .prepared = 2},
    };
    (void)fake_runtime();
    fake_images_reset();
    world_open(w);
}

static void world_close(struct world *w, bool stop_sandboxes)
{
    engine_stop(w->engine, stop_sandboxes);
    engine_free(w->engine);
    store_close(w->store);
    w->engine = NULL;
}

static void world_done(struct world *w)
{
    if (w->engine)
        world_close(w, true);
    CHECK_INT(fake_count(), 0);
    fake_images_reset();
    dir_remove(&w->dir);
}

static void world_up(struct world *w)
{
    world_new(w);
    world_start(w);
}

static int try_create(struct world *w, const char *text, json_t **ret, struct err *err)
{
    return create_from(w->engine, text, NULL, ret, err);
}

/* The id, to be freed. */
static char *create(struct world *w, const char *text)
{
    struct err err = {0};
    json_t *sandbox;
    char *id;

    if (try_create(w, text, &sandbox, &err) < 0)
        TAP_FAIL("create: %s", err.text);
    id = xstrdup(json_string_value(json_object_get(sandbox, "id")));
    json_decref(sandbox);
    return id;
}

static char *status_of(struct world *w, const char *id)
{
    struct sandbox *sb = roster_find(w->engine, id);
    char *status = sb ? sandbox_status(sb) : xstrdup("none");

    sandbox_unref(sb);
    return status;
}

static void check_status(struct world *w, const char *id, const char *want)
{
    auto_free char *status = status_of(w, id);

    CHECK_STR(status, want);
}

/* Waits until another thread has made it so. */
static void await_status(struct world *w, const char *id, const char *want)
{
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1)) {
        auto_free char *status = status_of(w, id);

        if (strcmp(status, want) == 0)
            return;
    }
    check_status(w, id, want);
}

static void await_gone(const char *id)
{
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1))
        if (!fake_look(id))
            return;
    TAP_FAIL("the box of %s is still there", id);
}

static int count_row(const struct sandbox_row *row, void *arg)
{
    *(int *)arg += row->state != SANDBOX_PREPARED;
    return 0;
}

static int rows_of(struct world *w)
{
    int n = 0;

    CHECK_INT(store_each_sandbox(w->store, count_row, &n, NULL), 0);
    return n;
}

static json_t *run(struct world *w, const char *id, const char *command)
{
    struct exec_request req = {.command = command};
    struct err err = {0};
    json_t *out;

    if (exec_run_here(w->engine, id, &req, &out, &err) < 0)
        TAP_FAIL("%s: %s", command, err.text);
    return out;
}

static void run_fails(struct world *w, const char *id, const char *command, enum err_kind kind,
                      const char *code)
{
    struct exec_request req = {.command = command};
    struct err err = {0};
    json_t *out;

    CHECK_INT(exec_run_here(w->engine, id, &req, &out, &err), -1);
    CHECK_INT(err.kind, kind);
    if (code)
        CHECK_STR(err.code ? err.code : "", code);
}

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "(no string)";
}

static json_int_t num(const json_t *o, const char *key)
{
    CHECK(json_is_integer(json_object_get(o, key)));
    return json_integer_value(json_object_get(o, key));
}
