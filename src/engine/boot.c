#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/background_internal.h"
#include "engine/boot_internal.h"
#include "engine/dirs_internal.h"
#include "engine/engine_internal.h"
#include "engine/exec.h"
#include "engine/exec_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/writer_internal.h"
#include "image/image.h"
#include "runtime/runtime.h"

/* How the box of a sandbox comes up and goes, for all who need one: a create, a start, a restore.
 */

/* The agent is an older one only when a daemon died in the midst of a create and its successor is
 * of a newer version. */
static int start_main(struct engine *e, struct sandbox *sb, struct err *err)
{
    struct exec_request req = {.argv = sb->spec.entrypoint, .apart = true};
    struct err why = {0};
    auto_close int fd = -1;
    uint32_t pid;

    if (exec_start(e, sb, &req, "main", EXEC_LOG_MAX, &fd, &pid, &why) == 0)
        return 0;
    if (why.kind == ERR_INVALID && strstr(why.text, "unknown flags")) {
        req.apart = false;
        return exec_start(e, sb, &req, "main", EXEC_LOG_MAX, &fd, &pid, err);
    }
    if (err)
        *err = why;
    return -1;
}

int sandbox_set_up(struct engine *e, struct sandbox *sb, bool has_dirs, struct err *err)
{
    if (!has_dirs && dirs_make(e, sb, err) < 0)
        return -1;
    if (sb->spec.entrypoint && start_main(e, sb, err) < 0)
        return err_wrap(err, "start the entrypoint");
    main_state_begin(sb);
    return 0;
}

/* The row of intent is written while the box starts: until it is there, the PREPARED row leads
 * recovery to the same box. */
int sandbox_launch(struct engine *e, struct sandbox *sb, const struct image *image, struct err *err)
{
    struct box_root root = {.layers = image->layers, .binds = image->binds};
    bool has_dirs = dirs_plan(e, sb, &root);
    struct write_job *intent = writer_put(e, sb);
    struct err write_err = {0};
    struct box box = sb->box;
    int made, written;

    writer_begin(e, intent);
    made = runtime_create(e->runtime, &box, &root, &sb->spec.limits, err);
    written = writer_wait(e, intent, &write_err);
    pthread_mutex_lock(&sb->lock);
    sb->box.pid = box.pid;
    sb->box.pid_start = box.pid_start;
    sb->box.slot = box.slot;
    sb->started_ns = mono_ns();
    pthread_mutex_unlock(&sb->lock);
    if (made < 0)
        return -1;
    if (written < 0) {
        if (err)
            *err = write_err;
        return -1;
    }
    return sandbox_set_up(e, sb, has_dirs, err);
}
