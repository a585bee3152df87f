#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "oci/digest.h"

struct err;

/* Writes one layer, from whatever source, beneath a directory, in the form that overlayfs stacks:
 * a 0/0 character device hides a name of the layers below, trusted.overlay.opaque="y" on a folder
 * hides all that they have in it. Only this code writes either of them. */

#define LAYER_MAX_BYTES   (20ull << 30)
#define LAYER_MAX_ENTRIES 2000000u
#define LAYER_MAX_PATH    4096 /* bytes, as the source gives it */
#define LAYER_MAX_DEPTH   256  /* folders in folders; a walk holds a descriptor for each */
#define LAYER_MAX_ID      65536

/* The folder that entries were last added to: most come in its order. */
struct layer_parent {
    int fd; /* -1 = none */
    bool changed, setgid;
    struct timespec mtime; /* put back when it is left: adding entries must not change it */
    size_t len;
    char path[LAYER_MAX_PATH + 1];
};

struct layer {
    int root; /* not owned */
    /* Set by the caller after layer_init: the source is a layer of an image, so that names which
     * begin with ".wh." hide what is below, and folders and targets of hard links may be there. It
     * is not whole until layer_resolve. */
    bool oci;
    uint64_t max_bytes, max_entries;
    struct layer_budget *budget; /* of all layers of the image together; NULL = none */
    int (*goes_on)(void *arg, struct err *err); /* asked now and then; -1 ends it; NULL = always */
    void *arg;
    _Atomic uint64_t bytes; /* written so far; other threads may look */
    uint64_t entries;
    uint64_t dropped; /* devices, fifos, sockets */
    /* What copy_upper left out, because no layer has such paths; a folder counts once. */
    uint64_t left_out;
    char left_out_first[96]; /* as it may be shown */
    /* After layer_resolve: what it holds depends on the layers below, so that it may be shared only
     * by images that have the same ones (store it by its chain id, not its diff id). */
    bool bound;
    /* What layer_resolve has to do. */
    uint64_t implied, borrowed, whiteouts;
    bool root_opaque;
    uint64_t opaques; /* folders that were marked; 0 saves asking */
    struct layer_parent parent;
};

/* What an image may take, over all of its layers, which may be written by several threads; and the
 * room on the disk, of which a part is always left to others. */
struct layer_budget {
    uint64_t max_bytes, max_entries;
    int disk; /* a descriptor on it; not owned */
    _Atomic uint64_t bytes, entries;
    _Atomic uint64_t looked; /* at so many bytes */
};

void layer_budget_init(struct layer_budget *b, uint64_t max_bytes, uint64_t max_entries, int disk);
/* Counts; ERR_TOO_LARGE "image_too_large" past the maximum, ERR_UNAVAILABLE "no_space" when the
 * disk is nearly full. */
int layer_budget_grow(struct layer_budget *b, uint64_t bytes, struct err *err);
int layer_budget_count(struct layer_budget *b, uint64_t entries, struct err *err);
/* Is there room for so much more? */
int layer_budget_room(const struct layer_budget *b, uint64_t bytes, struct err *err);

struct layer_meta {
    uint32_t mode;
    int64_t uid, gid;
    int64_t mtime; /* seconds */
    uint32_t mtime_ns;
};

void layer_init(struct layer *l, int root);
/* After the last entry, also after a failed one. */
void layer_done(struct layer *l);
/* What to tell the caller of entries that were left out; NULL = there were none. Free it. */
char *layer_warning(const struct layer *l);

/* Each adds one entry; what was there before is replaced, except that a directory keeps what it
 * holds. */
int layer_dir(struct layer *l, const char *path, const struct layer_meta *meta, struct err *err);
/* The same, and gives its descriptor, for attributes. */
int layer_dir_open(struct layer *l, const char *path, const struct layer_meta *meta, int *ret_fd,
                   struct err *err);
int layer_symlink(struct layer *l, const char *path, const char *target,
                  const struct layer_meta *meta, struct err *err);
/* S_IFIFO or S_IFSOCK, where nothing was before. */
int layer_special(struct layer *l, const char *path, uint32_t type, const struct layer_meta *meta,
                  struct err *err);
int layer_link(struct layer *l, const char *path, const char *target, struct err *err);
/* A new empty file, to be written and then given to layer_file_done. */
int layer_file(struct layer *l, const char *path, int *ret_fd, struct err *err);
int layer_file_done(int fd, const char *path, const struct layer_meta *meta, struct err *err);
/* Hides path of the layers below; what this layer has of that name stays, before or after. */
int layer_whiteout(struct layer *l, const char *path, struct err *err);
/* Hides all that the layers below have in the folder path ("." = the root). */
int layer_opaque(struct layer *l, const char *path, struct err *err);
/* If path is a marker of an OCI layer (its last part begins with ".wh."), does what it says and
 * returns 1; else 0, or -1. */
int layer_marker(struct layer *l, const char *path, struct err *err);
/* An entry that does not go into the layer; it still counts. */
int layer_drop(struct layer *l, struct err *err);
/* Counts n more bytes before they are written: ERR_TOO_LARGE past the maximum. */
int layer_grow(struct layer *l, uint64_t n, struct err *err);
/* Keeps user.* except overlayfs's own; everything else gives or takes rights (file capabilities,
 * ACLs, labels) and is left out. */
int layer_xattr(int fd, const char *name, const void *value, size_t len, struct err *err);

/* The second step of a layer with oci set, in order from the lowest, when those below are whole:
 * folders that the archive left out get the owner, mode and time of the ones below, and hard links
 * into layers below become files. lowers: the roots of the layers below, topmost first. */
int layer_resolve(struct layer *l, const int *lowers, size_t n, struct err *err);

/* ---- mount points ---- */

/* Fills the layer that is stacked below every image with what boxes have mounted over. */
int layer_points(int root, struct err *err);
/* Refuses images where one of those is anything but a folder. Topmost first; the layer of
 * layer_points may be among them. */
int layer_check_points(const int *layers, size_t n, struct err *err);
/* One call for all that was written to that filesystem; a sync of each file would take minutes. */
int layer_sync(int root, struct err *err);

/* For err_no_space. */
#define NO_SPACE_ADVICE "the disk with cay's data is full: `cay image prune` makes room"

/* path as it may be shown to people: cut, and no control characters or stray bytes. */
const char *printable(const char *path, char ret[96]);

/* ---- sources of layers ---- */

/* Where the bytes of an archive come from. read is called on a thread of the unpacker's: up to len
 * bytes, 0 at the end, or -errno. stop (may be NULL) is called on the caller's thread when the rest
 * is not wanted any more: it makes a read that waits return. */
struct unpack_source {
    ssize_t (*read)(void *arg, void *data, size_t len);
    void (*stop)(void *arg);
    void *arg;
};

/* A tar archive (plain, gzip, bzip2, xz, zstd) into l. ret_diff_id gets the SHA-256 of the archive
 * before it was compressed. Ends with layer_done. */
int unpack_tar(const struct unpack_source *src, struct layer *l, char ret_diff_id[DIGEST_HEX],
               struct err *err);
/* The same for an open file, from where it is. */
int unpack_file(int fd, struct layer *l, char ret_diff_id[DIGEST_HEX], struct err *err);

/* A directory into l; sha takes a canonical form of it. images (a directory descriptor) must not be
 * inside. Ends with layer_done. */
int copy_tree(int dirfd, int images, struct layer *l, EVP_MD_CTX *sha, struct err *err);
/* The same for the upper directory of an overlay that a sandbox wrote to: ids there start at
 * ids_base, and what it hides of the layers below is kept. Entries beyond LAYER_MAX_PATH or
 * LAYER_MAX_DEPTH are left out: see layer_warning(). Without sha (NULL) nobody may write to
 * it meanwhile; files are shared where the filesystem can, holes stay holes, and whatever is there,
 * memory is bounded. */
int copy_upper(int dirfd, uint32_t ids_base, struct layer *l, EVP_MD_CTX *sha, struct err *err);

/* Layers that lie on one another, topmost first, all on l's filesystem, become one in l, which is
 * new and empty: it shows and hides the same of what is below the lowest, and hides nothing that is
 * not there. */
int layer_merge(struct layer *l, const int *layers, size_t n, const int *below, size_t n_below,
                struct err *err);

/* ---- and back ---- */

/* Takes len bytes: 0, or -1 with err. */
typedef int (*pack_write)(void *arg, const void *data, size_t len, struct err *err);

/* Can the layer become one? ERR_UNSUPPORTED "whiteout_name" when it has a name that means something
 * else there. Looks at names only. */
int pack_check(int root, struct err *err);
/* A layer as a tar archive with the whiteouts of OCI, not compressed; the same layer gives the same
 * bytes. ids_base is taken off every owner. ret_diff_id gets its SHA-256. */
int pack_layer(int root, uint32_t ids_base, pack_write write, void *arg,
               char ret_diff_id[DIGEST_HEX], struct err *err);
