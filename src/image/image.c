/* <data>/images:
 *   names/<name>.json      what a name means (names.c)
 *   records/<sha256>.json  what an image is (records.c)
 *   layers/<sha256>/       one layer each; tmp_… while a worker makes some
 *   base/points/           the mount points of every box, below the lowest layer of each image
 *   host/<sha256>/         the host image's own layer, a new one whenever the machine's /etc
 * changed
 *
 * Whatever happens, also a power cut, these hold:
 *
 * 1. What a name means was on disk before the name: first layers, then the record, then the name.
 *    What nothing stands for any more goes in the other order.
 * 2. Everything is made under a name tmp_…, synced and renamed; what is found under such a name at
 *    the start is a leftover.
 * 3. A layer goes only when no record has it, a record only when no name, no sandbox and no worker
 *    has it. What a worker makes of a layer that it found here, and that went since, is not kept.
 *
 * The folder is closed to everyone but root: layers hold setuid programs of strangers. */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/remove.h"
#include "base/str.h"
#include "image/image_internal.h"
#include "layer/layer.h"
#include "layer/tree.h"
#include "model/limits.h"
#include "model/sandbox.h"
#include "oci/reference.h"

_Static_assert(IMAGE_NAME_MAX == REFERENCE_MAX, "a caller may name what a registry may");

#define WORKER_FD_MIN 10 /* out of the way of those that a worker gets */

/* Rule 2. */
static int remove_leftovers(int dirfd, struct err *err)
{
    auto_strv char **names = NULL;

    if (tree_names(dirfd, LAYER_MAX_ENTRIES, &names, err) < 0)
        return -1;
    for (char **name = names; *name; name++) {
        int r = str_starts(*name, "tmp_") ? remove_tree(dirfd, *name) : 0;

        if (r < 0)
            return err_sys(err, -r, "remove %s, which interrupted work left", *name);
    }
    return 0;
}

/* Each layer gets a part of the disk of its own, where the filesystem knows such a wish (ext4):
 * beside one that was just removed, whose places ext4 looks at and does not take for a minute or
 * more, each new file takes several times as long. */
static void spread(int dirfd)
{
    int flags;

    if (ioctl(dirfd, FS_IOC_GETFLAGS, &flags) < 0 || flags & FS_TOPDIR_FL)
        return;
    flags |= FS_TOPDIR_FL;
    (void)ioctl(dirfd, FS_IOC_SETFLAGS, &flags);
}

static int open_folders(struct image_store *s, const char *data_dir, struct err *err)
{
    auto_close int data = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct {
        const char *name;
        int *fd;
    } folders[] = {
        {"layers", &s->layers}, {"records", &s->records}, {"names", &s->names},
        {"host", &s->host},     {"base", &s->base},
    };
    char real[PATH_MAX];

    if (data < 0 || !realpath(data_dir, real))
        return err_sys(err, errno, "open the data folder %s", data_dir);
    s->path = xasprintf("%s/images", real);
    if (tree_open_dir(data, "images", 0700, &s->dir, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (tree_open_dir(s->dir, folders[i].name, 0700, folders[i].fd, err) < 0 ||
            remove_leftovers(*folders[i].fd, err) < 0)
            return -1;
    spread(s->layers);
    return records_clean(s->records, err);
}

/* Its content never changes, so that it is made once. */
static int make_points(int basefd, struct err *err)
{
    auto_close int root = -1;
    char tmp[ID_SIZE];

    if (faccessat(basefd, BASE_LAYER, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    id_new(tmp, "tmp");
    if (tree_open_dir(basefd, tmp, 0755, &root, err) < 0 || layer_points(root, err) < 0)
        return -1;
    if (syncfs(root) < 0 || renameat(basefd, tmp, basefd, BASE_LAYER) < 0 || fsync(basefd) < 0)
        return err_sys(err, errno, "put the layer of mount points in its place");
    return 0;
}

static int keep_worker(struct image_store *s, int fd, struct err *err)
{
    auto_close int given = fd;

    if (given < 0)
        return 0;
    s->worker = fcntl(given, F_DUPFD_CLOEXEC, WORKER_FD_MIN);
    return s->worker < 0 ? err_sys(err, errno, "keep the image worker's program") : 0;
}

int image_store_open(const char *data_dir, int worker_fd, struct image_store **ret, struct err *err)
{
    struct image_store *s = xcalloc(1, sizeof(*s));

    s->dir = s->layers = s->records = s->names = s->host = s->base = s->worker = -1;
    (void)pthread_mutex_init(&s->lock, NULL);
    s->registries = json_object();
    s->opened_ms = now_ms();
    atomic_init(&s->host_used_ms, s->opened_ms);
    if (keep_worker(s, worker_fd, err) < 0 || open_folders(s, data_dir, err) < 0 ||
        make_points(s->base, err) < 0 ||
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
    close_fd(&s->records);
    close_fd(&s->names);
    close_fd(&s->host);
    close_fd(&s->base);
    close_fd(&s->worker);
    (void)pthread_mutex_destroy(&s->lock);
    json_decref(s->registries);
    free(s->gone);
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
    free(image->digest);
    free(image->origin);
    strv_free(image->layers);
    strv_free(image->binds);
    strv_free(image->env);
    free(image->workdir);
    free(image->user);
    strv_free(image->entrypoint);
    strv_free(image->cmd);
    strv_free(image->ports);
    free(image->stop_signal);
    free(image->platform);
    json_decref(image->labels);
    free(image);
}
