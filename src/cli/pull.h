#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct api;
struct err;

/* Calls in which the daemon may fetch an image, which takes time: pull, import, create. */

struct pull {
    const char *name;    /* of the image, for people */
    bool silent;         /* say no words about it: bars on a terminal will do */
    bool quiet;          /* show nothing */
    bool events;         /* print each event as a line of JSON on stdout, and show nothing */
    bool fetched;        /* set: layers were fetched, so it was not there before */
    int upload_fd;       /* of upload_size bytes, which are sent in place of a JSON body */
    int64_t upload_size; /* 0 = there are none */
};

/* POSTs body (taken) to path (below /sandbox) and shows what happens on stderr meanwhile: bars on a
 * terminal, one line anywhere else, nothing when nothing is fetched. *ret is what came of it.
 *
 * SIGINT, SIGTERM and SIGHUP hang up, which ends the work there too: -1, and pull_signal() tells.
 */
int pull_call(struct api *api, const char *path, json_t *body, struct pull *pull, json_t **ret,
              struct err *err);

/* The signal that ended the last pull_call(), 0 = none. */
int pull_signal(void);

/* Prints why it failed, unless the user ended it; returns the exit status. */
int pull_fail(const struct err *err);
