#include "oci/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/digest.h"
#include "registry/registry.h"
#include "registry/registry_internal.h"

#define TIMEOUT_S 120L

struct manifest_fetch {
    struct registry *registry;
    const char *tag, *digest; /* one of them */
    char *what;               /* for people */
    struct buf bytes;
    struct registry_document doc;
};

static int collect(const struct response *res, const void *data, size_t len, void *arg,
                   struct err *err)
{
    struct manifest_fetch *f = arg;

    (void)res;
    if (buf_add(&f->bytes, data, len) < 0)
        return err_code(err, ERR_INVALID, "bad_manifest", "the manifest of %.100s is over %u bytes",
                        f->what, MANIFEST_MAX_BYTES);
    return 0;
}

/* What was asked for, or else what the registry says that it sent. */
static int check_digest(struct manifest_fetch *f, const struct response *res, struct err *err)
{
    EVP_MD_CTX *sha = digest_new();
    const char *want = f->digest;

    digest_add(sha, f->bytes.data, f->bytes.len);
    digest_end(sha, f->doc.digest);
    if (!want && res->digest && str_starts(res->digest, DIGEST_PREFIX))
        want = res->digest + strlen(DIGEST_PREFIX);
    if (want && strcmp(want, f->doc.digest) != 0)
        return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                        "the manifest of %.60s was changed on the way: its digest should be "
                        "%.20s..., and is %.20s...",
                        f->what, want, f->doc.digest);
    return 0;
}

static int fetch_from(struct endpoint *ep, void *arg, bool *stop, struct err *err)
{
    struct manifest_fetch *f = arg;
    auto_free char *url = xasprintf("%s/v2/%s/manifests/%s%s", ep->base, f->registry->path,
                                    f->digest ? DIGEST_PREFIX : "", f->digest ? f->digest : f->tag);
    struct request req = {
        .url = url, .accept = manifest_accept, .timeout_s = TIMEOUT_S, .body = collect, .arg = f};
    struct retry retry = {.most = f->registry->attempts};
    struct response res = {0};
    int r;

    (void)stop;
    do {
        buf_clear(&f->bytes);
        r = endpoint_ask(ep, &req, &res, err);
    } while ((r < 0 || res.status != 200) && retry_again(&retry, ep, r, &res));
    if (r == 0 && res.status != 200)
        r = status_error(ep, f->what, &res, err);
    else if (r == 0)
        r = check_digest(f, &res, err);
    if (r == 0) {
        f->doc.len = f->bytes.len;
        f->doc.bytes = buf_steal(&f->bytes);
        f->doc.media_type = res.media_type ? steal_ptr(res.media_type) : xstrdup("");
    }
    response_done(&res);
    return r;
}

int registry_manifest(struct registry *r, const char *tag_or_digest, struct registry_document *ret,
                      struct err *err)
{
    bool is_digest = digest_valid(tag_or_digest);
    auto_free char *what =
        xasprintf("%s%s%s", r->path, is_digest ? "@" DIGEST_PREFIX : ":", tag_or_digest);
    struct manifest_fetch f = {.registry = r, .what = what};
    int result;

    if (is_digest)
        f.digest = tag_or_digest;
    else
        f.tag = tag_or_digest;
    buf_init(&f.bytes, MANIFEST_MAX_BYTES);
    result = each_endpoint(r, fetch_from, &f, err);
    buf_done(&f.bytes);
    if (result == 0)
        *ret = f.doc;
    return result;
}

void registry_document_done(struct registry_document *doc)
{
    free(doc->bytes);
    free(doc->media_type);
    *doc = (struct registry_document){0};
}
