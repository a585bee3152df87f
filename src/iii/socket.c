#include <string.h>

#include "base/budget.h"
#include "base/err.h"
#include "base/mem.h"
#include "functions/errors.h"
#include "http/server.h"
#include "http/websocket.h"
#include "iii/peer.h"

/* What the WebSockets of clients have in common: how they begin, and memory for what they send. */

#define FREE_MESSAGE (64u << 10) /* what the budget is not asked for */

/* ---- the handshake ---- */

void iii_socket_refuse(struct http_req *req, const struct err *err)
{
    json_t *body = error_told(err, http_req_method(req), http_req_path(req));
    auto_free char *text = json_dumps(body, JSON_COMPACT);

    if (err->code && strcmp(err->code, "upgrade_required") == 0)
        http_reply_header(req, "Upgrade", "websocket");
    http_reply(req, error_status(err->kind), "application/json", text, strlen(text));
    json_decref(body);
}

struct websocket *iii_socket_accept(struct http_req *req, size_t message_max)
{
    struct err err = {0};

    if (websocket_check(req, &err) < 0 || http_seat_take(req, &err) < 0) {
        iii_socket_refuse(req, &err);
        return NULL;
    }
    return websocket_accept(req, http_req_header(req, "Sec-WebSocket-Key"), NULL, message_max);
}

/* ---- messages that come in ---- */

bool iii_intake_room(void *arg, size_t bytes)
{
    struct iii_intake *in = arg;

    if (bytes <= FREE_MESSAGE || bytes <= in->held)
        return true;
    if (!budget_take(in->memory, bytes - in->held))
        return false;
    in->held = bytes;
    return true;
}

void iii_intake_give(struct iii_intake *in)
{
    budget_give(in->memory, in->held);
    in->held = 0;
}

/* The next may have begun with its last bytes, and was counted then. */
void iii_intake_taken(struct iii_intake *in, const struct websocket *ws)
{
    if (!websocket_has_part(ws))
        iii_intake_give(in);
}
