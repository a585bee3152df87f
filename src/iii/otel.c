#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "functions/callers.h"
#include "http/server.h"
#include "http/websocket.h"
#include "iii/peer.h"

/* Clients send what they measured of themselves to a socket of its own, and expect no answer; it is
 * thrown away. A door that is not there they would try again for ever. */

#define AT_ONCE  64         /* messages; epoll tells of the rest */
#define OTEL_MAX (1u << 20) /* bytes of one */

struct otel {
    struct iii_hub *hub;
    struct websocket *ws;
    struct iii_intake intake;
    char token_id[ID_SIZE];
};

static void otel_free(struct otel *o)
{
    iii_intake_give(&o->intake);
    websocket_free(o->ws);
    free(o);
}

static bool on_news(struct http_req *req, unsigned news, struct http_wait *wait, void *arg)
{
    struct otel *o = arg;
    struct websocket_message m;
    int r = 1;

    for (int i = 0; i < AT_ONCE && r > 0; i++) {
        r = websocket_next(o->ws, &m);
        if (r > 0)
            iii_intake_taken(&o->intake, o->ws);
    }
    if ((news & HTTP_DRAIN) && http_unsent(req) == 0)
        websocket_close(o->ws, WEBSOCKET_RESTART, "the daemon ends");
    if ((news & (HTTP_GONE | HTTP_DRAIN)) || r < 0 || websocket_keep_alive(o->ws, true) < 0 ||
        !caller_token_live(o->hub->config.services, o->token_id)) {
        otel_free(o);
        return false;
    }
    *wait = (struct http_wait){.fd = -1,
                               .input = websocket_takes(o->ws),
                               .until_ns = r > 0 ? 1 : websocket_ping_ns(o->ws)};
    return true;
}

bool iii_handle_otel(struct http_req *req, const struct caller *caller, struct rates *rates,
                     const struct rate_state *rate, void *arg)
{
    struct websocket *ws = iii_socket_accept(req, OTEL_MAX);
    struct http_wait wait;
    struct err err = {0};
    struct otel *o;

    (void)rates;
    (void)rate;
    if (!ws)
        return true;
    o = xcalloc(1, sizeof(*o));
    o->hub = arg;
    o->ws = ws;
    o->intake.memory = o->hub->config.memory;
    websocket_set_room(ws, iii_intake_room, &o->intake);
    (void)snprintf(o->token_id, sizeof(o->token_id), "%s", caller->token_id);
    wait = (struct http_wait){.fd = -1, .input = true, .until_ns = websocket_ping_ns(ws)};
    if (http_park(req, &wait, on_news, o, &err) < 0)
        otel_free(o);
    return true;
}
