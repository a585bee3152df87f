/* What of the machine's /etc goes into the host image: a list of names that programs cannot do
 * without, never the whole folder. Of these only what every user of the machine may read, and no
 * file with a private key in it. Settings that may hold passwords (pip.conf, npmrc, gitconfig,
 * maven) and what tells this machine from others (hostname, machine-id, shadow, ssh keys) are not
 * in the list. */
#include "image/image_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "layer/layer.h"
#include "layer/tree.h"

#define FILE_MAX  (4u << 20)
#define TOTAL_MAX (64u << 20)
#define DIR_MAX   20000
#define DEPTH_MAX 8

/* Patterns for names in /etc: files, links or whole folders. */
static const char *const wanted[] = {
    "alternatives",   /* java, editor, awk … are links through here */
    "fonts",          /* fontconfig has no built-in default */
    "java-*-openjdk", /* the JVM does not start without it */
    "matplotlibrc",   /* Debian's matplotlib is not imported without it */
    "ld.so.cache",    "ld.so.conf", "ld.so.conf.d", "locale.alias", "mime.types", "os-release",
    "perl",           "protocols",  "python3*",     "services",     "terminfo",
};
static const char *const wanted_ssl[] = {"certs", "openssl.cnf"};

/* Manual pages are no commands; the self-signed certificate carries the machine's name. */
static const char *const unwanted[] = {"*.gz", "ssl-cert-snakeoil.pem", "*.bak", "*.dpkg-*", "*~"};

static bool is_unwanted(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(unwanted); i++)
        if (str_glob(unwanted[i], name))
            return true;
    return false;
}

static int copy_file(struct host_tree *t, int dirfd, const char *name, const char *path, int flags,
                     struct err *err)
{
    auto_close int fd = openat(dirfd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
    auto_free char *data = NULL;
    struct stat st;
    size_t len;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOENT || errno == ELOOP ? 0 : err_sys(err, errno, "read /%s", path);
    if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH) || st.st_size > FILE_MAX)
        return 0;
    if (t->bytes + (uint64_t)st.st_size > TOTAL_MAX)
        return err_set(err, ERR_INTERNAL, "too much in /etc to copy into the host image (at /%s)",
                       path);
    len = (size_t)st.st_size;
    data = xmalloc(len + 1);
    r = read_exact(fd, data, len);
    if (r == -EPIPE) /* it shrank: someone is writing it, and the next start sees the result */
        return 0;
    if (r < 0)
        return err_sys(err, -r, "read /%s", path);
    if (memmem(data, len, "PRIVATE KEY", 11))
        return 0;
    host_add(t, 'f', path, 0644 | (st.st_mode & 0111), steal_ptr(data), len);
    return 0;
}

/* Does a link with this target lead to something that the box has too? */
static bool leads_inside(const char *target, const char *path, const char *top)
{
    static const char *const shown[] = {"/usr/", "/bin/", "/sbin/", "/lib"};
    auto_free char *link = xasprintf("/%s", path);
    auto_free char *own = xasprintf("/%s/", top);
    char real[PATH_MAX];

    if (!strchr(target, '/'))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        if (str_starts(target, shown[i]))
            return true;
    return realpath(link, real) && (str_starts(real, "/usr/") || str_starts(real, own));
}

static int copy_link(struct host_tree *t, int dirfd, const char *name, const char *path,
                     const char *top, struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);

    if (n < 0)
        return errno == ENOENT || errno == EINVAL ? 0 : err_sys(err, errno, "read /%s", path);
    target[n] = '\0';
    /* The certificate that is left out has a link by its hash. */
    if (is_unwanted(strrchr(target, '/') ? strrchr(target, '/') + 1 : target))
        return 0;
    if (!leads_inside(target, path, top))
        return copy_file(t, dirfd, name, path, 0, err);
    host_add(t, 'l', path, 0777, xstrdup(target), (size_t)n);
    return 0;
}

/* top is the wanted entry that this one is in, or is. */
static int copy_any(struct host_tree *t, int dirfd, const char *name, const char *path,
                    const char *top, unsigned depth, struct err *err)
{
    auto_strv char **names = NULL;
    auto_close int fd = -1;
    struct stat st;

    if (is_unwanted(name) || fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (S_ISLNK(st.st_mode))
        return copy_link(t, dirfd, name, path, top, err);
    if (S_ISREG(st.st_mode))
        return copy_file(t, dirfd, name, path, O_NOFOLLOW, err);
    if (!S_ISDIR(st.st_mode) || (st.st_mode & 0005) != 0005 || depth >= DEPTH_MAX)
        return 0;
    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || tree_names(fd, DIR_MAX, &names, err) < 0)
        return fd < 0 ? err_sys(err, errno, "read /%s", path) : -1;
    host_add(t, 'd', path, 0755, NULL, 0);
    for (char **n = names; *n; n++) {
        auto_free char *sub = xasprintf("%s/%s", path, *n);

        if (copy_any(t, fd, *n, sub, top, depth + 1, err) < 0)
            return -1;
    }
    return 0;
}

/* Everything in /<folder> that matches one of the n patterns. */
static int copy_wanted(struct host_tree *t, const char *folder, const char *const *patterns,
                       size_t n, struct err *err)
{
    auto_free char *full = xasprintf("/%s", folder);
    auto_close int fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_strv char **names = NULL;

    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "open %s", full);
    if (tree_names(fd, DIR_MAX, &names, err) < 0)
        return -1;
    for (char **name = names; *name; name++) {
        auto_free char *path = xasprintf("%s/%s", folder, *name);

        for (size_t i = 0; i < n; i++)
            if (str_glob(patterns[i], *name)) {
                if (copy_any(t, fd, *name, path, path, 0, err) < 0)
                    return -1;
                break;
            }
    }
    return 0;
}

int host_copy_etc(struct host_tree *t, struct err *err)
{
    if (copy_wanted(t, "etc", wanted, ARRAY_LEN(wanted), err) < 0)
        return -1;
    host_add(t, 'd', "etc/ssl", 0755, NULL, 0);
    return copy_wanted(t, "etc/ssl", wanted_ssl, ARRAY_LEN(wanted_ssl), err);
}
