#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/agent_client_internal.h"
#include "engine/dirs_internal.h"
#include "engine/engine_internal.h"
#include "engine/env_internal.h"
#include "engine/sandbox_internal.h"
#include "model/mount.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"
#include "runtime/runtime.h"

/* The directories that every sandbox has: its workspace and where its commands start. */

/* Files are in the workspace even when commands start elsewhere. It is made for whoever the image's
 * user is; a working directory is made as others do it. */
static unsigned wanted_dirs(const struct engine *e, const struct sandbox *sb, struct box_dir ret[2])
{
    ret[0].path = e->config.workspace;
    ret[0].mode = user_is_root(sb->image_user) ? 0755 : 01777;
    ret[1] = (struct box_dir){sb->spec.workdir, 0755};
    return strcmp(ret[0].path, ret[1].path) == 0 ? 1 : 2;
}

/* Something is mounted there, or may be. */
static bool is_covered(const struct sandbox *sb, char *const *binds, const char *path)
{
    static const char *const mounts[] = {"/proc", "/sys", "/dev", "/run", "/tmp"};

    for (size_t i = 0; i < ARRAY_LEN(mounts); i++)
        if (str_starts(path, mounts[i]))
            return true;
    for (; binds && *binds; binds++)
        if (str_starts(path, *binds))
            return true;
    for (size_t i = 0; i < json_array_size(sb->spec.mounts); i++) {
        struct mount_spec m;

        if (mount_spec_load(json_array_get(sb->spec.mounts, i), &m, NULL) < 0 ||
            path_is_below(path, m.path))
            return true;
    }
    return false;
}

/* Is it in the layers (1), surely not (0), or can only the box tell (-1)? A layer without the first
 * part of the path says nothing; the topmost that has it decides, if the path goes through plain
 * directories there. */
static int layers_have(char *const *layers, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_NO_XDEV};
    auto_free char *first = xstrndup(path + 1, strcspn(path + 1, "/"));

    for (; layers && *layers; layers++) {
        auto_close int layer = open(*layers, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
        struct stat st;

        if (layer < 0)
            return -1;
        if (fstatat(layer, *first ? first : ".", &st, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno != ENOENT)
                return -1;
            continue;
        }
        fd = (int)syscall(SYS_openat2, layer, path[1] ? path + 1 : ".", &how, sizeof(how));
        return fd >= 0 ? 1 : -1;
    }
    return 0;
}

bool dirs_plan(const struct engine *e, const struct sandbox *sb, struct box_root *root)
{
    struct box_dir wanted[2];
    unsigned n = wanted_dirs(e, sb, wanted);
    bool all = true;

    for (unsigned i = 0; i < n; i++) {
        int there = is_covered(sb, root->binds, wanted[i].path)
                        ? -1
                        : layers_have(root->layers, wanted[i].path);

        if (there == 0)
            root->dirs[root->n_dirs++] = wanted[i];
        all = all && there >= 0;
    }
    return all;
}

int dirs_make(struct engine *e, struct sandbox *sb, struct err *err)
{
    struct box_dir wanted[2];
    unsigned n = wanted_dirs(e, sb, wanted);

    for (unsigned i = 0; i < n; i++) {
        auto_buf struct buf args = {0};

        buf_init(&args, FRAME_MAX);
        wire_put_str(&args, wanted[i].path);
        wire_put_str(&args, "");
        wire_put_u32(&args, wanted[i].mode);
        if (agent_simple(e, sb, CALL_MKDIR, &args, err) < 0)
            return err_wrap(err, "make %s", wanted[i].path);
    }
    return 0;
}
