#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct engine;
struct err;
struct sandbox;

/* How a sandbox is stopped while nobody's thread waits for what that takes: one that is drained,
 * one whose entrypoint has much time to end, and one that is idle. One thread goes through all of
 * them, some times a second, and takes with each the step that it has come to:
 *
 *  1. Of one that seems idle: do commands run in it, which only its agent knows? Then it is not.
 *     From here on it takes no new commands ("sandbox_draining").
 *  2. Commands go on until they have ended, or until a time. Those that wait for somebody's input
 *     (a terminal, a context of the interpreter) count while somebody is attached to them.
 *  3. The entrypoint is asked to end, and has a time for that.
 *  4. It is stopped, or, if it is idle and was made so, removed.
 *
 * A sandbox whose time is over begins with step 3.
 *
 * That it is being drained is in its row, so that the next daemon goes on with it. */

struct drain {
    enum drain_step { DRAIN_NOT, DRAIN_IDLE, DRAIN_COMMANDS, DRAIN_MAIN, DRAIN_STOP } step;
    enum drain_why {
        DRAIN_REQUESTED,
        DRAIN_IS_IDLE, /* these two are in no row */
        DRAIN_EXPIRED,
    } why;
    int64_t until_ms; /* of step 2; 0 = no time */
    int64_t until_ns;
    uint32_t grace_ms; /* of step 3 */
    int64_t grace_until_ns;
    /* Of the thread's list, under its lock. */
    bool listed;
    struct sandbox *next;
};

struct drains;

struct drains *drains_new(void);
void drains_free(struct drains *d);
int drains_start(struct engine *e, struct err *err);
void drains_stop(struct engine *e);

/* One that seems idle: the thread looks. */
void drain_idle(struct engine *e, struct sandbox *sb);
/* One whose time is over. False when it is about to stop already. */
bool drain_expired(struct engine *e, struct sandbox *sb);
/* Has it got more time since it began to stop because its time was over? Then it runs on, unless
 * its entrypoint was asked to end. */
bool drain_was_renewed(struct sandbox *sb);
/* In its turn: it runs on, and takes commands. True = it did not before; the row is the caller's.
 */
bool drain_clear(struct sandbox *sb);
/* With its lock held: what its row says of that, or NULL. */
json_t *drain_json(const struct sandbox *sb);
/* At a start: what the row said, or NULL; and that it runs. */
void drain_load(struct sandbox *sb, const json_t *said);
void drain_recover(struct engine *e, struct sandbox *sb);
/* With its lock held: does it take no commands any more? */
bool drain_refuses(const struct sandbox *sb);
/* ERR_CONFLICT "sandbox_draining" when it takes no commands any more. */
int drain_check(struct sandbox *sb, struct err *err);
