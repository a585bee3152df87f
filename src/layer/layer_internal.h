#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <time.h>

#include "layer/layer.h"

/* What the files of layer/ share. */

/* What a name of an OCI layer begins with that hides another one. */
#define WHITEOUT_PREFIX ".wh."

/* Owners that no entry can have mark what layer_resolve still has to complete: a folder that the
 * archive left out, and a file that stands for one in a layer below and holds that one's path. They
 * are on the disk, not in memory, so that any number of them is fine. */
#define OWNER_IMPLIED  ((uid_t)LAYER_MAX_ID)
#define OWNER_BORROWED ((uid_t)LAYER_MAX_ID + 1)

/* ---- errors ---- */

int layer_bad(struct err *err, const char *path, const char *why);
int layer_sys_error(struct err *err, int errnum, const char *path);
int layer_count(struct layer *l, struct err *err);

/* ---- place.c: from the path of an entry to its folder ---- */

struct place {
    int dir;    /* l->parent.fd: good until the next place_* call */
    char *name; /* in full; "" is the root itself */
    char full[LAYER_MAX_PATH + 1];
};

/* Finds the folder that path is in, and makes it if it is not there. */
int place_make(struct layer *l, const char *path, struct place *ret, struct err *err);
/* The same for something to hide: 1, and nothing is made, when no layer below can have it. */
int place_hide(struct layer *l, const char *path, struct place *ret, struct err *err);
/* Takes away what has the name now, with all that is in it; a new entry then gets a free name. */
int place_clear(struct layer *l, const struct place *p, struct err *err);
/* Puts the time of the last folder back and forgets it. */
void place_leave(struct layer *l);
/* ret has no leading "./", no empty or "." components; "" is the root itself. */
int place_clean(const char *path, char ret[LAYER_MAX_PATH + 1], struct err *err);

/* ---- whiteout.c ---- */

bool is_whiteout(const struct stat *st);
/* Has the folder the mark? */
bool is_opaque(int dirfd);
/* 0 or -errno. */
int make_opaque(struct layer *l, int dirfd);

/* ---- lower.c: what a stack of layers shows ---- */

enum lower_is {
    LOWER_ABSENT, /* in none of them */
    LOWER_FOUND,
    LOWER_HIDDEN, /* one of them hides it */
};

struct lower {
    int dir; /* that it is in; -1 unless found. Owned. */
    const char *name;
    struct stat st;
};

/* Topmost first. path is clean and stays as long as ret; "" is not looked up. No link is followed.
 * An enum lower_is, or -1. */
int lower_find(const int *layers, size_t n, const char *path, struct lower *ret, struct err *err);

/* ---- content.c ---- */

#define CONTENT_SIZE (256u << 10)
#define WRITE_EVERY  (8 << 20)

/* All of a file that nobody writes to meanwhile into a new one; holes stay holes. data is room for
 * CONTENT_SIZE bytes. */
int content_copy(struct layer *l, int from, int to, const struct stat *st, char *data,
                 struct err *err);

/* ---- attributes ---- */

struct layer_meta meta_of_stat(const struct stat *st, uint32_t ids_base);
struct timespec *times_of(const struct layer_meta *meta, struct timespec ret[2]);
/* The attributes of the descriptor from that a layer keeps; sha, if there is one, takes them too.
 */
int copy_attributes(int from, int to, const char *path, EVP_MD_CTX *sha, struct err *err);
