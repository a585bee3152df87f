#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct documents;
struct err;

/* Nouns of which there are few and that a lost database must not take along: snapshots, volumes,
 * templates. Each is a JSON object in a file of its own, <data>/<folder>/<id>.json, and in memory.
 * Callable from any thread. */

/* Makes the folder when there is none. A file that is no document, or of which is_one (NULL = any)
 * says that it is none of these, is set aside as <id>.json.damaged and logged; one that cannot be
 * read for another reason is a failure. */
int documents_open(const char *data_dir, const char *folder, bool (*is_one)(json_t *o),
                   struct documents **ret, struct err *err);
void documents_close(struct documents *d);

/* There was one that is set aside, now or at an earlier start: nobody knows what it named. */
bool documents_some_aside(const struct documents *d);

/* A copy, which is the caller's; NULL = there is none. */
json_t *documents_get(struct documents *d, const char *id);
/* All, each with its `id`, in the order of `createdAt`: an array that is the caller's. */
json_t *documents_all(struct documents *d);
size_t documents_count(struct documents *d);
/* What all of them take as texts. */
size_t documents_bytes(struct documents *d);

/* On the disk when this returns, also after a power cut; on failure the old one stays. The id is a
 * valid one (base/id.h). Takes o, which has it as `id`. */
int documents_put(struct documents *d, const char *id, json_t *o, struct err *err);
/* Fine if there is none. */
int documents_delete(struct documents *d, const char *id, struct err *err);
