#pragma once

#include <stdbool.h>
#include <stdint.h>

struct err;
struct image_store;

/* Images on this machine, below <data>/images. Each layer is one directory with its own ids (0 is
 * the image's root), shared by all sandboxes; nothing is visible under a name until it is whole.
 *
 * "host" always exists: the machine's own /usr read-only, with a made-up /etc, /workspace, /tmp,
 * /root and /home/user in a small layer that is written anew at every start. */

struct image {
    char *name;
    char *id;      /* "sha256:…" of what was imported; "host" for the host image */
    char **layers; /* absolute paths, topmost first */
    char **binds;  /* host paths shown read-only at the same path; only the host image has any */
    char **env;    /* K=V; PATH is always there */
    char *workdir; /* "" = the caller's default */
    char *user;    /* "" = root */
    int64_t created_ms;
    int64_t size; /* bytes on disk of its layers; 0 for host */
};

int image_store_open(const char *data_dir, struct image_store **ret, struct err *err);
void image_store_free(struct image_store *s);

/* The image of that name: ERR_NOT_FOUND "image_not_found" with what to do (`cay image ls`,
 * `cay image import`). Free with image_free. Thread-safe, as all of these are. */
int image_get(struct image_store *s, const char *name, struct image **ret, struct err *err);
void image_free(struct image *image);

/* All of them, host first, then by name; free each and the array. */
int image_list(struct image_store *s, struct image ***ret, unsigned *ret_n, struct err *err);

/* From a root directory or a tar archive (plain, gzip, xz, zstd) on the daemon's machine. Replaces
 * an image of that name; sandboxes made from the old one keep its layers until they are gone. */
int image_import(struct image_store *s, const char *path, const char *name, struct image **ret,
                 struct err *err);

/* ERR_CONFLICT when in_use (the engine knows), ERR_FORBIDDEN for host. */
int image_remove(struct image_store *s, const char *name, bool in_use, struct err *err);

/* Sets aside the layers that no name stands for any more; image_purge deletes them, which may take
 * long. image_ids (NULL-terminated) are the ids of images that sandboxes were made from: their
 * layers stay, so the caller sees to it that none is made from another image meanwhile. */
int image_collect(struct image_store *s, char *const *image_ids, struct err *err);
int image_purge(struct image_store *s, struct err *err);

/* Is name one we accept? host, python:3.12-slim, my.registry/team/app:1.0 … */
bool image_name_valid(const char *name);
