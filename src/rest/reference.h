#pragma once

#include <jansson.h>
#include <stdbool.h>

struct buf;
struct http_req;
struct rest;

/* The page at /docs: what /openapi.json says, for people. No script, nothing from elsewhere. */

/* Is it asked for? Then it is answered. To anybody who may come here at all: it tells nothing that
 * is not in cay's own documentation. */
bool reference_handle(struct rest *rest, struct http_req *req);

/* The page of a document of functions_openapi(). */
void reference_write(const json_t *openapi, struct buf *ret);
