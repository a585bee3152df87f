#pragma once

/* An image store without files, so that the engine is tested without the real one: every name but
 * "gone" stands for sha256:1… ("host" for itself) until fake_images says that names are removed.
 * Names that begin with "far" are only there after a pull, which waits, fails and tells what it
 * does as the test says. */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/image.h"
#include "oci/reference.h"

#define FAKE_ID "sha256:1"

static struct {
    pthread_mutex_t lock;
    atomic_bool removed; /* every name but host */
    unsigned collected;  /* how often */
    char **kept;         /* the ids that the last collection was told */

    char **pulled;         /* short names */
    bool hold;             /* a pull tells what it does and waits until this is false */
    enum err_kind failure; /* of a pull */
    unsigned vanish;       /* pulls after which someone removes the image at once */
    unsigned pulls, cancelled, touched;
    char *last_pull;   /* "reference name user" */
    char **pruned_but; /* the ids that the last prune was told */
    int64_t keep_bytes;
    char *committed; /* "base name ids_base config" */
    void (*on_commit)(void);
    unsigned snapshots;
    bool fail_snapshot;
    bool hold_commit; /* a commit waits until this is false, or it is told to end */
    bool deaf_commit; /* and is not asked whether it is */
    unsigned commits; /* that were begun */

    /* of every image */
    const char *workdir, *user, *stop_signal, *platform;
    char *const *entrypoint, *const *cmd;
} fake_images = {.lock = PTHREAD_MUTEX_INITIALIZER};

static char *fake_short(const char *name)
{
    struct reference ref;
    char *text;

    if (reference_parse(name, &ref, NULL) < 0)
        return xstrdup(name);
    text = reference_short(&ref);
    reference_done(&ref);
    return text;
}

static bool fake_has(char *const *list, const char *word)
{
    for (; list && *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static bool fake_is_there(const char *name)
{
    bool there;

    pthread_mutex_lock(&fake_images.lock);
    if (strcmp(name, "host") == 0)
        there = true;
    else if (str_starts(name, "far"))
        there = fake_has(fake_images.pulled, name);
    else
        there = strcmp(name, "gone") != 0 && !fake_images.removed;
    pthread_mutex_unlock(&fake_images.lock);
    return there;
}

static char **fake_copy(char *const *list)
{
    char **copy = xcalloc(1, sizeof(*copy));

    for (; list && *list; list++)
        copy = strv_add(copy, *list);
    return copy;
}

static const char *fake_text(const char *s)
{
    return s ? s : "";
}

static struct image *fake_image(const char *name)
{
    struct image *image = xcalloc(1, sizeof(*image));

    bool by_id = str_starts(name, FAKE_ID);

    image->name = xstrdup(by_id ? "py:named" : name);
    image->id = xstrdup(by_id || strcmp(name, "host") == 0 ? name : FAKE_ID);
    image->digest = xstrdup("");
    image->origin = xstrdup("");
    image->layers = fake_copy(NULL);
    image->env = strv_add(strv_add(NULL, "PATH=/usr/bin:/bin"), "LANG=C");
    image->workdir = xstrdup(fake_text(fake_images.workdir));
    image->user = xstrdup(fake_text(fake_images.user));
    image->stop_signal = xstrdup(fake_text(fake_images.stop_signal));
    image->platform = xstrdup(fake_images.platform ? fake_images.platform : "linux/amd64");
    image->entrypoint = fake_copy(fake_images.entrypoint);
    image->cmd = fake_copy(fake_images.cmd);
    image->ports = fake_copy(NULL);
    image->labels = json_object();
    return image;
}

int image_get(struct image_store *s, const char *name, struct image **ret, struct err *err)
{
    auto_free char *short_name = fake_short(name);

    (void)s;
    if (!fake_is_there(short_name))
        return err_code(err, ERR_NOT_FOUND, "image_not_found", "no image %s", name);
    *ret = fake_image(short_name);
    return 0;
}

int image_get_id(struct image_store *s, const char *id, struct image **ret, struct err *err)
{
    if (image_get(s, id, ret, err) < 0)
        return -1;
    free((*ret)->name);
    (*ret)->name = xstrdup(id);
    return 0;
}

void image_free(struct image *image)
{
    if (!image)
        return;
    free(image->name);
    free(image->id);
    free(image->digest);
    free(image->origin);
    strv_free(image->layers);
    strv_free(image->env);
    free(image->workdir);
    free(image->user);
    free(image->stop_signal);
    free(image->platform);
    strv_free(image->entrypoint);
    strv_free(image->cmd);
    strv_free(image->ports);
    json_decref(image->labels);
    free(image);
}

int image_list(struct image_store *s, struct image ***ret, unsigned *ret_n, struct err *err)
{
    (void)s, (void)err;
    *ret = xcalloc(3, sizeof(**ret));
    (*ret)[0] = fake_image("host");
    (*ret)[1] = fake_image("python");
    *ret_n = 2;
    return 0;
}

void image_touch(struct image_store *s, const char *name)
{
    (void)s, (void)name;
    pthread_mutex_lock(&fake_images.lock);
    fake_images.touched++;
    pthread_mutex_unlock(&fake_images.lock);
}

void image_set_registries(struct image_store *s, const struct image_registries *r)
{
    (void)s, (void)r;
}

static bool fake_held(void)
{
    bool hold;

    pthread_mutex_lock(&fake_images.lock);
    hold = fake_images.hold;
    pthread_mutex_unlock(&fake_images.lock);
    return hold;
}

static int fake_tell(image_progress progress, void *arg, json_t *event)
{
    int r = progress ? progress(event, arg) : 0;

    json_decref(event);
    return r;
}

static int fake_steps(const struct image_pull *pull, image_progress progress, void *arg)
{
    if (fake_tell(progress, arg,
                  json_pack("{s:s, s:s}", "event", "resolving", "reference", pull->reference)) <
            0 ||
        fake_tell(progress, arg,
                  json_pack("{s:s, s:s, s:s, s:s, s:i, s:i}", "event", "resolved", "reference",
                            pull->reference, "digest", FAKE_ID, "platform", "linux/amd64", "layers",
                            2, "bytes", 8)) < 0)
        return -1;
    for (int n = 0; n < 4; n++)
        if (fake_tell(progress, arg,
                      json_pack("{s:s, s:i, s:s, s:s, s:i, s:i, s:i}", "event", "layer", "index",
                                n % 2, "digest", FAKE_ID, "state", "downloading", "downloaded", n,
                                "total", 4, "unpacked", 0)) < 0)
            return -1;
    while (fake_held()) {
        if (progress && progress(NULL, arg) < 0)
            return -1;
        (void)poll(NULL, 0, 1);
    }
    return fake_tell(progress, arg, json_pack("{s:s}", "event", "storing"));
}

int image_pull(struct image_store *s, const struct image_pull *pull, image_progress progress,
               void *arg, struct image **ret, struct err *err)
{
    auto_free char *name = fake_short(pull->name ? pull->name : pull->reference);
    enum err_kind failure;
    int r;

    (void)s;
    pthread_mutex_lock(&fake_images.lock);
    fake_images.pulls++;
    free(fake_images.last_pull);
    fake_images.last_pull =
        xasprintf("%s %s %s", pull->reference, fake_text(pull->name), fake_text(pull->username));
    pthread_mutex_unlock(&fake_images.lock);
    r = fake_steps(pull, progress, arg);
    pthread_mutex_lock(&fake_images.lock);
    failure = fake_images.failure;
    if (r < 0)
        fake_images.cancelled++;
    else if (!failure && fake_images.vanish > 0)
        fake_images.vanish--;
    else if (!failure)
        fake_images.pulled = strv_add(fake_images.pulled, name);
    pthread_mutex_unlock(&fake_images.lock);
    if (r < 0)
        return err_code(err, ERR_CONFLICT, "cancelled", "ended");
    if (failure)
        return err_code(err, failure, "image_pull_failed", "%s does not answer", pull->reference);
    *ret = fake_image(name);
    return 0;
}

void image_set_name_check(struct image_store *s, image_name_check check, void *arg)
{
    (void)s, (void)check, (void)arg;
}

int image_import(struct image_store *s, const char *path, const char *name, image_progress progress,
                 void *arg, struct image **ret, struct err *err)
{
    (void)path;
    if (fake_tell(progress, arg, json_pack("{s:s}", "event", "storing")) < 0)
        return err_code(err, ERR_CONFLICT, "cancelled", "ended");
    return image_get(s, name ? name : "archived", ret, err);
}

int image_export(struct image_store *s, const char *name, int out_fd, struct err *err)
{
    auto_free char *text = xasprintf("archive of %s", name);

    (void)s;
    if (strcmp(name, "host") == 0)
        return err_set(err, ERR_UNSUPPORTED, "host cannot be exported");
    return write_all(out_fd, text, strlen(text)) < 0 ? err_set(err, ERR_CONFLICT, "nobody reads")
                                                     : 0;
}

/* True when it was told to end. */
static bool fake_commit_held(const struct image_commit *commit)
{
    bool hold, off = false;

    pthread_mutex_lock(&fake_images.lock);
    fake_images.commits++;
    pthread_mutex_unlock(&fake_images.lock);
    do {
        pthread_mutex_lock(&fake_images.lock);
        hold = fake_images.hold_commit;
        pthread_mutex_unlock(&fake_images.lock);
        off =
            !fake_images.deaf_commit && commit->progress && commit->progress(NULL, commit->arg) < 0;
        if (hold)
            (void)poll(NULL, 0, 1);
    } while (hold && !off);
    return off;
}

int image_commit(struct image_store *s, const struct image_commit *commit, struct image **ret,
                 char **ret_warning, struct err *err)
{
    auto_free char *config = json_dumps(commit->config, JSON_COMPACT | JSON_SORT_KEYS);

    if (fake_images.on_commit)
        fake_images.on_commit();
    if (fake_commit_held(commit))
        return err_code(err, ERR_UNAVAILABLE, "cancelled", "ended");
    free(fake_images.committed);
    fake_images.committed = xasprintf("%s %s %u %s", commit->base_id,
                                      commit->name ? commit->name : "-", commit->ids_base, config);
    if (commit->made)
        commit->made(FAKE_ID, commit->arg);
    *ret_warning = NULL;
    return image_get(s, commit->name ? commit->name : FAKE_ID, ret, err);
}

/* A build's images are all the same one. */
int image_build(struct image_store *s, const struct image_build *b, struct image **ret,
                struct err *err)
{
    if (b->made)
        b->made(FAKE_ID, b->arg);
    return image_get_id(s, FAKE_ID, ret, err);
}

int image_build_digest(struct image_store *s, const struct image_build *b, char ret[DIGEST_HEX],
                       struct err *err)
{
    (void)s;
    (void)b;
    (void)err;
    memset(ret, 'a', DIGEST_HEX - 1);
    ret[DIGEST_HEX - 1] = '\0';
    return 0;
}

int image_context_file(struct image_store *s, int *ret_fd, struct err *err)
{
    (void)s;
    *ret_fd = memfd_create("context", MFD_CLOEXEC);
    return *ret_fd < 0 ? err_sys(err, errno, "memfd_create") : 0;
}

int image_context(struct image_store *s, const struct image_context *c, struct image **ret,
                  char **ret_text, struct err *err)
{
    if (c->made)
        c->made(FAKE_ID, c->arg);
    *ret_text = NULL;
    return image_get_id(s, FAKE_ID, ret, err);
}

int image_show(struct image_store *s, const char *id, const char *path, size_t max, char **ret,
               size_t *ret_len, struct err *err)
{
    (void)s;
    (void)id;
    (void)max;
    (void)ret;
    (void)ret_len;
    return err_code(err, ERR_NOT_FOUND, "file_not_found", "there is no file %s", path);
}

int image_layer_export(struct image_store *s, const char *id, int out_fd, struct err *err)
{
    (void)id;
    return image_export(s, "py", out_fd, err);
}

int image_layer_import(struct image_store *s, const char *base_id, const char *path,
                       void (*made)(const char *image_id, void *arg), void *arg, struct image **ret,
                       struct err *err)
{
    (void)base_id;
    (void)path;
    made(FAKE_ID, arg);
    return image_get(s, FAKE_ID, ret, err);
}

int image_changes(struct image_store *s, const struct image_changes *changes, struct err *err)
{
    (void)s;
    return changes->found(changes->arg, 'A', "/root/f", 0100644, 5, err);
}

unsigned image_own_layers(struct image_store *s, const char *id)
{
    (void)s;
    (void)id;
    return 1;
}

int image_flatten(struct image_store *s, const char *id,
                  void (*made)(const char *image_id, void *arg), void *arg, struct err *err)
{
    (void)s;
    (void)id;
    (void)made;
    (void)arg;
    (void)err;
    return 1;
}

int image_snapshot(struct image_store *s, const struct image_snapshot *snap, int64_t *ret_bytes,
                   unsigned *ret_own, char **ret_warning, struct err *err)
{
    (void)s;
    *ret_own = 1;
    if (snap->begin(snap->arg, err) < 0)
        return -1;
    fake_images.snapshots++;
    if (fake_images.on_commit)
        fake_images.on_commit();
    snap->end(snap->arg);
    if (fake_images.fail_snapshot)
        return err_set(err, ERR_INTERNAL, "it cannot be copied");
    snap->made(FAKE_ID, snap->arg);
    *ret_bytes = 4096;
    *ret_warning = NULL;
    return 0;
}

int image_tag(struct image_store *s, const char *name, const char *new_name, struct image **ret,
              struct err *err)
{
    (void)name;
    return image_get(s, new_name, ret, err);
}

int image_prune(struct image_store *s, const struct image_prune *prune, struct image ***ret_removed,
                unsigned *ret_n, int64_t *ret_bytes, struct err *err)
{
    (void)s, (void)err;
    pthread_mutex_lock(&fake_images.lock);
    strv_free(fake_images.pruned_but);
    fake_images.pruned_but = fake_copy(prune->used_ids);
    fake_images.keep_bytes = prune->keep_bytes;
    pthread_mutex_unlock(&fake_images.lock);
    *ret_removed = xcalloc(2, sizeof(**ret_removed));
    (*ret_removed)[0] = fake_image("old");
    *ret_n = 1;
    *ret_bytes = 5;
    return 0;
}

int image_remove(struct image_store *s, const char *name, bool in_use, struct err *err)
{
    (void)s, (void)name;
    if (in_use)
        return err_code(err, ERR_CONFLICT, "image_in_use", "in use");
    pthread_mutex_lock(&fake_images.lock);
    fake_images.removed = true;
    pthread_mutex_unlock(&fake_images.lock);
    return 0;
}

int image_collect(struct image_store *s, char *const *image_ids, struct err *err)
{
    (void)s, (void)err;
    pthread_mutex_lock(&fake_images.lock);
    strv_free(fake_images.kept);
    fake_images.kept = NULL;
    for (; *image_ids; image_ids++)
        fake_images.kept = strv_add(fake_images.kept, *image_ids);
    fake_images.collected++;
    pthread_mutex_unlock(&fake_images.lock);
    return 0;
}

int image_purge(struct image_store *s, struct err *err)
{
    (void)s, (void)err;
    return 0;
}

static __attribute__((unused)) bool fake_images_kept(const char *id)
{
    bool kept;

    pthread_mutex_lock(&fake_images.lock);
    kept = fake_has(fake_images.kept, id);
    pthread_mutex_unlock(&fake_images.lock);
    return kept;
}

static __attribute__((unused)) unsigned fake_images_count(const unsigned *counter)
{
    unsigned n;

    pthread_mutex_lock(&fake_images.lock);
    n = *counter;
    pthread_mutex_unlock(&fake_images.lock);
    return n;
}

static __attribute__((unused)) unsigned fake_images_collected(void)
{
    return fake_images_count(&fake_images.collected);
}

static __attribute__((unused)) void fake_images_hold(bool hold)
{
    pthread_mutex_lock(&fake_images.lock);
    fake_images.hold = hold;
    pthread_mutex_unlock(&fake_images.lock);
}

static __attribute__((unused)) void fake_images_deafen_commit(bool deaf)
{
    fake_images.deaf_commit = deaf; /* before one begins, or after it */
}

static __attribute__((unused)) void fake_images_hold_commit(bool hold)
{
    pthread_mutex_lock(&fake_images.lock);
    fake_images.hold_commit = hold;
    pthread_mutex_unlock(&fake_images.lock);
}

static __attribute__((unused)) void fake_images_reset(void)
{
    pthread_mutex_lock(&fake_images.lock);
    strv_free(fake_images.kept);
    strv_free(fake_images.pulled);
    strv_free(fake_images.pruned_but);
    free(fake_images.last_pull);
    free(fake_images.committed);
    fake_images.kept = fake_images.pulled = fake_images.pruned_but = NULL;
    fake_images.last_pull = fake_images.committed = NULL;
    fake_images.hold = fake_images.hold_commit = false;
    atomic_store(&fake_images.removed, false);
    fake_images.commits = 0;
    fake_images.collected = fake_images.pulls = fake_images.cancelled = fake_images.touched = 0;
    fake_images.failure = ERR_NONE;
    fake_images.vanish = 0;
    pthread_mutex_unlock(&fake_images.lock);
}
