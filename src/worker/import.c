/* An image from this machine: a root (folder or archive), what `docker save` wrote, or an OCI
 * layout (folder or archive). Which of them it is, it says by what is in it. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "oci/config.h"
#include "worker/worker.h"

struct reading {
    struct bundle_file part;
    uint64_t done;
    EVP_MD_CTX *sha; /* NULL = its digest is not known */
    const struct bundle *bundle;
    const struct bundle_layer *layer;
    struct layer_job *job;
    struct err err;
};

static ssize_t read_part(void *arg, void *data, size_t len)
{
    struct reading *r = arg;
    uint64_t left = r->part.size - r->done;
    ssize_t n;

    if (len > left)
        len = (size_t)left;
    if (len == 0)
        return 0;
    do
        n = pread(r->part.fd, data, len, (off_t)(r->part.at + r->done));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (n == 0) { /* it was cut meanwhile, or its archive is */
        (void)err_code(&r->err, ERR_INVALID, "bad_image", "the file of a layer is cut short");
        r->job->source_failed = true;
        return -EIO;
    }
    if (r->sha)
        digest_add(r->sha, data, (size_t)n);
    r->done += (uint64_t)n;
    r->job->read += (uint64_t)n;
    return n;
}

static int reading_open(struct layer_job *job, struct unpack_source *ret, struct err *err)
{
    struct reading *r = job->arg;

    job->source_error = &r->err;
    if (bundle_open(r->bundle, r->layer->name, &r->part, err) < 0)
        return -1;
    if (r->layer->checked)
        r->sha = digest_new();
    *ret = (struct unpack_source){.read = read_part, .arg = r};
    return 0;
}

/* The end of the archive may come before that of the blob. */
static int reading_close(struct layer_job *job, struct err *err)
{
    struct reading *r = job->arg;
    char rest[4096], digest[DIGEST_HEX];
    ssize_t n;

    while ((n = read_part(r, rest, sizeof(rest))) > 0)
        ;
    bundle_file_done(&r->part);
    if (n < 0)
        return err_sys(err, (int)-n, "read the file of a layer");
    if (!r->sha)
        return 0;
    digest_end(r->sha, digest);
    if (strcmp(digest, r->layer->blob.digest) != 0 || r->done != (uint64_t)r->layer->blob.size)
        return err_code(err, ERR_INVALID, "digest_mismatch",
                        "the digest or size of blob sha256:%.12s is not what it should be",
                        r->layer->blob.digest);
    return 0;
}

static uint64_t part_size(const struct bundle *b, const char *name)
{
    auto_bundle_file struct bundle_file p = {.fd = -1};

    return bundle_open(b, name, &p, NULL) == 0 ? p.size : 0;
}

static struct layer_job *make_jobs(const struct bundle *b, const struct bundle_image *image,
                                   const struct oci_config *config)
{
    struct layer_job *jobs = layer_jobs_new(image->n_layers);
    struct reading *readings = xcalloc(image->n_layers + 1, sizeof(*readings));

    for (size_t i = 0; i < image->n_layers; i++) {
        readings[i] = (struct reading){
            .part.fd = -1, .bundle = b, .layer = &image->layers[i], .job = &jobs[i]};
        memcpy(jobs[i].diff_id, config->diff_ids[i], DIGEST_HEX);
        jobs[i].blob = image->layers[i].blob;
        jobs[i].blob.size = (int64_t)part_size(b, image->layers[i].name);
        jobs[i].open = reading_open;
        jobs[i].close = reading_close;
        jobs[i].arg = &readings[i];
    }
    return jobs;
}

static int import_bundle(const struct worker_request *q, const struct bundle *b, json_t **ret,
                         struct err *err)
{
    const char *name = request_string(q, "name");
    struct bundle_image found;
    struct oci_config config;
    struct layer_job *jobs;
    json_t *image;

    if ((bundle_has(b, "manifest.json") ? saved_choose(b, name, &found, err)
                                        : layout_choose(b, name, &found, err)) < 0 ||
        oci_config_parse(found.config, found.config_len, &config, err) < 0 ||
        platform_check(config.os, config.arch, platform_here(), err) < 0)
        return -1;
    if (strv_len(config.diff_ids) != found.n_layers)
        return err_code(err, ERR_INVALID, "bad_image",
                        "there are %zu layers, but the configuration has %zu", found.n_layers,
                        strv_len(config.diff_ids));
    if (document_image(found.config, found.config_len, &image, err) < 0)
        return -1;
    jobs = make_jobs(b, &found, &config);
    layers_look(jobs, found.n_layers);
    if (layers_make(q, jobs, found.n_layers, err) < 0)
        return -1;
    (void)json_object_set_new(image, "layers", layers_json(jobs, found.n_layers));
    (void)json_object_set_new(image, "names", json_of_strings(found.names));
    if (found.digest[0])
        (void)json_object_set_new(image, "digest", json_sprintf(DIGEST_PREFIX "%s", found.digest));
    *ret = image;
    return 0;
}

/* The process ends with its work: what is small is left to that. */
int worker_import(const struct worker_request *q, json_t **ret, struct err *err)
{
    struct bundle *b = NULL;
    struct stat st;

    if (fstat(FD_OTHER, &st) < 0)
        return err_sys(err, errno, "look at what is to be imported");
    if (S_ISDIR(st.st_mode)) {
        b = bundle_of_dir(FD_OTHER);
        if (!bundle_has(b, "oci-layout") || !bundle_has(b, "index.json"))
            return worker_import_root(q, true, ret, err);
        return import_bundle(q, b, ret, err);
    }
    if (bundle_of_archive(q, FD_OTHER, &b, err) < 0)
        return -1;
    return b ? import_bundle(q, b, ret, err) : worker_import_root(q, false, ret, err);
}
