/* An image from a registry. A thread downloads each layer into a small pipe, and whoever unpacks it
 * reads there: nothing compressed is ever on disk. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "layer/pipe.h"
#include "oci/config.h"
#include "oci/reference.h"
#include "registry/registry.h"
#include "worker/worker.h"

#define PIPE_SIZE (256u << 10)

struct download {
    struct registry *registry;
    struct layer_job *job;
    struct pipe *pipe;
    pthread_t thread;
    bool unwanted; /* it ended because nobody reads any more, which is no failure of its own */
    struct err err;
};

/* ---- one layer ---- */

static int put(const void *data, size_t len, void *arg, struct err *err)
{
    struct download *d = arg;

    d->job->read += len;
    if (pipe_put(d->pipe, data, len) == 0)
        return 0;
    d->unwanted = true;
    return err_set(err, ERR_INTERNAL, "the layer is not wanted any more");
}

static void *download(void *arg)
{
    struct download *d = arg;
    int r = registry_blob(d->registry, &d->job->blob, put, d, &d->err);

    if (r < 0 && !d->unwanted)
        d->job->source_failed = true;
    pipe_end(d->pipe, r < 0 ? EIO : 0);
    return NULL;
}

static ssize_t read_pipe(void *arg, void *data, size_t len)
{
    const struct download *d = arg;

    return pipe_get(d->pipe, data, len);
}

static void stop_reading(void *arg)
{
    const struct download *d = arg;

    pipe_close(d->pipe);
}

static int download_open(struct layer_job *job, struct unpack_source *ret, struct err *err)
{
    struct download *d = job->arg;
    int r;

    d->pipe = pipe_new(PIPE_SIZE);
    job->source_error = &d->err;
    r = pthread_create(&d->thread, NULL, download, d);
    if (r != 0)
        return err_sys(err, r, "start a thread");
    *ret = (struct unpack_source){.read = read_pipe, .stop = stop_reading, .arg = d};
    return 0;
}

/* The end of the archive may come before that of the blob, which must be right to its last byte. */
static int download_close(struct layer_job *job, struct err *err)
{
    struct download *d = job->arg;
    const char *rest;
    ssize_t n;

    while ((n = pipe_peek(d->pipe, &rest)) > 0)
        pipe_consume(d->pipe, (size_t)n);
    (void)pthread_join(d->thread, NULL);
    pipe_free(d->pipe);
    d->pipe = NULL;
    if (job->source_failed) {
        *err = d->err;
        return -1;
    }
    return 0;
}

/* ---- which image ---- */

static char **string_list(const json_t *a)
{
    char **v = xcalloc(1, sizeof(*v));

    for (size_t i = 0; i < json_array_size(a); i++) {
        const char *s = json_string_value(json_array_get(a, i));

        if (s)
            v = strv_add(v, s);
    }
    return v;
}

static int open_registry(const struct worker_request *q, const struct reference *ref,
                         struct registry **ret, struct err *err)
{
    auto_strv char **insecure = string_list(json_object_get(q->json, "insecure"));
    auto_strv char **mirrors = string_list(json_object_get(q->json, "mirrors"));
    auto_strv char **realms = string_list(json_object_get(q->json, "realms"));
    struct registry_options options = {
        .insecure = insecure,
        .mirrors = mirrors,
        .realms = realms,
        .ca_file = request_string(q, "ca_file"),
        .docker_config = request_string(q, "docker_config"),
        .username = request_string(q, "username"),
        .password = request_string(q, "password"),
    };

    return registry_open(ref, &options, ret, err);
}

/* The manifest of the image itself: the one that the reference means, or the one for this platform
 * in the index that it means. The digest is always the reference's own. */
static int find_manifest(struct registry *r, const struct reference *ref, const char *platform,
                         struct manifest *ret, char ret_digest[DIGEST_HEX], struct err *err)
{
    struct registry_document doc;
    struct manifest m;
    const struct blob *chosen;
    int failed;

    if (registry_manifest(r, ref->digest ? ref->digest : ref->tag, &doc, err) < 0)
        return -1;
    failed = manifest_parse(doc.bytes, doc.len, doc.media_type, &m, err);
    memcpy(ret_digest, doc.digest, DIGEST_HEX);
    registry_document_done(&doc);
    if (failed < 0)
        return -1;
    if (!m.is_index) {
        *ret = m;
        return 0;
    }
    failed = manifest_choose(&m, platform, &chosen, err);
    if (failed == 0)
        failed = registry_manifest(r, chosen->digest, &doc, err);
    manifest_done(&m);
    if (failed < 0)
        return -1;
    failed = manifest_parse(doc.bytes, doc.len, doc.media_type, ret, err);
    registry_document_done(&doc);
    if (failed == 0 && ret->is_index) {
        manifest_done(ret);
        return err_code(err, ERR_INVALID, "bad_manifest",
                        "the index leads to another index, not to an image");
    }
    return failed;
}

static int add_bytes(const void *data, size_t len, void *arg, struct err *err)
{
    if (buf_add(arg, data, len) < 0)
        return err_code(err, ERR_TOO_LARGE, "bad_config", "the configuration is larger than %u MiB",
                        CONFIG_MAX_BYTES >> 20);
    return 0;
}

static int get_config(struct registry *r, const struct manifest *m, struct buf *text,
                      struct err *err)
{
    if (m->config.size > CONFIG_MAX_BYTES)
        return err_code(err, ERR_TOO_LARGE, "bad_config", "the configuration is larger than %u MiB",
                        CONFIG_MAX_BYTES >> 20);
    return registry_blob(r, &m->config, add_bytes, text, err);
}

static struct layer_job *make_jobs(struct registry *r, const struct manifest *m,
                                   const struct oci_config *config)
{
    struct layer_job *jobs = layer_jobs_new(m->n_layers);
    struct download *downloads = xcalloc(m->n_layers + 1, sizeof(*downloads));

    for (size_t i = 0; i < m->n_layers; i++) {
        downloads[i].registry = r;
        downloads[i].job = &jobs[i];
        memcpy(jobs[i].diff_id, config->diff_ids[i], DIGEST_HEX);
        jobs[i].blob = m->layers[i];
        jobs[i].open = download_open;
        jobs[i].close = download_close;
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

/* An image without an index may be for another machine. */
static int check_platform(const struct oci_config *config, const char *platform, struct err *err)
{
    auto_free char *theirs = xasprintf("%s/%s%s%s", config->os, config->arch,
                                       config->variant[0] ? "/" : "", config->variant);

    if (config->os[0] == '\0' || config->arch[0] == '\0' || platform_fits(theirs, platform))
        return 0;
    return err_code(err, ERR_NOT_FOUND, "no_platform", "it is there for %.60s only, not for %.60s",
                    theirs, platform);
}

static int get_layers(const struct worker_request *q, struct registry *r,
                      const struct reference *ref, const char *platform, const char *digest,
                      const struct manifest *m, const char *text, size_t len, json_t **ret,
                      struct err *err)
{
    struct oci_config config;
    struct layer_job *jobs;
    json_t *image = NULL;

    if (oci_config_parse(text, len, &config, err) < 0)
        return -1;
    if (check_platform(&config, platform, err) < 0)
        return -1;
    if (strv_len(config.diff_ids) != m->n_layers)
        return err_code(err, ERR_INVALID, "bad_image",
                        "the manifest has %zu layers, the configuration %zu", m->n_layers,
                        strv_len(config.diff_ids));
    if (document_image(text, len, &image, err) < 0)
        return -1;
    jobs = make_jobs(r, m, &config);
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
    struct registry *registry;
    struct manifest manifest;

    buf_init(&config, CONFIG_MAX_BYTES);
    if (!text)
        return err_set(err, ERR_INTERNAL, "the request lacks a reference");
    event_send(json_pack("{s:s, s:s}", "event", "resolving", "reference", text));
    if (reference_parse(text, &ref, err) < 0 || open_registry(q, &ref, &registry, err) < 0 ||
        find_manifest(registry, &ref, platform, &manifest, digest, err) < 0 ||
        get_config(registry, &manifest, &config, err) < 0)
        return -1;
    return get_layers(q, registry, &ref, platform, digest, &manifest,
                      config.data ? config.data : "", config.len, ret, err);
}
