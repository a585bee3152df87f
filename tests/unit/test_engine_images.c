#include "engine_world.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "engine/dirs_internal.h"
#include "engine/image_policy.h"
#include "engine/images.h"
#include "engine/images_used_internal.h"
#include "engine/pulls_internal.h"
#include "engine/roster_internal.h"
#include "engine/stop_internal.h"
#include "engine/watch.h"

/* ---- policy ---- */

static struct image_policy *policy(const char *allowed, const char *custom, const char *caps)
{
    struct image_policy_config config = {.allowed = allowed, .custom = custom, .caps = caps};
    struct err err = {0};
    struct image_policy *p;

    if (image_policy_new(&config, &p, &err) < 0)
        TAP_FAIL("%s", err.text);
    return p;
}

static bool allows(const char *list, const char *image)
{
    struct image_policy *p = policy(list, NULL, NULL);
    struct err err = {0};
    bool yes = image_policy_check(p, image, &err) == 0;

    if (!yes)
        CHECK_INT(err.kind, ERR_FORBIDDEN);
    image_policy_free(p);
    return yes;
}

TEST(a_list_allows_what_it_means_however_that_is_written)
{
    static const struct {
        const char *list, *image;
        bool yes;
    } cases[] = {
        {"*", "anything", true},
        {"*", "evil.example/x:1", true},
        {"a, b*", "a", true},
        {"a, b*", "bcd", true},
        {"a, b*", "ab", false},
        {"", "a", false},
        {" , ", "a", false},
        {"python:*", "python:3.12", true},
        {"python:*", "docker.io/library/python:3.12", true},
        {"python:*", "docker.io/python:3.12", true},
        {"python:*", "index.docker.io/library/python:3.12", true},
        {"python:*", "library/python:3.12", true},
        {"python:*", "python", true}, /* :latest goes without saying */
        {"python:latest", "docker.io/library/python:latest", true},
        {"library/python", "python:latest", true},
        {"docker.io/library/python:3.12", "python:3.12", true},
        {"docker.io/*", "python:3", true},
        {"docker.io/*", "team/app:1", false},
        {"docker.io/**", "team/app:1", true},
        {"docker.io/team/*", "team/app:1", true},
        {"team/*", "team/app:1", true},
        {"team/*", "ghcr.io/team/app:1", false},
        {"python:3.1?", "python:3.12", true},
        {"python:3.1?", "python:3.123", false},
        {"python:*", "evil.example/python:3.12", false},
        {"python:*", "evil.example/library/python:3.12", false},
        {"python:*", "evil/python:3.12", false},
        {"python:*", "localhost:5000/python:3.12", false},
        /* a host or a path that looks like what the list means */
        {"python*", "python.evil.example/x:1", false},
        {"ghcr.io*", "ghcr.io.evil.example/x:1", false},
        {"ghcr.io/*", "ghcr.io.evil.example/x:1", false},
        {"ghcr.io/**", "ghcr.io.evil.example/x:1", false},
        {"ghcr.io/**", "ghcr.io/team/app:1", true},
        {"GHCR.io/**", "ghcr.io/team/app:1", true},
        {"ghcr.io/team/*", "ghcr.io/other/app:1", false},
        {"*.corp.example/app", "a.corp.example/app", true},
        {"*.corp.example/**", "evil.example/x.corp.example/app", false},
        {"localhost:5000/**", "localhost:5000/a/b:1", true},
        /* no wildcard but ** reaches over a slash */
        {"python*", "python:3", true},
        {"python*", "docker.io/python-evil/x", false},
        {"python*", "python-evil/x:1", false},
        {"python?evil/x:1", "python/evil/x:1", false},
        {"python[!a]evil/x:1", "python/evil/x:1", false},
        {"python**", "python-evil/x:1", true},
        {"ghcr.io/*", "ghcr.io/app:1", true},
        {"ghcr.io/*", "ghcr.io/team/app:1", false},
        {"ghcr.io/*/app:*", "ghcr.io/team/app:1", true},
        {"ghcr.io/*/app:*", "ghcr.io/a/b/app:1", false},
        {"ghcr.io/**/app:*", "ghcr.io/a/b/app:1", true},
        {"*/app:*", "ghcr.io/team/app:1", false},
        {"**/app:*", "ghcr.io/team/app:1", true},
        {"**", "ghcr.io/team/app:1", true},
        {"**", "anything", true},
        {"localhost:5000/*", "localhost:5001/a/b:1", false},
        {"*/app", "ghcr.io/app", false}, /* its tag is latest: */
        {"*/app:*", "ghcr.io/app", true},
        /* a digest is of that repository, but is not that tag */
        {"python:3.12",
         "python@sha256:"
         "0000000000000000000000000000000000000000000000000000000000000000",
         false},
        {"python:3.12",
         "python:3.12@sha256:"
         "0000000000000000000000000000000000000000000000000000000000000000",
         false},
        /* an id is of no registry */
        {"*", "sha256:111111111111", true},
        {"**", "sha256:111111111111", true},
        {"sha256:*", "sha256:111111111111", true},
        {"docker.io/**", "sha256:111111111111", false},
        {"library/*", "sha256:111111111111", false},
        /* short names, by their name and by what they mean */
        {"python", "python", true},
        {"python:3.12-slim", "python", true},
        {"python", "python:3.12-slim", false},
        {"node:20", "node", false},
        {"host", "host", true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (allows(cases[i].list, cases[i].image) != cases[i].yes)
            TAP_FAIL("\"%s\" %s %s", cases[i].list, cases[i].yes ? "refuses" : "allows",
                     cases[i].image);
}

TEST(what_is_no_name_is_said_to_be_none)
{
    struct image_policy *p = policy("*", NULL, NULL);
    struct err err = {0};

    CHECK_INT(image_policy_check(p, "UPPER/x", &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    image_policy_free(p);
}

TEST(short_names_mean_presets_then_own_ones_then_references)
{
    struct image_policy *p = policy("*", " tools=ghcr.io/team/tools:1 , alias=other:1", NULL);
    auto_free char *python = image_policy_reference(p, "python"),
                   *tools = image_policy_reference(p, "tools"),
                   *plain = image_policy_reference(p, "python:3.9");
    json_t *catalog = image_policy_catalog(p), *last;

    CHECK_STR(python, "docker.io/library/python:3.12-slim");
    CHECK_STR(tools, "ghcr.io/team/tools:1");
    CHECK_STR(plain, "python:3.9");
    CHECK_STR(str(json_array_get(catalog, 0), "name"), "python");
    CHECK_STR(str(json_array_get(catalog, 1), "name"), "node");
    CHECK_STR(str(json_array_get(catalog, 1), "kind"), "preset");
    last = json_array_get(catalog, json_array_size(catalog) - 1);
    CHECK_STR(str(last, "name"), "tools");
    CHECK_STR(str(last, "kind"), "custom");
    CHECK_STR(str(json_array_get(catalog, json_array_size(catalog) - 2), "name"), "alias");
    json_decref(catalog);
    image_policy_free(p);
}

TEST(a_configuration_that_makes_no_sense_names_its_variable)
{
    static const struct {
        const char *custom, *caps, *says;
    } bad[] = {
        {"python=x:1", NULL, "CAY_CUSTOM_IMAGES: python"},
        {"node=x:1", NULL, "CAY_CUSTOM_IMAGES: node"},
        {"=x:1", NULL, "CAY_CUSTOM_IMAGES"},
        {"a", NULL, "CAY_CUSTOM_IMAGES"},
        {"a\033b=x", NULL, "CAY_CUSTOM_IMAGES"},
        {"a\302\233b=x", NULL, "CAY_CUSTOM_IMAGES"},
        {"a\377b=x", NULL, "CAY_CUSTOM_IMAGES"},
        {"{\"a\": 5}", NULL, "CAY_CUSTOM_IMAGES: a"},
        {"{\"\": \"x\"}", NULL, "CAY_CUSTOM_IMAGES"},
        {"{\"a\": \"x\"", NULL, "CAY_CUSTOM_IMAGES begins with {"},
        {"{\"a\": \"x\", \"a\": \"y\"}", NULL, "CAY_CUSTOM_IMAGES begins with {"},
        {"{\"python\": \"x\"}", NULL, "CAY_CUSTOM_IMAGES: python"},
        {"a=UPPER", NULL, "CAY_CUSTOM_IMAGES: a"},
        {"a=", NULL, "CAY_CUSTOM_IMAGES: a"},
        {"a=x:1,a=y:1", NULL, "given twice"},
        {NULL, "python", "CAY_IMAGE_CAPS"},
        {NULL, ":cpu=1", "CAY_IMAGE_CAPS"},
        {NULL, "python:cpu=x", "CAY_IMAGE_CAPS"},
        {NULL, "python:cpu=0.1", "CAY_IMAGE_CAPS"},
        {NULL, "python:cpu=nan", "CAY_IMAGE_CAPS"},
        {NULL, "python:memory=1", "CAY_IMAGE_CAPS"},
        {NULL, "python:disk=1", "CAY_IMAGE_CAPS"},
        {NULL, "{\"a\": 5}", "CAY_IMAGE_CAPS: \"a\""},
        {NULL, "{\"a\": {\"cpu\": 0.1}}", "CAY_IMAGE_CAPS: \"cpu=0.1"},
        {NULL, "{\"a\": {\"cpu\": \"1\"}}", "CAY_IMAGE_CAPS: \"cpu=\""},
        {NULL, "{\"a\": {\"disk\": 1}}", "CAY_IMAGE_CAPS: \"disk=1\""},
        {NULL, "{", "CAY_IMAGE_CAPS begins with {"},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct image_policy_config config = {
            .allowed = "*", .custom = bad[i].custom, .caps = bad[i].caps};
        struct err err = {0};
        struct image_policy *p;

        CHECK_INT(image_policy_new(&config, &p, &err), -1);
        CHECK_INT(err.kind, ERR_INVALID);
        if (!strstr(err.text, bad[i].says))
            TAP_FAIL("%s", err.text);
    }
}

TEST(a_custom_name_may_be_nearly_anything)
{
    static const char *const names[] = {"My_Image:v1",
                                        "registry.example/x",
                                        "a=b,c;d",
                                        "two words",
                                        "gr\303\266\303\237e",
                                        "../$x",
                                        "*",
                                        "go",
                                        "host"};
    json_t *custom = json_object(), *allowed = json_array();
    auto_free char *custom_text = NULL, *allowed_text = NULL;
    struct image_policy_config config = {.strict = true, .caps = "{\"*\": {\"memory\": 64}}"};
    struct sandbox_limits limits = {.memory_mb = 512, .cpu_millis = 1000};
    struct image_policy *p;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)json_object_set_new(custom, names[i], json_string("tools:1"));
        (void)json_array_append_new(allowed, json_string(names[i]));
    }
    config.custom = custom_text = json_dumps(custom, 0);
    config.allowed = allowed_text = json_dumps(allowed, 0);
    json_decref(custom);
    json_decref(allowed);
    CHECK_INT(image_policy_new(&config, &p, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_free char *means = image_policy_reference(p, names[i]);

        CHECK_STR(means, "tools:1");
        CHECK_INT(image_policy_check(p, names[i], NULL), 0);
    }
    /* No name of a list of JSON is a pattern. */
    CHECK_INT(image_policy_check(p, "python", NULL), -1);
    CHECK_INT(image_policy_limit(p, "go", false, false, &limits, NULL), 0);
    CHECK_INT(limits.memory_mb, 512);
    CHECK_INT(image_policy_limit(p, "*", false, false, &limits, NULL), 0);
    CHECK_INT(limits.memory_mb, 64);
    image_policy_free(p);
}

TEST(a_custom_name_hides_a_preset_but_python_and_node)
{
    struct image_policy *p = policy("*", "go=mine:1,registry.example/x=other:1", NULL);
    auto_free char *go = image_policy_reference(p, "go"),
                   *x = image_policy_reference(p, "registry.example/x");
    json_t *catalog = image_policy_catalog(p), *item;
    unsigned found = 0;
    size_t i;

    CHECK_STR(go, "mine:1");
    CHECK_STR(x, "other:1");
    json_array_foreach(catalog, i, item)
    {
        found += strcmp(str(item, "name"), "go") == 0;
    }
    CHECK_INT(found, 1);
    json_decref(catalog);
    image_policy_free(p);
}

/* Without the strict rule an image can be asked for in many ways. */
TEST(a_list_of_names_is_about_images_however_they_are_written)
{
    struct image_policy *p =
        policy("[\"python\", \"ghcr.io/a/b:1\"]", NULL, "{\"python\": {\"memory\": 64}}");
    struct sandbox_limits limits = {.memory_mb = 512, .cpu_millis = 1000};

    CHECK_INT(image_policy_check(p, "python", NULL), 0);
    CHECK_INT(image_policy_check(p, "docker.io/library/python:3.12-slim", NULL), 0);
    CHECK_INT(image_policy_check(p, "ghcr.io/a/b:1", NULL), 0);
    CHECK_INT(image_policy_check(p, "ghcr.io/a/b:2", NULL), -1);
    CHECK_INT(image_policy_check(p, "python:3.11", NULL), -1);
    CHECK_INT(image_policy_limit(p, "python:3.12-slim", false, false, &limits, NULL), 0);
    CHECK_INT(limits.memory_mb, 64);
    image_policy_free(p);
    p = policy("[ab]*", NULL, NULL); /* a pattern */
    CHECK_INT(image_policy_check(p, "alpine:3", NULL), 0);
    CHECK_INT(image_policy_check(p, "debian:3", NULL), -1);
    image_policy_free(p);
}

TEST(the_strict_rule_takes_listed_short_names_only)
{
    struct image_policy_config config = {
        .allowed = "python, tools", .custom = "tools=a/b:1,other=c:1", .strict = true};
    struct image_policy *p;

    CHECK_INT(image_policy_new(&config, &p, NULL), 0);
    CHECK_INT(image_policy_check(p, "python", NULL), 0);
    CHECK_INT(image_policy_check(p, "tools", NULL), 0);
    CHECK_INT(image_policy_check(p, "node", NULL), -1);
    CHECK_INT(image_policy_check(p, "other", NULL), -1);
    CHECK_INT(image_policy_check(p, "a/b:1", NULL), -1);
    CHECK_INT(image_policy_check(p, "python:3.12-slim", NULL), -1);
    CHECK_INT(image_policy_check(p, "host", NULL), -1);
    image_policy_free(p);
    config.allowed = "";
    CHECK_INT(image_policy_new(&config, &p, NULL), 0);
    CHECK_INT(image_policy_check(p, "python", NULL), -1);
    image_policy_free(p);
}

TEST(caps_lower_defaults_and_refuse_wishes)
{
    struct image_policy *p = policy("*", NULL, "python:cpu=0.5,memory=128; ghcr.io/**:memory=256");
    struct sandbox_limits limits = {.memory_mb = 512, .cpu_millis = 1000};
    struct err err = {0};

    CHECK_INT(image_policy_limit(p, "python", false, false, &limits, NULL), 0);
    CHECK_INT(limits.memory_mb, 128);
    CHECK_INT(limits.cpu_millis, 500);
    limits = (struct sandbox_limits){.memory_mb = 129, .cpu_millis = 500};
    CHECK_INT(image_policy_limit(p, "python", true, true, &limits, &err), -1);
    CHECK_INT(err.kind, ERR_FORBIDDEN);
    CHECK_STR(err.code, "image_cap_exceeded");
    CHECK_STR(err.text, "memory of python may be at most 128 MB (CAY_IMAGE_CAPS): ask for less");
    limits = (struct sandbox_limits){.memory_mb = 300, .cpu_millis = 4000};
    CHECK_INT(image_policy_limit(p, "ghcr.io/a/b:1", true, true, &limits, NULL), -1);
    CHECK_INT(image_policy_limit(p, "node", true, true, &limits, NULL), 0);
    CHECK_INT(limits.cpu_millis, 4000);
    image_policy_free(p);
}

TEST(nothing_fits_into_a_cap_of_nothing)
{
    struct image_policy *p = policy("*", NULL, "python:cpu=0,memory=128;node:memory=0");
    struct sandbox_limits limits = {.memory_mb = 64, .cpu_millis = 500};
    struct err err = {0};

    CHECK_INT(image_policy_limit(p, "python", false, false, &limits, &err), -1);
    CHECK_STR(err.code, "image_cap_exceeded");
    CHECK_STR(err.text, "python may have no cpu at all (CAY_IMAGE_CAPS)");
    CHECK_INT(image_policy_limit(p, "node", false, false, &limits, &err), -1);
    CHECK_STR(err.text, "node may have no memory at all (CAY_IMAGE_CAPS)");
    CHECK_INT(image_policy_limit(p, "ruby", false, false, &limits, &err), 0);
    CHECK_INT(limits.memory_mb, 64);
    image_policy_free(p);
}

TEST(names_with_a_meaning_are_not_given_away)
{
    static const struct {
        const char *name;
        bool targets, ok;
    } cases[] = {
        {"app:1", true, true},
        {"python", false, false},
        {"python:latest", false, false},
        {"docker.io/library/python", false, false},
        {"host", false, false},
        {"docker.io/library/host:latest", false, false},
        {"tools", false, false},
        {"python:3.12-slim", false, true},
        {"python:3.12-slim", true, false},
        {"docker.io/library/python:3.12-slim", true, false},
        {"ghcr.io/team/tools:1", true, false},
        {"python:3.11", true, true},
    };
    struct image_policy *p = policy("*", "tools=ghcr.io/team/tools:1", NULL);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err err = {0};
        bool ok = image_policy_check_new_name(p, cases[i].name, cases[i].targets, &err) == 0;

        if (ok != cases[i].ok)
            TAP_FAIL("%s is %s", cases[i].name, ok ? "given away" : "kept");
        if (!ok)
            CHECK_STR(err.code, "image_reserved");
    }
    image_policy_free(p);
}

/* ---- a caller in a thread of its own ---- */

struct caller {
    struct world *w;
    struct pull_request pull;
    const char *create; /* instead of a pull */
    struct engine_watch watch;
    pthread_t thread;
    pthread_mutex_t lock;
    json_t *events;
    bool leave; /* at the next event */
    int r;
    struct err err;
};

static int on_event(const json_t *event, void *arg)
{
    struct caller *c = arg;
    int r;

    pthread_mutex_lock(&c->lock);
    if (event)
        (void)json_array_append_new(c->events, json_deep_copy(event));
    r = c->leave ? -1 : 0;
    pthread_mutex_unlock(&c->lock);
    return r;
}

static void *call_main(void *arg)
{
    struct caller *c = arg;
    json_t *out = NULL;

    if (c->create)
        c->r = create_from(c->w->engine, c->create, &c->watch, &out, &c->err);
    else
        c->r = engine_image_pull(c->w->engine, &c->pull, &c->watch, &out, &c->err);
    json_decref(out);
    return NULL;
}

static void caller_start(struct caller *c, struct world *w, const char *reference)
{
    *c = (struct caller){.w = w, .pull.reference = reference, .events = json_array()};
    c->watch = (struct engine_watch){.progress = on_event, .arg = c, .cancel_fd = -1};
    pthread_mutex_init(&c->lock, NULL);
}

static void caller_go(struct caller *c)
{
    CHECK_INT(pthread_create(&c->thread, NULL, call_main, c), 0);
}

static size_t events_of(struct caller *c)
{
    size_t n;

    pthread_mutex_lock(&c->lock);
    n = json_array_size(c->events);
    pthread_mutex_unlock(&c->lock);
    return n;
}

/* Of a pull that is held: resolving, resolved, two layers. */
static void await_told(struct caller *c)
{
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1))
        if (events_of(c) >= 4)
            return;
    TAP_FAIL("nothing is told");
}

static void await_count(const unsigned *counter, unsigned want)
{
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 1))
        if (fake_images_count(counter) == want)
            return;
    CHECK_INT(fake_images_count(counter), want);
}

static void caller_end(struct caller *c)
{
    CHECK_INT(pthread_join(c->thread, NULL), 0);
    json_decref(c->events);
}

static void pulls_up(struct world *w)
{
    world_new(w);
    world_close(w, false);
    w->config.allowed_images = "*";
    world_open(w);
    world_start(w);
}

/* ---- pulls ---- */

TEST(callers_of_one_image_share_one_pull)
{
    struct caller callers[8];
    struct world w;

    pulls_up(&w);
    fake_images_hold(true);
    for (size_t i = 0; i < ARRAY_LEN(callers); i++) {
        /* Called differently, it is still the same. */
        caller_start(&callers[i], &w, i % 2 ? "far:1" : "docker.io/library/far:1");
        caller_go(&callers[i]);
        await_told(&callers[i]); /* who comes late is told the state of things, too */
    }
    CHECK_INT(fake_images_count(&fake_images.pulls), 1);
    fake_images_hold(false);
    for (size_t i = 0; i < ARRAY_LEN(callers); i++) {
        const json_t *events = callers[i].events;

        CHECK_INT(pthread_join(callers[i].thread, NULL), 0);
        CHECK_INT(callers[i].r, 0);
        CHECK_STR(str(json_array_get(events, 0), "event"), "resolving");
        CHECK_STR(str(json_array_get(events, json_array_size(events) - 1), "event"), "storing");
        json_decref(callers[i].events);
    }
    CHECK_INT(fake_images_count(&fake_images.pulls), 1);
    CHECK_STR(fake_images.last_pull, "docker.io/library/far:1  ");
    world_done(&w);
}

TEST(who_comes_late_hears_of_each_layer_once)
{
    struct caller first, late;
    struct world w;

    pulls_up(&w);
    fake_images_hold(true);
    caller_start(&first, &w, "far:1");
    caller_go(&first);
    await_told(&first);
    caller_start(&late, &w, "far:1");
    caller_go(&late);
    await_told(&late);
    pthread_mutex_lock(&late.lock);
    CHECK_INT(json_array_size(late.events), 4);
    CHECK_INT(num(json_array_get(late.events, 2), "downloaded"), 2);
    CHECK_INT(num(json_array_get(late.events, 3), "downloaded"), 3);
    pthread_mutex_unlock(&late.lock);
    fake_images_hold(false);
    caller_end(&first);
    caller_end(&late);
    world_done(&w);
}

TEST(credentials_are_not_shared)
{
    struct caller plain, one, two;
    struct world w;

    pulls_up(&w);
    fake_images_hold(true);
    caller_start(&plain, &w, "far:1");
    caller_start(&one, &w, "far:1");
    caller_start(&two, &w, "far:1");
    one.pull.username = two.pull.username = "me";
    one.pull.password = two.pull.password = "secret";
    caller_go(&plain);
    caller_go(&one);
    caller_go(&two);
    await_count(&fake_images.pulls, 3);
    fake_images_hold(false);
    caller_end(&plain);
    caller_end(&one);
    caller_end(&two);
    CHECK_INT(plain.r | one.r | two.r, 0);
    world_done(&w);
}

TEST(there_is_an_end_to_pulls_at_a_time)
{
    struct pull_request pull = {.reference = "far:more", .policy = PULL_ALWAYS};
    struct caller callers[16];
    struct err err = {0};
    json_t *image;
    struct world w;

    pulls_up(&w);
    fake_images_hold(true);
    for (size_t i = 0; i < ARRAY_LEN(callers); i++) {
        caller_start(&callers[i], &w, "far:1");
        callers[i].pull.username = callers[i].pull.password = "x";
        caller_go(&callers[i]);
    }
    await_count(&fake_images.pulls, ARRAY_LEN(callers));
    CHECK_INT(engine_image_pull(w.engine, &pull, NULL, &image, &err), -1);
    CHECK_INT(err.kind, ERR_LIMIT);
    CHECK_STR(err.code, "pull_limit");
    fake_images_hold(false);
    for (size_t i = 0; i < ARRAY_LEN(callers); i++)
        caller_end(&callers[i]);
    world_done(&w);
}

TEST(a_pull_ends_with_the_last_who_waits_for_it)
{
    struct caller first, second;
    struct world w;

    pulls_up(&w);
    fake_images_hold(true);
    caller_start(&first, &w, "far:1");
    caller_start(&second, &w, "far:1");
    first.leave = true;
    caller_go(&second);
    await_told(&second);
    caller_go(&first);
    caller_end(&first);
    CHECK_INT(first.r, -1);
    CHECK_STR(first.err.code, "cancelled");
    CHECK_INT(fake_images_count(&fake_images.cancelled), 0);
    fake_images_hold(false);
    caller_end(&second);
    CHECK_INT(second.r, 0);

    fake_images_hold(true);
    caller_start(&first, &w, "far:2");
    first.leave = true;
    caller_go(&first);
    caller_end(&first);
    await_count(&fake_images.cancelled, 1);
    world_done(&w);
}

static bool yes(void *arg)
{
    (void)arg;
    return true;
}

TEST(a_caller_whose_connection_closes_has_left)
{
    struct caller c;
    struct world w;
    int pair[2];

    pulls_up(&w);
    fake_images_hold(true);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    caller_start(&c, &w, "far:1");
    c.watch.cancel_fd = pair[0];
    c.watch.cancelled = yes;
    caller_go(&c);
    await_told(&c);
    CHECK_INT(close(pair[1]), 0);
    caller_end(&c);
    CHECK_STR(c.err.code, "cancelled");
    await_count(&fake_images.cancelled, 1);
    CHECK_INT(close(pair[0]), 0);
    world_done(&w);
}

TEST(a_failure_is_told_to_all_and_the_next_try_is_a_new_one)
{
    struct caller a, b;
    struct world w;

    pulls_up(&w);
    fake_images_hold(true);
    fake_images.failure = ERR_UNAVAILABLE;
    caller_start(&a, &w, "far:1");
    caller_start(&b, &w, "far:1");
    b.create = "{\"image\":\"far:1\"}";
    caller_go(&a);
    await_told(&a);
    caller_go(&b);
    await_told(&b);
    fake_images_hold(false);
    caller_end(&a);
    caller_end(&b);
    CHECK_STR(a.err.code, "image_pull_failed");
    CHECK_STR(b.err.code, "image_pull_failed");
    CHECK_INT(b.err.kind, ERR_UNAVAILABLE);
    CHECK_INT(fake_images.pulls, 1);
    fake_images.failure = ERR_NONE;
    free(create(&w, "{\"image\":\"far:1\"}"));
    CHECK_INT(fake_images.pulls, 2);
    world_done(&w);
}

TEST(a_create_that_waits_has_a_place_but_no_box)
{
    struct caller c;
    struct world w;
    struct err err = {0};
    json_t *s;

    world_new(&w);
    world_close(&w, false);
    w.config.allowed_images = "*";
    w.config.max_sandboxes = 1;
    w.config.prepared = 0;
    world_open(&w);
    world_start(&w);
    fake_images_hold(true);
    caller_start(&c, &w, NULL);
    c.create = "{\"image\":\"far:1\"}";
    caller_go(&c);
    await_told(&c);
    CHECK_INT(fake_count(), 0);
    CHECK_INT(try_create(&w, "{\"image\":\"host\"}", &s, &err), -1);
    CHECK_STR(err.code, "sandbox_limit");
    fake_images_hold(false);
    caller_end(&c);
    CHECK_INT(c.r, 0);
    CHECK_INT(fake_count(), 1);
    world_done(&w);
}

TEST(a_daemon_that_stops_ends_pulls_and_says_so)
{
    struct pull_request late = {.reference = "far:2", .policy = PULL_ALWAYS};
    struct caller c;
    struct world w;

    pulls_up(&w);
    fake_images_hold(true);
    caller_start(&c, &w, "far:1");
    caller_go(&c);
    await_told(&c);
    engine_drain(w.engine);
    caller_end(&c);
    CHECK_INT(c.err.kind, ERR_UNAVAILABLE);
    CHECK(strstr(c.err.text, "stopping"));
    CHECK_INT(engine_image_pull(w.engine, &late, NULL, NULL, &c.err), -1);
    world_done(&w);
}

TEST(policies_decide_when_a_create_pulls)
{
    static const struct {
        bool auto_install;
        const char *in;
        unsigned pulls;
        const char *code; /* NULL = it works */
    } cases[] = {
        {true, "{\"image\":\"far:1\"}", 1, NULL},
        {true, "{\"image\":\"here:1\"}", 0, NULL},
        {true, "{\"image\":\"here:1\",\"pull\":\"missing\"}", 0, NULL},
        {true, "{\"image\":\"here:1\",\"pull\":\"always\"}", 1, NULL},
        {true, "{\"image\":\"here:1\",\"platform\":\"linux/arm64\"}", 1, NULL},
        {true, "{\"image\":\"here:1\",\"platform\":\"linux/amd64/v1\"}", 0, NULL},
        {true, "{\"image\":\"here:1\",\"platform\":\"linux/x86_64\"}", 0, NULL},
        {true, "{\"image\":\"host\",\"pull\":\"always\"}", 0, NULL},
        {true, "{\"image\":\"docker.io/library/host\",\"pull\":\"always\"}", 0, NULL},
        {true, "{\"image\":\"far:1\",\"pull\":\"never\"}", 0, "image_not_found"},
        {false, "{\"image\":\"far:1\"}", 0, "image_not_installed"},
        {false, "{\"image\":\"far:1\",\"pull\":\"missing\"}", 0, "image_not_installed"},
        {false, "{\"image\":\"here:1\",\"pull\":\"always\"}", 0, "image_not_installed"},
        {false, "{\"image\":\"here:1\"}", 0, NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err err = {0};
        struct world w;
        json_t *s = NULL;
        int r;

        world_new(&w);
        world_close(&w, false);
        w.config.allowed_images = "*";
        w.config.auto_install = cases[i].auto_install;
        world_open(&w);
        world_start(&w);
        r = try_create(&w, cases[i].in, &s, &err);
        if ((r == 0) != !cases[i].code)
            TAP_FAIL("%s: %s", cases[i].in, err.text);
        if (cases[i].code)
            CHECK_STR(err.code ? err.code : "", cases[i].code);
        CHECK_INT(fake_images.pulls, cases[i].pulls);
        json_decref(s);
        world_done(&w);
    }
}

TEST(an_image_that_is_removed_between_its_pull_and_its_use_is_pulled_again)
{
    struct err err = {0};
    struct world w;
    json_t *s = NULL;

    pulls_up(&w);
    fake_images.vanish = 2;
    if (try_create(&w, "{\"image\":\"far:1\"}", &s, &err) < 0)
        TAP_FAIL("%s", err.text);
    json_decref(s);
    CHECK_INT(fake_images.pulls, 3);
    fake_images.vanish = 100; /* someone insists */
    CHECK_INT(try_create(&w, "{\"image\":\"far:2\"}", &s, &err), -1);
    CHECK_STR(err.code, "image_not_found");
    CHECK_INT(fake_images.pulls, 6);
    world_done(&w);
}

TEST(an_image_that_a_create_has_taken_is_not_removed)
{
    struct image *image;
    struct err err = {0};
    struct world w;

    pulls_up(&w);
    CHECK_INT(images_take(w.engine, "here:1", &image, &err), 0); /* no sandbox is listed yet */
    CHECK_INT(engine_image_remove(w.engine, "here:1", &err), -1);
    CHECK_STR(err.code, "image_in_use");
    CHECK(image_in_use(w.engine, image->id));
    images_release(w.engine, image->id);
    images_drop(w.engine, image->id, "here:1");
    CHECK(!image_in_use(w.engine, image->id));
    CHECK_INT(engine_image_remove(w.engine, "here:1", &err), 0);
    image_free(image);
    world_done(&w);
}

TEST(a_create_sends_its_own_credentials_and_keeps_none_of_them)
{
    struct world w;
    json_t *s;
    char *text;

    pulls_up(&w);
    CHECK_INT(try_create(&w,
                         "{\"image\":\"far:1\",\"registry_auth\":"
                         "{\"username\":\"me\",\"password\":\"secret\"}}",
                         &s, NULL),
              0);
    CHECK_STR(fake_images.last_pull, "docker.io/library/far:1  me");
    text = json_dumps(s, 0);
    CHECK(!strstr(text, "secret"));
    free(text);
    json_decref(s);
    world_done(&w);
}

TEST(pulls_are_for_allowed_images_and_free_names)
{
    static const struct {
        const char *reference, *name, *code;
    } bad[] = {
        {"node:1", NULL, "image_not_allowed"},
        {"UPPER", NULL, "bad_image_name"},
        {"host", NULL, "bad_image_name"},
        {"py:1", "python", "image_reserved"},
        {"py:1", "python:3.12-slim", "image_reserved"},
        {"py:1", "host", "image_reserved"},
    };
    struct world w;

    world_up(&w);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct pull_request pull = {
            .reference = bad[i].reference, .name = bad[i].name, .policy = PULL_ALWAYS};
        struct err err = {0};
        json_t *image;

        CHECK_INT(engine_image_pull(w.engine, &pull, NULL, &image, &err), -1);
        CHECK_STR(err.code, bad[i].code);
    }
    CHECK_INT(fake_images.pulls, 0);
    world_done(&w);
}

TEST(a_pull_beyond_the_budget_makes_room_but_keeps_what_is_used)
{
    struct pull_request pull = {.reference = "far:1", .policy = PULL_ALWAYS};
    json_t *image;
    struct world w;

    world_new(&w);
    world_close(&w, false);
    w.config.allowed_images = "*";
    w.config.image_budget = 7 << 20;
    world_open(&w);
    world_start(&w);
    free(create(&w, "{\"image\":\"host\"}"));
    CHECK_INT(engine_image_pull(w.engine, &pull, NULL, &image, NULL), 0);
    json_decref(image);
    world_close(&w, true); /* waits for what follows a pull */
    CHECK_INT(fake_images.keep_bytes, 7 << 20);
    CHECK(fake_has(fake_images.pruned_but, "host"));
    CHECK(fake_has(fake_images.pruned_but, FAKE_ID));
    world_done(&w);
}

TEST(an_id_is_no_way_around_the_list)
{
    struct err err = {0};
    struct world w;
    json_t *s;

    world_new(&w);
    world_close(&w, false);
    w.config.allowed_images = "sha256:*,other";
    world_open(&w);
    world_start(&w);
    /* "py:named" is what it is the id of. */
    CHECK_INT(try_create(&w, "{\"image\":\"sha256:111111111111\"}", &s, &err), -1);
    CHECK_STR(err.code, "image_not_allowed");
    world_done(&w);
}

/* The image py:named is refused by its id too: py:named, which is allowed, is another image. */
static void check_id_refused(const char *allowed, const char *custom)
{
    struct err err = {0};
    struct world w;
    json_t *s;

    world_new(&w);
    world_close(&w, false);
    w.config.allowed_images = allowed;
    w.config.custom_images = custom;
    world_open(&w);
    world_start(&w);
    free(create(&w, "{\"image\":\"py:named\"}"));
    CHECK_INT(try_create(&w, "{\"image\":\"sha256:111111111111\"}", &s, &err), -1);
    CHECK_STR(err.code, "image_not_allowed");
    world_done(&w);
}

TEST(an_id_is_not_judged_by_a_custom_name_that_its_image_is_stored_under)
{
    check_id_refused("[\"py:named\"]", "{\"py:named\": \"other:1\"}");
    check_id_refused("[\"py:named\", \"docker.io/library/py:named\"]",
                     "{\"py:named\": \"other:1\", \"docker.io/library/py:named\": \"other:1\"}");
}

static void world_with_caps(struct world *w, const char *caps)
{
    world_new(w);
    world_close(w, false);
    w->config.allowed_images = "*";
    w->config.image_caps = caps;
    world_open(w);
    world_start(w);
}

static void check_memory_change(struct world *w, const char *id, double memory_mb, const char *want)
{
    struct sandbox_change change = {.memory_mb = {true, memory_mb}};
    struct err err = {0};
    json_t *s = NULL;
    int r = engine_modify(w->engine, id, &change, &s, &err);

    CHECK_STR(r == 0 ? "ok" : err.code, want);
    json_decref(s);
}

TEST(a_cap_holds_for_a_sandbox_that_was_made_by_id)
{
    auto_free char *id = NULL;
    struct world w;

    world_with_caps(&w, "{\"py:named\": {\"memory\": 128}}");
    id = create(&w, "{\"image\":\"sha256:111111111111\"}");
    check_memory_change(&w, id, 129, "image_cap_exceeded");
    check_memory_change(&w, id, 100, "ok");
    check_memory_change(&w, id, 128, "ok");
    fake_images.removed = true;
    check_memory_change(&w, id, 129, "image_cap_exceeded");
    check_memory_change(&w, id, 100, "ok");
    fake_images.removed = false;
    world_done(&w);
}

TEST(a_sandbox_of_an_image_that_lost_its_name_keeps_its_limits_but_gets_no_more)
{
    struct err err = {0};
    auto_free char *id = NULL;
    struct world w;
    json_t *s;

    world_with_caps(&w, "{\"another\": {\"memory\": 128}}");
    id = create(&w, "{\"image\":\"sha256:111111111111\", \"memory\": 512}");
    fake_images.removed = true;
    check_memory_change(&w, id, 513, "image_cap_exceeded");
    check_memory_change(&w, id, 512, "ok");
    check_memory_change(&w, id, 256, "ok");
    check_memory_change(&w, id, 512, "image_cap_exceeded");
    CHECK_INT(try_create(&w, "{\"image\":\"sha256:111111111111\", \"memory\": 512}", &s, &err), -1);
    CHECK_STR(err.code, "image_cap_exceeded");
    fake_images.removed = false;
    world_done(&w);
}

/* ---- what an image says ---- */

TEST(the_working_directory_is_the_callers_then_the_images_then_the_workspace)
{
    static const struct {
        const char *image, *in, *want;
    } cases[] = {
        {NULL, "{\"image\":\"py\"}", "/workspace"},
        {"/srv/app/", "{\"image\":\"py\"}", "/srv/app"},
        {"app", "{\"image\":\"py\"}", "/app"},
        {"/srv", "{\"image\":\"py\",\"workdir\":\"/tmp\"}", "/tmp"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct world w;
        json_t *s;

        world_up(&w);
        fake_images.workdir = cases[i].image;
        CHECK_INT(try_create(&w, cases[i].in, &s, NULL), 0);
        CHECK_STR(str(json_object_get(s, "config"), "workdir"), cases[i].want);
        json_decref(s);
        world_done(&w);
    }
}

TEST(the_images_own_command_runs_only_when_it_is_asked_for)
{
    char *const entrypoint[] = {"/bin/app", NULL}, *const cmd[] = {"serve", NULL};
    struct err err = {0};
    struct world w;
    json_t *s;

    world_up(&w);
    CHECK_INT(try_create(&w, "{\"image\":\"py\",\"runEntrypoint\":true}", &s, &err), -1);
    CHECK_STR(err.code, "no_default_command");
    CHECK_INT(err.kind, ERR_INVALID);
    CHECK_INT(try_create(&w, "{\"image\":\"py\",\"runEntrypoint\":true,\"entrypoint\":[\"x\"]}", &s,
                         &err),
              -1);
    fake_images.entrypoint = entrypoint;
    fake_images.cmd = cmd;
    CHECK_INT(try_create(&w, "{\"image\":\"py\"}", &s, NULL), 0);
    CHECK(!json_object_get(s, "entrypoint"));
    json_decref(s);
    CHECK_INT(try_create(&w, "{\"image\":\"py\",\"runEntrypoint\":true}", &s, NULL), 0);
    CHECK_INT(json_array_size(json_object_get(s, "entrypoint")), 2);
    CHECK_STR(json_string_value(json_array_get(json_object_get(s, "entrypoint"), 1)), "serve");
    CHECK(fake_look(str(s, "id"))->main_started);
    json_decref(s);
    world_done(&w);
}

TEST(stop_signals_are_read_in_every_spelling)
{
    CHECK_INT(stop_signal_parse(""), SIGTERM);
    CHECK_INT(stop_signal_parse(NULL), SIGTERM);
    CHECK_INT(stop_signal_parse("SIGQUIT"), SIGQUIT);
    CHECK_INT(stop_signal_parse("QUIT"), SIGQUIT);
    CHECK_INT(stop_signal_parse("3"), 3);
    CHECK_INT(stop_signal_parse("SIGRTMIN+3"), SIGRTMIN + 3);
    CHECK_INT(stop_signal_parse("SIGRTMAX-1"), SIGRTMAX - 1);
    CHECK_INT(stop_signal_parse("SIGNONE"), SIGTERM);
    CHECK_INT(stop_signal_parse("0"), SIGTERM);
    CHECK_INT(stop_signal_parse("99"), SIGTERM);
}

TEST(who_removes_a_sandbox_asks_its_main_process_first)
{
    auto_free char *id = NULL, *idle = NULL;
    struct world w;

    world_up(&w);
    fake_images.stop_signal = "SIGQUIT";
    id = create(&w, "{\"image\":\"py\",\"entrypoint\":[\"app\"]}");
    idle = create(&w, "{\"image\":\"py\"}");
    atomic_store(&fake.main_runs, true);
    CHECK_INT(engine_remove(w.engine, idle, NULL), 0);
    CHECK_INT(atomic_load(&fake.main_signal), 0);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    CHECK_INT(atomic_load(&fake.main_signal), SIGQUIT);
    CHECK(!atomic_load(&fake.main_runs));
    world_done(&w);
}

TEST(a_stop_signal_outlives_the_daemon)
{
    auto_free char *id = NULL;
    struct sandbox *sb;
    struct world w;

    world_up(&w);
    fake_images.stop_signal = "SIGQUIT";
    id = create(&w, "{\"image\":\"py\"}");
    world_close(&w, false);
    world_open(&w);
    world_start(&w);
    sb = roster_find(w.engine, id);
    CHECK_INT(sb->stop_signal, SIGQUIT);
    sandbox_unref(sb);
    world_done(&w);
}

/* What is left to the agent, and what is made before: "agent", or the paths. */
static const char *planned(struct world *w, char *const *layers, char *const *binds,
                           const char *workdir, const char *user)
{
    static char text[256];
    struct box_root root = {.layers = layers, .binds = binds};
    struct sandbox sb = {.image_user = (char *)(uintptr_t)user,
                         .spec.workdir = (char *)(uintptr_t)workdir};

    if (!dirs_plan(w->engine, &sb, &root))
        return "agent";
    text[0] = '\0';
    for (unsigned i = 0; i < root.n_dirs; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s:%o ",
                       root.dirs[i].path, root.dirs[i].mode);
    return text;
}

TEST(directories_are_made_ahead_only_where_no_layer_has_a_say)
{
    auto_dir char *dir = dir_new();
    auto_free char *top = xasprintf("%s/top", dir), *below = xasprintf("%s/below", dir),
                   *app = xasprintf("%s/below/app", dir),
                   *inner = xasprintf("%s/below/app/in", dir),
                   *link = xasprintf("%s/below/link", dir), *hides = xasprintf("%s/top/gone", dir),
                   *hidden = xasprintf("%s/below/gone", dir);
    char *const layers[] = {top, below, NULL}, *const binds[] = {"/usr", NULL};
    struct world w;

    world_up(&w);
    CHECK_INT(mkdir(top, 0755) | mkdir(below, 0755) | mkdir(app, 0755) | mkdir(inner, 0755), 0);
    CHECK_INT(mkdir(hidden, 0755) | symlink("/app", link), 0);
    close_fd(&(int){open(hides, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)});
    CHECK_STR(planned(&w, layers, NULL, "/workspace", ""), "/workspace:755 ");
    CHECK_STR(planned(&w, layers, NULL, "/workspace", "root:root"), "/workspace:755 ");
    CHECK_STR(planned(&w, layers, NULL, "/workspace", "app"), "/workspace:1777 ");
    CHECK_STR(planned(&w, layers, NULL, "/app/in", ""), "/workspace:755 ");
    CHECK_STR(planned(&w, layers, NULL, "/new/deep", ""), "/workspace:755 /new/deep:755 ");
    CHECK_STR(planned(&w, layers, NULL, "/", ""), "/workspace:755 ");
    CHECK_STR(planned(&w, layers, NULL, "/app/missing", ""), "agent");
    CHECK_STR(planned(&w, layers, NULL, "/link", ""), "agent");
    CHECK_STR(planned(&w, layers, NULL, "/link/in", ""), "agent");
    CHECK_STR(planned(&w, layers, NULL, "/gone", ""), "agent");
    CHECK_STR(planned(&w, layers, NULL, "/tmp/x", ""), "agent");
    CHECK_STR(planned(&w, layers, binds, "/usr/x", ""), "agent");
    world_done(&w);
}

/* ---- commit ---- */

static const char *committing;

static void look_at_commit(void)
{
    CHECK(fake_look(committing)->paused);
}

static int commit(struct world *w, const char *id, const char *text, struct err *err)
{
    json_t *in = json_loads(text, 0, NULL), *image = NULL;
    struct commit_request req = {
        .name = request_text(in, "name"),
        .env = json_object_get(in, "env"),
        .workdir = request_text(in, "workdir"),
        .user = request_text(in, "user"),
    };
    int r = engine_commit(w->engine, id, &req, &image, err);

    json_decref(image);
    json_decref(in);
    return r;
}

TEST(a_sandbox_stands_still_while_it_becomes_an_image)
{
    auto_free char *id = NULL, *want = NULL;
    struct sandbox *sb;
    struct world w;
    json_t *s;

    world_up(&w);
    id = create(&w, "{\"image\":\"py\"}");
    committing = id;
    fake_images.on_commit = look_at_commit;
    CHECK_INT(commit(&w, id,
                     "{\"name\":\"made:1\",\"env\":{\"LANG\":\"de\",\"A\":\"b\"},\"user\":\"me\"}",
                     NULL),
              0);
    sb = roster_find(w.engine, id);
    want = xasprintf("sha256:1 made:1 %u {\"env\":[\"PATH=/usr/bin:/bin\",\"LANG=de\",\"A=b\"],"
                     "\"user\":\"me\"}",
                     sb->box.slot * 65536);
    sandbox_unref(sb);
    CHECK_STR(fake_images.committed, want);
    check_status(&w, id, "running");
    CHECK(!fake_look(id)->paused);

    CHECK_INT(engine_pause(w.engine, id, &s, NULL), 0);
    json_decref(s);
    CHECK_INT(commit(&w, id, "{\"name\":\"made:1\"}", NULL), 0);
    check_status(&w, id, "paused");
    world_done(&w);
}

TEST(an_image_without_a_name_is_held_and_sandboxes_are_made_of_it_whatever_is_allowed)
{
    auto_free char *id = NULL, *clone = NULL;
    struct world w;

    world_up(&w);
    id = create(&w, "{\"image\":\"py\"}");
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    free(steal_ptr(id));
    CHECK(!image_in_use(w.engine, FAKE_ID));
    engine_image_hold(w.engine, FAKE_ID);
    CHECK(image_in_use(w.engine, FAKE_ID));
    clone = create(&w, "{\"image\":\"what/is:shown\",\"imageId\":\"" FAKE_ID "\"}");
    CHECK_INT(engine_remove(w.engine, clone, NULL), 0);
    CHECK(image_in_use(w.engine, FAKE_ID));
    engine_image_let_go(w.engine, FAKE_ID);
    CHECK(!image_in_use(w.engine, FAKE_ID));
    world_done(&w);
}

TEST(a_commit_without_a_name_leaves_its_image_held)
{
    auto_free char *id = NULL;
    struct world w;

    world_up(&w);
    id = create(&w, "{\"image\":\"host\"}");
    CHECK(!image_in_use(w.engine, FAKE_ID));
    CHECK_INT(commit(&w, id, "{}", NULL), 0);
    CHECK(image_in_use(w.engine, FAKE_ID));
    engine_image_let_go(w.engine, FAKE_ID);
    CHECK(!image_in_use(w.engine, FAKE_ID));
    world_done(&w);
}

TEST(a_sandbox_that_stood_still_when_the_daemon_died_goes_on)
{
    auto_free char *id = NULL, *paused = NULL;
    struct world w;
    json_t *s;

    world_up(&w);
    id = create(&w, "{\"image\":\"py\"}");
    paused = create(&w, "{\"image\":\"py\"}");
    CHECK_INT(engine_pause(w.engine, paused, &s, NULL), 0);
    json_decref(s);
    world_close(&w, false);
    fake_look(id)->paused = true;
    world_open(&w);
    world_start(&w);
    CHECK(!fake_look(id)->paused);
    CHECK(fake_look(paused)->paused);
    world_done(&w);
}

TEST(commits_that_cannot_be_are_refused)
{
    auto_free char *id = NULL;
    struct err err = {0};
    struct world w;

    world_up(&w);
    id = create(&w, "{\"image\":\"py\"}");
    CHECK_INT(commit(&w, "sbx_none", "{\"name\":\"made:1\"}", &err), -1);
    CHECK_STR(err.code, "sandbox_not_found");
    CHECK_INT(commit(&w, id, "{\"name\":\"python:3.12-slim\"}", &err), -1);
    CHECK_STR(err.code, "image_reserved");
    CHECK_INT(commit(&w, id, "{\"name\":\"UPPER\"}", &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    CHECK_INT(commit(&w, id, "{\"name\":\"made:1\",\"env\":{\"1\":\"\"}}", &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    CHECK_INT(commit(&w, id, "{\"name\":\"made:1\",\"workdir\":\"x\"}", &err), -1);
    CHECK(fake_images.committed == NULL);
    atomic_store(&fake.fail_pause, true);
    CHECK_INT(commit(&w, id, "{\"name\":\"made:1\"}", &err), -1);
    atomic_store(&fake.fail_pause, false);
    check_status(&w, id, "running");
    world_done(&w);
}

/* ---- export, names ---- */

TEST(an_export_comes_through_a_pipe_and_says_how_it_ended)
{
    struct image_export x;
    struct err err = {0};
    char text[64] = "";
    struct world w;

    world_up(&w);
    CHECK_INT(engine_export_open(w.engine, "python", &x, NULL), 0);
    CHECK(read_some(x.fd, text, sizeof(text) - 1) > 0);
    CHECK_STR(text, "archive of docker.io/library/python:3.12-slim");
    CHECK_INT(read_some(x.fd, text, sizeof(text)), 0);
    CHECK_INT(engine_export_close(&x, NULL), 0);
    CHECK_INT(engine_export_open(w.engine, "host", &x, NULL), 0);
    CHECK_INT(read_some(x.fd, text, sizeof(text)), 0);
    CHECK_INT(engine_export_close(&x, &err), -1);
    CHECK_INT(err.kind, ERR_UNSUPPORTED);
    world_done(&w);
}

TEST(an_image_whose_name_has_another_meaning_is_shown_with_its_tag)
{
    json_t *list, *image;
    struct world w;
    size_t i;

    world_up(&w);
    CHECK_INT(engine_image_list(w.engine, &list, NULL), 0);
    CHECK_INT(json_array_size(json_object_get(list, "images")), 2);
    json_array_foreach(json_object_get(list, "images"), i, image)
    {
        CHECK_STR(request_text(image, "name"), i == 0 ? "host" : "python:latest");
    }
    json_decref(list);
    world_done(&w);
}

TAP_MAIN
