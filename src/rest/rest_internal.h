#pragma once

#include <stdatomic.h>

#include "functions/call.h"
#include "rest/auth.h"

struct rest {
    const struct rest_config *config;
    struct engine *engine;
    struct about about;
    struct auth_config auth;
    struct routes *routes;
    struct ratelimit *rate; /* NULL = off */
    atomic_uint patient;    /* threads that wait for a command to end at once */
};
