#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "oci/digest.h"

struct err;

/* Manifests and indexes of OCI and Docker (v2, schema 2), read from bytes that a stranger wrote. */

#define MANIFEST_MAX_BYTES  (4u << 20)
#define MANIFEST_MAX_LAYERS 127 /* what the launcher can stack, less one of our own */

enum blob_coding { BLOB_PLAIN, BLOB_GZIP, BLOB_ZSTD }; /* as the media type says */

struct blob {
    char digest[DIGEST_HEX];
    int64_t size; /* compressed; never negative */
    enum blob_coding coding;
};

struct platform_blob {
    struct blob blob;
    char *os, *arch, *variant; /* "" when it does not say */
    char *name;                /* org.opencontainers.image.ref.name of an OCI layout; "" */
};

struct manifest {
    bool is_index;
    /* of an image */
    struct blob config;
    struct blob *layers; /* lowest first */
    size_t n_layers;
    /* of an index */
    struct platform_blob *images;
    size_t n_images;
};

/* media_type is what the carrier said, or NULL: then the document's own mediaType or its shape
 * decides; a document that says otherwise than its carrier is refused. ERR_INVALID "bad_manifest".
 */
int manifest_parse(const char *bytes, size_t len, const char *media_type, struct manifest *ret,
                   struct err *err);
void manifest_done(struct manifest *m);

/* The entry for "linux/amd64" or "linux/arm64/v8": the newest variant that runs there, or the only
 * entry if that does not say what it is for. Attestations are passed over. It may be an index
 * again: the caller limits how often it follows. ERR_NOT_FOUND "no_platform" lists what there is;
 * ERR_INVALID "bad_platform" when platform is none. */
int manifest_choose(const struct manifest *index, const char *platform, const struct blob **ret,
                    struct err *err);
/* Does what is made for one platform run on the other? "linux/arm64" and "linux/arm64/v8" are the
 * same, and what does not say for what it is may be for any. */
bool platform_fits(const char *have, const char *platform);
#define PLATFORM_UNSAID "unknown" /* the architecture of such a one */
/* Of an image that there is no choice of: ERR_NOT_FOUND "no_platform" when it is for another
 * architecture. Its variant is left to whoever chose it. */
int platform_check(const char *os, const char *arch, const char *platform, struct err *err);
/* What this machine runs: "linux/amd64". */
const char *platform_here(void);

/* Values of the Accept header for manifests, joined. */
extern const char manifest_accept[];
