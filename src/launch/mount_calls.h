#pragma once

/* The mount calls of Linux 5.2 and later, which musl has no functions for. */

#include <fcntl.h>
#include <linux/mount.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int fsopen(const char *type, unsigned flags)
{
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int fsconfig(int fs, unsigned cmd, const char *key, const void *value, int aux)
{
    return (int)syscall(SYS_fsconfig, fs, cmd, key, value, aux);
}

static inline int fsmount(int fs, unsigned flags, unsigned attrs)
{
    return (int)syscall(SYS_fsmount, fs, flags, attrs);
}

static inline int fspick(int dir, const char *path, unsigned flags)
{
    return (int)syscall(SYS_fspick, dir, path, flags);
}

static inline int open_tree(int dir, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dir, path, flags);
}

static inline int move_mount(int from_dir, const char *from, int to_dir, const char *to,
                             unsigned flags)
{
    return (int)syscall(SYS_move_mount, from_dir, from, to_dir, to, flags);
}

static inline int mount_setattr(int dir, const char *path, unsigned flags, struct mount_attr *attr,
                                size_t size)
{
    return (int)syscall(SYS_mount_setattr, dir, path, flags, attr, size);
}
