#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "oci/digest.h"
#include "oci/reference.h"

struct err;
struct image_store;

/* Images on this machine, below <data>/images. Each layer is one directory with its own ids (0 is
 * the image's root), shared by all sandboxes and all images; nothing is visible under a name until
 * it is whole.
 *
 * "host" always exists: the machine's own /usr read-only, with a made-up /etc, /workspace, /tmp,
 * /root and /home/user in a small layer that is written anew at every start.
 *
 * Names are references (oci/reference.h) and are kept in their short form: docker.io/library/python
 * and python:latest are both "python". Where an image is looked up, its id ("sha256:…", or 12 or
 * more of its digits) will do too.
 *
 * Whatever reads what strangers wrote (registries, archives) runs in a process of its own, the
 * image worker (src/worker), which makes layers under temporary names; the store puts them in
 * place. */

struct image {
    char *name;
    char *id;      /* "sha256:…" of its configuration; "host" for the host image */
    char *digest;  /* "sha256:…" of the manifest it came by; "" if it has none */
    char *origin;  /* what was pulled or imported, for people; "" */
    char **layers; /* absolute paths, topmost first */
    char **binds;  /* host paths shown read-only at the same path; only the host image has any */
    char **env;    /* K=V; PATH is always there */
    char *workdir; /* "" = the caller's default */
    char *user;    /* "" = root */
    char **entrypoint, **cmd; /* never NULL; either may be empty */
    char **ports;             /* "8080/tcp" */
    char *stop_signal;        /* "" = SIGTERM */
    char *platform;           /* "linux/amd64" */
    json_t *labels;           /* object of strings */
    int64_t created_ms;       /* when it was built, or else came here */
    int64_t pulled_ms;        /* when it came here */
    int64_t used_ms;          /* when a sandbox was last made from it; pulled_ms if never */
    int64_t size;             /* bytes on disk of its layers; 0 for host */
};

/* Takes the descriptor, also when it fails: the worker's program (a sealed memfd, or an executable
 * file); -1 = none, and then there is no work that takes time. */
int image_store_open(const char *data_dir, int worker_fd, struct image_store **ret,
                     struct err *err);
void image_store_free(struct image_store *s);

/* The image of that name: ERR_NOT_FOUND "image_not_found" with what to do (`cay image ls`,
 * `cay image pull`). Free with image_free. Thread-safe, as all of these are. */
int image_get(struct image_store *s, const char *name, struct image **ret, struct err *err);
/* The image of that whole id, whatever it is called: its name is the id. "host" too. */
int image_get_id(struct image_store *s, const char *id, struct image **ret, struct err *err);
void image_free(struct image *image);

/* All of them, host first, then by name; free each and the array. */
int image_list(struct image_store *s, struct image ***ret, unsigned *ret_n, struct err *err);

/* A sandbox was made from it: it is not the first to be pruned. Lazy: at most once a minute. */
void image_touch(struct image_store *s, const char *name);

/* ---- work that takes time ---- */

/* Told what happens, from the calling thread; -1 ends the work: ERR_UNAVAILABLE "cancelled".
 * Each event is an object with "event":
 *   resolving      reference
 *   resolved       reference, digest, platform, layers (how many), bytes (to be downloaded)
 *   layer          index, digest, state ("waiting", "downloading", "unpacking", "done", "present"),
 *                  downloaded, total (compressed bytes; 0 = not known), unpacked
 *   storing        (everything is here and is put on disk)
 * At most about ten a second for each layer. About once a second in which nothing happens event is
 * NULL: it only asks whether to go on. */
typedef int (*image_progress)(const json_t *event, void *arg);

struct image_pull {
    const char *reference;           /* whole or short */
    const char *name;                /* what to call it; NULL = as the reference */
    const char *username, *password; /* for the reference's own host; NULL = from docker_config */
    bool insecure;                   /* plain http for this pull's host */
    const char *platform;            /* NULL = this machine's */
};

/* How registries are reached, and how large images may be; set once, before the first work. Strings
 * are copied. */
struct image_registries {
    char *const *insecure, *const *mirrors, *const *realms; /* as registry/registry.h says; NULL =
                                                             * none */
    const char *ca_file, *docker_config;                    /* NULL = none */
    uint64_t max_bytes; /* unpacked, of a whole image; 0 = 20 GiB */
};
void image_set_registries(struct image_store *s, const struct image_registries *r);

/* Replaces an image of that name; sandboxes made from the old one keep its layers until they are
 * gone. progress may be NULL. */
int image_pull(struct image_store *s, const struct image_pull *pull, image_progress progress,
               void *arg, struct image **ret, struct err *err);

/* Asked about each name that an archive brings along; -1 with err refuses it. Set once, before the
 * first import. */
typedef int (*image_name_check)(const char *name, void *arg, struct err *err);
void image_set_name_check(struct image_store *s, image_name_check check, void *arg);

/* From the daemon's machine: a root directory, a tar archive of one (plain, gzip, bzip2, xz, zstd),
 * what `docker save` or `cay image export` wrote, or an OCI layout (directory or archive). name
 * NULL = what the archive calls it; ERR_INVALID when it does not say, or holds several,
 * ERR_CONFLICT "image_exists" when that is the name of another image here. A name that is given is
 * taken from whichever image has it. */
int image_import(struct image_store *s, const char *path, const char *name, image_progress progress,
                 void *arg, struct image **ret, struct err *err);

/* An OCI layout in a tar archive, which `docker load` takes too, into out_fd (a file or a pipe).
 * The host image, and what was committed on it, cannot be exported: ERR_UNSUPPORTED. */
int image_export(struct image_store *s, const char *name, int out_fd, struct err *err);

/* The upper directory of a sandbox becomes a layer on top of the image that it was made from.
 * scratch_fd: the root of the sandbox's own filesystem, with upper/ in it; ids there start at
 * ids_base. Nothing may run in it meanwhile. Without a name the image has only its id; whoever
 * shall keep it is told that before it is in the store, so that no collection comes in between.
 * config is what changes: env (array of K=V, the whole list), workdir, user, entrypoint, cmd,
 * labels, all optional. */
struct image_commit {
    const char *base_id; /* of the image below, whose name may be gone; "host" too */
    const char *name;    /* NULL = none */
    void (*made)(const char *image_id, void *arg); /* NULL = nobody is told */
    int scratch_fd;
    uint32_t ids_base;
    const json_t *config;
    image_progress progress; /* asked whether to go on; NULL = always */
    void *arg;
};
/* *ret_warning says what was left out (layer_warning), NULL = nothing; free it.
 * It may be NULL. */
int image_commit(struct image_store *s, const struct image_commit *commit, struct image **ret,
                 char **ret_warning, struct err *err);

/* The same as an image without a name, in about the time that the copy takes: its digest is not
 * computed, and what the sandbox is told by is as it was. */
struct image_snapshot {
    const char *base_id;
    int scratch_fd;
    uint32_t ids_base;
    /* The sandbox stands still between the two; end is called if begin did not fail. */
    int (*begin)(void *arg, struct err *err);
    void (*end)(void *arg);
    /* Asked while it is copied; -1 with err ends that. */
    int (*goes_on)(void *arg, struct err *err);
    void (*made)(const char *image_id, void *arg); /* as with a commit */
    void *arg;
};
/* *ret_bytes is what its own layer takes, *ret_own how many such layers it has by now; *ret_warning
 * is as with a commit. */
int image_snapshot(struct image_store *s, const struct image_snapshot *snap, int64_t *ret_bytes,
                   unsigned *ret_own, char **ret_warning, struct err *err);
/* How many layers of snapshots the image of that id has; 0 when there is none of it. */
unsigned image_own_layers(struct image_store *s, const char *id);
/* The same image with one layer in place of those: made is told its id, as with a snapshot. 1 = it
 * has one at most, and nothing was made. */
int image_flatten(struct image_store *s, const char *id,
                  void (*made)(const char *image_id, void *arg), void *arg, struct err *err);

/* A step of a build that needs no sandbox: a new image without a name on top of another, with a
 * layer more if there are items. The images that it is made of are held by the caller. Items:
 *
 *   {dir, chown, chmod}          a folder, unless it is there
 *   {write, text, chown, chmod}  a file
 *   {copy: [patterns], stack, to, into, keep_owners, chown, chmod}
 *                                files of from[stack]; with into `to` is a folder. Of a folder what
 *                                is in it is copied
 *
 * chown is user or user:group, in names of the image below or in numbers; chmod octal digits. */
struct image_build {
    const char *base_id;  /* NULL = nothing; "host" too */
    char *const *from;    /* ids; NULL = none */
    const json_t *items;  /* array */
    const json_t *config; /* as of a commit, with ports (object) and stop_signal; NULL = as it is */
    void (*made)(const char *image_id, void *arg); /* as of a commit */
    image_progress progress;
    void *arg;
};
int image_build(struct image_store *s, const struct image_build *b, struct image **ret,
                struct err *err);
/* Of the names and contents that would be copied: whether that changed. */
int image_build_digest(struct image_store *s, const struct image_build *b, char ret[DIGEST_HEX],
                       struct err *err);

/* The files that a build copies: an archive that is written into a file without a name, and then
 * unpacked by the worker into an image without a name, of which no sandbox is made. */
int image_context_file(struct image_store *s, int *ret_fd, struct err *err);
struct image_context {
    int fd; /* of the archive */
    uint64_t max_bytes;
    const char *apart; /* a text at its top that is no part of it; NULL = none */
    size_t apart_max;
    void (*made)(const char *image_id, void *arg); /* as of a commit */
    image_progress progress;
    void *arg;
};
/* *ret_text is the text that was apart, or NULL; free it. */
int image_context(struct image_store *s, const struct image_context *c, struct image **ret,
                  char **ret_text, struct err *err);
/* A text of it, with a NUL behind it: ERR_NOT_FOUND "file_not_found". Free it. */
int image_show(struct image_store *s, const char *id, const char *path, size_t max, char **ret,
               size_t *ret_len, struct err *err);

/* The one layer that the image of that id has of snapshots, as a tar archive with the whiteouts of
 * OCI, into out_fd; and an image from such an archive on this machine, on top of another: made is
 * told its id, as with a snapshot. */
int image_layer_export(struct image_store *s, const char *id, int out_fd, struct err *err);
int image_layer_import(struct image_store *s, const char *base_id, const char *path,
                       void (*made)(const char *image_id, void *arg), void *arg, struct image **ret,
                       struct err *err);

/* What a sandbox shows that another image does not, or shows otherwise. Nothing may run in it
 * meanwhile. */
struct image_changes {
    const char *image_id;   /* what it was made from */
    const char *against_id; /* what it is compared with */
    int scratch_fd;
    uint32_t ids_base;
    /* kind is A, M or D; -1 with err ends it. */
    int (*found)(void *arg, char kind, const char *path, uint32_t mode, int64_t size,
                 struct err *err);
    void *arg;
};
int image_changes(struct image_store *s, const struct image_changes *changes, struct err *err);

/* ---- names ---- */

/* One more name for an image. */
int image_tag(struct image_store *s, const char *name, const char *new_name, struct image **ret,
              struct err *err);

/* ERR_CONFLICT when in_use (the engine knows), ERR_FORBIDDEN for host. */
int image_remove(struct image_store *s, const char *name, bool in_use, struct err *err);

struct image_prune {
    int64_t unused_ms;     /* those not used for that long; 0 = any age */
    int64_t keep_bytes;    /* the least recently used, until this much is left; 0 = no budget */
    char *const *used_ids; /* of images that sandboxes were made from: never those */
    bool dry_run;
};
/* Takes names away; *ret_removed gets their images, for telling (free each and the array), and
 * *ret_bytes what goes with them. At least one of unused_ms and keep_bytes, or all that are unused.
 */
int image_prune(struct image_store *s, const struct image_prune *prune, struct image ***ret_removed,
                unsigned *ret_n, int64_t *ret_bytes, struct err *err);

/* Sets aside the layers that no name stands for any more; image_purge deletes them, which may take
 * long. image_ids (NULL-terminated) are the ids of images that sandboxes were made from: their
 * layers stay, so the caller sees to it that none is made from another image meanwhile. Work that
 * is under way is not disturbed: it is done again if it had found a layer here that went. The
 * caller collects after each pull and import, also one that failed: it may have been waited for. */
int image_collect(struct image_store *s, char *const *image_ids, struct err *err);
int image_purge(struct image_store *s, struct err *err);

/* The short form of a name, which is how it is kept and compared; NULL if it is not one that we
 * accept. Free it. */
char *image_name_short(const char *name);
