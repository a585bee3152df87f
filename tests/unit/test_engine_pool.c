#include "engine/images_used_internal.h"
#include "engine/pool.h"
#include "engine/templates.h"
#include "engine/warm_internal.h"
#include "engine_world.h"

/* The warm pool on a fake runtime: who gets a box that waits, and what becomes of the others. */

static void pool_up(struct world *w, uint32_t size, const char *profiles)
{
    world_new(w);
    world_close(w, false);
    w->config.pool_size = size;
    w->config.pool_profiles = profiles;
    world_open(w);
    world_start(w);
}

static json_t *pool(struct world *w)
{
    json_t *o;

    engine_pool_status(w->engine, true, &o);
    return o;
}

static void await_ready(struct world *w, json_int_t want)
{
    json_int_t ready = -1;

    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1)) {
        json_t *o = pool(w);

        ready = json_integer_value(json_object_get(o, "ready"));
        json_decref(o);
        if (ready == want)
            return;
    }
    CHECK_INT(ready, want);
}

/* The id of the box that is taken next, to be freed. */
static char *next(struct world *w)
{
    char *id;

    pthread_mutex_lock(&w->engine->warm->lock);
    id = xstrdup(w->engine->warm->first ? w->engine->warm->first->sb->box.id : "");
    pthread_mutex_unlock(&w->engine->warm->lock);
    return id;
}

static void check_takes(struct world *w, const char *text, bool takes)
{
    auto_free char *waits = NULL, *id = NULL;

    await_ready(w, 2);
    waits = next(w);
    id = create(w, text);
    CHECK_INT(strcmp(waits, id) == 0, takes);
    check_status(w, id, "running");
    CHECK_INT(engine_remove(w->engine, id, NULL), 0);
}

TEST(a_create_that_wants_the_same_takes_one_that_waits)
{
    struct world w;

    pool_up(&w, 2, "host");
    check_takes(&w, "{\"image\":\"host\"}", true);
    check_takes(&w, "{\"image\":\"host\",\"name\":\"n\",\"env\":{\"A\":\"b\"},\"timeout\":60}",
                true);
    check_takes(&w, "{\"image\":\"host\",\"memory\":512,\"cpu\":1}", true);
    check_takes(&w, "{\"image\":\"host\",\"workdir\":\"/workspace/deep\"}", true);
    check_takes(&w, "{\"image\":\"host\",\"entrypoint\":[\"sleep\",\"9\"]}", true);
    check_takes(&w, "{\"image\":\"host\",\"memory\":1024}", false);
    check_takes(&w, "{\"image\":\"host\",\"disk\":128}", false);
    check_takes(&w, "{\"image\":\"py:3\"}", false);
    world_done(&w);
}

TEST(none_is_given_twice)
{
    auto_free char *a = NULL, *b = NULL, *c = NULL;
    struct world w;

    pool_up(&w, 2, "host");
    await_ready(&w, 2);
    a = create(&w, "{\"image\":\"host\"}");
    b = create(&w, "{\"image\":\"host\"}");
    c = create(&w, "{\"image\":\"host\"}");
    CHECK(strcmp(a, b) != 0 && strcmp(b, c) != 0 && strcmp(a, c) != 0);
    world_done(&w);
}

TEST(what_was_taken_is_there_after_a_restart_and_what_waits_is_not)
{
    auto_free char *waits = NULL, *id = NULL;
    struct world w;

    pool_up(&w, 2, "host");
    await_ready(&w, 2);
    id = create(&w, "{\"image\":\"host\",\"metadata\":{\"a\":\"b\"}}");
    waits = next(&w);
    world_close(&w, false);
    world_open(&w);
    world_start(&w);
    check_status(&w, id, "running");
    check_status(&w, waits, "none");
    world_done(&w);
}

static bool is_there(const char *id)
{
    struct box box = {0};

    (void)snprintf(box.id, sizeof(box.id), "%s", id);
    return fake_lives(NULL, &box);
}

static void await_end(const char *id)
{
    for (int64_t until = mono_ns() + PATIENCE_NS; is_there(id) && mono_ns() < until;)
        (void)poll(NULL, 0, 1);
    CHECK(!is_there(id));
}

TEST(one_that_has_ended_is_not_given_to_anybody)
{
    auto_free char *dead = NULL, *id = NULL;
    struct world w;

    pool_up(&w, 2, "host");
    await_ready(&w, 2);
    dead = next(&w);
    pthread_mutex_lock(&fake.lock);
    fake_find(dead)->alive = false;
    pthread_mutex_unlock(&fake.lock);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK(strcmp(dead, id) != 0);
    check_status(&w, id, "running");
    world_done(&w);
}

static json_t *profile(struct world *w, size_t at)
{
    json_t *o = pool(w), *p = json_incref(json_array_get(json_object_get(o, "profiles"), at));

    json_decref(o);
    return p;
}

static void await_error(struct world *w, const char *part)
{
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1)) {
        json_t *p = profile(w, 0);
        const char *error = json_string_value(json_object_get(p, "error"));
        bool found = part ? error && strstr(error, part) : !error;

        json_decref(p);
        if (found)
            return;
    }
    TAP_FAIL("the profile does not say %s", part ? part : "that all is well");
}

TEST(boxes_of_an_image_that_is_removed_go_and_the_profile_says_why)
{
    auto_free char *waits = NULL;
    struct world w;

    pool_up(&w, 2, "py:3");
    await_ready(&w, 2);
    waits = next(&w);
    fake_images.removed = true;
    CHECK(!image_in_use(w.engine, FAKE_ID)); /* they keep nobody from removing it */
    warm_sources_changed(w.engine);
    await_end(waits);
    await_error(&w, "no image");
    fake_images.removed = false;
    warm_sources_changed(w.engine);
    await_ready(&w, 2);
    await_error(&w, NULL);
    world_done(&w);
}

/* Makes the template "t", or replaces it: the image host with this number of cores. */
static void put_template(struct world *w, int cores)
{
    json_t *config = json_pack("{s:s, s:i}", "image", "host", "cpu", cores), *made = NULL;
    struct template_new n = {.name = "t", .config = config, .replace = true};
    struct err err = {0};

    CHECK_INT(engine_template_put(w->engine, &n, &made, &err), 0);
    json_decref(made);
    json_decref(config);
}

static void await_profile(struct world *w, const char *key)
{
    json_int_t ready = 0;

    for (int64_t until = mono_ns() + PATIENCE_NS; ready != 2 && mono_ns() < until;
         (void)poll(NULL, 0, 1)) {
        json_t *o = pool(w);

        ready = json_integer_value(json_object_get(json_object_get(o, "by_profile"), key));
        json_decref(o);
    }
    CHECK_INT(ready, 2);
}

TEST(a_changed_template_changes_the_boxes_without_waiting_for_the_next_look)
{
    struct pool_request req = {.template = "t", .size = 2};
    auto_free char *waits = NULL;
    struct world w;
    json_t *o = NULL;

    world_new(&w);
    w.engine->config.waits.pool = 3600 * 1000;
    world_start(&w);
    put_template(&w, 1);
    CHECK_INT(engine_pool_add(w.engine, &req, &o, NULL), 0);
    json_decref(o);
    await_profile(&w, "t:512:1:false");
    waits = next(&w);
    put_template(&w, 2);
    await_end(waits);
    await_profile(&w, "t:512:2:false");
    free(waits);
    waits = next(&w);
    CHECK_INT(engine_template_remove(w.engine, "t", NULL), 0);
    await_end(waits);
    await_error(&w, "t");
    put_template(&w, 3);
    await_profile(&w, "t:512:3:false");
    world_done(&w);
}

TEST(there_are_no_more_than_could_be_created)
{
    auto_free char *id = NULL;
    struct world w;

    pool_up(&w, 9, "host"); /* of 5 that there may be */
    await_ready(&w, 5);
    id = create(&w, "{\"image\":\"host\"}");
    await_ready(&w, 4);
    world_done(&w);
}

static char *add(struct world *w, const char *image, uint32_t size, const char *want)
{
    struct pool_request req = {.image = image, .size = size};
    struct err err = {0};
    json_t *o = NULL;
    char *id = NULL;

    if (engine_pool_add(w->engine, &req, &o, &err) == 0)
        id = xstrdup(json_string_value(json_object_get(o, "id")));
    json_decref(o);
    CHECK_STR(id ? "ok" : err.code, want);
    return id;
}

TEST(a_profile_that_was_added_outlives_a_restart_until_it_is_removed)
{
    auto_free char *id = NULL;
    struct err err = {0};
    struct world w;
    json_t *p;

    pool_up(&w, 0, NULL);
    await_ready(&w, 0);
    id = add(&w, "host", 2, "ok");
    await_ready(&w, 2);
    CHECK(!add(&w, "host", 1, "pool_profile_exists"));
    CHECK(!add(&w, "py:3", POOL_SIZE_MAX, "pool_limit"));
    CHECK(!add(&w, "node", 1, "image_not_allowed"));
    world_close(&w, false);
    world_open(&w);
    world_start(&w);
    await_ready(&w, 2);
    p = profile(&w, 0);
    CHECK_STR(json_string_value(json_object_get(p, "id")), id);
    json_decref(p);
    CHECK_INT(engine_pool_remove(w.engine, id, &err), 0);
    await_ready(&w, 0);
    CHECK_INT(engine_pool_remove(w.engine, id, &err), -1);
    CHECK_STR(err.code, "pool_profile_not_found");
    CHECK_INT(engine_pool_remove(w.engine, "", &err), -1);
    world_done(&w);
}

TEST(a_list_of_profiles_is_read_or_refused)
{
    struct world w;
    json_t *o, *p;

    CHECK_INT(pool_profiles_check("host", NULL), 0);
    CHECK_INT(pool_profiles_check("host,512,1,false; py:3 , 128 ;", NULL), 0);
    CHECK_INT(pool_profiles_check("", NULL), 0);
    CHECK_INT(pool_profiles_check(",512", NULL), -1);
    CHECK_INT(pool_profiles_check("host,much", NULL), -1);
    CHECK_INT(pool_profiles_check("host,512,1,maybe", NULL), -1);
    CHECK_INT(pool_profiles_check("host,512,1,false,more", NULL), -1);

    pool_up(&w, 1, "host,128,2;py:3");
    await_ready(&w, 2);
    o = pool(&w);
    p = json_object_get(o, "by_profile");
    CHECK_INT(json_integer_value(json_object_get(p, "host:128:2:false")), 1);
    CHECK_INT(json_integer_value(json_object_get(p, "py:3:512:1:false")), 1);
    json_decref(o);
    world_done(&w);
}

TAP_MAIN
