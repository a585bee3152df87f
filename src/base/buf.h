#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes that grow, up to a maximum that the owner must state: everything that grows with outside
 * input has one. data is always NUL-terminated when non-NULL; the NUL is not counted in len. */
struct buf {
    char *data;
    size_t len, cap, max;
};

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);
void buf_clear(struct buf *b); /* len = 0, memory is kept */
void buf_fit(struct buf *b);   /* no more memory than len needs is kept */

/* 0, or -EMSGSIZE when the maximum would be passed; then nothing was added. */
int buf_add(struct buf *b, const void *data, size_t len);
int buf_add_str(struct buf *b, const char *s);
int buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Room for want more bytes at b->data + b->len; the caller then raises len. NULL past the maximum.
 */
char *buf_room(struct buf *b, size_t want);

/* Drops n bytes from the front. */
void buf_shift(struct buf *b, size_t n);

/* The text as a string of its own; b is empty afterwards. Never NULL. */
char *buf_steal(struct buf *b);

#define auto_buf __attribute__((cleanup(buf_done)))
