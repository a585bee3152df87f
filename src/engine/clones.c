#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/images.h"
#include "engine/images_internal.h"
#include "engine/news_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/snapshots.h"
#include "engine/snapshots_internal.h"
#include "engine/volumes_internal.h"
#include "image/image.h"
#include "model/mount.h"
#include "model/sandbox.h"

/* Sandboxes from the disk of another: a create from an image by its id, with the configuration of
 * that other one and its mounts: volumes and folders of the host are shared, a tmpfs is a new one.
 * Their images have no document; they stay as long as a sandbox is made from them. */

static struct maybe_number given(double value)
{
    return (struct maybe_number){.given = true, .value = value};
}

/* What a create asks for to have the same mounts, and what it cannot have. */
struct wanted_mounts {
    json_t *volumes, *tmpfs, *warnings;
};

static bool volume_is_gone(struct engine *e, const char *id)
{
    struct volume *v = NULL;
    struct err err = {0};

    if (volume_pin(e, id, &v, &err) < 0)
        return err.kind == ERR_NOT_FOUND;
    volume_unpin(e, v);
    return false;
}

/* Of a snapshot that is older than the end of a volume there is still something to be made. */
static void want_volume(struct engine *e, json_t *mount, const struct mount_spec *m,
                        struct wanted_mounts *w)
{
    json_t *one;

    if (volume_is_gone(e, m->source)) {
        auto_free char *text =
            xasprintf("volume %s is gone: nothing is mounted at %s", m->source, m->path);

        (void)json_array_append_new(w->warnings, json_string(text));
        return;
    }
    one = json_deep_copy(mount);
    (void)json_object_set_new(one, "name", json_string(m->source));
    (void)json_array_append_new(w->volumes, one);
}

static void want_mounts(struct engine *e, const json_t *mounts, struct wanted_mounts *ret)
{
    struct mount_spec m;
    json_t *one;
    size_t i;

    *ret = (struct wanted_mounts){json_array(), json_array(), json_array()};
    json_array_foreach(mounts, i, one)
    {
        if (mount_spec_load(one, &m, NULL) < 0)
            continue; /* which a spec has none of */
        if (m.type == MOUNT_VOLUME)
            want_volume(e, one, &m, ret);
        else
            (void)json_array_append(m.type == MOUNT_TMPFS ? ret->tmpfs : ret->volumes, one);
    }
}

static void wanted_mounts_done(struct wanted_mounts *w)
{
    json_decref(w->volumes);
    json_decref(w->tmpfs);
    json_decref(w->warnings);
}

/* from: a sandbox or a snapshot. */
static void tell_cloned(struct engine *e, const json_t *made, const char *from)
{
    const char *id = json_string_value(json_object_get(made, "id"));

    engine_tell(e, "sandbox.cloned", id, json_pack("{s:s, s:s}", "sandboxId", id, "from", from));
}

/* A disk of the usual size is what nobody asked for: it may be larger than what is free. */
static int create_like(struct engine *e, const struct sandbox_spec *spec, const char *image_id,
                       const char *from, const struct clone_name *name,
                       const struct engine_watch *watch, json_t **ret, struct err *err)
{
    struct wanted_mounts mounts;
    struct sandbox_request req = {
        .image = spec->image,
        .image_id = image_id,
        .granted = &spec->limits,
        .template = spec->template,
        .template_build = spec->template_build,
        .name = name->name,
        .unique = name->unique,
        .timeout_s = given(spec->timeout_s),
        .idle_s = given(spec->idle_s),
        .idle_removes = spec->idle_removes,
        .memory_mb = given(spec->limits.memory_mb),
        .cpu_cores = given(spec->limits.cpu_millis / 1000.0),
        .pids = given(spec->limits.pids),
        .disk_mb = {.given = spec->limits.disk_mb != e->config.default_limits.disk_mb,
                    .value = spec->limits.disk_mb},
        .network = spec->network,
        .networks = spec->networks,
        .env = spec->env,
        .metadata = spec->metadata,
        .workdir = spec->workdir,
        .entrypoint = spec->entrypoint,
    };
    int r;

    /* What a template was built from was allowed to it then, as for its own sandboxes. */
    if (!spec->template_build && image_check_allowed(e, spec->image, err) < 0)
        return -1;
    want_mounts(e, spec->mounts, &mounts);
    req.volumes = mounts.volumes;
    req.tmpfs = mounts.tmpfs;
    r = engine_create(e, &req, watch, ret, err);
    if (r == 0)
        tell_cloned(e, *ret, from);
    if (r == 0 && json_array_size(mounts.warnings) > 0)
        (void)json_object_set(*ret, "warnings", mounts.warnings);
    wanted_mounts_done(&mounts);
    return r;
}

int engine_snapshot_clone(struct engine *e, const char *id, const struct clone_name *name,
                          const struct engine_watch *watch, json_t **ret, struct err *err)
{
    struct sandbox_spec spec;
    json_t *o;
    int r;

    if (snapshot_hold(e, id, NULL, &o, err) < 0)
        return -1;
    r = sandbox_spec_load(json_object_get(o, "config"), &spec, err);
    if (r == 0) {
        r = create_like(e, &spec, json_string_value(json_object_get(o, "imageId")),
                        json_string_value(json_object_get(o, "id")), name, watch, ret, err);
        sandbox_spec_done(&spec);
    }
    snapshot_let_go(e, o);
    return r;
}

static int copy_spec(struct sandbox *sb, struct sandbox_spec *ret, struct err *err)
{
    json_t *config;
    int r;

    pthread_mutex_lock(&sb->lock);
    config = sandbox_spec_json(&sb->spec);
    pthread_mutex_unlock(&sb->lock);
    r = sandbox_spec_load(config, ret, err);
    json_decref(config);
    return r;
}

static void remove_made(struct engine *e, json_t *made)
{
    struct err err = {0};
    json_t *one;
    size_t i;

    json_array_foreach(made, i, one)
    {
        const char *id = json_string_value(json_object_get(one, "id"));

        if (engine_remove(e, id, &err) < 0)
            log_warn("a clone that is not wanted could not be removed", "id", id, "error",
                     err.text);
    }
    json_decref(made);
}

/* Several at once: most of a create is waiting, for the disk and for the new box. */
#define FORK_THREADS 4

struct forks {
    struct engine *engine;
    const struct sandbox_spec *spec;
    const char *image_id, *from;
    const struct clone_name *name;
    const struct engine_watch *watch;
    unsigned n;
    json_t **made;        /* n */
    atomic_uint next;     /* the first that nobody makes yet */
    pthread_mutex_t lock; /* failed, err; one at a time asks the watch */
    bool failed;
    struct err *err;
};

static void fork_failed(struct forks *f, const struct err *why)
{
    atomic_store(&f->next, f->n); /* the rest is not wanted either */
    pthread_mutex_lock(&f->lock);
    if (!f->failed && f->err)
        *f->err = *why;
    f->failed = true;
    pthread_mutex_unlock(&f->lock);
}

static int is_watched(struct forks *f, struct err *err)
{
    int r;

    pthread_mutex_lock(&f->lock);
    r = snapshot_check_watch(f->watch, err);
    pthread_mutex_unlock(&f->lock);
    return r;
}

/* Until there are none left to make. */
static void *make_forks(void *arg)
{
    struct forks *f = arg;
    unsigned i;

    while ((i = atomic_fetch_add(&f->next, 1)) < f->n) {
        const char *name = f->name->name;
        auto_free char *numbered = name && f->n > 1 ? xasprintf("%s-%u", name, i + 1) : NULL;
        const struct clone_name its = {numbered ? numbered : name, f->name->unique};
        struct err why = {0};

        if (is_watched(f, &why) < 0 ||
            create_like(f->engine, f->spec, f->image_id, f->from, &its, f->n == 1 ? f->watch : NULL,
                        &f->made[i], &why) < 0)
            fork_failed(f, &why);
    }
    return NULL;
}

static void make_all(struct forks *f)
{
    pthread_t threads[FORK_THREADS - 1];
    unsigned n = 0;

    while (n < FORK_THREADS - 1 && n + 1 < f->n &&
           pthread_create(&threads[n], NULL, make_forks, f) == 0)
        n++;
    (void)make_forks(f); /* all of them, where there are no threads to be had */
    while (n > 0)
        (void)pthread_join(threads[--n], NULL);
}

static int create_all(struct engine *e, const struct sandbox_spec *spec, const char *image_id,
                      const char *from, unsigned n, const struct clone_name *name,
                      const struct engine_watch *watch, json_t **ret, struct err *err)
{
    auto_free json_t **each = xcalloc(n, sizeof(json_t *));
    struct forks f = {
        .engine = e,
        .spec = spec,
        .image_id = image_id,
        .from = from,
        .name = name,
        .watch = watch,
        .n = n,
        .made = each,
        .err = err,
    };
    json_t *made = json_array();

    (void)pthread_mutex_init(&f.lock, NULL);
    make_all(&f);
    (void)pthread_mutex_destroy(&f.lock);
    for (unsigned i = 0; i < n; i++)
        if (each[i])
            (void)json_array_append_new(made, each[i]);
    if (f.failed) {
        remove_made(e, made);
        return -1;
    }
    *ret = made;
    return 0;
}

int engine_fork(struct engine *e, const char *sandbox_id, unsigned n, const struct clone_name *name,
                const struct engine_watch *watch, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *image_id = NULL;
    struct sandbox_spec spec;
    int64_t bytes;
    int r;

    if (sandbox_get(e, sandbox_id, &sb, err) < 0 || copy_spec(sb, &spec, err) < 0)
        return -1;
    r = snapshot_take(e, sb, watch, &image_id, &bytes, err);
    if (r == 0) {
        r = create_all(e, &spec, image_id, sb->box.id, n, name, watch, ret, err);
        engine_image_let_go(e, image_id);
    }
    sandbox_spec_done(&spec);
    return r;
}
