#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "libcay/files.h"
#include "libcay/libcay_internal.h"

/* The files of cay.h. A file in a sandbox is replaced whole or not at all, so sending it a second
 * time does no harm. */

#define READ_MAX (64u << 20)

static char *place_of(const char *sandbox)
{
    auto_free char *word = url_encoded(sandbox);

    return xasprintf("sandboxes/%s", word);
}

static bool anywhere(unsigned flags)
{
    return (flags & CAY_ANYWHERE) != 0;
}

static const struct call_asked download_asked = {
    .method = "POST", .path = "/sandbox/sandboxes/{sandboxId}/files/download"};
static const struct call_asked upload_asked = {
    .method = "POST", .path = "/sandbox/sandboxes/{sandboxId}/files/upload"};

/* ---- out ---- */

/* One of the two is what becomes of the bytes. */
struct reading {
    char *place;
    const char *path;
    unsigned flags;
    int fd;
    int64_t written;
    size_t max;
    char **ret;
    size_t *ret_len;
};

static void count(void *arg, int64_t n, int64_t total)
{
    struct reading *r = arg;

    (void)total;
    r->written += n;
}

static int read_once(struct api *api, struct reading *r, struct err *why)
{
    json_t *body = path_body(r->path, anywhere(r->flags));
    struct moving m = {.name = r->path, .fd = r->fd, .moved = count, .arg = r};
    struct http_response response;

    if (r->fd >= 0)
        return api_download(api, r->place, body, &m, why);
    if (api_download_begin(api, r->place, body, &response, why) < 0)
        return -1;
    return http_client_body(api->http, r->max, r->ret, r->ret_len, why);
}

static int read_file(struct cay *client, struct reading *reading, struct cay_error *err)
{
    struct attempt a;
    int r;

    attempt_begin(&a, client);
    do {
        struct err why = {0};
        struct line *line = line_take(client, client->timeout_ms, &why);

        r = line ? read_once(&line->api, reading, &why) : -1;
        if (r == 0)
            atomic_store(&client->known, true);
        else if (attempt_again(&a, line, &why, reading->written == 0))
            r = 1;
        else
            (void)report(line, &why, &download_asked, err);
        line_give(client, line);
    } while (r > 0);
    return r;
}

int cay_read_file(struct cay *client, const char *sandbox, const char *path, unsigned flags,
                  size_t max, char **ret, size_t *ret_len, struct cay_error *err)
{
    auto_free char *place = place_of(sandbox);
    struct reading reading = {.place = place,
                              .path = path,
                              .flags = flags,
                              .fd = -1,
                              .max = max ? max : READ_MAX,
                              .ret = ret,
                              .ret_len = ret_len};

    return read_file(client, &reading, err);
}

int cay_download(struct cay *client, const char *sandbox, const char *path, unsigned flags, int fd,
                 struct cay_error *err)
{
    auto_free char *place = place_of(sandbox);
    struct reading reading = {.place = place, .path = path, .flags = flags, .fd = fd};

    if (fd < 0)
        return bad_argument(err, "a download needs a descriptor to write to");
    return read_file(client, &reading, err);
}

/* ---- in ---- */

struct writing {
    char *where;
    const char *path;
    const void *data; /* in memory, or */
    size_t len;
    int fd; /* size bytes from start on */
    off_t start;
    int64_t size;
};

static int write_once(struct api *api, const struct writing *w, struct err *why)
{
    struct moving m = {.name = w->path, .fd = w->fd};

    if (w->fd < 0)
        return api_upload_bytes(api, w->where, w->data, w->len, why);
    if (w->start >= 0 && lseek(w->fd, w->start, SEEK_SET) < 0)
        return err_sys(why, errno, "seek in the file to send");
    return api_upload(api, w->where, w->size, &m, why);
}

static int write_file(struct cay *client, const struct writing *writing, struct cay_error *err)
{
    bool repeatable = writing->fd < 0 || writing->start >= 0;
    struct attempt a;
    int r;

    attempt_begin(&a, client);
    do {
        struct err why = {0};
        struct line *line = line_take(client, client->timeout_ms, &why);

        r = line ? write_once(&line->api, writing, &why) : -1;
        if (r == 0)
            atomic_store(&client->known, true);
        else if (attempt_again(&a, line, &why, repeatable))
            r = 1;
        else
            (void)report(line, &why, &upload_asked, err);
        line_give(client, line);
    } while (r > 0);
    return r;
}

static char *upload_where(const char *sandbox, const char *path, unsigned flags, int mode)
{
    auto_free char *place = place_of(sandbox);
    auto_free char *plain = path_query(path);
    auto_free char *query = xasprintf("%s&anywhere=%s", plain, anywhere(flags) ? "true" : "false");

    return upload_path(place, query, mode);
}

int cay_write_file(struct cay *client, const char *sandbox, const char *path, unsigned flags,
                   const void *data, size_t len, int mode, struct cay_error *err)
{
    auto_free char *where = upload_where(sandbox, path, flags, mode);
    struct writing writing = {.where = where, .path = path, .data = data, .len = len, .fd = -1};

    return write_file(client, &writing, err);
}

int cay_upload(struct cay *client, const char *sandbox, const char *path, unsigned flags, int fd,
               int64_t size, int mode, struct cay_error *err)
{
    auto_free char *where = upload_where(sandbox, path, flags, mode);
    struct writing writing = {
        .where = where, .path = path, .fd = fd, .start = lseek(fd, 0, SEEK_CUR), .size = size};
    auto_close int spool = -1;
    struct err why = {0};
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        (void)err_sys(&why, fd < 0 ? EBADF : errno, "look at the file to send");
        return report(NULL, &why, &upload_asked, err);
    }
    if (size < 0 && S_ISREG(st.st_mode) && writing.start >= 0) {
        writing.size = st.st_size > writing.start ? st.st_size - writing.start : 0;
    } else if (size < 0) {
        spool = spool_input(fd, &writing.size, &why);
        if (spool < 0)
            return report(NULL, &why, &upload_asked, err);
        writing.fd = spool;
        writing.start = 0;
    }
    return write_file(client, &writing, err);
}
