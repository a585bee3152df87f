#include "service/services.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "engine/news.h"
#include "engine/pool.h"
#include "service/alerts.h"
#include "service/audit.h"
#include "service/events.h"
#include "service/interpreter/driver.h"
#include "service/interpreter/interpreter.h"
#include "service/keys.h"
#include "service/node.h"
#include "service/otlp.h"
#include "service/tokens.h"
#include "service/traces.h"
#include "service/usage.h"

static bool is_stop_by_expiry(const char *topic, const json_t *data)
{
    return strcmp(topic, "sandbox.stopped") == 0 &&
           strcmp(json_text(data, "reason"), "expired") == 0;
}

/* Refusals, stops and removals that no call asked for. */
static void audit_news(struct audit *a, const char *topic, const char *id, const json_t *data)
{
    bool denied = strcmp(topic, "network.denied") == 0;
    struct audit_entry entry = {.who = denied ? "sandbox" : "daemon",
                                .function = topic,
                                .sandbox_id = id,
                                .result = denied ? "refused" : "ok",
                                .is_common = denied};
    char *detail;

    if (!denied && strcmp(topic, "sandbox.expired") != 0 && !is_stop_by_expiry(topic, data))
        return;
    detail = json_dumps(data, JSON_COMPACT | JSON_ENSURE_ASCII);
    entry.detail = detail && strlen(detail) <= 4096 ? detail : NULL;
    audit_write(a, &entry);
    free(detail);
}

/* What the engine tells is an event. */
static void on_news(const char *topic, const char *id, json_t *data, void *arg)
{
    struct services *s = arg;

    if (s->audit)
        audit_news(s->audit, topic, id, data);
    if (s->queue)
        queue_hear(s->queue, topic, id);
    events_publish(s->events, topic, id, data);
}

static int open_events(struct services *s, struct err *err)
{
    const struct events_config config = {.data_dir = s->config->data_dir,
                                         .max = s->config->events_max,
                                         .days = s->config->events_days};

    if (events_open(&config, &s->events, err) < 0)
        return err_wrap(err, "events");
    engine_listen(s->engine, on_news, s);
    return 0;
}

/* *ret NULL = traces are sent nowhere. */
static int make_otlp(const struct services_config *c, struct courier *courier, struct otlp **ret,
                     struct err *err)
{
    const struct otlp_config config = {
        .endpoint = c->otlp_endpoint, .headers = c->otlp_headers, .service = c->otlp_service};

    *ret = NULL;
    return c->traces_keep && config.endpoint ? otlp_new(&config, courier, ret, err) : 0;
}

static int make_courier(const struct services_config *c, struct courier **ret, struct err *err)
{
    return courier_new(&c->courier, ret, err) < 0 ? err_wrap(err, "CAY_WEBHOOK_ALLOW") : 0;
}

int services_check(const struct services_config *config, struct err *err)
{
    struct courier *courier;
    struct otlp *otlp;
    int r;

    if (make_courier(config, &courier, err) < 0)
        return -1;
    r = make_otlp(config, courier, &otlp, err);
    if (r == 0)
        otlp_free(otlp);
    courier_free(courier);
    return r;
}

static int open_traces(struct services *s, struct err *err)
{
    if (s->config->traces_keep == 0)
        return 0;
    s->traces = traces_open(s->config->data_dir, s->config->traces_keep);
    if (make_otlp(s->config, s->courier, &s->otlp, err) < 0)
        return -1;
    if (!s->otlp)
        return 0;
    traces_listen(s->traces, otlp_take, s->otlp);
    return 0;
}

static int open_alerts(struct services *s, struct err *err)
{
    const struct alerts_config config = {.data_dir = s->config->data_dir,
                                         .engine = s->engine,
                                         .events = s->events,
                                         .interval_s = s->config->alert_interval_s};

    return alerts_open(&config, &s->alerts, err) < 0 ? err_wrap(err, "alerts") : 0;
}

static int open_audit(struct services *s, struct err *err)
{
    const struct audit_config config = {.data_dir = s->config->data_dir,
                                        .file_mb = s->config->audit_file_mb,
                                        .files = s->config->audit_files};

    if (config.files == 0)
        return 0;
    return audit_open(&config, s->engine, &s->audit, err) < 0 ? err_wrap(err, "audit") : 0;
}

/* What the daemon does itself. */
static void audit_daemon(struct services *s, const char *word)
{
    struct audit_entry entry = {.who = "daemon",
                                .function = word,
                                .result = "ok",
                                .detail = "{\"version\":\"" CAY_VERSION "\"}"};

    if (s->audit)
        audit_write(s->audit, &entry);
}

int services_open(struct services *s, const struct services_config *config, struct engine *engine,
                  struct err *err)
{
    *s = (struct services){.config = config, .engine = engine};
    s->node = node_new(engine, config->data_dir);
    s->interpreter = interpreter_new(config->run_stop_ms);
    if (engine)
        engine_pool_helper(engine, driver_waiting_argv);
    if (open_events(s, err) < 0 || open_alerts(s, err) < 0)
        return -1;
    if (make_courier(config, &s->courier, err) < 0)
        return -1;
    if (webhooks_open(config->data_dir, &config->webhooks, s->events, s->courier, &s->webhooks,
                      err) < 0)
        return err_wrap(err, "webhooks");
    if (keys_open(config->data_dir, engine, &s->keys, err) < 0)
        return -1;
    if (open_traces(s, err) < 0)
        return -1;
    if (config->usage_interval_s > 0)
        s->usage = usage_new(engine, config->usage_interval_s);
    if (open_audit(s, err) < 0)
        return -1;
    if (tokens_open(config->data_dir, config->max_tokens, &s->tokens, err) < 0)
        return -1;
    if (queue_open(config->data_dir, &config->queue, engine, s->events, &s->queue, err) < 0)
        return -1;
    return 0;
}

int services_start(struct services *s, struct err *err)
{
    audit_daemon(s, "daemon.started");
    keys_start(s->keys);
    if (interpreter_start(s->interpreter, err) < 0)
        return -1;
    if (alerts_start(s->alerts, err) < 0)
        return -1;
    if (courier_start(s->courier, err) < 0 || webhooks_start(s->webhooks, err) < 0)
        return -1;
    events_publish(s->events, "daemon.started", "", json_pack("{s:s}", "version", CAY_VERSION));
    if (s->otlp && otlp_start(s->otlp, err) < 0)
        return -1;
    if (s->traces && traces_start(s->traces, err) < 0)
        return -1;
    if (s->usage && usage_start(s->usage, err) < 0)
        return -1;
    if (queue_start(s->queue, err) < 0)
        return -1;
    return 0;
}

void services_stop(struct services *s)
{
    alerts_stop(s->alerts);
    audit_daemon(s, "daemon.stopping");
    usage_stop(s->usage);
    traces_stop(s->traces);
    otlp_stop(s->otlp);
    webhooks_stop(s->webhooks);
    queue_stop(s->queue);
    interpreter_stop(s->interpreter);
    courier_stop(s->courier);
    if (s->events)
        events_publish(s->events, "daemon.stopping", "", NULL);
}

void services_close(struct services *s)
{
    queue_close(s->queue);
    interpreter_free(s->interpreter);
    webhooks_close(s->webhooks);
    courier_free(s->courier);
    alerts_close(s->alerts);
    node_free(s->node);
    keys_close(s->keys);
    events_close(s->events);
    usage_free(s->usage);
    traces_close(s->traces);
    tokens_close(s->tokens);
    otlp_free(s->otlp);
    audit_close(s->audit);
    memset(s, 0, sizeof(*s));
}
