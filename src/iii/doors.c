#include <string.h>

#include "http/server.h"
#include "iii/iii_internal.h"

bool iii_door_channel(struct http_req *req, const struct caller *caller, struct rates *rates,
                      const struct rate_state *rate, void *hub)
{
    const char *id = strrchr(http_req_path(req), '/') + 1;

    (void)caller;
    (void)rates;
    (void)rate;
    return iii_handle_channel(req, id, hub);
}

bool iii_door_http(struct http_req *req, const struct caller *caller, struct rates *rates,
                   const struct rate_state *rate, void *hub)
{
    (void)rates;
    (void)rate;
    return iii_handle_http(req, caller, hub);
}
