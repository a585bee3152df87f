#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/copy.h"
#include "cli/hostfs.h"
#include "cli/remote_path.h"
#include "cli/remote_tar.h"
#include "cli/transfer.h"
#include "cli/ui.h"

#define DEPTH_MAX 100
#define BATCH     256

static int file_out(struct cp *c, const char *from, int dirfd, const char *name,
                    const struct remote_info *info, struct err *err)
{
    struct host_file f;
    int r = host_file_begin(&f, dirfd, name, err);

    if (r == 0)
        r = remote_download(c->api, c->id, from, true, f.fd, err);
    if (r == 0)
        r = host_file_commit(&f, info->mode, time_ms_seconds(info->mtime_ms), err);
    host_file_done(&f);
    if (r < 0)
        return err_wrap(err, "copy %s", from);
    c->files++;
    return 0;
}

static int dir_out(struct cp *c, const char *from, int dirfd, unsigned depth, struct err *err);

/* One entry of a listing. The name came from the sandbox. */
static int entry_out(struct cp *c, const char *dir, const char *name, const json_t *meta, int dirfd,
                     unsigned depth, struct err *err)
{
    auto_free char *from = remote_join(dir, name);
    auto_close int fd = -1;
    struct remote_info info;

    remote_mode(json_text(meta, "permissions"), &info);
    info.mtime_ms = json_int(meta, "modifiedAt");
    if (!host_name_ok(name) || (info.type != '-' && info.type != 'd')) {
        copy_skip(c, from, info.type == 'l' ? "a symbolic link" : "no regular file or directory");
        return 0;
    }
    if (info.type == '-')
        return file_out(c, from, dirfd, name, &info, err);
    if (host_make_dir(dirfd, name, &fd, err) < 0)
        return -1;
    return dir_out(c, from, fd, depth + 1, err);
}

/* Types and modes of up to BATCH entries; an array in their order. */
static int stat_batch(struct cp *c, const char *dir, const json_t *entries, size_t first,
                      json_t **ret, struct err *err)
{
    char *paths[BATCH];
    size_t n = 0;
    json_t *body;

    while (n < BATCH && first + n < json_array_size(entries)) {
        auto_free char *name = entry_name(json_array_get(entries, first + n));

        paths[n++] = remote_join(dir, name);
    }
    body = paths_body(paths, n, true);
    while (n > 0)
        free(paths[--n]);
    return api_call(c->api, "POST", body, ret, err, "/sandboxes/%s/files/info", c->id);
}

static int entries_out(struct cp *c, const char *from, const json_t *entries, int dirfd,
                       unsigned depth, struct err *err)
{
    for (size_t first = 0; first < json_array_size(entries); first += BATCH) {
        json_t *metas = NULL;
        int r = stat_batch(c, from, entries, first, &metas, err);

        for (size_t i = 0; r == 0 && i < json_array_size(metas); i++) {
            auto_free char *name = entry_name(json_array_get(entries, first + i));

            r = entry_out(c, from, name, json_array_get(metas, i), dirfd, depth, err);
        }
        json_decref(metas);
        if (r < 0)
            return -1;
    }
    return 0;
}

static int dir_out(struct cp *c, const char *from, int dirfd, unsigned depth, struct err *err)
{
    json_t *entries = NULL;
    int r;

    if (depth > DEPTH_MAX)
        return err_set(err, ERR_TOO_LARGE, "%s is more than %d folders deep", from, DEPTH_MAX);
    if (api_call(c->api, "POST", path_body(from, true), &entries, err, "/sandboxes/%s/files/list",
                 c->id) < 0)
        return err_wrap(err, "list %s", from);
    r = entries_out(c, from, entries, dirfd, depth, err);
    json_decref(entries);
    return r;
}

/* Where it goes: into a directory that is there under its own name, or what is in it where that is
 * "."; else to exactly that path. */
static int find_target(struct cp *c, const char *from, bool from_is_dir, const char *to,
                       int *ret_dirfd, char **ret_name, struct err *err)
{
    auto_free char *dir = NULL;
    auto_free char *name = NULL;
    auto_free char *from_dir = NULL;
    struct stat st;
    bool is_dir = lstat(to, &st) == 0 && S_ISDIR(st.st_mode);

    /* A slash after a name that is not there yet means nothing more for a folder, as for cp. */
    if (is_dir || (str_ends(to, "/") && !from_is_dir)) {
        host_split(from, &from_dir, &name);
        dir = xstrdup(to);
        c->contents = strcmp(name, ".") == 0;
    } else {
        host_split(to, &dir, &name);
    }
    if (!c->contents && !host_name_ok(name))
        return err_set(err, ERR_INVALID,
                       "\"%s\" has no name of its own to copy it to: give a file or folder name "
                       "instead of \"%s\"",
                       from, to);
    if (host_open_dir(dir, false, ret_dirfd, err) < 0)
        return -1;
    *ret_name = steal_ptr(name);
    return 0;
}

static int stream_out(struct cp *c, const char *from, struct err *err)
{
    auto_free char *path = NULL, *dir = NULL, *name = NULL;
    int has = remote_has_tar(c->api, c->id, err);

    if (has < 0)
        return -1;
    if (has == 0)
        return err_set(
            err, ERR_INVALID,
            "no `tar` runs in the sandbox, which packs the stream; `cay file read %s PATH` "
            "prints one file",
            c->id);
    if (ui_stdout_is_terminal())
        return err_set(
            err, ERR_INVALID,
            "\"-\" is a tar stream, which is not for a terminal: pipe it to `tar x`; `cay "
            "file read %s PATH` prints one file",
            c->id);
    if (remote_absolute(c->api, from, &path, err) < 0)
        return -1;
    host_split(path, &dir, &name);
    return remote_tar_here(c->api, c->id, remote_pack_command(dir, name), false, err);
}

static int folder_out(struct cp *c, const char *from, int dirfd, const char *name, bool is_link,
                      struct err *err)
{
    auto_close int fd = -1;
    int has = remote_has_tar(c->api, c->id, err);

    if (has < 0)
        return -1;
    if (has)
        return tree_out(c, from, dirfd, name, err);
    if (is_link)
        return err_set(
            err, ERR_INVALID,
            "%s is a symbolic link, and no `tar` runs in the sandbox, which could pack it", from);
    copy_without_tar();
    if (!c->contents && host_make_dir(dirfd, name, &fd, err) < 0)
        return -1;
    return dir_out(c, from, c->contents ? dirfd : fd, 0, err);
}

int copy_out(struct cp *c, const char *from, const char *to, struct err *err)
{
    struct remote_info info = {.type = 'd'};
    auto_close int dirfd = -1;
    auto_free char *name = NULL;
    int r = strcmp(from, ".") == 0 ? 1 : remote_stat(c->api, c->id, from, true, &info, err);

    if (r < 0)
        return -1;
    if (r == 0)
        return err_set(err, ERR_NOT_FOUND, "%s is not in the sandbox", from);
    if (!strchr("d-l", info.type))
        return err_set(err, ERR_INVALID, "%s is a pipe, socket or device", from);
    if (strcmp(to, "-") == 0)
        return stream_out(c, from, err);
    if (find_target(c, from, info.type == 'd', to, &dirfd, &name, err) < 0)
        return -1;
    if (info.type == '-')
        return file_out(c, from, dirfd, name, &info, err);
    return folder_out(c, from, dirfd, name, info.type == 'l', err);
}
