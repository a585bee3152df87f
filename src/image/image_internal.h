#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/id.h"
#include "image/image.h"
#include "oci/digest.h"

struct err;

/* What the files of image/ share. */

/* ---- host.c, host_files.c ---- */

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

/* ---- json.c ---- */

/* NULL unless it is an array of strings. */
char **strings_load(const json_t *a);

/* ---- records.c: <data>/images/records says what an image is, by its id ----
 *
 * <hex>.json is the record, <hex>.config the configuration as it came, whose digest is the id. */

#define RECORDS_MAX 20000 /* as room.c says */
#define IMAGE_PATH  "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct record_layer {
    char dir[DIGEST_HEX]; /* below layers/: its diff id, or its chain id if it depends on the others
                           */
    int64_t bytes;
    bool own; /* what a sandbox changed (snapshot.c): such layers may be merged */
};

struct record {
    char id[DIGEST_HEX];
    bool host;                   /* stands on the host's layer */
    struct record_layer *layers; /* lowest first */
    size_t n_layers;
    struct image *image; /* its settings, id, platform and size; no name and no layers */
};

/* Also of what the worker says: nothing in it is taken on trust. */
int record_parse(const json_t *o, struct record *ret, struct err *err);
void record_done(struct record *r);
#define auto_record __attribute__((cleanup(record_done)))

int records_read(int recordsfd, const char *id, struct record *ret, struct err *err);
/* Checks that the document's digest is the id. */
int records_write(int recordsfd, const struct record *r, const char *document, struct err *err);
int records_document(int recordsfd, const char *id, char **ret, struct err *err);
/* The records first: a document alone is nothing. ids may be NULL. */
int records_remove(int recordsfd, char *const *ids, struct err *err);
bool records_has(int recordsfd, const char *id);
/* The ids of all there are, sorted. */
int records_list(int recordsfd, char ***ret, struct err *err);
/* Documents whose record is gone. */
int records_clean(int recordsfd, struct err *err);

/* ---- names.c: <data>/images/names/<name>.json says what a name means ---- */

#define NAME_MAX_LEN 240
#define NAMES_MAX    10000 /* as room.c says */

struct name {
    char *name;
    char id[DIGEST_HEX];
    char *digest, *origin; /* as in struct image */
    int64_t pulled_ms, used_ms;
};

void name_done(struct name *n);
#define auto_name __attribute__((cleanup(name_done)))

int names_read(int namesfd, const char *name, struct name *ret, struct err *err);
int names_write(int namesfd, const struct name *n, struct err *err);
int names_remove(int namesfd, const char *name, struct err *err);
void names_touch(int namesfd, const char *name);
bool names_has(int namesfd, const char *name);
/* All names there are, sorted. */
int names_list(int namesfd, char ***ret, struct err *err);
/* The names of an id, sorted. */
int names_of(int namesfd, const char *id, char ***ret, struct err *err);
/* The short form of a name that is about to be given; "host", and a digest where the name does not
 * come with the image, are refused. */
int name_check_new(const char *name, bool digest_ok, char **ret, struct err *err);

/* ---- room.c: how many there may be ---- */

/* ERR_LIMIT "image_limit" when there is no room for those of the names, or the record of the id
 * (NULL = it is a new one), that are not there yet. Under the lock. */
int room_check(const struct image_store *s, char *const *names, const char *id, struct err *err);
/* The same, before work begins that takes time: for one name, or NULL, of an image that may be new.
 */
int room_ask(struct image_store *s, char *name, struct err *err);

/* ---- image.c ---- */

#define BASE_LAYER "points" /* below images/base */

struct image_store {
    char *path; /* absolute, of <data>/images */
    int dir, layers, records, names, host, base;
    int worker;           /* its program; -1 = none */
    pthread_mutex_t lock; /* who changes names, records and layers; works; gone */
    struct work *works;   /* that are under way */
    struct gone *gone;    /* layers that were set aside while there were any: collect.c */
    size_t n_gone;
    uint64_t collected;          /* how many layers were set aside */
    json_t *registries;          /* part of each pull's request */
    image_name_check check_name; /* NULL = none */
    void *check_arg;
    char *host_layer; /* below images/host */
    char **host_binds;
    char **aside_layers, **aside_host; /* set aside; the next start deletes what is forgotten */
    int64_t opened_ms;
    atomic_llong host_used_ms; /* it has no file whose time could tell, so a start forgets it */
};

/* ---- find.c; under the lock, or prepared for what goes away meanwhile ---- */

struct image *store_host_image(const struct image_store *s);
/* By name, or by id. */
int store_find(struct image_store *s, const char *name, struct name *ret_name,
               struct record *ret_record, struct err *err);
/* Empties r. ERR_INTERNAL when a layer is gone. */
int store_image(const struct image_store *s, const struct name *n, struct record *r,
                struct image **ret, struct err *err);

/* ---- collect.c; under the lock ---- */

/* Was the layer set aside since the store counted so many? */
bool gone_since(const struct image_store *s, const char *dir, uint64_t collected);

/* ---- work.c: what a worker makes, and how it comes into the store ---- */

struct work {
    struct image_store *store;
    struct work *next;
    char tmp[ID_SIZE];     /* the worker's own folder below layers/ */
    char held[DIGEST_HEX]; /* an image whose layers it reads: they stay; "" = none */
    bool keep_names;       /* what names mean stays: none is taken from another image */
    uint64_t began;        /* when, counted by the store's collected */
    bool gone;             /* what the worker had found here was not, at the end */
    unsigned lost;         /* how often that was */
    bool alone;            /* nothing is collected before it ends */
};

int work_begin(struct image_store *s, struct work *w, struct err *err);
/* An empty folder for another worker, after one that failed. */
int work_again(struct work *w, struct err *err);
/* After a failure: true when it was a collection that took layers away which the worker had found
 * here, and all is ready for another try. */
bool work_lost(struct work *w);
/* Removes what is left of the worker's folder. */
void work_end(struct work *w);

/* Runs a worker; its result, the image that it describes, is to be freed. fd becomes its 4; -1 =
 * none. request gets the folder and the caps. */
int work_run(struct work *w, json_t *request, int fd, image_progress progress, void *arg,
             json_t **ret_image, struct err *err);

/* Puts the layers in place, then the record, then the names. The image of the first name comes
 * back, or, where there are none, that of the id. */
int work_publish(struct work *w, const json_t *made, const char *origin, char *const *names,
                 struct image **ret, struct err *err);

/* ---- commit.c: what a build does too ---- */

/* What the worker needs of the image below, which stays meanwhile. Under the lock. */
int work_add_base(struct work *w, const char *base_id, json_t *request, struct err *err);
/* Before it is published: the id of what was made. */
void work_tell_made(const json_t *made, void (*tell)(const char *image_id, void *arg), void *arg);

/* ---- snapshot.c: images of what a sandbox changed ---- */

#define SNAPSHOT_LAYER "0" /* the new layer, in the folder of the work */

/* The layers of snapshots that an image has: always the topmost ones. */
unsigned record_own_layers(const struct record *r);
/* The image below, whose layers stay from here on; *ret_document is NULL for the host. Under the
 * lock. */
int snapshot_base(struct work *w, const char *base_id, struct record *ret, char **ret_document,
                  struct err *err);
/* The image that has SNAPSHOT_LAYER on top of r, which becomes it. Who keeps it is told its id
 * first. */
int snapshot_put(struct work *w, struct record *r, const char *below, uint64_t bytes,
                 void (*made)(const char *image_id, void *arg), void *arg, struct err *err);

/* ---- import.c ---- */

/* A folder or a file on this machine. */
int source_open(const char *path, int *ret_fd, struct err *err);

/* ---- worker_process.c ---- */

/* Runs the worker's program with that request: src/worker/worker.h has what is said. *ret_done is
 * its last event. */
int worker_run(int program, int layersfd, int fd, const json_t *request, image_progress progress,
               void *arg, json_t **ret_done, struct err *err);
