#include <pthread.h>
#include <sys/stat.h>

#include "engine/images_used_internal.h"
#include "engine/templates.h"
#include "engine/watch.h"
#include "engine_world.h"
#include "model/shapes.h"

#define BUILD                                                                                      \
    "{\"imageId\":\"" FAKE_ID "\",\"source\":\"config\",\"builtAt\":5,\"baseId\":\"other\"}"

static int put(struct world *w, const char *name, const char *config, const char *build,
               bool replace, json_t **ret, struct err *err)
{
    struct template_new n = {
        .name = name,
        .config = json_loads(config, 0, NULL),
        .build = build ? json_loads(build, 0, NULL) : NULL,
        .replace = replace,
    };
    int r = engine_template_put(w->engine, &n, ret, err);

    json_decref((json_t *)(uintptr_t)n.config);
    json_decref((json_t *)(uintptr_t)n.build);
    return r;
}

/* The id, to be freed. */
static char *make(struct world *w, const char *name, const char *config, const char *build)
{
    struct err err = {0};
    json_t *made = NULL;
    char *id;

    if (put(w, name, config, build, false, &made, &err) < 0)
        TAP_FAIL("put: %s", err.text);
    if (shape_check(&template_shape, made, &err) < 0)
        TAP_FAIL("%s", err.text);
    id = xstrdup(json_string_value(json_object_get(made, "id")));
    json_decref(made);
    return id;
}

static size_t count(struct world *w)
{
    struct err err = {0};
    json_t *list;
    size_t n;

    engine_template_list(w->engine, &list);
    if (shape_check(&template_list_shape, list, &err) < 0)
        TAP_FAIL("%s", err.text);
    n = json_array_size(json_object_get(list, "templates"));
    json_decref(list);
    return n;
}

TEST(those_that_are_built_in_are_found_and_cannot_go)
{
    struct err err = {0};
    struct world w;
    json_t *t;

    world_up(&w);
    CHECK_INT(count(&w), 4);
    CHECK_INT(engine_template_get(w.engine, "node-web", &t, &err), 0);
    CHECK_STR(json_string_value(json_object_get(t, "id")), "tpl_node-web");
    json_decref(t);
    CHECK_INT(engine_template_get(w.engine, "tpl_rust-cli", &t, &err), 0);
    json_decref(t);
    CHECK_INT(engine_template_remove(w.engine, "tpl_rust-cli", &err), -1);
    CHECK_STR(err.code, "template_builtin");
    CHECK_INT(put(&w, "go-api", "{\"image\":\"py\"}", NULL, true, &t, &err), -1);
    CHECK_STR(err.code, "template_exists");
    CHECK_INT(engine_template_get(w.engine, "nobody", &t, &err), -1);
    CHECK_STR(err.text, "Template not found: nobody");
    world_done(&w);
}

TEST(names_are_unique_and_templates_few_and_allowed)
{
    auto_free char *a = NULL, *b = NULL, *c = NULL;
    struct err err = {0};
    struct world w;
    json_t *t;

    world_up(&w);
    a = make(&w, "a", "{\"image\":\"py\"}", NULL);
    CHECK_INT(put(&w, "a", "{\"image\":\"py\"}", NULL, false, &t, &err), -1);
    CHECK_STR(err.code, "template_exists");
    CHECK_INT(put(&w, "x", "{\"image\":\"forbidden\"}", NULL, false, &t, &err), -1);
    CHECK_STR(err.code, "image_not_allowed");
    CHECK_INT(put(&w, "tpl_x", "{\"image\":\"py\"}", NULL, false, &t, &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    b = make(&w, "b", "{\"image\":\"py\"}", NULL);
    c = make(&w, "c", "{\"image\":\"py\"}", NULL);
    CHECK_INT(put(&w, "d", "{\"image\":\"py\"}", NULL, false, &t, &err), -1);
    CHECK_STR(err.code, "template_limit");
    CHECK_INT(put(&w, "c", "{\"image\":\"python\"}", NULL, true, &t, &err), 0);
    CHECK_STR(json_string_value(json_object_get(t, "id")), c);
    json_decref(t);
    CHECK_INT(engine_template_remove(w.engine, "b", &err), 0);
    CHECK_INT(count(&w), 6);
    world_done(&w);
}

TEST(the_image_of_a_template_stays_as_long_as_the_template_also_over_a_restart)
{
    auto_free char *id = NULL;
    struct err err = {0};
    struct world w;
    json_t *t;

    world_up(&w);
    CHECK(!image_in_use(w.engine, FAKE_ID));
    id = make(&w, "a", "{\"image\":\"py\",\"setup\":[\"true\"]}", BUILD);
    CHECK(image_in_use(w.engine, FAKE_ID));
    world_close(&w, true);
    world_open(&w);
    CHECK(image_in_use(w.engine, FAKE_ID));
    world_start(&w);
    CHECK_INT(engine_template_get(w.engine, "a", &t, &err), 0);
    CHECK(json_is_true(json_object_get(json_object_get(t, "build"), "stale")));
    CHECK_STR(json_string_value(json_object_get(t, "id")), id);
    json_decref(t);
    CHECK_INT(engine_template_remove(w.engine, id, &err), 0);
    CHECK(!image_in_use(w.engine, FAKE_ID));
    world_done(&w);
}

TEST(a_build_in_place_of_another_lets_the_old_image_go)
{
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *build = json_loads(BUILD, 0, NULL), *t;
    struct world w;

    world_up(&w);
    id = make(&w, "a", "{\"image\":\"py\",\"setup\":[\"true\"]}", BUILD);
    (void)json_object_set_new(build, "imageId", json_string("host"));
    CHECK_INT(engine_template_set_build(w.engine, id, build, &t, &err), 0);
    json_decref(t);
    CHECK(!image_in_use(w.engine, FAKE_ID));
    CHECK(image_in_use(w.engine, "host"));
    CHECK_INT(engine_template_remove(w.engine, id, &err), 0);
    CHECK_INT(engine_template_set_build(w.engine, id, build, &t, &err), -1);
    CHECK_STR(err.code, "template_not_found");
    CHECK(!image_in_use(w.engine, "host"));
    json_decref(build);
    world_done(&w);
}

TEST(contents_of_files_are_in_the_whole_only)
{
    auto_free char *id = NULL;
    struct err err = {0};
    struct world w;
    json_t *t, *file;

    world_up(&w);
    id = make(&w, "a", "{\"image\":\"py\",\"files\":[{\"path\":\"/a\",\"content\":\"hello\"}]}",
              NULL);
    CHECK_INT(engine_template_use(w.engine, "a", &t, &err), 0);
    file = json_array_get(json_object_get(json_object_get(t, "config"), "files"), 0);
    CHECK_INT(json_integer_value(json_object_get(file, "size")), 5);
    CHECK(!json_object_get(file, "content"));
    json_decref(t);
    CHECK_INT(engine_template_get(w.engine, id, &t, &err), 0);
    file = json_array_get(json_object_get(json_object_get(t, "config"), "files"), 0);
    CHECK_STR(json_string_value(json_object_get(file, "content")), "hello");
    json_decref(t);
    world_done(&w);
}

TEST(one_that_is_too_long_is_refused)
{
    auto_free char *content = xmalloc(TEMPLATE_BYTES_MAX + 1), *config = NULL;
    struct err err = {0};
    struct world w;
    json_t *t;

    memset(content, 'x', TEMPLATE_BYTES_MAX);
    content[TEMPLATE_BYTES_MAX] = '\0';
    config =
        xasprintf("{\"image\":\"py\",\"files\":[{\"path\":\"/a\",\"content\":\"%s\"}]}", content);
    world_up(&w);
    CHECK_INT(put(&w, "a", config, NULL, false, &t, &err), -1);
    CHECK_INT(err.kind, ERR_TOO_LARGE);
    CHECK_INT(count(&w), 4);
    world_done(&w);
}

/* ---- turns ---- */

static bool give_up(void *arg)
{
    (void)arg;
    return true;
}

static int no_more(const json_t *event, void *arg)
{
    (void)event;
    (void)arg;
    return -1;
}

static void *second(void *arg)
{
    struct world *w = arg;
    struct err err = {0};
    intptr_t r = engine_template_begin(w->engine, "a", NULL, &err);

    if (r == 0)
        engine_template_end(w->engine, "a");
    return (void *)r;
}

TEST(who_builds_a_template_has_it_alone_and_who_waits_may_leave)
{
    const struct engine_watch leaves = {.progress = no_more, .cancelled = give_up, .cancel_fd = -1};
    struct err err = {0};
    pthread_t thread;
    struct world w;
    void *r;

    world_up(&w);
    CHECK_INT(engine_template_begin(w.engine, "a", NULL, &err), 0);
    CHECK_INT(engine_template_begin(w.engine, "b", NULL, &err), 0);
    CHECK_INT(engine_template_begin(w.engine, "a", &leaves, &err), -1);
    CHECK_STR(err.code, "cancelled");
    CHECK_INT(pthread_create(&thread, NULL, second, &w), 0);
    engine_template_end(w.engine, "a");
    CHECK_INT(pthread_join(thread, &r), 0);
    CHECK(r == NULL);
    engine_template_end(w.engine, "b");
    world_done(&w);
}
TAP_MAIN
