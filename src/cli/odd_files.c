#include "cli/odd_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/str.h"
#include "cli/escape.h"

struct search {
    struct buf *text;
    unsigned n;
};

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names;
}

static bool has_ending(const char *name, const char *const *endings)
{
    while (*endings && !str_ends(name, *endings))
        endings++;
    return *endings;
}

/* The type that a name of the daemon's has: S_IFREG, S_IFDIR, S_IFSOCK; 0 = file or folder. */
static mode_t type_of(const char *name, bool is_top)
{
    static const char *const files[] = {"gone", "lock", "mark", "pid", "port", "proxy.key", NULL};
    static const char *const endings[] = {".db",     ".db-wal", ".db-shm", ".db-journal",
                                          ".config", ".img",    ".json",   ".jsonl",
                                          ".old",    ".spare",  NULL};
    static const char *const folders[] = {
        "alerts",    "audit",     "base",      "builds",  "host",     "images", "layers",
        "names",     "netlog",    "networks",  "pool",    "scratch",  "stage",  "tokens",
        "sandboxes", "snapshots", "templates", "volumes", "webhooks", NULL};

    if (is_one_of(name, files) || has_ending(name, endings))
        return S_IFREG;
    if (str_ends(name, ".sock"))
        return S_IFSOCK;
    return is_top && is_one_of(name, folders) ? S_IFDIR : 0;
}

static const char *kind_of(mode_t mode)
{
    const char *odd = odd_file_kind(mode);

    return odd ? odd : "a file";
}

static void add(struct search *s, const char *path, const char *what)
{
    auto_free char *shown = escape_text(ESCAPE_CELL, path);

    if (s->n++ < ODD_FILES_TOLD)
        (void)buf_addf(s->text, "%s%s (%s)", s->n > 1 ? ", " : "", shown, what);
}

/* Of the folders below these two only those that hold the daemon's own files: what is in layers
 * belongs to images. */
static bool is_own_folder(const char *name, bool is_top)
{
    return is_top ? strcmp(name, "scratch") != 0
                  : strcmp(name, "records") == 0 || strcmp(name, "names") == 0;
}

static void look_into(struct search *s, int dirfd, const char *name, const char *shown,
                      bool is_top);

static void look_at(struct search *s, int dirfd, const char *folder, const char *name, bool is_top)
{
    auto_free char *path = xasprintf("%s/%s", folder, name);
    mode_t type = type_of(name, is_top), is;
    struct stat st, target;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    is = st.st_mode & S_IFMT;
    /* A folder may be elsewhere. */
    if (is == S_IFLNK && fstatat(dirfd, name, &target, 0) == 0 && S_ISDIR(target.st_mode))
        is = S_IFDIR;
    if (type ? is != type : is != S_IFREG && is != S_IFDIR) {
        auto_free char *what = xasprintf("%s where a %s is expected", kind_of(is),
                                         type == S_IFDIR    ? "folder"
                                         : type == S_IFSOCK ? "socket"
                                                            : "file");

        add(s, path, what);
    } else if (str_ends(name, ".damaged") || strstr(name, ".db.corrupt-")) {
        add(s, path, "damaged, and set aside");
    } else if (is == S_IFDIR && is_own_folder(name, is_top)) {
        look_into(s, dirfd, name, path, false);
    }
}

static void look_into(struct search *s, int dirfd, const char *name, const char *shown, bool is_top)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!dir) {
        close_fd(&fd);
        return;
    }
    while ((e = readdir(dir)))
        if (!str_is_dot(e->d_name))
            look_at(s, fd, shown, e->d_name, is_top);
    (void)closedir(dir);
}

unsigned odd_files_find(const char *data, const char *run, struct buf *text)
{
    struct search s = {.text = text};

    look_into(&s, AT_FDCWD, data, data, true);
    look_into(&s, AT_FDCWD, run, run, true);
    return s.n;
}
