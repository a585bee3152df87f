#pragma once

#include <jansson.h>
#include <openssl/types.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "layer/layer.h"
#include "oci/digest.h"
#include "oci/manifest.h"

struct err;

/* cay-image, the image worker: everything that reads what strangers wrote. One run is one piece of
 * work. It may fail at any point: it says why and ends, and the daemon removes what it made.
 *
 * It is three processes (main.c): the keeper, which the daemon started, the unpacker, which does
 * the work, and the fetcher of a pull. What follows is what the daemon has to know.
 *
 * Descriptors:
 *   0  the request, one line of JSON; its end of file later ends the worker
 *   1  events, a line of JSON each; src/image/image.h lists them. The last one is
 *      {"event":"done","image":{…}} or {"event":"error","kind":…,"code":…,"text":…}
 *   2  log
 *   3  the layers that there are; "tmp" of the request is the worker's own folder there
 *   4  import: the source; export: where the archive goes; commit: the root with upper/ in it;
 *      context: the archive; build: the host's layer, where it is part of an image
 *
 * The image of "done" has "id" (the digest of "document", which is the configuration as text),
 * "digest" (of the manifest, "sha256:…" or ""), "names", "host", "layers" (lowest first: "dir",
 * "bytes", and "made", the name in the worker's folder, unless the layer was there before) and the
 * settings of the configuration. */

enum {
    FD_LAYERS = 3,
    FD_OTHER = 4,
    /* the unpacker's; what it has as 0, 3 and 4 is not the daemon's, but the keeper's */
    FD_TMP = 5,
    FD_TRUSTED = 6, /* layer/trusted.h */
    FD_FETCH = 7,   /* fetch.h */
    FD_KEPT = 10,   /* from here on a number is nobody's */
};

#define REQUEST_MAX (32u << 20)

struct worker_request {
    json_t *json;
    int tmp; /* the worker's folder */
    uint64_t max_bytes, max_entries;
    struct layer_budget *budget; /* for all layers of the image */
};

/* NULL when the request has no such string. */
const char *request_string(const struct worker_request *q, const char *key);
/* The strings of an array; free them. */
char **strings_of_json(const json_t *a);

/* ---- unpacker.c ---- */

/* Does not come back. work: the keeper's request, and its end; trusted, ask: FD_TRUSTED, FD_FETCH.
 */
_Noreturn void unpacker_run(int work, int trusted, int ask);

/* ---- the work; each returns the image of "done" ---- */

int worker_pull(const struct worker_request *q, json_t **ret, struct err *err);
int worker_import(const struct worker_request *q, json_t **ret, struct err *err);
/* import_root.c: what is no bundle of images is a root. */
int worker_import_root(const struct worker_request *q, bool is_dir, json_t **ret, struct err *err);
int worker_export(const struct worker_request *q, json_t **ret, struct err *err);
int worker_commit(const struct worker_request *q, json_t **ret, struct err *err);
int worker_layer_export(const struct worker_request *q, json_t **ret, struct err *err);
int worker_layer_import(const struct worker_request *q, json_t **ret, struct err *err);
/* The document of the image below with this layer; on the host there is none below. */
int commit_document(const struct worker_request *q, bool host, const char *diff_id, char **ret,
                    struct err *err);
/* build.c: a step of a build, or with "digest" only {"digest"} of what it would copy. */
int worker_build(const struct worker_request *q, json_t **ret, struct err *err);
int worker_context(const struct worker_request *q, json_t **ret, struct err *err);
/* {"text"}: a file of the context. */
int worker_show(const struct worker_request *q, json_t **ret, struct err *err);

/* ---- events.c; from any thread ---- */

/* Takes the event. */
void event_send(json_t *event);
/* Waits until ended is signalled, or it is time to tell again how far the work is. held is given
 * back meanwhile. */
void event_pause(pthread_cond_t *ended, pthread_mutex_t *held);
/* Says why, and ends the process, also while other threads work. */
_Noreturn void event_fail(const struct err *err);
/* An error on its way from one process to another. */
json_t *error_json(const struct err *err);
void error_from_json(const json_t *o, struct err *ret);

/* ---- document.c: configurations, and the image that is told ---- */

/* Of an image that has only this: "config" is empty. */
json_t *document_new(const char *diff_id);
/* Adds the layer (NULL = none) and what a commit changes; takes neither. */
int document_commit(json_t *document, const char *diff_id, const json_t *changes, struct err *err);
/* Other layers in place of its own, each "sha256:…". */
void document_set_layers(json_t *document, const json_t *diff_ids);
/* As text; free it. */
char *document_text(const json_t *document);
/* The settings, id and document of the image; layers, names and digest are the caller's. */
int document_image(const char *text, size_t len, json_t **ret, struct err *err);

void text_digest(const void *text, size_t len, char ret[DIGEST_HEX]);
/* The name of a layer that is what it is only on top of below: a chain id, or a word. */
void bound_name(const char *below, const char *diff_id, char ret[DIGEST_HEX]);

/* ---- layers.c: makes the layers of an image, several at once ---- */

enum layer_state { LAYER_WAITING, LAYER_DOWNLOADING, LAYER_UNPACKING, LAYER_DONE, LAYER_PRESENT };

struct layer_job {
    /* by the caller */
    char diff_id[DIGEST_HEX];
    struct blob blob; /* what is read; size 0 = not known */
    /* Starts the source; it counts what it reads in job->read. */
    int (*open)(struct layer_job *job, struct unpack_source *ret, struct err *err);
    /* After all was unpacked: was it what it should be? */
    int (*close)(struct layer_job *job, struct err *err);
    /* After unpacking failed: was it the source's fault? Then source_failed is set. May be NULL. */
    void (*blame)(struct layer_job *job);
    void *arg;
    /* What went wrong in the source, which explains why unpacking failed. */
    struct err *source_error;
    _Atomic bool source_failed;
    _Atomic uint64_t read;
    /* by layers_make */
    _Atomic int state;
    char dir[DIGEST_HEX], chain[DIGEST_HEX];
    char made[24]; /* "" = was there before */
    int root;
    struct layer layer;
    uint64_t bytes, entries;
    /* what was told last */
    int told_state;
    uint64_t told_read;
};

struct layer_job *layer_jobs_new(size_t n);

/* Which of them are here already. */
void layers_look(struct layer_job *jobs, size_t n);
/* Makes the others, checks them, and puts all on disk. Does not come back when one of its threads
 * fails. */
int layers_make(const struct worker_request *q, struct layer_job *jobs, size_t n, struct err *err);
json_t *layers_json(const struct layer_job *jobs, size_t n);
/* A single layer was filled in the worker's folder; its entry in "layers". */
int layer_made(const struct worker_request *q, struct layer *l, const char *made,
               const char *diff_id, json_t **ret, struct err *err);
/* A new empty layer in the worker's folder, within the request's caps. */
int layer_begin(const struct worker_request *q, const char *made, struct layer *l, int *ret_root,
                struct err *err);

/* ---- bundle.c: files by name, in a folder or in an archive ---- */

struct bundle;

struct bundle_file {
    int fd; /* owned */
    uint64_t at, size;
};

void bundle_file_done(struct bundle_file *p);
#define auto_bundle_file __attribute__((cleanup(bundle_file_done)))

struct bundle *bundle_of_dir(int dirfd);
/* *ret is NULL when the archive is no bundle: then it is that of a root. fd is read from its start
 * on; what must be unpacked goes to files without a name below the worker's folder. */
int bundle_of_archive(const struct worker_request *q, int fd, struct bundle **ret, struct err *err);
void bundle_free(struct bundle *b);

bool bundle_has(const struct bundle *b, const char *name);
/* ERR_INVALID "bad_image" when it is not there. */
int bundle_open(const struct bundle *b, const char *name, struct bundle_file *ret, struct err *err);
/* The whole of a small one, with a NUL behind it. */
int bundle_read(const struct bundle *b, const char *name, size_t max, char **ret, size_t *ret_len,
                struct err *err);

/* ---- layout.c, saved.c: what a bundle says ---- */

struct bundle_image {
    char **names;            /* what it is called, as written there */
    char digest[DIGEST_HEX]; /* of the manifest; "" */
    char *config;
    size_t config_len;
    struct bundle_layer {
        char *name; /* of the file */
        struct blob blob;
        bool checked; /* its digest is known */
    } * layers;
    size_t n_layers;
};

void bundle_image_done(struct bundle_image *image);
/* The image of that name, or the only one; name may be NULL. */
int layout_choose(const struct bundle *b, const char *name, struct bundle_image *ret,
                  struct err *err);
int saved_choose(const struct bundle *b, const char *name, struct bundle_image *ret,
                 struct err *err);
/* Do the two mean the same image? */
bool same_name(const char *a, const char *b);
/* ERR_INVALID: it holds these, and one must be chosen. */
int several_images(char *const *names, struct err *err);
