#pragma once

#include <jansson.h>

#include "engine/watch.h"

/* Listens to a build between it and who waits, to tell what the step said that failed. */
struct build_tail {
    const struct engine_watch *watch; /* who is told too; NULL = nobody */
    char *command;
    char *text;
};

/* For build_run(); the tail must outlive it. */
struct engine_watch build_tail_watch(struct build_tail *t);
/* {command, output}, of the output the last lines; NULL when no step has begun. */
json_t *build_tail_json(const struct build_tail *t);
void build_tail_done(struct build_tail *t);
