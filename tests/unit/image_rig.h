#pragma once

/* A store of images in a scratch folder, and archives to put into it. The tests of images are
 * several programs, so that none of them is long: each starts its worker for itself. */

#pragma GCC diagnostic ignored "-Wunused-function" /* no program needs all of it */

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <locale.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "built_program.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/layer.h"
#include "layer/tree.h"
#include "oci/digest.h"
#include "scratch.h"
#include "tap.h"

/* ---- a data folder, and archives to put in ---- */

static void set_up(void)
{
    scratch_make();
    CHECK_INT(mkdir(in_base("data"), 0755), 0);
}

static struct image_store *open_store(void)
{
    const char *worker = built_program("CAY_IMAGE_WORKER", "src/worker/cay-image");
    struct image_store *s;
    struct err err = {0};

    if (!worker)
        SKIP_WITHOUT_PROGRAM("CAY_IMAGE_WORKER does not say where cay-image is");
    if (image_store_open(in_base("data"), open(worker, O_RDONLY | O_CLOEXEC), &s, &err) < 0)
        TAP_FAIL("%s", err.text);
    return s;
}

static struct archive *tar_open(int filter)
{
    struct archive *a = archive_write_new();

    CHECK_INT(archive_write_set_format_pax(a), ARCHIVE_OK);
    CHECK_INT(archive_write_add_filter(a, filter), ARCHIVE_OK);
    CHECK_INT(archive_write_open_filename(a, in_base("image.tar")), ARCHIVE_OK);
    return a;
}

static struct archive_entry *entry(const char *path, int type, int mode)
{
    struct archive_entry *e = archive_entry_new();

    archive_entry_copy_pathname(e, path);
    archive_entry_set_filetype(e, (unsigned)type);
    archive_entry_set_perm(e, (unsigned)mode);
    archive_entry_set_size(e, 0);
    return e;
}

static void put(struct archive *a, struct archive_entry *e, const char *data)
{
    if (data)
        archive_entry_set_size(e, (int64_t)strlen(data));
    CHECK(archive_write_header(a, e) >= ARCHIVE_WARN);
    if (data)
        CHECK_INT(archive_write_data(a, data, strlen(data)), (ssize_t)strlen(data));
    archive_entry_free(e);
}

static void put_link(struct archive *a, const char *path, const char *soft, const char *hard)
{
    struct archive_entry *e = entry(path, soft ? AE_IFLNK : AE_IFREG, 0777);

    if (soft)
        archive_entry_copy_symlink(e, soft);
    else
        archive_entry_copy_hardlink(e, hard);
    put(a, e, NULL);
}

static void tar_close(struct archive *a)
{
    CHECK_INT(archive_write_close(a), ARCHIVE_OK);
    CHECK_INT(archive_write_free(a), ARCHIVE_OK);
}

static unsigned count_in(const char *folder)
{
    auto_close int fd = open(in_base(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_strv char **names = NULL;

    CHECK_INT(tree_names(fd, 1000, &names, NULL), 0);
    return (unsigned)strv_len(names);
}

/* Also what is half-made or set aside. */
static unsigned count_layers(void)
{
    return count_in("data/images/layers");
}

/* Each is a record and a document. */
static unsigned count_records(void)
{
    return count_in("data/images/records") / 2;
}

static struct image *import(struct image_store *s, const char *path, const char *name)
{
    struct image *image;
    struct err err = {0};

    if (image_import(s, path, name, NULL, NULL, &image, &err) < 0)
        TAP_FAIL("%s", err.text);
    return image;
}

/* Refused with this code, and nothing of it is left. */
static void refuse(struct image_store *s, const char *code)
{
    struct err err = {0};
    struct image *image;
    unsigned before = count_layers();

    CHECK_INT(image_import(s, in_base("image.tar"), "bad", NULL, NULL, &image, &err), -1);
    CHECK(err.text[0]);
    CHECK_STR(err.code ? err.code : err.text, code);
    CHECK_INT(count_layers(), before);
    CHECK_INT(count_in("data/images/records") % 2, 0);
    CHECK_INT(image_get(s, "bad", &image, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
}

static struct stat look(const struct image *image, const char *path)
{
    auto_free char *full = xasprintf("%s/%s", image->layers[0], path);
    struct stat st;

    if (lstat(full, &st) < 0)
        TAP_FAIL("%s: %s", full, strerror(errno));
    return st;
}

static bool has(const struct image *image, const char *path)
{
    auto_free char *full = xasprintf("%s/%s", image->layers[0], path);
    struct stat st;

    return lstat(full, &st) == 0;
}

static void ordinary_tar(int filter)
{
    struct archive *a = tar_open(filter);
    struct archive_entry *e;

    put(a, entry("./", AE_IFDIR, 0751), NULL);
    put(a, entry("./bin/su", AE_IFREG, 04755), "#!");
    e = entry("home/u/file", AE_IFREG, 0640);
    archive_entry_set_uid(e, 1000);
    archive_entry_set_gid(e, 65535);
    archive_entry_set_mtime(e, 1234567, 0);
    put(a, e, "hello");
    put_link(a, "etc/link", "/usr/elsewhere", NULL);
    put_link(a, "bin/again", NULL, "./bin/su");
    tar_close(a);
}

/* Mounts that other tests do not see. */
static void own_mounts(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        SKIP("needs a mount namespace");
}

/* Another image in image.tar, with one file of that content. */
static void small_tar(const char *content)
{
    struct archive *a = tar_open(ARCHIVE_FILTER_NONE);

    put(a, entry("file", AE_IFREG, 0644), content);
    tar_close(a);
}

static void collect(struct image_store *s, char *used)
{
    char *ids[] = {used, NULL};
    struct err err = {0};

    if (image_collect(s, ids, &err) < 0 || image_purge(s, &err) < 0)
        TAP_FAIL("%s", err.text);
}

/* ---- what docker save and OCI layouts have ---- */

struct bytes {
    char data[1 << 20];
    size_t len;
    char digest[DIGEST_HEX];
};

static void seal(struct bytes *b)
{
    EVP_MD_CTX *sha = digest_new();

    digest_add(sha, b->data, b->len);
    digest_end(sha, b->digest);
}

/* A layer's tar: "name=content", "name/" for a folder. */
static void make_layer(struct bytes *b, const char *const *entries)
{
    struct archive *a = archive_write_new();

    CHECK_INT(archive_write_set_format_pax(a), ARCHIVE_OK);
    CHECK_INT(archive_write_open_memory(a, b->data, sizeof(b->data), &b->len), ARCHIVE_OK);
    for (; *entries; entries++) {
        const char *is = strchr(*entries, '=');
        auto_free char *name = xstrndup(*entries, is ? (size_t)(is - *entries) : strlen(*entries));

        put(a, entry(name, is ? AE_IFREG : AE_IFDIR, is ? 0644 : 0755), is ? is + 1 : NULL);
    }
    tar_close(a);
    seal(b);
}

static void make_text(struct bytes *b, json_t *o)
{
    auto_free char *text = json_dumps(o, JSON_COMPACT);

    json_decref(o);
    b->len = strlen(text);
    memcpy(b->data, text, b->len + 1);
    seal(b);
}

static json_t *diff_ids_json(const struct bytes *layers, size_t n)
{
    json_t *ids = json_array();

    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(ids, json_sprintf("sha256:%s", layers[i].digest));
    return ids;
}

static json_t *config_json(const struct bytes *layers, size_t n)
{
    return json_pack("{s:s, s:s, s:s, s:{s:[s,s], s:[s], s:[s,s], s:s, s:s, s:s, s:{s:{}}, "
                     "s:{s:s}}, s:{s:s, s:o}}",
                     "os", "linux", "architecture", "amd64", "created", "2024-01-02T03:04:05Z",
                     "config", "Env", "PATH=/bin", "A=1", "Entrypoint", "/run", "Cmd", "-x", "y",
                     "WorkingDir", "/srv", "User", "app", "StopSignal", "SIGINT", "ExposedPorts",
                     "80/tcp", "Labels", "team", "blue", "rootfs", "type", "layers", "diff_ids",
                     diff_ids_json(layers, n));
}

static void put_bytes(struct archive *a, const char *name, const struct bytes *b)
{
    struct archive_entry *e = entry(name, AE_IFREG, 0644);

    archive_entry_set_size(e, (int64_t)b->len);
    CHECK_INT(archive_write_header(a, e), ARCHIVE_OK);
    CHECK_INT(archive_write_data(a, b->data, b->len), (ssize_t)b->len);
    archive_entry_free(e);
}

static const char *const lower[] = {"etc/", "etc/a=lower", "etc/b=lower", "gone=x", NULL};
static const char *const upper[] = {"etc/", "etc/b=upper", ".wh.gone=", NULL};

/* Two layers and their configuration. */
static struct {
    struct bytes layers[3], config, other;
} pieces;

static void make_pieces(void)
{
    make_layer(&pieces.layers[0], lower);
    make_layer(&pieces.layers[1], upper);
    make_text(&pieces.config, config_json(pieces.layers, 2));
}

/* As old versions write it: layers in folders, one of them a link to the other, and the list at the
 * end or at the start. */
static void docker_tar(int filter, bool list_first, const char *tag)
{
    struct archive *a = tar_open(filter);
    auto_free char *config = xasprintf("%s.json", pieces.config.digest);
    auto_free char *first = xasprintf("%s/layer.tar", pieces.layers[0].digest);
    auto_free char *second = xasprintf("%s.tar", pieces.layers[1].digest);
    auto_free char *link = xasprintf("%s/layer.tar", pieces.layers[1].digest);
    auto_free char *target = xasprintf("../%s", second);
    json_t *tags = json_array();

    if (tag)
        (void)json_array_append_new(tags, json_string(tag));
    make_text(&pieces.other, json_pack("[{s:s, s:o, s:[s,s]}]", "Config", config, "RepoTags", tags,
                                       "Layers", first, link));
    if (list_first)
        put_bytes(a, "manifest.json", &pieces.other);
    put_link(a, link, target, NULL);
    put_bytes(a, second, &pieces.layers[1]);
    put_bytes(a, first, &pieces.layers[0]);
    put_bytes(a, config, &pieces.config);
    if (!list_first)
        put_bytes(a, "manifest.json", &pieces.other);
    tar_close(a);
}

static void check_pieces(const struct image *image)
{
    struct stat st;

    CHECK_INT(strv_len(image->layers), 3);
    CHECK_INT(look(image, "etc/b").st_size, 5);
    CHECK(!has(image, "etc/a"));
    CHECK(!has(image, ".wh.gone"));
    st = look(image, "gone"); /* overlayfs's whiteout */
    CHECK(S_ISCHR(st.st_mode) && st.st_rdev == 0);
    CHECK_STR(image->env[1], "A=1");
    CHECK_STR(image->entrypoint[0], "/run");
    CHECK_STR(image->cmd[1], "y");
    CHECK_STR(image->workdir, "/srv");
    CHECK_STR(image->user, "app");
    CHECK_STR(image->stop_signal, "SIGINT");
    CHECK_STR(image->ports[0], "80/tcp");
    CHECK_STR(json_string_value(json_object_get(image->labels, "team")), "blue");
    CHECK_STR(image->platform, "linux/amd64");
    CHECK_INT(image->created_ms, 1704164645000);
    CHECK_INT(image->size, 16);
}
