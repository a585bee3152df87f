#pragma once

struct caller;
struct err;
struct function;
struct http_req;
struct rate_state;
struct rest;

/* One call over HTTP, from the row on: reads the input, runs the function, sends the answer. path
 * is the part of the request's path below the prefix. Returns when the answer is sent, or the
 * request is parked or its body waited for. */
void serve_call(struct rest *rest, struct http_req *req, const struct function *f, const char *path,
                const struct caller *caller, const struct rate_state *rate);

/* Answers a failure. */
void serve_error(struct http_req *req, const struct err *err);

/* Headers that tell what is left; nothing of one that is not limited. */
void serve_rate(struct http_req *req, const struct rate_state *rate);
