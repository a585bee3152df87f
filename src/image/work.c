/* A worker makes layers in a folder of its own, layers/tmp_…; when it has told what it made, they
 * are put in place under the lock. Whatever ends it before that, the folder goes and nothing was
 * seen. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/remove.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/layer.h"

#define LOST_MAX 2 /* then collections wait for it */

int work_begin(struct image_store *s, struct work *w, struct err *err)
{
    if (s->worker < 0)
        return err_set(err, ERR_INTERNAL, "this program has no image worker");
    *w = (struct work){.store = s};
    id_new(w->tmp, "tmp");
    if (mkdirat(s->layers, w->tmp, 0700) < 0) {
        (void)err_sys(err, errno, "make a folder for the image worker");
        return err_no_space(err, NO_SPACE_ADVICE);
    }
    (void)pthread_mutex_lock(&s->lock);
    w->began = s->collected;
    w->next = s->works;
    s->works = w;
    (void)pthread_mutex_unlock(&s->lock);
    return 0;
}

int work_again(struct work *w, struct err *err)
{
    int r = remove_tree(w->store->layers, w->tmp);

    if (r < 0)
        return err_sys(err, -r, "remove what an image worker left");
    if (mkdirat(w->store->layers, w->tmp, 0700) < 0)
        return err_sys(err, errno, "make a folder for the image worker");
    (void)pthread_mutex_lock(&w->store->lock);
    w->began = w->store->collected;
    w->alone = w->lost >= LOST_MAX;
    (void)pthread_mutex_unlock(&w->store->lock);
    return 0;
}

bool work_lost(struct work *w)
{
    bool again = w->gone && work_again(w, NULL) == 0;

    w->gone = false;
    return again;
}

static void unlist(struct work *w)
{
    struct image_store *s = w->store;
    struct work **at = &s->works;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    if (!s->works) {
        free(steal_ptr(s->gone));
        s->n_gone = 0;
    }
}

void work_end(struct work *w)
{
    struct image_store *s = w->store;
    int r = remove_tree(s->layers, w->tmp);

    if (r < 0)
        log_warn("what an image worker left is still on disk; the next start tries again", "folder",
                 w->tmp, "error", strerror(-r));
    (void)pthread_mutex_lock(&s->lock);
    unlist(w);
    (void)pthread_mutex_unlock(&s->lock);
}

int work_run(struct work *w, json_t *request, int fd, image_progress progress, void *arg,
             json_t **ret_image, struct err *err)
{
    struct image_store *s = w->store;
    json_t *cap = json_object_get(s->registries, "max_bytes"), *done, *image;

    (void)json_object_set_new(request, "tmp", json_string(w->tmp));
    if (!json_object_get(request, "max_bytes"))
        (void)json_object_set_new(
            request, "max_bytes",
            json_integer(cap ? json_integer_value(cap) : (json_int_t)LAYER_MAX_BYTES));
    (void)json_object_set_new(request, "max_entries", json_integer(LAYER_MAX_ENTRIES));
    if (worker_run(s->worker, s->layers, fd, request, progress, arg, &done, err) < 0)
        return -1;
    image = json_incref(json_object_get(done, "image"));
    json_decref(done);
    *ret_image = image;
    return 0;
}

/* "made" is the name of a layer in the worker's folder; without it the layer was here before. */
static int put_layer(struct work *w, int tmpfd, const char *dir, const json_t *made,
                     struct err *err)
{
    const char *name = json_string_value(json_object_get(made, "made"));
    struct stat st;

    /* A path here would lead out of the folder. */
    if (name && (strchr(name, '/') || name[0] == '.' || name[0] == '\0'))
        return err_set(err, ERR_INTERNAL, "the image worker names a layer that cannot be");
    if (name && renameat2(tmpfd, name, w->store->layers, dir, RENAME_NOREPLACE) < 0 &&
        errno != EEXIST) /* another worker was faster: what is left here goes with the folder */
        return err_sys(err, errno, "put a layer in its place");
    if (!name && gone_since(w->store, dir, w->began)) {
        w->gone = true;
        w->lost++;
        return err_set(err, ERR_UNAVAILABLE, "a layer that was here was removed; try again");
    }
    if (fstatat(w->store->layers, dir, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
        return err_set(err, ERR_INTERNAL, "a layer that was here is gone; try again");
    return 0;
}

static int put_layers(struct work *w, const struct record *r, const json_t *made, struct err *err)
{
    auto_close int tmpfd =
        openat(w->store->layers, w->tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const json_t *layers = json_object_get(made, "layers");

    if (tmpfd < 0)
        return err_sys(err, errno, "open the image worker's folder");
    for (size_t i = 0; i < r->n_layers; i++)
        if (put_layer(w, tmpfd, r->layers[i].dir, json_array_get(layers, i), err) < 0)
            return -1;
    if (fsync(w->store->layers) < 0)
        return err_sys(err, errno, "sync the layers");
    return 0;
}

static struct name name_of(const struct record *r, const json_t *made, const char *origin)
{
    const char *digest = json_string_value(json_object_get(made, "digest"));
    struct name n = {.digest = xstrdup(digest ? digest : ""), .origin = xstrdup(origin)};

    memcpy(n.id, r->id, DIGEST_HEX);
    n.pulled_ms = n.used_ms = now_ms();
    return n;
}

static int check_names(const struct image_store *s, const struct record *r, char *const *names,
                       struct err *err)
{
    for (; *names; names++) {
        auto_name struct name n = {0};

        if (names_read(s->names, *names, &n, NULL) == 0 && strcmp(n.id, r->id) != 0)
            return err_code(err, ERR_CONFLICT, "image_exists",
                            "the archive calls its image %.100s, which is the name of another one "
                            "here: give that name to replace it, or a new one",
                            *names);
    }
    return 0;
}

/* Rule 1 of image.c. */
static int put_all(struct work *w, struct record *r, const json_t *made, struct name *n,
                   char *const *names, struct image **ret, struct err *err)
{
    struct image_store *s = w->store;
    const char *document = json_string_value(json_object_get(made, "document"));

    if (!document)
        return err_set(err, ERR_INTERNAL, "the image worker left out the configuration");
    if (w->keep_names && check_names(s, r, names, err) < 0)
        return -1;
    if (room_check(s, names, r->id, err) < 0 || put_layers(w, r, made, err) < 0 ||
        records_write(s->records, r, document, err) < 0)
        return -1;
    for (size_t i = strv_len(names); i > 0; i--) { /* the first one last: it is the one told */
        free(n->name);
        n->name = xstrdup(names[i - 1]);
        if (names_write(s->names, n, err) < 0)
            return -1;
    }
    return store_image(s, n, r, ret, err);
}

int work_publish(struct work *w, const json_t *made, const char *origin, char *const *names,
                 struct image **ret, struct err *err)
{
    auto_record struct record r = {0};
    auto_name struct name n = {0};
    int failed;

    if (record_parse(made, &r, err) < 0)
        return err_wrap(err, "what the image worker made");
    n = name_of(&r, made, origin);
    n.name = xasprintf(DIGEST_PREFIX "%s", r.id); /* where it gets none */
    (void)pthread_mutex_lock(&w->store->lock);
    failed = put_all(w, &r, made, &n, names, ret, err);
    (void)pthread_mutex_unlock(&w->store->lock);
    return failed;
}
