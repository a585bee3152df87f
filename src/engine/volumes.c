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

/* From pins on with volumes.lock. */
struct volume {
    struct volume *next;
    char id[ID_SIZE];
    char *name;
    uint32_t size_mb;
    int64_t created_ms;
    unsigned pins;
    bool gone;      /* and no longer in the list */
    bool removing;  /* by one thread */
    bool mounting;  /* one thread mounts or unmounts it, without the lock */
    int fd;         /* a mount of it; -1 = none. While it is pinned, nobody closes it */
    uint64_t lease; /* bytes more, as of the last look; 0 = none was given */
};

/* A volume that is being made: not in the list yet. */
struct making {
    struct making *next;
    const char *name;
};

/* The disk is waited for without the lock, and what one volume waits for delays no other: a mount
 * can take as long as a check of its filesystem. */
struct volumes {
    struct documents *documents;
    pthread_mutex_t lock; /* all below, and in each volume; taken before the roster's */
    pthread_cond_t changed;
    struct volume *first; /* the oldest */
    size_t n;             /* how many are in the list */
    struct making *making;
    size_t n_making;
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
    while (*at)
        at = &(*at)->next;
    *at = v;
    vs->n++;
    return v;
}

static void volume_free(struct volume *v)
{
    close_fd(&v->fd);
    free(v->name);
    free(v);
}

static void take_out(struct volumes *vs, struct volume *v)
{
    struct volume **at = &vs->first;

    while (*at && *at != v)
        at = &(*at)->next;
    if (*at) {
        *at = v->next;
        vs->n--;
    }
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

/* With the lock, which is given back meanwhile: closing may write out what is not on the disk yet.
 */
static void close_mount(struct volumes *vs, struct volume *v)
{
    int fd = steal_fd(v->fd);

    v->lease = 0;
    v->mounting = true;
    (void)pthread_mutex_unlock(&vs->lock);
    close_fd(&fd);
    (void)pthread_mutex_lock(&vs->lock);
    v->mounting = false;
}

/* The last one closes it, unless a sandbox that runs has it. */
void volume_unpin(struct engine *e, struct volume *v)
{
    struct volumes *vs = e->volumes;
    bool last;

    if (!v)
        return;
    (void)pthread_mutex_lock(&vs->lock);
    if (v->pins == 1 && v->fd >= 0 && (v->gone || !is_live(e, v->id)))
        close_mount(vs, v);
    last = --v->pins == 0 && v->gone;
    (void)pthread_cond_broadcast(&vs->changed);
    (void)pthread_mutex_unlock(&vs->lock);
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
    struct volumes *vs = e->volumes;
    int r = 0, fd = -1;

    (void)pthread_mutex_lock(&vs->lock);
    while (v->mounting)
        (void)pthread_cond_wait(&vs->changed, &vs->lock);
    if (v->fd < 0) {
        v->mounting = true;
        (void)pthread_mutex_unlock(&vs->lock);
        r = runtime_volume_open(e->runtime, v->id, -1, &fd, err);
        (void)pthread_mutex_lock(&vs->lock);
        v->mounting = false;
        v->fd = r < 0 ? -1 : fd;
        (void)pthread_cond_broadcast(&vs->changed);
    }
    *ret_fd = v->fd;
    (void)pthread_mutex_unlock(&vs->lock);
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
    (void)pthread_mutex_init(&vs->lock, NULL);
    cond_init_monotonic(&vs->changed);
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
    (void)pthread_mutex_destroy(&vs->lock);
    (void)pthread_cond_destroy(&vs->changed);
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

/* ---- create ---- */

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
                struct volume **ret, struct err *err)
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
        *ret = add(vs, o);
        (*ret)->pins++;
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

/* With the lock. */
static bool is_being_made(const struct volumes *vs, const char *name)
{
    for (const struct making *m = vs->making; m; m = m->next)
        if (strcmp(m->name, name) == 0)
            return true;
    return false;
}

/* With the lock. It counts from here on; create() must follow. */
static int begin_making(struct engine *e, struct making *m, const char *name, struct err *err)
{
    struct volumes *vs = e->volumes;

    if (check_name(name, err) < 0)
        return -1;
    if (vs->n + vs->n_making >= e->config.max_volumes)
        return err_code(err, ERR_LIMIT, "volume_limit",
                        "there are %u volumes, as many as there may be (CAY_MAX_VOLUMES): remove "
                        "one",
                        e->config.max_volumes);
    *m = (struct making){.next = vs->making, .name = name};
    vs->making = m;
    vs->n_making++;
    return 0;
}

static void end_making(struct volumes *vs, struct making *m)
{
    struct making **at = &vs->making;

    (void)pthread_mutex_lock(&vs->lock);
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    vs->n_making--;
    (void)pthread_cond_broadcast(&vs->changed);
    (void)pthread_mutex_unlock(&vs->lock);
}

/* *ret is pinned. */
static int create(struct engine *e, struct making *m, uint32_t size_mb, struct volume **ret,
                  struct err *err)
{
    uint32_t size = size_mb ? size_mb : e->config.default_volume_mb;
    char id[ID_SIZE];
    int r = space_promise(e, size, size_mb != 0, err);

    if (r == 0) {
        id_new(id, "vol");
        r = make(e, id, m->name, size, ret, err);
        if (r < 0) {
            space_give(e, size);
            (void)err_wrap(err, "make a volume");
        }
    }
    if (r == 0)
        engine_tell(e, "volume.created", "",
                    json_pack("{s:s, s:s, s:I}", "volumeId", id, "name", m->name, "sizeMb",
                              (json_int_t)size));
    end_making(e->volumes, m);
    return r;
}

int engine_volume_create(struct engine *e, const char *name, uint32_t size_mb, json_t **ret,
                         struct err *err)
{
    struct volume *v = NULL;
    struct making m;
    int r;

    (void)pthread_mutex_lock(&e->volumes->lock);
    r = begin_making(e, &m, name, err);
    (void)pthread_mutex_unlock(&e->volumes->lock);
    if (r < 0 || create(e, &m, size_mb, &v, err) < 0)
        return -1;
    *ret = volume_json(e, v);
    volume_unpin(e, v);
    return 0;
}

/* 1 = there is none, and the caller makes it. With the lock, which is given back while another
 * makes one of that name. */
static int pin_or_begin(struct engine *e, const char *name, struct making *m, struct volume **ret,
                        struct err *err)
{
    struct volumes *vs = e->volumes;
    struct err why = {0};
    int r;

    while ((r = find(vs, name, ret, &why)) < 0 && why.kind == ERR_NOT_FOUND &&
           is_being_made(vs, name))
        (void)pthread_cond_wait(&vs->changed, &vs->lock);
    if (r == 0)
        (*ret)->pins++;
    else if (why.kind == ERR_NOT_FOUND)
        return begin_making(e, m, name, err) < 0 ? -1 : 1;
    else if (err)
        *err = why;
    return r;
}

int volume_pin_or_create(struct engine *e, const char *name, uint32_t size_mb, struct volume **ret,
                         struct err *err)
{
    struct making m;
    int r;

    (void)pthread_mutex_lock(&e->volumes->lock);
    r = pin_or_begin(e, name, &m, ret, err);
    (void)pthread_mutex_unlock(&e->volumes->lock);
    return r == 1 ? create(e, &m, size_mb, ret, err) : r;
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

    while (v->pins > 1 && pthread_cond_timedwait(&vs->changed, &vs->lock, &at) == 0)
        ;
}

/* From the rename on it is removed, whatever happens: a start goes on with that. */
static int remove_pinned(struct engine *e, struct volume *v, struct err *err)
{
    struct volumes *vs = e->volumes;
    int r;

    (void)pthread_mutex_lock(&vs->lock);
    await_others(vs, v);
    r = in_use(e, v, err);
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
        vs->n++;
        (void)pthread_mutex_unlock(&vs->lock);
        return -1;
    }
    space_give(e, v->size_mb);
    if (documents_delete(vs->documents, v->id, err) < 0)
        return -1;
    return runtime_volume_remove(e->runtime, v->id, err);
}

/* One thread removes it at a time: two would wait for each other's pins. */
static int pin_to_remove(struct volumes *vs, const char *word, struct volume **ret, struct err *err)
{
    int r;

    (void)pthread_mutex_lock(&vs->lock);
    while ((r = find(vs, word, ret, err)) == 0 && (*ret)->removing)
        (void)pthread_cond_wait(&vs->changed, &vs->lock);
    if (r == 0) {
        (*ret)->removing = true;
        (*ret)->pins++;
    }
    (void)pthread_mutex_unlock(&vs->lock);
    return r;
}

int engine_volume_remove(struct engine *e, const char *word, char **ret_id, struct err *err)
{
    struct volumes *vs = e->volumes;
    struct volume *v = NULL;
    int r;

    if (pin_to_remove(vs, word, &v, err) < 0)
        return -1;
    r = remove_pinned(e, v, err);
    if (r == 0) {
        *ret_id = xstrdup(v->id);
        engine_tell(e, "volume.removed", "", json_pack("{s:s}", "volumeId", v->id));
    }
    (void)pthread_mutex_lock(&vs->lock);
    v->removing = false;
    (void)pthread_mutex_unlock(&vs->lock);
    volume_unpin(e, v);
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
    int fd;

    (void)pthread_mutex_lock(&e->volumes->lock);
    fd = v->fd;
    (void)pthread_mutex_unlock(&e->volumes->lock);
    if (fd >= 0 && runtime_volume_room(e->runtime, v->id, fd, &room, NULL) == 0 &&
        room.used > room.backed)
        arg->sum += room.used - room.backed;
}

static void give_lease(struct engine *e, struct volume *v, struct each_volume *arg)
{
    struct err err = {0};
    int fd = -1;

    (void)pthread_mutex_lock(&e->volumes->lock);
    if (v->fd >= 0 && (arg->more != LEASE_ANY || v->lease != LEASE_ANY)) {
        fd = v->fd;
        v->lease = arg->more;
    }
    (void)pthread_mutex_unlock(&e->volumes->lock);
    if (fd >= 0 && runtime_volume_lease(e->runtime, v->id, fd, arg->more, &err) < 0)
        log_warn("what is written to a volume cannot be bounded while the host's disk is low", "id",
                 v->id, "error", err.text);
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
