/* A folder or an archive on this machine becomes an image of one layer. It is made under a
 * temporary name and shows up, with its name, only when it is whole and on disk. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/image_internal.h"

static int open_source(const char *path, int *ret_fd, struct stat *ret_st, struct err *err)
{
    auto_close int fd = -1;
    char shown[96];

    if (path[0] != '/')
        return err_code(err, ERR_INVALID, "bad_path",
                        "%s is not an absolute path on the machine where cay runs",
                        printable(path, shown));
    /* O_NONBLOCK: a fifo must not hold us. */
    fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return err_code(err, ERR_INVALID, "bad_path",
                        "%s does not exist on the machine where cay runs", printable(path, shown));
    if (fd < 0 || fstat(fd, ret_st) < 0)
        return err_sys(err, errno, "open %s", printable(path, shown));
    if (!S_ISDIR(ret_st->st_mode) && !S_ISREG(ret_st->st_mode))
        return err_code(err, ERR_INVALID, "bad_path", "%s is neither a folder nor an archive",
                        printable(path, shown));
    *ret_fd = steal_fd(fd);
    return 0;
}

/* Fills the layer tmp; digest and size of it come back. */
static int fill_layer(struct image_store *s, const char *path, const char *tmp,
                      char ret_digest[DIGEST_HEX], uint64_t *ret_size, struct err *err)
{
    auto_close int source = -1, root = -1;
    EVP_MD_CTX *sha;
    struct layer layer;
    struct stat st;
    int r;

    if (open_source(path, &source, &st, err) < 0 ||
        tree_open_dir(s->layers, tmp, 0755, &root, err) < 0)
        return -1;
    sha = digest_new();
    layer_init(&layer, root);
    r = S_ISDIR(st.st_mode) ? copy_tree(source, s->dir, &layer, sha, err)
                            : unpack_tar(source, &layer, sha, err);
    digest_end(sha, ret_digest);
    if (r < 0 || layer_finish(&layer, err) < 0)
        return -1;
    *ret_size = layer.bytes;
    return 0;
}

/* Under the lock: a collection must not find the layer before it has a name. */
static int publish(struct image_store *s, const char *tmp, const struct image *image,
                   struct err *err)
{
    if (renameat2(s->layers, tmp, s->layers, image->layers[0], RENAME_NOREPLACE) < 0) {
        if (errno != EEXIST)
            return err_sys(err, errno, "put the layer in its place");
        (void)tree_remove(s->layers, tmp); /* the same layer is here already */
    }
    if (fsync(s->layers) < 0)
        return err_sys(err, errno, "sync the layers");
    return names_write(s->names, image, err);
}

int image_import(struct image_store *s, const char *path, const char *name, struct image **ret,
                 struct err *err)
{
    char tmp[ID_SIZE], digest[DIGEST_HEX], shown[96];
    struct image *image;
    uint64_t size = 0;
    int r;

    if (!image_name_valid(name))
        return err_code(err, ERR_INVALID, "bad_image_name",
                        "\"%s\" is not an image name: use letters, digits and . _ - / : @",
                        printable(name, shown));
    if (strcmp(name, "host") == 0)
        return err_code(err, ERR_FORBIDDEN, "image_reserved",
                        "\"host\" is this machine's own image; choose another name");
    id_new(tmp, "tmp");
    if (fill_layer(s, path, tmp, digest, &size, err) < 0) {
        (void)tree_remove(s->layers, tmp);
        return err_wrap(err, "import %s", printable(path, shown));
    }
    image = xcalloc(1, sizeof(*image));
    image->name = xstrdup(name);
    image->id = xasprintf(IMAGE_ID_PREFIX "%s", digest);
    image->layers = strv_add(NULL, digest);
    image->binds = xcalloc(1, sizeof(*image->binds));
    image->env = strv_add(NULL, IMAGE_PATH);
    image->workdir = xstrdup("");
    image->user = xstrdup("");
    image->created_ms = now_ms();
    image->size = (int64_t)size;

    (void)pthread_mutex_lock(&s->lock);
    r = publish(s, tmp, image, err);
    (void)pthread_mutex_unlock(&s->lock);
    if (r < 0) {
        (void)tree_remove(s->layers, tmp);
        image_free(image);
        return -1;
    }
    image_locate(s, image);
    *ret = image;
    return 0;
}
