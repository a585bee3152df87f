#include "base/json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/replace.h"

#define FILE_SIZE_MAX (16u << 20)

static int read_all(int fd, struct buf *b)
{
    ssize_t n;

    do {
        char *room = buf_room(b, 4096);

        if (!room)
            return -EFBIG;
        n = read_some(fd, room, 4096);
        if (n < 0)
            return (int)n;
        b->len += (size_t)n;
    } while (n > 0);
    return 0;
}

int json_file_read(int dirfd, const char *file, json_t **ret, struct err *err)
{
    auto_close int fd = regular_open(dirfd, file, O_RDONLY, 0, err);
    auto_buf struct buf b = {0};
    int r;

    if (fd == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, "%s is not there", file);
    if (fd < 0)
        return -1;
    buf_init(&b, FILE_SIZE_MAX);
    r = read_all(fd, &b);
    if (r < 0)
        return err_sys(err, -r, "read %s", file);
    *ret = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
    return *ret ? 0 : err_set(err, ERR_INTERNAL, "%s is damaged", file);
}

int json_file_write(int dirfd, const char *file, json_t *o, struct err *err)
{
    auto_free char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;

    json_decref(o);
    if (!text)
        abort(); /* every string in it was checked */
    return replace_file(dirfd, file, text, strlen(text), err);
}
