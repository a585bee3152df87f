#pragma once

#include <jansson.h>

#include "base/err.h"

/* What a failure looks like from outside; the only place that knows. */

int error_status(enum err_kind kind);

/* {"error": text, "code": word}. A failure of ours does not tell paths or other insides of the
 * host: its text then only names the request, whose line in the log has the rest. request_id is
 * needed for status 500 and above. */
json_t *error_body(const struct err *err, const char *request_id);

/* The same for an answer that leaves now: one that is ours to mend gets a line in the log, by whose
 * request id it is found. */
json_t *error_told(const struct err *err, const char *method, const char *path);
