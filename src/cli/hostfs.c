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
        int next = -1;

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

/* Directories, devices and the like are not replaced, and links only where links_too says so. */
static int check_place(int dirfd, const char *name, bool links_too, struct err *err)
{
    struct stat st;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISREG(st.st_mode) ||
        (links_too && S_ISLNK(st.st_mode)))
        return 0;
    return err_set(err, ERR_INVALID, "%s is there already and is %s: it is not replaced", name,
                   S_ISLNK(st.st_mode)   ? "a symbolic link"
                   : S_ISDIR(st.st_mode) ? "a directory"
                                         : "no regular file");
}

/* A file without a name, of which nothing is left when we are ended; where there are none, under
 * its temporary one. */
static int open_unfinished(int dirfd, const char *temporary, bool *ret_nameless)
{
    int fd = access("/proc/self/fd", X_OK) < 0
                 ? -1
                 : openat(dirfd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);

    *ret_nameless = fd >= 0;
    if (fd >= 0)
        return fd;
    return openat(dirfd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int host_file_begin(struct host_file *f, int dirfd, const char *name, struct err *err)
{
    char random[ID_SIZE];

    *f = (struct host_file){.dirfd = dirfd, .fd = -1};
    if (check_place(dirfd, name, false, err) < 0)
        return -1;
    id_new(random, ".cay");
    f->fd = open_unfinished(dirfd, random, &f->nameless);
    if (f->fd < 0)
        return err_sys(err, errno, "make a file beside %s", name);
    f->name = xstrdup(name);
    f->temporary = xstrdup(random);
    return 0;
}

/* Never set-id bits, and no more than the user's umask allows: it came out of a sandbox. */
static mode_t mode_here(mode_t mode)
{
    mode_t mask = umask(0);

    (void)umask(mask);
    return mode & 0777 & ~mask;
}

static const struct timespec *times_of(int64_t mtime, struct timespec ret[2])
{
    ret[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
    ret[1] = (struct timespec){.tv_sec = mtime};
    return ret;
}

static int give_name(const struct host_file *f)
{
    auto_free char *open = xasprintf("/proc/self/fd/%d", f->fd);

    return linkat(AT_FDCWD, open, f->dirfd, f->temporary, AT_SYMLINK_FOLLOW);
}

int host_file_commit(struct host_file *f, mode_t mode, int64_t mtime, struct err *err)
{
    struct timespec times[2];

    if (fchmod(f->fd, mode_here(mode)) < 0)
        return err_sys(err, errno, "set the mode of %s", f->name);
    if (mtime != HOST_TIME_NOW)
        (void)futimens(f->fd, times_of(mtime, times));
    if (f->nameless && give_name(f) < 0)
        return err_sys(err, errno, "name %s", f->name);
    if (close(steal_fd(f->fd)) < 0)
        return err_sys(err, errno, "write %s", f->name);
    if (renameat(f->dirfd, f->temporary, f->dirfd, f->name) < 0)
        return err_sys(err, errno, "rename to %s", f->name);
    free(steal_ptr(f->temporary));
    return 0;
}

/* Gives what was made under a temporary name its own. */
static int put_in_place(int dirfd, const char *temporary, const char *name, struct err *err)
{
    int r = renameat(dirfd, temporary, dirfd, name);

    if (r < 0)
        r = err_sys(err, errno, "rename to %s", name);
    (void)unlinkat(dirfd, temporary, 0); /* also when both were the same file already */
    return r;
}

int host_make_link(int dirfd, const char *name, const char *text, int64_t mtime, struct err *err)
{
    char temporary[ID_SIZE];
    struct timespec times[2];

    if (check_place(dirfd, name, true, err) < 0)
        return -1;
    id_new(temporary, ".cay");
    if (symlinkat(text, dirfd, temporary) < 0)
        return err_sys(err, errno, "make the link %s", name);
    if (mtime != HOST_TIME_NOW)
        (void)utimensat(dirfd, temporary, times_of(mtime, times), AT_SYMLINK_NOFOLLOW);
    return put_in_place(dirfd, temporary, name, err);
}

int host_make_name(int from_dirfd, const char *from, int dirfd, const char *name, struct err *err)
{
    char temporary[ID_SIZE];
    struct stat st;

    if (check_place(dirfd, name, false, err) < 0)
        return -1;
    if (fstatat(from_dirfd, from, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "%s is one more name of %s, which is no file", name, from);
    id_new(temporary, ".cay");
    if (linkat(from_dirfd, from, dirfd, temporary, 0) < 0)
        return err_sys(err, errno, "make %s", name);
    return put_in_place(dirfd, temporary, name, err);
}

void host_finish_dir(int fd, mode_t mode, int64_t mtime)
{
    struct timespec times[2];

    (void)fchmod(fd, mode_here(mode));
    (void)futimens(fd, times_of(mtime, times));
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
