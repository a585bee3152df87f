#include "cli/transfer.h"

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

/* ---- bytes, with a line that grows ---- */

static void show_moved(void *arg, int64_t n, int64_t total)
{
    struct meter *meter = arg;

    if (n == 0)
        meter_begin(meter, total);
    else
        meter_add(meter, n);
}

int save_answer(struct api *api, const struct http_response *response, const char *name, int fd,
                struct err *err)
{
    struct meter meter = {0};
    struct moving m = {.name = name, .fd = fd, .moved = show_moved, .arg = &meter};
    int r = api_save(api, response, &m, err);

    meter_end(&meter);
    return r;
}

int place_download(struct api *api, const char *place, json_t *body, int fd, struct err *err)
{
    auto_free char *path = xstrdup(json_text(body, "path"));
    struct meter meter = {0};
    struct moving m = {.name = path, .fd = fd, .moved = show_moved, .arg = &meter};
    int r = api_download(api, place, body, &m, err);

    meter_end(&meter);
    return r;
}

int remote_download(struct api *api, const char *id, const char *path, bool anywhere, int fd,
                    struct err *err)
{
    auto_free char *place = xasprintf("sandboxes/%s", id);

    return place_download(api, place, path_body(path, anywhere), fd, err);
}

int place_upload(struct api *api, const char *place, const char *query, const char *name, int fd,
                 int64_t size, int mode, struct err *err)
{
    auto_free char *where = upload_path(place, query, mode);
    struct meter meter = {0};
    struct moving m = {.name = name, .fd = fd, .moved = show_moved, .arg = &meter};
    int r = api_upload(api, where, size, &m, err);

    meter_end(&meter);
    return r;
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
    int64_t size;
    auto_close int spool = spool_input(fd, &size, err);

    if (spool < 0)
        return -1;
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
