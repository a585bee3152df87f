#pragma once

struct err;
struct iii_hub;
struct iii_link;
struct link_config;

/* The daemon as the worker of an engine. */

struct worker_mode {
    struct iii_link *link; /* NULL = it is none */
};

/* Nothing where no engine is named. run: the folder of sockets. */
int worker_start(struct worker_mode *w, const struct link_config *config, struct iii_hub *hub,
                 const char *run, struct err *err);
/* Calls that run have a moment to end, and new ones are refused; then it hangs up. Before the hub
 * stops. */
void worker_stop(struct worker_mode *w);
/* After it has. */
void worker_done(struct worker_mode *w);
