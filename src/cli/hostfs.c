#include "cli/hostfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

bool host_name_ok(const char *name)
{
    return *name && !strchr(name, '/') && !str_is_dot(name) && strlen(name) <= 255;
}

void host_split(const char *path, char **ret_dir, char **ret_name)
{
    size_t len = strlen(path), cut;

    while (len > 1 && path[len - 1] == '/')
        len--;
    cut = len;
    while (cut > 0 && path[cut - 1] != '/')
        cut--;
    *ret_name = xstrndup(path + cut, len - cut);
    while (cut > 1 && path[cut - 1] == '/')
        cut--;
    *ret_dir = cut == 0 ? xstrdup(".") : xstrndup(path, cut);
}

static int open_component(int dirfd, const char *name, bool make, const char *whole, int *ret,
                          struct err *err)
{
    struct stat st;
    int fd = openat(dirfd, name, OPEN_DIR);

    if (fd < 0 && errno == ENOENT && make) {
        if (mkdirat(dirfd, name, 0777) < 0 && errno != EEXIST)
            return err_sys(err, errno, "make the folder %s", whole);
        fd = openat(dirfd, name, OPEN_DIR);
    }
    if (fd >= 0) {
        *ret = fd;
        return 0;
    }
    if ((errno == ELOOP || errno == ENOTDIR) &&
        fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
        return err_set(err, ERR_INVALID,
                       "\"%s\" in %s is a symbolic link, which is not followed when writing: give "
                       "the path that it leads to",
                       name, whole);
    return err_sys(err, errno, "open the folder %s", whole);
}

int host_open_dir(const char *path, bool make, int *ret_fd, struct err *err)
{
    auto_close int fd = open(*path == '/' ? "/" : ".", OPEN_DIR);
    auto_free char *copy = xstrdup(path);
    char *save = NULL;

    if (fd < 0)
        return err_sys(err, errno, "open the working directory");
    for (char *name = strtok_r(copy, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
        int next;

        if (strcmp(name, ".") == 0)
            continue;
        if (open_component(fd, name, make, path, &next, err) < 0)
            return -1;
        (void)close(fd);
        fd = next;
    }
    *ret_fd = steal_fd(fd);
    return 0;
}

int host_make_dir(int dirfd, const char *name, int *ret_fd, struct err *err)
{
    return open_component(dirfd, name, true, name, ret_fd, err);
}

int host_file_begin(struct host_file *f, int dirfd, const char *name, struct err *err)
{
    char random[ID_SIZE];
    struct stat st;

    *f = (struct host_file){.dirfd = dirfd, .fd = -1};
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "%s is there already and is %s: it is not replaced", name,
                       S_ISLNK(st.st_mode)   ? "a symbolic link"
                       : S_ISDIR(st.st_mode) ? "a directory"
                                             : "no regular file");
    id_new(random, ".cay");
    f->fd = openat(dirfd, random, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (f->fd < 0)
        return err_sys(err, errno, "make a file beside %s", name);
    f->name = xstrdup(name);
    f->temporary = xstrdup(random);
    return 0;
}

int host_file_commit(struct host_file *f, mode_t mode, struct err *err)
{
    mode_t mask = umask(0);

    (void)umask(mask);
    /* Never set-id bits, and no more than the user's umask allows: it came out of a sandbox. */
    if (fchmod(f->fd, mode & 0777 & ~mask) < 0)
        return err_sys(err, errno, "set the mode of %s", f->name);
    if (close(steal_fd(f->fd)) < 0)
        return err_sys(err, errno, "write %s", f->name);
    if (renameat(f->dirfd, f->temporary, f->dirfd, f->name) < 0)
        return err_sys(err, errno, "rename to %s", f->name);
    free(steal_ptr(f->temporary));
    return 0;
}

void host_file_done(struct host_file *f)
{
    close_fd(&f->fd);
    if (f->temporary)
        (void)unlinkat(f->dirfd, f->temporary, 0);
    free(f->temporary);
    free(f->name);
    *f = (struct host_file){.fd = -1};
}
