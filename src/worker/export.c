/* An OCI layout in a tar archive, with the manifest.json of `docker save` beside it. A layer's tar
 * is not kept, so each is packed anew, to a file without a name first: its digest and size stand
 * before it. One at a time, so that no more than the largest is on disk. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "worker/worker.h"

#define OCI         "application/vnd.oci.image."
#define OCI_LAYOUT  "{\"imageLayoutVersion\":\"1.0.0\"}"
#define BLOBS       "blobs/sha256/"
#define COPY_SIZE   (128u << 10)
#define WRITE_BLOCK (64 << 10)

struct out {
    struct archive *tar;
    json_t *diff_ids;    /* "sha256:…" */
    json_t *descriptors; /* of the layers */
    json_t *files;       /* their names, for manifest.json */
    json_t *written;     /* blobs, as keys: a layer may occur twice */
};

static int write_failed(const struct out *o, struct err *err)
{
    int errnum = archive_errno(o->tar);

    if (errnum == EPIPE)
        return err_code(err, ERR_UNAVAILABLE, "cancelled", "nobody reads the archive any more");
    return err_sys(err, errnum > 0 ? errnum : EIO, "write the archive");
}

static int begin_file(struct out *o, const char *name, uint64_t size, struct err *err)
{
    struct archive_entry *e = archive_entry_new();
    int r;

    archive_entry_set_pathname(e, name);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_size(e, (int64_t)size);
    archive_entry_set_mtime(e, 0, 0);
    r = archive_write_header(o->tar, e);
    archive_entry_free(e);
    return r == ARCHIVE_OK ? 0 : write_failed(o, err);
}

static int add_text(struct out *o, const char *name, const char *text, struct err *err)
{
    size_t len = strlen(text);

    if (begin_file(o, name, len, err) < 0)
        return -1;
    return archive_write_data(o->tar, text, len) == (la_ssize_t)len ? 0 : write_failed(o, err);
}

static int add_file(struct out *o, const char *name, int fd, uint64_t size, struct err *err)
{
    auto_free char *data = xmalloc(COPY_SIZE);
    ssize_t n;

    if (begin_file(o, name, size, err) < 0)
        return -1;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(err, errno, "read a packed layer");
    while ((n = read_some(fd, data, COPY_SIZE)) > 0)
        if (archive_write_data(o->tar, data, (size_t)n) != n)
            return write_failed(o, err);
    return n < 0 ? err_sys(err, (int)-n, "read a packed layer") : 0;
}

static json_t *descriptor(const char *type, const char *digest, uint64_t size)
{
    return json_pack("{s:s+, s:s+, s:I}", "mediaType", OCI, type, "digest", DIGEST_PREFIX, digest,
                     "size", (json_int_t)size);
}

/* A document as a blob; its descriptor comes back. */
static int add_document(struct out *o, const char *type, const json_t *document, json_t **ret,
                        char ret_digest[DIGEST_HEX], struct err *err)
{
    auto_free char *text = document_text(document), *name = NULL;

    text_digest(text, strlen(text), ret_digest);
    name = xasprintf(BLOBS "%s", ret_digest);
    *ret = descriptor(type, ret_digest, strlen(text));
    return add_text(o, name, text, err);
}

/* ---- layers ---- */

struct packing {
    int fd;
    struct layer_budget *budget;
};

static int write_packed(void *arg, const void *data, size_t len, struct err *err)
{
    const struct packing *p = arg;
    int r;

    /* A hole takes no room in a layer, but does in an archive. */
    if (layer_budget_grow(p->budget, len, err) < 0)
        return -1;
    r = write_all(p->fd, data, len);
    return r < 0 ? err_sys(err, -r, "pack a layer") : 0;
}

static int open_layer(const char *dir, int *ret_fd, struct err *err)
{
    *ret_fd = openat(FD_LAYERS, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd < 0 ? err_sys(err, errno, "open a layer") : 0;
}

static int add_layer(const struct worker_request *q, struct out *o, const char *dir,
                     struct err *err)
{
    auto_close int root = -1;
    auto_close int packed = openat(q->tmp, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    auto_free char *name = NULL;
    char digest[DIGEST_HEX];
    struct stat st;

    if (packed < 0)
        return err_sys(err, errno, "make room for a packed layer");
    if (open_layer(dir, &root, err) < 0 ||
        pack_layer(root, 0, write_packed, &(struct packing){packed, q->budget}, digest, err) < 0)
        return -1;
    if (fstat(packed, &st) < 0)
        return err_sys(err, errno, "look at a packed layer");
    name = xasprintf(BLOBS "%s", digest);
    (void)json_array_append_new(o->diff_ids, json_sprintf(DIGEST_PREFIX "%s", digest));
    (void)json_array_append_new(o->descriptors,
                                descriptor("layer.v1.tar", digest, (uint64_t)st.st_size));
    (void)json_array_append_new(o->files, json_string(name));
    if (json_object_get(o->written, digest))
        return 0;
    (void)json_object_set_new(o->written, digest, json_true());
    return add_file(o, name, packed, (uint64_t)st.st_size, err);
}

/* Before the first byte leaves: a refusal can still be told. */
static int check_layers(const struct worker_request *q, struct err *err)
{
    const json_t *layers = json_object_get(q->json, "layers");

    for (size_t i = 0; i < json_array_size(layers); i++) {
        const char *dir = json_string_value(json_array_get(layers, i));
        auto_close int root = -1;

        if (!dir || !digest_valid(dir))
            return err_set(err, ERR_INTERNAL, "the request has a layer that cannot be");
        if (open_layer(dir, &root, err) < 0 || pack_check(root, err) < 0)
            return err_wrap(err, "layer %zu", i + 1);
    }
    return 0;
}

static int add_layers(const struct worker_request *q, struct out *o, struct err *err)
{
    const json_t *layers = json_object_get(q->json, "layers");

    for (size_t i = 0; i < json_array_size(layers); i++)
        if (add_layer(q, o, json_string_value(json_array_get(layers, i)), err) < 0)
            return err_wrap(err, "layer %zu", i + 1);
    return 0;
}

/* ---- what says which they are ---- */

static int add_index(struct out *o, json_t *manifest, const char *name, struct err *err)
{
    auto_free char *text = NULL;
    json_t *index;

    if (name)
        (void)json_object_set_new(manifest, "annotations",
                                  json_pack("{s:s}", "org.opencontainers.image.ref.name", name));
    index = json_pack("{s:i, s:s+, s:[O]}", "schemaVersion", 2, "mediaType", OCI, "index.v1+json",
                      "manifests", manifest);
    text = document_text(index);
    json_decref(index);
    return add_text(o, "index.json", text, err);
}

static int add_docker(struct out *o, const char *config_digest, const char *name, struct err *err)
{
    json_t *tags = json_array(), *list;
    auto_free char *text = NULL;

    if (name)
        (void)json_array_append_new(tags, json_string(name));
    list = json_pack("[{s:s+, s:o, s:O}]", "Config", BLOBS, config_digest, "RepoTags", tags,
                     "Layers", o->files);
    text = document_text(list);
    json_decref(list);
    return add_text(o, "manifest.json", text, err);
}

static int add_all(const struct worker_request *q, struct out *o, struct err *err)
{
    json_t *document = json_loads(request_string(q, "document"), 0, NULL);
    json_t *manifest, *config, *described;
    char config_digest[DIGEST_HEX], digest[DIGEST_HEX];
    const char *name = request_string(q, "name");

    if (!document)
        return err_set(err, ERR_INTERNAL, "the configuration of the image is damaged");
    if (add_text(o, "oci-layout", OCI_LAYOUT, err) < 0 || add_layers(q, o, err) < 0)
        return -1;
    document_set_layers(document, o->diff_ids);
    if (add_document(o, "config.v1+json", document, &config, config_digest, err) < 0)
        return -1;
    manifest = json_pack("{s:i, s:s+, s:o, s:O}", "schemaVersion", 2, "mediaType", OCI,
                         "manifest.v1+json", "config", config, "layers", o->descriptors);
    if (add_document(o, "manifest.v1+json", manifest, &described, digest, err) < 0 ||
        add_index(o, described, name, err) < 0)
        return -1;
    return add_docker(o, config_digest, name, err);
}

int worker_export(const struct worker_request *q, json_t **ret, struct err *err)
{
    struct out o = {
        .tar = archive_write_new(),
        .diff_ids = json_array(),
        .descriptors = json_array(),
        .files = json_array(),
        .written = json_object(),
    };

    if (!o.tar)
        abort();
    if (!request_string(q, "document"))
        return err_set(err, ERR_INTERNAL, "the request lacks a document");
    if (check_layers(q, err) < 0)
        return -1;
    if (archive_write_set_format_pax_restricted(o.tar) != ARCHIVE_OK ||
        archive_write_set_bytes_per_block(o.tar, WRITE_BLOCK) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(o.tar, 1) != ARCHIVE_OK ||
        archive_write_open_fd(o.tar, FD_OTHER) != ARCHIVE_OK)
        return write_failed(&o, err);
    if (add_all(q, &o, err) < 0)
        return -1;
    if (archive_write_close(o.tar) != ARCHIVE_OK)
        return write_failed(&o, err);
    *ret = NULL;
    return 0;
}
