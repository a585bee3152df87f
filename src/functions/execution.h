#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "functions/output.h"

struct call;
struct err;

/* What a run of code has put out: told as events to who asked for them, kept for the answer else.
 * What is kept has a bound for each, and all together a budget; past it the answer says that it is
 * truncated. */

#define EXECUTION_TEXT_MAX    (4u << 20) /* of each stream */
#define EXECUTION_RESULTS_MAX (6u << 20) /* of all results, as JSON */

struct execution {
    struct buf streams[2];
    struct output_text text[2]; /* of events */
    json_t *results;
    size_t results_len;
    json_t *exception; /* NULL = none */
    size_t taken;      /* of the budget, for these */
    size_t code;       /* and for code that is still to be given */
    struct budget *memory;
    bool truncated;
};

void execution_init(struct execution *x, const struct call *call);
void execution_done(struct execution *x);
/* Code of that length is kept until the end. "busy" when there is no room for it. */
int execution_keep_code(struct execution *x, size_t len, struct err *err);

int execution_text(struct execution *x, struct call *call, bool is_error, const char *data,
                   size_t len, bool last, struct err *err);
/* Takes result; len = how long it is as JSON. */
int execution_result(struct execution *x, struct call *call, json_t *result, size_t len,
                     struct err *err);
/* Takes exception. */
int execution_exception(struct execution *x, struct call *call, json_t *exception, struct err *err);

/* Did it end since the sandbox has not what runs it (service/interpreter/languages.h)? */
bool code_lacks_program(const struct buf *said, int exit_code);
int code_missing(const char *program, struct err *err);

/* Sets the answer. x must stay until the call is done. */
int execution_answer(struct execution *x, struct call *call, int exit_code, double ms,
                     struct err *err);
