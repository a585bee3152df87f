#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "http/client.h"

struct buf;
struct err;

/* One connection to the REST API of a daemon. The CLI uses it as it is; cay.h is for programs of
 * others and stands on it. Nothing here is shared between two of them. */

/* What is known of the last call that failed, beyond its struct err. */
struct api_failure {
    bool no_daemon; /* nobody listens */
    int status;     /* of the answer; 0 = there was none */
    unsigned retry_s;
    char code[64];     /* the daemon's stable word; "" = none */
    char message[512]; /* and its text, longer than that of a struct err */
    char *output;      /* the last lines of a command that failed, if it was one; NULL = none */
};

struct api {
    struct http_client *http;
    char *target;
    struct api_failure *failure; /* borrowed */
};

/* Where the daemon is: host, CAY_HOST, CAY_URL or III_SANDBOX_URL when one is given; else
 * $CAY_RUN/cay.sock if somebody listens there, else port $CAY_REST_PORT (3111) on this machine.
 * *ret_chosen says that somebody chose it. The caller frees the address. */
int api_address(const char *host, char **ret, bool *ret_chosen, struct err *err);
/* The token that the environment has; NULL = none. */
const char *api_token(void);

/* target is of api_address(); name as http_client_name() takes it. */
void api_init(struct api *api, const char *target, const char *token, const char *name,
              struct api_failure *failure);
void api_close(struct api *api);
#define auto_api __attribute__((cleanup(api_close)))
void api_failure_clear(struct api_failure *failure);

/* One call: text (NULL = none) is sent as JSON, and the answer's text comes back; ret may be NULL.
 * An answer that is not 2xx is an error with the daemon's text. */
int api_exchange(struct api *api, const char *method, const char *path, const char *text,
                 char **ret, struct err *err);

/* The same below /sandbox. body is taken (NULL = none); *ret (may be NULL) is the answer. */
int api_call(struct api *api, const char *method, json_t *body, json_t **ret, struct err *err,
             const char *path, ...) __attribute__((format(printf, 6, 7)));

/* After http_client_send() and its kin: 0 for a 2xx, else reads the error body into err. */
int api_check(struct api *api, const struct http_response *response, struct err *err);

/* The body of an answer whose head has been read and is good; ret may be NULL. */
int api_json(struct api *api, json_t **ret, struct err *err);

/* Fills err from the body of an error, {error, code}, which came with that status (0 = it was an
 * event in a stream); returns -1. */
int api_refuse(const struct api *api, const json_t *body, int status, struct err *err);

/* Turns "nobody listens" into what to do about it; returns -1. */
int api_explain(struct api *api, struct err *err);

/* A connection to a TCP port of a sandbox: *ret is the stream. */
int api_dial(struct api *api, const char *id, uint16_t port, int *ret, struct err *err);

/* Appends s for use as a value in a query: everything but unreserved characters as %XX. */
void url_encode(struct buf *out, const char *s);
char *url_encoded(const char *s);
