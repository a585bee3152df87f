#include "engine/namesakes_internal.h"
#include "engine_world.h"

/* ---- who has which name ---- */

#define MANY 10000

static struct sandbox *sandboxes(size_t n, bool same_name)
{
    struct sandbox *all = xcalloc(n, sizeof(*all));

    for (size_t i = 0; i < n; i++) {
        (void)snprintf(all[i].box.id, sizeof(all[i].box.id), "sbx_%024zx", i);
        all[i].spec.name = xasprintf("box-%zu", same_name ? 0 : i);
    }
    return all;
}

static void free_sandboxes(struct sandbox *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(all[i].spec.name);
    free(all);
}

TEST(a_name_leads_to_the_one_that_has_it)
{
    struct sandbox *all = sandboxes(MANY, false), *found;
    struct namesakes names = {0};
    struct err err = {0};

    for (size_t i = 0; i < MANY; i++)
        namesakes_add(&names, &all[i]);
    for (size_t i = 0; i < MANY; i++) {
        CHECK_INT(namesakes_find(&names, all[i].spec.name, NULL, NULL, &found, &err), 0);
        CHECK(found == &all[i]);
    }
    CHECK_INT(namesakes_find(&names, "box", NULL, NULL, &found, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    for (size_t i = 0; i < MANY; i++)
        namesakes_remove(&names, &all[i]);
    CHECK(!names.tree);
    free_sandboxes(all, MANY);
}

TEST(of_many_with_one_name_each_can_go_and_the_last_one_is_found)
{
    struct sandbox *all = sandboxes(MANY, true), *found;
    struct namesakes names = {0};
    struct err err = {0};
    size_t last = MANY / 2;

    for (size_t i = 0; i < MANY; i++)
        namesakes_add(&names, &all[i]);
    CHECK_INT(namesakes_find(&names, all[0].spec.name, NULL, NULL, &found, &err), -1);
    CHECK_STR(err.code, "name_ambiguous");
    for (size_t i = 0; i < MANY; i++) {
        if (i != last)
            namesakes_remove(&names, &all[i]);
    }
    CHECK_INT(namesakes_find(&names, all[last].spec.name, NULL, NULL, &found, &err), 0);
    CHECK(found == &all[last]);
    namesakes_remove(&names, &all[last]);
    CHECK(!names.tree);
    free_sandboxes(all, MANY);
}

TEST(the_longest_name_leaves_room_for_the_ids_of_its_holders)
{
    struct namesakes names = {0};
    struct sandbox all[3] = {0}, *found;
    char name[256];
    struct err err = {0};

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        id_new(all[i].box.id, "sbx");
        all[i].spec.name = name;
        namesakes_add(&names, &all[i]);
    }
    CHECK_INT(namesakes_find(&names, name, NULL, NULL, &found, &err), -1);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        CHECK(strstr(err.text, all[i].box.id));
    CHECK(strstr(err.text, "use an id"));
    CHECK_INT(namesakes_reserve(&names, name, true, NULL, NULL, &err), -1);
    CHECK(strstr(err.text, all[2].box.id));
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        namesakes_remove(&names, &all[i]);
}

TEST(a_name_that_is_being_given_is_taken)
{
    struct namesakes names = {0};
    struct sandbox *found;
    struct err err = {0};

    CHECK_INT(namesakes_reserve(&names, NULL, false, NULL, NULL, &err), 0);
    CHECK_INT(namesakes_reserve(&names, "web", true, NULL, NULL, &err), 0);
    CHECK_INT(namesakes_reserve(&names, "web", true, NULL, NULL, &err), -1);
    CHECK_INT(err.kind, ERR_CONFLICT);
    CHECK_STR(err.code, "name_taken");
    CHECK(strstr(err.text, "being made"));
    CHECK_INT(namesakes_find(&names, "web", NULL, NULL, &found, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    namesakes_unreserve(&names, "web");
    CHECK(!names.tree);
    /* Also by one who would share it. */
    CHECK_INT(namesakes_reserve(&names, "web", false, NULL, NULL, &err), 0);
    CHECK_INT(namesakes_reserve(&names, "web", false, NULL, NULL, &err), 0);
    CHECK_INT(namesakes_reserve(&names, "web", true, NULL, NULL, &err), -1);
    namesakes_unreserve(&names, "web");
    CHECK_INT(namesakes_reserve(&names, "web", true, NULL, NULL, &err), -1);
    namesakes_unreserve(&names, "web");
    CHECK(!names.tree);
}

/* ---- with an engine ---- */

TEST(a_unique_name_is_free_after_a_failed_create_and_after_a_removal)
{
    struct world w;
    struct err err = {0};
    auto_free char *id = NULL;
    char found[ID_SIZE];
    json_t *s;

    world_up(&w);
    CHECK_INT(try_create(&w, "{\"image\":\"gone\",\"name\":\"a\",\"unique\":true}", &s, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    id = create(&w, "{\"image\":\"host\",\"name\":\"a\",\"unique\":true}");
    CHECK_INT(try_create(&w, "{\"image\":\"host\",\"name\":\"a\",\"unique\":true}", &s, &err), -1);
    CHECK_STR(err.code, "name_taken");
    CHECK(strstr(err.text, id));
    CHECK_INT(engine_id_of_name(w.engine, NULL, "a", found, &err), 0);
    CHECK_STR(found, id);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    CHECK_INT(engine_id_of_name(w.engine, NULL, "a", found, &err), -1);
    free(create(&w, "{\"image\":\"host\",\"name\":\"a\",\"unique\":true}"));
    world_done(&w);
}

TEST(names_are_known_again_after_a_start)
{
    struct world w;
    auto_free char *id = NULL;
    struct err err = {0};
    char found[ID_SIZE];
    json_t *s;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\",\"name\":\"kept\"}");
    world_close(&w, false);
    world_open(&w);
    world_start(&w);
    CHECK_INT(engine_id_of_name(w.engine, NULL, "kept", found, &err), 0);
    CHECK_STR(found, id);
    CHECK_INT(try_create(&w, "{\"image\":\"host\",\"name\":\"kept\",\"unique\":true}", &s, &err),
              -1);
    CHECK_STR(err.code, "name_taken");
    world_done(&w);
}

TAP_MAIN
