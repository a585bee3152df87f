#include "cli/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/meter.h"
#include "cli/remote_path.h"
#include "cli/ui.h"

#define CHUNK  (128u << 10)
#define OCTETS "application/octet-stream"

void location_parse(struct location *p, const char *text)
{
    const char *colon = strchr(text, ':');
    const char *slash = strchr(text, '/');

    if (!colon || colon == text || (slash && slash < colon) || text[0] == '.') {
        *p = (struct location){.path = xstrdup(text)};
        return;
    }
    p->sandbox = xstrndup(text, (size_t)(colon - text));
    p->path = xstrdup(colon[1] ? colon + 1 : ".");
}

void location_done(struct location *p)
{
    free(p->sandbox);
    free(p->path);
    *p = (struct location){0};
}

void remote_mode(const char *permissions, struct remote_info *ret)
{
    static const char letters[] = "rwxrwxrwx";

    ret->type = permissions[0] ? permissions[0] : '?';
    ret->mode = 0;
    for (size_t i = 0; i < 9 && permissions[0] && strlen(permissions) >= 10; i++) {
        char c = permissions[i + 1];

        /* s and t stand for x with a set-id or sticky bit, which is not carried over. */
        if (c == letters[i] || c == 's' || c == 't')
            ret->mode |= (mode_t)1 << (8 - i);
    }
}

int remote_stat(struct api *api, const char *id, const char *path, bool anywhere,
                struct remote_info *ret, struct err *err)
{
    json_t *meta = NULL;

    if (api_call(api, "POST", path_body(path, anywhere), &meta, err, "/sandboxes/%s/files/info",
                 id) < 0)
        return err->kind == ERR_NOT_FOUND && !str_starts(api_last_code(), "sandbox_") ? 0 : -1;
    remote_mode(json_text(meta, "permissions"), ret);
    if (json_is_true(json_object_get(meta, "isDirectory")))
        ret->type = 'd';
    ret->size = json_int(meta, "size");
    ret->mtime_ms = json_int(meta, "modifiedAt");
    json_decref(meta);
    return 1;
}

int remote_mkdir(struct api *api, const char *id, const char *path, bool anywhere, struct err *err)
{
    return api_call(api, "POST", path_body(path, anywhere), NULL, err, "/sandboxes/%s/files/mkdir",
                    id);
}

int api_save(struct api *api, const struct http_response *response, const char *name, int fd,
             struct err *err)
{
    auto_free char *data = xmalloc(CHUNK);
    struct meter meter;
    ssize_t n;
    int r = 0;

    meter_begin(&meter, response->length);
    while (r == 0 && (n = http_client_read(api->http, data, CHUNK, err)) > 0) {
        r = write_all(fd, data, (size_t)n);
        meter_add(&meter, n);
    }
    meter_end(&meter);
    if (r < 0)
        return err_sys(err, -r, "write %s", name);
    return n < 0 ? -1 : 0;
}

int place_download(struct api *api, const char *place, json_t *body, int fd, struct err *err)
{
    auto_free char *where = xasprintf("/sandbox/%s/files/download", place);
    auto_free char *text = json_dumps(body, JSON_COMPACT);
    auto_free char *path = xstrdup(json_text(body, "path"));
    struct http_response response;
    int r;

    json_decref(body);
    http_client_accept(api->http, OCTETS);
    r = http_client_send(api->http, "POST", where, "application/json", text, strlen(text),
                         &response, err);
    http_client_accept(api->http, NULL);
    if (r < 0)
        return api_explain(api, err);
    if (api_check(api, &response, err) < 0)
        return -1;
    if (strcmp(response.type, OCTETS) != 0)
        return err_set(err, ERR_INTERNAL, "%s does not send files as bytes: is it a cay daemon?",
                       api->target);
    return api_save(api, &response, path, fd, err);
}

int remote_download(struct api *api, const char *id, const char *path, bool anywhere, int fd,
                    struct err *err)
{
    auto_free char *place = xasprintf("sandboxes/%s", id);

    return place_download(api, place, path_body(path, anywhere), fd, err);
}

/* Exactly size bytes: a file that shrinks meanwhile breaks the request off, so that the old file in
 * the sandbox stays; one that grows is cut. */
static int send_bytes(struct api *api, int fd, int64_t size, const char *name, struct err *err)
{
    auto_free char *data = xmalloc(CHUNK);
    struct meter meter;
    int r = 0;

    meter_begin(&meter, size);
    while (r == 0 && size > 0) {
        ssize_t n = read_some(fd, data, size < CHUNK ? (size_t)size : CHUNK);

        if (n < 0)
            r = err_sys(err, (int)-n, "read %s", name);
        else if (n == 0)
            r = err_set(err, ERR_CONFLICT, "%s became shorter while it was read", name);
        else
            r = http_client_write(api->http, data, (size_t)n, err);
        size -= n > 0 ? n : 0;
        meter_add(&meter, n > 0 ? n : 0);
    }
    meter_end(&meter);
    return r;
}

int place_upload(struct api *api, const char *place, const char *query, const char *name, int fd,
                 int64_t size, int mode, struct err *err)
{
    auto_free char *rest = NULL;
    auto_free char *bits = mode < 0 ? xstrdup("") : xasprintf("&mode=%04o", (unsigned)mode & 0777);
    auto_free char *where = xasprintf("/sandbox/%s/files/upload?%s%s", place, query, bits);
    struct http_response response;

    if (http_client_begin(api->http, "POST", where, OCTETS, size, err) < 0)
        return api_explain(api, err);
    if (send_bytes(api, fd, size, name, err) < 0)
        return -1;
    if (http_client_finish(api->http, &response, err) < 0)
        return api_explain(api, err);
    if (api_check(api, &response, err) < 0)
        return -1;
    return http_client_body(api->http, 64u << 10, &rest, &(size_t){0}, err);
}

int remote_upload(struct api *api, const char *id, const char *path, bool anywhere, int fd,
                  int64_t size, int mode, struct err *err)
{
    auto_free char *place = xasprintf("sandboxes/%s", id);
    auto_free char *plain = path_query(path);
    auto_free char *query = xasprintf("%s&anywhere=%s", plain, anywhere ? "true" : "false");

    return place_upload(api, place, query, path, fd, size, mode, err);
}

int remote_upload_stream(struct api *api, const char *id, const char *path, bool anywhere, int fd,
                         struct err *err)
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
    return remote_upload(api, id, path, anywhere, spool, size, -1, err);
}

int remote_absolute(struct api *api, const char *path, char **ret, struct err *err)
{
    json_t *info = NULL;

    if (path[0] == '/') {
        *ret = xstrdup(path);
        return 0;
    }
    if (api_call(api, "GET", NULL, &info, err, "/info") < 0)
        return -1;
    if (strcmp(path, ".") == 0)
        *ret = xstrdup(json_text(info, "workspace"));
    else
        *ret = xasprintf("%s/%s", json_text(info, "workspace"), path);
    json_decref(info);
    return 0;
}

void remote_touch(struct api *api, const char *id, const char *path, int64_t mtime)
{
    auto_free char *absolute = NULL, *when = xasprintf("@%lld", (long long)mtime);
    struct err ignored = {0};
    json_t *body;

    if (remote_absolute(api, path, &absolute, &ignored) < 0)
        return;
    body = json_pack("{s:o, s:s}", "command",
                     path_command((const char *[]){"touch", "-c", "-d", when, absolute, NULL}),
                     "user", "0:0");
    (void)api_call(api, "POST", body, NULL, &ignored, "/sandboxes/%s/exec", id);
}
