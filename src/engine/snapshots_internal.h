#pragma once

#include <jansson.h>
#include <stdint.h>

struct engine;
struct err;
struct sandbox;
struct snapshots;

/* Before engine_start: the images of snapshots are held from then on. */
int snapshots_open(struct engine *e, struct err *err);
void snapshots_close(struct snapshots *s);

/* A copy of the document, by id or name. */
int snapshot_find(struct engine *e, const char *id, json_t **ret, struct err *err);

/* What the sandbox changed becomes an image, which the caller holds: *ret_image_id is his to free.
 * *ret_bytes is what it takes beside the image below. */
int snapshot_take(struct engine *e, struct sandbox *sb, char **ret_image_id, int64_t *ret_bytes,
                  struct err *err);
