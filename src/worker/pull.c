/* An image from a registry. The fetcher gets what is asked for, and whoever unpacks a layer reads
 * it as it comes: nothing compressed is ever on disk. What came is what it should be when its
 * digest says so: manifests and the configuration are checked here, a layer by its diff id, which
 * the configuration has. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "oci/config.h"
#include "oci/reference.h"
#include "worker/fetch.h"
#include "worker/worker.h"

struct download {
    struct layer_job *job;
    struct fetch fetch;
};

/* ---- one layer ---- */

static ssize_t read_download(void *arg, void *data, size_t len)
{
    struct download *d = arg;
    ssize_t n = fetch_read(&d->fetch, data, len);

    if (n > 0)
        d->job->read += (uint64_t)n;
    if (n < 0 && !d->fetch.unwanted)
        d->job->source_failed = true;
    return n;
}

static bool all_came(const struct layer_job *job)
{
    return job->read >= (uint64_t)job->blob.size;
}

/* Of one that came to its end the verdict is on its way. */
static void stop_download(void *arg)
{
    struct download *d = arg;

    if (!all_came(d->job))
        fetch_stop(&d->fetch);
}

static void drain(struct download *d)
{
    char rest[4096];

    while (!d->fetch.ended && read_download(d, rest, sizeof(rest)) > 0)
        ;
}

/* What cannot be unpacked may not be what was asked for. */
static void download_blame(struct layer_job *job)
{
    if (all_came(job))
        drain(job->arg);
}

static int download_open(struct layer_job *job, struct unpack_source *ret, struct err *err)
{
    struct download *d = job->arg;

    job->source_error = &d->fetch.err;
    if (fetch_open(FETCH_BLOB, job->blob.digest, job->blob.size, &d->fetch, err) < 0)
        return -1;
    *ret = (struct unpack_source){.read = read_download, .stop = stop_download, .arg = d};
    return 0;
}

/* The end of the archive may come before that of the blob, which must be right to its last byte. */
static int download_close(struct layer_job *job, struct err *err)
{
    struct download *d = job->arg;

    drain(d);
    fetch_done(&d->fetch);
    if (job->source_failed) {
        *err = d->fetch.err;
        return -1;
    }
    return 0;
}

/* ---- documents ---- */

/* All of a small one, which has that digest; "" = any. ret_type may be NULL. */
static int get_document(enum fetch_kind kind, const char *digest, int64_t size, struct buf *ret,
                        char **ret_type, struct err *err)
{
    struct fetch f;
    char found[DIGEST_HEX], *room;
    ssize_t n = 0;

    if (fetch_open(kind, digest, size, &f, err) < 0)
        return -1;
    while ((room = buf_room(ret, 4096)) && (n = fetch_read(&f, room, 4096)) > 0)
        ret->len += (size_t)n;
    if (n < 0)
        *err = f.err;
    if (!room)
        n = err_code(err, ERR_TOO_LARGE, "bad_manifest", "the registry sent more than it may");
    if (n == 0 && ret_type)
        *ret_type = steal_ptr(f.media_type);
    fetch_done(&f);
    if (n < 0)
        return -1;
    text_digest(ret->data ? ret->data : "", ret->len, found);
    if (digest[0] && strcmp(found, digest) != 0)
        return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                        "what came is not what the digest %.20s... stands for", digest);
    return 0;
}

/* digest "" = what the reference means. */
static int get_manifest(const char *digest, struct manifest *ret, char ret_digest[DIGEST_HEX],
                        struct err *err)
{
    auto_buf struct buf text = {0};
    auto_free char *type = NULL;

    buf_init(&text, MANIFEST_MAX_BYTES + 4096);
    if (get_document(FETCH_MANIFEST, digest, 0, &text, &type, err) < 0)
        return -1;
    text_digest(text.data ? text.data : "", text.len, ret_digest);
    return manifest_parse(text.data ? text.data : "", text.len, type, ret, err);
}

/* ---- which image ---- */

/* The manifest of the image itself: the one that the reference means, or the one for this platform
 * in the index that it means. The digest is always the reference's own. */
static int find_manifest(const struct reference *ref, const char *platform, struct manifest *ret,
                         char ret_digest[DIGEST_HEX], struct err *err)
{
    char chosen_digest[DIGEST_HEX];
    struct manifest m;
    const struct blob *chosen;
    int failed;

    if (get_manifest(ref->digest ? ref->digest : "", &m, ret_digest, err) < 0)
        return -1;
    if (!m.is_index) {
        *ret = m;
        return 0;
    }
    failed = manifest_choose(&m, platform, &chosen, err);
    if (failed == 0)
        failed = get_manifest(chosen->digest, ret, chosen_digest, err);
    manifest_done(&m);
    if (failed != 0)
        return -1;
    if (ret->is_index) {
        manifest_done(ret);
        return err_code(err, ERR_INVALID, "bad_manifest",
                        "the index leads to another index, not to an image");
    }
    return 0;
}

static int get_config(const struct manifest *m, struct buf *text, struct err *err)
{
    if (m->config.size > CONFIG_MAX_BYTES)
        return err_code(err, ERR_TOO_LARGE, "bad_config", "the configuration is larger than %u MiB",
                        CONFIG_MAX_BYTES >> 20);
    return get_document(FETCH_BLOB, m->config.digest, m->config.size, text, NULL, err);
}

static struct layer_job *make_jobs(const struct manifest *m, const struct oci_config *config)
{
    struct layer_job *jobs = layer_jobs_new(m->n_layers);
    struct download *downloads = xcalloc(m->n_layers + 1, sizeof(*downloads));

    for (size_t i = 0; i < m->n_layers; i++) {
        downloads[i].fetch.fd = -1;
        downloads[i].job = &jobs[i];
        memcpy(jobs[i].diff_id, config->diff_ids[i], DIGEST_HEX);
        jobs[i].blob = m->layers[i];
        jobs[i].open = download_open;
        jobs[i].close = download_close;
        jobs[i].blame = download_blame;
        jobs[i].arg = &downloads[i];
    }
    return jobs;
}

static void tell_resolved(const struct reference *ref, const char *digest, const char *platform,
                          const struct layer_job *jobs, size_t n)
{
    auto_free char *full = reference_full(ref);
    int64_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        if (jobs[i].state != LAYER_PRESENT)
            bytes += jobs[i].blob.size;
    event_send(json_pack("{s:s, s:s, s:s+, s:s, s:I, s:I}", "event", "resolved", "reference", full,
                         "digest", DIGEST_PREFIX, digest, "platform", platform, "layers",
                         (json_int_t)n, "bytes", (json_int_t)bytes));
}

static int get_layers(const struct worker_request *q, const struct reference *ref,
                      const char *platform, const char *digest, const struct manifest *m,
                      const char *text, size_t len, json_t **ret, struct err *err)
{
    struct oci_config config;
    struct layer_job *jobs;
    json_t *image = NULL;

    if (oci_config_parse(text, len, &config, err) < 0)
        return -1;
    /* An image without an index may be for another machine. */
    if (platform_check(config.os, config.arch, platform, err) < 0)
        return -1;
    if (strv_len(config.diff_ids) != m->n_layers)
        return err_code(err, ERR_INVALID, "bad_image",
                        "the manifest has %zu layers, the configuration %zu", m->n_layers,
                        strv_len(config.diff_ids));
    if (document_image(text, len, &image, err) < 0)
        return -1;
    jobs = make_jobs(m, &config);
    layers_look(jobs, m->n_layers);
    tell_resolved(ref, digest, json_string_value(json_object_get(image, "platform")), jobs,
                  m->n_layers);
    if (layers_make(q, jobs, m->n_layers, err) < 0)
        return -1;
    (void)json_object_set_new(image, "layers", layers_json(jobs, m->n_layers));
    (void)json_object_set_new(image, "digest", json_sprintf(DIGEST_PREFIX "%s", digest));
    *ret = image;
    return 0;
}

/* The process ends with its work, one way or the other: only what could run away is freed. */
int worker_pull(const struct worker_request *q, json_t **ret, struct err *err)
{
    const char *text = request_string(q, "reference"), *asked = request_string(q, "platform");
    const char *platform = asked ? asked : platform_here();
    auto_buf struct buf config = {0};
    char digest[DIGEST_HEX];
    struct reference ref;
    struct manifest manifest;

    buf_init(&config, CONFIG_MAX_BYTES + 4096);
    if (!text)
        return err_set(err, ERR_INTERNAL, "the request lacks a reference");
    event_send(json_pack("{s:s, s:s}", "event", "resolving", "reference", text));
    if (reference_parse(text, &ref, err) < 0 ||
        find_manifest(&ref, platform, &manifest, digest, err) < 0 ||
        get_config(&manifest, &config, err) < 0)
        return -1;
    return get_layers(q, &ref, platform, digest, &manifest, config.data ? config.data : "",
                      config.len, ret, err);
}
