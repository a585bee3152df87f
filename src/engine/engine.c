#include "engine/engine.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/build_cache_internal.h"
#include "engine/destroyer_internal.h"
#include "engine/drain_internal.h"
#include "engine/engine_internal.h"
#include "engine/gateway_internal.h"
#include "engine/health_internal.h"
#include "engine/image_policy.h"
#include "engine/images_internal.h"
#include "engine/images_used_internal.h"
#include "engine/lifecycle_internal.h"
#include "engine/network_internal.h"
#include "engine/networks_internal.h"
#include "engine/ports_internal.h"
#include "engine/prepared_internal.h"
#include "engine/pulls_internal.h"
#include "engine/quiet_internal.h"
#include "engine/reaper_internal.h"
#include "engine/recover_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/snapshots_internal.h"
#include "engine/space_internal.h"
#include "engine/templates_internal.h"
#include "engine/volumes_internal.h"
#include "engine/warm_internal.h"
#include "engine/writer_internal.h"
#include "image/image.h"
#include "store/store.h"

static int load_counter(struct engine *e, const char *name, atomic_llong *ret, struct err *err)
{
    int64_t value;

    if (store_counter(e->store, name, &value, err) < 0)
        return -1;
    atomic_store(ret, value);
    return 0;
}

static int read_boot_id(struct engine *e, struct err *err)
{
    ssize_t n = read_file_at(-1, "/proc/sys/kernel/random/boot_id", e->boot_id, sizeof(e->boot_id));

    if (n < 0)
        return err_sys(err, (int)-n, "read the boot id of this machine");
    e->boot_id[strcspn(e->boot_id, "\n")] = '\0';
    return 0;
}

static int read_policy(struct engine *e, struct err *err)
{
    struct image_policy_config config = {.allowed = e->config.allowed_images,
                                         .custom = e->config.custom_images,
                                         .caps = e->config.image_caps,
                                         .strict = e->config.image_strict};

    /* The caller's texts need not outlive us. */
    e->config.allowed_images = e->config.custom_images = e->config.image_caps = NULL;
    return image_policy_new(&config, &e->policy, err);
}

static uint32_t or_default(uint32_t ms, uint32_t by_default)
{
    return ms ? ms : by_default;
}

/* An agent has silent - look to answer after it is asked: look is at most half of silent. */
static struct engine_waits waits_of(const struct engine_waits *w)
{
    uint32_t look = or_default(w->look, 1500), silent = or_default(w->silent, 3000);

    return (struct engine_waits){
        .agent = or_default(w->agent, 30000),
        .look = look < silent - silent / 2 ? look : silent - silent / 2,
        .silent = silent,
        .turn = or_default(w->turn, 5000),
        .server = or_default(w->server, 5000),
        .gateway = or_default(w->gateway, 5000),
        .main = or_default(w->main, 2000),
        .overrun = or_default(w->overrun, 5000),
        .gone = or_default(w->gone, 1000),
        .again = or_default(w->again, 50),
        .pool = or_default(w->pool, 5000),
    };
}

int engine_new(const struct engine_config *config, struct store *store, struct image_store *images,
               struct runtime *runtime, struct engine **ret, struct err *err)
{
    struct engine *e = xcalloc(1, sizeof(*e));

    e->roster = roster_new();
    e->images_used = images_used_new();
    e->pulls = pulls_new();
    e->writer = writer_new();
    e->prepared = prepared_new();
    e->warm = warm_new();
    e->reaper = reaper_new();
    e->quiet = quiet_new();
    e->drains = drains_new();
    e->destroyer = destroyer_new();
    e->troubles = troubles_new();
    e->network = network_new(config->data_dir);
    e->space = space_new();
    e->forwarder = forwarder_new(e);
    e->config = *config;
    e->config.waits = waits_of(&config->waits);
    e->config.default_image = e->default_image = xstrdup(config->default_image);
    e->config.data_dir = e->data_dir = xstrdup(config->data_dir);
    e->config.workspace = e->workspace = xstrdup(config->workspace);
    if (config->pool_profiles)
        e->config.pool_profiles = e->pool_profiles = xstrdup(config->pool_profiles);
    e->gateway = gateway_new(&e->config);
    e->store = store;
    e->images = images;
    e->runtime = runtime;
    e->start_ns = mono_ns();
    pthread_mutex_init(&e->strays_lock, NULL);
    if (read_policy(e, err) < 0 || read_boot_id(e, err) < 0 ||
        load_counter(e, "created", &e->created, err) < 0 ||
        load_counter(e, "killed", &e->killed, err) < 0 ||
        load_counter(e, "expired", &e->expired, err) < 0 || signing_open(e, err) < 0 ||
        templates_open(e, err) < 0 || snapshots_open(e, err) < 0 || build_cache_open(e, err) < 0 ||
        volumes_open(e, err) < 0 || networks_open(e, err) < 0) {
        engine_free(e);
        return -1;
    }
    image_set_name_check(images, image_check_archived, e->policy);
    *ret = e;
    return 0;
}

int engine_start(struct engine *e, struct err *err)
{
    volumes_start(e);
    if (writer_start(e, err) < 0 || reaper_start(e, err) < 0 || quiet_start(e, err) < 0 ||
        drains_start(e, err) < 0 || forwarder_start(e, err) < 0 || recover(e, err) < 0 ||
        space_start(e, err) < 0 || prepared_start(e, err) < 0 || flattener_start(e, err) < 0 ||
        network_start(e, err) < 0 || warm_start(e, err) < 0) {
        engine_stop(e, false);
        return -1;
    }
    networks_start(e);
    return 0;
}

static bool any(struct sandbox *sb, const void *arg)
{
    (void)sb;
    (void)arg;
    return true;
}

static void remove_all(struct engine *e)
{
    size_t n;
    auto_free struct sandbox **all = roster_select(e, any, NULL, 0, SIZE_MAX, &n, NULL);

    for (size_t i = 0; i < n; i++) {
        struct err err = {0};

        if (sandbox_remove(e, all[i], REMOVED_BY_STOP, &err) < 0 && err.kind != ERR_NOT_FOUND)
            log_error("a sandbox could not be stopped", "id", all[i]->box.id, "error", err.text);
        sandbox_unref(all[i]);
    }
}

void engine_stop(struct engine *e, bool stop_sandboxes)
{
    roster_close(e);
    pulls_stop(e);
    warm_stop(e);
    flattener_stop(e);
    prepared_stop(e);
    space_stop(e);
    if (stop_sandboxes && reaper_runs(e))
        remove_all(e);
    forwarder_stop(e);
    drains_stop(e);
    reaper_stop(e);
    quiet_stop(e);
    gateway_stop(e, stop_sandboxes);
    writer_stop(e);
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    network_free(e->network);
    e->network = NULL;
    volumes_close(e);
    networks_close(e);
    roster_free(e);
    reaper_free(e->reaper);
    quiet_free(e->quiet);
    drains_free(e->drains);
    destroyer_free(e->destroyer);
    troubles_free(e->troubles);
    space_free(e->space);
    forwarder_free(e->forwarder);
    warm_free(e->warm);
    prepared_free(e->prepared);
    writer_free(e->writer);
    pulls_free(e->pulls);
    snapshots_close(e->snapshots);
    templates_close(e->templates);
    build_cache_free(e->build_cache);
    images_used_free(e->images_used);
    free(e->pool_profiles);
    free(e->default_image);
    image_policy_free(e->policy);
    gateway_free(e->gateway);
    pthread_mutex_destroy(&e->strays_lock);
    free(e->workspace);
    free(e->data_dir);
    free(e);
}

const struct engine_config *engine_config(const struct engine *e)
{
    return &e->config;
}
