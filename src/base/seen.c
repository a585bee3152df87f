#include "base/seen.h"

#include <search.h>
#include <stdlib.h>

#include "base/mem.h"

struct seen {
    dev_t dev;
    ino_t ino;
    char *path;
};

static int by_inode(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;

    if (x->dev != y->dev)
        return x->dev < y->dev ? -1 : 1;
    return x->ino < y->ino ? -1 : x->ino > y->ino;
}

const char *seen_add(void **seen, const struct stat *st, const char *path)
{
    struct seen key = {.dev = st->st_dev, .ino = st->st_ino}, *s;
    struct seen **found = tfind(&key, seen, by_inode);

    if (found)
        return (*found)->path;
    s = xcalloc(1, sizeof(*s));
    *s = key;
    s->path = xstrdup(path);
    if (!tsearch(s, seen, by_inode))
        abort();
    return NULL;
}

static void seen_free(void *p)
{
    struct seen *s = p;

    free(s->path);
    free(s);
}

void seen_done(void *seen)
{
    tdestroy(seen, seen_free);
}
