#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/mounts_internal.h"
#include "engine/news_internal.h"
#include "engine/quiet_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/turn_internal.h"
#include "engine/volumes.h"
#include "engine/volumes_internal.h"
#include "engine/writer_internal.h"
#include "model/sandbox.h"

/* Volumes come and go in sandboxes that are there. All of it is done in the sandbox's turn. */

#define HOLDERS_MAX 16 /* processes that are told */

static json_t *mounts_of(struct sandbox *sb)
{
    json_t *mounts;

    pthread_mutex_lock(&sb->lock);
    mounts = json_incref(sb->spec.mounts);
    pthread_mutex_unlock(&sb->lock);
    return mounts;
}

/* Takes mounts, and gives those before. */
static json_t *swap_mounts(struct sandbox *sb, json_t *mounts)
{
    json_t *before;

    pthread_mutex_lock(&sb->lock);
    before = sb->spec.mounts;
    sb->spec.mounts = mounts;
    pthread_mutex_unlock(&sb->lock);
    return before;
}

/* Takes mounts; stored when it returns, else all is as it was. */
static int set_mounts(struct engine *e, struct sandbox *sb, json_t *mounts, struct err *err)
{
    json_t *before = swap_mounts(sb, mounts);
    int r = writer_wait(e, writer_put(e, sb), err);

    if (r < 0)
        before = swap_mounts(sb, before);
    json_decref(before);
    return r;
}

/* Has it a box now? A stopped one may, for its files, which a start goes on with. */
static int check_state(struct engine *e, struct sandbox *sb, bool *ret_lives, struct err *err)
{
    enum sandbox_state state;

    pthread_mutex_lock(&sb->lock);
    state = sb->state;
    pthread_mutex_unlock(&sb->lock);
    *ret_lives = state == SANDBOX_RUNNING || state == SANDBOX_PAUSED ||
                 (state == SANDBOX_STOPPED && quiet_has_box(e, sb));
    if (sandbox_is_committing(sb))
        return sandbox_stands_still(err);
    return *ret_lives || state == SANDBOX_STOPPED ? 0 : sandbox_check_running(sb, err);
}

static int mount_now(struct engine *e, struct sandbox *sb, const struct mount_spec *m,
                     struct err *err)
{
    struct box_mount open;
    int r;

    if (mount_open(e, m, &open, err) < 0)
        return -1;
    r = runtime_attach(e->runtime, &sb->box, &open, err);
    close_fd(&open.fd);
    return r;
}

/* The row first: a start mounts what is missing, so that a daemon that is killed in between has
 * attached it. */
static int attach_in_turn(struct engine *e, struct sandbox *sb, const struct mount_spec *m,
                          struct err *err)
{
    json_t *old = mounts_of(sb);
    bool lives;
    int r = check_state(e, sb, &lives, err);

    if (r == 0)
        r = mount_check_others(old, m, true, err);
    if (r == 0)
        r = set_mounts(e, sb, mounts_with(old, m), err);
    if (r == 0 && lives) {
        r = mount_now(e, sb, m, err);
        if (r < 0)
            (void)set_mounts(e, sb, json_incref(old), NULL);
    }
    json_decref(old);
    return r;
}

static int attach_pinned(struct engine *e, struct volume *v, const struct volume_attach *a,
                         json_t **ret, struct err *err)
{
    auto_free char *path = NULL, *sub = NULL;
    auto_sandbox struct sandbox *sb = NULL;
    struct mount_spec m = {.type = MOUNT_VOLUME,
                           .source = volume_id(v),
                           .read_only = a->read_only,
                           .noexec = a->noexec};
    int r;

    if (mount_check_path(a->mount_path, &path, err) < 0 ||
        mount_check_sub(a->sub_path, &sub, err) < 0 ||
        sandbox_get(e, a->sandbox_id, &sb, err) < 0 || turn_take(e, &sb->turn, err) < 0)
        return -1;
    m.path = path;
    m.sub = sub;
    r = attach_in_turn(e, sb, &m, err);
    if (r == 0)
        engine_tell(e, "volume.attached", sb->box.id,
                    json_pack("{s:s, s:s, s:s, s:b}", "sandboxId", sb->box.id, "volumeId",
                              volume_id(v), "mountPath", path, "readOnly", a->read_only));
    turn_give(&sb->turn);
    if (r == 0)
        *ret = json_pack("{s:b, s:s, s:s, s:s}", "attached", 1, "mountPath", path, "sandboxId",
                         sb->box.id, "volumeId", volume_id(v));
    return r;
}

int engine_volume_attach(struct engine *e, const char *word, const struct volume_attach *a,
                         json_t **ret, struct err *err)
{
    struct volume *v = NULL;
    int r;

    if (volume_pin(e, word, &v, err) < 0)
        return -1;
    r = attach_pinned(e, v, a, ret, err);
    volume_unpin(e, v);
    return r;
}

/* ---- detach ---- */

/* Which of a sandbox's mounts is meant: its place, or -1. */
static int find_attached(const json_t *mounts, const char *id, const char *path,
                         struct mount_spec *ret, struct err *err)
{
    struct mount_spec m;
    int found = -1;

    for (size_t i = 0; i < json_array_size(mounts); i++) {
        if (mount_spec_load(json_array_get(mounts, i), &m, err) < 0)
            return -1;
        if (m.type != MOUNT_VOLUME || strcmp(m.source, id) != 0 ||
            (path && strcmp(path, m.path) != 0))
            continue;
        if (found >= 0)
            return err_code(err, ERR_CONFLICT, "volume_ambiguous",
                            "the sandbox has the volume at %.80s and %.80s: say which with "
                            "mountPath",
                            ret->path, m.path);
        found = (int)i;
        *ret = m;
    }
    if (found < 0)
        return err_code(err, ERR_CONFLICT, "volume_not_attached",
                        path ? "the volume is not mounted there" : "the volume is not attached");
    return found;
}

static int check_inner(const json_t *mounts, const struct mount_spec *m, struct err *err)
{
    struct mount_spec other;

    for (size_t i = 0; i < json_array_size(mounts); i++)
        if (mount_spec_load(json_array_get(mounts, i), &other, NULL) == 0 &&
            strcmp(other.path, m->path) != 0 && path_is_below(other.path, m->path))
            return err_code(err, ERR_CONFLICT, "volume_busy",
                            "%.100s is mounted below it: that has to go first", other.path);
    return 0;
}

static int tell_holders(struct engine *e, struct sandbox *sb, uint64_t device, const char *path,
                        json_t **ret, struct err *err)
{
    struct box_holder held[HOLDERS_MAX];
    size_t n = runtime_holders(e->runtime, &sb->box, device, held, HOLDERS_MAX);
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(list,
                                    json_pack("{s:I, s:s, s:s}", "pid", (json_int_t)held[i].pid,
                                              "command", held[i].command, "path", held[i].path));
    *ret = json_pack("{s:o}", "processes", list);
    if (n == 0)
        return err_code(err, ERR_CONFLICT, "volume_busy",
                        "%.100s is in use, by what cannot be named", path);
    return err_code(
        err, ERR_CONFLICT, "volume_busy", "%.60s is in use: process %lld (%.40s) has %.60s open%s",
        path, (long long)held[0].pid, held[0].command, held[0].path, n > 1 ? ", and others" : "");
}

/* Where a volume is in a sandbox; NULL = nowhere. -1: that cannot be told. */
static int find_mounted(struct engine *e, struct sandbox *sb, dev_t device,
                        const struct mount_spec *m, char **ret, struct err *err)
{
    errno = 0;
    *ret = runtime_find_mount(e->runtime, &sb->box, device, m->sub, m->path);
    if (!*ret && errno != 0)
        return err_sys(err, errno, "look at what is mounted in %s", sb->box.id);
    return 0;
}

/* Sandboxes can rename what it is mounted at and what is mounted of it: whatever there is of it is
 * taken then, since each mount there belongs to a row. */
static int find_of_any_name(struct engine *e, struct sandbox *sb, dev_t device,
                            const struct mount_spec *m, char **ret, struct err *err)
{
    const struct mount_spec any = {0};

    if (find_mounted(e, sb, device, m, ret, err) < 0)
        return -1;
    return *ret ? 0 : find_mounted(e, sb, device, &any, ret, err);
}

/* Who had a file open may close it between the two: so it is tried once more. */
static int unmount_unless_held(struct engine *e, struct sandbox *sb, const char *at, dev_t device,
                               const struct mount_spec *m, json_t **ret, struct err *err)
{
    struct err why = {0};
    int r = runtime_detach(e->runtime, &sb->box, at, device, &why);

    /* The launcher that has gone may have done it, or may be about to: then it is done again. */
    if (r < 0 && why.code && strcmp(why.code, "launcher_lost") == 0)
        r = runtime_detach(e->runtime, &sb->box, at, device, &why);
    if (r < 0 && why.code && strcmp(why.code, "volume_busy") == 0) {
        if (tell_holders(e, sb, device, m->path, ret, &why) < 0 &&
            json_array_size(json_object_get(*ret, "processes")) == 0 &&
            runtime_detach(e->runtime, &sb->box, at, device, NULL) == 0) {
            json_decref(*ret);
            *ret = NULL;
            r = 0;
        }
    }
    if (r < 0 && err)
        *err = why;
    return r;
}

static int unmount_now(struct engine *e, struct sandbox *sb, struct volume *v,
                       const struct mount_spec *m, json_t **ret, struct err *err)
{
    auto_free char *at = NULL, *still = NULL;
    struct stat st;
    int root, r;

    if (volume_root(e, v, &root, err) < 0)
        return -1;
    if (fstat(root, &st) < 0)
        return err_sys(err, errno, "look at the volume");
    if (find_of_any_name(e, sb, st.st_dev, m, &at, err) < 0)
        return -1;
    if (!at)
        return 0; /* it was not mounted, and shall not be */
    r = unmount_unless_held(e, sb, at, st.st_dev, m, ret, err);
    if (r < 0 && !*ret && find_of_any_name(e, sb, st.st_dev, m, &still, NULL) == 0 && !still)
        r = 0; /* it is done, and only the word of that was lost */
    if (r == 0)
        (void)syncfs(root); /* what was written there is there for the next */
    return r;
}

/* The row last: a daemon that is killed in between mounts it again. */
static int detach_in_turn(struct engine *e, struct sandbox *sb, struct volume *v, const char *path,
                          json_t **ret, struct err *err)
{
    json_t *old = mounts_of(sb), *rest;
    struct err why = {0};
    struct mount_spec m;
    bool lives;
    int r = check_state(e, sb, &lives, err), at = -1;

    if (r == 0)
        r = at = find_attached(old, volume_id(v), path, &m, err);
    if (r >= 0)
        r = check_inner(old, &m, err);
    if (r == 0 && lives)
        r = unmount_now(e, sb, v, &m, ret, err);
    if (r == 0) {
        rest = json_deep_copy(old);
        (void)json_array_remove(rest, (size_t)at);
        r = set_mounts(e, sb, rest, err);
        if (r < 0 && lives && mount_now(e, sb, &m, &why) < 0)
            log_warn("a volume that could not be detached is not mounted until the next start",
                     "id", sb->box.id, "volume", volume_id(v), "error", why.text);
    }
    if (r == 0) {
        *ret = json_pack("{s:b, s:s, s:s, s:s}", "detached", 1, "sandboxId", sb->box.id, "volumeId",
                         volume_id(v), "mountPath", m.path);
        engine_tell(e, "volume.detached", sb->box.id,
                    json_pack("{s:s, s:s, s:s}", "sandboxId", sb->box.id, "volumeId", volume_id(v),
                              "mountPath", m.path));
    }
    json_decref(old);
    return r;
}

/* The only one that has it, when none was named. */
static int only_user(struct engine *e, const char *id, struct sandbox **ret, struct err *err)
{
    size_t n;
    auto_free struct sandbox **users = volume_users(e, id, &n);
    int r = 0;

    if (n == 0)
        r = err_code(err, ERR_CONFLICT, "volume_not_attached",
                     "no sandbox has the volume attached");
    else if (n > 1)
        r = err_code(err, ERR_CONFLICT, "volume_ambiguous",
                     "%zu sandboxes have the volume: say which with sandboxId (%s, %s%s)", n,
                     users[0]->box.id, users[1]->box.id, n > 2 ? " …" : "");
    else
        *ret = sandbox_ref(users[0]);
    for (size_t i = 0; i < n; i++)
        sandbox_unref(users[i]);
    return r;
}

static int detach_pinned(struct engine *e, struct volume *v, const char *sandbox_id,
                         const char *mount_path, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *path = NULL;
    int r;

    if (mount_path && mount_check_path(mount_path, &path, err) < 0)
        return -1;
    if ((sandbox_id ? sandbox_get(e, sandbox_id, &sb, err) : only_user(e, volume_id(v), &sb, err)) <
            0 ||
        turn_take(e, &sb->turn, err) < 0)
        return -1;
    r = detach_in_turn(e, sb, v, path, ret, err);
    turn_give(&sb->turn);
    return r;
}

int engine_volume_detach(struct engine *e, const char *word, const char *sandbox_id,
                         const char *mount_path, json_t **ret, struct err *err)
{
    struct volume *v = NULL;
    int r;

    if (volume_pin(e, word, &v, err) < 0)
        return -1;
    r = detach_pinned(e, v, sandbox_id, mount_path, ret, err);
    volume_unpin(e, v);
    return r;
}

/* ---- after a restart ---- */

static int recover_one(struct engine *e, struct sandbox *sb, const struct mount_spec *m,
                       struct err *err)
{
    auto_free char *at = NULL;
    struct volume *v = NULL;
    struct stat st;
    int root, r;

    if (volume_pin(e, m->source, &v, err) < 0)
        return -1;
    r = volume_root(e, v, &root, err);
    if (r == 0 && fstat(root, &st) < 0)
        r = err_sys(err, errno, "look at the volume");
    if (r == 0)
        r = find_mounted(e, sb, st.st_dev, m, &at, err);
    if (r == 0 && !at)
        r = mount_now(e, sb, m, err);
    volume_unpin(e, v);
    return r;
}

void mounts_recover(struct engine *e, struct sandbox *sb)
{
    json_t *mounts = mounts_of(sb);

    for (size_t i = 0; i < json_array_size(mounts); i++) {
        struct err err = {0};
        struct mount_spec m;

        if (mount_spec_load(json_array_get(mounts, i), &m, &err) == 0 && m.type == MOUNT_VOLUME &&
            recover_one(e, sb, &m, &err) < 0)
            log_error("a volume could not be mounted again", "id", sb->box.id, "volume", m.source,
                      "error", err.text);
    }
    json_decref(mounts);
}
