/* Messages of MCP, a line each, to an engine with providers of tests, in every revision. What is
 * answered has the id that was asked with, and a result or an error, never both; the query that
 * chooses tools is the first line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/mcp_fixture.h"
#include "functions/input.h"
#include "mcp/mcp_internal.h"

#define STEPS_MAX 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static bool throw_away(struct mcp_op *op, json_t *message)
{
    (void)op;
    require(json_is_string(json_object_get(message, "method")));
    json_decref(message);
    return true;
}

static void ask(struct mcp_server *s, struct mcp_session *session, struct mcp_client *client,
                enum mcp_version version, const struct rpc_message *m)
{
    struct mcp_op *op = mcp_op_new(s, session, client, version, m);
    enum mcp_state state;

    op->send = throw_away;
    if (session)
        require(mcp_session_enter(session, op, NULL) == 0);
    state = mcp_op_begin(op);
    for (int i = 0; i < STEPS_MAX && state != MCP_DONE; i++)
        state = mcp_op_step(op);
    if (state == MCP_DONE) {
        require(json_equal(json_object_get(op->answer, "id"), m->id));
        require(!json_object_get(op->answer, "result") != !json_object_get(op->answer, "error"));
    }
    if (session)
        mcp_session_exit(op);
    mcp_op_free(op);
}

static void take(struct mcp_server *s, struct mcp_client *client, const char *line, size_t len)
{
    json_t *message = input_parse(line, len, NULL);
    struct rpc_message m;

    for (int v = 0; v < MCP_VERSIONS && message; v++) {
        struct mcp_session *session = NULL;

        if (v < MCP_2026_07)
            session =
                mcp_session_new(s, &client->caller, (enum mcp_version)v, client->choice, NULL);
        switch (rpc_read(message, &m)) {
        case RPC_REQUEST:
            if (session || strcmp(m.method, "initialize") != 0)
                ask(s, session, client, (enum mcp_version)v, &m);
            break;
        case RPC_NOTIFICATION:
            if (session)
                mcp_notified(s, session, &m);
            break;
        case RPC_RESPONSE:
            if (session)
                mcp_session_reply(s, session, &m);
            break;
        case RPC_NEITHER:
            break;
        }
        if (session)
            mcp_session_leave(s, session);
    }
    json_decref(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mcp_config config = {
        .name = "fuzz", .title = "fuzz", .version = "1", .limits = MCP_LIMITS_DEFAULT};
    struct mcp_choice choice;
    struct mcp_client client = {.caller = {.face = "mcp", .name = "me"}, .choice = &choice};
    struct mcp_server *s;
    auto_free char *text = xstrndup((const char *)data, size);
    char *rest = text, *query = strsep(&rest, "\n");

    if (mcp_choice_read(&choice, query, NULL) < 0)
        return 0;
    config.limits.sessions = 4;
    s = mcp_server_new(&config, &fixture_providers);
    for (char *line; (line = strsep(&rest, "\n"));)
        take(s, &client, line, strlen(line));
    mcp_server_free(s);
    mcp_choice_done(&choice);
    return 0;
}
