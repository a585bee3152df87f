#pragma once

#include <stddef.h>

#include "model/trace.h"

/* The body of an export: ExportTraceServiceRequest in the JSON of OTLP, in which ids are hex and
 * 64-bit numbers strings. service, host: what they are told to come from. */
char *otlp_json(const struct trace *traces, size_t n, const char *service, const char *host);
