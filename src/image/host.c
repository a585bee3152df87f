/* The host image: the machine's own programs, read-only, in a root that is made up. First the whole
 * layer is put together in memory; its digest is its name, so that a start where nothing changed
 * only reads, and sandboxes that still use an older one keep it. */
#include "image/image_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/remove.h"
#include "image/image.h"
#include "layer/layer.h"
#include "layer/tree.h"
#include "oci/digest.h"

#define USER_ID 1000

struct made_up {
    char type;
    const char *path;
    uint32_t mode, owner;
    const char *data;
};

static const struct made_up skeleton[] = {
    {'d', "dev", 0755},
    {'d', "etc", 0755},
    {'d', "home", 0755},
    {'d', "home/user", 0755, USER_ID},
    {'d', "media", 0755},
    {'d', "mnt", 0755},
    {'d', "opt", 0755},
    {'d', "proc", 0755},
    {'d', "root", 0700},
    {'d', "run", 0755},
    {'d', "run/lock", 01777},
    {'d', "srv", 0755},
    {'d', "sys", 0755},
    {'d', "tmp", 01777},
    {'d', "usr", 0755},
    {'d', "var", 0755},
    {'d', "var/cache", 0755},
    {'d', "var/lib", 0755},
    {'l', "var/lock", 0777, 0, "/run/lock"},
    {'d', "var/log", 0755},
    {'l', "var/run", 0777, 0, "/run"},
    {'d', "var/tmp", 01777},
    {'d', "workspace", 0777}, /* for whichever user a command runs as */
    {'f', "etc/environment", 0644, 0, IMAGE_PATH "\n"},
    {'f', "etc/group", 0644, 0,
     "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\nmail:x:8:\nutmp:x:43:\n"
     "staff:x:50:\nusers:x:100:\nuser:x:1000:\nnogroup:x:65534:\n"},
    {'f', "etc/host.conf", 0644, 0, "multi on\n"},
    {'f', "etc/hosts", 0644, 0,
     "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"},
    {'l', "etc/localtime", 0777, 0, "/usr/share/zoneinfo/Etc/UTC"},
    {'l', "etc/mtab", 0777, 0, "../proc/self/mounts"},
    {'f', "etc/nsswitch.conf", 0644, 0,
     "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
     "protocols: files\nservices: files\nethers: files\nrpc: files\n"},
    {'f', "etc/passwd", 0644, 0,
     "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
     "bin:x:2:2:bin:/bin:/usr/sbin/nologin\nsys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
     "user:x:1000:1000:user:/home/user:/bin/sh\n"
     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {'f', "etc/profile", 0644, 0,
     "export " IMAGE_PATH "\n[ \"$(id -u)\" = 0 ] && PS1='# ' || PS1='$ '\n"},
    {'f', "etc/resolv.conf", 0644, 0, ""},
    {'f', "etc/shells", 0644, 0, "/bin/sh\n/bin/bash\n/usr/bin/sh\n/usr/bin/bash\n"},
    {'f', "etc/timezone", 0644, 0, "Etc/UTC\n"},
};

void host_add(struct host_tree *t, char type, const char *path, uint32_t mode, char *data,
              size_t len)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 256;
        t->v = xrealloc(t->v, t->cap * sizeof(*t->v));
    }
    t->v[t->n++] = (struct host_entry){
        .type = type, .path = xstrdup(path), .mode = mode, .data = data, .len = len};
    t->bytes += len;
}

static void host_tree_done(struct host_tree *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->v[i].path);
        free(t->v[i].data);
    }
    free(t->v);
}

static void add_skeleton(struct host_tree *t)
{
    for (size_t i = 0; i < ARRAY_LEN(skeleton); i++) {
        const struct made_up *m = &skeleton[i];

        host_add(t, m->type, m->path, m->mode, m->data ? xstrdup(m->data) : NULL,
                 m->data ? strlen(m->data) : 0);
        t->v[t->n - 1].uid = t->v[t->n - 1].gid = m->owner;
    }
}

/* /bin, /lib … are links into /usr on a merged system and are the same here. Where they are folders
 * of their own, they are shown like /usr. */
static int add_system_dirs(struct host_tree *t, char ***binds, struct err *err)
{
    static const char *const names[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

    *binds = strv_add(*binds, "/usr");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_free char *path = xasprintf("/%s", names[i]);
        char target[PATH_MAX];
        struct stat st;
        ssize_t n;

        if (lstat(path, &st) < 0) {
            if (errno != ENOENT)
                return err_sys(err, errno, "look at %s", path);
        } else if (S_ISLNK(st.st_mode)) {
            n = readlink(path, target, sizeof(target) - 1);
            if (n < 0)
                return err_sys(err, errno, "look at %s", path);
            target[n] = '\0';
            host_add(t, 'l', names[i], 0777, xstrdup(target), (size_t)n);
        } else if (S_ISDIR(st.st_mode)) {
            host_add(t, 'd', names[i], 0755, NULL, 0);
            *binds = strv_add(*binds, path);
        }
    }
    return 0;
}

static void host_digest(const struct host_tree *t, char ret[DIGEST_HEX])
{
    EVP_MD_CTX *sha = digest_new();

    for (size_t i = 0; i < t->n; i++) {
        const struct host_entry *e = &t->v[i];
        auto_free char *line =
            xasprintf("%c %o %u %u %zu %s", e->type, e->mode, e->uid, e->gid, e->len, e->path);

        digest_add(sha, line, strlen(line) + 1);
        digest_add(sha, e->data ? e->data : "", e->len);
    }
    digest_end(sha, ret);
}

static int write_entry(struct layer *l, const struct host_entry *e, struct err *err)
{
    struct layer_meta meta = {.mode = e->mode, .uid = e->uid, .gid = e->gid};
    auto_close int fd = -1;
    int r;

    if (e->type == 'd')
        return layer_dir(l, e->path, &meta, err);
    if (e->type == 'l')
        return layer_symlink(l, e->path, e->data, &meta, err);
    if (layer_file(l, e->path, &fd, err) < 0)
        return -1;
    r = write_all(fd, e->data, e->len);
    if (r < 0)
        return err_sys(err, -r, "write %s", e->path);
    return layer_file_done(fd, e->path, &meta, err);
}

static int write_tree(const struct host_tree *t, int hostfd, const char *tmp, const char *name,
                      struct err *err)
{
    auto_close int root = -1;
    struct layer layer;
    int r = 0;

    if (tree_open_dir(hostfd, tmp, 0755, &root, err) < 0)
        return -1;
    layer_init(&layer, root);
    for (size_t i = 0; r == 0 && i < t->n; i++)
        r = write_entry(&layer, &t->v[i], err);
    layer_done(&layer);
    if (r < 0 || layer_sync(root, err) < 0)
        return -1;
    if (renameat(hostfd, tmp, hostfd, name) < 0 || fsync(hostfd) < 0)
        return err_sys(err, errno, "put the host image in its place");
    return 0;
}

int host_layer(int hostfd, char **ret_name, char ***ret_binds, struct err *err)
{
    struct host_tree t = {0};
    auto_strv char **binds = NULL;
    char name[DIGEST_HEX], tmp[ID_SIZE];
    int r;

    add_skeleton(&t);
    r = add_system_dirs(&t, &binds, err);
    if (r == 0)
        r = host_copy_etc(&t, err);
    if (r == 0) {
        host_digest(&t, name);
        if (faccessat(hostfd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
            id_new(tmp, "tmp");
            r = write_tree(&t, hostfd, tmp, name, err);
            if (r < 0)
                (void)remove_tree(hostfd, tmp);
        }
    }
    host_tree_done(&t);
    if (r < 0)
        return err_wrap(err, "make the host image");
    *ret_name = xstrdup(name);
    *ret_binds = steal_ptr(binds);
    return 0;
}
