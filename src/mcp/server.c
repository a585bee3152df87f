#include "mcp/server.h"

#include "base/mem.h"
#include "mcp/mcp_internal.h"

struct mcp_server *mcp_server_new(const struct mcp_config *config,
                                  const struct mcp_providers *providers)
{
    struct mcp_server *s = xcalloc(1, sizeof(*s));

    s->config = *config;
    s->providers = providers;
    (void)pthread_mutex_init(&s->lock, NULL);
    return s;
}

void mcp_server_free(struct mcp_server *s)
{
    if (!s)
        return;
    while (s->sessions)
        mcp_session_end(s, s->sessions);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

const struct mcp_limits *mcp_server_limits(const struct mcp_server *s)
{
    return &s->config.limits;
}
