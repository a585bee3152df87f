#include "cli/patch_args.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/args.h"
#include "model/patches.h"

#define JSON_MAX  (24u << 20)
#define DEPTH_MAX 64

struct patching {
    json_t *patches;
    size_t bytes;
};

static int read_whole(int fd, const char *path, struct buf *out, struct err *err)
{
    char piece[16384];
    ssize_t n;

    while ((n = read_some(fd, piece, sizeof(piece))) > 0)
        if (buf_add(out, piece, (size_t)n) < 0)
            return err_set(err, ERR_TOO_LARGE, "%.150s is longer than %zu MiB", path,
                           out->max >> 20);
    return n < 0 ? err_sys(err, (int)-n, "read %.150s", path) : 0;
}

/* ---- --patch FILE ---- */

static int add_json(struct patching *p, const char *text, size_t len, const char *what,
                    struct err *err)
{
    json_error_t why;
    json_t *all = json_loadb(text, len, 0, &why);
    const json_t *list = json_is_object(all) ? json_object_get(all, "patches") : all;
    int r = 0;

    if (!all)
        r = err_set(err, ERR_INVALID, "--patch %.80s: line %d: %.80s", what, why.line, why.text);
    else if (!json_is_array(list))
        r = err_set(err, ERR_INVALID,
                    "--patch %.80s must be a JSON array of patches, or an object with \"patches\"",
                    what);
    else
        (void)json_array_extend(p->patches, (json_t *)(uintptr_t)list);
    json_decref(all);
    return r;
}

static int add_file(struct patching *p, const char *path, struct err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    auto_close int fd =
        is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    auto_buf struct buf text = {0};

    if (fd < 0)
        return err_sys(err, errno, "open --patch %.150s", path);
    buf_init(&text, JSON_MAX);
    if (read_whole(fd, path, &text, err) < 0)
        return -1;
    return add_json(p, text.data ? text.data : "", text.len, path, err);
}

/* ---- --copy SRC:DST ---- */

static int add_patch(struct patching *p, json_t *patch, const char *from, struct err *err)
{
    if (!patch)
        return err_set(err, ERR_INVALID, "--copy: the name %.100s is not UTF-8 text", from);
    (void)json_array_append_new(p->patches, patch);
    if (json_array_size(p->patches) > PATCHES_MAX || p->bytes > PATCH_BYTES_MAX)
        return err_set(
            err, ERR_TOO_LARGE,
            "--copy takes at most %d files with %u MiB; use `cay cp` when the sandbox is "
            "there, or a volume",
            PATCHES_MAX, PATCH_BYTES_MAX >> 20);
    return 0;
}

static json_t *new_patch(const char *type, const char *path, const struct stat *st)
{
    char mode[8];

    (void)snprintf(mode, sizeof(mode), "%04o", (unsigned)(st->st_mode & 07777));
    return json_pack("{s:s, s:s, s:s}", "type", type, "path", path, "mode", mode);
}

static int copy_file(struct patching *p, int fd, const char *from, const char *to,
                     const struct stat *st, struct err *err)
{
    auto_buf struct buf data = {0}, text = {0};
    json_t *patch = new_patch("file", to, st);

    buf_init(&data, PATCH_BYTES_MAX);
    if (read_whole(fd, from, &data, err) < 0) {
        json_decref(patch);
        return -1;
    }
    buf_init(&text, 2 * (size_t)PATCH_BYTES_MAX);
    (void)base64_encode(&text, data.data, data.len);
    p->bytes += data.len;
    if (patch) {
        (void)json_object_set_new(patch, "content",
                                  json_stringn(text.data ? text.data : "", text.len));
        (void)json_object_set_new(patch, "replace", json_true());
    }
    return add_patch(p, patch, from, err);
}

static int copy_entry(struct patching *p, int dir, const char *name, const char *from,
                      const char *to, unsigned depth, struct err *err);

static int copy_dir(struct patching *p, int fd, const char *from, const char *to,
                    const struct stat *st, unsigned depth, struct err *err)
{
    DIR *d = depth < DEPTH_MAX ? fdopendir(fcntl(fd, F_DUPFD_CLOEXEC, 3)) : NULL;
    const struct dirent *e;
    int r = d ? add_patch(p, new_patch("mkdir", to, st), from, err)
              : err_set(err, ERR_INVALID, "--copy: %.150s cannot be listed", from);

    while (r == 0 && (e = readdir(d))) {
        auto_free char *inner_from = xasprintf("%s/%s", from, e->d_name);
        auto_free char *inner_to = xasprintf("%s/%s", to, e->d_name);

        if (!str_is_dot(e->d_name))
            r = copy_entry(p, fd, e->d_name, inner_from, inner_to, depth + 1, err);
    }
    if (d)
        (void)closedir(d);
    return r;
}

static int copy_link(struct patching *p, int dir, const char *name, const char *from,
                     const char *to, struct err *err)
{
    char target[4096];
    ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

    if (n < 0)
        return err_sys(err, errno, "read the link %.150s", from);
    target[n] = '\0';
    return add_patch(p,
                     json_pack("{s:s, s:s, s:s, s:b}", "type", "symlink", "path", to, "target",
                               target, "replace", 1),
                     from, err);
}

/* Of a folder links stay links; what the flag names is followed, as a shell does. */
static int copy_entry(struct patching *p, int dir, const char *name, const char *from,
                      const char *to, unsigned depth, struct err *err)
{
    int follow = depth == 0 ? 0 : AT_SYMLINK_NOFOLLOW;
    auto_close int fd = -1;
    struct stat st;

    if (fstatat(dir, name, &st, follow) < 0)
        return err_sys(err, errno, "--copy %.150s", from);
    if (S_ISLNK(st.st_mode))
        return copy_link(p, dir, name, from, to, err);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return err_set(err, ERR_INVALID, "--copy: %.150s is neither file, folder nor link", from);
    fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | (follow ? O_NOFOLLOW : 0));
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "--copy %.150s", from);
    return S_ISDIR(st.st_mode) ? copy_dir(p, fd, from, to, &st, depth, err)
                               : copy_file(p, fd, from, to, &st, err);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* With a slash at the end of DST it goes into that folder, under its own name. */
static int add_copy(struct patching *p, const char *text, struct err *err)
{
    const char *colon = strrchr(text, ':');
    auto_free char *from = colon ? xstrndup(text, (size_t)(colon - text)) : NULL;
    auto_free char *to = NULL;
    size_t len;

    if (!colon || colon == text || !colon[1])
        return err_set(err, ERR_INVALID, "--copy needs SRC:DST, not \"%.100s\"", text);
    len = strlen(from);
    while (len > 1 && from[len - 1] == '/')
        from[--len] = '\0';
    to = xasprintf("%s%s", colon + 1, colon[strlen(colon) - 1] == '/' ? last_part(from) : "");
    return copy_entry(p, AT_FDCWD, from, from, to, 0, err);
}

int patch_read_args(const struct args *args, json_t **ret, struct err *err)
{
    char **copies = args_list(args, "copy"), **files = args_list(args, "patch");
    struct patching p = {.patches = copies || files ? json_array() : NULL};
    int r = 0;

    for (; r == 0 && copies && *copies; copies++)
        r = add_copy(&p, *copies, err);
    for (; r == 0 && files && *files; files++)
        r = add_file(&p, *files, err);
    if (r < 0) {
        json_decref(p.patches);
        return -1;
    }
    *ret = p.patches;
    return 0;
}
