#pragma once

#include <stdint.h>

#include "base/buf.h"

/* The text format of Prometheus, version 0.0.4: families of samples, each told with its help and
 * type before its first sample. */

struct prometheus {
    struct buf text;
    const char *family;
};

void prometheus_init(struct prometheus *p);
void prometheus_done(struct prometheus *p);

/* type: "counter", "gauge" or "histogram". Samples of it follow at once. */
void prometheus_family(struct prometheus *p, const char *name, const char *type, const char *help);
/* A sample of the family that was begun: name and value of each label, ended by NULL. */
void prometheus_sample(struct prometheus *p, double value, ...) __attribute__((sentinel));
/* Both, for a family of one sample without labels. */
void prometheus_gauge(struct prometheus *p, const char *name, double value, const char *help);
void prometheus_counter(struct prometheus *p, const char *name, double value, const char *help);

/* The samples of one histogram: how many were in each bucket, the last of which has no end. bounds
 * in seconds. label NULL = it has none. */
void prometheus_histogram(struct prometheus *p, const double *bounds, unsigned n,
                          const uint64_t *counts, double sum, const char *label, const char *value);
