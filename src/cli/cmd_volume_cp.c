#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/hostfs.h"
#include "cli/transfer.h"
#include "cli/ui.h"

/* Files between this machine and a volume, through the daemon and without a sandbox. What a sandbox
 * wrote into the volume is not trusted: names are checked, and links are left where they are. */

#define DEPTH_MAX 64

struct volume_copy {
    struct api *api;
    char *place; /* "volumes/NAME" */
    size_t files, skipped;
};

static json_t *path_in(const char *path)
{
    json_t *body = json_pack("{s:s}", "path", path);

    return body ? body : json_pack("{s:s}", "path", "?"); /* no text: no such file there */
}

static void skip(struct volume_copy *c, const char *path, const char *why)
{
    ui_warn("%s is skipped: %s", path, why);
    c->skipped++;
}

static char *below(const char *folder, const char *name)
{
    return xasprintf("%s%s%s", folder, str_ends(folder, "/") ? "" : "/", name);
}

/* 1 = there is one; 0 = nothing is there. */
static int look(struct volume_copy *c, const char *path, struct remote_info *ret, struct err *err)
{
    json_t *meta = NULL;

    if (api_call(c->api, "POST", path_in(path), &meta, err, "/%s/files/info", c->place) < 0)
        return strcmp(api_last_code(), "file_not_found") == 0 ? 0 : -1;
    remote_mode(json_text(meta, "permissions"), ret);
    ret->size = json_int(meta, "size");
    ret->mtime_ms = json_int(meta, "modifiedAt");
    json_decref(meta);
    return 1;
}

/* ---- into the volume ---- */

static int put_file(struct volume_copy *c, int fd, const struct stat *st, const char *to,
                    struct err *err)
{
    auto_free char *path = url_encoded(to);
    auto_free char *query = xasprintf("path=%s", path);

    c->files++;
    return place_upload(c->api, c->place, query, to, fd, st->st_size, (int)(st->st_mode & 0777),
                        err);
}

static int put(struct volume_copy *c, int dirfd, const char *name, const char *to, unsigned depth,
               struct err *err);

static int put_folder(struct volume_copy *c, int fd, const char *to, unsigned depth,
                      struct err *err)
{
    DIR *dir = fdopendir(dup(fd));
    const struct dirent *e;
    int r = api_call(c->api, "POST", path_in(to), NULL, err, "/%s/files/mkdir", c->place);

    while (r == 0 && dir && (e = readdir(dir))) {
        auto_free char *path = str_is_dot(e->d_name) ? NULL : below(to, e->d_name);

        if (path)
            r = put(c, fd, e->d_name, path, depth + 1, err);
    }
    if (dir)
        (void)closedir(dir);
    return r;
}

static int put(struct volume_copy *c, int dirfd, const char *name, const char *to, unsigned depth,
               struct err *err)
{
    auto_close int fd =
        openat(dirfd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | (depth ? O_NOFOLLOW : 0));
    struct stat st;

    if (fd < 0 && errno != ELOOP && errno != ENXIO)
        return err_sys(err, errno, "open %s", name);
    if (fd < 0 || fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) ||
        depth > DEPTH_MAX || !utf8_valid(to, strlen(to))) {
        skip(c, name,
             fd < 0 && errno == ELOOP
                 ? "it is a link"
                 : "it is neither a file nor a directory, or its name cannot be sent");
        return 0;
    }
    return S_ISDIR(st.st_mode) ? put_folder(c, fd, to, depth, err) : put_file(c, fd, &st, to, err);
}

static int copy_to_volume(struct volume_copy *c, const char *from, const char *to, struct err *err)
{
    auto_free char *dir = NULL, *name = NULL, *inner = NULL;
    struct remote_info there = {0};
    int r = look(c, to, &there, err);

    if (r < 0)
        return -1;
    host_split(from, &dir, &name);
    if (r == 1 && there.type == 'd' && strcmp(name, ".") != 0)
        to = inner = below(to, name);
    return put(c, AT_FDCWD, from, to, 0, err);
}

/* ---- out of the volume ---- */

static int get_file(struct volume_copy *c, const char *from, const struct remote_info *info,
                    int dirfd, const char *name, struct err *err)
{
    struct host_file f = {0};
    int r = host_file_begin(&f, dirfd, name, err);

    if (r == 0)
        r = place_download(c->api, c->place, path_in(from), f.fd, err);
    if (r == 0)
        r = host_file_commit(&f, info->mode, time_ms_seconds(info->mtime_ms), err);
    host_file_done(&f);
    c->files += r == 0;
    return r;
}

static int get(struct volume_copy *c, const char *from, int dirfd, const char *name, unsigned depth,
               struct err *err);

static int get_folder(struct volume_copy *c, const char *from, const struct remote_info *info,
                      int dirfd, const char *name, unsigned depth, struct err *err)
{
    auto_close int fd = -1;
    json_t *list = NULL, *entry;
    size_t i;
    int r = host_make_dir(dirfd, name, &fd, err);

    if (r == 0)
        r = api_call(c->api, "POST", path_in(from), &list, err, "/%s/files/list", c->place);
    for (i = 0; r == 0 && (entry = json_array_get(list, i)); i++) {
        const char *inner = json_text(entry, "name");
        auto_free char *path = below(from, inner);

        if (!host_name_ok(inner))
            skip(c, path, "its name cannot be used here");
        else
            r = get(c, path, fd, inner, depth + 1, err);
    }
    if (r == 0)
        host_finish_dir(fd, info->mode, time_ms_seconds(info->mtime_ms));
    json_decref(list);
    return r;
}

static int get(struct volume_copy *c, const char *from, int dirfd, const char *name, unsigned depth,
               struct err *err)
{
    struct remote_info info = {0};
    int r = look(c, from, &info, err);

    if (r < 0)
        return -1;
    if (r == 0 && depth == 0)
        return err_code(err, ERR_NOT_FOUND, "file_not_found", "%s is not in the volume", from);
    if (r == 0 || depth > DEPTH_MAX || (info.type != 'd' && info.type != '-')) {
        skip(c, from, "it is neither a file nor a directory");
        return 0;
    }
    return info.type == 'd' ? get_folder(c, from, &info, dirfd, name, depth, err)
                            : get_file(c, from, &info, dirfd, name, err);
}

static int copy_from_volume(struct volume_copy *c, const char *from, const char *to,
                            struct err *err)
{
    auto_free char *dir = NULL, *name = NULL, *above = NULL, *last = NULL;
    auto_close int fd = -1;
    struct stat st;

    host_split(from, &above, &last);
    if (stat(to, &st) == 0 && S_ISDIR(st.st_mode) && host_name_ok(last)) {
        dir = xstrdup(to);
        name = xstrdup(last);
    } else {
        host_split(to, &dir, &name);
    }
    if (host_open_dir(dir, false, &fd, err) < 0)
        return -1;
    return get(c, from, fd, name, 0, err);
}

static int copy(struct args *args, const struct location *from, const struct location *to,
                struct err *err)
{
    auto_api struct api api = {0};
    auto_free char *word = url_encoded(from->sandbox ? from->sandbox : to->sandbox);
    auto_free char *place = xasprintf("volumes/%s", word);
    struct volume_copy c = {.api = &api, .place = place};
    int r;

    if (api_open(&api, args, err) < 0)
        return -1;
    r = from->sandbox
            ? copy_from_volume(&c, strcmp(from->path, ".") == 0 ? "/" : from->path, to->path, err)
            : copy_to_volume(&c, from->path, strcmp(to->path, ".") == 0 ? "/" : to->path, err);
    if (c.files > 1 && !args_has(args, "quiet"))
        ui_warn("copied %zu files", c.files);
    if (r == 0 && c.skipped > 0)
        return err_set(err, ERR_INVALID, "%zu %s skipped; all others were copied", c.skipped,
                       c.skipped == 1 ? "entry was" : "entries were");
    return r;
}

int cmd_volume_cp(struct args *args)
{
    struct location from = {0}, to = {0};
    struct err err = {0};
    int status = STATUS_OK;

    location_parse(&from, args->words[0]);
    location_parse(&to, args->words[1]);
    if (!from.sandbox == !to.sandbox)
        status = ui_usage(args, "one of the two must be in a volume, as VOLUME:path, and the other "
                                "here; a file with \":\" in its name is written ./a:b");
    else if (copy(args, &from, &to, &err) < 0)
        status = ui_fail(&err);
    location_done(&from);
    location_done(&to);
    return status;
}
