#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* What a sandbox has mounted beside its own disk, as it stands in `mounts` of its config: an array
 * of objects that is replaced as a whole and never changed in place. */

#define MOUNTS_MAX      16  /* of one sandbox */
#define MOUNT_PATH_MAX  512 /* bytes of a mountPath, and of a subPath */
#define VOLUME_MB_MIN   16
#define VOLUME_MB_MAX   (1 << 20)
#define VOLUME_NAME_MAX 128
/* What begins so is an id, or meant to be one, and is never looked up as a name. */
#define VOLUME_ID_START "vol_"

enum mount_type { MOUNT_VOLUME, MOUNT_TMPFS, MOUNT_BIND };
extern const char *const mount_type_words[];

/* One of them; the texts stay the object's. */
struct mount_spec {
    enum mount_type type;
    const char *source; /* a volume's id, or a path of the host; NULL of a tmpfs */
    const char *path;   /* where it is in the sandbox: absolute, without . and .. */
    const char *sub;    /* the folder of the source that is shown: "a/b"; NULL = all */
    bool read_only, noexec;
    uint32_t size_mb; /* of a tmpfs */
};

json_t *mount_spec_json(const struct mount_spec *m);
/* Of a stored row: ERR_INTERNAL when it is none. */
int mount_spec_load(const json_t *o, struct mount_spec *ret, struct err *err);

/* Is path that folder, or in it? Both are absolute and without . and .. */
bool path_is_below(const char *path, const char *folder);
