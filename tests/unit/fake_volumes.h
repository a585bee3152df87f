#pragma once

/* Volumes of a runtime in tests: plain folders, which nothing is mounted of. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/remove.h"
#include "runtime/runtime.h"

static char fake_volumes_dir[64];

static const char *fake_volumes(void)
{
    if (!fake_volumes_dir[0]) {
        (void)snprintf(fake_volumes_dir, sizeof(fake_volumes_dir), "/tmp/cay-volumes-XXXXXX");
        if (!mkdtemp(fake_volumes_dir))
            abort();
    }
    return fake_volumes_dir;
}

static void fake_volumes_remove(void)
{
    if (fake_volumes_dir[0])
        (void)remove_tree(AT_FDCWD, fake_volumes_dir);
    fake_volumes_dir[0] = '\0';
}

static int fake_volume_make(struct runtime *rt, const char *id, uint32_t mb, struct err *err)
{
    auto_free char *path = xasprintf("%s/%s", fake_volumes(), id);

    (void)rt;
    (void)mb;
    (void)err;
    return mkdir(path, 0777);
}

static int fake_volume_same(struct runtime *rt, const char *id, struct err *err)
{
    (void)rt;
    (void)id;
    (void)err;
    return 0;
}

static int fake_volume_remove(struct runtime *rt, const char *id, struct err *err)
{
    auto_free char *path = xasprintf("%s/%s", fake_volumes(), id);

    (void)rt;
    (void)err;
    return remove_tree(AT_FDCWD, path) < 0 ? -1 : 0;
}

static int fake_volume_open(struct runtime *rt, const char *id, int base, int *ret_fd,
                            struct err *err)
{
    auto_free char *path = xasprintf("%s/%s", fake_volumes(), id);

    (void)rt;
    (void)base;
    (void)err;
    *ret_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd < 0 ? -1 : 0;
}

static int fake_volume_room(struct runtime *rt, const char *id, int fd, struct disk_room *ret,
                            struct err *err)
{
    (void)rt;
    (void)id;
    (void)fd;
    (void)err;
    *ret = (struct disk_room){.used = 1 << 20, .backed = 1 << 20, .size = 64 << 20};
    return 0;
}

static int fake_attach(struct runtime *rt, const struct box *box, const struct box_mount *mount,
                       struct err *err)
{
    (void)rt;
    (void)box;
    (void)mount;
    (void)err;
    return 0;
}

#define FAKE_VOLUME_OPS                                                                            \
    .volume_make = fake_volume_make, .volume_keep = fake_volume_same,                              \
    .volume_doom = fake_volume_same, .volume_remove = fake_volume_remove,                          \
    .volume_open = fake_volume_open, .volume_room = fake_volume_room, .attach = fake_attach
