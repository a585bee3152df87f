#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "http/client.h"

struct args;
struct buf;
struct err;

/* The CLI is a client of the REST API as the SDKs are. */

struct api {
    struct http_client *http;
    char *target;
};

/* Where the daemon is: --host, CAY_HOST or III_SANDBOX_URL when one is given; else
 * $CAY_RUN/cay.sock if somebody listens there, else port $CAY_REST_PORT (3111) on this machine.
 * *ret_chosen says that somebody chose it. The caller frees the address. */
int api_address(const char *host, char **ret, bool *ret_chosen, struct err *err);

int api_open(struct api *api, const struct args *args, struct err *err);
void api_open_target(struct api *api, const char *target);
void api_close(struct api *api);
#define auto_api __attribute__((cleanup(api_close)))

/* One call below /sandbox. body is taken (NULL = none); *ret (may be NULL) is the answer. An answer
 * that is not 2xx is an error with the daemon's text. */
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

/* Of the last answer that was an error: its stable word ("" = none). */
const char *api_last_code(void);
/* And the last lines of the command that failed, if it was one ("" = none). */
const char *api_last_output(void);
/* Did the last call fail because nobody listens? */
bool api_no_daemon(void);

/* The id of the sandbox that word means: an id is taken as it is; the beginning of one, or else a
 * name, must be that of exactly one sandbox. What comes back is safe in a URL. */
int api_sandbox_id(struct api *api, const char *word, char **ret, struct err *err);

/* All sandboxes, the newest first, page by page; *ret is an array. at_most 0 = all; *ret_total is
 * how many there are.
 */
int api_sandboxes(struct api *api, const char *status, size_t at_most, json_t **ret,
                  int64_t *ret_total, struct err *err);

/* Appends s for use as a value in a query: everything but unreserved characters as %XX. */
void url_encode(struct buf *out, const char *s);
char *url_encoded(const char *s);
