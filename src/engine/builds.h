#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct engine_watch;
struct err;

/* What a build asks of the engine; service/build does the building. Its images have no names. Each
 * image that is given here is held for the caller, who lets it go (engine_image_let_go). */

/* Is the daemon about to end? Then so do builds, though their commands could go on without us. */
bool engine_is_ending(const struct engine *e);

/* What a build begins with: Image. As with a create it is pulled when it is not here, and must be
 * one that is allowed. */
int engine_build_base(struct engine *e, const char *name, const char *platform,
                      const struct engine_watch *watch, json_t **ret, struct err *err);

/* A step that needs no sandbox; image/image.h has what items and config are. */
struct build_layer {
    const char *base_id;  /* NULL = nothing */
    char *const *from;    /* ids of images that items copy from; NULL = none */
    const json_t *items;  /* array */
    const json_t *config; /* what changes; NULL = nothing */
};
/* Image */
int engine_build_layer(struct engine *e, const struct build_layer *l,
                       const struct engine_watch *watch, json_t **ret, struct err *err);
/* Of what the items would copy, as 64 hex digits. */
#define BUILD_DIGEST_SIZE 65
int engine_build_digest(struct engine *e, const struct build_layer *l,
                        const struct engine_watch *watch, char ret[BUILD_DIGEST_SIZE],
                        struct err *err);

/* An empty file without a name for an archive, which then becomes the layer of an image. apart
 * (NULL = none): a text at the top of the archive that is no part of it. Both results are to be
 * freed; of the text NULL when there is none. */
int engine_build_file(struct engine *e, int *ret_fd, struct err *err);
/* Is there room for more in such a file? To be asked now and then. */
int engine_build_room(struct engine *e, struct err *err);
int engine_build_context(struct engine *e, int fd, uint64_t max_bytes, const char *apart,
                         size_t apart_max, const struct engine_watch *watch, char **ret_id,
                         char **ret_text, struct err *err);
/* A text of that image: ERR_NOT_FOUND "file_not_found". Has a NUL behind it; free it. */
int engine_build_text(struct engine *e, const char *id, const char *path, size_t max, char **ret,
                      size_t *ret_len, struct err *err);

/* Bytes of its layers; 0 = not known. */
int64_t engine_build_size(struct engine *e, const char *id);

/* ---- what was built before (engine/build_cache.c) ---- */

/* A key is 64 hex digits, the digest of all that a step depends on. Its image's id, to be freed;
 * NULL = it is not known, or gone. */
char *engine_build_cached(struct engine *e, const char *key);
/* Kept until so many others were, or it was not used for a week, or images are pruned. That it
 * could not be kept is no failure: the step is done again some day. */
void engine_build_keep(struct engine *e, const char *key, const char *image_id);

#define BUILD_CACHE_MAX 1000
