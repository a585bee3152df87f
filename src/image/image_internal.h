#pragma once

#include <openssl/types.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* What the files of image/ share. */

/* ---- layer.c: writes one layer, from whatever source, beneath a directory ---- */

#define LAYER_MAX_BYTES   (20ull << 30)
#define LAYER_MAX_ENTRIES 2000000u
#define LAYER_MAX_PATH    4096 /* bytes, as the source gives it */
#define LAYER_MAX_DEPTH                                                                            \
    256 /* folders in folders; removing a tree holds one descriptor for each                       \
         */
#define LAYER_MAX_ID 65536

struct layer {
    int root; /* not owned */
    uint64_t bytes, entries;
    uint64_t max_bytes, max_entries;
    uint64_t dropped; /* devices, fifos, sockets */
};

struct layer_meta {
    uint32_t mode;
    int64_t uid, gid;
    int64_t mtime; /* seconds */
    uint32_t mtime_ns;
};

void layer_init(struct layer *l, int root);

/* Each adds one entry; what was there before is replaced, except that a directory keeps what it
 * holds. */
int layer_dir(struct layer *l, const char *path, const struct layer_meta *meta, struct err *err);
int layer_symlink(struct layer *l, const char *path, const char *target,
                  const struct layer_meta *meta, struct err *err);
int layer_link(struct layer *l, const char *path, const char *target, struct err *err);
/* A new empty file, to be written and then given to layer_file_done. */
int layer_file(struct layer *l, const char *path, int *ret_fd, struct err *err);
int layer_file_done(int fd, const char *path, const struct layer_meta *meta, struct err *err);
/* An entry that does not go into the layer; it still counts. */
int layer_drop(struct layer *l, struct err *err);
/* Counts n more bytes before they are written: ERR_TOO_LARGE past the maximum. */
int layer_grow(struct layer *l, uint64_t n, struct err *err);
/* Keeps user.* except overlayfs's own; everything else gives or takes rights and is left out. */
int layer_xattr(int fd, const char *name, const void *value, size_t len, struct err *err);
/* Adds the mount points every box needs, refuses ones that are no directories, and puts the whole
 * on disk. */
int layer_finish(struct layer *l, struct err *err);

/* path as it may be shown to people: cut, and no control characters or stray bytes. */
const char *printable(const char *path, char ret[96]);

/* ---- tree.c ---- */

/* Removes dirfd/name, whatever it is. Fine if it is not there. 0 or -errno. */
int tree_remove(int dirfd, const char *name);
/* mkdir unless it exists, and opens it. mode is applied also to one that exists. */
int tree_open_dir(int dirfd, const char *name, mode_t mode, int *ret_fd, struct err *err);
/* Replaces dirfd/name: a reader sees the old file or the new one, never a part, also after a power
 * cut. */
int tree_replace_file(int dirfd, const char *name, const void *data, size_t len, struct err *err);
/* The names in a directory, sorted, without . and .. ; at most max of them. */
int tree_names(int dirfd, size_t max, char ***ret, struct err *err);

/* ---- sources of layers ---- */

/* A tar archive (plain, gzip, bzip2, xz, zstd) into l; sha takes the bytes of the archive. */
int unpack_tar(int fd, struct layer *l, EVP_MD_CTX *sha, struct err *err);
/* A directory into l; sha takes a canonical form of it. images (a directory descriptor) must not be
 * inside. */
int copy_tree(int dirfd, int images, struct layer *l, EVP_MD_CTX *sha, struct err *err);

/* The host image's layer below images/host, made if it is not there yet; *ret_name is its name
 * there. */
int host_layer(int hostfd, char **ret_name, char ***ret_binds, struct err *err);

/* What the host image's layer will hold, before any of it is written. */
struct host_entry {
    char type; /* d, f, l */
    char *path;
    uint32_t mode, uid, gid;
    char *data; /* of a file, or the link's target */
    size_t len;
};

struct host_tree {
    struct host_entry *v;
    size_t n, cap;
    uint64_t bytes;
};

/* Takes data (NULL for a directory). */
void host_add(struct host_tree *t, char type, const char *path, uint32_t mode, char *data,
              size_t len);
/* Adds what programs need of the machine's /etc, and nothing that is a secret. */
int host_copy_etc(struct host_tree *t, struct err *err);

/* ---- digests ---- */

#define DIGEST_HEX 65 /* with the NUL */
EVP_MD_CTX *digest_new(void);
void digest_add(EVP_MD_CTX *sha, const void *data, size_t len);
void digest_end(EVP_MD_CTX *sha, char ret[DIGEST_HEX]); /* frees sha */

/* ---- names.c: <data>/images/names/<name>.json says what a name means ---- */

struct image;

#define NAME_MAX_LEN    200
#define NAMES_MAX       10000
#define IMAGE_ID_PREFIX "sha256:"
#define IMAGE_PATH      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* In the stored form layers are names below images/layers, not paths. */
int names_read(int namesfd, const char *name, struct image **ret, struct err *err);
int names_write(int namesfd, const struct image *image, struct err *err);
int names_remove(int namesfd, const char *name, struct err *err);
/* All names there are, sorted. */
int names_list(int namesfd, char ***ret, struct err *err);
/* Is s 64 lower-case hex digits, as the folder of a layer is called? */
bool digest_valid(const char *s);

/* ---- image.c ---- */

struct image_store {
    char *path; /* absolute, of <data>/images */
    int dir, layers, names, host;
    pthread_mutex_t lock; /* names, and which layers there are */
    char *host_layer;     /* below images/host */
    char **host_binds;
    char **aside_layers, **aside_host; /* set aside; the next start deletes what is forgotten */
    int64_t opened_ms;
};

/* The stored form with its layers as absolute paths. */
void image_locate(const struct image_store *s, struct image *image);
