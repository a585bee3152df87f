/* <data>/images:
 *   names/<name>.json   what a name means (names.c)
 *   layers/<sha256>/    one layer each; tmp_… while it is being made
 *   host/<sha256>/      the host image's own layer, a new one whenever the machine's /etc changed
 *
 * The folder is closed to everyone but root: layers hold setuid programs of strangers. */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/image_internal.h"

/* What an interrupted import or write left. */
static int remove_leftovers(int dirfd, struct err *err)
{
    auto_strv char **names = NULL;

    if (tree_names(dirfd, LAYER_MAX_ENTRIES, &names, err) < 0)
        return -1;
    for (char **name = names; *name; name++) {
        int r = id_valid(*name, "tmp") ? tree_remove(dirfd, *name) : 0;

        if (r < 0)
            return err_sys(err, -r, "remove %s, which an interrupted import left", *name);
    }
    return 0;
}

static int open_folders(struct image_store *s, const char *data_dir, struct err *err)
{
    auto_close int data = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char real[PATH_MAX];

    if (data < 0 || !realpath(data_dir, real))
        return err_sys(err, errno, "open the data folder %s", data_dir);
    s->path = xasprintf("%s/images", real);
    if (tree_open_dir(data, "images", 0700, &s->dir, err) < 0 ||
        tree_open_dir(s->dir, "layers", 0700, &s->layers, err) < 0 ||
        tree_open_dir(s->dir, "names", 0700, &s->names, err) < 0 ||
        tree_open_dir(s->dir, "host", 0700, &s->host, err) < 0)
        return -1;
    return 0;
}

int image_store_open(const char *data_dir, struct image_store **ret, struct err *err)
{
    struct image_store *s = xcalloc(1, sizeof(*s));

    s->dir = s->layers = s->names = s->host = -1;
    (void)pthread_mutex_init(&s->lock, NULL);
    s->opened_ms = now_ms();
    if (open_folders(s, data_dir, err) < 0 || remove_leftovers(s->layers, err) < 0 ||
        remove_leftovers(s->names, err) < 0 || remove_leftovers(s->host, err) < 0 ||
        host_layer(s->host, &s->host_layer, &s->host_binds, err) < 0) {
        image_store_free(s);
        return err_wrap(err, "image store");
    }
    *ret = s;
    return 0;
}

void image_store_free(struct image_store *s)
{
    if (!s)
        return;
    close_fd(&s->dir);
    close_fd(&s->layers);
    close_fd(&s->names);
    close_fd(&s->host);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->host_layer);
    strv_free(s->host_binds);
    strv_free(s->aside_layers);
    strv_free(s->aside_host);
    free(s->path);
    free(s);
}

void image_free(struct image *image)
{
    if (!image)
        return;
    free(image->name);
    free(image->id);
    strv_free(image->layers);
    strv_free(image->binds);
    strv_free(image->env);
    free(image->workdir);
    free(image->user);
    free(image);
}

void image_locate(const struct image_store *s, struct image *image)
{
    for (char **l = image->layers; *l; l++) {
        char *path = xasprintf("%s/layers/%s", s->path, *l);

        free(*l);
        *l = path;
    }
}

static struct image *host_image(const struct image_store *s)
{
    auto_free char *layer = xasprintf("%s/host/%s", s->path, s->host_layer);
    struct image *image = xcalloc(1, sizeof(*image));

    image->name = xstrdup("host");
    image->id = xstrdup("host");
    image->layers = strv_add(NULL, layer);
    image->binds = xcalloc(1, sizeof(*image->binds));
    for (char **b = s->host_binds; *b; b++)
        image->binds = strv_add(image->binds, *b);
    image->env = strv_add(strv_add(NULL, IMAGE_PATH), "LANG=C.UTF-8");
    image->workdir = xstrdup("");
    image->user = xstrdup("");
    image->created_ms = s->opened_ms;
    return image;
}

static int stored_image(struct image_store *s, const char *name, struct image **ret,
                        struct err *err)
{
    struct image *image;
    struct stat st;

    if (names_read(s->names, name, &image, err) < 0)
        return -1;
    for (char **l = image->layers; *l; l++) {
        if (fstatat(s->layers, *l, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
            continue;
        image_free(image);
        return err_set(err, ERR_INTERNAL, "a layer of the image %s is gone; import it again", name);
    }
    image_locate(s, image);
    *ret = image;
    return 0;
}

int image_get(struct image_store *s, const char *name, struct image **ret, struct err *err)
{
    char shown[96];
    int r;

    if (!image_name_valid(name))
        return err_code(err, ERR_INVALID, "bad_image_name",
                        "\"%s\" is not an image name: use letters, digits and . _ - / : @",
                        printable(name, shown));
    if (strcmp(name, "host") == 0) {
        *ret = host_image(s);
        return 0;
    }
    (void)pthread_mutex_lock(&s->lock);
    r = stored_image(s, name, ret, err);
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}

int image_list(struct image_store *s, struct image ***ret, unsigned *ret_n, struct err *err)
{
    auto_strv char **names = NULL;
    struct image **images;
    unsigned n = 0;
    int r;

    (void)pthread_mutex_lock(&s->lock);
    r = names_list(s->names, &names, err);
    (void)pthread_mutex_unlock(&s->lock);
    if (r < 0)
        return -1;
    images = xcalloc(strv_len(names) + 1, sizeof(struct image *));
    images[n++] = host_image(s);
    for (char **name = names; *name; name++) {
        struct err e = {0};

        if (image_get(s, *name, &images[n], &e) == 0)
            n++;
        else if (e.kind != ERR_NOT_FOUND) /* removed meanwhile */
            log_warn("image left out of the list", "image", *name, "error", e.text);
    }
    *ret = images;
    *ret_n = n;
    return 0;
}

int image_remove(struct image_store *s, const char *name, bool in_use, struct err *err)
{
    struct image *image = NULL;
    int r;

    if (strcmp(name, "host") == 0)
        return err_code(err, ERR_FORBIDDEN, "image_reserved",
                        "\"host\" is this machine itself and cannot be removed");
    if (image_get(s, name, &image, err) < 0 && err && err->kind != ERR_INTERNAL)
        return -1; /* a damaged one can be removed */
    image_free(image);
    if (in_use)
        return err_code(err, ERR_CONFLICT, "image_in_use",
                        "sandboxes made from %s are still here; remove them first (`cay ls`)",
                        name);
    (void)pthread_mutex_lock(&s->lock);
    r = names_remove(s->names, name, err);
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}

static bool is_listed(char *const *v, const char *prefix, const char *s)
{
    size_t n = strlen(prefix);

    for (; v && *v; v++)
        if (str_starts(*v, prefix) && strcmp(*v + n, s) == 0)
            return true;
    return false;
}

/* Every layer that a name stands for. A damaged name could stand for any, so it ends the search. */
static int named_layers(struct image_store *s, char ***ret, struct err *err)
{
    auto_strv char **names = NULL;
    auto_strv char **layers = xcalloc(1, sizeof(*layers));

    if (names_list(s->names, &names, err) < 0)
        return -1;
    for (char **name = names; *name; name++) {
        struct image *image;

        if (names_read(s->names, *name, &image, err) < 0)
            return -1;
        for (char **l = image->layers; *l; l++)
            layers = strv_add(layers, *l);
        image_free(image);
    }
    *ret = steal_ptr(layers);
    return 0;
}

/* Under a name that stands for nothing, and that the next start removes if we do not. */
static int set_aside(int dirfd, const char *layer, char ***aside, struct err *err)
{
    char tmp[ID_SIZE];

    id_new(tmp, "tmp");
    if (renameat(dirfd, layer, dirfd, tmp) < 0)
        return err_sys(err, errno, "set the unused layer %s aside", layer);
    *aside = strv_add(*aside, tmp);
    return 0;
}

static int set_unlisted_aside(int dirfd, char *const *keep, char *const *image_ids, char ***aside,
                              struct err *err)
{
    auto_strv char **there = NULL;

    if (tree_names(dirfd, LAYER_MAX_ENTRIES, &there, err) < 0)
        return -1;
    for (char **l = there; *l; l++) {
        if (!digest_valid(*l) || is_listed(keep, "", *l) ||
            is_listed(image_ids, IMAGE_ID_PREFIX, *l))
            continue;
        if (set_aside(dirfd, *l, aside, err) < 0)
            return -1;
    }
    return 0;
}

int image_collect(struct image_store *s, char *const *image_ids, struct err *err)
{
    char *host[] = {s->host_layer, NULL};
    auto_strv char **layers = NULL;
    int r;

    (void)pthread_mutex_lock(&s->lock);
    r = named_layers(s, &layers, err);
    if (r == 0)
        r = set_unlisted_aside(s->layers, layers, image_ids, &s->aside_layers, err);
    /* A sandbox's row says "host", not which of its layers: any such sandbox keeps them all. */
    if (r == 0 && !is_listed(image_ids, "", "host"))
        r = set_unlisted_aside(s->host, host, NULL, &s->aside_host, err);
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}

static int purge(int dirfd, char *const *names, struct err *err)
{
    int failed = 0;

    for (; names && *names; names++) {
        int r = tree_remove(dirfd, *names);

        if (r < 0)
            failed = err_sys(err, -r, "remove the unused layer %s", *names);
    }
    return failed;
}

int image_purge(struct image_store *s, struct err *err)
{
    auto_strv char **layers = NULL, **host = NULL;
    int of_layers, of_host;

    (void)pthread_mutex_lock(&s->lock);
    layers = steal_ptr(s->aside_layers);
    host = steal_ptr(s->aside_host);
    (void)pthread_mutex_unlock(&s->lock);
    of_layers = purge(s->layers, layers, err);
    of_host = purge(s->host, host, err);
    return of_layers < 0 || of_host < 0 ? -1 : 0;
}
