#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Bytes from one thread to another through memory of a fixed size: the faster of the two waits. One
 * writer, one reader. */
struct pipe;

struct pipe *pipe_new(size_t size);
void pipe_free(struct pipe *p); /* when both are done with it */

/* ---- writer ---- */

/* All of it: 0, or -EPIPE when the reader is gone. */
int pipe_put(struct pipe *p, const void *data, size_t len);
/* Memory to write into: at least 1 byte, or -EPIPE; then pipe_commit says how much was written. */
ssize_t pipe_room(struct pipe *p, char **ret);
void pipe_commit(struct pipe *p, size_t n);
/* No more comes: the reader gets the end, or -errnum when it is not 0, after what is there. */
void pipe_end(struct pipe *p, int errnum);

/* ---- reader ---- */

/* Up to len bytes; 0 at the end; -errnum of pipe_end. */
ssize_t pipe_get(struct pipe *p, void *data, size_t len);
/* The same without a copy: what was got stays in place until pipe_consume. */
ssize_t pipe_peek(struct pipe *p, const char **ret);
void pipe_consume(struct pipe *p, size_t n);
/* No more is wanted; a writer that waits gets -EPIPE, and a reader that waits -ECANCELED. Any
 * thread may call it. */
void pipe_close(struct pipe *p);
