/* The outside half of a box of the floor. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/sched.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "floor.h"
#include "launch/launch_internal.h" /* for the very filter that cay loads */

#define IDS_FIRST 0x70000000u
#define IDS_COUNT 65536u
#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

struct box {
    unsigned number;
    char *dir; /* upper, work, sock */
    int listen, pidfd;
    pid_t pid;
    struct groups groups;
};

static struct {
    char *dir, *layer, *root, *empty, *hierarchy;
    bool own_layer;
    int agent;
    char *dev;          /* template of /dev, a tmpfs */
    bool overlay_paths; /* a kernel before 6.13: overlayfs takes its layers by path only */
    struct sock_fprog filter;
    unsigned boxes;
} the_floor = {.agent = -1};

/* ---- once ---- */

static int load_agent(const char *path, struct err *err)
{
    auto_close int from = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (from < 0 || fstat(from, &st) < 0)
        return err_sys(err, errno, "open %s", path);
    the_floor.agent = memfd_create("floor-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (the_floor.agent < 0 || sendfile(the_floor.agent, from, NULL, (size_t)st.st_size) < 0)
        return err_sys(err, errno, "copy %s", path);
    if (fcntl(the_floor.agent, F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return err_sys(err, errno, "seal the agent");
    return 0;
}

/* What lies below every box's own layer. */
static int make_layer(struct err *err)
{
    static const char *const dirs[] = {"",     "/usr", "/proc",      "/sys",
                                       "/dev", "/tmp", "/workspace", "/etc"};
    static const char *const links[][2] = {
        {"usr/bin", "bin"}, {"usr/sbin", "sbin"}, {"usr/lib", "lib"}, {"usr/lib64", "lib64"}};

    the_floor.layer = xasprintf("%s/layer", the_floor.dir);
    the_floor.own_layer = true;
    for (unsigned i = 0; i < ARRAY_LEN(dirs); i++) {
        auto_free char *path = xasprintf("%s%s", the_floor.layer, dirs[i]);

        if (mkdir(path, 0755) < 0)
            return err_sys(err, errno, "make %s", path);
    }
    for (unsigned i = 0; i < ARRAY_LEN(links); i++) {
        auto_free char *path = xasprintf("%s/%s", the_floor.layer, links[i][1]);

        if (symlink(links[i][0], path) < 0)
            return err_sys(err, errno, "link %s", path);
    }
    return 0;
}

/* Device nodes cannot be made in a user namespace: made once here, cloned for each box. */
static int make_dev(struct err *err)
{
    static const struct {
        const char *name;
        unsigned major, minor;
    } nodes[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                 {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
    static const char *const dirs[] = {"pts", "shm", "mqueue"};
    auto_close int dir = -1;
    const mode_t mask = umask(0);
    int r = 0;

    the_floor.dev = xasprintf("%s/dev", the_floor.dir);
    if (mkdir(the_floor.dev, 0755) < 0 ||
        mount("tmpfs", the_floor.dev, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k") < 0 ||
        (dir = open(the_floor.dev, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        r = -1;
    for (unsigned i = 0; i < ARRAY_LEN(nodes) && r == 0; i++)
        r = mknodat(dir, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor));
    for (unsigned i = 0; i < ARRAY_LEN(dirs) && r == 0; i++)
        r = mkdirat(dir, dirs[i], 0755);
    (void)umask(mask);
    return r < 0 ? err_sys(err, errno, "make the device nodes") : 0;
}

/* Moving a process between v1 cgroups after a pause waits milliseconds for RCU, unless some
 * hierarchy favours such moves. One of our own does, and dies with our mount namespace; cay does
 * the same. */
static int favour_moves(struct err *err)
{
    auto_free char *options = xasprintf("none,name=cay-floor-%d,favordynmods", (int)getpid());

    the_floor.hierarchy = xasprintf("%s/hierarchy", the_floor.dir);
    if (mkdir(the_floor.hierarchy, 0700) < 0)
        return err_sys(err, errno, "make %s", the_floor.hierarchy);
    /* Kernels before 6.0 do not know the option; there the floor waits, and so does cay. */
    if (mount("cgroup", the_floor.hierarchy, "cgroup", 0, options) < 0)
        (void)fprintf(stderr,
                      "floor: no favordynmods hierarchy (%s); moves after a pause are slow\n",
                      strerror(errno));
    return 0;
}

int floor_setup(const char *dir, const char *agent, const char *root, struct err *err)
{
    the_floor.dir = xstrdup(dir);
    the_floor.root = xasprintf("%s/root", dir);
    the_floor.empty = xasprintf("%s/empty", dir);
    /* The child, who is nobody here, has to get to both. */
    if (chmod(dir, 0711) < 0 || mkdir(the_floor.root, 0755) < 0 || mkdir(the_floor.empty, 0555) < 0)
        return err_sys(err, errno, "make folders in %s", dir);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return err_sys(err, errno, "make a mount namespace (the floor needs root)");
    if (root)
        the_floor.layer = xstrdup(root);
    if (favour_moves(err) < 0 || (!root && make_layer(err) < 0) || make_dev(err) < 0 ||
        load_agent(agent, err) < 0 || seccomp_build(&the_floor.filter, err) < 0)
        return -1;
    return groups_setup(err);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    (void)remove(path);
    return 0;
}

static void remove_tree(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void floor_teardown(void)
{
    groups_teardown();
    if (the_floor.hierarchy) {
        (void)umount2(the_floor.hierarchy, MNT_DETACH);
        (void)rmdir(the_floor.hierarchy);
    }
    if (the_floor.dev) {
        (void)umount2(the_floor.dev, MNT_DETACH);
        (void)rmdir(the_floor.dev);
    }
    if (the_floor.root)
        (void)rmdir(the_floor.root);
    if (the_floor.empty)
        (void)rmdir(the_floor.empty);
    if (the_floor.own_layer)
        remove_tree(the_floor.layer);
}

/* ---- a box ---- */

struct box *box_prepare(struct err *err)
{
    static const char *const dirs[] = {"", "/upper", "/work"};
    struct box *box = xcalloc(1, sizeof(*box));
    auto_free char *sock = NULL;
    const unsigned ids = IDS_FIRST + (the_floor.boxes % 4000) * IDS_COUNT;

    box->number = the_floor.boxes++;
    box->pidfd = box->listen = -1;
    box->dir = xasprintf("%s/%u", the_floor.dir, box->number);
    for (unsigned i = 0; i < ARRAY_LEN(dirs); i++) {
        auto_free char *path = xasprintf("%s%s", box->dir, dirs[i]);

        if (mkdir(path, 0755) < 0 || (i == 1 && chown(path, ids, ids) < 0)) {
            (void)err_sys(err, errno, "make %s", path);
            box_free(box);
            return NULL;
        }
    }
    sock = xasprintf("%s/sock", box->dir);
    box->listen = unix_listen(sock, 64);
    if (box->listen < 0)
        (void)err_sys(err, -box->listen, "listen on %s", sock);
    if (box->listen < 0 || groups_make(&box->groups, box->number, err) < 0) {
        box_free(box);
        return NULL;
    }
    return box;
}

static int map_ids(const struct box *box, struct err *err)
{
    static const char *const files[] = {"uid_map", "gid_map"};
    char map[64], path[64];

    (void)snprintf(map, sizeof(map), "0 %u %u", IDS_FIRST + (box->number % 4000) * IDS_COUNT,
                   IDS_COUNT);
    for (unsigned i = 0; i < ARRAY_LEN(files); i++) {
        int r;

        (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)box->pid, files[i]);
        r = write_file_at(AT_FDCWD, path, map);
        if (r < 0)
            return err_sys(err, -r, "write %s", path);
    }
    return 0;
}

/* A clone of the mount at path as the box's ids see it. The ids are a matter of looks where nothing
 * is written: filesystems that cannot map them are shown as they are when plain is set. */
static int idmapped(const char *path, int userns, uint64_t attrs, bool plain, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | attrs, .userns_fd = (uint64_t)userns};
    auto_close int tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    int r = tree < 0 ? -1 : mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));

    if (r < 0 && tree >= 0 && plain) {
        attr = (struct mount_attr){.attr_set = attrs};
        r = mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));
    }
    return r < 0 ? err_sys(err, errno, "map the ids of %s", path) : steal_fd(tree);
}

static int set_layer(int fs, int layer)
{
    if (!the_floor.overlay_paths) {
        if (fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, layer) == 0)
            return 0;
        the_floor.overlay_paths = true;
    }
    if (move_mount(layer, "", AT_FDCWD, the_floor.root, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -1;
    return fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", the_floor.root, 0);
}

static int make_overlay(const struct box *box, int userns, struct err *err)
{
    auto_free char *upper = xasprintf("%s/upper", box->dir);
    auto_free char *work = xasprintf("%s/work", box->dir);
    auto_close int layer = idmapped(the_floor.layer, userns, READ_ONLY, false, err);
    auto_close int fs = -1;
    int r = 0;

    if (layer < 0)
        return -1;
    fs = fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0 || set_layer(fs, layer) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", upper, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "workdir", work, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        r = err_sys(err, errno, "set up the overlay");
    if (r == 0 && (r = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)) < 0)
        r = err_sys(err, errno, "mount the overlay");
    if (the_floor.overlay_paths) /* it keeps a clone of its own */
        (void)umount2(the_floor.root, MNT_DETACH);
    return r;
}

static int make_parts(const struct box *box, int parts[PARTS], struct err *err)
{
    char path[64];
    auto_close int userns = -1;

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)box->pid);
    userns = open(path, O_RDONLY | O_CLOEXEC);
    if (userns < 0)
        return err_sys(err, errno, "open %s", path);
    if ((parts[PART_ROOT] = make_overlay(box, userns, err)) < 0 ||
        (parts[PART_DEV] = idmapped(the_floor.dev, userns, MOUNT_ATTR_RDONLY, true, err)) < 0 ||
        (the_floor.own_layer &&
         (parts[PART_USR] = idmapped("/usr", userns, READ_ONLY, true, err)) < 0))
        return -1;
    return 0;
}

static int equip(const struct box *box, int go, struct err *err)
{
    int parts[PARTS] = {-1, -1, -1};
    int r = -1;

    if (groups_join(&box->groups, box->pid, err) == 0 && map_ids(box, err) == 0 &&
        make_parts(box, parts, err) == 0) {
        r = send_fds(go, "g", 1, parts, the_floor.own_layer ? PARTS : PART_USR);
        if (r < 0)
            (void)err_sys(err, -r, "send its parts to the box");
    }
    for (unsigned i = 0; i < PARTS; i++)
        close_fd(&parts[i]);
    return r < 0 ? -1 : 0;
}

static int clone_child(struct box *box, struct child_plan *plan, struct err *err)
{
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
                 CLONE_NEWUTS | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)&box->pidfd,
        .exit_signal = SIGCHLD,
    };
    long pid;

    if (box->groups.v2) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)box->groups.procs[0];
    }
    pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid < 0)
        return err_sys(err, errno, "clone into new namespaces");
    if (pid == 0)
        child_main(plan);
    box->pid = (pid_t)pid;
    return 0;
}

static int await_agent(int status, struct err *err)
{
    struct child_failure f;
    ssize_t n = read_some(status, &f, sizeof(f));

    if (n == 0)
        return 0;
    if (n != (ssize_t)sizeof(f))
        return err_set(err, ERR_INTERNAL, "the box ended before its agent served");
    return err_sys(err, f.error, "in the box: %.27s", f.step);
}

int box_start(struct box *box, struct err *err)
{
    int go[2] = {-1, -1}, status[2] = {-1, -1}, r = -1;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go) < 0)
        return err_sys(err, errno, "make a socket pair");
    if (pipe2(status, O_CLOEXEC) < 0) {
        (void)err_sys(err, errno, "make a pipe");
    } else {
        struct child_plan plan = {.root = the_floor.root,
                                  .empty = the_floor.empty,
                                  .go = go[1],
                                  .listen = box->listen,
                                  .status = status[1],
                                  .agent = the_floor.agent,
                                  .filter = &the_floor.filter};

        r = clone_child(box, &plan, err);
    }
    close_fd(&go[1]);
    close_fd(&status[1]);
    if (r == 0)
        r = equip(box, go[0], err);
    if (r == 0)
        r = await_agent(status[0], err);
    close_fd(&go[0]);
    close_fd(&status[0]);
    return r;
}

int box_connect(const struct box *box, struct err *err)
{
    auto_free char *sock = xasprintf("%s/sock", box->dir);
    int fd = unix_connect(sock);

    return fd < 0 ? err_sys(err, -fd, "connect to %s", sock) : fd;
}

int box_freeze(const struct box *box, bool frozen, struct err *err)
{
    return groups_freeze(&box->groups, frozen, err);
}

int box_kill(struct box *box, struct err *err)
{
    siginfo_t info;

    if (box->pidfd < 0)
        return 0;
    if (syscall(SYS_pidfd_send_signal, box->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
        return err_sys(err, errno, "kill the box");
    while (waitid(P_PIDFD, (id_t)box->pidfd, &info, WEXITED) < 0)
        if (errno != EINTR)
            return err_sys(err, errno, "wait for the box");
    close_fd(&box->pidfd);
    return 0;
}

void box_free(struct box *box)
{
    if (!box)
        return;
    (void)box_kill(box, NULL);
    groups_remove(&box->groups);
    close_fd(&box->listen);
    remove_tree(box->dir);
    free(box->dir);
    free(box);
}
