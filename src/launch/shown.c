#include "launch/launch_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "launch/mount_calls.h"

/* Folders of the host that a box is shown: /usr of the `host` image. A box must not have the host's
 * own inodes: it could watch what the host runs, and locks on them would be a channel to the
 * neighbours. So each box has an overlay over the folder, with nothing else in it: the pages are
 * shared, the inodes are not. It cannot be written, and syncing it does nothing to the host.
 *
 * Making one takes longer than the rest of a create's mounts together, so a parked box gets those
 * that the last box had, ahead of time. */

#define SHOWN_ATTRS (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* An overlay without an upper directory has two lower ones at least. The other is an empty folder
 * above: what is asked about the filesystem as a whole is answered by that, so that the box does
 * not see how full the host's disk is. */
#define NOTHING "nothing"

static int overlay_by_fd(int nothing, int folder)
{
    auto_close int fs = fsopen("overlay", FSOPEN_CLOEXEC);
    int m;

    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, nothing) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, folder) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "redirect_dir", "nofollow", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "metacopy", "off", 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    m = fsmount(fs, FSMOUNT_CLOEXEC, SHOWN_ATTRS);
    return m < 0 ? -errno : m;
}

/* As root.c does it for the image's root: with names on the stage, for a moment. */
static int overlay_by_path(int folder)
{
    int r;

    if (move_mount(folder, "", AT_FDCWD, "0", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    if (mount("overlay", "root", "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV,
              "lowerdir=" NOTHING ":0,redirect_dir=nofollow,metacopy=off") < 0) {
        r = -errno;
    } else {
        r = open_tree(AT_FDCWD, "root", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        r = r < 0 ? -errno : r;
        (void)umount2("root", MNT_DETACH);
    }
    (void)umount2("0", MNT_DETACH);
    return r;
}

/* A folder with the box's ids: its owner shows as root where the filesystem can map ids, else as
 * nobody. */
static int open_mapped(const char *path, int userns)
{
    auto_close int folder = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    int r;

    if (folder < 0)
        return -errno;
    r = map_mount(folder, userns, SHOWN_ATTRS);
    if (r < 0)
        r = map_mount(folder, -1, SHOWN_ATTRS);
    return r < 0 ? r : steal_fd(folder);
}

static int show(const struct launcher *l, const char *path, int userns)
{
    auto_close int folder = -1, nothing = -1;
    int r;

    if (chdir(l->stage) < 0)
        return -errno;
    folder = open_mapped(path, userns);
    nothing = open_mapped(NOTHING, userns);
    if (folder < 0 || nothing < 0)
        r = folder < 0 ? folder : nothing;
    else
        r = l->overlay_takes_fds ? overlay_by_fd(nothing, folder) : overlay_by_path(folder);
    (void)chdir("/");
    return r;
}

void shown_done(struct shown *s)
{
    while (s->n > 0)
        (void)close(s->mounts[--s->n]);
    strv_free(s->paths);
    s->paths = NULL;
}

static int show_all(const struct launcher *l, char *const *paths, int userns, struct shown *s)
{
    s->paths = strv_copy(paths);
    for (; *paths; paths++) {
        int m = s->n == BINDS_MAX ? -E2BIG : show(l, *paths, userns);

        if (m < 0)
            return m;
        s->mounts[s->n++] = m;
    }
    return 0;
}

void shown_prepare(const struct launcher *l, int userns, struct shown *s)
{
    if (show_all(l, l->shown_last, userns, s) < 0) /* then the START tries, and says why */
        shown_done(s);
}

static bool same(char *const *a, char *const *b)
{
    while (*a && *b && strcmp(*a, *b) == 0)
        a++, b++;
    return !*a && !*b;
}

int shown_take(struct launcher *l, struct shown *s, char *const *paths, int userns,
               struct parts *parts)
{
    int r = 0;

    if (!s->paths || !same(s->paths, paths)) {
        shown_done(s);
        r = show_all(l, paths, userns, s);
    }
    if (r < 0)
        return r;
    if (!same(l->shown_last, paths)) {
        strv_free(l->shown_last);
        l->shown_last = strv_copy(paths);
    }
    memcpy(parts->binds, s->mounts, s->n * sizeof(s->mounts[0]));
    parts->n_binds = s->n;
    s->n = 0;
    return 0;
}
