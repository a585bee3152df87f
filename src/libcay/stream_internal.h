#pragma once

#include "libcay/libcay_internal.h"
#include "libcay/session.h"

/* A command that runs, for stream.c and for exec.c, which waits for its end. */

struct cay_stream {
    struct cay *client;
    struct line *line;
    pthread_mutex_t lock; /* of all below: who writes may be another thread than who reads */
    struct session session;
    int wake;      /* eventfd: something is queued that did not go at once; -1 = one thread only */
    bool was_full; /* a write was cut short: CAY_ROOM is due */
    bool truncated;
};

/* What is asked of the daemon; NULL when it has no form in JSON. */
json_t *command_json(const struct cay_command *c);
/* Says so; returns -1. */
int bad_command(struct cay_error *err);

int stream_open(struct cay *client, const char *sandbox, const struct session_request *request,
                struct cay_stream **ret, struct cay_error *err);
int stream_start(struct cay *client, const char *sandbox, const struct cay_command *command,
                 bool with_input, bool detach, struct cay_stream **ret, struct cay_error *err);
