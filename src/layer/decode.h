#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* Takes the compression off a stream: gzip, zstd, xz, bzip2, or none. The first bytes decide which.
 * Several members or frames after one another are one stream; anything else behind the end is
 * refused, and so is an end that comes too early. Nothing is ever given to a program. Memory is
 * bounded whatever the stream says. */
struct decoder;

/* Up to len bytes, 0 at the end, or -errno. */
typedef ssize_t (*decode_read)(void *arg, void *data, size_t len);

struct decoder *decoder_new(decode_read read, void *arg);
void decoder_free(struct decoder *d);

/* Fills out unless the stream ends: bytes, 0 at the end, or -1. */
ssize_t decoder_read(struct decoder *d, void *out, size_t len, struct err *err);
/* Compressed bytes read so far. */
uint64_t decoder_taken(const struct decoder *d);
