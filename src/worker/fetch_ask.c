#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "worker/fetch.h"
#include "worker/worker.h"

static int fetcher_gone(struct err *err)
{
    return err_code(err, ERR_INTERNAL, "image_worker_died",
                    "the process that fetches for the image worker ended early; try again");
}

int fetch_open(enum fetch_kind kind, const char *digest, int64_t size, struct fetch *ret,
               struct err *err)
{
    struct fetch_ask ask = {.kind = kind, .size = size};
    auto_close int ours = -1, theirs = -1;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, errno, "make a stream to the fetching process");
    ours = pair[0];
    theirs = pair[1];
    (void)snprintf(ask.digest, sizeof(ask.digest), "%s", digest ? digest : "");
    if (send_fds(FD_FETCH, &ask, sizeof(ask), &theirs, 1) < 0)
        return fetcher_gone(err);
    *ret = (struct fetch){.fd = steal_fd(ours)};
    return 0;
}

/* The end was announced: how was it? */
static int read_status(struct fetch *f)
{
    auto_buf struct buf text = {0};
    const char *type;
    json_t *status;
    ssize_t n;
    int failed;

    buf_init(&text, FETCH_STATUS_MAX);
    do {
        char *room = buf_room(&text, 4096);

        n = room ? read_some(f->fd, room, 4096) : -EMSGSIZE;
        if (n > 0)
            text.len += (size_t)n;
    } while (n > 0);
    status = n == 0 && text.data ? json_loadb(text.data, text.len, 0, NULL) : NULL;
    if (!status)
        return fetcher_gone(&f->err);
    type = json_string_value(json_object_get(status, "media_type"));
    f->media_type = type ? xstrdup(type) : NULL;
    failed = json_object_get(status, "kind") ? -1 : 0;
    if (failed < 0)
        error_from_json(status, &f->err);
    json_decref(status);
    return failed;
}

static int broken(struct fetch *f)
{
    f->ended = true;
    f->left = 0;
    (void)fetcher_gone(&f->err);
    return -EIO;
}

ssize_t fetch_read(struct fetch *f, void *data, size_t len)
{
    ssize_t n;

    if (f->ended)
        return f->err.kind ? -EIO : 0;
    if (f->left == 0) {
        if (read_exact(f->fd, &f->left, sizeof(f->left)) < 0 || f->left > FETCH_PIECE_MAX)
            return broken(f);
        if (f->left == 0) {
            f->ended = true;
            return read_status(f) < 0 ? -EIO : 0;
        }
    }
    n = read_some(f->fd, data, len < f->left ? len : f->left);
    if (n <= 0)
        return broken(f);
    f->left -= (uint32_t)n;
    return n;
}

void fetch_stop(struct fetch *f)
{
    f->unwanted = true;
    (void)shutdown(f->fd, SHUT_RDWR);
}

void fetch_done(struct fetch *f)
{
    close_fd(&f->fd);
    free(steal_ptr(f->media_type));
}
