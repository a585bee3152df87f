#pragma once

#include "libcay/api.h"

struct args;

/* The CLI is a client of the REST API as the SDKs are, through the client of libcay. */

int api_open(struct api *api, const struct args *args, struct err *err);
/* What the command line is called in requests (http_client_name()). */
#define CLIENT_NAME "cay/" CAY_VERSION
void api_open_target(struct api *api, const char *target);

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
