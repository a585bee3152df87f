#include "runtime/native/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/native/disk_internal.h"
#include "runtime/native/quota.h"
#include "runtime/runtime.h"
#include "tap.h"
#include "tmpdir.h"

static struct disk *open_disks(const char *dir)
{
    struct err err = {0};
    struct disk *d;

    if (getuid() != 0 || access("/dev/loop-control", W_OK) < 0)
        SKIP("needs root and loop devices");
    if (disk_open(dir, &d, &err) < 0)
        TAP_FAIL("%s", err.text);
    return d;
}

static void write_upper(int disk, const char *name, const char *text)
{
    auto_free char *path = xasprintf("upper/%s", name);
    auto_close int fd = openat(disk, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    CHECK(fd >= 0);
    CHECK_INT(write_all(fd, text, strlen(text)), 0);
}

static void check_view(struct disk *d, const char *name, const char *want)
{
    auto_free char *path = xasprintf("upper/%s", name);
    auto_close int view = -1;
    struct err err = {0};
    char text[64];

    if (disk_view(d, "sbx_000000000000000000000001", &view, &err) < 0)
        TAP_FAIL("%s", err.text);
    CHECK(read_file_at(view, path, text, sizeof(text)) > 0);
    CHECK_STR(text, want);
    /* A folder with a quota has no mount of its own. */
    if (strcmp(disk_kind(d), "loop") == 0) {
        CHECK_INT(openat(view, "upper/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0644), -1);
        CHECK_INT(errno, EROFS);
    }
}

TEST(a_view_shows_what_was_just_written_and_outlives_the_mount)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    struct err err = {0};
    int disk;

    if (disk_make(d, "sbx_000000000000000000000001", 64, 65536, &disk, &(unsigned){0}, &err) < 0)
        TAP_FAIL("%s", err.text);
    write_upper(disk, "a", "unsynced");
    check_view(d, "a", "unsynced");
    write_upper(disk, "b", "later");
    check_view(d, "b", "later");
    CHECK_INT(close(disk), 0); /* nothing has it mounted any more */
    check_view(d, "a", "unsynced");
    CHECK_INT(disk_remove(d, "sbx_000000000000000000000001", NULL), 0);
    CHECK_INT(disk_view(d, "sbx_000000000000000000000001", &disk, &err), -1);
    disk_free(d);
}

TEST(directories_of_a_new_disk_belong_to_the_root_of_its_box)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    struct stat st;
    int disk;

    CHECK_INT(disk_make(d, "sbx_000000000000000000000001", 64, 65536, &disk, &(unsigned){0}, NULL),
              0);
    CHECK_INT(disk_make_dir(disk, "/work/space", 01777, 65536, NULL), 0);
    CHECK_INT(disk_make_dir(disk, "/work", 0700, 65536, NULL), 0); /* it is there, as it is */
    CHECK_INT(fstatat(disk, "upper/work", &st, 0), 0);
    CHECK_INT(st.st_mode, S_IFDIR | 0755);
    CHECK_INT(fstatat(disk, "upper/work/space", &st, 0), 0);
    CHECK_INT(st.st_mode, S_IFDIR | 01777);
    CHECK_INT(st.st_uid, 65536);
    CHECK_INT(st.st_gid, 65536);
    CHECK_INT(close(disk), 0);
    CHECK_INT(disk_remove(d, "sbx_000000000000000000000001", NULL), 0);
    disk_free(d);
}

TEST(sizes_that_callers_choose_do_not_pile_up)
{
    auto_dir char *dir = dir_new();
    auto_free char *templates = xasprintf("%s/scratch/template-*.img", dir);
    auto_free char *usual = xasprintf("%s/scratch/template-j-64.img", dir);
    struct disk *d = open_disks(dir);
    struct err err = {0};

    for (uint32_t mb = 65; mb < 105; mb++) {
        /* One that is used all the time stays. */
        for (int i = 0; i < 2; i++) {
            int disk;

            if (disk_make(d, "sbx_000000000000000000000001", i ? mb : 64, 65536, &disk,
                          &(unsigned){0}, &err) < 0)
                TAP_FAIL("%s", err.text);
            CHECK_INT(close(disk), 0);
            CHECK_INT(disk_remove(d, "sbx_000000000000000000000001", NULL), 0);
        }
    }
    if (strcmp(disk_kind(d), "loop") == 0) {
        CHECK_INT(files_like(templates), 32);
        CHECK_INT(access(usual, F_OK), 0);
    }
    disk_free(d);
}

/* upper/ of a folder that is a disk, with what a box may have made in it. */
static void make_folder_disk(const char *dir, const char *id, int depth)
{
    auto_free char *path = xasprintf("%s/%s", dir, id);
    auto_close int at = -1;

    CHECK_INT(mkdir(path, 0700), 0);
    at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < depth; i++) {
        int next;

        CHECK_INT(mkdirat(at, "upper", 0700), 0);
        CHECK_INT(symlinkat("/etc", at, "link"), 0);
        next = openat(at, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(next >= 0);
        close_fd(&at);
        at = next;
    }
}

TEST(a_disk_that_is_a_folder_goes_however_deep_it_is)
{
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/sbx_000000000000000000000001", dir);
    struct rlimit small = {512 << 10, 512 << 10}, few = {256, 256};
    struct err err = {0};

    make_folder_disk(dir, "sbx_000000000000000000000001", 20000);
    CHECK_INT(setrlimit(RLIMIT_STACK, &small), 0);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    if (quota_remove(dir, "sbx_000000000000000000000001", &err) < 0)
        TAP_FAIL("%s", err.text);
    CHECK_INT(access(path, F_OK), -1);
    CHECK_INT(access("/etc/passwd", F_OK), 0);
    CHECK_INT(quota_remove(dir, "sbx_000000000000000000000001", NULL), 0);
}

TEST(a_lease_bounds_what_is_accepted_and_ends)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    auto_free char *data = xcalloc(1, 8 << 20);
    struct disk_room room;
    struct err err = {0};
    auto_close int fd = -1;
    int disk;

    if (disk_make(d, "sbx_000000000000000000000001", 64, 65536, &disk, &(unsigned){0}, &err) < 0)
        TAP_FAIL("%s", err.text);
    if (strcmp(disk_kind(d), "loop") != 0)
        SKIP("a quota needs no lease");
    if (disk_lease(d, "sbx_000000000000000000000001", disk, 4 << 20, &err) < 0)
        TAP_FAIL("%s", err.text);
    fd = openat(disk, "upper/f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    CHECK_INT(write(fd, data, 8 << 20), 4 << 20);
    CHECK_INT(write_all(fd, data, 4096), -ENOSPC);
    CHECK_INT(disk_room(d, "sbx_000000000000000000000001", disk, &room, NULL), 0);
    CHECK(room.used >= 4 << 20);
    CHECK_INT(disk_lease(d, "sbx_000000000000000000000001", disk, UINT64_MAX, NULL), 0);
    CHECK_INT(write_all(fd, data, 8 << 20), 0);
    /* One that was out when the daemon ended is not for ever. */
    CHECK_INT(disk_lease(d, "sbx_000000000000000000000001", disk, 0, NULL), 0);
    CHECK_INT(write_all(fd, data, 4096), -ENOSPC);
    disk_free(d);
    d = open_disks(dir);
    CHECK_INT(write_all(fd, data, 1 << 20), 0);
    close_fd(&fd);
    CHECK_INT(close(disk), 0);
    CHECK_INT(disk_remove(d, "sbx_000000000000000000000001", NULL), 0);
    disk_free(d);
}

/* ---- disks that are used again ---- */

#define FIRST  "sbx_000000000000000000000001"
#define SECOND "sbx_000000000000000000000002"

static int make(struct disk *d, const char *id, uint32_t mb)
{
    struct err err = {0};
    int fd = -1;

    if (strcmp(disk_kind(d), "loop") != 0)
        SKIP("a quota's disk is a folder");
    if (disk_make(d, id, mb, 65536, &fd, &(unsigned){0}, &err) < 0)
        TAP_FAIL("%s", err.text);
    return fd;
}

static int retire(struct disk *d, const char *id, int fd, unsigned lives)
{
    return disk_retire(
        d, id, (struct disk_left){.fd = fd, .root = -1, .mb = 64, .lives = lives, .used = true},
        NULL);
}

static int entries(const char *dir, const char *below)
{
    auto_free char *path = xasprintf("%s/%s", dir, below);
    DIR *d = opendir(path);
    struct dirent *e;
    int n = 0;

    while (d && (e = readdir(d)))
        n += !str_is_dot(e->d_name);
    if (d)
        (void)closedir(d);
    return d ? n : -1;
}

static int spares(const char *dir)
{
    return entries(dir, "scratch/spares");
}

static dev_t device(int disk)
{
    struct stat st;

    CHECK_INT(fstat(disk, &st), 0);
    return st.st_dev;
}

static void check_like_new(int disk)
{
    auto_free char *root = xasprintf("/proc/self/fd/%d", disk);
    auto_free char *upper = xasprintf("%s/upper", root);
    struct stat st;

    CHECK_INT(entries(root, "."), 4); /* and lost+found */
    CHECK_INT(entries(root, "upper"), 0);
    CHECK_INT(entries(root, "work"), 0);
    CHECK_INT(entries(root, "logs"), 0);
    CHECK_INT(fstatat(disk, "upper", &st, 0), 0);
    CHECK_INT(st.st_uid, 65536);
    CHECK_INT(st.st_mode & 07777, 0755);
    CHECK_INT(listxattr(upper, NULL, 0), 0);
}

TEST(a_disk_with_little_on_it_is_used_again_and_is_like_new)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    int disk = make(d, FIRST, 64);
    dev_t first = device(disk);
    auto_free char *upper = xasprintf("/proc/self/fd/%d/upper", disk);

    write_upper(disk, "secret", "of the first");
    CHECK_INT(disk_make_dir(disk, "/a/deep/folder", 0700, 65536, NULL), 0);
    CHECK_INT(chmod(upper, 01777), 0);
    CHECK_INT(setxattr(upper, "trusted.of_the_first", "x", 1, 0), 0);
    CHECK_INT(mkdirat(disk, "logs/main", 0700), 0);
    CHECK_INT(retire(d, FIRST, disk, 0), 0);
    CHECK_INT(spares(dir), 1);
    CHECK_INT(disk_view(d, FIRST, &disk, NULL), -1);

    disk = make(d, SECOND, 64);
    CHECK(device(disk) == first);
    CHECK_INT(spares(dir), 0);
    check_like_new(disk);
    write_upper(disk, "a", "of the second");
    CHECK_INT(retire(d, SECOND, disk, DISK_ONCE), 0); /* not again */
    CHECK_INT(spares(dir), 0);
    CHECK_INT(entries(dir, "sandboxes"), 0);
    disk_free(d);
}

/* As the launcher does where overlays take paths. */
TEST(a_disk_whose_mount_was_attached_can_be_attached_again_when_it_is_used_again)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    auto_free char *point = xasprintf("%s/point", dir);
    const char *const ids[] = {FIRST, SECOND};
    dev_t devices[2];

    CHECK_INT(unshare(CLONE_NEWNS), 0);
    CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    CHECK_INT(mkdir(point, 0700), 0);
    for (int i = 0; i < 2; i++) {
        int disk = make(d, ids[i], 64);

        devices[i] = device(disk);
        CHECK_INT(move_mount(disk, "", AT_FDCWD, point, MOVE_MOUNT_F_EMPTY_PATH), 0);
        CHECK_INT(umount2(point, MNT_DETACH), 0);
        CHECK_INT(retire(d, ids[i], disk, 0), 0);
        CHECK_INT(spares(dir), 1);
    }
    CHECK(devices[0] == devices[1]);
    disk_free(d);
}

TEST(a_disk_of_another_size_is_no_spare)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    int disk = make(d, FIRST, 64);

    CHECK_INT(retire(d, FIRST, disk, 0), 0);
    disk = make(d, SECOND, 65);
    CHECK_INT(spares(dir), 1);
    CHECK_INT(retire(d, SECOND, disk, DISK_ONCE), 0);
    disk_free(d);
    CHECK_INT(spares(dir), 0); /* none outlives us */
}

TEST(a_disk_with_much_on_it_is_thrown_away)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    auto_free char *data = xcalloc(1, 8 << 20);
    int disk = make(d, FIRST, 64), fd;

    for (int i = 0; i < 200; i++) {
        auto_free char *name = xasprintf("%d", i);

        write_upper(disk, name, "x");
    }
    CHECK_INT(retire(d, FIRST, disk, 0), 0);
    CHECK_INT(spares(dir), 0);
    CHECK_INT(entries(dir, "sandboxes"), 0);

    disk = make(d, FIRST, 64);
    fd = openat(disk, "upper/big", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    CHECK_INT(write_all(fd, data, 8 << 20), 0);
    CHECK_INT(close(fd), 0);
    CHECK_INT(retire(d, FIRST, disk, 0), 0);
    CHECK_INT(spares(dir), 0);
    disk_free(d);
}

TEST(a_disk_with_many_names_of_one_file_is_thrown_away)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    int disk = make(d, FIRST, 64);

    write_upper(disk, "f", "x");
    for (int i = 0; i < 500; i++) {
        auto_free char *name = xasprintf("upper/%d", i);

        CHECK_INT(linkat(disk, "upper/f", disk, name, 0), 0);
    }
    CHECK_INT(retire(d, FIRST, disk, 0), 0);
    CHECK_INT(spares(dir), 0);
    CHECK_INT(entries(dir, "sandboxes"), 0);
    disk_free(d);
}

TEST(a_disk_of_which_somebody_holds_a_file_is_thrown_away)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    int disk = make(d, FIRST, 64), held;

    held = openat(disk, "upper/f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    CHECK_INT(unlinkat(disk, "upper/f", 0), 0);
    CHECK_INT(retire(d, FIRST, disk, 0), 0);
    CHECK_INT(spares(dir), 0);
    CHECK_INT(close(held), 0);
    disk_free(d);
}

/* As launch/root.c does; of a detached mount only newer kernels take them. */
static int mount_overlay(int disk, const char *lower)
{
    auto_close int fs = fsopen("overlay", FSOPEN_CLOEXEC);
    auto_close int upper = openat(disk, "upper", O_PATH | O_CLOEXEC);
    auto_close int work = openat(disk, "work", O_PATH | O_CLOEXEC);

    if (fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", lower, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FD, "upperdir", NULL, upper) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FD, "workdir", NULL, work) < 0)
        SKIP("overlays of this kernel take no descriptors");
    CHECK_INT(fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0), 0);
    return fsmount(fs, FSMOUNT_CLOEXEC, 0);
}

TEST(a_disk_below_a_root_that_is_still_mounted_is_thrown_away)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    auto_free char *lower = xasprintf("%s/scratch", dir);
    int disk = make(d, FIRST, 64);
    int root = mount_overlay(disk, lower);

    CHECK(root >= 0);
    CHECK_INT(retire(d, FIRST, disk, 0), 0);
    CHECK_INT(spares(dir), 0);
    CHECK_INT(close(root), 0);

    /* Control: once it is gone, what it had made is no hindrance. */
    disk = make(d, SECOND, 64);
    root = mount_overlay(disk, lower);
    CHECK_INT(mkdirat(root, "in the box", 0755), 0);
    CHECK_INT(close(root), 0);
    CHECK_INT(retire(d, SECOND, disk, 0), 0);
    CHECK_INT(spares(dir), 1);
    disk_free(d);
}

TEST(a_disk_is_not_used_again_without_end)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    unsigned lives = 0, had = 0;
    int disk = make(d, FIRST, 64);

    for (;; had++) {
        CHECK_INT(retire(d, FIRST, disk, lives), 0);
        if (spares(dir) == 0)
            break;
        CHECK(had < 1000);
        CHECK_INT(disk_make(d, FIRST, 64, 65536, &disk, &lives, NULL), 0);
        CHECK_INT(lives, had + 1);
    }
    CHECK(had > 9 && had <= 63); /* or until its journal has taken too much of the host */
    disk_free(d);
}

TEST(spare_disks_have_a_bound_and_do_not_outlive_a_killed_daemon)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    auto_free char *left = xasprintf("%s/scratch/spares/7.img", dir);
    int disks[20];

    for (unsigned i = 0; i < ARRAY_LEN(disks); i++) {
        auto_free char *id = xasprintf("sbx_%024u", i);

        disks[i] = make(d, id, 64);
    }
    for (unsigned i = 0; i < ARRAY_LEN(disks); i++) {
        auto_free char *id = xasprintf("sbx_%024u", i);

        CHECK_INT(retire(d, id, disks[i], 0), 0);
    }
    CHECK_INT(spares(dir), 16);
    CHECK_INT(entries(dir, "sandboxes"), 0);
    disk_free(d);
    CHECK_INT(close(open(left, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
    d = open_disks(dir);
    CHECK_INT(spares(dir), 0);
    disk_free(d);
}

/* ---- disks that are mounted again ---- */

static int mount_again(struct disk *d, const char *id)
{
    struct err err = {0};
    int fd = -1;

    if (disk_mount(d, id, 65536, &fd, &err) < 0)
        TAP_FAIL("%s", err.text);
    return fd;
}

static void sync_upper(int disk, const char *name)
{
    auto_free char *path = xasprintf("upper/%s", name);
    auto_close int fd = openat(disk, path, O_RDONLY | O_CLOEXEC);

    CHECK_INT(fsync(fd), 0);
}

static void check_upper(int disk, const char *name, const char *want)
{
    auto_free char *path = xasprintf("upper/%s", name);
    char text[64];

    CHECK(read_file_at(disk, path, text, sizeof(text)) > 0);
    CHECK_STR(text, want);
}

TEST(what_was_synced_is_there_after_a_power_cut)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    int disk = make(d, FIRST, 64);

    write_upper(disk, "new", "first");
    sync_upper(disk, "new");
    write_upper(disk, "tmp", "second");
    sync_upper(disk, "tmp");
    CHECK_INT(renameat(disk, "upper/tmp", disk, "upper/new"), 0);
    sync_upper(disk, ".");
    write_upper(disk, "unsynced", "x");
    disk_shut_down(disk);
    CHECK_INT(close(disk), 0);

    disk = mount_again(d, FIRST);
    check_upper(disk, "new", "second");
    CHECK_INT(faccessat(disk, "upper/unsynced", F_OK, 0), -1); /* control: it was a cut */
    CHECK_INT(retire(d, FIRST, disk, DISK_ONCE), 0);
    disk_free(d);
}

TEST(a_power_cut_leaves_a_new_disk_that_a_box_can_use)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    int disk = make(d, FIRST, 64);

    disk_shut_down(disk);
    CHECK_INT(close(disk), 0);
    disk = mount_again(d, FIRST);
    check_like_new(disk);
    CHECK_INT(retire(d, FIRST, disk, DISK_ONCE), 0);
    disk_free(d);
}

TEST(what_one_box_removed_does_not_come_back_to_the_next_with_a_power_cut)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    int disk = make(d, FIRST, 64);
    dev_t first = device(disk);

    write_upper(disk, "secret", "of the first");
    sync_upper(disk, "secret");
    CHECK_INT(retire(d, FIRST, disk, 0), 0);
    disk = make(d, SECOND, 64);
    CHECK(device(disk) == first);
    disk_shut_down(disk);
    CHECK_INT(close(disk), 0);

    disk = mount_again(d, SECOND);
    check_like_new(disk);
    CHECK_INT(retire(d, SECOND, disk, DISK_ONCE), 0);
    disk_free(d);
}

TEST(a_disk_that_is_mounted_is_mounted_a_second_time_from_the_same_device)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    int disk = make(d, FIRST, 64), again;

    write_upper(disk, "a", "unsynced");
    again = mount_again(d, FIRST);
    CHECK(device(disk) == device(again));
    check_upper(again, "a", "unsynced");
    CHECK_INT(close(again), 0);
    CHECK_INT(retire(d, FIRST, disk, DISK_ONCE), 0);
    disk_free(d);
}

/* ---- devices that change hands ---- */

#define ROUNDS 60

/* Of a process of its own: how often it was not the disk that was asked for. */
static int view_often(struct disk *d, const char *id)
{
    int wrong = 0;

    for (int i = 0; i < ROUNDS; i++) {
        auto_close int view = -1;

        wrong += disk_view(d, id, &view, NULL) < 0 || faccessat(view, "upper/mark", F_OK, 0) < 0;
    }
    return wrong;
}

static int make_often(struct disk *d, const char *id)
{
    int failed = 0;

    for (int i = 0; i < ROUNDS; i++) {
        auto_close int disk = -1;

        failed += disk_make(d, id, 64, 65536, &disk, &(unsigned){0}, NULL) < 0;
        (void)disk_remove(d, id, NULL);
    }
    return failed;
}

TEST(a_disk_is_never_anothers_while_devices_change_hands)
{
    auto_dir char *dir = dir_new();
    struct disk *d = open_disks(dir);
    int disk = make(d, FIRST, 64), status;
    pid_t pids[3];

    write_upper(disk, "mark", "mine");
    CHECK_INT(close(disk), 0);
    for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(i == 0 ? make_often(d, SECOND) : view_often(d, FIRST));
    }
    for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
        CHECK_INT(waitpid(pids[i], &status, 0), pids[i]);
        CHECK_INT(status, 0);
    }
    CHECK_INT(disk_remove(d, FIRST, NULL), 0);
    disk_free(d);
}

/* As an older version made them: no journal, and a volatile overlay. */
static void make_old(const char *dir, const char *id, const char *more)
{
    auto_free char *command =
        xasprintf("cd %s && mkdir -p root/upper root/logs root/work/incompat/volatile && "
                  "echo old >root/upper/f && mke2fs -q -F -t ext4 -b 4096 -O ^has_journal -d root "
                  "sandboxes/%s.img 64m >/dev/null && rm -r root %s",
                  dir, id, more);
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, command, NULL};
    int status = -1;
    pid_t pid;

    CHECK_INT(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

static void check_old(const char *more)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    int disk;

    make_old(dir, FIRST, more);
    for (int i = 0; i < 2; i++) {
        disk = mount_again(d, FIRST);
        check_upper(disk, "f", "old\n");
        CHECK_INT(faccessat(disk, "work/incompat", F_OK, 0), -1);
        CHECK_INT(faccessat(disk, "work", F_OK, 0), 0);
        write_upper(disk, "synced", "new");
        sync_upper(disk, "synced");
        disk_shut_down(disk); /* it has a journal now */
        CHECK_INT(close(disk), 0);
    }
    disk = mount_again(d, FIRST);
    check_upper(disk, "synced", "new");
    CHECK_INT(retire(d, FIRST, disk, DISK_ONCE), 0);
    disk_free(d);
}

TEST(a_disk_of_an_older_version_is_mounted_and_gets_a_journal)
{
    check_old("");
}

TEST(a_disk_of_an_older_version_is_repaired_after_a_power_cut)
{
    /* Not clean, and the count of free blocks is wrong. */
    check_old("&& debugfs -w -R 'ssv state 0' sandboxes/*.img 2>/dev/null && "
              "debugfs -w -R 'ssv free_blocks_count 7' sandboxes/*.img 2>/dev/null && "
              "debugfs -w -R 'freeb 2000 9' sandboxes/*.img 2>/dev/null");
}

TEST(what_is_no_disk_is_refused_and_left_as_it_is)
{
    auto_dir char *dir = dir_new_on_disk();
    struct disk *d = open_disks(dir);
    auto_free char *path = xasprintf("%s/sandboxes/" FIRST ".img", dir);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    struct err err = {0};
    int disk;

    CHECK_INT(ftruncate(fd, 1 << 20), 0);
    CHECK_INT(disk_mount(d, FIRST, 65536, &disk, &err), -1);
    CHECK(err.code && strcmp(err.code, "disk_damaged") == 0);
    CHECK_INT(access(path, F_OK), 0);
    disk_free(d);
}

TAP_MAIN
