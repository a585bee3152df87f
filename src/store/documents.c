#include "store/documents.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/json_file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#define SUFFIX ".json"
#define ASIDE  ".damaged"

struct documents {
    int dir;
    pthread_mutex_t writing; /* one file at a time, so that memory and disk agree */
    pthread_mutex_t lock;    /* by_id; never held while the disk is waited for */
    json_t *by_id;
    bool (*is_one)(json_t *o);
    bool some_aside;
    size_t bytes; /* as texts; with the lock */
};

static size_t bytes_of(const json_t *o)
{
    return o ? json_dumpb(o, NULL, 0, JSON_COMPACT) : 0;
}

/* Takes o; NULL = it goes. With the lock, but for a start. */
static void set(struct documents *d, const char *id, json_t *o)
{
    d->bytes += bytes_of(o) - bytes_of(json_object_get(d->by_id, id));
    if (o)
        (void)json_object_set_new(d->by_id, id, o);
    else
        (void)json_object_del(d->by_id, id);
}

static void set_aside(struct documents *d, const char *file, const struct err *why)
{
    auto_free char *to = xasprintf("%s" ASIDE, file);

    log_error("a document is damaged and is set aside", "file", to, "error", why->text);
    (void)renameat(d->dir, file, d->dir, to);
    d->some_aside = true;
}

/* Whoever reads it, and whenever: what only cannot be read now may well be whole. */
static bool is_damage(const struct err *why)
{
    return why->sys == 0 || why->sys == EISDIR || why->sys == ELOOP || why->sys == ENXIO ||
           why->sys == EFBIG;
}

static int load(struct documents *d, const char *file, struct err *ret_err)
{
    auto_free char *id = xstrndup(file, strlen(file) - strlen(SUFFIX));
    struct err err = {0};
    json_t *o = NULL;

    if (json_file_read(d->dir, file, &o, &err) == 0) {
        const char *said = json_string_value(json_object_get(o, "id"));

        if (said && strcmp(said, id) == 0 && strlen(id) < ID_SIZE && (!d->is_one || d->is_one(o))) {
            set(d, id, o);
            return 0;
        }
        json_decref(o);
        (void)err_set(&err, ERR_INTERNAL, "it is not the document of %s", id);
    }
    if (!is_damage(&err)) {
        *ret_err = err;
        return -1;
    }
    set_aside(d, file, &err);
    return 0;
}

static int load_all(struct documents *d, struct err *err)
{
    int fd = openat(d->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    int r = 0;

    if (!dir) {
        (void)err_sys(err, errno, "read a folder of documents");
        close_fd(&fd);
        return -1;
    }
    while (r == 0 && (errno = 0, e = readdir(dir)))
        if (str_ends(e->d_name, SUFFIX))
            r = load(d, e->d_name, err);
        else if (str_ends(e->d_name, ASIDE))
            d->some_aside = true;
        else if (str_starts(e->d_name, "tmp_"))
            (void)unlinkat(d->dir, e->d_name, 0); /* of a daemon that ended while it wrote */
    if (r == 0 && errno != 0)
        r = err_sys(err, errno, "read a folder of documents");
    (void)closedir(dir);
    return r;
}

int documents_open(const char *data_dir, const char *folder, bool (*is_one)(json_t *o),
                   struct documents **ret, struct err *err)
{
    struct documents *d = xcalloc(1, sizeof(*d));
    auto_free char *path = xasprintf("%s/%s", data_dir, folder);

    d->by_id = json_object();
    d->is_one = is_one;
    (void)pthread_mutex_init(&d->writing, NULL);
    (void)pthread_mutex_init(&d->lock, NULL);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        (void)err_sys(err, errno, "make %s", path);
    d->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->dir < 0)
        (void)err_sys(err, errno, "open %s", path);
    if (d->dir < 0 || (load_all(d, err) < 0 && err_wrap(err, "%s", path) < 0)) {
        documents_close(d);
        return -1;
    }
    *ret = d;
    return 0;
}

void documents_close(struct documents *d)
{
    if (!d)
        return;
    close_fd(&d->dir);
    json_decref(d->by_id);
    (void)pthread_mutex_destroy(&d->writing);
    (void)pthread_mutex_destroy(&d->lock);
    free(d);
}

bool documents_some_aside(const struct documents *d)
{
    return d->some_aside;
}

json_t *documents_get(struct documents *d, const char *id)
{
    json_t *o;

    (void)pthread_mutex_lock(&d->lock);
    o = json_deep_copy(json_object_get(d->by_id, id));
    (void)pthread_mutex_unlock(&d->lock);
    return o;
}

static json_int_t made(const json_t *o)
{
    return json_integer_value(json_object_get(o, "createdAt"));
}

static int by_age(const void *a, const void *b)
{
    const json_t *left = *(json_t *const *)a, *right = *(json_t *const *)b;

    if (made(left) != made(right))
        return made(left) < made(right) ? -1 : 1;
    return strcmp(json_string_value(json_object_get(left, "id")),
                  json_string_value(json_object_get(right, "id")));
}

json_t *documents_all(struct documents *d)
{
    json_t *all = json_array(), **sorted, *o;
    const char *id;
    size_t n = 0;

    (void)pthread_mutex_lock(&d->lock);
    sorted = xcalloc(json_object_size(d->by_id) + 1, sizeof(*sorted));
    json_object_foreach(d->by_id, id, o)
    {
        sorted[n++] = o;
    }
    qsort(sorted, n, sizeof(*sorted), by_age);
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(all, json_deep_copy(sorted[i]));
    (void)pthread_mutex_unlock(&d->lock);
    free(sorted);
    return all;
}

size_t documents_count(struct documents *d)
{
    size_t n;

    (void)pthread_mutex_lock(&d->lock);
    n = json_object_size(d->by_id);
    (void)pthread_mutex_unlock(&d->lock);
    return n;
}

/* A file can be there that is not sure to outlive a power cut. Its writer is told that nothing has
 * changed, and lets go of what it names. */
static void put_back(struct documents *d, const char *id, const char *file)
{
    json_t *before = documents_get(d, id);

    if (before)
        (void)json_file_write(d->dir, file, before, NULL);
    else
        (void)unlinkat(d->dir, file, 0);
}

size_t documents_bytes(struct documents *d)
{
    size_t n;

    (void)pthread_mutex_lock(&d->lock);
    n = d->bytes;
    (void)pthread_mutex_unlock(&d->lock);
    return n;
}

int documents_put(struct documents *d, const char *id, json_t *o, struct err *err)
{
    auto_free char *file = xasprintf("%s" SUFFIX, id);
    int r;

    (void)pthread_mutex_lock(&d->writing);
    r = json_file_write(d->dir, file, json_incref(o), err);
    if (r == 0) {
        (void)pthread_mutex_lock(&d->lock);
        set(d, id, o);
        (void)pthread_mutex_unlock(&d->lock);
    } else {
        json_decref(o);
        put_back(d, id, file);
        (void)err_no_space(err, "free some space on the host");
    }
    (void)pthread_mutex_unlock(&d->writing);
    return r;
}

int documents_delete(struct documents *d, const char *id, struct err *err)
{
    auto_free char *file = xasprintf("%s" SUFFIX, id);
    int r = 0;

    (void)pthread_mutex_lock(&d->writing);
    if ((unlinkat(d->dir, file, 0) < 0 && errno != ENOENT) || fsync(d->dir) < 0)
        r = err_sys(err, errno, "remove the document of %s", id);
    (void)pthread_mutex_lock(&d->lock);
    if (faccessat(d->dir, file, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        set(d, id, NULL);
    (void)pthread_mutex_unlock(&d->lock);
    (void)pthread_mutex_unlock(&d->writing);
    return r;
}
