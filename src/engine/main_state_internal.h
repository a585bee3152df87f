#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/call.h"

struct engine;
struct sandbox;

/* How the main process of a sandbox, its entrypoint, is. Its agent knows, also over a start of the
 * daemon; what was heard of it last is kept here, under the sandbox's lock. */
struct main_state {
    enum { MAIN_UNKNOWN, MAIN_RUNS, MAIN_ENDED } what;
    struct call_log end; /* of one that has ended */
    char *output;        /* the last of what it put out then; NULL = nothing is known of it */
    bool asking;         /* somebody is: others take what is known */
    int64_t again_ns;    /* when its agent is asked once more */
    uint32_t pause;      /* in which nothing new can be heard (sandbox_pause()) */
};

/* It has been started. */
void main_state_begin(struct sandbox *sb);
/* Asks the agent, if there is something to ask; at most until then (mono_ns). */
void main_state_ask(struct engine *e, struct sandbox *sb, int64_t until);
/* `entrypointState` of the API; NULL when it has no entrypoint. */
json_t *main_state_json(struct sandbox *sb);
