#include "libcay/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "libcay/api.h"

#define CHUNK      (128u << 10)
#define OCTETS     "application/octet-stream"
#define ANSWER_MAX (64u << 10)

/* ---- paths ---- */

static bool is_text(const char *s)
{
    return utf8_valid(s, strlen(s));
}

json_t *path_encoded(const char *path)
{
    auto_buf struct buf text = {0};

    buf_init(&text, 2 * strlen(path) + 8);
    (void)base64_encode(&text, path, strlen(path));
    return json_stringn(text.data ? text.data : "", text.len);
}

json_t *path_body(const char *path, bool anywhere)
{
    bool text = is_text(path);
    json_t *o = json_pack("{s:o, s:b}", "path", text ? json_string(path) : path_encoded(path),
                          "anywhere", anywhere);

    if (!text)
        (void)json_object_set_new(o, "pathEncoding", json_string("base64"));
    return o;
}

char *path_query(const char *path)
{
    bool text = is_text(path);
    json_t *other = text ? NULL : path_encoded(path);
    auto_free char *value = url_encoded(text ? path : json_string_value(other));

    json_decref(other);
    return xasprintf("path=%s%s", value, text ? "" : "&pathEncoding=base64");
}

/* ---- out ---- */

static void tell(const struct moving *m, int64_t n, int64_t total)
{
    if (m->moved)
        m->moved(m->arg, n, total);
}

int api_save(struct api *api, const struct http_response *response, const struct moving *m,
             struct err *err)
{
    auto_free char *data = xmalloc(CHUNK);
    ssize_t n;
    int r = 0;

    tell(m, 0, response->length);
    while (r == 0 && (n = http_client_read(api->http, data, CHUNK, err)) > 0) {
        r = write_all(m->fd, data, (size_t)n);
        tell(m, n, response->length);
    }
    if (r < 0)
        return err_sys(err, -r, "write %s", m->name);
    return n < 0 ? -1 : 0;
}

int api_download_begin(struct api *api, const char *place, json_t *body, struct http_response *ret,
                       struct err *err)
{
    auto_free char *where = xasprintf("/sandbox/%s/files/download", place);
    auto_free char *text = json_dumps(body, JSON_COMPACT);
    int r;

    json_decref(body);
    http_client_accept(api->http, OCTETS);
    r = http_client_send(api->http, "POST", where, "application/json", text, strlen(text), ret,
                         err);
    http_client_accept(api->http, NULL);
    if (r < 0)
        return api_explain(api, err);
    if (api_check(api, ret, err) < 0)
        return -1;
    if (strcmp(ret->type, OCTETS) != 0)
        return err_set(err, ERR_INTERNAL, "%s does not send files as bytes: is it a cay daemon?",
                       api->target);
    return 0;
}

int api_download(struct api *api, const char *place, json_t *body, const struct moving *m,
                 struct err *err)
{
    struct http_response response;

    if (api_download_begin(api, place, body, &response, err) < 0)
        return -1;
    return api_save(api, &response, m, err);
}

/* ---- in ---- */

char *upload_path(const char *place, const char *query, int mode)
{
    auto_free char *bits = mode < 0 ? xstrdup("") : xasprintf("&mode=%04o", (unsigned)mode & 0777);

    return xasprintf("/sandbox/%s/files/upload?%s%s", place, query, bits);
}

static int send_bytes(struct api *api, int64_t size, const struct moving *m, struct err *err)
{
    auto_free char *data = xmalloc(CHUNK);
    int64_t left = size;

    tell(m, 0, size);
    while (left > 0) {
        ssize_t n = read_some(m->fd, data, left < CHUNK ? (size_t)left : CHUNK);

        if (n < 0)
            return err_sys(err, (int)-n, "read %s", m->name);
        if (n == 0)
            return err_set(err, ERR_CONFLICT, "%s became shorter while it was read", m->name);
        if (http_client_write(api->http, data, (size_t)n, err) < 0)
            return -1;
        left -= n;
        tell(m, n, size);
    }
    return 0;
}

static int uploaded(struct api *api, const struct http_response *response, struct err *err)
{
    auto_free char *rest = NULL;

    if (api_check(api, response, err) < 0)
        return -1;
    return http_client_body(api->http, ANSWER_MAX, &rest, &(size_t){0}, err);
}

int api_upload(struct api *api, const char *path, int64_t size, const struct moving *m,
               struct err *err)
{
    struct http_response response;

    if (http_client_begin(api->http, "POST", path, OCTETS, size, err) < 0)
        return api_explain(api, err);
    if (send_bytes(api, size, m, err) < 0)
        return -1;
    if (http_client_finish(api->http, &response, err) < 0)
        return api_explain(api, err);
    return uploaded(api, &response, err);
}

int api_upload_bytes(struct api *api, const char *path, const void *data, size_t size,
                     struct err *err)
{
    struct http_response response;

    if (http_client_send(api->http, "POST", path, OCTETS, data, size, &response, err) < 0)
        return api_explain(api, err);
    return uploaded(api, &response, err);
}

int spool_input(int fd, int64_t *ret_size, struct err *err)
{
    const char *tmp = getenv("TMPDIR");
    auto_close int spool =
        open(tmp && *tmp == '/' ? tmp : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    auto_free char *data = xmalloc(CHUNK);
    int64_t size = 0;
    ssize_t n;

    if (spool < 0)
        return err_sys(err, errno, "make a temporary file for the input");
    while ((n = read_some(fd, data, CHUNK)) > 0) {
        int r = write_all(spool, data, (size_t)n);

        if (r < 0)
            return err_sys(err, -r, "keep the input in a temporary file");
        size += n;
    }
    if (n < 0)
        return err_sys(err, (int)-n, "read the input");
    if (lseek(spool, 0, SEEK_SET) < 0)
        return err_sys(err, errno, "rewind the input");
    *ret_size = size;
    return steal_fd(spool);
}
