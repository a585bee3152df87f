#include "launch/launch_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "launch/mount_calls.h"

/* The mounts of a box that need the host's privileges: the overlay with id-mapped layers here, the
 * host's folders in shown.c, /dev in dev.c. They are made detached and handed to the child, which
 * attaches them in its own mount namespace. Nothing per box stays in the launcher's namespace, so
 * that a clone costs the same with one sandbox and with a thousand. */

#define MAX_LAYERS  128
#define MAX_PARENTS 8 /* folders that hold layers */

int make_tmpfs(const char *size)
{
    auto_close int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    int m;

    if (fs < 0)
        return -errno;
    if (fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    m = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    return m < 0 ? -errno : m;
}

/* Before 6.13 overlayfs takes its directories by path only, and clones mounts only of the caller's
 * own namespace. */
static bool probe_overlay_fds(void)
{
    auto_close int fs = fsopen("overlay", FSOPEN_CLOEXEC);
    auto_close int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fs >= 0 && dir >= 0 && fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, dir) == 0;
}

/* Moving a process into a cgroup more than a few milliseconds after the last move waits for an RCU
 * grace period (5 ms and more). A hierarchy mounted with favordynmods keeps the kernel out of that
 * mode; ours has no controllers and goes with the last launcher. Its name shows in every
 * /proc/self/cgroup, so it says nothing. Where the kernel has no such option (before 6.0) creates
 * are slower, and nothing else. */
static void keep_cgroup_moves_fast(const char *stage)
{
    char path[4200];

    (void)snprintf(path, sizeof(path), "%s/cgroup", stage);
    (void)mount("cay", path, "cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                "none,name=cay,favordynmods");
}

/* The stage is a tmpfs over plan.stage that only the launcher's namespace has. disk/, root/,
 * nothing/ and the numbers are for kernels that need paths; box/ is what a parked child has for a
 * root, with mount points. */
static const char *const stage_folders[] = {"disk", "root",     "nothing", "volume",    "cgroup",
                                            "box",  "box/proc", "box/sys", "box/sysfs", "box/dev"};

int root_setup(struct launcher *l, const char *stage, const char **step)
{
    auto_close int tmpfs = -1;
    char path[16];

    *step = "set up the stage";
    tmpfs = make_tmpfs("256k");
    if (tmpfs < 0)
        return tmpfs;
    if (move_mount(tmpfs, "", AT_FDCWD, stage, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_LEN(stage_folders); i++)
        if (mkdirat(tmpfs, stage_folders[i], 0755) < 0)
            return -errno;
    for (int i = 0; i < MAX_PARENTS; i++) {
        (void)snprintf(path, sizeof(path), "%d", i);
        if (mkdirat(tmpfs, path, 0755) < 0)
            return -errno;
    }
    keep_cgroup_moves_fast(stage);
    l->overlay_takes_fds = probe_overlay_fds();
    l->shown_last = strv_add(NULL, "/usr"); /* the `host` image is the likeliest */
    l->stage = xstrdup(stage);
    return 0;
}

int map_mount(int mount, int userns, uint64_t attrs)
{
    struct mount_attr attr = {.attr_set = attrs | (userns >= 0 ? MOUNT_ATTR_IDMAP : 0),
                              .userns_fd = userns >= 0 ? (uint64_t)userns : 0};

    return mount_setattr(mount, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0 ? -errno
                                                                                           : 0;
}

/* ---- the overlay ---- */

/* Most layers are in one folder. That folder is cloned and id-mapped once, and the layers are
 * opened beneath the clone, so that many of them cost little more than one. */
struct stack {
    int parents[MAX_PARENTS];
    size_t parent_len[MAX_PARENTS]; /* of plan->layers[first[…]] */
    unsigned first[MAX_PARENTS];
    unsigned n_parents;
    unsigned parent[MAX_LAYERS]; /* of each layer */
    int layers[MAX_LAYERS];
    unsigned n;
};

static void stack_done(struct stack *s)
{
    while (s->n > 0)
        close_fd(&s->layers[--s->n]);
    while (s->n_parents > 0)
        close_fd(&s->parents[--s->n_parents]);
}

/* The folder that layer i is in, as an index. */
static int stack_parent(struct stack *s, const struct plan *plan, unsigned i, int userns)
{
    const char *path = plan->layers[i], *slash = strrchr(path, '/');
    auto_close int fd = -1;
    char *parent;
    size_t len;
    int r;

    if (!slash || slash == path || !slash[1])
        return -EINVAL;
    len = (size_t)(slash - path);
    for (unsigned p = 0; p < s->n_parents; p++)
        if (s->parent_len[p] == len && memcmp(plan->layers[s->first[p]], path, len) == 0)
            return (int)p;
    if (s->n_parents == MAX_PARENTS)
        return -E2BIG;
    parent = xstrndup(path, len);
    fd = open_tree(AT_FDCWD, parent, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    r = fd < 0 ? -errno : 0;
    free(parent);
    if (r == 0)
        r = map_mount(fd, userns, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (r < 0)
        return r;
    s->parents[s->n_parents] = steal_fd(fd);
    s->parent_len[s->n_parents] = len;
    s->first[s->n_parents] = i;
    return (int)s->n_parents++;
}

static int stack_open(struct stack *s, const struct plan *plan, int userns)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };

    for (; plan->layers[s->n]; s->n++) {
        const char *path = plan->layers[s->n];
        int p, fd;

        if (s->n == MAX_LAYERS)
            return -E2BIG;
        p = stack_parent(s, plan, s->n, userns);
        if (p < 0)
            return p;
        fd = (int)syscall(SYS_openat2, s->parents[p], path + s->parent_len[p] + 1, &how,
                          sizeof(how));
        if (fd < 0)
            return -errno;
        s->parent[s->n] = (unsigned)p;
        s->layers[s->n] = fd;
    }
    return 0;
}

/* An upper directory can become a layer by itself: nothing in it refers to the layers below. Not
 * volatile: fsync inside goes to the disk, and the disk outlives the box. */
static const char *const overlay_options[][2] = {
    {"redirect_dir", "nofollow"},
    {"metacopy", "off"},
    {"index", "off"},
};

static int finish_overlay(int fs)
{
    int m;

    for (size_t i = 0; i < ARRAY_LEN(overlay_options); i++)
        if (fsconfig(fs, FSCONFIG_SET_STRING, overlay_options[i][0], overlay_options[i][1], 0) < 0)
            return -errno;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    m = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return m < 0 ? -errno : m;
}

static int overlay_by_fd(const struct stack *s, int scratch)
{
    auto_close int fs = fsopen("overlay", FSOPEN_CLOEXEC);
    auto_close int upper = openat(scratch, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_close int work = openat(scratch, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fs < 0 || upper < 0 || work < 0)
        return -errno;
    for (unsigned i = 0; i < s->n; i++)
        if (fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, s->layers[i]) < 0)
            return -errno;
    if (fsconfig(fs, FSCONFIG_SET_FD, "upperdir", NULL, upper) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FD, "workdir", NULL, work) < 0)
        return -errno;
    return finish_overlay(fs);
}

/* ---- the same by path ----
 *
 * fsconfig takes strings of 255 bytes, and overlayfs before 6.5 takes all layers in one, so that
 * this is mount(2), whose options are a page. Names are short and relative to the stage: the
 * folders with layers are mounted at numbers, and l0, l1 … are links to the layers in them.
 * Everything is on the stage only while the overlay is made; it keeps clones of its own. */

static int stage_layers(const struct plan *plan, const struct stack *s, struct buf *options)
{
    char name[32];

    for (unsigned p = 0; p < s->n_parents; p++) {
        (void)snprintf(name, sizeof(name), "%u", p);
        if (move_mount(s->parents[p], "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
            return -errno;
    }
    for (unsigned i = 0; i < s->n; i++) {
        auto_free char *target =
            xasprintf("%u%s", s->parent[i], plan->layers[i] + s->parent_len[s->parent[i]]);

        (void)snprintf(name, sizeof(name), "l%u", i);
        if (symlink(target, name) < 0)
            return -errno;
        if (buf_addf(options, "%s%s", i ? ":" : "lowerdir=", name) < 0)
            return -E2BIG;
    }
    return 0;
}

static void unstage(const struct stack *s)
{
    char name[32];

    for (unsigned i = 0; i < s->n; i++) {
        (void)snprintf(name, sizeof(name), "l%u", i);
        (void)unlink(name);
    }
    for (unsigned p = 0; p < s->n_parents; p++) {
        (void)snprintf(name, sizeof(name), "%u", p);
        (void)umount2(name, MNT_DETACH);
    }
    (void)umount2("disk", MNT_DETACH);
}

static int mount_staged(const struct plan *plan, const struct stack *s, int scratch)
{
    auto_buf struct buf options;
    int r, m;

    buf_init(&options, 4000);
    if (move_mount(scratch, "", AT_FDCWD, "disk", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    r = stage_layers(plan, s, &options);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(overlay_options); i++)
        r = buf_addf(&options, ",%s=%s", overlay_options[i][0], overlay_options[i][1]);
    if (r == 0)
        r = buf_add_str(&options, ",upperdir=disk/upper,workdir=disk/work");
    if (r < 0)
        return r;
    if (mount("overlay", "root", "overlay", MS_NOSUID | MS_NODEV, options.data) < 0)
        return -errno;
    m = open_tree(AT_FDCWD, "root", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    r = m < 0 ? -errno : m;
    (void)umount2("root", MNT_DETACH);
    return r;
}

static int overlay_by_path(const struct launcher *l, const struct plan *plan, const struct stack *s,
                           int scratch)
{
    int r;

    if (chdir(l->stage) < 0)
        return -errno;
    r = mount_staged(plan, s, scratch);
    unstage(s);
    if (chdir("/") < 0 && r >= 0) {
        (void)close(r);
        r = -errno;
    }
    return r;
}

static int make_overlay(const struct launcher *l, const struct plan *plan, int scratch, int userns,
                        const char **step)
{
    struct stack s = {0};
    int r;

    *step = "map the ids of an image layer (does its filesystem support id-mapped mounts?)";
    r = stack_open(&s, plan, userns);
    if (r == 0) {
        *step = "mount the root filesystem";
        r = l->overlay_takes_fds ? overlay_by_fd(&s, scratch)
                                 : overlay_by_path(l, plan, &s, scratch);
    }
    stack_done(&s);
    return r;
}

int root_make(struct launcher *l, const struct plan *plan, int scratch, int userns,
              struct shown *shown, struct parts *parts, const char **step)
{
    int r = make_overlay(l, plan, scratch, userns, step);

    if (r < 0)
        return r;
    parts->root = r;
    *step = "show a folder of the host";
    return shown_take(l, shown, plan->binds, userns, parts);
}
