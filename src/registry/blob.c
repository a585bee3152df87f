/* A blob, in as many transfers as it takes.
 *
 * 1. The sink sees each byte once and in order: a transfer that breaks is gone on with from where
 * it broke, on the same endpoint or on the next.
 * 2. A server that does not know ranges sends everything again: what was seen is passed over.
 * 3. Not one byte more than the manifest promises is taken.
 * 4. What the digest is of is what the sink saw. A wrong one cannot be mended by trying again, for
 *    the sink has had its bytes: who gave them to it may begin anew, without mirrors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "oci/digest.h"
#include "oci/manifest.h"
#include "registry/registry.h"
#include "registry/registry_internal.h"

/* That much progress makes a break count as the first again, so that a large blob arrives over a
 * bad line, and a server that sends a byte at a time does not keep us for ever. */
#define PROGRESS_BYTES (1 << 20)

struct stream {
    struct registry *registry;
    const struct blob *blob;
    int (*sink)(const void *data, size_t len, void *arg, struct err *err);
    void *arg;
    EVP_MD_CTX *sha;
    int64_t seen;  /* given to the sink */
    int64_t skip;  /* of this transfer, still to be passed over */
    bool begun;    /* this transfer has sent something */
    bool hopeless; /* no endpoint can help: the sink failed, or the bytes are wrong */
};

static int lies(const struct stream *s, struct err *err)
{
    return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                    "the registry sends another size for blob %.20s... of %.80s than its manifest "
                    "promises (%lld)",
                    s->blob->digest, s->registry->path, (long long)s->blob->size);
}

/* "bytes 100-199/200" must begin where we are. */
static bool range_fits(const struct stream *s, const char *range)
{
    long long from, to, total;
    int n = range ? sscanf(range, "bytes %lld-%lld/%lld", &from, &to, &total) : 0;

    return n >= 2 && from == s->seen && (n == 2 || total == s->blob->size);
}

static int begin(struct stream *s, const struct response *res, struct err *err)
{
    s->begun = true;
    s->skip = 0;
    if (res->status == 206) {
        if (!range_fits(s, res->range))
            return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                            "the registry sends another part of blob %.20s... than was asked for",
                            s->blob->digest);
        return 0;
    }
    if (res->length >= 0 && res->length != s->blob->size)
        return lies(s, err);
    s->skip = s->seen; /* rule 2 */
    return 0;
}

static int take(const struct response *res, const void *data, size_t len, void *arg,
                struct err *err)
{
    struct stream *s = arg;
    const char *bytes = data;

    if (!s->begun && begin(s, res, err) < 0)
        return -1;
    if (s->skip > 0) {
        size_t n = (size_t)s->skip < len ? (size_t)s->skip : len;

        s->skip -= (int64_t)n;
        bytes += n;
        len -= n;
    }
    if (len == 0)
        return 0;
    if ((int64_t)len > s->blob->size - s->seen)
        return lies(s, err); /* rule 3 */
    digest_add(s->sha, bytes, len);
    s->seen += (int64_t)len;
    if (s->sink(bytes, len, s->arg, err) == 0)
        return 0;
    s->hopeless = true;
    return -1;
}

/* One transfer. Sets res->transient when it ended early without saying so. */
static int transfer(struct stream *s, struct endpoint *ep, struct request *req,
                    struct response *res, struct err *err)
{
    int r;

    s->begun = false;
    req->from = s->seen;
    r = endpoint_ask(ep, req, res, err);
    if (r == 0 && res->status / 100 == 2 && s->seen < s->blob->size) {
        res->transient = true;
        return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                        "%.60s sent %lld of the %lld bytes of blob %.20s...", ep->name,
                        (long long)s->seen, (long long)s->blob->size, s->blob->digest);
    }
    return r;
}

static int stream_from(struct endpoint *ep, void *arg, bool *stop, struct err *err)
{
    struct stream *s = arg;
    auto_free char *url = xasprintf("%s/v2/%s/blobs/" DIGEST_PREFIX "%s", ep->base,
                                    s->registry->path, s->blob->digest);
    auto_free char *what = xasprintf("%s@" DIGEST_PREFIX "%s", s->registry->path, s->blob->digest);
    struct request req = {.url = url, .body = take, .arg = s};
    struct retry retry = {.most = s->registry->attempts};
    struct response res = {0};
    int r = 0;

    while (s->seen < s->blob->size) {
        int64_t before = s->seen;

        r = transfer(s, ep, &req, &res, err);
        /* It broke, but only after the last byte. */
        if (r < 0 && res.transient && s->seen == s->blob->size)
            r = 0;
        if (r == 0 && res.status / 100 == 2)
            break;
        if (s->seen - before >= PROGRESS_BYTES)
            retry.attempt = 0;
        if (s->hopeless || !retry_again(&retry, ep, r, &res)) {
            r = r < 0 ? r : status_error(ep, what, &res, err);
            break;
        }
    }
    *stop = s->hopeless;
    response_done(&res);
    return r;
}

int registry_blob(struct registry *r, const struct blob *blob,
                  int (*sink)(const void *data, size_t len, void *arg, struct err *err), void *arg,
                  struct err *err)
{
    struct stream s = {.registry = r, .blob = blob, .sink = sink, .arg = arg, .sha = digest_new()};
    char digest[DIGEST_HEX];
    int result = each_endpoint(r, stream_from, &s, err);

    digest_end(s.sha, digest);
    if (result == 0 && strcmp(digest, blob->digest) != 0)
        return err_code(err, ERR_UNAVAILABLE, "digest_mismatch",
                        "blob %.20s... of %.80s was changed on the way: its bytes have the digest "
                        "%.20s...",
                        blob->digest, r->path, digest);
    return result;
}
