/* What is in a file, from one filesystem to another: shared where both are the same one and can do
 * that, else only what is there and not what is a hole. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "layer/layer_internal.h"

/* The disk begins to write while we read on, so that little is left for the sync at the end. */
static void begin_writing(int to, off_t from, off_t upto)
{
    if (upto - from >= CONTENT_SIZE)
        (void)sync_file_range(to, from, upto - from, SYNC_FILE_RANGE_WRITE);
}

static int copy_range(struct layer *l, int from, int to, off_t at, off_t end, char *data,
                      struct err *err)
{
    off_t begun = at;

    while (at < end) {
        size_t want = end - at < (off_t)CONTENT_SIZE ? (size_t)(end - at) : CONTENT_SIZE;
        ssize_t n = pread(from, data, want, at);

        if (n < 0)
            return err_sys(err, errno, "read a file of the sandbox");
        if (n == 0)
            break; /* it was cut meanwhile */
        if (layer_grow(l, (uint64_t)n, err) < 0)
            return -1;
        if (pwrite(to, data, (size_t)n, at) != n)
            return err_sys(err, errno ? errno : EIO, "write a file of the layer");
        at += n;
        if (at - begun >= WRITE_EVERY) {
            begin_writing(to, begun, at);
            begun = at;
        }
    }
    begin_writing(to, begun, at);
    return 0;
}

/* The end of the data that begins at *at, or after it; 0 when there is none. */
static off_t next_data(int fd, off_t *at, off_t size)
{
    off_t data = lseek(fd, *at, SEEK_DATA), hole;

    if (data < 0)
        return errno == ENXIO ? 0 : size; /* not every filesystem can tell */
    hole = lseek(fd, data, SEEK_HOLE);
    *at = data;
    return hole < 0 ? size : hole;
}

/* All of it counts then, though it takes room only when one of the two changes. */
static int share(struct layer *l, int from, int to, const struct stat *st, struct err *err)
{
    if (ioctl(to, FICLONE, from) < 0)
        return 0;
    return layer_grow(l, (uint64_t)st->st_blocks * 512, err) < 0 ? -1 : 1;
}

int content_copy(struct layer *l, int from, int to, const struct stat *st, char *data,
                 struct err *err)
{
    off_t at = 0, end;
    int r;

    if (st->st_size == 0)
        return 0;
    if (st->st_size <= CONTENT_SIZE && st->st_blocks * 512 >= st->st_size)
        return copy_range(l, from, to, 0, st->st_size, data, err);
    r = share(l, from, to, st, err);
    if (r != 0)
        return r < 0 ? -1 : 0;
    while (at < st->st_size && (end = next_data(from, &at, st->st_size)) > 0) {
        if (copy_range(l, from, to, at, end, data, err) < 0)
            return -1;
        at = end;
    }
    if (ftruncate(to, st->st_size) < 0)
        return err_sys(err, errno, "write a file of the layer");
    return 0;
}
