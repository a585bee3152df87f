#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "proto/frame.h"

/* Without recursion: the box's trees can be deeper than any stack. */

#define SEARCH_MAX     100000
#define SEARCH_PENDING (8u << 20)
#define PATH_LIMIT     4096

struct search {
    struct agent_call *call;
    const char *glob;
    size_t found, most;
    struct buf pending; /* directories still to read, each with its NUL */
};

static unsigned char type_of(int dirfd, const struct dirent *e)
{
    struct stat st;

    if (e->d_type != DT_UNKNOWN)
        return e->d_type;
    if (fstatat(dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return DT_UNKNOWN;
    return S_ISDIR(st.st_mode) ? DT_DIR : S_ISREG(st.st_mode) ? DT_REG : DT_UNKNOWN;
}

static void send_path(struct agent_call *c, const char *path)
{
    auto_buf struct buf b = {0};

    buf_init(&b, 2 * PATH_LIMIT);
    wire_put_str(&b, path);
    call_reply_buf(c, FRAME_ITEM, &b);
}

/* A path too long to be used by anybody is left out. */
static int visit(struct search *s, int dirfd, const char *dir, const struct dirent *e,
                 struct err *err)
{
    unsigned char type = str_is_dot(e->d_name) ? DT_UNKNOWN : type_of(dirfd, e);
    char path[PATH_LIMIT + 300];
    int n;

    if (type != DT_DIR && (type != DT_REG || !str_glob(s->glob, e->d_name)))
        return 0;
    n = snprintf(path, sizeof(path), "%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/",
                 e->d_name);
    if (n >= PATH_LIMIT)
        return 0;
    if (type == DT_DIR) {
        if (s->pending.len > HEAVY_FROM && heavy_turn(s->call, err) < 0)
            return -1;
        if (buf_add(&s->pending, path, (size_t)n + 1) < 0)
            return err_set(err, ERR_TOO_LARGE,
                           "the tree has too many directories to search; start further down");
        return 0;
    }
    s->found++;
    send_path(s->call, path);
    return 0;
}

/* The kernel's own trees are no files to look for, unless the search starts there. */
static bool is_kernel_tree(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC);
}

static int search_dir(struct search *s, const char *path, bool top, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (top ? 0 : O_NOFOLLOW)), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!dir)
        return top ? file_error(err, errno, path) : 0; /* not ours to read, or gone */
    if (top || !is_kernel_tree(fd))
        while (r == 0 && s->found < s->most && (e = readdir(dir)))
            r = visit(s, fd, path, e, err);
    (void)closedir(dir);
    return r;
}

/* Takes the last pending directory off the end. */
static bool take_pending(struct search *s, char path[PATH_LIMIT])
{
    size_t at = s->pending.len;

    if (at == 0)
        return false;
    for (at--; at > 0 && s->pending.data[at - 1] != '\0'; at--)
        ;
    (void)snprintf(path, PATH_LIMIT, "%s", s->pending.data + at);
    s->pending.len = at;
    return true;
}

int search_call(struct agent_call *c, struct err *err)
{
    auto_free char *path = wire_get_str(&c->args);
    auto_free char *user = wire_get_str(&c->args);
    auto_free char *glob = wire_get_str(&c->args);
    uint32_t most = wire_get_u32(&c->args);
    struct search s = {.call = c, .glob = glob};
    char dir[PATH_LIMIT];
    int r;

    if (call_args_ok(c, err) < 0 || path_check(path, err) < 0 || identity_become(c, user, err) < 0)
        return -1;
    if (!glob_valid(glob))
        return err_set(err, ERR_INVALID, "the pattern is no glob that files are searched with");
    s.most = most == 0 || most > SEARCH_MAX ? SEARCH_MAX : most;
    buf_init(&s.pending, SEARCH_PENDING);
    r = search_dir(&s, path, true, err);
    while (r == 0 && s.found < s.most && take_pending(&s, dir)) {
        if (call_gone(c))
            _exit(0);
        r = search_dir(&s, dir, false, err);
    }
    buf_done(&s.pending);
    if (r == 0)
        call_reply(c, FRAME_END, NULL, 0);
    return r;
}
