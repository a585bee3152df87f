#pragma once

#include <stdbool.h>

struct auth_request;
struct http_req;
struct rest;

/* Requests that are passed on to ports of sandboxes: /<prefix>/proxy/ID/PORT/… and
 * http://PORT-ID.<domain>/…. Answers it and returns true when it is one. */
bool proxy_handle(struct rest *rest, struct http_req *req, const struct auth_request *from);

/* What the face has for that; part of rest_new() and rest_free(). */
void proxy_open(struct rest *rest);
void proxy_close(struct rest *rest);
