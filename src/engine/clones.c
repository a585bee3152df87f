#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/images.h"
#include "engine/images_internal.h"
#include "engine/json_text_internal.h"
#include "engine/news_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/snapshots.h"
#include "engine/snapshots_internal.h"
#include "image/image.h"
#include "model/mount.h"
#include "model/sandbox.h"

/* Sandboxes from the disk of another: a create from an image by its id, with the configuration of
 * that other one. Volumes, folders of the host and named networks can be taken away from a sandbox,
 * and no older snapshot brings them back: a clone gets those that the other one has now, a tmpfs is
 * a new one. Their images have no document; they stay as long as a sandbox is made from them. */

static struct maybe_number given(double value)
{
    return (struct maybe_number){.given = true, .value = value};
}

struct origin {
    const struct sandbox_spec *spec;
    const char *image_id;
    const char *from;       /* a sandbox or a snapshot */
    const char *sandbox_id; /* whose mounts and networks the clone gets; it may be gone */
};

/* What a clone has beside the origin's spec. */
struct extras {
    json_t *volumes, *tmpfs, *networks, *metadata, *warnings;
};

static void warn(struct extras *x, json_t *text)
{
    (void)json_array_append_new(x->warnings, text);
}

/* refused: why the clone gets tmpfs only, for warnings; NULL = it gets all mounts. */
static void take_mounts(const json_t *mounts, const char *refused, struct extras *x)
{
    struct mount_spec m;
    json_t *one;
    size_t i;

    json_array_foreach(mounts, i, one)
    {
        if (mount_spec_load(one, &m, NULL) < 0)
            continue; /* which a spec has none of */
        if (m.type == MOUNT_TMPFS) {
            (void)json_array_append(x->tmpfs, one);
        } else if (refused) {
            warn(x, json_sprintf("nothing is mounted at %s: %s", m.path, refused));
        } else {
            one = json_deep_copy(one);
            if (m.type == MOUNT_VOLUME)
                (void)json_object_set_new(one, "name", json_string(m.source));
            (void)json_array_append_new(x->volumes, one);
        }
    }
}

static void take_networks(json_t *networks, const char *refused, struct extras *x)
{
    if (!refused)
        x->networks = json_incref(networks);
    else if (json_array_size(networks) > 0)
        warn(x, json_sprintf("it is in no named network: %s", refused));
}

static void take_shared(struct engine *e, const struct origin *o, const struct clone_request *req,
                        struct extras *x)
{
    auto_sandbox struct sandbox *sb = NULL;
    const char *refused =
        req->unshared ? "this token may not use volumes, folders of the host and networks" : NULL;
    json_t *mounts, *networks;

    if (sandbox_get(e, o->sandbox_id, &sb, NULL) < 0) {
        take_mounts(o->spec->mounts,
                    "the sandbox of the snapshot is gone; attach what the clone may have", x);
        take_networks(o->spec->networks,
                      "the sandbox of the snapshot is gone; connect the clone where it may be", x);
        return;
    }
    pthread_mutex_lock(&sb->lock);
    mounts = json_incref(sb->spec.mounts);
    networks = json_incref(sb->spec.networks);
    pthread_mutex_unlock(&sb->lock);
    take_mounts(mounts, refused, x);
    take_networks(networks, refused, x);
    json_decref(mounts);
    json_decref(networks);
}

static void take_metadata(const struct origin *o, const struct clone_request *req, struct extras *x)
{
    const char *key;
    json_t *unused;

    x->metadata = o->spec->metadata ? json_deep_copy(o->spec->metadata) : json_object();
    json_object_foreach(req->locked, key, unused)
    {
        if (!json_object_get(x->metadata, key))
            continue;
        (void)json_object_del(x->metadata, key);
        if (!json_object_get(req->label, key))
            warn(x, json_sprintf("metadata.%s is left out: it is the label of other tokens", key));
    }
    if (req->label)
        (void)json_object_update(x->metadata, req->label);
}

static struct extras extras_of(struct engine *e, const struct origin *o,
                               const struct clone_request *req)
{
    struct extras x = {.volumes = json_array(), .tmpfs = json_array(), .warnings = json_array()};

    take_shared(e, o, req, &x);
    take_metadata(o, req, &x);
    return x;
}

static void extras_done(struct extras *x)
{
    json_decref(x->volumes);
    json_decref(x->tmpfs);
    json_decref(x->networks);
    json_decref(x->metadata);
    json_decref(x->warnings);
}

/* from: a sandbox or a snapshot. */
static void tell_cloned(struct engine *e, const json_t *made, const char *from)
{
    const char *id = json_string_value(json_object_get(made, "id"));

    engine_tell(e, "sandbox.cloned", id, json_pack("{s:s, s:s}", "sandboxId", id, "from", from));
}

/* A disk of the usual size is what nobody asked for: it may be larger than what is free. */
static int create_like(struct engine *e, const struct origin *o, const struct clone_request *wanted,
                       const struct engine_watch *watch, json_t **ret, struct err *err)
{
    const struct sandbox_spec *spec = o->spec;
    struct extras x;
    struct sandbox_request req = {
        .image = spec->image,
        .image_id = o->image_id,
        .granted = &spec->limits,
        .template = spec->template,
        .template_build = spec->template_build,
        .name = wanted->name,
        .unique = wanted->unique,
        .maker = wanted->maker,
        .timeout_s = given(spec->timeout_s),
        .idle_s = given(spec->idle_s),
        .idle_removes = spec->idle_removes,
        .memory_mb = given(spec->limits.memory_mb),
        .cpu_cores = given(spec->limits.cpu_millis / 1000.0),
        .pids = given(spec->limits.pids),
        .disk_mb = {.given = spec->limits.disk_mb != e->config.default_limits.disk_mb,
                    .value = spec->limits.disk_mb},
        .network = spec->network,
        .env = spec->env,
        .workdir = spec->workdir,
        .entrypoint = spec->entrypoint,
    };
    int r;

    /* What a template was built from was allowed to it then, as for its own sandboxes. */
    if (!spec->template_build && image_check_allowed(e, spec->image, err) < 0)
        return -1;
    x = extras_of(e, o, wanted);
    req.volumes = x.volumes;
    req.tmpfs = x.tmpfs;
    req.networks = x.networks;
    req.metadata = x.metadata;
    r = engine_create(e, &req, watch, ret, err);
    if (r == 0)
        tell_cloned(e, *ret, o->from);
    if (r == 0 && json_array_size(x.warnings) > 0) {
        (void)json_array_extend(x.warnings, json_object_get(*ret, "warnings"));
        (void)json_object_set(*ret, "warnings", x.warnings);
    }
    extras_done(&x);
    return r;
}

int engine_snapshot_clone(struct engine *e, const char *id, const struct clone_request *req,
                          const struct engine_watch *watch, json_t **ret, struct err *err)
{
    struct sandbox_spec spec;
    json_t *o;
    int r;

    if (snapshot_hold(e, id, NULL, &o, err) < 0)
        return -1;
    r = sandbox_spec_load(json_object_get(o, "config"), &spec, err);
    if (r == 0) {
        const struct origin origin = {&spec, json_text(o, "imageId"), json_text(o, "id"),
                                      json_text(o, "sandboxId")};

        r = create_like(e, &origin, req, watch, ret, err);
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
    const struct origin *origin;
    const struct clone_request *req;
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
        struct clone_request its = *f->req;
        auto_free char *numbered =
            its.name && f->n > 1 ? xasprintf("%s-%u", its.name, i + 1) : NULL;
        struct err why = {0};

        if (numbered)
            its.name = numbered;
        if (is_watched(f, &why) < 0 ||
            create_like(f->engine, f->origin, &its, f->n == 1 ? f->watch : NULL, &f->made[i],
                        &why) < 0)
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

static int create_all(struct engine *e, const struct origin *origin, unsigned n,
                      const struct clone_request *req, const struct engine_watch *watch,
                      json_t **ret, struct err *err)
{
    auto_free json_t **each = xcalloc(n, sizeof(json_t *));
    struct forks f = {
        .engine = e,
        .origin = origin,
        .req = req,
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

int engine_fork(struct engine *e, const char *sandbox_id, unsigned n,
                const struct clone_request *req, const struct engine_watch *watch, json_t **ret,
                struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *image_id = NULL, *warning = NULL;
    struct sandbox_spec spec;
    int64_t bytes;
    json_t *one;
    size_t i;
    int r;

    if (sandbox_get(e, sandbox_id, &sb, err) < 0 || copy_spec(sb, &spec, err) < 0)
        return -1;
    r = snapshot_take(e, sb, watch, &image_id, &bytes, &warning, err);
    if (r == 0) {
        const struct origin origin = {&spec, image_id, sb->box.id, sb->box.id};

        r = create_all(e, &origin, n, req, watch, ret, err);
        engine_image_let_go(e, image_id);
    }
    if (r == 0)
        json_array_foreach(*ret, i, one) json_add_warning(one, warning);
    sandbox_spec_done(&spec);
    return r;
}
