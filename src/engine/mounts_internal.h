#pragma once

#include <jansson.h>
#include <stddef.h>

#include "model/mount.h"
#include "runtime/runtime.h"

struct engine;
struct err;
struct sandbox;
struct sandbox_request;
struct sandbox_spec;
struct volume;

/* What sandboxes have mounted beside their disks. */

/* Volumes of a sandbox that is being made; they stay until it can be found, and says so itself. */
struct mount_pins {
    struct volume *volumes[MOUNTS_MAX];
    unsigned n;
};

/* Checks the request and fills spec->mounts; limits are there already. Volumes that are to be made
 * are made. Let go with mounts_unpin, also after a failure. */
int mounts_read(struct engine *e, const struct sandbox_request *req, struct sandbox_spec *spec,
                struct mount_pins *pins, struct err *err);
void mounts_unpin(struct engine *e, struct mount_pins *pins);

/* What a box is made with. */
struct open_mounts {
    struct box_mount list[MOUNTS_MAX];
    unsigned n;
    json_t *mounts; /* has the texts */
};

/* Opens all that the sandbox's spec has, for runtime_create. Close it in any case. */
int mounts_open(struct engine *e, struct sandbox *sb, struct open_mounts *ret, struct err *err);
void mounts_close(struct open_mounts *m);

/* For attach.c: normal forms of where something is to be mounted, and of the folder of it (NULL =
 * all); whether there is room for one more, with the others mounted already or not; a new array
 * with it, in which outer ones come first. */
int mount_check_path(const char *path, char **ret, struct err *err);
int mount_check_sub(const char *sub, char **ret, struct err *err);
int mount_check_others(const json_t *mounts, const struct mount_spec *new, bool are_mounted,
                       struct err *err);
json_t *mounts_with(const json_t *mounts, const struct mount_spec *new);
/* Opens one; the caller closes its descriptor. */
int mount_open(struct engine *e, const struct mount_spec *m, struct box_mount *ret,
               struct err *err);

/* attach.c: of a sandbox that runs, after a restart: mounts what its spec has and its box has not,
 * because the daemon was killed in between. */
void mounts_recover(struct engine *e, struct sandbox *sb);
