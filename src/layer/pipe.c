#include "layer/pipe.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

struct pipe {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    size_t size;
    uint64_t in, out; /* bytes ever written and read; positions are these modulo size */
    bool ended, closed;
    int error;
    char data[];
};

struct pipe *pipe_new(size_t size)
{
    struct pipe *p = xmalloc(sizeof(*p) + size);

    *p = (struct pipe){.size = size};
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->filled, NULL);
    (void)pthread_cond_init(&p->emptied, NULL);
    return p;
}

void pipe_free(struct pipe *p)
{
    if (!p)
        return;
    (void)pthread_cond_destroy(&p->emptied);
    (void)pthread_cond_destroy(&p->filled);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

/* As much of n bytes from position at as lies in one piece. */
static size_t in_one_piece(const struct pipe *p, uint64_t at, uint64_t n)
{
    size_t to_end = p->size - (size_t)(at % p->size);

    return n < to_end ? (size_t)n : to_end;
}

ssize_t pipe_room(struct pipe *p, char **ret)
{
    ssize_t n = -EPIPE;

    (void)pthread_mutex_lock(&p->lock);
    while (!p->closed && p->in - p->out == p->size)
        (void)pthread_cond_wait(&p->emptied, &p->lock);
    if (!p->closed) {
        n = (ssize_t)in_one_piece(p, p->in, p->size - (p->in - p->out));
        *ret = p->data + p->in % p->size;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return n;
}

void pipe_commit(struct pipe *p, size_t n)
{
    (void)pthread_mutex_lock(&p->lock);
    p->in += n;
    (void)pthread_cond_signal(&p->filled);
    (void)pthread_mutex_unlock(&p->lock);
}

int pipe_put(struct pipe *p, const void *data, size_t len)
{
    const char *from = data;

    while (len > 0) {
        char *to;
        ssize_t n = pipe_room(p, &to);
        size_t take;

        if (n < 0)
            return (int)n;
        take = (size_t)n < len ? (size_t)n : len;
        memcpy(to, from, take);
        pipe_commit(p, take);
        from += take;
        len -= take;
    }
    return 0;
}

void pipe_end(struct pipe *p, int errnum)
{
    (void)pthread_mutex_lock(&p->lock);
    p->ended = true;
    p->error = errnum;
    (void)pthread_cond_signal(&p->filled);
    (void)pthread_mutex_unlock(&p->lock);
}

ssize_t pipe_peek(struct pipe *p, const char **ret)
{
    ssize_t n;

    (void)pthread_mutex_lock(&p->lock);
    while (!p->closed && !p->ended && p->in == p->out)
        (void)pthread_cond_wait(&p->filled, &p->lock);
    if (p->closed)
        n = -ECANCELED;
    else if (p->in == p->out)
        n = -p->error;
    else
        n = (ssize_t)in_one_piece(p, p->out, p->in - p->out);
    *ret = p->data + p->out % p->size;
    (void)pthread_mutex_unlock(&p->lock);
    return n;
}

void pipe_consume(struct pipe *p, size_t n)
{
    (void)pthread_mutex_lock(&p->lock);
    p->out += n;
    (void)pthread_cond_signal(&p->emptied);
    (void)pthread_mutex_unlock(&p->lock);
}

ssize_t pipe_get(struct pipe *p, void *data, size_t len)
{
    const char *from;
    ssize_t n = pipe_peek(p, &from);

    if (n <= 0)
        return n;
    if ((size_t)n > len)
        n = (ssize_t)len;
    memcpy(data, from, (size_t)n);
    pipe_consume(p, (size_t)n);
    return n;
}

void pipe_close(struct pipe *p)
{
    (void)pthread_mutex_lock(&p->lock);
    p->closed = true;
    (void)pthread_cond_broadcast(&p->emptied);
    (void)pthread_cond_broadcast(&p->filled);
    (void)pthread_mutex_unlock(&p->lock);
}
