#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "http/server.h"
#include "mcp/mcp_internal.h"

/* The endpoint: POST takes messages, GET opens the stream of a session, DELETE ends one. */

void mcp_refuse(struct http_req *req, int status, int code, json_t *id, const char *text,
                json_t *data)
{
    json_t *message = rpc_error(id, code, text, data);
    auto_free char *body = json_dumps(message, MCP_DUMP);

    if (status == 503 || status == 429)
        http_reply_header(req, "Retry-After", "1");
    http_reply(req, status, "application/json", body, strlen(body));
    json_decref(message);
}

struct mcp_session *mcp_named_session(struct mcp_server *s, struct http_req *req,
                                      const struct caller *caller)
{
    const char *id = http_req_header(req, "Mcp-Session-Id");
    struct mcp_session *session;

    if (!id) {
        mcp_refuse(req, 400, RPC_REFUSED, NULL,
                   "the header Mcp-Session-Id is missing: begin with initialize, whose answer has "
                   "it, or speak revision 2026-07-28, which has no sessions",
                   NULL);
        return NULL;
    }
    session = mcp_session_find(s, caller, id);
    if (!session)
        mcp_refuse(req, 404, RPC_NO_SESSION, NULL,
                   "this session is not known (any more): begin anew with initialize", NULL);
    return session;
}

void mcp_event(struct buf *out, const char *text, uint64_t number)
{
    if (number)
        (void)buf_addf(out, "id: %llu\n", (unsigned long long)number);
    (void)buf_addf(out, "event: message\ndata: %s\n\n", text);
}

static void end_session(struct mcp_server *s, struct http_req *req, const struct caller *caller)
{
    struct mcp_session *session = mcp_named_session(s, req, caller);

    if (!session)
        return;
    mcp_session_end(s, session);
    mcp_session_leave(s, session);
    http_reply(req, 204, "application/json", "", 0);
}

static void open_stream(struct mcp_server *s, struct http_req *req, const struct caller *caller)
{
    const char *accept = http_req_header(req, "Accept");
    struct mcp_session *session;

    if (!accept || !strstr(accept, "text/event-stream")) {
        mcp_refuse(req, 406, RPC_REFUSED, NULL,
                   "this is an endpoint of the Model Context Protocol: a GET must accept "
                   "text/event-stream",
                   NULL);
        return;
    }
    session = mcp_named_session(s, req, caller);
    if (session)
        mcp_stream_run(s, req, caller, session);
}

/* Revisions without sessions have nothing but POST. */
static bool is_sessionless(const struct http_req *req)
{
    int version = mcp_version_of(http_req_header(req, "MCP-Protocol-Version"));

    return version >= MCP_2026_07;
}

bool mcp_handle(struct http_req *req, const struct caller *caller, struct rates *rates,
                const struct rate_state *rate, void *server)
{
    const char *method = http_req_method(req);
    struct mcp_server *s = server;

    if (strcmp(method, "POST") == 0) {
        mcp_exchange_run(s, req, caller, rates, rate);
    } else if (strcmp(method, "GET") == 0 && !is_sessionless(req)) {
        open_stream(s, req, caller);
    } else if (strcmp(method, "DELETE") == 0 && !is_sessionless(req)) {
        end_session(s, req, caller);
    } else {
        http_reply_header(req, "Allow", is_sessionless(req) ? "POST" : "GET, POST, DELETE");
        mcp_refuse(req, 405, RPC_REFUSED, NULL, "this endpoint takes no such method", NULL);
    }
    return true;
}
