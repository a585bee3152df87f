#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/json_text_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/snapshots.h"
#include "engine/snapshots_internal.h"
#include "engine/still_internal.h"
#include "image/image.h"
#include "runtime/runtime.h"

/* What a sandbox changed, while it stands still: against what it was made from, or a snapshot. */

#define CHANGES_MAX 50000

struct change_list {
    struct engine *engine;
    struct sandbox *sb;
    json_t *changes;
    bool truncated;
};

static const char *type_of(uint32_t mode)
{
    return S_ISDIR(mode)   ? "directory"
           : S_ISLNK(mode) ? "symlink"
           : S_ISREG(mode) ? "file"
                           : "other";
}

static int found(void *arg, char kind, const char *path, uint32_t mode, int64_t size,
                 struct err *err)
{
    struct change_list *l = arg;
    json_t *one;

    if (still_goes_on(l->engine, l->sb, err) < 0)
        return -1;
    if (json_array_size(l->changes) >= CHANGES_MAX) {
        l->truncated = true;
        return err_set(err, ERR_TOO_LARGE, "more has changed than is told");
    }
    one = json_pack("{s:s%, s:o, s:s, s:I}", "kind", &kind, (size_t)1, "path", json_cstr(path),
                    "type", type_of(mode), "size", (json_int_t)(S_ISREG(mode) ? size : 0));
    (void)json_array_append_new(l->changes, one);
    return 0;
}

static int by_path(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;

    return strcmp(json_string_value(json_object_get(x, "path")),
                  json_string_value(json_object_get(y, "path")));
}

/* With its commit_turn. */
static int list_changes(struct change_list *l, const char *against_id, struct err *err)
{
    struct engine *e = l->engine;
    struct image_changes changes = {.image_id = l->sb->image_id,
                                    .against_id = against_id ? against_id : l->sb->image_id,
                                    .found = found,
                                    .arg = l};
    auto_close int disk = -1;
    int r;

    if (still_begin(e, l->sb, err) < 0)
        return -1;
    r = runtime_disk_open(e->runtime, &l->sb->box, true, &disk, &changes.ids_base, err);
    if (r == 0) {
        changes.scratch_fd = disk;
        r = image_changes(e->images, &changes, err);
        close_fd(&disk);
    }
    still_end(e, l->sb);
    return l->truncated ? 0 : r;
}

int engine_diff(struct engine *e, const char *sandbox_id, const char *snapshot_id, json_t **ret,
                struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct change_list l = {.engine = e};
    json_t *snapshot = NULL;
    int r;

    if (sandbox_get(e, sandbox_id, &sb, err) < 0 ||
        (snapshot_id && snapshot_hold(e, snapshot_id, sb->box.id, &snapshot, err) < 0))
        return -1;
    r = still_claim(e, sb, true, err);
    if (r == 0) {
        l.sb = sb;
        l.changes = json_array();
        r = list_changes(&l, json_string_value(json_object_get(snapshot, "imageId")), err);
        still_release(e, sb);
        l.changes = json_sorted(l.changes, by_path);
        if (r == 0)
            *ret = json_pack("{s:o, s:b}", "changes", l.changes, "truncated", l.truncated);
        else
            json_decref(l.changes);
    }
    snapshot_let_go(e, snapshot);
    return r;
}
