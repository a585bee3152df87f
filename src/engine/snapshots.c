#include "engine/snapshots.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/images.h"
#include "engine/images_used_internal.h"
#include "engine/json_text_internal.h"
#include "engine/news_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/snapshots_internal.h"
#include "image/image.h"
#include "model/limits.h"
#include "model/sandbox.h"
#include "store/documents.h"

#define LABELS_BYTES_MAX 65536
#define AVERAGE_MAX      (32u << 10) /* bytes of a document, over as many as there may be */

/* The document is written when the image is there, and goes before it: whenever the daemon ends,
 * there is a whole snapshot or none, and an image that no document has goes at the next start. */

struct snapshots {
    struct documents *documents;
    pthread_mutex_t lock; /* coming, and who changes a document */
    size_t coming;        /* that are being made */
};

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

static bool is_snapshot(json_t *o)
{
    return json_unpack_ex(o, NULL, JSON_VALIDATE_ONLY, "{s:s, s:s, s:I, s:I, s:{}, s:{}}", "name",
                          "imageId", "size", "createdAt", "config", "labels") == 0;
}

int snapshots_open(struct engine *e, struct err *err)
{
    struct snapshots *s = xcalloc(1, sizeof(*s));
    json_t *all, *one;
    size_t i;

    e->snapshots = s;
    (void)pthread_mutex_init(&s->lock, NULL);
    if (documents_open(e->config.data_dir, "snapshots", is_snapshot, &s->documents, err) < 0)
        return -1;
    if (documents_some_aside(s->documents))
        images_doubt(e, "snapshots");
    all = documents_all(s->documents);
    json_array_foreach(all, i, one)
    {
        engine_image_hold(e, text_of(one, "imageId"));
    }
    json_decref(all);
    return 0;
}

void snapshots_close(struct snapshots *s)
{
    if (!s)
        return;
    documents_close(s->documents);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---- look ---- */

static int not_found(const char *word, struct err *err)
{
    return err_code(err, ERR_NOT_FOUND, "snapshot_not_found", "Snapshot not found: %.80s", word);
}

static int ambiguous(const char *name, const json_t *one, const json_t *other, struct err *err)
{
    return err_code(err, ERR_CONFLICT, "name_ambiguous",
                    "several snapshots are called %.80s: %s, %s; give an id", name,
                    text_of(one, "id"), text_of(other, "id"));
}

/* Where several have the name, the one that is of the sandbox. */
static int find_name(struct engine *e, const char *name, const char *sandbox_id, json_t **ret,
                     struct err *err)
{
    json_t *all = documents_all(e->snapshots->documents), *one;
    json_t *found[2] = {NULL}, *own[2] = {NULL}; /* the first, and a later one */
    size_t i;
    int r = 0;

    json_array_foreach(all, i, one)
    {
        if (strcmp(text_of(one, "name"), name) != 0)
            continue;
        found[found[0] != NULL] = one;
        if (sandbox_id && strcmp(text_of(one, "sandboxId"), sandbox_id) == 0)
            own[own[0] != NULL] = one;
    }
    if (!found[0])
        r = not_found(name, err);
    else if (own[1])
        r = ambiguous(name, own[0], own[1], err);
    else if (found[1] && !own[0])
        r = ambiguous(name, found[0], found[1], err);
    else
        *ret = json_incref(own[0] ? own[0] : found[0]);
    json_decref(all);
    return r;
}

int snapshot_find_for(struct engine *e, const char *id, const char *sandbox_id, json_t **ret,
                      struct err *err)
{
    json_t *o = id_valid(id, "snap") ? documents_get(e->snapshots->documents, id) : NULL;

    if (!o)
        return find_name(e, id, sandbox_id, ret, err);
    *ret = o;
    return 0;
}

int snapshot_find(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    return snapshot_find_for(e, id, NULL, ret, err);
}

int snapshot_hold(struct engine *e, const char *id, const char *sandbox_id, json_t **ret,
                  struct err *err)
{
    int r;

    pthread_mutex_lock(&e->snapshots->lock);
    r = snapshot_find_for(e, id, sandbox_id, ret, err);
    if (r == 0)
        engine_image_hold(e, text_of(*ret, "imageId"));
    pthread_mutex_unlock(&e->snapshots->lock);
    return r;
}

void snapshot_let_go(struct engine *e, json_t *o)
{
    if (o)
        engine_image_let_go(e, text_of(o, "imageId"));
    json_decref(o);
}

/* The document as callers get it: iii's clients have its id as snapshotId too. */
static json_t *snapshot_json(json_t *o)
{
    (void)json_object_set(o, "snapshotId", json_object_get(o, "id"));
    return o;
}

int engine_snapshot_get(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    if (snapshot_find(e, id, ret, err) < 0)
        return -1;
    (void)snapshot_json(*ret);
    return 0;
}

static bool has_labels(const json_t *o, const json_t *wanted)
{
    const json_t *labels = json_object_get(o, "labels");
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)wanted, key, value)
    {
        if (!json_equal(json_object_get(labels, key), value))
            return false;
    }
    return true;
}

void engine_snapshot_list(struct engine *e, const char *sandbox_id, const json_t *labels,
                          json_t **ret)
{
    json_t *all = documents_all(e->snapshots->documents), *list = json_array();

    for (size_t i = json_array_size(all); i-- > 0;) {
        json_t *one = json_array_get(all, i);

        if ((!sandbox_id || strcmp(text_of(one, "sandboxId"), sandbox_id) == 0) &&
            has_labels(one, labels))
            (void)json_array_append(list, snapshot_json(one));
    }
    json_decref(all);
    *ret = json_pack("{s:o}", "snapshots", list);
}

/* ---- make ---- */

static int check_texts(const char *name, const json_t *labels, struct err *err)
{
    size_t bytes = 0;
    const char *key;
    json_t *value;

    if (name && (strlen(name) > SANDBOX_NAME_MAX || !*name))
        return err_set(err, ERR_INVALID, "name must have 1 to %d bytes", SANDBOX_NAME_MAX);
    if (name && str_starts(name, "snap_"))
        return err_set(err, ERR_INVALID, "a name that begins with \"snap_\" is taken for an id");
    json_object_foreach((json_t *)(uintptr_t)labels, key, value)
    {
        bytes += strlen(key) + json_string_length(value);
    }
    if (bytes > LABELS_BYTES_MAX)
        return err_set(err, ERR_TOO_LARGE, "labels must be at most %d bytes in total",
                       LABELS_BYTES_MAX);
    return 0;
}

/* Each keeps the labels, metadata and environment of a sandbox, and lists have them all. */
static int check_bytes(struct engine *e, struct err *err)
{
    uint64_t most = (uint64_t)e->config.max_snapshots * AVERAGE_MAX;

    if (documents_bytes(e->snapshots->documents) < most)
        return 0;
    return err_code(err, ERR_LIMIT, "snapshot_limit",
                    "labels, metadata and environments of the snapshots have %llu KiB, which is as "
                    "much as they may: remove some (`cay snapshot rm`), or raise CAY_MAX_SNAPSHOTS",
                    (unsigned long long)(most >> 10));
}

size_t snapshots_count(struct engine *e)
{
    return documents_count(e->snapshots->documents);
}

/* A place among those that there may be. */
static int reserve(struct engine *e, struct err *err)
{
    struct snapshots *s = e->snapshots;
    bool full;

    if (e->config.max_snapshots > 0 && check_bytes(e, err) < 0)
        return -1;
    pthread_mutex_lock(&s->lock);
    full = documents_count(s->documents) + s->coming >= e->config.max_snapshots;
    s->coming += !full;
    pthread_mutex_unlock(&s->lock);
    if (!full)
        return 0;
    return err_code(err, ERR_LIMIT, "snapshot_limit",
                    "there are %u snapshots, which is as many as there may be: remove some "
                    "(`cay snapshot rm`), or raise CAY_MAX_SNAPSHOTS",
                    e->config.max_snapshots);
}

static void unreserve(struct engine *e)
{
    pthread_mutex_lock(&e->snapshots->lock);
    e->snapshots->coming--;
    pthread_mutex_unlock(&e->snapshots->lock);
}

static json_t *document_of(const struct snapshot_new *new, const char *id)
{
    json_t *o = json_object();

    (void)json_object_set_new(o, "id", json_cstr(id));
    (void)json_object_set_new(o, "sandboxId", json_cstr(new->sandbox_id));
    (void)json_object_set_new(o, "name", json_cstr(new->name ? new->name : id));
    (void)json_object_set_new(o, "imageId", json_cstr(new->image_id));
    (void)json_object_set_new(o, "size", json_integer(new->bytes));
    (void)json_object_set_new(o, "createdAt", json_integer(now_ms()));
    if (json_object_get(new->config, "entrypoint"))
        (void)json_object_set(o, "entrypoint", json_object_get(new->config, "entrypoint"));
    if (json_object_get(new->config, "metadata"))
        (void)json_object_set(o, "metadata", json_object_get(new->config, "metadata"));
    (void)json_object_set(o, "config", new->config);
    (void)json_object_set_new(o, "labels",
                              new->labels ? json_deep_copy(new->labels) : json_object());
    return o;
}

static int put(struct engine *e, const struct snapshot_new *new, json_t **ret, struct err *err)
{
    char id[ID_SIZE];
    json_t *o, *shown;

    id_new(id, "snap");
    o = document_of(new, id);
    shown = json_deep_copy(o);
    if (documents_put(e->snapshots->documents, id, o, err) < 0) {
        json_decref(shown);
        return -1;
    }
    engine_tell(e, "snapshot.created", new->sandbox_id,
                json_pack("{s:s, s:s, s:s}", "snapshotId", id, "name", text_of(shown, "name"),
                          "sandboxId", new->sandbox_id));
    *ret = snapshot_json(shown);
    return 0;
}

int snapshot_add(struct engine *e, const struct snapshot_new *new, json_t **ret, struct err *err)
{
    int r = check_texts(new->name, new->labels, err);

    if (r == 0)
        r = reserve(e, err);
    if (r == 0) {
        r = put(e, new, ret, err);
        unreserve(e);
    }
    if (r < 0)
        engine_image_let_go(e, new->image_id);
    return r;
}

/* With a place. */
static int make(struct engine *e, struct sandbox *sb, const char *name, const json_t *labels,
                json_t **ret, struct err *err)
{
    struct snapshot_new new = {.sandbox_id = sb->box.id, .name = name, .labels = labels};
    auto_free char *warning = NULL;
    int r;

    /* Who has not waited finds it in the list. */
    if (snapshot_take(e, sb, NULL, &new.image_id, &new.bytes, &warning, err) < 0)
        return -1;
    pthread_mutex_lock(&sb->lock);
    new.config = sandbox_spec_json(&sb->spec);
    pthread_mutex_unlock(&sb->lock);
    r = put(e, &new, ret, err);
    if (r < 0)
        engine_image_let_go(e, new.image_id);
    else if (image_own_layers(e->images, new.image_id) > FLAT_MAX)
        flattener_wake(e);
    if (r == 0)
        json_add_warning(*ret, warning);
    json_decref(new.config);
    free(new.image_id);
    return r;
}

int engine_snapshot(struct engine *e, const char *sandbox_id, const char *name,
                    const json_t *labels, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    int r;

    if (sandbox_get(e, sandbox_id, &sb, err) < 0 || check_texts(name, labels, err) < 0 ||
        reserve(e, err) < 0)
        return -1;
    r = make(e, sb, name, labels, ret, err);
    unreserve(e);
    if (r == 0)
        sandbox_tell(e, sb, "sandbox.snapshot",
                     json_pack("{s:s}", "snapshotId", text_of(*ret, "id")));
    return r;
}

/* ---- change ---- */

static bool adds_labels(const json_t *changes)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)changes, key, value)
    {
        if (*json_string_value(value))
            return true;
    }
    return false;
}

static void merge_labels(json_t *o, const json_t *changes)
{
    json_t *labels = json_object_get(o, "labels"), *value;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)changes, key, value)
    {
        if (*json_string_value(value))
            (void)json_object_set(labels, key, value);
        else
            (void)json_object_del(labels, key);
    }
}

int engine_snapshot_label(struct engine *e, const char *id, const char *name, const json_t *labels,
                          json_t **ret, struct err *err)
{
    json_t *o, *shown;
    int r;

    if (check_texts(name, labels, err) < 0 || (adds_labels(labels) && check_bytes(e, err) < 0))
        return -1;
    pthread_mutex_lock(&e->snapshots->lock);
    r = snapshot_find(e, id, &o, err);
    if (r == 0) {
        if (name)
            (void)json_object_set_new(o, "name", json_cstr(name));
        merge_labels(o, labels);
        r = check_texts(NULL, json_object_get(o, "labels"), err);
        if (r == 0) {
            shown = json_deep_copy(o);
            r = documents_put(e->snapshots->documents, text_of(shown, "id"), o, err);
            if (r == 0)
                *ret = snapshot_json(shown);
            else
                json_decref(shown);
        } else {
            json_decref(o);
        }
    }
    pthread_mutex_unlock(&e->snapshots->lock);
    return r;
}

int snapshot_swap_image(struct engine *e, const char *id, const char *old_id, const char *new_id,
                        struct err *err)
{
    const char *unwanted = new_id;
    json_t *o;
    int r = -1;

    pthread_mutex_lock(&e->snapshots->lock);
    o = documents_get(e->snapshots->documents, id);
    if (o && strcmp(text_of(o, "imageId"), old_id) == 0) {
        (void)json_object_set_new(o, "imageId", json_cstr(new_id));
        r = documents_put(e->snapshots->documents, id, o, err);
        unwanted = r == 0 ? old_id : new_id;
    } else {
        json_decref(o);
        (void)not_found(id, err);
    }
    pthread_mutex_unlock(&e->snapshots->lock);
    engine_image_let_go(e, unwanted);
    return r;
}

int engine_snapshot_delete(struct engine *e, const char *id, char **ret_id, struct err *err)
{
    json_t *o = NULL;
    int r;

    pthread_mutex_lock(&e->snapshots->lock);
    r = snapshot_find(e, id, &o, err);
    if (r == 0)
        r = documents_delete(e->snapshots->documents, text_of(o, "id"), err);
    pthread_mutex_unlock(&e->snapshots->lock);
    if (r == 0) {
        engine_image_let_go(e, text_of(o, "imageId"));
        *ret_id = xstrdup(text_of(o, "id"));
        engine_tell(
            e, "snapshot.removed", text_of(o, "sandboxId"),
            json_pack("{s:s, s:s}", "snapshotId", *ret_id, "sandboxId", text_of(o, "sandboxId")));
    }
    json_decref(o);
    return r;
}
