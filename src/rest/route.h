#pragma once

#include <jansson.h>
#include <stddef.h>

struct err;
struct function;

/* Finding the row for a request. */

struct routes;

/* The rows of functions_each(). */
struct routes *routes_new(void);
void routes_free(struct routes *r);

enum route_result { ROUTE_FOUND, ROUTE_UNKNOWN, ROUTE_WRONG_METHOD };

struct route_match {
    const struct function *function;
    char allow[64]; /* of ROUTE_WRONG_METHOD: "GET, HEAD, DELETE" */
};

/* path is raw and below the prefix. HEAD finds GET, except for streams. */
enum route_result routes_find(const struct routes *r, const char *method, const char *path,
                              struct route_match *ret);

/* The path parameters of f as an object of strings, or NULL with err. */
json_t *route_params(const struct function *f, const char *path, struct err *err);

/* Below "/<prefix>", or NULL. "/openapi.json" and "/ws/…" are served outside of it too. */
const char *route_below(const char *prefix, const char *path);
