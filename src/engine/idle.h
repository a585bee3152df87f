#pragma once

#include <jansson.h>
#include <stdint.h>

struct engine;
struct err;

/* A sandbox with an idle time (struct sandbox_request) is stopped, for the reason "idle", when
 * nothing has been done with it for that long. What counts: commands that are started or attached
 * to, and those that run without waiting for anybody's input; calls on its files, processes and
 * environment; bytes to and from its ports; and who says so here. Its entrypoint does not count. A
 * sandbox that is paused is not idle, and begins anew when it goes on; so it does when the daemon
 * starts. One that was made so (idle_removes) is removed instead, for the same reason. */

/* Something is done with it. Fine if there is none of that id. */
void engine_active(struct engine *e, const char *id);
/* When that was last: Unix milliseconds; 0 when there is none of that id. */
int64_t engine_last_active(struct engine *e, const char *id);
/* The same as a call of its own, of one that runs or is paused: Sandbox. */
int engine_touch(struct engine *e, const char *id, json_t **ret, struct err *err);
