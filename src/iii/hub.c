#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "iii/iii_internal.h"
#include "iii/registry.h"
#include "iii/rows.h"

#define THREADS_MAX 192 /* calls that block: more wait for their turn */

struct iii_hub *iii_hub_new(const struct iii_config *config)
{
    struct iii_hub *hub = xcalloc(1, sizeof(*hub));

    hub->config = *config;
    hub->started_ms = now_ms();
    iii_uuid_new(hub->worker_id);
    hub->runner = runner_new(THREADS_MAX);
    hub->rows = iii_rows_new();
    hub->line = iii_line_new(hub, iii_engine_answer);
    hub->registry = iii_registry_new(hub);
    hub->channels = iii_channels_new(hub);
    return hub;
}

int iii_hub_start(struct iii_hub *hub, struct err *err)
{
    return runner_start(hub->runner, err);
}

void iii_hub_stop(struct iii_hub *hub)
{
    if (hub)
        runner_stop(hub->runner);
}

void iii_hub_free(struct iii_hub *hub)
{
    if (!hub)
        return;
    iii_registry_free(hub->registry);
    iii_channels_free(hub->channels);
    iii_line_free(hub->line);
    iii_rows_free(hub->rows);
    runner_free(hub->runner);
    free(hub);
}
