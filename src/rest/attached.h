#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "functions/call.h"

struct err;
struct http_req;

/* An attached command over an upgraded connection: frames of proto/frame.h. What the client sends
 * is checked frame by frame before it is passed on. */

#define ATTACHED_PROTOCOL "cay-exec"

struct attached {
    struct http_req *req;
    bool upgraded;
    bool want_stdin;
    struct buf in; /* what the client has sent, */
    size_t at;     /* of which so much is used up */
};

/* Does the request ask for it? ERR_INVALID upgrade_required otherwise. */
int attached_check(struct http_req *req, struct err *err);
void attached_init(struct attached *a, struct http_req *req, bool want_stdin);
void attached_done(struct attached *a);

/* Each returns -1 once the client has gone. started also upgrades the connection. */
int attached_started(struct attached *a, uint32_t pid);
int attached_lost(struct attached *a, uint64_t bytes);
int attached_output(struct attached *a, enum channel channel, const void *data, size_t len);
void attached_exit(struct attached *a, const json_t *end);
void attached_error(struct attached *a, const struct err *err);

/* Gives what the client has sent to the task, as long as that takes it: 0; -1 when the client has
 * gone or has sent what it may not, which err then says. */
int attached_input(struct attached *a, struct task *task, struct err *err);
/* Is there a frame that was read and that the task has not taken? */
bool attached_has_frame(const struct attached *a);
