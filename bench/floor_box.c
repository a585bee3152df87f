/* The outside half of a box of the floor. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/securebits.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "floor.h"
#include "launch/launch_internal.h" /* for the very filter that cay loads */

#define IDS_FIRST    0x70000000u
#define OWNERS_FIRST 0x6f000000u
#define READ_ONLY    (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* Boxes that are there at once have different ones: so many for each process that makes some. */
#define SLOTS         100
#define WORKER_BOXES  (1u << 20)
#define AGENT_BACKLOG 64

struct box {
    unsigned number, slot;
    char *dir; /* disk, ctl, exec */
    int scratch, ctl, exec, pidfd, sync, userns, usr;
    pid_t pid;
    struct groups groups;
};

static struct {
    char *dir, *layer, *stage, *hierarchy;
    bool own_layer;
    int agent;
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

static int new_tmpfs(const char *size)
{
    auto_close int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);

    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    return fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

/* box/ is what a parked child has for a root, nothing/ lies over the host's /usr, and the others
 * are for kernels that need paths. */
static int make_stage(struct err *err)
{
    static const char *const folders[] = {"disk",    "root",     "layer",   "nothing",   "box",
                                          "box/dev", "box/proc", "box/sys", "box/sysfs", "usr"};
    auto_close int tmpfs = new_tmpfs("256k");
    auto_close int overlay = fsopen("overlay", FSOPEN_CLOEXEC);

    the_floor.stage = xasprintf("%s/stage", the_floor.dir);
    if (mkdir(the_floor.stage, 0755) < 0 || tmpfs < 0 ||
        move_mount(tmpfs, "", AT_FDCWD, the_floor.stage, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return err_sys(err, errno, "make %s", the_floor.stage);
    for (unsigned i = 0; i < ARRAY_LEN(folders); i++)
        if (mkdirat(tmpfs, folders[i], 0755) < 0)
            return err_sys(err, errno, "make %s/%s", the_floor.stage, folders[i]);
    the_floor.overlay_paths = fsconfig(overlay, FSCONFIG_SET_FD, "lowerdir+", NULL, tmpfs) < 0;
    return 0;
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
    /* The child, who is nobody here, has to get to the stage. */
    if (chmod(dir, 0711) < 0)
        return err_sys(err, errno, "open %s to others", dir);
    /* Ids change without a change of capabilities: see clone_as_owner(). */
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return err_sys(err, errno, "make a mount namespace (the floor needs root)");
    if (root)
        the_floor.layer = xstrdup(root);
    if (favour_moves(err) < 0 || (!root && make_layer(err) < 0) || make_stage(err) < 0 ||
        disk_setup(dir, err) < 0 || load_agent(agent, err) < 0 ||
        seccomp_build(&the_floor.filter, err) < 0)
        return -1;
    return groups_setup(err);
}

int floor_worker(unsigned number, struct err *err)
{
    the_floor.boxes = number * WORKER_BOXES;
    return unshare(CLONE_NEWNS) < 0 ? err_sys(err, errno, "make a mount namespace") : 0;
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
    if (the_floor.stage) {
        (void)umount2(the_floor.stage, MNT_DETACH);
        (void)rmdir(the_floor.stage);
    }
    disk_teardown();
    if (the_floor.own_layer)
        remove_tree(the_floor.layer);
}

/* ---- what is parked ---- */

static uint32_t ids_of(const struct box *box)
{
    return IDS_FIRST + box->slot * FLOOR_IDS;
}

static uint32_t owner_of(const struct box *box)
{
    return OWNERS_FIRST + box->slot;
}

/* The ids are a matter of looks where nothing is written: filesystems that cannot map them are
 * shown as they are when plain is set. */
static int set_ids(int mount, int userns, uint64_t attrs, bool plain)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | attrs, .userns_fd = (uint64_t)userns};

    if (mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0)
        return 0;
    attr = (struct mount_attr){.attr_set = attrs};
    return plain ? mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) : -1;
}

/* A clone of the mount at path as the box's ids see it. */
static int idmapped(const char *path, int userns, bool plain, struct err *err)
{
    auto_close int tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (tree < 0 || set_ids(tree, userns, READ_ONLY, plain) < 0)
        return err_sys(err, errno, "map the ids of %s", path);
    return steal_fd(tree);
}

/* Device nodes that work are made by the host's root; each box has its own. */
static int make_dev(int userns)
{
    static const struct {
        const char *name;
        unsigned major, minor;
    } nodes[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                 {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
    static const char *const links[][2] = {{"/proc/self/fd", "fd"},
                                           {"/proc/self/fd/0", "stdin"},
                                           {"/proc/self/fd/1", "stdout"},
                                           {"/proc/self/fd/2", "stderr"},
                                           {"pts/ptmx", "ptmx"}};
    static const char *const dirs[] = {"pts", "shm", "mqueue"};
    auto_close int dev = new_tmpfs("64k");
    const mode_t mask = umask(0);
    int r = dev < 0 ? -1 : 0;

    for (unsigned i = 0; i < ARRAY_LEN(nodes) && r == 0; i++)
        r = mknodat(dev, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor));
    for (unsigned i = 0; i < ARRAY_LEN(links) && r == 0; i++)
        r = symlinkat(links[i][0], dev, links[i][1]);
    for (unsigned i = 0; i < ARRAY_LEN(dirs) && r == 0; i++)
        r = mkdirat(dev, dirs[i], 0755);
    (void)umask(mask);
    return r < 0 || set_ids(dev, userns, MOUNT_ATTR_RDONLY, true) < 0 ? -1 : steal_fd(dev);
}

/* The machine's /usr: an overlay of its own over it, so that the box does not have its inodes. */
static int make_usr(const struct box *box, struct err *err)
{
    auto_free char *above = xasprintf("%s/nothing", the_floor.stage);
    auto_close int folder = idmapped("/usr", box->userns, true, err);
    auto_close int nothing = folder < 0 ? -1 : idmapped(above, box->userns, true, err);
    auto_close int fs = -1;
    int m = -1;

    if (nothing < 0)
        return -1;
    if (the_floor.overlay_paths) /* without the overlay, which is less than cay does */
        return steal_fd(folder);
    fs = fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs >= 0 && fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, nothing) == 0 &&
        fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, folder) == 0 &&
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        m = fsmount(fs, FSMOUNT_CLOEXEC, READ_ONLY);
    return m < 0 ? err_sys(err, errno, "show /usr") : m;
}

static pid_t clone_box(struct box *box)
{
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
                 CLONE_NEWUTS | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)&box->pidfd,
        .exit_signal = SIGCHLD,
    };

    if (box->groups.v2) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)box->groups.procs[0];
    }
    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* Who makes a user namespace is its owner, to whom the kernel charges what is taken in it. */
static int clone_as_owner(struct box *box, const struct child_plan *plan, struct err *err)
{
    const uid_t owner = owner_of(box);

    if (chdir(the_floor.stage) < 0 || setresuid(owner, owner, owner) < 0)
        return err_sys(err, errno, "become the owner of a box");
    box->pid = clone_box(box);
    if (box->pid == 0)
        child_main(plan);
    if (box->pid < 0)
        (void)err_sys(err, errno, "clone into new namespaces");
    if (setresuid(0, 0, 0) < 0 || chdir("/") < 0)
        abort();
    return box->pid < 0 ? -1 : 0;
}

static int map_ids(const struct box *box, int proc, struct err *err)
{
    char map[96];
    int n = snprintf(map, sizeof(map), "0 %u %u", ids_of(box), FLOOR_IDS);
    int r = write_file_at(proc, "gid_map", map);

    (void)snprintf(map + n, sizeof(map) - (size_t)n, "\n%u %u 1", FLOOR_AGENT_UID, owner_of(box));
    if (r == 0)
        r = write_file_at(proc, "uid_map", map);
    if (r == 0)
        r = write_file_at(proc, "oom_score_adj", "500");
    return r < 0 ? err_sys(err, -r, "map the ids of a box") : 0;
}

/* What only the host's privileges can do for the child. */
static int equip(struct box *box, struct err *err)
{
    auto_close int proc = -1, dev = -1;
    char path[32];
    int r;

    (void)snprintf(path, sizeof(path), "/proc/%d", (int)box->pid);
    proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (map_ids(box, proc, err) < 0)
        return -1;
    box->userns = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
    dev = box->userns < 0 ? -1 : make_dev(box->userns);
    if (dev < 0)
        return err_sys(err, errno, "make /dev");
    r = send_fds(box->sync, "d", 1, &dev, 1);
    if (r < 0)
        return err_sys(err, -r, "send /dev to the box");
    return the_floor.own_layer && (box->usr = make_usr(box, err)) < 0 ? -1 : 0;
}

static int make_child(struct box *box, struct err *err)
{
    struct child_plan plan = {.ctl = box->ctl,
                              .exec = box->exec,
                              .agent = the_floor.agent,
                              .cpu = box->slot,
                              .groups = &box->groups,
                              .filter = &the_floor.filter};
    int sync[2], r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sync) < 0)
        return err_sys(err, errno, "make a socket pair");
    plan.sync = sync[1];
    r = clone_as_owner(box, &plan, err);
    (void)close(sync[1]);
    box->sync = sync[0];
    return r < 0 ? -1 : equip(box, err);
}

static int make_sockets(struct box *box, struct err *err)
{
    auto_free char *ctl = xasprintf("%s/ctl", box->dir);
    auto_free char *exec = xasprintf("%s/exec", box->dir);

    box->ctl = unix_listen(ctl, AGENT_BACKLOG);
    box->exec = box->ctl < 0 ? box->ctl : unix_listen(exec, AGENT_BACKLOG);
    return box->exec < 0 ? err_sys(err, -box->exec, "listen in %s", box->dir) : 0;
}

struct box *box_park(struct err *err)
{
    struct box *box = xcalloc(1, sizeof(*box));
    auto_free char *disk = NULL;
    int r = 0;

    box->number = the_floor.boxes++;
    box->slot = box->number / WORKER_BOXES * SLOTS + box->number % WORKER_BOXES % SLOTS;
    box->scratch = box->ctl = box->exec = box->pidfd = box->sync = box->userns = box->usr = -1;
    box->dir = xasprintf("%s/%u", the_floor.dir, box->number);
    disk = xasprintf("%s/disk", box->dir);
    if (mkdir(box->dir, 0700) < 0)
        r = err_sys(err, errno, "make %s", box->dir);
    if (r == 0)
        r = box->scratch = disk_make(disk, ids_of(box), err);
    if (r < 0 || groups_make(&box->groups, box->number, err) < 0 || make_sockets(box, err) < 0 ||
        make_child(box, err) < 0) {
        box_free(box);
        return NULL;
    }
    return box;
}

/* ---- the start ---- */

static int finish_overlay(int fs)
{
    if (fsconfig(fs, FSCONFIG_SET_STRING, "redirect_dir", "nofollow", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "metacopy", "off", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "index", "off", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    return fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

static int overlay_by_fd(const struct box *box, int layer)
{
    auto_close int fs = fsopen("overlay", FSOPEN_CLOEXEC);
    auto_close int upper = openat(box->scratch, "upper", O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_close int work = openat(box->scratch, "work", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, layer) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FD, "upperdir", NULL, upper) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FD, "workdir", NULL, work) < 0)
        return -1;
    return finish_overlay(fs);
}

/* With names on the stage, for a moment. */
static int overlay_by_path(const struct box *box, int layer)
{
    int m = -1;

    if (chdir(the_floor.stage) == 0 &&
        move_mount(box->scratch, "", AT_FDCWD, "disk", MOVE_MOUNT_F_EMPTY_PATH) == 0 &&
        move_mount(layer, "", AT_FDCWD, "layer", MOVE_MOUNT_F_EMPTY_PATH) == 0 &&
        mount("overlay", "root", "overlay", MS_NOSUID | MS_NODEV,
              "lowerdir=layer,upperdir=disk/upper,workdir=disk/work,redirect_dir=nofollow,"
              "metacopy=off,index=off,volatile") == 0) {
        m = open_tree(AT_FDCWD, "root", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        (void)umount2("root", MNT_DETACH);
    }
    (void)umount2("layer", MNT_DETACH);
    (void)umount2("disk", MNT_DETACH);
    return chdir("/") < 0 ? -1 : m;
}

static int make_root(const struct box *box, struct err *err)
{
    auto_close int layer = idmapped(the_floor.layer, box->userns, false, err);
    int m;

    if (layer < 0)
        return -1;
    m = the_floor.overlay_paths ? overlay_by_path(box, layer) : overlay_by_fd(box, layer);
    return m < 0 ? err_sys(err, errno, "mount the root filesystem") : m;
}

/* The child said it long ago, unless it was made just now. */
static int await_parked(const struct box *box, struct err *err)
{
    struct child_failure f;
    ssize_t n = read_some(box->sync, &f, sizeof(f));

    if (n != (ssize_t)sizeof(f))
        return err_set(err, ERR_INTERNAL, "the box ended before it was parked");
    return f.error == 0 ? 0 : err_sys(err, f.error, "in the box: %.27s", f.step);
}

static int await_agent(int status, struct err *err)
{
    struct child_failure f;
    ssize_t n = read_some(status, &f, sizeof(f));

    if (n == 1)
        return 0;
    if (n != (ssize_t)sizeof(f))
        return err_set(err, ERR_INTERNAL, "the box ended before its agent served");
    return err_sys(err, f.error, "in the box: %.27s", f.step);
}

static int send_parts(struct box *box, int status, struct err *err)
{
    auto_close int root = make_root(box, err);
    int r;

    if (root < 0 || await_parked(box, err) < 0)
        return -1;
    r = send_fds(box->sync, "s", 1, (const int[PARTS]){status, root, box->usr},
                 box->usr < 0 ? PART_USR : PARTS);
    return r < 0 ? err_sys(err, -r, "send its parts to the box") : 0;
}

int box_start(struct box *box, struct err *err)
{
    int status[2], r;

    if (pipe2(status, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    r = send_parts(box, status[1], err);
    (void)close(status[1]);
    if (r == 0)
        r = await_agent(status[0], err);
    (void)close(status[0]);
    close_fd(&box->sync);
    close_fd(&box->userns);
    close_fd(&box->usr);
    close_fd(&box->ctl);
    close_fd(&box->exec);
    return r;
}

int box_connect(const struct box *box, enum floor_op op, struct err *err)
{
    auto_free char *sock = xasprintf("%s/%s", box->dir, op == FLOOR_EXEC ? "exec" : "ctl");
    int fd = unix_connect(sock);

    return fd < 0 ? err_sys(err, -fd, "connect to %s", sock) : fd;
}

int box_limit(const struct box *box, struct err *err)
{
    return groups_limit(&box->groups, err);
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

static void remove_sockets(const struct box *box)
{
    auto_free char *ctl = xasprintf("%s/ctl", box->dir);
    auto_free char *exec = xasprintf("%s/exec", box->dir);

    (void)unlink(ctl);
    (void)unlink(exec);
}

void box_free(struct box *box)
{
    auto_free char *disk = NULL;

    if (!box)
        return;
    disk = xasprintf("%s/disk", box->dir);
    (void)box_kill(box, NULL);
    groups_remove(&box->groups);
    disk_abandon(box->scratch, disk);
    close_fd(&box->scratch);
    close_fd(&box->sync);
    close_fd(&box->userns);
    close_fd(&box->usr);
    close_fd(&box->ctl);
    close_fd(&box->exec);
    remove_sockets(box);
    (void)rmdir(box->dir);
    free(box->dir);
    free(box);
}
