#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "engine/agent_wait_internal.h"
#include "engine/drain_internal.h"
#include "engine/main_state_internal.h"
#include "engine/network_internal.h"
#include "engine/turn_internal.h"
#include "model/sandbox.h"
#include "runtime/runtime.h"

struct engine;
struct err;
struct exposed;
struct named;
struct sandbox_maker;
struct sandbox_pick;

enum helper { HELPER_NONE, HELPER_FREE, HELPER_TAKEN };

/* One sandbox as the engine knows it. engine_internal.h says in which order its locks are taken. */
struct sandbox {
    struct engine *engine;
    atomic_uint refs;
    uint64_t serial; /* its place in the order of making, never 0; by this the reaper's watcher
                        knows it: a pointer could be of a freed one */
    bool placed;     /* it counts towards CAY_MAX_SANDBOXES; protected by the roster's lock */
    char *tenant;    /* struct sandbox_maker; NULL = none; set before others know of it */
    struct sandbox *prev, *next, *bucket_next; /* of the roster, and protected by its lock; */
    struct sandbox *name_prev, *name_next;     /* so are those that share its name */
    struct named *named;                       /* NULL = it has none */
    struct sandbox *ended_next;                /* in the watcher's list */
    struct sandbox *quiet_next;                /* in that of quiet.c, under its lock */
    bool quiet_listed;

    /* The destroyer's: its queue, how often it has tried, and when it does again. */
    struct sandbox *doomed_next;
    unsigned attempts;
    int64_t again_ns;

    struct turn env_turn, turn, commit_turn;
    pthread_mutex_t lock;

    _Atomic int64_t active_ns; /* when something was last done with it (idle_internal.h) */

    /* What it had before it was asked for (warm_internal.h). */
    enum { WARM_NOTHING, WARM_BOX, WARM_DIRS /* and a box */ } warm;

    /* Of what came with the box (warm_helper.c): is there such, and has somebody taken it? */
    _Atomic(enum helper) helper;

    /* Fixed from the moment it is in the roster, but for pid, pid_start and started_ns, which
     * change when a box comes up or goes. */
    struct box box;
    int64_t created_ms, started_ns;
    char *boot_id;
    char *image_id; /* a restore changes it, in its turn and its commit_turn, under lock */
    char **image_env;
    char *image_user;
    char **images_before; /* what image_id was, for who may still look at it */
    size_t n_images_before;
    int stop_signal; /* what asks the main process to end */

    /* Protected by lock. Who changes state, reason or expiry also has turn. */
    struct sandbox_spec spec; /* what modify.c and others change, in turn; the rest is fixed */
    enum sandbox_state state;
    uint32_t pauses; /* how often it has got paused, or stopped */
    char *reason;
    int64_t expires_ms, deadline_ns;
    enum sandbox_state noted; /* its state in the row that was last handed to the writer */
    bool sealed;              /* the row that says removing was handed to the writer */
    int watched_fd;           /* in the watcher's epoll set; -1 = not */
    /* An interrupt of all execs that waits in the agent's socket, and in which pause. Changed in
     * its turn. */
    int interrupt_fd; /* -1 = there is none */
    uint32_t interrupt_pause;
    /* A commit reads its disk, so its processes stand still whatever its state says, and its box is
     * not destroyed before that ends. Changed in its turn. */
    bool committing;
    atomic_bool commit_off; /* and is to end, since the sandbox is being removed */
    uint32_t boots;         /* how many boxes it has had; changed in its turn too */
    int64_t life_ms;        /* of one that is stopped: when it would have expired */
    int64_t stopped_ms;     /* when it was stopped last */
    struct drain drain;     /* how it comes to stop by and by */
    /* While it is stopped: what is there of a box, and until when (quiet.c)? Changed in its turn.
     */
    enum {
        QUIET_NOTHING,
        QUIET_REST,  /* what has not ended or not come up: nobody can use it */
        QUIET_READY, /* all is made ahead for a start, and nothing of it runs */
        QUIET_BOX,   /* one for its files */
    } quiet;
    bool ready_wanted;
    int64_t quiet_until_ns;
    unsigned visits;     /* calls on its files that are under way, also while it runs */
    atomic_uint uploads; /* of them, those whose client has not sent all */
    uint64_t oom_seen;
    struct main_state main;
    uint64_t sample_cpu_ns;
    int64_t sample_ns;
    double cpu_percent;

    /* Only its create uses these. With unfinished in its row a later start removes it: what the
     * create does beyond its box cannot be caught up on. */
    const json_t *patches; /* the caller's; NULL = none */
    atomic_bool unfinished;
    bool passing; /* see struct sandbox_request; set before others know of it */

    uint32_t promised_mb; /* of the host's disk (space_internal.h); set before others know of it */
    /* Of the thread that watches the host's disk, in bytes: what was used of the disk when it last
     * looked and when the host's disk became low, how much of that the host has not given yet, up
     * to where it may be used; and when it was last seen to write. */
    uint64_t disk_used, disk_mark, disk_debt, lease;
    int64_t wrote_ns;
    int64_t starved_ns;  /* when it was paused last for want of room */
    uint32_t disk_boots; /* of which box all that is */

    struct sandbox_net net;   /* so has this */
    struct agent_waits waits; /* and this */
    /* Its ports on the host; NULL = none. Changed in its turn, under the forwarder's lock. */
    struct exposed *exposed;
};

/* With one reference, which is the caller's. */
struct sandbox *sandbox_alloc(struct engine *e, const struct box *box);
struct sandbox *sandbox_ref(struct sandbox *sb);
void sandbox_unref(struct sandbox *sb);

static inline void cleanup_sandboxp(struct sandbox **sb)
{
    sandbox_unref(*sb);
}
#define auto_sandbox __attribute__((cleanup(cleanup_sandboxp)))

/* A new reference; ERR_NOT_FOUND for an unknown id. */
int sandbox_get(struct engine *e, const char *id, struct sandbox **ret, struct err *err);
/* ERR_CONFLICT "Sandbox is not running: …" unless it is; ERR_UNAVAILABLE "sandbox_busy" when a
 * commit keeps it still for longer than some seconds. */
int sandbox_get_running(struct engine *e, const char *id, struct sandbox **ret, struct err *err);
/* The same at once, however short the commit is. */
int sandbox_get_running_now(struct engine *e, const char *id, struct sandbox **ret,
                            struct err *err);
int sandbox_check_running(struct sandbox *sb, struct err *err);
bool sandbox_is_committing(struct sandbox *sb);
bool sandbox_is_paused(struct sandbox *sb);
bool sandbox_is_stopped(struct sandbox *sb);
/* The reason of a sandbox that was stopped because its time was over. */
#define REASON_EXPIRED "expired"
/* Is it stopped for that reason? Such a sandbox is removed when its name or its room is needed. */
bool sandbox_is_expired(struct sandbox *sb);
/* True when the sandbox is among those that pick selects; pick NULL selects all. */
bool sandbox_is_picked(struct sandbox *sb, const struct sandbox_pick *pick);
/* Is it removed for a new sandbox of its name that this maker makes? */
bool sandbox_yields_name(struct sandbox *sb, const struct sandbox_maker *maker);
/* Paused or stopped: nothing of its own runs. */
bool sandbox_is_still(struct sandbox *sb);
/* Tells one time that it stands still from another; 0 = it does not. Its logs stay as they are in
 * one. */
uint32_t sandbox_pause(struct sandbox *sb);
/* As sandbox_check_running(), but one that is stopped and has a box for its files will do. */
int sandbox_check_box(struct sandbox *sb, struct err *err);
/* Running, paused or stopped: what it has can be looked at, if not used. */
int sandbox_check_there(struct sandbox *sb, struct err *err);
/* -1 with ERR_UNAVAILABLE "sandbox_busy", for those who cannot wait for that. */
int sandbox_stands_still(struct err *err);
/* The caller has turn. Nothing else writes a state; reason is copied. */
int sandbox_move(struct sandbox *sb, enum sandbox_state to, const char *reason, struct err *err);
/* As they are now. */
struct sandbox_limits sandbox_limits(struct sandbox *sb);
/* "paused", "stopped (agent_lost)"; free it. */
char *sandbox_status(struct sandbox *sb);
json_t *sandbox_json(const struct engine *e, struct sandbox *sb);
void sandbox_set_expiry(struct sandbox *sb, int64_t now, int64_t expires_ms);
