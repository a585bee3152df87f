#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* Out of memory aborts: state is in SQLite and sandboxes outlive the daemon. */
void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2), returns_nonnull));

/* A local owns what it opened until it is stolen. */
static inline void cleanup_freep(void *p)
{
    free(*(void **)p);
}

static inline void cleanup_closep(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

#define auto_free  __attribute__((cleanup(cleanup_freep)))
#define auto_close __attribute__((cleanup(cleanup_closep)))

#define steal_ptr(p)                                                                               \
    ({                                                                                             \
        __typeof__(p) stolen_ = (p);                                                               \
        (p) = NULL;                                                                                \
        stolen_;                                                                                   \
    })

#define steal_fd(fd)                                                                               \
    ({                                                                                             \
        int stolen_ = (fd);                                                                        \
        (fd) = -1;                                                                                 \
        stolen_;                                                                                   \
    })

/* Closes *fd if it is open and makes it -1. */
void close_fd(int *fd);

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* A NULL-terminated vector of strings, as argv and envp are. */
void strv_free(char **v);
char **strv_add(char **v, const char *s); /* takes v (NULL = empty), returns the longer one */
char **strv_add_nth(char **v, size_t n, const char *s); /* strv_add() for a v of n strings: O(1) */
char **strv_copy(char *const *v);
size_t strv_len(char *const *v);

static inline void cleanup_strvp(char ***v)
{
    strv_free(*v);
}
#define auto_strv __attribute__((cleanup(cleanup_strvp)))
