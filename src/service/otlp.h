#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/trace.h"

struct courier;
struct err;
struct otlp;
struct prometheus;

/* Sends traces to a collector: OTLP over HTTP, as JSON (https://opentelemetry.io/docs/specs/otlp/),
 * brought by the courier. A collector that is away is tried again for about a minute; what comes
 * meanwhile waits, as far as there is room, and the rest is lost and counted. */

#define OTLP_WAITING_MAX 4096 /* spans */

struct otlp_config {
    const char *endpoint; /* "http://collector:4318"; /v1/traces is added, unless it ends so */
    const char *headers;  /* "name=value,name=value", percent-encoded; NULL = none */
    const char *service;  /* service.name */
};

bool otlp_is_endpoint(const char *text);

/* ERR_INVALID when the configuration makes no sense. Copies it. */
int otlp_new(const struct otlp_config *config, struct courier *courier, struct otlp **ret,
             struct err *err);
int otlp_start(struct otlp *o, struct err *err);
/* Sends what is left, for some seconds at most. Before the courier stops; fine if it was not
 * started. */
void otlp_stop(struct otlp *o);
/* After the courier has stopped. */
void otlp_free(struct otlp *o);

/* The listener of traces; arg is the struct otlp. */
void otlp_take(const struct trace *traces, size_t n, void *arg);
void otlp_prometheus(struct otlp *o, struct prometheus *p);
