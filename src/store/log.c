#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/regular.h"
#include "store/database_internal.h"

/* SQLite's write-ahead log. A commit is written to it and not synced: that outlives the daemon. Who
 * needs a row to outlive a power cut syncs the log, which keeps all that was written before. */

/* A page of the database with the head of its frame, and the head of the log. */
#define FRAME_BYTES (4096 + 24)
#define LOG_HEAD    32
#define INDEX_BYTES (128 << 10)

/* A sync of a file that has its full length takes half as long as one of a file that grows: there
 * is no inode to write. Zeros after the last frame mean nothing to SQLite. A full disk is no
 * reason not to start. */
static void fill_up(int fd)
{
    static const char zeros[64 << 10];
    off_t end = LOG_HEAD + (off_t)(LOG_PAGES + LOG_PAGES / 4) * FRAME_BYTES;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return;
    for (off_t at = st.st_size; at < end;) {
        off_t left = end - at;
        size_t len = left < (off_t)sizeof(zeros) ? (size_t)left : sizeof(zeros);
        ssize_t n = pwrite(fd, zeros, len, at);

        if (n <= 0)
            return;
        at += n;
    }
}

/* The folder is synced once: a log that has no name after a power cut keeps nothing. */
static int sync_folder(const char *path, struct err *err)
{
    auto_free char *folder = xstrdup(path);
    auto_close int dir = open(dirname(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0 || fsync(dir) < 0)
        return err_sys(err, errno, "sync the folder of %s", path);
    return 0;
}

int database_open_log(const char *path, int *ret_fd, struct err *err)
{
    auto_free char *log = xasprintf("%s-wal", path);
    auto_close int fd = regular_open(AT_FDCWD, log, O_RDWR, 0, err);

    if (fd < 0)
        return -1;
    fill_up(fd);
    if (sync_folder(path, err) < 0)
        return -1;
    *ret_fd = steal_fd(fd);
    return 0;
}

void database_open_index(const char *path, int *ret_fd)
{
    auto_free char *index = xasprintf("%s-shm", path);

    *ret_fd = regular_open(AT_FDCWD, index, O_RDWR, 0, NULL);
    if (*ret_fd >= 0 && fallocate(*ret_fd, 0, 0, INDEX_BYTES) < 0 && errno != EOPNOTSUPP)
        log_warn("there is no room for the index of the database's log", "file", index);
}
