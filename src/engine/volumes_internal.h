#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct err;
struct sandbox;
struct volume;
struct volumes;

/* Which volumes there are. Who uses one is in the mounts of the sandboxes; here is only who is at
 * it at this moment (pins), so that it is not removed or closed under them. */

/* Reads the documents. */
int volumes_open(struct engine *e, struct err *err);
void volumes_close(struct engine *e);
/* Before any sandbox is recovered: finishes what a daemon that was killed had begun. */
void volumes_start(struct engine *e);

size_t volumes_count(struct engine *e);
/* By id or name; let go with volume_unpin. */
int volume_pin(struct engine *e, const char *word, struct volume **ret, struct err *err);
void volume_unpin(struct engine *e, struct volume *v);
/* The one with that name, which is made when there is none. */
int volume_pin_or_create(struct engine *e, const char *name, uint32_t size_mb, struct volume **ret,
                         struct err *err);
const char *volume_id(const struct volume *v);
uint32_t volume_size_mb(const struct volume *v);

/* Of one that is pinned: its root, which stays open as long as it is and while a sandbox that runs
 * has it; and another mount of it, which is the caller's. */
int volume_root(struct engine *e, struct volume *v, int *ret_fd, struct err *err);
int volume_clone(struct engine *e, struct volume *v, int *ret_fd, struct err *err);
/* Closes those of a sandbox that ended, or was stopped, if nobody else has them. */
void volumes_settle(struct engine *e, const json_t *mounts);

/* The sandboxes that have it: the caller lets go of each and frees the list. */
struct sandbox **volume_users(struct engine *e, const char *id, size_t *ret_n);

/* For space.c: what the host has given for all volumes; what those that are open have accepted and
 * the host has not given yet; and how much more each of them may take from now on. */
uint64_t volumes_backed(struct engine *e);
uint64_t volumes_debt(struct engine *e);
void volumes_lease(struct engine *e, uint64_t more);
