#pragma once

#include <jansson.h>

struct call;
struct err;

/* A new sandbox whose template has a command that must succeed: it is run, again and again, until
 * it does or its time is over. Leaves a task whose answer is the sandbox; when it fails, or nobody
 * waits any more, the sandbox goes. Takes sandbox. */
int ready_begin(struct call *call, json_t *sandbox, const json_t *command, unsigned seconds,
                struct err *err);
