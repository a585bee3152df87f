#pragma once

#include <jansson.h>

#include "service/build/build.h"

/* A folder with a Dockerfile or a cay.json becomes a template. */

struct directory_request {
    const char *name;           /* of the template; required. One of that name is replaced */
    const char *description;    /* NULL = "" */
    const char *file;           /* of the context; NULL = Dockerfile, else cay.json */
    const char *dockerfile;     /* its text, in place of a file; NULL = none */
    struct build_request build; /* without its plan */
};

/* Gives the Template. Where a command fails, *ret_failure is {command, output}. */
int build_directory(struct engine *e, const struct directory_request *req,
                    const struct engine_watch *watch, json_t **ret, json_t **ret_failure,
                    struct err *err);
