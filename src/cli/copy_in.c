#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/copy.h"
#include "cli/hostfs.h"
#include "cli/remote_tar.h"
#include "cli/transfer.h"
#include "cli/ui.h"

#define DEPTH_MAX 100

char *remote_join(const char *dir, const char *name)
{
    if (strcmp(dir, ".") == 0)
        return xstrdup(name);
    return xasprintf("%s%s%s", dir, str_ends(dir, "/") ? "" : "/", name);
}

void copy_skip(struct cp *c, const char *path, const char *what)
{
    ui_warn("skipped %s: %s", path, what);
    c->skipped++;
}

void copy_without_tar(void)
{
    ui_warn("no `tar` runs in the sandbox, so files are copied one by one: links are left out, "
            "hard links become files, and folders lose their modes and times");
}

static int file_in(struct cp *c, int fd, const struct stat *st, const char *to, struct err *err)
{
    if (remote_upload(c->api, c->id, to, true, fd, st->st_size, (int)(st->st_mode & 0777), err) < 0)
        return err_wrap(err, "copy to %s", to);
    remote_touch(c->api, c->id, to, st->st_mtime);
    c->files++;
    return 0;
}

static int dir_in(struct cp *c, int fd, const char *to, unsigned depth, struct err *err);

static int entry_in(struct cp *c, int dirfd, const char *name, const char *dir, unsigned depth,
                    struct err *err)
{
    auto_free char *to = remote_join(dir, name);
    struct stat st;
    /* Links are not followed, and a pipe must not make us wait for its other end. */
    auto_close int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0 && errno != ELOOP && errno != ENXIO)
        return err_sys(err, errno, "open %s", name);
    if (fd < 0 || fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
        copy_skip(c, to, "a symbolic link, pipe, socket or device");
        return 0;
    }
    if (S_ISREG(st.st_mode))
        return file_in(c, fd, &st, to, err);
    return dir_in(c, fd, to, depth + 1, err);
}

static int dir_in(struct cp *c, int fd, const char *to, unsigned depth, struct err *err)
{
    struct dirent *entry;
    DIR *dir;
    int r;

    if (depth > DEPTH_MAX)
        return err_set(err, ERR_TOO_LARGE, "%s is more than %d folders deep", to, DEPTH_MAX);
    if (remote_mkdir(c->api, c->id, to, true, err) < 0)
        return err_wrap(err, "make %s", to);
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return err_sys(err, errno, "read the folder for %s", to);
    r = 0;
    while (r == 0 && (entry = readdir(dir))) {
        if (host_name_ok(entry->d_name))
            r = entry_in(c, dirfd(dir), entry->d_name, to, depth, err);
    }
    (void)closedir(dir);
    return r;
}

/* Into a directory that is there under its own name, or what is in it where that is "."; else to
 * exactly that path. */
static int find_target(struct cp *c, const char *from, bool from_is_dir, const char *to, char **ret,
                       struct err *err)
{
    auto_free char *dir = NULL;
    auto_free char *name = NULL;
    struct remote_info info = {.type = 'd'};
    int r = strcmp(to, ".") == 0 ? 1 : remote_stat(c->api, c->id, to, true, &info, err);

    if (r < 0)
        return -1;
    /* A slash after a name that is not there yet means nothing more for a folder, as for cp; a file
     * goes into the folder that it names, which is made. */
    if (r == 0 ? from_is_dir || !str_ends(to, "/") : info.type != 'd' && !str_ends(to, "/")) {
        *ret = xstrdup(to);
        return 0;
    }
    host_split(from, &dir, &name);
    c->contents = strcmp(name, ".") == 0;
    if (c->contents) {
        *ret = xstrdup(to);
        return 0;
    }
    if (!host_name_ok(name))
        return err_set(err, ERR_INVALID,
                       "\"%s\" has no name of its own: give the name that it gets in the sandbox",
                       from);
    *ret = remote_join(to, name);
    return 0;
}

/* What comes on stdin goes into a directory that is there, or is made. */
static int stream_in(struct cp *c, const char *to, struct err *err)
{
    auto_free char *dir = NULL;
    int has = remote_has_tar(c->api, c->id, err);

    if (has < 0)
        return -1;
    if (has == 0)
        return err_set(
            err, ERR_INVALID,
            "no `tar` runs in the sandbox, which unpacks the stream; `cay file write %s PATH -` "
            "writes one file from stdin",
            c->id);
    if (isatty(STDIN_FILENO) == 1)
        return err_set(err, ERR_INVALID,
                       "\"-\" is a tar stream, which does not come from a "
                       "terminal: tar c src | cay cp - ID:PATH");
    if (remote_absolute(c->api, to, &dir, err) < 0 ||
        remote_mkdir(c->api, c->id, dir, true, err) < 0)
        return -1;
    return remote_tar_here(c->api, c->id, remote_unpack_command(dir), true, err);
}

int copy_in(struct cp *c, const char *from, const char *to, struct err *err)
{
    auto_close int fd = -1;
    auto_free char *target = NULL;
    struct stat st;
    int has;

    if (strcmp(from, "-") == 0)
        return stream_in(c, to, err);
    fd = open(from, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "open %s", from);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return err_set(err, ERR_INVALID, "%s is no regular file or directory", from);
    if (find_target(c, from, S_ISDIR(st.st_mode), to, &target, err) < 0)
        return -1;
    if (S_ISREG(st.st_mode))
        return file_in(c, fd, &st, target, err);
    has = remote_has_tar(c->api, c->id, err);
    if (has < 0)
        return -1;
    if (!has)
        copy_without_tar();
    return has ? tree_in(c, fd, target, err) : dir_in(c, fd, target, 0, err);
}
