#pragma once

struct err;
struct mcp_face;
struct mcp_op;
struct mcp_subscription;
struct mcp_watcher;

/* Subscriptions to resources: a function of the table that tells of changes (fs::watch, or the
 * events of a sandbox) runs for each, and one thread looks after all of them. */

struct mcp_watcher *mcp_watcher_new(void);
void mcp_watcher_free(struct mcp_watcher *w);

/* As struct mcp_resources has them; arg is the face. */
int mcp_watch_begin(void *arg, struct mcp_op *op, struct mcp_subscription *sub, struct err *err);
void mcp_watch_end(void *arg, struct mcp_subscription *sub);
