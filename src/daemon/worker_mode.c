#include "daemon/worker_mode.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "daemon/config.h"
#include "iii/link.h"

#define DRAIN_MS    2000 /* an engine that ends us waits for three seconds */
#define BACK_OFF_MS 1000 /* until a lost engine is dialled again, at first */

int worker_start(struct worker_mode *w, const struct link_config *config, struct iii_hub *hub,
                 const char *run, struct err *err)
{
    auto_free char *token = NULL;
    char *headers[2] = {NULL, NULL};
    struct iii_link_config link = {.url = config->url,
                                   .headers = headers,
                                   .name = config->name,
                                   .namespace = config->namespace,
                                   .isolation = getenv("III_ISOLATION"),
                                   .extra = config->extra,
                                   .standby = config->standby,
                                   .standby_ms = config->retry_ms,
                                   .back_off_ms = config->retry_ms < BACK_OFF_MS ? config->retry_ms
                                                                                 : BACK_OFF_MS,
                                   .memory_dir = run};

    if (!config->url)
        return 0;
    if (config->token) {
        token = xasprintf("Authorization: Bearer %s", config->token);
        headers[0] = token;
    }
    if (iii_link_new(hub, &link, &w->link, err) < 0)
        return -1;
    return iii_link_start(w->link, err);
}

void worker_stop(struct worker_mode *w)
{
    if (!w->link)
        return;
    iii_link_drain(w->link, DRAIN_MS);
    iii_link_stop(w->link);
}

void worker_done(struct worker_mode *w)
{
    iii_link_free(steal_ptr(w->link));
}
