/* Volumes whose disk is slow: what one of them waits for delays no other. */

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/volumes.h"
#include "engine/volumes_internal.h"
#include "engine_world.h"
#include "fake_volumes.h"

#define LIMIT_S 60 /* for a test that hangs */

/* ---- a runtime that waits at a gate ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Calls wait while it is shut. */
struct gate {
    char id[ID_SIZE]; /* of the volume that it is for; "" = for any */
    bool shut;
    unsigned waiting;
};
static struct gate mounts, makes;

static void gate_shut(struct gate *g, const char *id)
{
    pthread_mutex_lock(&lock);
    (void)snprintf(g->id, sizeof(g->id), "%s", id);
    g->shut = true;
    pthread_mutex_unlock(&lock);
}

static void gate_open(struct gate *g)
{
    pthread_mutex_lock(&lock);
    g->shut = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void gate_pass(struct gate *g, const char *id)
{
    pthread_mutex_lock(&lock);
    if (g->shut && (!g->id[0] || strcmp(g->id, id) == 0)) {
        g->waiting++;
        pthread_cond_broadcast(&changed);
        while (g->shut)
            pthread_cond_wait(&changed, &lock);
        g->waiting--;
    }
    pthread_mutex_unlock(&lock);
}

static void gate_await(struct gate *g)
{
    pthread_mutex_lock(&lock);
    while (g->waiting == 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static int gated_make(struct runtime *rt, const char *id, uint32_t mb, struct err *err)
{
    gate_pass(&makes, id);
    return fake_volume_make(rt, id, mb, err);
}

static int gated_open(struct runtime *rt, const char *id, int base, int *ret_fd, struct err *err)
{
    gate_pass(&mounts, id);
    return fake_volume_open(rt, id, base, ret_fd, err);
}

static int fake_volume_lease(struct runtime *rt, const char *id, int fd, uint64_t more,
                             struct err *err)
{
    (void)fd;
    (void)more;
    return fake_volume_same(rt, id, err);
}

static void volumes_up(struct world *w)
{
    static struct runtime_ops ops;

    (void)alarm(LIMIT_S);
    world_new(w);
    ops = *fake.base.ops;
    ops.volume_make = gated_make;
    ops.volume_keep = ops.volume_doom = fake_volume_same;
    ops.volume_remove = fake_volume_remove;
    ops.volume_open = gated_open;
    ops.volume_room = fake_volume_room;
    ops.volume_lease = fake_volume_lease;
    fake.base.ops = &ops;
    world_close(w, false);
    w->config.max_volumes = 3;
    w->config.default_volume_mb = 16;
    w->config.volume_delete_s = 30;
    world_open(w);
    world_start(w);
}

static void volumes_done(struct world *w)
{
    world_done(w);
    fake_volumes_remove();
}

/* ---- calls, some of them in a thread of their own ---- */

static void make(struct world *w, const char *name, char id[ID_SIZE])
{
    struct err err = {0};
    json_t *v = NULL;

    if (engine_volume_create(w->engine, name, 16, &v, &err) < 0)
        TAP_FAIL("create %s: %s", name, err.text);
    (void)snprintf(id, ID_SIZE, "%s", json_string_value(json_object_get(v, "id")));
    json_decref(v);
}

static size_t count(struct world *w)
{
    json_t *list = NULL;
    size_t n;

    engine_volume_list(w->engine, &list);
    n = json_array_size(json_object_get(list, "volumes"));
    json_decref(list);
    return n;
}

static int remove_it(struct world *w, const char *word, struct err *err)
{
    auto_free char *id = NULL;

    return engine_volume_remove(w->engine, word, &id, err);
}

static int make_folder(struct world *w, const char *word)
{
    return engine_volume_mkdir(w->engine, word, "/folder", NULL);
}

struct caller {
    struct world *w;
    const char *word;
    int r;
    struct err err;
    char id[ID_SIZE];
    pthread_t thread;
};

static void *mkdir_main(void *arg)
{
    struct caller *c = arg;

    c->r = make_folder(c->w, c->word);
    return NULL;
}

static void *want_main(void *arg)
{
    struct caller *c = arg;
    struct volume *v = NULL;

    c->r = volume_pin_or_create(c->w->engine, c->word, 16, &v, &c->err);
    if (c->r == 0)
        (void)snprintf(c->id, sizeof(c->id), "%s", volume_id(v));
    volume_unpin(c->w->engine, v);
    return NULL;
}

static void *remove_main(void *arg)
{
    struct caller *c = arg;

    c->r = remove_it(c->w, c->word, &c->err);
    return NULL;
}

static void begin(struct caller *c, struct world *w, const char *word, void *(*call)(void *))
{
    *c = (struct caller){.w = w, .word = word};
    CHECK_INT(pthread_create(&c->thread, NULL, call, c), 0);
}

static int end(struct caller *c)
{
    CHECK_INT(pthread_join(c->thread, NULL), 0);
    return c->r;
}

/* ---- tests ---- */

TEST(a_volume_that_is_slow_to_mount_delays_no_other)
{
    char slow[ID_SIZE], other[ID_SIZE], third[ID_SIZE];
    struct caller c, again;
    struct world w;

    volumes_up(&w);
    make(&w, "slow", slow);
    make(&w, "other", other);
    gate_shut(&mounts, slow);
    begin(&c, &w, slow, mkdir_main);
    gate_await(&mounts);
    CHECK_INT(count(&w), 2);
    CHECK_INT(volumes_backed(w.engine), 2 << 20);
    CHECK_INT(volumes_debt(w.engine), 0);
    volumes_lease(w.engine, 1 << 20);
    CHECK_INT(make_folder(&w, other), 0);
    make(&w, "third", third);
    CHECK_INT(remove_it(&w, other, NULL), 0);
    begin(&again, &w, slow, mkdir_main); /* waits for the mount of the first */
    gate_open(&mounts);
    CHECK_INT(end(&c), 0);
    CHECK_INT(end(&again), 0);
    CHECK_INT(remove_it(&w, slow, NULL), 0);
    volumes_done(&w);
}

TEST(a_volume_that_is_slow_to_make_delays_no_other_and_is_made_once)
{
    struct caller first, second, third;
    char other[ID_SIZE];
    struct err err = {0};
    struct world w;

    volumes_up(&w);
    make(&w, "other", other);
    gate_shut(&makes, "");
    begin(&first, &w, "slow", want_main);
    gate_await(&makes);
    begin(&second, &w, "slow", want_main);
    CHECK_INT(make_folder(&w, other), 0);
    CHECK_INT(count(&w), 1);
    CHECK_INT(remove_it(&w, other, NULL), 0);
    gate_open(&makes);
    CHECK_INT(end(&first), 0);
    CHECK_INT(end(&second), 0);
    CHECK_STR(second.id, first.id);
    CHECK_INT(count(&w), 1);

    make(&w, "more", other);
    gate_shut(&makes, "");
    begin(&third, &w, "third", want_main);
    gate_await(&makes);
    CHECK_INT(engine_volume_create(w.engine, "fourth", 16, NULL, &err), -1);
    CHECK_STR(err.code, "volume_limit"); /* one that is being made counts */
    gate_open(&makes);
    CHECK_INT(end(&third), 0);
    CHECK_INT(count(&w), 3);
    volumes_done(&w);
}

TEST(of_two_that_remove_a_volume_one_does)
{
    struct caller first, second;
    struct volume *v = NULL;
    char id[ID_SIZE];
    struct world w;

    volumes_up(&w);
    make(&w, "v", id);
    CHECK_INT(volume_pin(w.engine, id, &v, NULL), 0);
    begin(&first, &w, id, remove_main);
    begin(&second, &w, id, remove_main);
    volume_unpin(w.engine, v);
    CHECK_INT(end(&first) + end(&second), -1);
    CHECK_STR((first.r < 0 ? &first : &second)->err.code, "volume_not_found");
    CHECK_INT(count(&w), 0);
    volumes_done(&w);
}

TAP_MAIN
