#include "runtime/native/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
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
    auto_dir char *dir = dir_new();
    struct disk *d = open_disks(dir);
    struct err err = {0};
    int disk;

    if (disk_make(d, "sbx_000000000000000000000001", 64, 65536, &disk, &err) < 0)
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
    auto_dir char *dir = dir_new();
    struct disk *d = open_disks(dir);
    struct stat st;
    int disk;

    CHECK_INT(disk_make(d, "sbx_000000000000000000000001", 64, 65536, &disk, NULL), 0);
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
    auto_free char *usual = xasprintf("%s/scratch/template-64.img", dir);
    struct disk *d = open_disks(dir);
    struct err err = {0};

    for (uint32_t mb = 65; mb < 105; mb++) {
        /* One that is used all the time stays. */
        for (int i = 0; i < 2; i++) {
            int disk;

            if (disk_make(d, "sbx_000000000000000000000001", i ? mb : 64, 65536, &disk, &err) < 0)
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
    auto_dir char *dir = dir_new_in_memory();
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
    auto_dir char *dir = dir_new();
    struct disk *d = open_disks(dir);
    auto_free char *data = xcalloc(1, 8 << 20);
    struct disk_room room;
    struct err err = {0};
    auto_close int fd = -1;
    int disk;

    if (disk_make(d, "sbx_000000000000000000000001", 64, 65536, &disk, &err) < 0)
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

TAP_MAIN
