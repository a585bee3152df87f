#include "engine/engine.h"

#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/policy.h"

static void cond_init_monotonic(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

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

static void init_locks(struct engine *e)
{
    pthread_mutex_init(&e->table_lock, NULL);
    pthread_mutex_init(&e->images_used.lock, NULL);
    pthread_mutex_init(&e->pulls.lock, NULL);
    pthread_cond_init(&e->pulls.idle, NULL);
    pthread_mutex_init(&e->writer.lock, NULL);
    pthread_mutex_init(&e->pool.lock, NULL);
    pthread_mutex_init(&e->reaper.lock, NULL);
    pthread_cond_init(&e->writer.more, NULL);
    pthread_cond_init(&e->writer.done, NULL);
    cond_init_monotonic(&e->pool.more);
    cond_init_monotonic(&e->reaper.tick);
    pthread_cond_init(&e->reaper.more, NULL);
}

static int read_policy(struct engine *e, struct err *err)
{
    struct policy_config config = {.allowed = e->config.allowed_images,
                                   .custom = e->config.custom_images,
                                   .caps = e->config.image_caps,
                                   .strict = e->config.image_strict};

    /* The caller's texts need not outlive us. */
    e->config.allowed_images = e->config.custom_images = e->config.image_caps = NULL;
    return policy_new(&config, &e->policy, err);
}

int engine_new(const struct engine_config *config, struct store *store, struct image_store *images,
               struct runtime *runtime, struct engine **ret, struct err *err)
{
    struct engine *e = xcalloc(1, sizeof(*e));

    init_locks(e);
    e->config = *config;
    e->config.default_image = e->default_image = xstrdup(config->default_image);
    e->config.workspace = e->workspace = xstrdup(config->workspace);
    e->store = store;
    e->images = images;
    e->runtime = runtime;
    e->start_ns = mono_ns();
    e->reaper.epoll_fd = e->reaper.wake_fd = -1;
    if (read_policy(e, err) < 0 || read_boot_id(e, err) < 0 ||
        load_counter(e, "created", &e->created, err) < 0 ||
        load_counter(e, "killed", &e->killed, err) < 0 ||
        load_counter(e, "expired", &e->expired, err) < 0) {
        engine_free(e);
        return -1;
    }
    *ret = e;
    return 0;
}

void thread_is_background(void)
{
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
}

int engine_start(struct engine *e, struct err *err)
{
    if (writer_start(e, err) < 0 || reaper_start(e, err) < 0 || recover(e, err) < 0 ||
        pool_start(e, err) < 0) {
        engine_stop(e, false);
        return -1;
    }
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
    auto_free struct sandbox **all = table_select(e, any, NULL, 0, SIZE_MAX, &n, NULL);

    for (size_t i = 0; i < n; i++) {
        struct err err = {0};

        if (sandbox_remove(e, all[i], REMOVED_BY_STOP, &err) < 0 && err.kind != ERR_NOT_FOUND)
            log_error("a sandbox could not be stopped", "id", all[i]->box.id, "error", err.text);
        sandbox_unref(all[i]);
    }
}

void engine_stop(struct engine *e, bool stop_sandboxes)
{
    pthread_mutex_lock(&e->table_lock);
    e->stopping = true;
    pthread_mutex_unlock(&e->table_lock);
    pulls_stop(e);
    pool_stop(e);
    if (stop_sandboxes && e->reaper.running)
        remove_all(e);
    reaper_stop(e);
    writer_stop(e);
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    while (e->first)
        table_remove(e, e->first);
    while (e->reaper.head) { /* removed after the stop; the next start destroys them */
        struct sandbox *sb = e->reaper.head;

        e->reaper.head = sb->doomed_next;
        sandbox_unref(sb);
    }
    close_fd(&e->reaper.epoll_fd);
    close_fd(&e->reaper.wake_fd);
    pthread_mutex_destroy(&e->table_lock);
    pthread_mutex_destroy(&e->pulls.lock);
    pthread_cond_destroy(&e->pulls.idle);
    pthread_mutex_destroy(&e->writer.lock);
    pthread_mutex_destroy(&e->pool.lock);
    pthread_mutex_destroy(&e->reaper.lock);
    pthread_cond_destroy(&e->writer.more);
    pthread_cond_destroy(&e->writer.done);
    pthread_cond_destroy(&e->pool.more);
    pthread_cond_destroy(&e->reaper.tick);
    pthread_cond_destroy(&e->reaper.more);
    images_done(e);
    free(e->pool.ready);
    free(e->default_image);
    policy_free(e->policy);
    free(e->workspace);
    free(e);
}

const struct engine_config *engine_config(const struct engine *e)
{
    return &e->config;
}
