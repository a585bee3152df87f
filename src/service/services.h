#pragma once

#include <stdint.h>

#include "service/courier.h"
#include "service/queue.h"
#include "service/webhooks.h"

struct alerts;
struct node;
struct engine;
struct err;
struct events;
struct otlp;
struct traces;
struct usage;
struct tokens;
struct audit;

/* What lives beside the engine, uses its public headers only, and keeps something between calls.
 * The daemon opens them before the engine starts, so that nothing that happens at its start is
 * missed, and starts them once it runs; they stop before it does, and are closed after it. Of one
 * that is not there the pointer is NULL. */

struct services_config {
    const char *data_dir; /* absolute: each has a folder or a file of its own there */
    const char *run_dir;
    uint32_t max_tokens;
    uint32_t alert_interval_s;           /* service/alerts.h */
    uint32_t audit_file_mb, audit_files; /* service/audit.h; of the second 0 = there is no log */
    struct courier_config courier;
    struct webhooks_config webhooks;
    uint32_t events_max, events_days; /* service/events.h */
    uint32_t traces_keep;             /* how many calls are remembered; 0 = none is */
    const char *otlp_endpoint;        /* service/otlp.h; NULL = traces are sent nowhere */
    const char *otlp_headers, *otlp_service;
    uint32_t usage_interval_s; /* between two looks at what sandboxes use; 0 = nobody looks */
    struct queue_config queue;
    uint32_t run_stop_ms; /* ms that interrupted code has to end; 0 = 2000 */
};

struct interpreter;

struct services {
    const struct services_config *config;
    struct engine *engine;
    struct alerts *alerts;
    struct node *node;
    struct interpreter *interpreter;
    struct courier *courier;
    struct webhooks *webhooks;
    struct keys *keys; /* of requests */
    struct events *events;
    struct traces *traces;
    struct usage *usage;
    struct tokens *tokens;
    struct otlp *otlp;
    struct queue *queue;
    struct audit *audit;
};

/* Does it make sense? As far as that can be said without opening anything. */
int services_check(const struct services_config *config, struct err *err);
/* Copies nothing: config must outlive them. */
int services_open(struct services *s, const struct services_config *config, struct engine *engine,
                  struct err *err);
int services_start(struct services *s, struct err *err);
/* No thread of theirs calls the engine afterwards. Fine if they were not started. */
void services_stop(struct services *s);
void services_close(struct services *s);
