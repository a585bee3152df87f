#include "engine/volumes.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/news_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/space_internal.h"
#include "engine/threads_internal.h"
#include "engine/volumes_internal.h"
#include "model/mount.h"
#include "runtime/runtime.h"
#include "store/documents.h"

#define REMOVE_WAIT_NS (2 * 1000000000ll)

struct volume {
    struct volume *next;
    char id[ID_SIZE];
    char *name;
    uint32_t size_mb;
    int64_t created_ms;
    unsigned pins;           /* with volumes.lock */
    bool gone;               /* and no longer in the list */
    pthread_mutex_t opening; /* fd and lease; the kernel is waited for */
    int fd;                  /* a mount of it; -1 = not open */
    uint64_t lease;          /* bytes more, as of the last look; 0 = none was given */
};

struct volumes {
    struct documents *documents;
    pthread_mutex_t changing; /* one create or remove at a time; the disk is waited for */
    pthread_mutex_t lock;     /* the list and pins; taken before the roster's */
    pthread_cond_t unpinned;
    struct volume *first; /* the oldest */
};

/* ---- the list; with the lock ---- */

static struct volume *add(struct volumes *vs, const json_t *document)
{
    const char *id = json_string_value(json_object_get(document, "id"));
    const char *name = json_string_value(json_object_get(document, "name"));
    struct volume **at = &vs->first, *v = xcalloc(1, sizeof(*v));

    memcpy(v->id, id, strlen(id) + 1);
    v->name = xstrdup(name ? name : id);
    v->size_mb = (uint32_t)json_integer_value(json_object_get(document, "sizeMb"));
    v->created_ms = json_integer_value(json_object_get(document, "createdAt"));
    v->fd = -1;
    (void)pthread_mutex_init(&v->opening, NULL);
    while (*at)
        at = &(*at)->next;
    *at = v;
    return v;
}

static void volume_free(struct volume *v)
{
    close_fd(&v->fd);
    (void)pthread_mutex_destroy(&v->opening);
    free(v->name);
    free(v);
}

static void take_out(struct volumes *vs, struct volume *v)
{
    struct volume **at = &vs->first;

    while (*at && *at != v)
        at = &(*at)->next;
    if (*at)
        *at = v->next;
    v->gone = true;
}

static int not_found(const char *word, struct err *err)
{
    return err_code(err, ERR_NOT_FOUND, "volume_not_found", "Volume not found: %.80s", word);
}

static int find(struct volumes *vs, const char *word, struct volume **ret, struct err *err)
{
    bool by_id = str_starts(word, VOLUME_ID_START);
    struct volume *found = NULL;

    for (struct volume *v = vs->first; v; v = v->next) {
        if (strcmp(by_id ? v->id : v->name, word) != 0)
            continue;
        if (found)
            return err_code(err, ERR_CONFLICT, "name_ambiguous",
                            "several volumes are called %.80s: %s, %s; use an id", word, found->id,
                            v->id);
        found = v;
    }
    if (!found)
        return not_found(word, err);
    *ret = found;
    return 0;
}

/* ---- who has it ---- */

static bool has_volume(struct sandbox *sb, const void *id)
{
    struct mount_spec m;
    bool yes = false;

    pthread_mutex_lock(&sb->lock);
    for (size_t i = 0; !yes && i < json_array_size(sb->spec.mounts); i++)
        yes = mount_spec_load(json_array_get(sb->spec.mounts, i), &m, NULL) == 0 &&
              m.type == MOUNT_VOLUME && strcmp(m.source, id) == 0;
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

static bool runs_with_volume(struct sandbox *sb, const void *id)
{
    bool runs;

    pthread_mutex_lock(&sb->lock);
    runs = sb->state == SANDBOX_CREATING || sb->state == SANDBOX_RUNNING ||
           sb->state == SANDBOX_PAUSED ||
           (sb->state == SANDBOX_STOPPED && (sb->quiet == QUIET_REST || sb->quiet == QUIET_BOX));
    pthread_mutex_unlock(&sb->lock);
    return runs && has_volume(sb, id);
}

struct sandbox **volume_users(struct engine *e, const char *id, size_t *ret_n)
{
    return roster_select(e, has_volume, id, 0, SIZE_MAX, ret_n, NULL);
}

static bool is_live(struct engine *e, const char *id)
{
    size_t n, total;
    auto_free struct sandbox **none = roster_select(e, runs_with_volume, id, 0, 0, &n, &total);

    return total > 0;
}

/* ---- pins ---- */

int volume_pin(struct engine *e, const char *word, struct volume **ret, struct err *err)
{
    struct volumes *vs = e->volumes;
    int r;

    (void)pthread_mutex_lock(&vs->lock);
    r = find(vs, word, ret, err);
    if (r == 0)
        (*ret)->pins++;
    (void)pthread_mutex_unlock(&vs->lock);
    return r;
}

/* Closing may write out what is not on the disk yet, so it is not done under the lock; who opens it
 * meanwhile waits for that. */
static void close_unused(struct engine *e, struct volume *v)
{
    bool used = true;

    (void)pthread_mutex_lock(&v->opening);
    if (v->fd >= 0) {
        (void)pthread_mutex_lock(&e->volumes->lock);
        used = v->pins > 1 || (!v->gone && is_live(e, v->id));
        (void)pthread_mutex_unlock(&e->volumes->lock);
    }
    if (!used) {
        close_fd(&v->fd);
        v->lease = 0;
    }
    (void)pthread_mutex_unlock(&v->opening);
}

void volume_unpin(struct engine *e, struct volume *v)
{
    bool last;

    if (!v)
        return;
    close_unused(e, v);
    (void)pthread_mutex_lock(&e->volumes->lock);
    last = --v->pins == 0 && v->gone;
    (void)pthread_cond_broadcast(&e->volumes->unpinned);
    (void)pthread_mutex_unlock(&e->volumes->lock);
    if (last)
        volume_free(v);
}

void volumes_settle(struct engine *e, const json_t *mounts)
{
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        struct volume *v = NULL;
        struct mount_spec m;

        if (mount_spec_load(json_array_get(mounts, i), &m, NULL) == 0 && m.type == MOUNT_VOLUME &&
            volume_pin(e, m.source, &v, NULL) == 0)
            volume_unpin(e, v);
    }
}

const char *volume_id(const struct volume *v)
{
    return v->id;
}

uint32_t volume_size_mb(const struct volume *v)
{
    return v->size_mb;
}

int volume_root(struct engine *e, struct volume *v, int *ret_fd, struct err *err)
{
    int r = 0;

    (void)pthread_mutex_lock(&v->opening);
    if (v->fd < 0)
        r = runtime_volume_open(e->runtime, v->id, -1, &v->fd, err);
    *ret_fd = v->fd;
    (void)pthread_mutex_unlock(&v->opening);
    return r < 0 ? err_wrap(err, "open the volume %s", v->id) : 0;
}

int volume_clone(struct engine *e, struct volume *v, int *ret_fd, struct err *err)
{
    int root;

    if (volume_root(e, v, &root, err) < 0)
        return -1;
    return runtime_volume_open(e->runtime, v->id, root, ret_fd, err);
}

/* ---- open, start ---- */

static bool is_volume(json_t *o)
{
    return json_unpack_ex(o, NULL, JSON_VALIDATE_ONLY, "{s:s, s:I, s:I}", "name", "sizeMb",
                          "createdAt") == 0;
}

int volumes_open(struct engine *e, struct err *err)
{
    struct volumes *vs = xcalloc(1, sizeof(*vs));
    json_t *all, *one;
    size_t i;

    e->volumes = vs;
    (void)pthread_mutex_init(&vs->changing, NULL);
    (void)pthread_mutex_init(&vs->lock, NULL);
    cond_init_monotonic(&vs->unpinned);
    if (documents_open(e->config.data_dir, "volumes", is_volume, &vs->documents, err) < 0)
        return -1;
    all = documents_all(vs->documents);
    json_array_foreach(all, i, one)(void) add(vs, one);
    json_decref(all);
    return 0;
}

void volumes_close(struct engine *e)
{
    struct volumes *vs = e->volumes;

    if (!vs)
        return;
    while (vs->first) {
        struct volume *v = vs->first;

        vs->first = v->next;
        volume_free(v);
    }
    documents_close(vs->documents);
    (void)pthread_mutex_destroy(&vs->changing);
    (void)pthread_mutex_destroy(&vs->lock);
    (void)pthread_cond_destroy(&vs->unpinned);
    free(vs);
    e->volumes = NULL;
}

/* A file that is somebody's and has no document: that was lost, and nobody removed the volume. */
static void take_back(struct engine *e, const char *id, struct err *err)
{
    struct disk_room room = {0};
    json_t *o;

    (void)runtime_volume_room(e->runtime, id, -1, &room, NULL);
    o = json_pack("{s:s, s:s, s:I, s:I}", "id", id, "name", id, "sizeMb",
                  (json_int_t)(room.size >> 20), "createdAt", (json_int_t)now_ms());
    (void)add(e->volumes, o);
    if (documents_put(e->volumes->documents, id, o, err) == 0)
        log_warn("the document of a volume was lost; it is called by its id now", "id", id);
}

static void sort_out(const char *id, enum volume_stage stage, void *arg)
{
    struct engine *e = arg;
    struct volume *v = NULL;
    struct err err = {0};

    (void)find(e->volumes, id, &v, NULL);
    if (stage == VOLUME_KEPT) {
        if (!v)
            take_back(e, id, &err);
    } else if (stage == VOLUME_NEW && v) {
        (void)runtime_volume_keep(e->runtime, id, &err);
    } else {
        if (v) {
            take_out(e->volumes, v);
            volume_free(v);
        }
        if (documents_delete(e->volumes->documents, id, &err) == 0)
            (void)runtime_volume_remove(e->runtime, id, &err);
    }
    if (err.kind != ERR_NONE)
        log_error("a volume could not be put in order", "id", id, "error", err.text);
}

void volumes_start(struct engine *e)
{
    runtime_volume_each(e->runtime, sort_out, e);
    for (const struct volume *v = e->volumes->first; v; v = v->next)
        space_promised(e, v->size_mb);
}

/* ---- what is told ---- */

static void tell_users(struct engine *e, const char *id, json_t *o)
{
    json_t *list = json_array(), *first;
    size_t n;
    auto_free struct sandbox **users = volume_users(e, id, &n);

    for (size_t i = n; i-- > 0; sandbox_unref(users[i])) {
        pthread_mutex_lock(&users[i]->lock);
        for (size_t k = 0; k < json_array_size(users[i]->spec.mounts); k++) {
            struct mount_spec m;

            if (mount_spec_load(json_array_get(users[i]->spec.mounts, k), &m, NULL) < 0 ||
                m.type != MOUNT_VOLUME || strcmp(m.source, id) != 0)
                continue;
            (void)json_array_append_new(list,
                                        json_pack("{s:s, s:s, s:b}", "sandboxId", users[i]->box.id,
                                                  "mountPath", m.path, "readOnly", m.read_only));
        }
        pthread_mutex_unlock(&users[i]->lock);
    }
    first = json_array_get(list, 0);
    if (first) {
        (void)json_object_set(o, "mountPath", json_object_get(first, "mountPath"));
        (void)json_object_set(o, "sandboxId", json_object_get(first, "sandboxId"));
    }
    (void)json_object_set_new(o, "attachments", list);
}

static json_t *volume_json(struct engine *e, const struct volume *v)
{
    struct disk_room room = {0};
    char size[24];
    json_t *o;

    (void)runtime_volume_room(e->runtime, v->id, -1, &room, NULL);
    (void)snprintf(size, sizeof(size), "%uMB", v->size_mb);
    o = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "id", v->id, "name", v->name,
                  "dockerVolumeName", v->id, "size", size, "sizeBytes",
                  (json_int_t)v->size_mb << 20, "usedBytes", (json_int_t)room.backed, "createdAt",
                  (json_int_t)v->created_ms);
    tell_users(e, v->id, o);
    return o;
}

void engine_volume_list(struct engine *e, json_t **ret)
{
    json_t *ids = json_array(), *list = json_array();

    (void)pthread_mutex_lock(&e->volumes->lock);
    for (const struct volume *v = e->volumes->first; v; v = v->next)
        (void)json_array_append_new(ids, json_string(v->id));
    (void)pthread_mutex_unlock(&e->volumes->lock);
    for (size_t i = json_array_size(ids); i-- > 0;) {
        json_t *one = NULL;

        if (engine_volume_get(e, json_string_value(json_array_get(ids, i)), &one, NULL) == 0)
            (void)json_array_append_new(list, one);
    }
    json_decref(ids);
    *ret = json_pack("{s:o}", "volumes", list);
}

int engine_volume_get(struct engine *e, const char *word, json_t **ret, struct err *err)
{
    struct volume *v = NULL;

    if (volume_pin(e, word, &v, err) < 0)
        return -1;
    *ret = volume_json(e, v);
    volume_unpin(e, v);
    return 0;
}

/* ---- create; with `changing` ---- */

static int check_name(const char *name, struct err *err)
{
    if (!name || !*name)
        return err_set(err, ERR_INVALID, "name is required and must not be empty");
    if (strlen(name) > VOLUME_NAME_MAX)
        return err_set(err, ERR_INVALID, "name must have at most %d bytes", VOLUME_NAME_MAX);
    if (str_starts(name, VOLUME_ID_START))
        return err_set(err, ERR_INVALID,
                       "the name of a volume must not begin with \"%s\": that is taken for an id",
                       VOLUME_ID_START);
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f || *c == '/' || *c == ':' || *c == ',')
            return err_set(err, ERR_INVALID,
                           "the name of a volume must have no / : , or control characters");
    return 0;
}

/* The file is made under a name that says that it is nobody's; it is the volume's once there is a
 * document. A start finishes what was between the two. */
static int make(struct engine *e, const char *id, const char *name, uint32_t size_mb,
                struct err *err)
{
    struct volumes *vs = e->volumes;
    json_t *o = json_pack("{s:s, s:s, s:I, s:I}", "id", id, "name", name, "sizeMb",
                          (json_int_t)size_mb, "createdAt", (json_int_t)now_ms());
    int r = runtime_volume_make(e->runtime, id, size_mb, err);

    if (r == 0)
        r = documents_put(vs->documents, id, json_incref(o), err);
    if (r == 0)
        r = runtime_volume_keep(e->runtime, id, err);
    if (r == 0) {
        (void)pthread_mutex_lock(&vs->lock);
        (void)add(vs, o);
        (void)pthread_mutex_unlock(&vs->lock);
    } else {
        (void)documents_delete(vs->documents, id, NULL);
        (void)runtime_volume_remove(e->runtime, id, NULL);
    }
    json_decref(o);
    return r;
}

size_t volumes_count(struct engine *e)
{
    return documents_count(e->volumes->documents);
}

static int create(struct engine *e, const char *name, uint32_t size_mb, char ret[ID_SIZE],
                  struct err *err)
{
    uint32_t size = size_mb ? size_mb : e->config.default_volume_mb;

    if (check_name(name, err) < 0)
        return -1;
    if (volumes_count(e) >= e->config.max_volumes)
        return err_code(err, ERR_LIMIT, "volume_limit",
                        "there are %u volumes, as many as there may be (CAY_MAX_VOLUMES): remove "
                        "one",
                        e->config.max_volumes);
    if (space_promise(e, size, size_mb != 0, err) < 0)
        return -1;
    id_new(ret, "vol");
    if (make(e, ret, name, size, err) == 0) {
        engine_tell(e, "volume.created", "",
                    json_pack("{s:s, s:s, s:I}", "volumeId", ret, "name", name ? name : ret,
                              "sizeMb", (json_int_t)size));
        return 0;
    }
    space_give(e, size);
    return err_wrap(err, "make a volume");
}

int engine_volume_create(struct engine *e, const char *name, uint32_t size_mb, json_t **ret,
                         struct err *err)
{
    char id[ID_SIZE];
    int r;

    (void)pthread_mutex_lock(&e->volumes->changing);
    r = create(e, name, size_mb, id, err);
    (void)pthread_mutex_unlock(&e->volumes->changing);
    return r < 0 ? -1 : engine_volume_get(e, id, ret, err);
}

int volume_pin_or_create(struct engine *e, const char *name, uint32_t size_mb, struct volume **ret,
                         struct err *err)
{
    struct err why = {0};
    char id[ID_SIZE];
    int r;

    (void)pthread_mutex_lock(&e->volumes->changing);
    r = volume_pin(e, name, ret, &why);
    if (r < 0 && why.kind != ERR_NOT_FOUND) {
        if (err)
            *err = why;
    } else if (r < 0) {
        r = create(e, name, size_mb, id, err);
        if (r == 0)
            r = volume_pin(e, id, ret, err);
    }
    (void)pthread_mutex_unlock(&e->volumes->changing);
    return r;
}

/* ---- remove ---- */

static int in_use(struct engine *e, const struct volume *v, struct err *err)
{
    char ids[3 * (ID_SIZE + 2)] = "";
    size_t n;
    auto_free struct sandbox **users = volume_users(e, v->id, &n);

    for (size_t i = 0; i < n; sandbox_unref(users[i++])) {
        size_t len = strlen(ids);

        if (i < 3)
            (void)snprintf(ids + len, sizeof(ids) - len, "%s%s", len ? ", " : "", users[i]->box.id);
    }
    if (n > 0)
        return err_code(err, ERR_CONFLICT, "volume_in_use",
                        "%zu sandbox%s %s %.80s: %s%s; detach it or remove them first", n,
                        n == 1 ? "" : "es", n == 1 ? "has" : "have", v->name, ids,
                        n > 3 ? " and more" : "");
    if (v->pins > 1)
        return err_code(err, ERR_CONFLICT, "volume_in_use", "somebody uses %.80s at this moment",
                        v->name);
    return 0;
}

/* Most are at it for a moment only: a look at the host's disk, or the end of a sandbox. With the
 * lock, which is given back meanwhile. */
static void await_others(struct volumes *vs, const struct volume *v)
{
    int64_t until = mono_ns() + REMOVE_WAIT_NS;
    struct timespec at = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};

    while (v->pins > 1 && pthread_cond_timedwait(&vs->unpinned, &vs->lock, &at) == 0)
        ;
}

/* From the rename on it is removed, whatever happens: a start goes on with that. */
static int remove_pinned(struct engine *e, struct volume *v, struct err *err)
{
    struct volumes *vs = e->volumes;
    int r;

    (void)pthread_mutex_lock(&vs->lock);
    await_others(vs, v);
    r = v->gone ? not_found(v->id, err) : in_use(e, v, err);
    if (r == 0)
        take_out(vs, v); /* nobody can pin it any more */
    (void)pthread_mutex_unlock(&vs->lock);
    if (r < 0)
        return -1;
    if (runtime_volume_doom(e->runtime, v->id, err) < 0) {
        (void)pthread_mutex_lock(&vs->lock);
        v->gone = false;
        v->next = vs->first;
        vs->first = v;
        (void)pthread_mutex_unlock(&vs->lock);
        return -1;
    }
    space_give(e, v->size_mb);
    if (documents_delete(vs->documents, v->id, err) < 0)
        return -1;
    return runtime_volume_remove(e->runtime, v->id, err);
}

int engine_volume_remove(struct engine *e, const char *word, char **ret_id, struct err *err)
{
    struct volume *v = NULL;
    int r;

    (void)pthread_mutex_lock(&e->volumes->changing);
    r = volume_pin(e, word, &v, err);
    if (r == 0) {
        r = remove_pinned(e, v, err);
        if (r == 0) {
            *ret_id = xstrdup(v->id);
            engine_tell(e, "volume.removed", "", json_pack("{s:s}", "volumeId", v->id));
        }
        volume_unpin(e, v);
    }
    (void)pthread_mutex_unlock(&e->volumes->changing);
    return r;
}

/* ---- the host's disk ---- */

struct each_volume {
    uint64_t more; /* of a lease */
    uint64_t sum;
};

/* Calls f for each, which is pinned meanwhile. One that comes or goes meanwhile may be left out. */
static void each(struct engine *e, struct each_volume *arg,
                 void (*f)(struct engine *e, struct volume *v, struct each_volume *arg))
{
    struct volumes *vs = e->volumes;
    struct volume *v, *next;

    (void)pthread_mutex_lock(&vs->lock);
    v = vs->first;
    if (v)
        v->pins++;
    (void)pthread_mutex_unlock(&vs->lock);
    for (; v; v = next) {
        f(e, v, arg);
        (void)pthread_mutex_lock(&vs->lock);
        next = v->gone ? NULL : v->next;
        if (next)
            next->pins++;
        (void)pthread_mutex_unlock(&vs->lock);
        volume_unpin(e, v);
    }
}

static void add_backed(struct engine *e, struct volume *v, struct each_volume *arg)
{
    struct disk_room room;
    uint64_t max = (uint64_t)v->size_mb << 20;

    if (runtime_volume_room(e->runtime, v->id, -1, &room, NULL) == 0)
        arg->sum += room.backed < max ? room.backed : max;
}

static void add_debt(struct engine *e, struct volume *v, struct each_volume *arg)
{
    struct disk_room room;

    (void)pthread_mutex_lock(&v->opening);
    if (v->fd >= 0 && runtime_volume_room(e->runtime, v->id, v->fd, &room, NULL) == 0 &&
        room.used > room.backed)
        arg->sum += room.used - room.backed;
    (void)pthread_mutex_unlock(&v->opening);
}

static void give_lease(struct engine *e, struct volume *v, struct each_volume *arg)
{
    struct err err = {0};

    (void)pthread_mutex_lock(&v->opening);
    if (v->fd >= 0 && (arg->more != LEASE_ANY || v->lease != LEASE_ANY)) {
        v->lease = arg->more;
        if (runtime_volume_lease(e->runtime, v->id, v->fd, arg->more, &err) < 0)
            log_warn("what is written to a volume cannot be bounded while the host's disk is low",
                     "id", v->id, "error", err.text);
    }
    (void)pthread_mutex_unlock(&v->opening);
}

uint64_t volumes_backed(struct engine *e)
{
    struct each_volume arg = {0};

    each(e, &arg, add_backed);
    return arg.sum;
}

uint64_t volumes_debt(struct engine *e)
{
    struct each_volume arg = {0};

    each(e, &arg, add_debt);
    return arg.sum;
}

void volumes_lease(struct engine *e, uint64_t more)
{
    struct each_volume arg = {.more = more};

    each(e, &arg, give_lease);
}
