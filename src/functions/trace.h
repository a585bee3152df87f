#pragma once

struct call;
struct err;
struct services;

/* Every call is part of a trace: the caller's, if it says one, or its own. */

/* After the face has said what the caller sent (call->traceparent). */
void call_trace_begin(struct call *call);
/* Remembers it. r and err as in function_end(). */
void call_trace_end(struct call *call, int r, const struct err *err);
/* Counts what has no row to be counted for. */
void trace_refused(struct services *services, const struct err *err);
