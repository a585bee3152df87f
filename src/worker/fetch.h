#pragma once

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "oci/digest.h"

/* How the unpacker gets what is in a registry, and who gets it there.
 *
 * On FD_FETCH (SOCK_SEQPACKET) each message is a struct fetch_ask with one end of a stream. On that
 * come pieces: a length (32 bits, of this machine) and so many bytes. A length of 0 is the end:
 * then follows, up to the end of the stream, what became of it as JSON: {"media_type":…}, or an
 * error's
 * {"kind":…,"code":…,"text":…}. Neither side takes the other's word for anything: what came is
 * checked against its digest by who uses it. */

enum fetch_kind {
    FETCH_MANIFEST, /* digest "" = the one that the request's reference means */
    FETCH_BLOB,
};

struct fetch_ask {
    int32_t kind;
    int64_t size; /* of a blob */
    char digest[DIGEST_HEX];
};

#define FETCH_PIECE_MAX  (1u << 20)
#define FETCH_STATUS_MAX (16u << 10)

/* ---- fetch.c: the fetcher ---- */

/* Does not come back. request: the reference, and how its registry is reached. ask: the other end
 * of the unpacker's FD_FETCH; secrets: the keeper, which knows passwords. Both are taken. */
_Noreturn void fetcher_run(const json_t *request, int ask, int secrets);

/* ---- fetch_ask.c: the unpacker's side ---- */

struct fetch {
    int fd;
    uint32_t left;        /* of the piece */
    bool ended;           /* well or not */
    atomic_bool unwanted; /* it was stopped, which is no failure of its own */
    char *media_type;     /* after the end */
    struct err err;       /* why fetch_read failed */
};

int fetch_open(enum fetch_kind kind, const char *digest, int64_t size, struct fetch *ret,
               struct err *err);
/* Bytes, 0 at a good end, or -errno. */
ssize_t fetch_read(struct fetch *f, void *data, size_t len);
/* Makes a read that waits return; from any thread. */
void fetch_stop(struct fetch *f);
void fetch_done(struct fetch *f);
