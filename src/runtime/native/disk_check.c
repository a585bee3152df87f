#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "runtime/native/disk_internal.h"

/* What becomes of a disk before it is mounted again.
 *
 * One with a journal needs nothing: the kernel plays it back. Those that an older version made have
 * none, and were below roots on which fsync did nothing. They are checked if the machine went down
 * with them, and get a journal. */

/* Of ext4's superblock, 1,024 bytes into the filesystem. */
#define SUPER_AT         1024
#define SUPER_SIZE       256
#define MAGIC_AT         56
#define STATE_AT         58
#define FEATURES_AT      92
#define MAGIC            0xef53u
#define STATE_CLEAN      1u
#define STATE_ERRORS     2u
#define FEATURES_JOURNAL 4u

/* What e2fsck says. */
#define CHECK_FIXED      1 /* or less: it is whole now */
#define CHECK_FIXED_MUCH 3

int disk_tool(const char *const *argv, struct err *err)
{
    char *envp[] = {(char[]){"PATH=/usr/sbin:/sbin:/usr/bin:/bin"}, (char[]){"LC_ALL=C"}, NULL};
    posix_spawn_file_actions_t actions;
    int status = 0, r;
    pid_t pid;

    /* What they do is of no interest; what fails they say on standard error, which is the log. */
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    r = posix_spawn(&pid, argv[0], &actions, NULL, (char **)(uintptr_t)argv, envp);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (r == ENOENT)
        return err_set(err, ERR_UNAVAILABLE,
                       "%s is needed for the disks of sandboxes; install e2fsprogs", argv[0]);
    if (r != 0)
        return err_sys(err, r, "run %s", argv[0]);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, errno, "wait for %s", argv[0]);
    return WIFEXITED(status)
               ? WEXITSTATUS(status)
               : err_set(err, ERR_INTERNAL, "%s was ended by signal %d", argv[0], WTERMSIG(status));
}

static unsigned u16_at(const unsigned char *p)
{
    return p[0] | (unsigned)p[1] << 8;
}

/* Repairs what can be repaired without asking; then what cannot, since nobody is there to ask. */
static int repair(const char *path, struct err *err)
{
    int r = disk_tool((const char *[]){"/sbin/e2fsck", "-p", path, NULL}, err);

    if (r > CHECK_FIXED) {
        log_warn("the disk of a sandbox is damaged; repairing it, some of what was on it may be "
                 "in /lost+found of the disk or gone",
                 "disk", path);
        r = disk_tool((const char *[]){"/sbin/e2fsck", "-f", "-y", path, NULL}, err);
    }
    if (r < 0)
        return -1;
    return r > CHECK_FIXED_MUCH
               ? err_code(
                     err, ERR_CONFLICT, "disk_damaged",
                     "%s cannot be repaired (e2fsck says %d): put a copy of it back, or remove "
                     "what it belongs to",
                     strrchr(path, '/') + 1, r)
               : 0;
}

/* A full disk has no room for one, and goes on as it was. */
static int add_journal(const char *path, struct err *err)
{
    auto_free char *size = xasprintf("size=%d", DISK_JOURNAL_MB);
    const char *argv[] = {"/sbin/tune2fs", "-O", "has_journal", "-J", size, path, NULL};
    int r = disk_tool(argv, err);

    if (r > 0)
        log_warn("the disk of a sandbox gets no journal (is it full?); what is written to it may "
                 "not outlive a power cut",
                 "disk", path);
    return r < 0 ? -1 : 0;
}

int image_check(const char *path, int image, struct err *err)
{
    unsigned char super[SUPER_SIZE];
    unsigned state;
    bool journal;

    if (pread(image, super, sizeof(super), SUPER_AT) != sizeof(super) ||
        u16_at(super + MAGIC_AT) != MAGIC)
        return err_code(err, ERR_CONFLICT, "disk_damaged",
                        "%s has no filesystem any more: put a copy of it back, or remove what it "
                        "belongs to",
                        strrchr(path, '/') + 1);
    state = u16_at(super + STATE_AT);
    journal = u16_at(super + FEATURES_AT) & FEATURES_JOURNAL;
    if (!journal && !(state & STATE_CLEAN))
        log_warn("the machine went down under a sandbox of an older version; of what it wrote last "
                 "some may be missing",
                 "disk", path);
    if ((state & STATE_ERRORS || (!journal && !(state & STATE_CLEAN))) && repair(path, err) < 0)
        return -1;
    return journal ? 0 : add_journal(path, err);
}
