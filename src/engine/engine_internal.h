#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "engine/engine.h"
#include "engine/news.h"
#include "engine/signing_internal.h"

struct destroyer;
struct drains;
struct forwarder;
struct gateway;
struct images_used;
struct network;
struct image_policy;
struct prepared;
struct pulls;
struct quiet;
struct reaper;
struct roster;
struct flattener;
struct snapshots;
struct space;
struct build_cache;
struct templates;
struct troubles;
struct volumes;
struct networks;
struct warm;
struct writer;

/* Locks, in the order in which they may be taken:
 *  0. engine.strays_lock: disks without an owner. Held while one becomes a sandbox or goes.
 *  1. sandbox.env_turn: changes of its environment and of its metadata take turns.
 *  2. sandbox.commit_turn: one commit at a time.
 *  3. sandbox.turn: create, pause, resume, renew, remove, death and the two ends of a commit take
 * turns. Blocking work is done under it, but nothing that takes long by its nature, as an export
 * does, and nothing that waits for an agent that runs someone's code. The threads that look after
 * all sandboxes (sweeper, watcher, that of the host's disk) do not wait for a turn that another
 * has.
 * Then volumes.changing, volume.opening and volumes.lock, in this order; the last is short. Beside
 * them networks.changing, under which a row is written.
 *  4. engine.roster.lock: which sandboxes exist. Never held during blocking work.
 *  5. sandbox.lock: its fields. Short; nothing blocks under it.
 * The forwarder's lock comes between 4 and 5: which ports listen.
 * The queues (writer, prepared, destroyer, pulls), images_used, troubles, space and agent_waits
 * have locks of their own, below all of these. Those of the warm pool come before 4: it asks how
 * many more sandboxes there may be. */

struct engine {
    struct engine_config config;
    char *default_image, *workspace, *data_dir, *pool_profiles; /* what config points to */
    struct image_policy *policy;
    struct store *store;
    struct image_store *images;
    struct runtime *runtime;
    char boot_id[40];
    unsigned char signing_key[SIGNING_KEY_BYTES]; /* fixed once it is open */
    int64_t start_ns;
    engine_listener listener; /* engine/news.h; fixed once it is started */
    void *listener_arg;
    atomic_bool draining;                  /* about to end: what can go on without us shall */
    atomic_llong created, killed, expired; /* sandboxes, since the database was made */
    atomic_bool unknown_images;     /* there are boxes or disks of which nobody knows the image */
    bool images_in_doubt;           /* or documents; since the start */
    pthread_mutex_t strays_lock;    /* disks without an owner are dealt with one at a time */
    atomic_uint long_work, workers; /* threads that are in it; those of them with a worker */

    /* Each is the business of one file, which says what it holds. */
    struct roster *roster;
    struct images_used *images_used;
    struct pulls *pulls;
    struct writer *writer;
    struct prepared *prepared;
    struct warm *warm;
    struct reaper *reaper;
    struct quiet *quiet;
    struct drains *drains;
    struct snapshots *snapshots;
    struct flattener *flattener;
    struct space *space;
    struct destroyer *destroyer;
    struct troubles *troubles;
    struct templates *templates;
    struct build_cache *build_cache;
    struct volumes *volumes;
    struct networks *networks;
    struct gateway *gateway;
    struct network *network;
    struct forwarder *forwarder;
};
