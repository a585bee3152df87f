#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/remove.h"
#include "base/str.h"
#include "proto/frame.h"

int open_parent(const char *path, char name[256], struct err *err)
{
    auto_free char *dir = xstrdup(path);
    size_t len = strlen(dir);
    char *slash;
    int fd;

    while (len > 1 && dir[len - 1] == '/')
        dir[--len] = '\0';
    slash = strrchr(dir, '/');
    if (!slash[1] || str_is_dot(slash + 1))
        return err_set(err, ERR_INVALID, "%.100s cannot be moved or removed; name what is in it",
                       path);
    if (strlen(slash + 1) > 255)
        return file_error(err, ENAMETOOLONG, path);
    (void)snprintf(name, 256, "%s", slash + 1);
    slash[slash == dir] = '\0';
    fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? file_error(err, errno, path) : fd;
}

int remove_at(int parent, const char *name, const char *path, bool recursive, struct err *err)
{
    struct stat st;
    int r;

    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return file_error(err, errno, path);
    if (S_ISDIR(st.st_mode) && !recursive)
        return err_code(err, ERR_INVALID, "is_a_directory",
                        "%.120s is a directory; ask for a recursive removal", path);
    r = remove_tree(parent, name);
    return r < 0 ? file_error(err, -r, path) : 0;
}

int remove_call(struct agent_call *c, struct err *err)
{
    auto_free char *path = wire_get_str(&c->args);
    auto_free char *user = wire_get_str(&c->args);
    uint32_t recursive = wire_get_u32(&c->args);
    auto_close int parent = -1;
    char name[256];

    if (call_args_ok(c, err) < 0 || path_check(path, err) < 0 || identity_become(c, user, err) < 0)
        return -1;
    parent = open_parent(path, name, err);
    if ((parent < 0 || remove_at(parent, name, path, recursive != 0, err) < 0) &&
        err->sys != ENOENT)
        return -1;
    call_reply(c, FRAME_OK, NULL, 0);
    return 0;
}
