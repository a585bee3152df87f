#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct engine_watch;
struct err;
struct sandbox;
struct snapshots;

/* Before engine_start: the images of snapshots are held from then on. */
int snapshots_open(struct engine *e, struct err *err);
void snapshots_close(struct snapshots *s);

size_t snapshots_count(struct engine *e);
/* A copy of the document, by id or name. */
int snapshot_find(struct engine *e, const char *id, json_t **ret, struct err *err);
/* The same; where several have the name, the one that is of the sandbox (NULL = of any). */
int snapshot_find_for(struct engine *e, const char *id, const char *sandbox_id, json_t **ret,
                      struct err *err);
/* That with its image held, for whoever is about to read it: the snapshot may get another one
 * at any time. */
int snapshot_hold(struct engine *e, const char *id, const char *sandbox_id, json_t **ret,
                  struct err *err);
/* Takes the document; NULL = none. */
void snapshot_let_go(struct engine *e, json_t *o);

/* What is to be kept of a new one. */
struct snapshot_new {
    const char *sandbox_id, *name; /* name NULL = the id */
    const json_t *labels;
    json_t *config;
    char *image_id; /* held by the caller; the snapshot's from then on, or let go */
    int64_t bytes;
};
int snapshot_add(struct engine *e, const struct snapshot_new *new, json_t **ret, struct err *err);

/* Of a snapshot that has another image now, which shows the same; the caller holds the new one. -1
 * when it is not there any more, or changed meanwhile: then the hold is let go. */
int snapshot_swap_image(struct engine *e, const char *id, const char *old_id, const char *new_id,
                        struct err *err);

/* flattener.c: images with many layers of snapshots get fewer, by a thread of its own. */
struct flattener;
int flattener_start(struct engine *e, struct err *err);
void flattener_stop(struct engine *e);
/* Looks at all snapshots, when there is time. */
void flattener_wake(struct engine *e);
/* Past that the thread comes; and past the second, which only who makes them quicker than it can
 * follow comes to, whoever takes a snapshot waits for it. */
#define FLAT_MAX 3
#define OWN_MAX  12
/* The image that shows the same with one such layer, which the caller holds; NULL = that failed. */
char *flatten(struct engine *e, const char *image_id);
/* Now: *image_id, which the caller holds, becomes another one that he holds, unless that fails. */
void flatten_now(struct engine *e, char **image_id);

/* What the sandbox changed becomes an image, which the caller holds: *ret_image_id is his to free.
 * *ret_bytes is what it takes beside the image below; *ret_warning says what was left out, NULL =
 * nothing, and is the caller's to free. When watch (NULL = nobody) is over it ends
 * with "cancelled". */
int snapshot_take(struct engine *e, struct sandbox *sb, const struct engine_watch *watch,
                  char **ret_image_id, int64_t *ret_bytes, char **ret_warning, struct err *err);
/* Fails so when it is. */
int snapshot_check_watch(const struct engine_watch *watch, struct err *err);
