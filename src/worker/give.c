/* What the unpacker gets. Its descriptors are of mounts that nobody else has, so that no ".." leads
 * out of them, and only that of its own folder can be written to.
 *
 * On the disk files have the owners of the archive, 0 to 65535. The unpacker's ids are others,
 * which own nothing on this machine: the mounts translate. Where it copies files that are here
 * already (a folder, what a sandbox wrote) their owners are any, their filesystem may not know how
 * to translate, and it has the host's ids, in its user namespace. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "wall/wall.h"
#include "worker/keeper_internal.h"
#include "worker/worker.h"

/* Between those of sandboxes and those of their owners (runtime/native/id_ranges.h); with the
 * owners that mark what is not complete yet. */
#define OWN_IDS     0x7ffe0000u
#define OWN_IDS_LEN (LAYER_MAX_ID + 2)

/* The request of a pull has what is the fetcher's alone. */
static const char *const not_told[] = {"username", "password", "docker_config", "insecure",
                                       "mirrors",  "realms",   "ca_file"};

/* What the keeper still needs: trusted.*, and the operator's files with passwords. */
#define KEPT (CAP_BIT(CAP_SYS_ADMIN) | CAP_BIT(CAP_DAC_OVERRIDE))

static bool has_own_ids(const json_t *request)
{
    const char *op = json_string_value(json_object_get(request, "op"));
    struct stat st;

    if (!op || strcmp(op, "commit") == 0)
        return false;
    return strcmp(op, "import") != 0 || (fstat(FD_OTHER, &st) == 0 && !S_ISDIR(st.st_mode));
}

static int write_maps(pid_t pid, bool own, struct err *err)
{
    static const char *const files[] = {"uid_map", "gid_map"};
    char map[64], path[64];

    if (own)
        (void)snprintf(map, sizeof(map), "0 %u %u", OWN_IDS, OWN_IDS_LEN);
    else
        (void)snprintf(map, sizeof(map), "0 0 %u", ~0u);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        int r;

        (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
        r = write_file_at(AT_FDCWD, path, map);
        if (r < 0)
            return err_sys(err, -r, "map the ids of the unpacking process");
    }
    return 0;
}

/* A mount of the folder. userns: whose ids its owners become; -1 = as they are, and then what is
 * mounted below comes along. */
static int make_view(int dirfd, bool writable, int userns, int *ret_fd, struct err *err)
{
    unsigned below = userns < 0 ? AT_RECURSIVE : 0;
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                    (writable ? 0 : (unsigned)MOUNT_ATTR_RDONLY) |
                    (userns < 0 ? 0 : (unsigned)MOUNT_ATTR_IDMAP),
        .userns_fd = userns < 0 ? 0 : (uint64_t)userns,
    };
    auto_close int tree =
        open_tree(dirfd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | below);
    auto_close int fd = -1;

    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH | below, &attr, sizeof(attr)) < 0)
        return err_sys(err, errno, "make a view of a folder for the unpacking process");
    fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open the view of a folder for the unpacking process");
    *ret_fd = steal_fd(fd);
    return 0;
}

/* Is there nothing above it? */
static bool is_top(int dirfd)
{
    struct stat st, above;

    return fstat(dirfd, &st) == 0 && fstatat(dirfd, "..", &above, 0) == 0 &&
           st.st_dev == above.st_dev && st.st_ino == above.st_ino;
}

/* Descriptor 4, if there is one. A sandbox's disk may be a mount of its own already, which kernels
 * before 6.15 do not copy, and which has nothing above. */
static int other_view(int userns, int *ret_fd, struct err *err)
{
    struct stat st;

    if (fstat(FD_OTHER, &st) < 0)
        return 0;
    if (S_ISDIR(st.st_mode) && make_view(FD_OTHER, false, userns, ret_fd, err) == 0)
        return 0;
    if (S_ISDIR(st.st_mode) && !is_top(FD_OTHER))
        return -1;
    *ret_fd = fcntl(FD_OTHER, F_DUPFD_CLOEXEC, FD_KEPT);
    return *ret_fd < 0 ? err_sys(err, errno, "hand over a descriptor") : 0;
}

static int make_views(struct keeper *k, int fds[3], size_t *ret_n, struct err *err)
{
    const char *name = json_string_value(json_object_get(k->request, "tmp"));
    bool own = has_own_ids(k->request);
    auto_close int tmp = -1, userns = -1;
    char path[64];

    if (!name || !id_valid(name, "tmp"))
        return err_set(err, ERR_INTERNAL, "the request lacks tmp");
    tmp = openat(FD_LAYERS, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tmp < 0)
        return err_sys(err, errno, "open the worker's folder");
    if (write_maps(k->unpacker, own, err) < 0)
        return -1;
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)k->unpacker);
    if (own) {
        userns = open(path, O_RDONLY | O_CLOEXEC);
        if (userns < 0)
            return err_sys(err, errno, "open the namespace of the unpacking process");
    }
    if (make_view(FD_LAYERS, false, userns, &fds[0], err) < 0 ||
        make_view(tmp, true, userns, &fds[1], err) < 0 || other_view(userns, &fds[2], err) < 0)
        return -1;
    *ret_n = fds[2] < 0 ? 2 : 3;
    return 0;
}

static int send_request(struct keeper *k, const int *fds, size_t n, struct err *err)
{
    json_t *told = json_copy(k->request);
    auto_free char *text = NULL;
    uint64_t len;
    int r;

    for (size_t i = 0; i < ARRAY_LEN(not_told); i++)
        (void)json_object_del(told, not_told[i]);
    text = json_dumps(told, JSON_COMPACT);
    json_decref(told);
    if (!text)
        abort();
    len = strlen(text);
    r = send_fds(k->work, &len, sizeof(len), fds, n);
    if (r == 0)
        r = write_all(k->work, text, (size_t)len);
    return r < 0 ? err_sys(err, -r, "tell the unpacking process what to do") : 0;
}

int keeper_give(struct keeper *k, struct err *err)
{
    int fds[3] = {-1, -1, -1}, r;
    size_t n = 0;

    r = make_views(k, fds, &n, err);
    if (r == 0)
        r = wall_capabilities(KEPT, err);
    if (r == 0)
        r = send_request(k, fds, n, err);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        close_fd(&fds[i]);
    return r;
}
