#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/id.h"

/* What the helper says on standard error when git asks it: GIT_ASK_MARK, a word that only this
 * command has, a space, the protocol, a space, the host, and GIT_ASK_MARK again. */
#define GIT_ASK_MARK '\036'
#define GIT_ASK_MAX  1024

struct git_asks {
    char word[ID_SIZE];
    struct buf held; /* a question whose end has not come */
};

void git_asks_init(struct git_asks *a);
void git_asks_done(struct git_asks *a);

/* Calls text for what is none, and asked for each question, in their order. */
struct git_asks_ops {
    void (*text)(const char *data, size_t len, void *arg);
    void (*asked)(const char *protocol, const char *host, void *arg);
    void *arg;
};
void git_asks_add(struct git_asks *a, const char *data, size_t len, bool last,
                  const struct git_asks_ops *ops);
