#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "store/store_internal.h"

/* SQLite's write-ahead log. A commit is written to it and not synced: that outlives the daemon. Who
 * needs a row to outlive a power cut syncs the log, which keeps all that was written before. */

/* A page of the database with the head of its frame, and the head of the log. */
#define FRAME_BYTES (4096 + 24)
#define LOG_HEAD    32

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
int store_open_log(struct store *s, const char *data_dir, struct err *err)
{
    auto_free char *path = xasprintf("%s/cay.db-wal", data_dir);
    auto_close int dir = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    s->log_fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (s->log_fd < 0)
        return err_sys(err, errno, "open %s", path);
    fill_up(s->log_fd);
    if (dir < 0 || fsync(dir) < 0)
        return err_sys(err, errno, "sync the data directory %s", data_dir);
    return 0;
}

int store_sync(struct store *s, struct err *err)
{
    if (fdatasync(s->log_fd) < 0)
        return err_sys(err, errno, "write the state to the disk");
    return 0;
}
