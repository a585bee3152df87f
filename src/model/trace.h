#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"

/* One call, as it is remembered, and which larger story it belongs to: W3C Trace Context
 * (https://www.w3.org/TR/trace-context/). */

struct trace_context {
    uint8_t trace_id[16];
    uint8_t span_id[8];   /* of this call */
    uint8_t parent_id[8]; /* of the caller's; zeros = it did not say */
    uint8_t flags;        /* TRACE_SAMPLED, TRACE_RANDOM */
    bool remote;          /* the caller said which trace */
};

#define TRACE_SAMPLED     1
#define TRACE_RANDOM      2  /* the caller's ids are: handed on as it came */
#define TRACE_PARENT_SIZE 56 /* of the text, with its end */
#define TRACE_STATE_MAX   512

/* Ids for a call that nobody has put into a trace. They need not be secret, only different. */
void trace_context_new(struct trace_context *ret);
/* Makes it part of the caller's trace, if the header's value (NULL = none) says one; what is not
 * as the standard has it is as if it were not there. */
void trace_context_join(struct trace_context *c, const char *traceparent);
/* The value for what this call calls. */
void trace_context_text(const struct trace_context *c, char ret[TRACE_PARENT_SIZE]);
/* May be handed on: printable, and no longer than TRACE_STATE_MAX. */
bool trace_state_valid(const char *text);

void hex_text(const uint8_t *bytes, unsigned n, char *ret); /* 2n digits and the end */
/* Exactly 2n lower-case digits, the text need not end there. */
bool hex_bytes(const char *text, unsigned n, uint8_t *ret);

#define TRACE_CALLER_SIZE 64
#define TRACE_ERROR_SIZE  160

/* A call that has ended. Fixed in size, so that remembering one takes no memory. */
struct trace {
    struct trace_context context;
    int64_t end_ms;       /* wall time */
    int64_t duration_us;  /* of the whole call */
    int64_t exec_us;      /* of the command that it ran, -1 = none, or it has not ended */
    const char *function; /* "cmd::run"; lives for ever, as do face and code */
    const char *face;     /* "rest" */
    const char *code;     /* of a failure; NULL = none */
    enum err_kind kind;   /* ERR_NONE = it went well */
    bool is_stream;       /* it lasts as long as its caller likes */
    char sandbox_id[ID_SIZE];
    char caller[TRACE_CALLER_SIZE];
    char error[TRACE_ERROR_SIZE];
};

/* "trc_" and 24 hex digits, from the ids that it has anyway. */
void trace_id(const struct trace_context *c, char ret[ID_SIZE]);
