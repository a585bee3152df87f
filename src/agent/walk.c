#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "agent/agent.h"
#include "agent/walk.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "proto/frame.h"

/* Without recursion: the box's trees can be deeper than any stack. */

#define SEARCH_MAX  100000
#define PENDING_MAX (8u << 20)

static unsigned char type_of(int dirfd, const struct dirent *e)
{
    struct stat st;

    if (e->d_type != DT_UNKNOWN)
        return e->d_type;
    if (fstatat(dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return DT_UNKNOWN;
    return S_ISDIR(st.st_mode) ? DT_DIR : S_ISREG(st.st_mode) ? DT_REG : DT_UNKNOWN;
}

/* Paths of directories that are still to be read go to the end of pending, each with its NUL. A
 * path too long to be used by anybody is left out. */
static int visit(struct walk *w, int dirfd, const char *dir, const struct dirent *e,
                 struct buf *pending, struct err *err)
{
    unsigned char type = str_is_dot(e->d_name) ? DT_UNKNOWN : type_of(dirfd, e);
    char path[WALK_PATH_MAX + 300];
    int n;

    if (type != DT_DIR && type != DT_REG)
        return 0;
    n = snprintf(path, sizeof(path), "%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/",
                 e->d_name);
    if (n >= WALK_PATH_MAX)
        return 0;
    if (type == DT_REG)
        return w->file(w, dirfd, path, path + n - strlen(e->d_name), err);
    if (w->skips && w->skips(w, path))
        return 0;
    if (pending->len > HEAVY_FROM && heavy_turn(w->call, err) < 0)
        return -1;
    if (buf_add(pending, path, (size_t)n + 1) < 0)
        return err_set(err, ERR_TOO_LARGE,
                       "the tree has too many directories to search; start further down");
    return 0;
}

/* The kernel's own trees are no files to look for, unless the search starts there. */
static bool is_kernel_tree(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC);
}

static int walk_dir(struct walk *w, const char *path, bool top, struct buf *pending,
                    struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (top ? 0 : O_NOFOLLOW)), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!dir)
        return top ? file_error(err, errno, path) : 0; /* not ours to read, or gone */
    if (top || !is_kernel_tree(fd))
        while (r == 0 && (e = readdir(dir)))
            r = visit(w, fd, path, e, pending, err);
    (void)closedir(dir);
    return r;
}

/* Takes the last pending directory off the end. */
static bool take_pending(struct buf *pending, char path[WALK_PATH_MAX])
{
    size_t at = pending->len;

    if (at == 0)
        return false;
    for (at--; at > 0 && pending->data[at - 1] != '\0'; at--)
        ;
    (void)snprintf(path, WALK_PATH_MAX, "%s", pending->data + at);
    pending->len = at;
    return true;
}

int walk_tree(struct walk *w, const char *path, struct err *err)
{
    auto_buf struct buf pending = {0};
    char dir[WALK_PATH_MAX];
    int r;

    buf_init(&pending, PENDING_MAX);
    r = walk_dir(w, path, true, &pending, err);
    while (r == 0 && take_pending(&pending, dir)) {
        if (call_gone(w->call))
            _exit(0);
        r = walk_dir(w, dir, false, &pending, err);
    }
    return r < 0 ? -1 : 0;
}

struct search {
    struct walk walk; /* first: it is what walk_tree() hands back */
    const char *glob;
    size_t found, most;
};

static int found_file(struct walk *w, int dirfd, const char *path, const char *name,
                      struct err *err)
{
    struct search *s = (struct search *)w;
    auto_buf struct buf b = {0};

    (void)dirfd;
    (void)err;
    if (!str_glob(s->glob, name))
        return 0;
    buf_init(&b, 2 * WALK_PATH_MAX);
    wire_put_str(&b, path);
    call_reply_buf(w->call, FRAME_ITEM, &b);
    return ++s->found == s->most;
}

int search_call(struct agent_call *c, struct err *err)
{
    auto_free char *path = wire_get_str(&c->args);
    auto_free char *user = wire_get_str(&c->args);
    auto_free char *glob = wire_get_str(&c->args);
    uint32_t most = wire_get_u32(&c->args);
    struct search s = {.walk = {.call = c, .file = found_file}, .glob = glob};

    if (call_args_ok(c, err) < 0 || path_check(path, err) < 0 || identity_become(c, user, err) < 0)
        return -1;
    if (!glob_valid(glob))
        return err_set(err, ERR_INVALID, "the pattern is no glob that files are searched with");
    s.most = most == 0 || most > SEARCH_MAX ? SEARCH_MAX : most;
    if (walk_tree(&s.walk, path, err) < 0)
        return -1;
    call_reply(c, FRAME_END, NULL, 0);
    return 0;
}
