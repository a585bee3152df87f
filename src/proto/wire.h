#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* How values are packed in a frame or a launch plan: little-endian integers; a string is its u32
 * length and its bytes; a list is its u32 count and its strings. There are no tags: writer and
 * reader are built together and the first value of a plan or hello is a version.
 *
 * Reading takes hostile input. Past the end, or a string with a NUL in it, sets bad and every later
 * get returns 0 or "", so a reader checks once, at the end, with wire_ok(). */

void wire_put_u32(struct buf *b, uint32_t v);
void wire_put_u64(struct buf *b, uint64_t v);
void wire_put_str(struct buf *b, const char *s); /* NULL is written as "" */
void wire_put_bytes(struct buf *b, const void *data, size_t len);
void wire_put_list(struct buf *b, char *const *list); /* NULL-terminated; NULL = empty */

struct wire {
    const unsigned char *p, *end;
    bool bad;
};

void wire_init(struct wire *w, const void *data, size_t len);
uint32_t wire_get_u32(struct wire *w);
uint64_t wire_get_u64(struct wire *w);
/* Copies into the caller's ownership; never NULL. */
char *wire_get_str(struct wire *w);
char **wire_get_list(struct wire *w, size_t max_items);
/* Points into the input. */
const void *wire_get_bytes(struct wire *w, size_t *ret_len);
/* Everything was there and nothing is left over. */
bool wire_ok(const struct wire *w);
